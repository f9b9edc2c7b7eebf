//! The commands that ask the process of a line.

use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use api::{
    InlineEvent, InlineEvents, InlineFlows, InlineRules, InlineSide, InlineStatus, ScrubbedProfile,
    ScrubbedStatus, path,
};
use clap::Args;
use serde::de::DeserializeOwned;

use crate::client::{Connect, instance};
use crate::cmd::scrub::explanation;
use crate::exit::{Failure, Kind};
use crate::output;

/// Between two looks of `watch`.
const PAUSE: Duration = Duration::from_millis(500);

/// Who scrubs: a line has a process and a socket of its own, flows of the policy are the daemon's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cmd) enum Of {
    #[default]
    Line,
    Daemon,
}

/// The line or daemon that is asked.
#[derive(Clone, Debug, Args)]
struct Ask {
    /// The name of its instance.
    #[arg(long, value_name = "NAME", default_value = config::INSTANCE, value_parser = instance)]
    instance: String,
    /// Its control socket [default: /run/ravelin-inline/INSTANCE/control.sock of a line, /run/ravelin/INSTANCE/control.sock of the daemon].
    #[arg(long, value_name = "PATH")]
    control: Option<std::path::PathBuf>,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
    #[arg(skip)]
    of: Of,
}

impl Ask {
    /// A document of whoever is asked.
    fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        if self.of == Of::Daemon {
            return Connect { instance: self.instance.clone(), control: self.control.clone() }.get(path);
        }
        let control = self.control.clone().unwrap_or_else(|| line::control_socket(&self.instance));
        if let Err(error) = UnixStream::connect(&control) {
            let text = format!(
                "no process serves the line {} ({}: {error}); what it closed is closed still: `ravelin inline check` shows it, \
                 `ravelin inline run` serves it, `ravelin inline detach` opens it",
                self.instance,
                control.display()
            );
            let denied = error.kind() == std::io::ErrorKind::PermissionDenied;
            return Err(Failure::of(if denied { Kind::NotAllowed } else { Kind::Unreachable }, text));
        }
        Connect { instance: self.instance.clone(), control: Some(control) }.get(path)
    }

    fn show<T: api::schema::Document>(
        &self,
        document: &T,
        text: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        if self.json { output::json(document) } else { output::text(&text(document)) }
    }
}

/// What is scrubbed by policy: packets and connections by profile.
#[derive(Debug, Args)]
pub struct Profiles {
    #[command(flatten)]
    ask: Ask,
}

impl Profiles {
    pub fn execute(mut self) -> anyhow::Result<()> {
        self.ask.of = Of::Daemon;
        let status: ScrubbedStatus = self.ask.get(path::SCRUBBED)?;
        self.ask.show(&status, profiles_text)
    }
}

fn profiles_text(status: &ScrubbedStatus) -> String {
    let ScrubbedStatus { profiles, outer, lost } = status;
    if profiles.is_empty() && outer.is_none() {
        return "nothing was scrubbed since the start: no item or rule says `scrub`, or nothing matched\n"
            .to_owned();
    }
    let row = |what: String, profile: &ScrubbedProfile| {
        let numbers =
            [profile.packets, profile.forwarded, profile.connections as u64, profile.half_open as u64];
        let mut cells = vec![what];
        cells.extend(numbers.map(|number| number.to_string()));
        cells.push(output::octets(profile.stored as u64));
        cells
    };
    let mut rows: Vec<_> = profiles.iter().map(|profile| row(profile.profile.clone(), profile)).collect();
    rows.extend(outer.iter().map(|profile| row(format!("outer packets: {}", profile.profile), profile)));
    let head = ["profile", "packets", "forwarded", "connections", "half open", "in store"];
    let mut out = output::table(&head, &rows);
    if *lost > 0 {
        out.push_str(&format!("{lost} packets of the scrubber's own found no room\n"));
    }
    out
}

/// Interfaces, guards and workers of a line. Status 1 if something is not as it should be.
#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    ask: Ask,
}

impl Status {
    pub fn execute(self) -> anyhow::Result<()> {
        let status: InlineStatus = self.ask.get(path::INLINE_STATUS)?;
        self.ask.show(&status, status_text)?;
        if status.sides.iter().all(|side| side.guarded) {
            return Ok(());
        }
        Err(Failure::silent(Kind::Failed))
    }
}

fn status_text(status: &InlineStatus) -> String {
    let InlineStatus { instance, pid, profile, observing, sides, workers, still_closed } = status;
    let observing = if *observing { ", changes nothing" } else { "" };
    let mut out = format!("line {instance} (pid {pid}), profile {profile}{observing}\n\n");
    let row = |side: &InlineSide| {
        let state = match (side.index, side.guarded) {
            (None, _) => "gone".to_owned(),
            (Some(_), true) => "closed to others".to_owned(),
            (Some(_), false) => format!("NOT GUARDED: {}", side.faults.join("; ")),
        };
        let numbers = [
            side.mtu as u64,
            side.heard.frames,
            side.super_packets,
            side.sent.frames,
            side.refused.frames,
            side.lost,
        ];
        let mut cells = vec![side.side.clone(), side.interface.clone()];
        cells.extend(numbers.map(|number| number.to_string()));
        cells.push(state);
        cells
    };
    let head = ["side", "interface", "mtu", "heard", "super", "sent", "refused", "lost", "state"];
    out.push_str(&output::table(&head, &sides.iter().map(row).collect::<Vec<_>>()));
    for side in sides {
        let dropped = &side.dropped;
        let reasons = [
            (dropped.not_ip, "not_ip"),
            (dropped.ip_version, "ip_version"),
            (dropped.unreadable, "unreadable"),
            (dropped.too_long, "too_long"),
            (dropped.full, "full"),
            (dropped.refused, "refused_by_interface"),
            (dropped.no_station, "no_station"),
        ];
        for (count, reason) in reasons.into_iter().filter(|(count, _)| *count > 0) {
            out.push_str(&format!("{}: {count} dropped, {reason}\n", side.interface));
        }
    }
    let rows: Vec<Vec<String>> = workers
        .iter()
        .enumerate()
        .map(|(at, worker)| {
            let counts = [worker.packets, worker.forwarded, worker.held];
            let mut cells = vec![at.to_string()];
            cells.extend(counts.map(|number| number.to_string()));
            cells.extend([worker.connections, worker.half_open].map(|number| number.to_string()));
            cells.push(output::octets(worker.stored as u64));
            cells
        })
        .collect();
    out.push('\n');
    let head = ["worker", "packets", "forwarded", "held", "connections", "half open", "in store"];
    out.push_str(&output::table(&head, &rows));
    if !still_closed.is_empty() {
        out.push_str(&format!(
            "\ninterfaces that are closed still, from an earlier configuration: {}\n",
            still_closed.join(", ")
        ));
    }
    out
}

/// What each rule dropped, changed, or would have.
#[derive(Debug, Args)]
pub struct Rules {
    #[command(flatten)]
    ask: Ask,
}

impl Rules {
    /// The same question to somebody else.
    pub(in crate::cmd) fn of(mut self, of: Of) -> Rules {
        self.ask.of = of;
        self
    }

    pub fn execute(self) -> anyhow::Result<()> {
        let rules: InlineRules = self.ask.get(path::INLINE_RULES)?;
        self.ask.show(&rules, |rules| match rules.rules.is_empty() {
            true => "no rule has met anything\n".to_owned(),
            false => crate::cmd::scrub::rule_table(&rules.rules),
        })
    }
}

/// Connections that are scrubbed.
#[derive(Debug, Args)]
pub struct Flows {
    #[command(flatten)]
    ask: Ask,
}

impl Flows {
    /// The same question to somebody else.
    pub(in crate::cmd) fn of(mut self, of: Of) -> Flows {
        self.ask.of = of;
        self
    }

    pub fn execute(self) -> anyhow::Result<()> {
        let flows: InlineFlows = self.ask.get(path::INLINE_FLOWS)?;
        let daemon = self.ask.of == Of::Daemon;
        self.ask.show(&flows, |flows| {
            let row = |flow: &api::InlineFlow| {
                let ends = [flow.outside, flow.inside].map(|end| end.to_string());
                let [outside, inside] = ends;
                let profile = daemon::scrubbed::profile_name(flow.worker);
                let first = if daemon { profile.to_owned() } else { flow.worker.to_string() };
                vec![first, outside, inside, flow.state.clone()]
            };
            let rows: Vec<_> = flows.flows.iter().map(row).collect();
            let first = if daemon { "profile" } else { "worker" };
            let mut out = output::table(&[first, "outside", "inside", "state"], &rows);
            if flows.total > flows.flows.len() {
                out.push_str(&format!("and {} more\n", flows.total - flows.flows.len()));
            }
            out
        })
    }
}

/// Packets that rules met.
#[derive(Clone, Debug, Args)]
struct TableQuery {
    /// Only of packets from or to this host, or host and port: 192.0.2.7, 192.0.2.7:443, [2001:db8::7]:443.
    #[arg(value_name = "HOST[:PORT]", value_parser = host)]
    host: Option<(IpAddr, Option<u16>)>,
    /// Only what was dropped.
    #[arg(long)]
    drops: bool,
}

fn host(text: &str) -> Result<(IpAddr, Option<u16>), String> {
    let end = text.parse::<SocketAddr>().map(|end| (end.ip(), Some(end.port())));
    end.or_else(|_| text.parse::<IpAddr>().map(|host| (host, None))).map_err(|_| {
        format!("{text:?} is no host; write one like 192.0.2.7, 192.0.2.7:443 or [2001:db8::7]:443")
    })
}

impl TableQuery {
    fn path(&self, more: &[(&str, u64)]) -> String {
        let (host, port) = self.host.unzip();
        let which = [
            ("host", host.map(|host| host.to_string())),
            ("port", port.flatten().map(|port| port.to_string())),
            ("drops", self.drops.then(|| "true".to_owned())),
        ];
        let more = more.iter().map(|(key, value)| (*key, Some(value.to_string())));
        format!("{}?{}", path::INLINE_EVENTS, crate::client::query(which.into_iter().chain(more)))
    }
}

/// Why packets went as they did: the last ones that rules met, with their rules, as they came and as they went.
#[derive(Debug, Args)]
pub struct Explain {
    #[command(flatten)]
    which: TableQuery,
    /// Only the packet with this number.
    #[arg(long, value_name = "NUMBER")]
    number: Option<u64>,
    /// At most so many, the latest.
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    most: u64,
    #[command(flatten)]
    ask: Ask,
}

impl Explain {
    /// The same question to somebody else.
    pub(in crate::cmd) fn of(mut self, of: Of) -> Explain {
        self.ask.of = of;
        self
    }

    pub fn execute(self) -> anyhow::Result<()> {
        let mut more = vec![("most", self.most)];
        more.extend(self.number.map(|number| ("number", number)));
        let found: InlineEvents = self.ask.get(&self.which.path(&more))?;
        self.ask.show(&found, |found| {
            let mut out: String =
                found.events.iter().map(|event| explanation(&event.explained) + "\n").collect();
            if found.events.is_empty() {
                out.push_str(
                    "no packet like that among the last ones that rules met (1024 of each worker, or profile, are kept)\n",
                );
            }
            if found.unrecorded > 0 {
                out.push_str(&format!("{} packets came too fast to be written down\n", found.unrecorded));
            }
            out
        })
    }
}

/// Packets that rules meet, as they come, until interrupted.
#[derive(Debug, Args)]
pub struct Watch {
    #[command(flatten)]
    which: TableQuery,
    #[command(flatten)]
    ask: Ask,
}

impl Watch {
    /// The same question to somebody else.
    pub(in crate::cmd) fn of(mut self, of: Of) -> Watch {
        self.ask.of = of;
        self
    }

    pub fn execute(self) -> anyhow::Result<()> {
        let newest: InlineEvents =
            self.ask.get(&TableQuery { host: None, drops: false }.path(&[("most", 1)]))?;
        let mut after = newest.events.last().map_or(0, |event| event.explained.line.index);
        loop {
            let found: InlineEvents = self.ask.get(&self.which.path(&[("after", after), ("most", 1024)]))?;
            for event in &found.events {
                after = after.max(event.explained.line.index);
                if self.ask.json {
                    output::line(event)?;
                } else {
                    output::text(&short(event))?;
                }
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// A packet in a line.
fn short(event: &InlineEvent) -> String {
    let line = &event.explained.line;
    let rules: Vec<&str> = line.acted.iter().chain(&line.would).map(String::as_str).collect();
    let from = line.from.as_deref().unwrap_or("?");
    let would = if line.acted.is_empty() { " would:" } else { "" };
    format!(
        "{} {:.6} {}{would} {} from {from}: {}\n",
        line.index,
        line.time,
        line.verdict.name(),
        rules.join(","),
        event.explained.decoded
    )
}
