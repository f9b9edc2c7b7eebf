//! Measured figures of the product. `cargo run --release -p bench -- SUITE...` measures a suite, prints its table, and
//! writes `target/bench/SUITE.jsonl`, one line a figure.
//!
//! A suite is made of functions in [`suites`] that fill a [`figure::Report`]. What can be compared is compared in turns within
//! one process ([`interleave`]), for absolute figures drift with the load of the machine by more than what is measured.
#![forbid(unsafe_code)]

pub mod figure;
pub mod fixture;
pub mod flow;
pub mod interleave;
pub mod load;
pub mod null;
mod pages;
pub mod paper;
pub mod peers;
pub mod process;
pub mod product;
pub mod spread;
pub mod stage;
pub mod suites;
pub mod tunnel;

pub use figure::{Figure, Report, Target};
pub use interleave::{Cost, Duel, Plan, timed};

/// How many rounds a long suite takes: what it says, or `BENCH_ROUNDS`. Fewer are for a look whether it works, and mean nothing.
pub fn rounds(usual: usize) -> usize {
    let wanted = std::env::var("BENCH_ROUNDS").ok().and_then(|text| text.parse().ok());
    wanted.filter(|rounds| *rounds > 0).unwrap_or(usual)
}
