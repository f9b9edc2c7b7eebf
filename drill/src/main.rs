//! `drill programs`: unmodified programs of Debian between two protected hosts, over IPv4 and IPv6, while daemons are replaced and
//! killed, policies loaded and MTUs changed. Each must work, and not one octet may be seen in clear (docs/programs.md).
//!
//! What enters: the entries of `drill/programs`, a seed. What leaves: a table, `target/drill/programs.jsonl`, an exit status of 1 if one
//! failed or too few could be run. Nothing here is shipped.
#![forbid(unsafe_code)]

mod case;
mod dice;
mod event;
mod packages;
mod report;
mod stage;
mod unit;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::{Parser, Subcommand};
use lab::rig::Rig;

use crate::dice::Dice;
use crate::event::Events;
use crate::packages::Missing;
use crate::report::{AT_LEAST, Line, Report, Verdict};
use crate::stage::Stage;
use crate::unit::{Plan, Unit};

#[derive(Parser)]
#[command(name = "drill", about = "Ravelin under real programs", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run unmodified programs between two protected hosts
    Programs(Options),
}

#[derive(clap::Args)]
struct Options {
    /// The order and all that happens, again; by chance without it
    #[arg(long)]
    seed: Option<u64>,
    /// Only these programs, by name
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// What does not begin within so many minutes counts as skipped
    #[arg(long, default_value_t = 20)]
    minutes: u64,
}

fn main() -> ExitCode {
    let Verb::Programs(options) = Arguments::parse().verb;
    match programs(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("drill: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn programs(options: &Options) -> anyhow::Result<bool> {
    let mut cases = case::all()?;
    for name in &options.only {
        ensure!(cases.iter().any(|case| case.name == *name), "no program is called {name}");
    }
    cases.retain(|case| options.only.is_empty() || options.only.contains(&case.name));
    let wanted: BTreeSet<&str> = cases.iter().flat_map(|case| &case.packages).map(String::as_str).collect();
    let missing = packages::install(&wanted)?;
    let seed = options.seed.map_or_else(|| netio::random::number().map(u64::from), Ok)?;
    println!("seed {seed} (`--seed {seed}` repeats order and events)");
    let mut dice = Dice::new(seed);
    let mut units: Vec<Unit> = Vec::new();
    for case in cases {
        units.extend(case.families.iter().map(|family| Unit { case: case.clone(), family: *family }));
    }
    dice.shuffle(&mut units);
    let (binary, folder) = (binary()?, folder());
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let report = run_all(&binary, &folder, &units, &missing, &mut dice, options.minutes);
    Rig::clean(stage::NAME, &binary)?;
    let report = report?;
    report.write_jsonl(&folder.join("programs.jsonl"))?;
    print!("\n{}", report.table());
    let at_least = if options.only.is_empty() { AT_LEAST } else { 0 };
    Ok(report.ok(at_least))
}

fn run_all(
    binary: &Path,
    folder: &Path,
    units: &[Unit],
    missing: &Missing,
    dice: &mut Dice,
    minutes: u64,
) -> anyhow::Result<Report> {
    let mut stage = Stage::build(binary)?;
    let (mut events, mut report) = (Events::default(), Report::default());
    let began = Instant::now();
    for unit in units {
        // Drawn also for what is skipped, so that the rest of the run does not depend on what this host has.
        let before = events.draw(dice, true);
        let meanwhile = events.draw(dice, !unit.case.loses);
        let plan = Plan { before, after: dice.below(400), meanwhile };
        let late = began.elapsed() > Duration::from_secs(60 * minutes);
        let reason = if late { Some("out of time".to_owned()) } else { impossible(unit, &stage, missing) };
        let line = match reason {
            Some(reason) => skipped(unit, reason),
            None => one(&mut stage, folder, unit, plan)?,
        };
        let (name, verdict, seconds) = (unit.name(), line.verdict, line.seconds);
        println!("{name:<24} {verdict:?} {seconds:.1} s; {before}, then {meanwhile} {}", line.note);
        report.0.push(line);
    }
    Ok(report)
}

/// Why it cannot be run here.
fn impossible(unit: &Unit, stage: &Stage, missing: &Missing) -> Option<String> {
    for package in &unit.case.packages {
        if let Some(reason) = missing.get(package) {
            return Some(format!("{package}: {reason}"));
        }
    }
    if let Err(error) = unit.programs(&stage.folder) {
        return Some(error.to_string());
    }
    let asked = Command::new("/bin/sh").args(["-eu", "-c", unit.case.possible.as_deref()?]).output();
    match asked {
        Ok(answer) if answer.status.success() => None,
        Ok(answer) => Some(String::from_utf8_lossy(&answer.stdout).trim().to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

fn skipped(unit: &Unit, note: String) -> Line {
    Line {
        program: unit.case.name.clone(),
        what: unit.case.what.clone(),
        family: unit.family,
        verdict: Verdict::Skipped,
        seconds: 0.0,
        encrypted: 0,
        before: None,
        meanwhile: None,
        in_flight: false,
        note,
    }
}

/// Run one; an error is the daemons' or the stage's, and ends the drill.
fn one(stage: &mut Stage, folder: &Path, unit: &Unit, plan: Plan) -> anyhow::Result<Line> {
    let began = Instant::now();
    unit.make_folder(&stage.folder)?;
    stage.protect(unit.programs(&stage.folder)?)?;
    let outcome = unit.run(stage, plan);
    let health =
        if matches!(&outcome, Ok(fine) if fine.failure.is_none()) { String::new() } else { stage.health() };
    stage.clear_hosts()?;
    let crossed = stage.crossed(&folder.join(format!("{}.pcap", unit.name())))?;
    let outcome = outcome.with_context(|| unit.name())?;
    let nothing = (crossed.octets == 0).then(|| "nothing crossed the wire".to_owned());
    let wrong: Vec<String> = [crossed.complaint, outcome.failure, nothing].into_iter().flatten().collect();
    let note = if wrong.is_empty() { String::new() } else { format!("{} ({health})", wrong.join("; ")) };
    Ok(Line {
        verdict: if wrong.is_empty() { Verdict::Passed } else { Verdict::Failed },
        seconds: began.elapsed().as_secs_f64(),
        encrypted: crossed.octets,
        before: Some(plan.before.to_string()),
        meanwhile: Some(plan.meanwhile.to_string()),
        in_flight: outcome.in_flight,
        ..skipped(unit, note)
    })
}

/// The `ravelin` program beside this one.
fn binary() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("the path of this program")?;
    let binary = own.with_file_name("ravelin");
    ensure!(binary.is_file(), "{} is missing: cargo build --package ravelin", binary.display());
    Ok(binary)
}

/// `target/drill` of the workspace when Cargo started us, of the current folder otherwise.
fn folder() -> PathBuf {
    let workspace = std::env::var_os("CARGO_MANIFEST_DIR").map(|crate_| PathBuf::from(crate_).join(".."));
    workspace.unwrap_or_default().join("target/drill")
}
