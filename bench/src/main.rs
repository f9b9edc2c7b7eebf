//! `bench SUITE...`: measure, print, write `target/bench/SUITE.jsonl`. Exit 1 if a figure missed its target.
//! `bench SUITE:TEXT` measures and prints only the figures whose name holds the text, for profiling.

use bench::{Report, suites};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let known = || suites::ALL.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    if names.is_empty() || names.iter().any(|name| name.starts_with('-')) {
        eprintln!("usage: bench SUITE[:TEXT]...   (suites: {})", known());
        return ExitCode::from(2);
    }
    let mut ok = true;
    for name in &names {
        let (name, filter) = name.split_once(':').unwrap_or((name, ""));
        let Some((_, suite)) = suites::ALL.iter().find(|(known, _)| *known == name) else {
            eprintln!("bench: no suite is called {name:?}; there are: {}", known());
            return ExitCode::from(2);
        };
        if cfg!(debug_assertions) {
            eprintln!("bench: this is a debug build; its figures mean nothing (use --release)");
        }
        let mut report = Report::default();
        suite(filter, &mut report);
        println!("{}", report.table());
        ok &= report.ok();
        if !filter.is_empty() {
            println!("load {}, nothing written", load());
            continue;
        }
        let path = folder().join(format!("{name}.jsonl"));
        if let Err(error) = report.write_jsonl(&path) {
            eprintln!("bench: cannot write {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
        println!("load {}, figures in {}", load(), path.display());
    }
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// `target/bench` of the workspace when Cargo started us, of the current folder otherwise.
fn folder() -> PathBuf {
    let workspace = std::env::var_os("CARGO_MANIFEST_DIR").map(|crate_| PathBuf::from(crate_).join(".."));
    workspace.unwrap_or_default().join("target/bench")
}

/// The load average of the last minute, for the reader to judge by.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}
