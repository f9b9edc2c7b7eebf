//! `ravelin doctor`: does this host have what the daemon needs, and is it hardened?

use std::fmt::Write;
use std::path::{Path, PathBuf};

use api::{AppTrafficList, Check, CheckState, HandedOver, path};
use clap::Args;
use config::{Config, GraphError};
use documents::qos_plan;

use crate::client::Connect;
use crate::color;
use crate::exit::{self, Failure, Kind};
use crate::output;

/// Check what the daemon needs from this host; exit status 1 if something is missing.
///
/// With `--hardening` it checks instead whether the host is hardened, remedy by remedy: parts of the kernel and services,
/// functions, the configuration, updates, integrity, and the log on another node. Files are read, and nothing is run.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Configuration file whose devices and cgroup are looked at as well.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check whether the host is hardened, instead of what the daemon needs.
    #[arg(long)]
    hardening: bool,
    /// Root of the host that is looked at, such as a mounted image; without it this host.
    #[arg(long, value_name = "DIR", requires = "hardening")]
    root: Option<PathBuf>,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub fn execute(self) -> anyhow::Result<()> {
        if self.hardening {
            return harden(self.root.as_deref().unwrap_or(Path::new("/")), self.config, self.json);
        }
        let config = self.config.as_deref().map(super::run::load).transpose()?;
        let mut checks = daemon::doctor::checks(config.as_ref());
        checks.extend(config.as_ref().and_then(graph));
        checks.extend(config.as_ref().map(of_daemon).unwrap_or_default());
        let report = api::Doctor::new(checks);
        if self.json {
            output::json(&report)?;
        } else {
            output::styled(&text(&report))?;
        }
        if report.ok { Ok(()) } else { Err(Failure::silent(Kind::Failed)) }
    }
}

/// The graph of classes that the configuration names, as `run` would read it; nothing where it names none.
fn graph(config: &Config) -> Option<Check> {
    let name = "graph of classes".to_owned();
    match config::load_graph(config) {
        Ok(None) => None,
        Ok(Some(graph)) => {
            let classes: Vec<&str> =
                graph.description.classes.iter().map(|class| class.name.value.as_str()).collect();
            let found = format!("{}, classes: {}", graph.source, classes.join(", "));
            Some(Check { name, state: CheckState::Ok, found, remedy: None })
        }
        Err(GraphError::Broken(broken)) => {
            let list = qos_plan::broken(&broken).findings;
            let line = |one: &api::Finding| format!("{}: {}: {}", one.at, one.code, one.message);
            let found = list.iter().take(4).map(line).collect::<Vec<_>>().join("; ");
            let remedy = list.first().and_then(|one| one.remedy.clone());
            let remedy = remedy.map(|remedy| format!("{remedy}; `ravelin qos check` points at each error"));
            Some(Check { name, state: CheckState::Fail, found, remedy })
        }
        Err(error) => {
            let remedy = Some("mend [qos], or the file that it names".to_owned());
            Some(Check { name, state: CheckState::Fail, found: error.to_string(), remedy })
        }
    }
}

/// Report whether the host below `root` is hardened. The path of the configuration is one on that host.
fn harden(root: &Path, config: Option<PathBuf>, json: bool) -> anyhow::Result<()> {
    let mut host = hardening::Host::new(root, netio::clock::wall());
    host.config = config.unwrap_or(host.config);
    let groups = hardening::checks(&host).map_err(|error| Failure::bad_input(error.to_string()))?;
    let report = api::Hardening::new(root.display().to_string(), groups);
    if json {
        output::json(&report)?;
    } else {
        output::styled(&hardened(&report))?;
    }
    if report.ok { Ok(()) } else { Err(Failure::silent(Kind::Failed)) }
}

fn hardened(report: &api::Hardening) -> String {
    let mut out = String::new();
    for group in &report.groups {
        let _ = writeln!(out, "{}", group.remedy.heading());
        group.checks.iter().for_each(|check| line(&mut out, check));
    }
    let (failed, unknown) = (report.count(CheckState::Fail), report.count(CheckState::Warn));
    let _ = match (failed, unknown) {
        (0, 0) => writeln!(out, "this host is hardened as far as these checks go"),
        _ => writeln!(out, "failed: {failed}, unknown: {unknown}; ravelin(1), \"Hardening\", says more"),
    };
    out
}

/// What a daemon that runs says of itself; nothing where none runs.
fn of_daemon(config: &config::Config) -> Vec<Check> {
    let control = Some(config.control_socket.clone());
    let connect = Connect { instance: config.instance.clone(), control };
    let traffic = connect.get::<AppTrafficList>(path::TRAFFIC).ok();
    let status = match connect.get::<api::Status>(path::STATUS) {
        Ok(status) => Some(status),
        Err(error) => return dead(config, &error),
    };
    let mut out: Vec<Check> = traffic.as_ref().map(counts).into_iter().collect();
    if let Some(status) = &status {
        out.extend(status.flows.as_ref().map(flows));
        out.extend(subjects(&status.policy.subjects));
        out.extend(digests(&status.policy.pins));
        // Those of digests have a line of their own.
        out.extend(status.problems.iter().filter(|one| one.code != "digest").map(degraded));
    }
    out
}

/// What the daemon calls degraded.
fn degraded(problem: &api::Problem) -> Check {
    let found = format!("{}: {}", problem.code, problem.message);
    let remedy = problem.remedy.as_deref().unwrap_or("`ravelin status` says more");
    check("daemon", (false, CheckState::Fail), found, remedy)
}

/// No daemon answers: nothing to say where none was, but whom the kernel half keeps closed where it is there.
fn dead(config: &config::Config, error: &anyhow::Error) -> Vec<Check> {
    let closed = daemon::policy_store::closed_by(&config.run_dir(), &config.instance);
    if !closed.is_empty() {
        let found = format!("no daemon runs, and what must be protected is refused: {}", closed.join(", "));
        let remedy = "`ravelin run --config FILE` starts it; `ravelin detach` opens the host: these programs then send in clear";
        return vec![check("daemon", (false, CheckState::Fail), found, remedy)];
    }
    let text = format!("{error:#}");
    let root = exit::kind(error) == Kind::NotAllowed;
    let remedy = "run `ravelin doctor` as root: only root may ask the daemon";
    if root { vec![check("daemon", (false, CheckState::Warn), text, remedy)] } else { Vec::new() }
}

fn check(name: &str, (good, bad): (bool, CheckState), found: String, remedy: &str) -> Check {
    let state = if good { CheckState::Ok } else { bad };
    Check { name: name.to_owned(), state, found, remedy: (!good).then(|| remedy.to_owned()) }
}

/// Whether the flows that are shown and written are all there were. Decisions do not rest on it.
fn flows(table: &api::FlowTable) -> Check {
    let ok = table.lost == 0 && table.unwritten == 0;
    let found = format!(
        "{} in the table, room for {}; {} packets found no room, {} lines are not in the log",
        table.flows, table.room, table.lost, table.unwritten
    );
    let remedy = "what `ravelin flows` shows is not the whole (packets were decided about all the same); make `idle` in [flows] shorter";
    check("flows", (ok, CheckState::Warn), found, remedy)
}

/// What the applications of the policy in force choose processes by; nothing to say where it has none.
fn subjects(subjects: &api::Subjects) -> Option<Check> {
    let found = super::status::chosen_by(subjects);
    (!found.is_empty()).then(|| check("chosen by", (true, CheckState::Warn), found, ""))
}

/// Whether the files whose digests the policy in force names are what it says; nothing to say where it names none.
fn digests(pins: &[api::PinnedFile]) -> Option<Check> {
    let wrong: Vec<String> = pins
        .iter()
        .filter(|pin| pin.state != api::PinnedState::Verified)
        .map(|pin| format!("{}: {}", pin.path, pin.text))
        .collect();
    let found = match wrong.is_empty() {
        true => format!("{} files are what the policy says", pins.len()),
        false => wrong.join("; "),
    };
    let remedy = "their processes are refused every peer; `ravelin policy digest PATH` prints what to write for the file that is there, if it is \
                  the one that is meant";
    (!pins.is_empty()).then(|| check("digests", (wrong.is_empty(), CheckState::Fail), found, remedy))
}

/// Whether the daemon and its kernel half count the same.
fn counts(traffic: &AppTrafficList) -> Check {
    let HandedOver { kernel, engine, dropped, agree } = traffic.handed_over;
    let lost = traffic.lost;
    let found = format!(
        "{kernel} packets handed over by the kernel's count, {engine} by the engine's, {dropped} found no room; {lost} not counted; {} refusals \
         without particulars",
        traffic.events_lost
    );
    let remedy = "what `ravelin stats --per-app` shows is not the whole; restart the daemon, and see whether it is again";
    check("two counts", (agree && lost == 0, CheckState::Fail), found, remedy)
}

/// Write a check, and its remedy on a line of its own.
fn line(out: &mut String, check: &Check) {
    let style = match check.state {
        CheckState::Ok => color::GOOD,
        CheckState::Warn => color::CAUTION,
        CheckState::Fail => color::BAD,
    };
    let state = color::paint(style, check.state);
    let pad = 5usize.saturating_sub(check.state.to_string().len());
    let _ = writeln!(out, "{state}{:pad$} {:<16} {}", "", check.name, check.found);
    if let Some(remedy) = &check.remedy {
        let _ = writeln!(out, "{:<5} {:<16} -> {remedy}", "", "");
    }
}

fn text(report: &api::Doctor) -> String {
    let mut out = String::new();
    report.checks.iter().for_each(|check| line(&mut out, check));
    let failed = report.failures().count();
    let _ = match failed {
        0 => writeln!(out, "this host has what the daemon needs"),
        _ if report.failures().all(|check| check.name == "daemon") => {
            writeln!(
                out,
                "this host has what the daemon needs, and what must be protected does not all get through"
            )
        }
        1 => writeln!(out, "1 check failed: `ravelin run` will not start"),
        n => writeln!(out, "{n} checks failed: `ravelin run` will not start"),
    };
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_of_flows_is_a_warning_with_its_losses() {
        let whole = api::FlowTable {
            counted: "applications".to_owned(),
            flows: 65_536,
            room: 65_536,
            lost: 0,
            written: 12,
            unwritten: 0,
        };
        // Full, and nothing was lost by it yet.
        let found = flows(&whole);
        assert_eq!((found.state, &found.remedy), (CheckState::Ok, &None), "{found:?}");
        let full = flows(&api::FlowTable { lost: 7, ..whole.clone() });
        assert_eq!(full.state, CheckState::Warn);
        assert_eq!(
            full.found,
            "65536 in the table, room for 65536; 7 packets found no room, 0 lines are not in the log"
        );
        assert!(
            full.remedy.as_ref().is_some_and(|text| text.contains("make `idle` in [flows] shorter")),
            "{full:?}"
        );
        let unwritten = flows(&api::FlowTable { unwritten: 3, ..whole });
        assert_eq!(unwritten.state, CheckState::Warn, "{unwritten:?}");
        assert!(unwritten.found.ends_with("3 lines are not in the log"), "{unwritten:?}");
        // Flows are no reason not to start.
        let report = api::Doctor::new(vec![full, unwritten]);
        let shown = anstream::adapter::strip_str(&text(&report)).to_string();
        assert!(report.ok && shown.contains("warn  flows            65536 in the table"), "{shown}");
        assert!(text(&report).contains(&color::paint(color::CAUTION, "warn")), "{}", text(&report));
    }

    #[test]
    fn a_hardened_host_is_reported_by_remedy_and_what_is_unknown_is_no_success() {
        let found = |state| check("kexec", (state == CheckState::Ok, state), "found".to_owned(), "type this");
        let report = |state| {
            let group =
                api::HardeningGroup { remedy: api::HardeningRemedy::Functions, checks: vec![found(state)] };
            let report = api::Hardening::new("/".to_owned(), vec![group]);
            (report.ok, anstream::adapter::strip_str(&hardened(&report)).to_string())
        };
        let (ok, good) = report(CheckState::Ok);
        assert!(ok && good.starts_with("2. Unnecessary functions are switched off\nok    kexec"), "{good}");
        assert!(good.ends_with("this host is hardened as far as these checks go\n"), "{good}");
        let (ok, unknown) = report(CheckState::Warn);
        assert!(
            ok && unknown.contains("failed: 0, unknown: 1") && unknown.contains("-> type this"),
            "{unknown}"
        );
        let (ok, bad) = report(CheckState::Fail);
        assert!(!ok && bad.contains("failed: 1, unknown: 0"), "{bad}");
    }

    #[test]
    fn counts_that_differ_and_files_that_differ_fail() {
        let agree = HandedOver { kernel: 5, engine: 5, dropped: 0, agree: true };
        let traffic = AppTrafficList { handed_over: agree, ..AppTrafficList::default() };
        assert_eq!(counts(&traffic).state, CheckState::Ok);
        let lost = counts(&AppTrafficList { lost: 2, ..traffic.clone() });
        assert!(lost.state == CheckState::Fail && lost.found.contains("2 not counted"), "{lost:?}");
        let apart = HandedOver { engine: 4, agree: false, ..agree };
        assert_eq!(counts(&AppTrafficList { handed_over: apart, ..traffic }).state, CheckState::Fail);

        let pin = |state, text: &str| api::PinnedFile {
            path: "/usr/bin/curl".to_owned(),
            state,
            text: text.to_owned(),
            found: None,
            wanted: Vec::new(),
        };
        assert_eq!(digests(&[]), None);
        let good = digests(&[pin(api::PinnedState::Verified, "digest verified")]).unwrap();
        assert_eq!((good.state, good.found.as_str()), (CheckState::Ok, "1 files are what the policy says"));
        let bad = digests(&[pin(api::PinnedState::Missing, "there is no file")]).unwrap();
        assert_eq!((bad.state, bad.found.as_str()), (CheckState::Fail, "/usr/bin/curl: there is no file"));
    }

    #[test]
    fn what_applications_are_chosen_by_is_said() {
        assert_eq!(subjects(&api::Subjects::default()), None);
        let counts = [("default".to_owned(), 1), ("from".to_owned(), 2)].into();
        let found = subjects(&api::Subjects { counts, ..api::Subjects::default() }).unwrap();
        assert_eq!((found.state, found.found.as_str()), (CheckState::Ok, "default 1, from 2"));
    }
}
