//! `ravelin explain`: why the daemon treats a program's traffic as it does.

use std::fmt::Write;

use api::{Decision, DropExplained, ExplainQuery, Explanation, SocketExplained, path};
use clap::Args;
use clap_complete::ArgValueCandidates;

use crate::client::Connect;
use crate::complete;
use crate::output;

/// Say which program, application, line and verdict stand behind a socket, and which association serves it.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("question").required(true))]
pub struct Explain {
    #[command(flatten)]
    connect: Connect,
    /// Every socket of this process.
    #[arg(long, group = "question")]
    pid: Option<u32>,
    /// The ends of one connection: LOCAL:PORT,REMOTE:PORT[/tcp|/udp].
    #[arg(long, group = "question", value_name = "4-TUPLE")]
    socket: Option<String>,
    /// What was refused or dropped, by the kernel half or the engine: a number, `last`, or `all` that is remembered.
    #[arg(long, group = "question", value_name = "ID|last|all")]
    drop: Option<String>,
    /// A flow that may never have been: the program, as the policy names it.
    #[arg(long, group = "question", value_name = "PROGRAM", requires = "to", add = ArgValueCandidates::new(complete::applications))]
    app: Option<String>,
    /// Its peer: 192.0.2.1:443/tcp, [2001:db8::1]:53/udp, 192.0.2.1/icmp.
    #[arg(long, value_name = "ADDRESS:PORT/PROTOCOL", requires = "app")]
    to: Option<String>,
    /// This host's port, where it is known.
    #[arg(long, value_name = "PORT", requires = "app")]
    from_port: Option<u16>,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub fn execute(self) -> anyhow::Result<()> {
        let query = ExplainQuery {
            pid: self.pid,
            socket: self.socket,
            drop: self.drop,
            app: self.app,
            to: self.to,
            from_port: self.from_port,
        };
        let explanation: Explanation = self.connect.get(&format!("{}?{}", path::EXPLAIN, encode(&query)))?;
        if self.json {
            return output::json(&explanation);
        }
        output::text(&text(&explanation))
    }
}

/// The question as a query string.
fn encode(query: &ExplainQuery) -> String {
    let numbers = [
        ("pid", query.pid.map(|pid| pid.to_string())),
        ("from_port", query.from_port.map(|port| port.to_string())),
    ];
    let texts = [("socket", &query.socket), ("drop", &query.drop), ("app", &query.app), ("to", &query.to)];
    let all = numbers.into_iter().chain(texts.map(|(name, text)| (name, text.clone())));
    crate::client::query(all)
}

fn text(explanation: &Explanation) -> String {
    let mut out = String::new();
    if let Some(process) = &explanation.process {
        let name = process.executable.as_deref().or(process.comm.as_deref()).unwrap_or("(unknown program)");
        let _ = writeln!(out, "process {} {name}", process.pid);
        match &process.application {
            None if process.refused => out.push_str(
                "  refused every peer: its file is not known to be what the policy says, or was not when it was executed\n",
            ),
            Some(app) => {
                let block = app.block.as_ref().map_or_else(String::new, |at| format!(", block at {at}"));
                let _ = writeln!(out, "  application {} (id {}){block}", app.name, app.id);
            }
            None => out
                .push_str("  no application block names this program: its traffic is clear (host default)\n"),
        }
        if explanation.sockets.is_empty() {
            out.push_str("  no internet sockets\n");
        }
    }
    for pin in &explanation.pins {
        let _ = writeln!(out, "  pinned {}: {}", pin.path, pin.text);
    }
    for socket in &explanation.sockets {
        out.push_str(&socket_text(socket));
    }
    for refused in &explanation.drops {
        out.push_str(&drop_text(refused));
    }
    if out.is_empty() { "nothing was refused since the daemon started\n".to_owned() } else { out }
}

fn drop_text(refused: &DropExplained) -> String {
    let remote = refused.flow.remote.as_deref().unwrap_or("*");
    let mut out = format!(
        "drop {} at {}: {} {} to or from {remote}",
        refused.id, refused.time, refused.flow.protocol, refused.attempt
    );
    let _ = match (refused.comm.as_deref(), refused.pid, refused.uid) {
        (Some(comm), Some(pid), Some(uid)) => writeln!(out, "  ({comm}, pid {pid}, uid {uid})"),
        _ => writeln!(out),
    };
    if refused.observed {
        out.push_str(
            "  observed     it was let pass: the network is only watched, and it would have been refused\n",
        );
    }
    let _ = match &refused.application {
        Some(app) => writeln!(out, "  application  {} (id {})", app.name, app.id),
        None => writeln!(out, "  application  none"),
    };
    let _ =
        writeln!(out, "  reason       {}: {}", refused.reason, refused.text.as_deref().unwrap_or_default());
    if let Some(decision) = &refused.decision {
        out.push_str(&decision_text(decision));
    }
    out
}

fn socket_text(socket: &SocketExplained) -> String {
    let mut out = String::new();
    let flow = &socket.flow;
    let side = |side: &Option<String>| side.clone().unwrap_or_else(|| "*".to_owned());
    let state = socket.state.as_ref().map_or_else(String::new, |s| format!(" {s}"));
    let _ = write!(out, "{} {} -> {}{state}", flow.protocol, side(&flow.local), side(&flow.remote));
    let owner = (socket.comm.as_deref(), socket.pid, socket.fd);
    let _ = match owner {
        (Some(comm), Some(pid), Some(fd)) => writeln!(out, "  ({comm}, pid {pid}, fd {fd})"),
        (_, Some(pid), _) => writeln!(out, "  (pid {pid})"),
        _ => writeln!(out),
    };
    let _ = match &socket.application {
        Some(app) => writeln!(out, "  application  {} (id {})", app.name, app.id),
        None => writeln!(out, "  application  none"),
    };
    match &socket.decision {
        Some(decision) => out.push_str(&decision_text(decision)),
        None => out.push_str("  verdict      depends on the peer (not connected)\n"),
    }
    let _ = writeln!(out, "  effect       {}", socket.effect);
    for sa in socket.sa_out.iter().chain(&socket.sa_in) {
        let class = sa.class.as_ref().map_or_else(String::new, |class| format!(", class {class}"));
        let _ = writeln!(
            out,
            "  sa {:<9} {} {} {}{class}, sequence {}, {} packets, {}",
            sa.direction.to_string(),
            sa.spi,
            output::suite(sa),
            sa.mode,
            sa.sequence,
            sa.counters.packets,
            output::octets(sa.counters.bytes)
        );
    }
    out
}

/// The verdict and the lines behind it, shared with `policy explain`.
pub fn decision_text(decision: &Decision) -> String {
    let mut out = String::new();
    let how = match (&decision.service, &decision.level) {
        (Some(service), Some(level)) => format!(" ({service} {level})"),
        _ => String::new(),
    };
    let _ = writeln!(out, "  verdict      {}{how}", decision.verdict);
    for (name, at) in [("block", &decision.block), ("network", &decision.network), ("item", &decision.item)] {
        if let Some(at) = at {
            let _ = writeln!(out, "  {name:<12} {at}: {}", at.text);
        }
    }
    if let Some(class) = &decision.class {
        let _ = writeln!(out, "  class        {class}");
    }
    for why in &decision.why {
        let _ = writeln!(out, "  why          {why}");
    }
    for note in &decision.notes {
        let _ = writeln!(out, "  note         {note}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuple_becomes_a_query() {
        let query =
            ExplainQuery { socket: Some("[::1]:5,192.0.2.1:80/tcp".into()), ..ExplainQuery::default() };
        assert_eq!(encode(&query), "socket=%5B%3A%3A1%5D%3A5%2C192.0.2.1%3A80%2Ftcp");
        let query = ExplainQuery {
            app: Some("/usr/bin/a b".into()),
            to: Some("192.0.2.1/icmp".into()),
            from_port: Some(9),
            ..ExplainQuery::default()
        };
        assert_eq!(encode(&query), "from_port=9&app=%2Fusr%2Fbin%2Fa+b&to=192.0.2.1%2Ficmp");
    }
}
