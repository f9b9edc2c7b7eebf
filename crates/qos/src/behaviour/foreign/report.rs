//! What a component from outside has done, for `ravelin qos show`, health and metrics.

use super::instance::{Detached, OnFault};

/// What a component has done since it was attached, and whether it is still called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The name of the library, as the configuration has it.
    pub library: String,
    /// What becomes of packets if it is detached.
    pub on_fault: OnFault,
    /// The reason why it is not called any more; `None`: it is.
    pub detached: Option<Detached>,
    /// The calls of its code.
    pub calls: u64,
    /// The packets that it judged.
    pub packets: u64,
    /// Those of them that it ended.
    pub dropped: u64,
    /// The packets that came after it was detached.
    pub unjudged: u64,
    /// The calls that used more processor time than they may.
    pub over_budget: u64,
    /// The longest time of a call, in nanoseconds of the clock.
    pub longest_ns: u64,
}
