//! `bench [SUITE...]`: measure (if none is named, all but those that run on demand), print, write `target/bench/SUITE.jsonl`. Exit 1 if a figure
//! missed its target or could not be measured.
//! `bench SUITE:TEXT` measures and prints only the figures whose name holds the text, for profiling.
//!
//! `bench run`, `bench load`, `bench tunnel`, `bench spread`, `bench hold` and `bench bed` are for the suites: a daemon, programs under
//! load, the null tunnel, ten thousand applications, a prober and its peer.

use bench::{Report, load, product, spread, suites, tunnel};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    // A library of a cipher is tried in a process of its own.
    if args.first().is_some_and(|word| word == documents::ciphers::TRIAL_COMMAND) {
        documents::ciphers::trial_main();
    }
    let done = match args.split_first() {
        Some((first, rest)) if first == "run" => product::run(rest),
        Some((first, rest)) if first == "load" => load::run(rest),
        Some((first, rest)) if first == "tunnel" => tunnel::run(rest),
        Some((first, rest)) if first == "spread" => spread::run(rest),
        Some((first, rest)) if first == "bed" => suites::bed(rest),
        Some((first, [users, sockets])) if first == "hold" => hold(users, sockets),
        _ => return measure(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn hold(users: &str, sockets: &str) -> anyhow::Result<()> {
    spread::hold(users.parse()?, sockets.parse()?)
}

fn measure(mut names: Vec<String>) -> ExitCode {
    let all = || suites::ALL.iter().chain(suites::ON_DEMAND);
    let known = || all().map(|(name, _)| *name).collect::<Vec<_>>();
    if names.iter().any(|name| name.starts_with('-')) {
        eprintln!("usage: bench [SUITE[:TEXT]...]   (suites: {})", known().join(", "));
        return ExitCode::from(2);
    }
    if names.is_empty() {
        names = suites::ALL.iter().map(|(name, _)| String::from(*name)).collect();
    }
    if cfg!(debug_assertions) {
        eprintln!("bench: this is a debug build; its figures mean nothing (use --release)");
    }
    let mut ok = true;
    for name in &names {
        let (name, filter) = name.split_once(':').unwrap_or((name, ""));
        let Some((_, parts)) = all().find(|(known, _)| *known == name) else {
            eprintln!("bench: no suite is called {name:?}; there are: {}", known().join(", "));
            return ExitCode::from(2);
        };
        ok &= suite(name, filter, parts);
    }
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Measure a suite; whether everything is as it should be. What could be measured is written even if the rest failed.
fn suite(name: &str, filter: &str, parts: &[suites::Part]) -> bool {
    let mut report = Report::default();
    let mut ok = true;
    let before = load_average();
    for part in parts {
        if let Err(error) = part(filter, &mut report) {
            eprintln!("bench: {error:#}");
            ok = false;
        }
    }
    println!("{}", report.table());
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    println!("load average {before} before, {} after, on {cpus} CPUs", load_average());
    ok &= report.ok();
    if !filter.is_empty() {
        println!("a part only: nothing written");
        return ok;
    }
    let path = folder().join(format!("{name}.jsonl"));
    match report.write_jsonl(&path) {
        Ok(()) => println!("figures in {}", path.display()),
        Err(error) => {
            eprintln!("bench: cannot write {}: {error}", path.display());
            ok = false;
        }
    }
    ok
}

/// `target/bench` of the workspace when Cargo started us, of the current folder otherwise.
fn folder() -> PathBuf {
    let workspace = std::env::var_os("CARGO_MANIFEST_DIR").map(|crate_| PathBuf::from(crate_).join(".."));
    workspace.unwrap_or_default().join("target/bench")
}

/// The load average of the last minute, for the reader to judge by.
fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}
