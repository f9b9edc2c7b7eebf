//! `ravelin policy plan|apply|confirm|rollback`: see a change before it happens, put it on trial, keep it or take it back.

use std::fmt::Write;
use std::path::PathBuf;

use api::{ApplicationChange, PolicyApplied, PolicyApply, PolicyPlan, PolicyText, SocketChange, path};
use clap::Args;
use policy::counted;

use super::{missing, read};
use crate::client::{Ask, Connect};
use crate::cmd::debug::seconds;
use crate::exit::{Failure, Kind};
use crate::output;

/// Say what a policy would change: applications, peers, and the open sockets that would get another verdict. Changes
/// nothing; exit status 4 if there are changes, 0 if there are none.
#[derive(Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    ask: Ask,
    /// The policy (`-`: standard input) [default: the daemon's own policy file].
    file: Option<PathBuf>,
}

/// Put a policy in force. A FILE becomes the daemon's policy file, whose text is kept as `.previous`.
#[derive(Debug, Args)]
pub struct Apply {
    #[command(flatten)]
    ask: Ask,
    /// The policy (`-`: standard input) [default: the daemon's own policy file as it is now].
    file: Option<PathBuf>,
    /// Take it back unless it is confirmed within this time: 60s, 10m. The policy file has it only then.
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    confirm_within: Option<u64>,
    /// Take a policy that names no application any more: everything goes out in clear then.
    #[arg(long)]
    allow_empty: bool,
    /// Take subjects that no program of this host matches: of programs that come later.
    #[arg(long)]
    allow_missing: bool,
}

/// Keep the policy that is on trial.
#[derive(Debug, Args)]
pub struct Confirm {
    #[command(flatten)]
    ask: Ask,
}

/// Put the policy before in force again, and in the policy file; what was there is kept as `.rejected`.
#[derive(Debug, Args)]
pub struct Rollback {
    #[command(flatten)]
    ask: Ask,
}

/// A policy file's name from the root on, for the daemon is somewhere else, and its text.
fn text(file: Option<&PathBuf>) -> anyhow::Result<(Option<String>, Option<String>)> {
    let Some(file) = file else { return Ok((None, None)) };
    let (name, octets) = read(file)?;
    let text = String::from_utf8(octets).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::bad_input(format!("{name}: octet {at} is not UTF-8; `ravelin policy check` shows the place"))
    })?;
    let name = std::path::absolute(file)
        .ok()
        .filter(|_| name != "<stdin>")
        .map_or(name, |p| p.display().to_string());
    Ok((Some(name), Some(text)))
}

impl Plan {
    pub fn execute(self) -> anyhow::Result<()> {
        let (file, text) = text(self.file.as_ref())?;
        let plan: PolicyPlan = self.ask.connect.post(path::POLICY_PLAN, &PolicyText { file, text })?;
        if !self.ask.json {
            eprint!("{}{}", plan.diagnostics, missing(&plan.missing));
        }
        self.ask.show(&plan, in_words)?;
        for block in &plan.refused_blocks {
            let kept = if block.kept_last_good { "would keep what it has" } else { "would have no policy" };
            eprintln!("ravelin: {}: the block of {} is broken: it {kept}", block.at, block.application);
        }
        match (plan.refused_blocks.is_empty(), plan.changes) {
            (false, _) => Err(Failure::silent(Kind::BadInput)),
            (true, true) => Err(Failure::silent(Kind::Changes)),
            (true, false) => Ok(()),
        }
    }
}

fn in_words(plan: &PolicyPlan) -> String {
    let mut out = String::new();
    for change in &plan.applications {
        application(&mut out, change);
    }
    for pin in &plan.pins {
        let _ = writeln!(out, "pinned {}: {}", pin.path, pin.text);
    }
    for change in &plan.sockets {
        socket(&mut out, change);
    }
    if plan.more_sockets > 0 {
        let _ = writeln!(out, "and {} more sockets", plan.more_sockets);
    }
    if plan.servers > 0 {
        let _ = writeln!(
            out,
            "{} sockets of these applications have no peer: what they get depends on who it will be",
            plan.servers
        );
    }
    let changed = plan.applications.len();
    let _ = match plan.changes {
        true => writeln!(
            out,
            "{}: changed: {}, as before: {}; another verdict: {}",
            plan.file,
            counted(changed, "application"),
            counted(plan.unchanged, "application"),
            counted(plan.sockets.len() + plan.more_sockets, "open connection")
        ),
        false => {
            writeln!(out, "{}: no change; as before: {}", plan.file, counted(plan.unchanged, "application"))
        }
    };
    out
}

fn application(out: &mut String, change: &ApplicationChange) {
    let at = change.after.as_ref().or(change.before.as_ref());
    let at = at.map_or_else(String::new, |at| format!(" ({at})"));
    let _ = writeln!(out, "application {} {}{at}", change.application, change.change);
    if let Some(limits) = &change.limits {
        let _ = writeln!(out, "  limits {limits}");
    }
    for peers in &change.peers {
        let _ = writeln!(out, "  peers {}", peers.peers);
        for flow in &peers.flows {
            let _ = writeln!(
                out,
                "    {} localport={} remoteport={}: {} -> {}",
                flow.protocol, flow.local_ports, flow.remote_ports, flow.before, flow.after
            );
        }
    }
    if change.more_peers > 0 {
        let _ = writeln!(out, "  and {} more ranges of peers", change.more_peers);
    }
}

fn socket(out: &mut String, change: &SocketChange) {
    let side = |side: &Option<String>| side.clone().unwrap_or_else(|| "*".to_owned());
    let becomes = change.becomes.as_ref().map_or_else(String::new, |name| format!(", then {name}"));
    let _ = writeln!(
        out,
        "open {} {} -> {}  ({}, pid {}, fd {}, application {}{becomes})",
        change.flow.protocol,
        side(&change.flow.local),
        side(&change.flow.remote),
        change.comm,
        change.pid,
        change.fd,
        change.application.as_deref().unwrap_or("none"),
    );
    let _ = writeln!(out, "    {} -> {}", change.before, change.after);
}

impl Apply {
    pub fn execute(self) -> anyhow::Result<()> {
        let (file, text) = text(self.file.as_ref())?;
        let request = PolicyApply {
            file,
            text,
            confirm_within_seconds: self.confirm_within,
            allow_empty: self.allow_empty,
            allow_missing: self.allow_missing,
        };
        let answer: PolicyApplied = self.ask.connect.post(path::POLICY_APPLY, &request)?;
        tell(&self.ask, &answer, "is in force")
    }
}

impl Confirm {
    pub fn execute(self) -> anyhow::Result<()> {
        let answer = ask(&self.ask.connect, path::POLICY_CONFIRM)?;
        tell(&self.ask, &answer, "stays in force")
    }
}

impl Rollback {
    pub fn execute(self) -> anyhow::Result<()> {
        let answer = ask(&self.ask.connect, path::POLICY_ROLLBACK)?;
        tell(&self.ask, &answer, "is in force: the policy before")
    }
}

fn ask(connect: &Connect, path: &str) -> anyhow::Result<PolicyApplied> {
    connect.post(path, &serde_json::json!({}))
}

fn tell(ask: &Ask, answer: &PolicyApplied, what: &str) -> anyhow::Result<()> {
    if ask.json {
        return output::json(answer);
    }
    eprint!("{}{}", answer.diagnostics, missing(&answer.missing));
    let mut out = format!(
        "generation {} {what}, {}, {} of them changed\n",
        answer.generation,
        counted(answer.applications, "application"),
        answer.changed.len()
    );
    if let Some(file) = &answer.installed {
        let _ = writeln!(out, "{file} has its text");
    }
    if let Some(file) = &answer.kept_as {
        let _ = writeln!(out, "{file} has the text that was there");
    }
    if let Some(waiting) = &answer.waiting {
        let _ = writeln!(
            out,
            "taken back in {}, unless `ravelin policy confirm`",
            output::duration(waiting.seconds_left)
        );
    }
    output::text(&out)?;
    for application in &answer.lost {
        eprintln!("ravelin: {application} has no policy any more: its traffic is in clear");
    }
    Ok(())
}
