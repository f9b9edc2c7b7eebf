//! The only automation beside the Makefile.
//!
//! What enters: the workspace as Cargo describes it. What leaves: the picture of the levels, refusals of edges that
//! the design forbids, and the runs of tests and fuzz targets with their counts. Nothing here is shipped.
#![forbid(unsafe_code)]

mod clauses;
mod drill;
mod fuzz;
mod house;
mod layers;
mod man;
mod notices;
mod omit;
mod process;
mod purity;
mod suite;
mod supply;
mod words;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Ravelin's automation", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Print the levels of the house; refuse an edge that goes upward, and inside of rooms what layers.toml does not list
    Layers,
    /// Check that the pure rooms stay pure: no unsafe code, no lifted bans on clock, files and threads
    Purity,
    /// Check that the tables of clauses in docs/ name files and tests that exist
    Clauses,
    /// List doc comments that cannot be read alone and long lines of prose; refuse a room with more than it may have
    Words,
    /// Check what comes from others: advisories, bans, licences, sources
    Supply,
    /// Write the manual pages into a folder
    Man(man::Options),
    /// Write the licences of everything that is linked into the program into a file
    Notices(notices::Options),
    /// Run every check and every test, and close with `N passed, N failed`
    Test(suite::Options),
    /// Leave each program of the kernel half out in turn, and see that a test fails (docs/design/0005); takes an hour
    Omit(omit::Options),
    /// Run the demonstration on Debian's kernels, in QEMU without KVM (docs/kernels.md)
    DrillKernels(drill::Options),
    /// Build the fuzz targets (nightly, libFuzzer) and run each for some seconds
    Fuzz(fuzz::Options),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Layers => layers::run(),
        Task::Purity => purity::run(),
        Task::Clauses => clauses::run(),
        Task::Words => words::run(),
        Task::Supply => supply::run().map(|outcome| match outcome {
            supply::Outcome::Checked(passed) => passed,
            supply::Outcome::WithoutAdvisories(why) => {
                println!("skipped: advisories: {why}");
                true
            }
        }),
        Task::Man(options) => man::run(&options),
        Task::Notices(options) => notices::run(&options),
        Task::Test(options) => suite::run(&options),
        Task::Omit(options) => omit::run(&options),
        Task::DrillKernels(options) => drill::run(&options),
        Task::Fuzz(options) => fuzz::run(&options),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
