//! Components from outside of the tree: what they have done in the graph, and what a trial of a library found.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A component from outside in the graph that is in force, since it was attached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosComponentState {
    /// The hook in whose chain the component stands, as paper 002 numbers it: `1a`, `3a`, `5a`, `4a`, `2a`.
    pub hook: String,
    /// The name of the component's library in the configuration.
    pub library: String,
    /// The reason why the component is not called any more; absent: it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detached: Option<String>,
    /// What becomes of packets once the component is detached: `pass` or `drop`.
    pub on_fault: String,
    /// The calls of the component's code.
    pub calls: u64,
    /// The packets that the component judged; a super-packet counts as its pieces.
    pub packets: u64,
    /// The packets that the component ended, which are among those that it judged.
    pub dropped: u64,
    /// The packets that came when the component was detached.
    pub unjudged: u64,
    /// The calls that used more processor time than the component's budget, as far as calls were measured so.
    pub over_budget: u64,
    /// The longest time of a call by the clock, in nanoseconds. It includes what else the processor did meanwhile.
    pub longest_ns: u64,
}

/// The answer of `ravelin qos component check`: whether a library keeps the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosComponentChecked {
    /// Whether the library passed every check.
    pub ok: bool,
    /// The path of the library.
    pub file: String,
    /// The digest of what was read, for `sha256` in the configuration; absent: it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The name that the library gives itself; absent: the checks did not get so far.
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
    /// What the component did with random metadata; absent: the checks did not get so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<QosComponentTrial>,
}

/// A check of a library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosComponentCheck {
    /// The name of the check: `file`, `trial`.
    pub name: String,
    /// Whether the library passed this check.
    pub ok: bool,
    /// What the check found, in words for people.
    pub detail: String,
}

/// What a component did with random metadata in a process of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosComponentTrial {
    /// The packets that the component judged.
    pub packets: u64,
    /// The packets that the component let pass.
    pub passed: u64,
    /// The packets that the component marked as having met congestion.
    pub marked: u64,
    /// The packets that the component ended.
    pub dropped: u64,
    /// The packets that the component sent to a port.
    pub moved: u64,
    /// Nanoseconds of a call for each of its packets, in the mean.
    pub mean_ns: u64,
    /// Nanoseconds of the longest call, by the clock.
    pub longest_ns: u64,
}
