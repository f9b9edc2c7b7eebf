//! `ravelin flows`: what the kernel half counts flow by flow.

use std::fmt::Write;
use std::time::Duration;

use api::{Amount, CountedFlows, FlowInitiator, FlowRecord, path};
use clap::Args;
use clap_complete::ArgValueCandidates;

use crate::client::Ask;
use crate::complete;
use crate::output;

/// How often `--follow` looks.
const EVERY: Duration = Duration::from_secs(1);

/// Show the flows of programs with what each came to: clear, authenticated, encrypted, refused, as the kernel half counts it.
/// Needs [flows] in the configuration.
#[derive(Debug, Args)]
pub struct Flows {
    #[command(flatten)]
    ask: Ask,
    /// Only flows of this application, or of this program without a policy.
    #[arg(long, value_name = "APPLICATION", add = ArgValueCandidates::new(complete::applications))]
    app: Option<String>,
    /// Only flows with this peer: an address or a prefix.
    #[arg(long, value_name = "ADDRESS[/LENGTH]")]
    peer: Option<String>,
    /// Flows that have ended lately as well, the last 4096 at most.
    #[arg(long)]
    ended: bool,
    /// A line for each flow that ends, as it ends, until interrupted; with --json an object a line.
    #[arg(long, conflicts_with = "ended")]
    follow: bool,
}

impl Flows {
    pub fn execute(self) -> anyhow::Result<()> {
        if self.follow {
            return self.watch();
        }
        let flows = self.look(self.ended.then_some(0))?;
        self.ask.show(&flows, text)
    }

    fn look(&self, after: Option<u64>) -> anyhow::Result<CountedFlows> {
        let after = after.map(|number| number.to_string());
        let fields = [("app", self.app.clone()), ("peer", self.peer.clone()), ("after", after)];
        self.ask.connect.get(&format!("{}?{}", path::FLOWS_COUNTED, crate::client::query(fields)))
    }

    fn watch(&self) -> anyhow::Result<()> {
        let mut last = self.look(None)?.last;
        loop {
            std::thread::sleep(EVERY);
            let now = self.look(Some(last))?;
            // A daemon that came anew counts from 1.
            last = if now.last < last { 0 } else { now.last };
            for record in &now.ended {
                if self.ask.json {
                    output::line(record)?;
                } else {
                    output::text(&line(record))?;
                }
            }
        }
    }
}

/// The application, or the program in brackets where no policy speaks for it.
fn name_of(record: &FlowRecord) -> String {
    match (&*record.application, &record.program) {
        ("", Some(program)) => format!("({program})"),
        ("", None) => "(no policy)".to_owned(),
        (application, _) => application.to_owned(),
    }
}

fn cell(amount: Amount) -> String {
    match amount.packets {
        0 => "-".to_owned(),
        packets => format!("{} ({packets})", output::octets(amount.bytes)),
    }
}

fn both(out: Amount, inn: Amount) -> String {
    if (out.packets, inn.packets) == (0, 0) {
        "-".to_owned()
    } else {
        format!("{} / {}", cell(out), cell(inn))
    }
}

fn decided(record: &FlowRecord) -> String {
    let line = record.line.as_ref().map(|line| format!(" {}:{}", line.file, line.line));
    let observed = record.observed.as_ref().map(|said| format!("; {said}"));
    format!("{}{}{}", record.verdict, line.unwrap_or_default(), observed.unwrap_or_default())
}

fn row(record: &FlowRecord) -> Vec<String> {
    let (out, inn) = (&record.outbound, &record.inbound);
    let way = match record.begun {
        Some(FlowInitiator::Here) => "->",
        Some(FlowInitiator::There) => "<-",
        None => "--",
    };
    vec![
        name_of(record),
        documents::associations::protocol_word(record.protocol),
        format!("{} {way} {}", record.local, record.remote),
        both(out.clear, inn.clear),
        both(out.authenticated, inn.authenticated),
        both(out.encrypted, inn.encrypted),
        both(out.refused, inn.refused),
        record.end.map_or_else(String::new, |end| end.to_string()),
        decided(record),
    ]
}

const HEAD: [&str; 9] = [
    "APPLICATION",
    "PROTOCOL",
    "FLOW",
    "CLEAR out / in",
    "AUTHENTICATED",
    "ENCRYPTED",
    "REFUSED",
    "END",
    "POLICY",
];

fn text(flows: &CountedFlows) -> String {
    let rows: Vec<_> = flows.live.iter().chain(&flows.ended).map(row).collect();
    let mut out = if rows.is_empty() { "no flow was seen\n".to_owned() } else { output::table(&HEAD, &rows) };
    if flows.left_out > 0 {
        let _ = writeln!(out, "{} smaller ones are left out; ask with --app or --peer", flows.left_out);
    }
    let table = &flows.table;
    let _ = writeln!(out, "{} flows in the table, room for {}", table.flows, table.room);
    if table.lost > 0 {
        let _ = writeln!(out, "{} packets are missing here: their flows found no room", table.lost);
    }
    if table.unwritten > 0 {
        let _ = writeln!(out, "{} lines are missing in the flow log", table.unwritten);
    }
    out
}

/// One flow that has ended.
fn line(record: &FlowRecord) -> String {
    let mut out = format!("{} ", record.last);
    for (title, cell) in HEAD.iter().zip(row(record)).filter(|(_, cell)| cell != "-" && !cell.is_empty()) {
        let _ = match *title {
            "APPLICATION" | "PROTOCOL" | "FLOW" | "END" => write!(out, " {cell}"),
            "CLEAR out / in" => write!(out, "  clear {cell}"),
            other => write!(out, "  {} {cell}", other.to_lowercase()),
        };
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> FlowRecord {
        serde_json::from_value(serde_json::json!({
            "application": "", "program": "/usr/bin/curl", "protocol": 6, "local": "192.0.2.1:40000",
            "remote": "192.0.2.2:443", "begun": "here", "first": "a", "last": "b", "verdict": "bypass", "end": "closed",
            "outbound": api::SentTraffic { clear: Amount { packets: 2, bytes: 2048 }, ..Default::default() },
            "inbound": api::Arrived::default(),
        }))
        .unwrap()
    }

    #[test]
    fn a_flow_is_a_row_and_what_is_missing_is_said() {
        let mut flows = CountedFlows { ended: vec![record()], ..CountedFlows::default() };
        flows.table.lost = 3;
        let said = text(&flows);
        assert!(said.contains("(/usr/bin/curl)  tcp"), "{said}");
        assert!(said.contains("192.0.2.1:40000 -> 192.0.2.2:443  2.0 KiB (2) / -"), "{said}");
        assert!(said.contains("3 packets are missing here"), "{said}");
        assert!(text(&CountedFlows::default()).starts_with("no flow was seen\n"));
    }

    #[test]
    fn one_that_ends_is_a_line() {
        let said = line(&record());
        assert_eq!(
            said,
            "b  (/usr/bin/curl) tcp 192.0.2.1:40000 -> 192.0.2.2:443  clear 2.0 KiB (2) / - closed  policy bypass\n"
        );
    }
}
