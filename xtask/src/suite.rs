//! `make test`: every check and every test, one count at the end.
//!
//! A check (format, clippy, layers, purity, clauses, words, manual) counts as one. One `cargo test --no-run` builds all test
//! programs, so that they share their dependencies, and lints as it compiles. What follows runs side by side:
//!
//! - the *heavy* jobs, which keep the processors busy, one after the other: the programs of the pure rooms with all threads (the fuzz
//!   targets over their corpora among them), the examples in the documentation;
//! - the *waiting* jobs, several at once: each test of a room with effects is a process of its own, which mostly waits for a
//!   daemon, a program or a retransmission. Everything that such a test makes (namespaces, control groups, pins) bears the test's name.
//!
//! A test that cannot run here prints `skipped: REASON` and is counted; what else a passing test prints is not shown.

mod build;
mod count;
mod tally;
mod watch;

use crate::process::{self, cargo};
use crate::{clauses, layers, man, purity, words};
use anyhow::Result;
use build::{Built, Program};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;
use tally::Tally;

/// How to run the suite.
#[derive(clap::Args)]
pub struct Options {
    /// Only this room's tests, without the checks
    #[arg(long, value_name = "ROOM", conflicts_with = "lint")]
    room: Option<String>,
    /// Only the checks that run nothing: format, clippy, layers, purity, clauses, words, manual, supply chain
    #[arg(long)]
    lint: bool,
    /// Seconds after which a test process is killed and counted as failed
    #[arg(long, default_value_t = 900)]
    limit: u64,
    /// Tests of rooms with effects that run side by side
    #[arg(long, default_value_t = 5)]
    jobs: usize,
}

/// Run it; whether nothing failed.
pub fn run(options: &Options) -> Result<bool> {
    let tally = Tally::default();
    if options.room.is_none() {
        tally.check("format", || process::passes(Command::new(cargo()).args(["fmt", "--all", "--check"])));
        tally.check("layers", layers::run);
        tally.check("purity", purity::run);
        tally.check("clauses", clauses::run);
        tally.check("words", words::run);
        tally.check("manual", man::lint);
        tally.supply();
    }
    if options.lint {
        tally.check("clippy", clippy);
        return Ok(tally.close());
    }
    let mut built = Built::default();
    tally.check("build", || build::programs(options.room.as_deref(), &mut built));
    let Built { programs, complaints } = built;
    if options.room.is_none() {
        tally.check("clippy", || {
            println!("{complaints} warnings and errors");
            Ok(complaints == 0)
        });
    }
    let limit = Duration::from_secs(options.limit);
    let (waiting, heavy): (Vec<_>, Vec<_>) = programs.iter().partition(|program| program.has_effects());
    let tests = Mutex::new(tally.list(&waiting).into_iter());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                while let Some(test) = next(&tests) {
                    tally.run(test.program, Some(&test.name), limit);
                }
            });
        }
        heavy.iter().for_each(|program| tally.run(program, None, limit));
        if options.room.is_none() {
            tally.documentation();
        }
    });
    Ok(tally.close())
}

/// A test of a room with effects, to be run in a process of its own.
struct Test<'a> {
    program: &'a Program,
    name: String,
}

fn next<T>(queue: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    queue.lock().expect("no worker panics with the queue in its hands").next()
}

fn clippy() -> Result<bool> {
    let arguments = ["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];
    process::passes(Command::new(cargo()).args(arguments))
}
