//! The command `ravelin status`, which shows how a daemon does.

use std::fmt::Write;

use api::{StatusState, path};
use clap::Args;

use crate::client::Ask;
use crate::color;
use crate::exit::{Failure, Kind};
use crate::output;

/// Show the state of the daemon; exit status 1 if it is degraded.
#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    ask: Ask,
    /// Say too which unit serves each cipher suite, and what was measured at the start.
    #[arg(long)]
    units: bool,
}

impl Status {
    pub fn execute(self) -> anyhow::Result<()> {
        let status: api::Status = self.ask.connect.get(path::STATUS)?;
        if self.ask.json {
            output::json(&status)?;
        } else {
            output::styled(&text(&status, self.units))?;
        }
        match status.state {
            StatusState::Ok => Ok(()),
            StatusState::Degraded => Err(Failure::silent(Kind::Failed)),
        }
    }
}

fn text(status: &api::Status, units: bool) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: String| writeln!(out, "{name:<10}{value}").unwrap_or_default();
    let state = match status.state {
        StatusState::Ok => color::paint(color::GOOD, "ok"),
        StatusState::Degraded => color::paint(color::BAD, "DEGRADED"),
    };
    let caution = color::paint(color::CAUTION, "!");
    let since = output::duration(status.uptime_seconds);
    line("state", format!("{state}, instance {}, pid {}, up {since}", status.instance, status.pid));
    for problem in &status.problems {
        line("", format!("{caution} {}: {}", problem.code, problem.message));
        if let Some(remedy) = &problem.remedy {
            line("", format!("  {remedy}"));
        }
    }
    for (at, text) in protection(&status.protection).into_iter().enumerate() {
        line(if at == 0 { "programs" } else { "" }, text);
    }
    for one in &status.policy.missing {
        line("", format!("{caution} {} {}: {}", one.code, one.at, one.message));
        line("", format!("  {}", one.remedy));
    }
    line("version", status.version.clone());
    line("config", status.config.clone());
    let policy = &status.policy;
    line(
        "policy",
        format!(
            "{}, generation {}, {}",
            policy.file,
            policy.generation,
            policy::counted(policy.applications, "application")
        ),
    );
    for (at, text) in subjects(&policy.subjects).into_iter().enumerate() {
        line(if at == 0 { "chosen by" } else { "" }, text);
    }
    if let Some(waiting) = &policy.waiting {
        line(
            "",
            format!(
                "{caution} {} is on trial: taken back in {}, unless `ravelin policy confirm`",
                waiting.file,
                output::duration(waiting.seconds_left)
            ),
        );
    }
    for (at, text) in graph(status.qos.as_ref()).into_iter().enumerate() {
        line(if at == 0 { "qos" } else { "" }, text);
    }
    if let Some(names) = &status.names {
        line(
            "names",
            format!(
                "{} of the policy: {} addresses ({} observed), {} names without any, {} without a good answer",
                names.names, names.addresses, names.observed, names.unresolved, names.failing
            ),
        );
    }
    if let Some(t) = &status.translation {
        let each = |total: u64| total / t.events.max(1);
        line(
            "sockets",
            format!(
                "translated one by one: {} entries of {} sockets, {} events of {} ns each, {} lost, {} packets wait",
                t.entries,
                t.sockets,
                t.events,
                each(t.nanoseconds),
                t.lost,
                t.waiting
            ),
        );
    }
    if !policy.pins.is_empty() {
        let verified = policy.pins.iter().filter(|pin| pin.state == api::PinnedState::Verified).count();
        line("digests", format!("{verified} of {} files verified", policy.pins.len()));
    }
    for pin in policy.pins.iter().filter(|pin| pin.state != api::PinnedState::Verified) {
        line("", format!("{caution} {}: {}", pin.path, pin.text));
    }
    for block in &policy.refused_blocks {
        let kept = if block.kept_last_good { "its last good version stays" } else { "not in force" };
        line("", format!("{caution} {}: block of {} is broken, {kept}", block.at, block.application));
    }
    if let Some(error) = &policy.last_error {
        line("", format!("{caution} the last reload failed: {}", error.lines().next().unwrap_or_default()));
    }
    let names = |devices: &[api::UplinkState]| {
        let name = |d: &api::UplinkState| {
            format!(
                "{}{}",
                d.name,
                if d.guarded { String::new() } else { color::paint(color::BAD, " (NOT GUARDED)") }
            )
        };
        devices.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    line("uplinks", names(&status.uplinks));
    if let Some(gateway) = &status.gateway {
        let (inside, rest) = (names(&gateway.inside), &gateway.default);
        line(
            "gateway",
            format!("inside {inside}; {} spans without the engine, the rest: {rest}", gateway.spans),
        );
    }
    line(
        "tun",
        format!(
            "{} (index {}), {} dropped unread",
            status.tun.name, status.tun.ifindex, status.tun.queue_drops
        ),
    );
    line("esp", format!("UDP port {}", status.esp_port));
    for cipher in &status.ciphers {
        let alone = if cipher.alone { ", also alone" } else { "" };
        let state = match &cipher.fingerprint {
            Some(fingerprint) => format!("fingerprint {}", fingerprint.get(..16).unwrap_or(fingerprint)),
            None => "not used".to_owned(),
        };
        let worker = cipher.worker.as_ref().map(|worker| format!(", {worker}")).unwrap_or_default();
        line("cipher", format!("{} ({}{alone}{worker}), {state}", cipher.name, cipher.isolation));
    }
    for text in crypto(&status.crypto).into_iter().filter(|_| units) {
        line("crypto", text);
    }
    line("sas", format!("{} inbound, {} outbound", status.sas_in, status.sas_out));
    line("spd", format!("{} rules", status.spd_rules));
    for (name, traffic) in [("outbound", status.outbound), ("inbound", status.inbound)] {
        line(
            name,
            format!(
                "{} packets: {} protected, {} clear by policy, {} dropped",
                traffic.received, traffic.protected, traffic.clear, traffic.dropped
            ),
        );
    }
    if let Some(flows) = &status.flows {
        let lost = match (flows.lost, flows.unwritten) {
            (0, 0) => String::new(),
            (lost, unwritten) => format!("; {lost} packets not among them, {unwritten} lines not in the log"),
        };
        line("flows", format!("{} of {}, room for {}{lost}", flows.flows, flows.counted, flows.room));
    }
    if let Some(remote) = &status.audit_remote {
        line("audit", audit(remote));
    }
    let untold = match status.kernel_untold {
        0 => String::new(),
        n => format!(", the particulars of {n} are lost"),
    };
    line(
        "kernel",
        format!("{} refused or dropped (`ravelin stats` says why){untold}", status.kernel_refused),
    );
    out
}

/// The graph of classes that is in force with where it is from, its trial, and where the text is that was taken back.
fn graph(graph: Option<&api::QosInForce>) -> Vec<String> {
    let Some(graph) = graph else {
        return vec!["no graph of classes: the configuration has no [qos]".to_owned()];
    };
    let caution = color::paint(color::CAUTION, "!");
    let mut out = vec![graph.to_string()];
    out.extend(graph.waiting.as_ref().map(|waiting| {
        let left = output::duration(waiting.seconds_left);
        format!("{caution} {} is on trial: taken back in {left}, unless `ravelin qos confirm`", waiting.file)
    }));
    let rejected = graph.origin.rejected.as_ref();
    out.extend(rejected.map(|file| format!("{caution} a graph was taken back: its text is {file} now")));
    out
}

/// The collector of audit lines: the last message with the begin of its hash, and what waits for the collector.
fn audit(remote: &api::RemoteAuditState) -> String {
    let state = match (remote.connected, &remote.confirmed) {
        (_, Some(_)) => format!("heard {} ago", output::duration(remote.silent_seconds)),
        (true, None) => "connected".to_owned(),
        (false, None) => "not heard".to_owned(),
    };
    let lost = if remote.lost > 0 { format!(", {} lines left out", remote.lost) } else { String::new() };
    let hash = remote.hash.get(..16).unwrap_or(&remote.hash);
    let (server, spooled, sequence) = (remote.server, remote.spooled, remote.sequence);
    format!("collector {server} {state}, last {sequence} {hash}, {spooled} octets wait for it{lost}")
}

/// Applications that have a line of their own.
const PROGRAMS: usize = 24;

/// Who is protected and who not, and why: the sums, then those that are not first.
fn protection(applications: &[api::AppHealth]) -> Vec<String> {
    if applications.is_empty() {
        return Vec::new();
    }
    let count = |state| applications.iter().filter(|app| app.state == state).count();
    let states = [
        api::AppState::Protected,
        api::AppState::Blocked,
        api::AppState::Waiting,
        api::AppState::Clear,
        api::AppState::Refused,
    ];
    let sums = states.map(|state| (count(state), state)).into_iter().filter(|(count, _)| *count > 0);
    let sums: Vec<String> = sums.map(|(count, state)| format!("{count} {state}")).collect();
    let mut out = vec![sums.join(", ")];
    let each = applications.iter().take(PROGRAMS);
    out.extend(each.map(|app| {
        let style = match app.state {
            api::AppState::Protected => color::GOOD,
            api::AppState::Blocked | api::AppState::Waiting => color::BAD,
            api::AppState::Clear | api::AppState::Refused => color::CAUTION,
        };
        let pad = 10usize.saturating_sub(app.state.to_string().len());
        format!("{}{:pad$} {}: {}", color::paint(style, app.state), "", app.application, app.why)
    }));
    if let more @ 1.. = applications.len().saturating_sub(PROGRAMS) {
        out.push(format!("and {more} more (`--json`)"));
    }
    out
}

/// Lines of applications that ask for more than a program.
const SUBJECTS: usize = 16;

/// What applications choose processes by: the sums, and those that ask for more than a program.
fn subjects(subjects: &api::Subjects) -> Vec<String> {
    if subjects.counts.is_empty() {
        return Vec::new();
    }
    let special: Vec<&api::ChosenBy> =
        subjects.applications.iter().filter(|one| one.by != ["program"]).collect();
    let mut out = vec![chosen_by(subjects)];
    out.extend(
        special.iter().take(SUBJECTS).map(|one| format!("{}: {}", one.by.join(" and "), one.application)),
    );
    if let more @ 1.. = special.len().saturating_sub(SUBJECTS) {
        out.push(format!("and {more} more (`--json`)"));
    }
    out
}

/// The criteria by which applications choose processes, with the number of applications of each, in one line.
pub fn chosen_by(subjects: &api::Subjects) -> String {
    let sums: Vec<String> = subjects.counts.iter().map(|(word, count)| format!("{word} {count}")).collect();
    sums.join(", ")
}

/// Suites that several units offer, with the one that serves them; the others only counted.
fn crypto(units: &[api::CryptoUnit]) -> Vec<String> {
    let (alone, chosen): (Vec<_>, Vec<_>) = units.iter().partition(|unit| unit.why == "only");
    let mut out: Vec<String> = chosen
        .iter()
        .map(|unit| {
            let measured: Vec<String> =
                unit.measured.iter().map(|m| format!("{} {} ns", m.unit, m.long_ns)).collect();
            let measured = if measured.is_empty() {
                String::new()
            } else {
                format!("; 1400 octets: {}", measured.join(", "))
            };
            format!("{} by {} ({}{measured})", unit.suite, unit.unit, unit.why)
        })
        .collect();
    let mut names: Vec<&str> = alone.iter().map(|unit| unit.unit.as_str()).collect();
    names.sort_unstable();
    for group in names.chunk_by(|a, b| a == b) {
        out.push(format!("{} other suites by {} (`--json` lists them)", group.len(), group[0]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_graph_is_named_with_its_origin_its_trial_and_what_was_taken_back() {
        assert_eq!(graph(None), ["no graph of classes: the configuration has no [qos]"]);
        let origin = api::QosOrigin { configured: "preset voice".to_owned(), applied: false, rejected: None };
        let mut told = api::QosInForce { file: "preset voice".to_owned(), origin, waiting: None };
        assert_eq!(graph(Some(&told)), ["preset voice, as [qos] of the configuration says"]);
        told.file = "/tmp/new.toml".to_owned();
        told.origin.applied = true;
        told.origin.rejected = Some("/etc/qos.toml.rejected".to_owned());
        told.waiting = Some(api::Waiting { file: told.file.clone(), seconds_left: 70 });
        let lines = graph(Some(&told)).join("\n");
        for part in [
            "/tmp/new.toml, put in force by a command; [qos] of the configuration names preset voice\n",
            " /tmp/new.toml is on trial: taken back in 1 min 10 s, unless `ravelin qos confirm`\n",
            " a graph was taken back: its text is /etc/qos.toml.rejected now",
        ] {
            assert!(lines.contains(part), "{lines}");
        }
    }

    #[test]
    fn applications_that_ask_for_more_than_a_program_have_a_line() {
        let one = |application: &str, by: &[&str]| api::ChosenBy {
            application: application.to_owned(),
            by: by.iter().map(ToString::to_string).collect(),
        };
        let counts = [("from", 1), ("program", 2), ("uid", 1)];
        let mut told = api::Subjects {
            counts: counts.map(|(word, count)| (word.to_owned(), count)).into(),
            applications: vec![
                one("curl from sshd uid 7", &["program", "from", "uid"]),
                one("ssh", &["program"]),
            ],
            more: 0,
        };
        assert_eq!(
            subjects(&told),
            ["from 1, program 2, uid 1", "program and from and uid: curl from sshd uid 7"]
        );
        told.applications = (0..20).map(|n| one(&format!("uid {n}"), &["uid"])).collect();
        let lines = subjects(&told);
        assert_eq!((lines.len(), lines.last().unwrap().as_str()), (2 + SUBJECTS, "and 4 more (`--json`)"));
        assert_eq!(subjects(&api::Subjects::default()), [] as [&str; 0]);
    }
}
