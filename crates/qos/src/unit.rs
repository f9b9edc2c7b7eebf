//! Crypto units: what they can do, the work committed to them, their water marks.
//!
//! A unit asks for work when what is committed to it falls to its low mark, and gets work up to its high mark. Marks
//! are nanoseconds of the unit. What is committed is what a packet that comes now has to wait for, whatever its class.

mod dql;
mod sets;

pub use dql::Dql;
pub use sets::{AggregateSet, SuiteSet};

/// The time in nanoseconds within which a unit has to answer.
pub const HANG: u64 = 100_000_000;

/// The most jobs that a unit which answers later, or in steps, has at once. Each may hold a buffer of full size, so this
/// bounds the memory that is away.
pub const MOST_AWAY: usize = 256;

/// The number of a unit in the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnitId(pub u8);

/// How a unit works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The dispatcher's own thread does the work at once.
    Inline,
    /// The dispatcher's own thread does the work in steps, and expedited packets get in between.
    Sliced {
        /// The longest step in nanoseconds.
        step: u64,
    },
    /// Several packets at once cost less than one by one.
    Batch {
        /// The most packets of a batch.
        most: u8,
    },
    /// A thread of its own does the work.
    Worker,
    /// A device does the work.
    Async {
        /// The most jobs that it takes at once.
        depth: u16,
    },
}

impl Kind {
    /// The word for it in a graph.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Inline => "inline",
            Kind::Sliced { .. } => "sliced",
            Kind::Batch { .. } => "batch",
            Kind::Worker => "worker",
            Kind::Async { .. } => "async",
        }
    }

    /// Whether the work is done apart from the thread that dispatches, which is answered later.
    pub const fn answers_later(self) -> bool {
        matches!(self, Kind::Worker | Kind::Async { .. })
    }
}

/// A water mark of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The mark tunes itself. The high one follows [`Dql`] where answers come later, and is the most that may be
    /// committed where the work is done at once. The low one is half of the high one.
    Auto,
    /// The mark is this many nanoseconds.
    Fixed(u64),
}

/// The description of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitSpec {
    /// The name that operators know it by.
    pub name: String,
    /// The way in which it works.
    pub kind: Kind,
    /// The suites that it serves, by their numbers in the graph's list.
    pub suites: SuiteSet,
    /// The aggregates that it is reserved for; `None` if it serves all.
    pub reserved: Option<AggregateSet>,
    /// The aggregates whose packets get in between the steps of a sliced unit.
    pub expedited: AggregateSet,
    /// It asks for work when no more than this is committed to it.
    pub low: Mark,
    /// It gets work up to this.
    pub high: Mark,
    /// The nanoseconds beyond which neither mark goes.
    pub most_committed: u64,
}

/// What is wrong with a unit or with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnitFault {
    /// It has not answered within [`HANG`], and gets no more work.
    Hung,
    /// The answer came after the job had been given up, or after the time for it.
    Late,
    /// The job had been answered before.
    Twice,
    /// The unit was never given this job.
    Unknown,
    /// An older job of the unit had not been answered.
    Disordered,
}
