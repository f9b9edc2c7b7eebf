//! `ravelin doctor`: does this host have what the daemon needs?

use std::fmt::Write;
use std::path::PathBuf;

use api::{AppTrafficList, CheckState, HandedOver, path};
use clap::Args;

use crate::client::Connect;
use crate::exit::{Failure, Kind};
use crate::output;

/// Check what the daemon needs from this host; exit status 1 if something is missing.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Configuration file whose devices and cgroup are looked at as well.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub fn execute(self) -> anyhow::Result<()> {
        let config = self.config.as_deref().map(super::run::load).transpose()?;
        let mut checks = daemon::doctor::checks(config.as_ref());
        checks.extend(config.as_ref().and_then(counts));
        checks.extend(config.as_ref().and_then(flows));
        checks.extend(config.as_ref().and_then(digests));
        let report = api::Doctor::new(checks);
        if self.json {
            output::json(&report)?;
        } else {
            output::text(&text(&report))?;
        }
        if report.ok { Ok(()) } else { Err(Failure::silent(Kind::Failed)) }
    }
}

/// Whether the flows that are shown and written are all there were. Decisions do not rest on it.
fn flows(config: &daemon::config::Config) -> Option<api::Check> {
    let control = Some(config.control_socket.clone());
    let connect = Connect { instance: config.instance.clone(), control };
    let status: api::Status = connect.get(path::STATUS).ok()?;
    let table = status.flows?;
    let ok = table.lost == 0 && table.unwritten == 0;
    let found = format!(
        "{} in the table, room for {}; {} packets found no room, {} lines are not in the log",
        table.flows, table.room, table.lost, table.unwritten
    );
    let remedy = "what `ravelin flows` shows is not the whole (packets were decided about all the same); make `idle` in [flows] shorter";
    Some(api::Check {
        name: "flows".to_owned(),
        state: if ok { CheckState::Ok } else { CheckState::Warn },
        found,
        remedy: (!ok).then(|| remedy.to_owned()),
    })
}

/// Whether the files whose digests the policy in force names are what it says; nothing to say where it names none.
fn digests(config: &daemon::config::Config) -> Option<api::Check> {
    let control = Some(config.control_socket.clone());
    let status: api::Status =
        Connect { instance: config.instance.clone(), control }.get(path::STATUS).ok()?;
    let pins = status.policy.pins;
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
    (!pins.is_empty()).then(|| api::Check {
        name: "digests".to_owned(),
        state: if wrong.is_empty() { CheckState::Ok } else { CheckState::Fail },
        found,
        remedy: (!wrong.is_empty()).then(|| remedy.to_owned()),
    })
}

/// Whether a daemon that runs and its kernel half count the same; nothing to say where none runs.
fn counts(config: &daemon::config::Config) -> Option<api::Check> {
    let control = Some(config.control_socket.clone());
    let connect = Connect { instance: config.instance.clone(), control };
    let traffic: AppTrafficList = connect.get(path::TRAFFIC).ok()?;
    let HandedOver { kernel, engine, dropped, agree } = traffic.handed_over;
    let lost = traffic.lost;
    let ok = agree && lost == 0;
    let found = format!(
        "{kernel} packets handed over by the kernel's count, {engine} by the engine's, {dropped} found no room; {lost} not counted; {} refusals \
         without particulars",
        traffic.events_lost
    );
    let remedy = "what `ravelin stats --per-app` shows is not the whole; restart the daemon, and see whether it is again";
    Some(api::Check {
        name: "two counts".to_owned(),
        state: if ok { CheckState::Ok } else { CheckState::Fail },
        found,
        remedy: (!ok).then(|| remedy.to_owned()),
    })
}

fn text(report: &api::Doctor) -> String {
    let mut out = String::new();
    for check in &report.checks {
        let _ = writeln!(out, "{:<5} {:<16} {}", check.state, check.name, check.found);
        if let Some(remedy) = &check.remedy {
            let _ = writeln!(out, "{:<5} {:<16} -> {remedy}", "", "");
        }
    }
    let failed = report.failures().count();
    let _ = match failed {
        0 => writeln!(out, "this host has what the daemon needs"),
        1 => writeln!(out, "1 check failed: `ravelin run` will not start"),
        n => writeln!(out, "{n} checks failed: `ravelin run` will not start"),
    };
    out
}
