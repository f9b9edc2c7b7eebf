//! Components from outside of the tree: what they have done in the graph, and what a trial of a library found.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A component from outside in the graph that is in force, since it was attached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosComponentState {
    /// The hook in whose chain it stands, as paper 002 numbers it: `1a`, `3a`, `5a`.
    pub hook: String,
    /// The name of its library in the configuration.
    pub library: String,
    /// The reason why it is not called any more; absent: it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detached: Option<String>,
    /// What becomes of packets once it is detached: `pass` or `drop`.
    pub on_fault: String,
    /// The calls of its code.
    pub calls: u64,
    /// The packets that it judged; a super-packet counts as its pieces.
    pub packets: u64,
    /// Those of them that it ended.
    pub dropped: u64,
    /// The packets that came when it was detached.
    pub unjudged: u64,
    /// The calls that used more processor time than its budget, as far as calls were measured so.
    pub over_budget: u64,
    /// The longest time of a call by the clock, in nanoseconds. It includes what else the processor did meanwhile.
    pub longest_ns: u64,
}

/// The answer of `ravelin qos component check`: whether a library keeps the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosComponentChecked {
    /// Whether every check was passed.
    pub ok: bool,
    /// The path of the library.
    pub file: String,
    /// The digest of what was read, for `sha256` in the configuration; absent: it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The name that the library gives itself; absent: it does not get so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The version that the library gives itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The reason why a daemon would not load the file where it lies; absent: it would. It is no fault of the library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_installed: Option<String>,
    /// The checks in their order; one that was not reached is not here.
    pub checks: Vec<QosComponentCheck>,
    /// What the component did with random metadata; absent: it did not get so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<QosComponentTrial>,
}

/// A check of a library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosComponentCheck {
    /// The name of the check: `file`, `trial`.
    pub name: String,
    /// Whether it was passed.
    pub ok: bool,
    /// What was found, in words for people.
    pub detail: String,
}

/// What a component did with random metadata in a process of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosComponentTrial {
    /// The packets that it judged.
    pub packets: u64,
    /// Those that it let pass.
    pub passed: u64,
    /// Those that it marked as having met congestion.
    pub marked: u64,
    /// Those that it ended.
    pub dropped: u64,
    /// Those that it sent to a port.
    pub moved: u64,
    /// Nanoseconds of a call for each of its packets, in the mean.
    pub mean_ns: u64,
    /// Nanoseconds of the longest call, by the clock.
    pub longest_ns: u64,
}
