//! The suites by name, and the parts that each is made of.

mod cipher;
mod engine;
mod floods;
mod hooks;
mod lookup;
mod null;
mod paper_000;
mod paper_001;
mod paper_002;
mod paper_003;
mod paper_004;
mod path;
mod peers;
mod policy;
mod qos;
mod sa;
mod scrub;
mod segment;

use crate::{Figure, Report};

/// A part of a suite: fills the report with the figures whose name holds the filter (empty: all).
pub type Part = fn(filter: &str, &mut Report) -> anyhow::Result<()>;

/// Every suite there is: its figures go to one file.
pub const ALL: &[(&str, &[Part])] = &[
    ("engine", &[engine::run, lookup::run, sa::run, path::run]),
    ("hooks", &[hooks::run]),
    ("null", &[segment::run, null::run]),
    ("scrub", &[scrub::run]),
    ("policy", &[policy::run]),
    ("qos", &[qos::run]),
];

/// Suites that need more than `make deps` installs, or long: they run only when they are named.
pub const ON_DEMAND: &[(&str, &[Part])] = &[
    ("peers", &[peers::run]),
    ("paper-000", &[paper_000::run]),
    ("floods", &[floods::run]),
    ("paper-001", &[paper_001::run]),
    ("paper-002", &[paper_002::run]),
    ("paper-003", &[paper_003::run]),
    ("paper-004", &[paper_004::run]),
    ("cipher", &[cipher::run]),
];

/// Be the prober of paper 002, or its peer.
///
/// # Errors
/// On other arguments, and as the network says.
pub fn bed(args: &[String]) -> anyhow::Result<()> {
    paper_002::program(args)
}

/// The report, for a part whose figures come together.
struct FigureFilter<'a> {
    filter: &'a str,
    report: &'a mut Report,
}

impl FigureFilter<'_> {
    fn wants(&self, name: &str) -> bool {
        name.contains(self.filter)
    }

    /// Add a figure, if it was asked for.
    fn push(&mut self, figure: Figure) {
        if self.wants(&figure.name) {
            self.report.push(figure);
        }
    }
}
