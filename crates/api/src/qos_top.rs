//! What `ravelin qos top` shows: an interval between two answers of `GET /v1/qos`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{QosDirection, QosKernelCounts};

/// A document of `ravelin qos top --json`: what the graph did in an interval, and what it has done since it began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QosTop {
    /// The path of the file, or `preset NAME`; absent if no graph is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The length of the interval in seconds.
    pub seconds: f64,
    /// The directions in which packets wait in the graph.
    pub directions: Vec<QosTopDirection>,
}

/// An interval in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QosTopDirection {
    /// The direction of its packets.
    pub direction: QosDirection,
    /// The classes, in the order of the answer.
    pub classes: Vec<QosTopClass>,
    /// Where packets were lost and why, those of the interval first.
    pub losses: Vec<QosTopLoss>,
    /// The kernel queues as they are at the end of the interval.
    pub kernel_queues: Vec<QosKernelCounts>,
    /// The crypto units of the graph.
    pub units: Vec<QosTopUnit>,
}

/// A class in an interval. Packets pass several queues, at which their class may change: counts of arrival are those of
/// the queue where most of the class came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QosTopClass {
    /// The name of the class.
    pub class: String,
    /// Packets that came since the graph began.
    pub arrived: u64,
    /// Packets that came, for each second of the interval.
    pub arrived_per_second: f64,
    /// Packets that the kernel half dropped at the queues that are of this class alone, for each second of the interval;
    /// absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_lost_per_second: Option<f64>,
    /// Packets that the graph dropped, for each second of the interval.
    pub dropped_per_second: f64,
    /// Packets that wait now, at all queues of the graph.
    pub waiting: u64,
    /// Octets of the packets that wait now.
    pub waiting_octets: u64,
    /// Nanoseconds of work that the packets which wait now are expected to cost.
    pub waiting_ns: u64,
    /// Nanoseconds from its arrival that half of the packets which left the last queue of the class in the interval did
    /// not exceed: the upper bound of a bucket. Absent if none left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<u64>,
    /// The same for 99 of 100 packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<u64>,
    /// The share of this class in the work that units were given in the interval, in parts per million.
    pub share_ppm: u64,
    /// The most packets of the class that were lost one after the other at one queue, since the graph began.
    pub longest_loss: u64,
}

/// Losses at one place for one reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QosTopLoss {
    /// The class, or the classes that share a kernel queue; none where the class is not counted.
    pub classes: Vec<String>,
    /// The hook in front of the queue (`1a`, `3a`, `5a`, `4a`, `2a`), or `kernel`; `graph` where no place was left to wait.
    pub place: String,
    /// The number of the kernel queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<u64>,
    /// The reason: one of `GET /v1/qos`, `kernel_queue_full` or `no_place`.
    pub reason: String,
    /// Packets lost since the graph began.
    pub count: u64,
    /// Packets lost, for each second of the interval.
    pub per_second: f64,
}

/// A crypto unit in an interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QosTopUnit {
    /// The name of the unit.
    pub unit: String,
    /// The part of the interval in which it worked, in parts per million.
    pub load_ppm: u64,
    /// Nanoseconds of work that is committed to it now.
    pub committed_ns: u64,
    /// Nanoseconds of work that waits for it now.
    pub waiting_ns: u64,
    /// It asks for work when no more than these nanoseconds are committed to it.
    pub low_ns: u64,
    /// It gets work up to these nanoseconds.
    pub high_ns: u64,
}
