//! Graphs of classes: what `ravelin qos` says of a file or preset, without a daemon, and of the graph that a daemon has
//! in force.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Finding, QosComponentState, QosOrigin, QosResource, QosSojourn, Waiting};

/// The answer of `ravelin qos check`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosCheck {
    /// Whether the graph can be put in force, as far as that can be told without a daemon.
    pub ok: bool,
    /// The path of the file, or `preset NAME`.
    pub file: String,
    /// The classes in the order in which their rules are asked; none if the graph is broken.
    pub classes: Vec<String>,
    /// What is wrong, in the order of the text; if `ok`, what may not be meant: each a warning, which refuses nothing.
    pub findings: Vec<Finding>,
    /// Sentences about what could not be checked here.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The answer of `ravelin qos presets`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosPresets {
    /// The graphs that come with the program.
    pub presets: Vec<QosPreset>,
}

/// A graph that comes with the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosPreset {
    /// The name, as `[qos]` and the short form of a graph take it.
    pub name: String,
    /// A line that says what the preset is for.
    pub purpose: String,
    /// The classes that it has.
    pub classes: Vec<String>,
}

/// The answer of `ravelin qos show --graph`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosGraph {
    /// The path of the file, or `preset NAME`.
    pub file: String,
    /// The graph in its full form, as TOML: hooks with their components, schedulers, queues, units.
    pub graph: String,
}

/// The answer of `ravelin qos show`: the graph that is in force, and what it has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosState {
    /// The path of the file, or `preset NAME`; absent if no graph is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Where the graph is from; absent if none is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<QosOrigin>,
    /// The graph in its full form, as TOML; absent if none is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<String>,
    /// The trial of the graph; absent: it is not on trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Sentences about rules that match nothing on this gateway.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The nanoseconds that no packet of a bucket of sojourns exceeds, in the order of the buckets. The last bucket has
    /// no bound and no place here.
    #[serde(default)]
    pub sojourn_bounds_ns: Vec<u64>,
    /// What reservations leave free of each crypto unit and uplink; none without a graph.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<QosResource>,
    /// The number of reservations that are held.
    #[serde(default)]
    pub reservations: u64,
    /// The directions in which packets wait in the graph.
    pub directions: Vec<QosDirectionState>,
}

/// A graph to be put in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QosApply {
    /// The name of the text in messages: the path of a file, or `preset NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The text of the graph; absent: what `[qos]` names, as it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Seconds after which the graph before is in force again, unless this one is confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_within_seconds: Option<u64>,
    /// Whether reservations that the graph has no class, unit, uplink or room for may end. Without it such a graph is
    /// refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end_reservations: bool,
}

/// The graph that is in force after a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosApplied {
    /// The path of the file, or `preset NAME`.
    pub file: String,
    /// Its classes, in the order in which their rules are asked.
    pub classes: Vec<String>,
    /// The file that has its text now; absent: no file was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed: Option<String>,
    /// The file that has the text which was there before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_as: Option<String>,
    /// The trial of the graph; absent: it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Sentences about rules that match nothing on this gateway.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Sentences about reservations that the change has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended_reservations: Vec<String>,
}

/// What the graph has done in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosDirectionState {
    /// The direction of its packets.
    pub direction: QosDirection,
    /// The packets that wait now; a super-packet is one.
    pub waiting: u64,
    /// The packets that can wait.
    pub room: u64,
    /// Packets that were dropped since so many waited already, or too many long ones; a super-packet is one. They are
    /// in the counts of no class.
    #[serde(default)]
    pub no_place: u64,
    /// The queues in the kernel, in the order in which they are read: of the TUN, or UDP sockets; none where all packets
    /// share one.
    #[serde(default)]
    pub kernel_queues: Vec<QosKernelCounts>,
    /// The classes at the queues that they have met.
    pub classes: Vec<QosClassCounts>,
    /// The crypto units of the graph. One that has failed is not among them.
    pub units: Vec<QosUnitState>,
    /// What units did wrong that answer later.
    #[serde(default)]
    pub unit_faults: QosUnitFaults,
    /// The components from outside in its chains.
    #[serde(default)]
    pub components: Vec<QosComponentState>,
}

/// What came of a class at one queue. What arrived has left, was dropped, was given back in an exchange of graphs, or
/// waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosClassCounts {
    /// The name of the class.
    pub class: String,
    /// The hook in front of the queue, as paper 002 numbers it: `1a`, `3a`, `5a`, `4a`, `2a`.
    pub hook: String,
    /// Packets that came; a super-packet counts as its pieces.
    pub arrived: u64,
    /// Packets that left the queue.
    pub left: u64,
    /// Packets that were classified again in an exchange of graphs.
    pub given_back: u64,
    /// Packets that wait there now.
    pub waiting: u64,
    /// Octets of the packets that wait there now.
    #[serde(default)]
    pub waiting_octets: u64,
    /// Nanoseconds of work that the packets which wait there now are expected to cost.
    #[serde(default)]
    pub waiting_ns: u64,
    /// Packets that were dropped, by the reason.
    pub dropped: std::collections::BTreeMap<String, u64>,
    /// The most packets of the class, not of a flow, that were dropped here one after the other: as they came, with none
    /// queued in between, or out of the queue, with none leaving in between.
    #[serde(default)]
    pub longest_loss: u64,
    /// Nanoseconds that the packets which units were given from this queue were expected to cost; 0 at other queues.
    #[serde(default)]
    pub served_ns: u64,
    /// How long packets had been in the gateway when they left the queue.
    #[serde(default)]
    pub sojourn: QosSojourn,
}

/// What units of the kinds `worker` and `async` did wrong since the daemon began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosUnitFaults {
    /// Units that were taken out, since they did not answer within 100 ms or their thread has ended.
    pub failed: u64,
    /// Answers that came after their work had been given up.
    pub late: u64,
    /// Answers that came before those to older work of the same unit.
    pub disordered: u64,
}

/// A crypto unit and its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosUnitState {
    /// The name of the unit.
    pub unit: String,
    /// The way it works: `inline`, `sliced`, `batch`, `worker`, `async`.
    #[serde(default)]
    pub kind: String,
    /// Nanoseconds of work that is committed to it.
    pub committed_ns: u64,
    /// Packets that wait for it.
    pub waiting: u64,
    /// Nanoseconds of work that waits for it.
    pub waiting_ns: u64,
    /// Nanoseconds that it spent on its work, input and output with it, since it was attached. The difference of two
    /// answers by the time between them is its load.
    #[serde(default)]
    pub busy_ns: u64,
    /// It asks for work when no more than these nanoseconds are committed to it.
    pub low_ns: u64,
    /// It gets work up to these nanoseconds.
    pub high_ns: u64,
}

/// The answer of `ravelin qos plan`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QosPlan {
    /// The path of the file, or `preset NAME`.
    pub file: String,
    /// The costs that the figures rest on.
    pub costs: QosCosts,
    /// Each class in each of its directions.
    pub classes: Vec<QosDelay>,
    /// Octets of all queues when they are full.
    pub memory_octets: u64,
    /// The replay windows that associations with packets of several classes need.
    pub replay_windows: Vec<QosWindow>,
    /// The crypto units of the graph.
    pub units: Vec<QosUnit>,
    /// The suites with the units that can do them.
    pub capabilities: Vec<QosCapability>,
    /// The queues in the kernel.
    pub kernel_queues: Vec<QosKernelQueue>,
    /// Sentences that a reader of the figures has to know.
    pub notes: Vec<String>,
}

/// The costs that figures rest on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosCosts {
    /// The origin of the costs of suites: a file that was given, or nothing, and then they count as zero.
    pub suites_from: QosCostSource,
    /// Whether the times of the packet path are the usual ones, and not measured on this machine.
    pub path_is_assumed: bool,
    /// The costs of suites.
    pub suites: Vec<QosSuiteCost>,
    /// The costs of receiving and sending a packet, and of finding its association.
    pub path: Vec<QosPathCost>,
    /// Nanoseconds from the arrival of a packet to the run of the thread that reads it, at most.
    pub wake_ns: u64,
    /// Nanoseconds of the longest turn of the other direction on the same processor.
    pub other_turn_ns: u64,
    /// Octets of the largest packet.
    pub mtu: u64,
}

/// The origin of the costs of suites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QosCostSource {
    /// The costs stand in the file that was named.
    File,
    /// Nothing is known of the costs: the work of ciphers counts as zero.
    Nothing,
}

/// The cost of the work of a suite on a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosSuiteCost {
    /// The name of the suite.
    pub suite: String,
    /// The direction of the work.
    pub direction: QosDirection,
    /// Nanoseconds for each packet.
    pub base_ns: u64,
    /// Picoseconds for each octet.
    pub ps_per_octet: u64,
}

/// The cost of a step of the packet path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosPathCost {
    /// The step: `receive` or `send`.
    pub step: String,
    /// Nanoseconds for each packet.
    pub base_ns: u64,
    /// Picoseconds for each octet.
    pub ps_per_octet: u64,
}

/// The direction of packets, seen from the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QosDirection {
    /// The packets leave towards their peers, and are sealed.
    Out,
    /// The packets come from peers, and are opened.
    In,
}

impl fmt::Display for QosDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QosDirection::Out => "out",
            QosDirection::In => "in",
        })
    }
}

/// The worst delay of a class in a direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosDelay {
    /// The name of the class.
    pub class: String,
    /// The direction of its packets.
    pub direction: QosDirection,
    /// Nanoseconds that a packet is in the gateway, at most; absent if there is no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ns: Option<u64>,
    /// Why there is no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_bound: Option<String>,
    /// The terms whose sum the delay is; absent if there is no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<QosTerms>,
    /// Nanoseconds that the class has been promised by its `delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised_ns: Option<u64>,
    /// The share of the processor that the class can count on, in parts per million.
    pub share_ppm: u64,
    /// Octets of the queues and kernel queues of the class when they are full.
    pub memory_octets: u64,
}

/// The terms of a worst delay, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosTerms {
    /// What the kernel queue of the class can hold, and a batch of each other one.
    pub kernel_queue_ns: u64,
    /// The time until the thread runs.
    pub wake_up_ns: u64,
    /// Work that units hold already.
    pub committed_work_ns: u64,
    /// Work of other classes that goes ahead.
    pub other_classes_ns: u64,
    /// The burst of the class itself, or the limits of its queues.
    pub own_burst_ns: u64,
    /// The sending of the packet.
    pub io_ns: u64,
    /// A turn of the other direction on the same processor.
    pub other_direction_ns: u64,
    /// The error terms E_a and E_p of RFC 3246: the sum of every term but the own burst.
    pub error_term_ns: u64,
}

/// The replay window that associations with packets of several classes need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosWindow {
    /// The direction of the packets that pass one another.
    pub direction: QosDirection,
    /// The window in packets; absent if there is no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// The class whose packets are passed by so many others while they wait; absent if there is no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// What to change, if no association can have a window of so many packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub too_large: Option<String>,
    /// Why there is no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_bound: Option<String>,
}

/// A crypto unit of a graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosUnit {
    /// The name in the graph.
    pub name: String,
    /// The way it works: `inline`, `sliced`, `batch`, `worker`, `async`.
    pub kind: String,
    /// The classes that it is reserved for; empty: it serves every class.
    pub reserved: Vec<String>,
    /// Nanoseconds of work that are ever committed to it, at most.
    pub most_committed_ns: u64,
}

/// A suite with the units that can do it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosCapability {
    /// The name of the suite.
    pub suite: String,
    /// The names of the units; none: associations with this suite are refused.
    pub units: Vec<String>,
}

/// Queues in the kernel for classes of a graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosKernelQueue {
    /// The name in the graph, or that of the first class.
    pub name: String,
    /// The direction of the packets.
    pub direction: QosDirection,
    /// The classes that wait there.
    pub classes: Vec<String>,
    /// Number of queues over which users are spread.
    pub queues: u64,
    /// The most packets that wait in one of them.
    pub limit: u64,
}

/// What came of one kernel queue. What arrived was taken, was lost, or waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosKernelCounts {
    /// The number of the queue, from 0.
    pub queue: u64,
    /// The classes that wait there; an empty list where packets wait that name no association of their sender.
    pub classes: Vec<String>,
    /// Packets that arrived; a super-packet of the TUN is one, and a run of joined datagrams is as many as it has.
    pub arrived: u64,
    /// Packets that were taken for the graph.
    pub taken: u64,
    /// Packets that the kernel half dropped, since the queue was full, and those that did not get into it for another
    /// reason.
    pub lost: u64,
    /// Packets that wait now.
    pub waiting: u64,
    /// The most packets that wait.
    pub limit: u64,
}

/// A packet of `ravelin qos simulate`, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QosPacket {
    /// The packet's place in the capture, counted from 1.
    pub index: u64,
    /// The packet's time in the capture, in seconds since 1970 (or since the capture's own start).
    pub time: f64,
    /// The direction that it was taken for; absent if it was passed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<QosDirection>,
    /// What became of the packet.
    pub verdict: QosVerdict,
    /// The class that it had at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Why it was dropped: `queue_full`, `policed`, `early_drop`, `aqm_drop` and others; why it was passed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Nanoseconds from its arrival until it left or was dropped, its own work included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ns: Option<u64>,
}

/// What became of a packet in a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QosVerdict {
    /// The packet left the graph.
    Pass,
    /// The packet was dropped inside.
    Drop,
    /// The frame holds no IP packet and was passed over.
    Skip,
}

impl fmt::Display for QosVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QosVerdict::Pass => "pass",
            QosVerdict::Drop => "drop",
            QosVerdict::Skip => "skip",
        })
    }
}

/// The last line of `ravelin qos simulate --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QosSimulationEnd {
    /// The sums over all packets.
    pub summary: QosSimulation,
}

/// The sums of a simulation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QosSimulation {
    /// Number of frames that were read.
    pub packets: u64,
    /// Number of packets that left the graph.
    pub passed: u64,
    /// Number of packets that were dropped inside.
    pub dropped: u64,
    /// Number of frames that were passed over.
    pub skipped: u64,
    /// Whether the costs of the work were assumed and not given.
    pub costs_are_assumed: bool,
    /// The classes that had packets, by direction and in the order of their numbers.
    pub classes: Vec<QosClassSums>,
}

/// The sums of a simulation for one class in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QosClassSums {
    /// The name of the class.
    pub class: String,
    /// The direction of its packets.
    pub direction: QosDirection,
    /// Number of packets that left.
    pub passed: u64,
    /// Number of packets that were dropped.
    pub dropped: u64,
    /// The most packets that were dropped in a row.
    pub longest_loss: u64,
    /// Nanoseconds that half of the packets that left did not exceed, within an eighth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_wait_ns: Option<u64>,
    /// Nanoseconds that 99 of 100 packets that left did not exceed, within an eighth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_wait_ns: Option<u64>,
    /// Nanoseconds of the longest wait of a packet that left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_wait_ns: Option<u64>,
}
