//! The way to the code of a component, and what can go wrong on it.

use std::fmt;

use super::answer::{Answer, BrokenRule};
use super::packet_view::{Call, PacketView};

/// The most packets of one call.
pub const MOST_PACKETS: usize = 64;

/// One attached component: its state, and the way to its code.
pub trait Instance: Send {
    /// Judge packets: an answer for each, in their order. There are as many answers as packets, at most
    /// [`MOST_PACKETS`], and each is [`Answer::NONE`] before the call.
    ///
    /// # Errors
    /// The component must not be called again. Answers that are there nevertheless are carried out if they are sound.
    fn judge(&mut self, call: &Call, seen: &[PacketView], answers: &mut [Answer]) -> Result<(), Detached>;

    /// The calls that took longer than the component may, and the longest time of a call in nanoseconds.
    fn times(&self) -> Times;

    /// The component has broken a rule: its code must not run again, not even to end.
    fn abandon(&mut self);
}

/// What was measured of the calls of a component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The calls that used more processor time than the component may.
    pub over_budget: u64,
    /// The longest time of a call, in nanoseconds of the clock; it includes what else the processor did meanwhile.
    pub longest_ns: u64,
}

/// The reason why a component is not called any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detached {
    /// An answer means nothing, or something that is not the component's to say.
    Answer(BrokenRule),
    /// The component said that it failed, by this number.
    Failed(i32),
    /// Too many calls took longer than they may.
    Slow {
        /// The calls that did, in the time that counts.
        calls: u32,
        /// The nanoseconds of a processor that a call may take.
        budget_ns: u64,
        /// The nanoseconds that the last of them took.
        took_ns: u64,
    },
}

impl fmt::Display for Detached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Detached::Answer(broken) => write!(f, "a verdict is out of range: {broken}"),
            Detached::Failed(number) => {
                write!(f, "it answered {number} to a call, which says that it failed")
            }
            Detached::Slow { calls, budget_ns, took_ns } => write!(
                f,
                "{calls} calls took longer than its budget of {budget_ns} ns, the last one {took_ns} ns"
            ),
        }
    }
}

/// What becomes of packets behind a component that was detached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFault {
    /// They go on as if the component were not there.
    #[default]
    Pass,
    /// They end, as if the component had refused them.
    Drop,
}

impl OnFault {
    /// The words for both, in graphs.
    pub const WORDS: &[&str] = &["pass", "drop"];

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            OnFault::Pass => "pass",
            OnFault::Drop => "drop",
        }
    }
}
