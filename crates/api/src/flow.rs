//! The flows of programs: those of open sockets, and those that the kernel half counts.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Arrived, Position, SentTraffic, Verdict};

/// The answer to GET `/v1/flows`: one flow for each socket that has a peer and whose application has a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flows {
    /// The flows, at most 10,000.
    pub flows: Vec<LiveFlow>,
    /// Number of flows that were left out beyond those.
    #[serde(default)]
    pub left_out: usize,
}

/// A flow of an open socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct LiveFlow {
    /// The application's name in the policy in force.
    pub application: String,
    /// The IP protocol number.
    pub protocol: u8,
    /// The address and port of this host.
    pub local: SocketAddr,
    /// The address and port of the peer.
    pub remote: SocketAddr,
}

/// The query of GET `/v1/flows/counted`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountedQuery {
    /// Restricts the answer to this application, as the policy names it, or to this program if it has no policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Restricts the answer to peers in this prefix: `ADDRESS` or `ADDRESS/LENGTH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Adds the ended flows whose number is above this one; none are told if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// The answer to GET `/v1/flows/counted`: the flows of the kernel half's table, and those lately taken out of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CountedFlows {
    /// The table's fill level, and counts of what is missing.
    pub table: FlowTable,
    /// Flows that go on, or may go on: at most 10,000, those with the most octets first.
    pub live: Vec<FlowRecord>,
    /// Number of live flows that were left out beyond those.
    #[serde(default)]
    pub left_out: usize,
    /// Flows that have ended, the oldest first.
    #[serde(default)]
    pub ended: Vec<FlowRecord>,
    /// The number of the flow that ended last.
    #[serde(default)]
    pub last: u64,
}

/// The fill level of the kernel half's flow table, and the line counts of the flow log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowTable {
    /// Which flows are counted: `off`, `applications`, or `everything` (programs without policy too).
    pub counted: String,
    /// Number of flows in the table.
    pub flows: usize,
    /// Number of flows that the table has room for.
    pub room: usize,
    /// Packets that found no room in the table, since the kernel half was attached. They passed as the policy says, and
    /// are in the sums of applications.
    pub lost: u64,
    /// Lines written to the flow log since the daemon's start.
    pub written: u64,
    /// Lines missing from the flow log because the disk was too slow or took none.
    pub unwritten: u64,
}

/// The side that sent the first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FlowInitiator {
    /// This host sent the first packet.
    Here,
    /// The peer sent the first packet.
    There,
}

/// Why a flow is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FlowEnd {
    /// Both sides of a TCP connection said that they will send no more.
    Closed,
    /// One side reset the TCP connection.
    Reset,
    /// No packet was seen for the idle time.
    Idle,
    /// The record counts refused calls, and no more of them came.
    Refused,
    /// The flow was silent, and the table was nearly full.
    Room,
}

impl std::fmt::Display for FlowEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            FlowEnd::Closed => "closed",
            FlowEnd::Reset => "reset",
            FlowEnd::Idle => "idle",
            FlowEnd::Refused => "refused",
            FlowEnd::Room => "room",
        })
    }
}

/// A flow with its traffic since it was first seen; also a line of the flow log. It never holds a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowRecord {
    /// The number of an ended flow, counted from 1 since the daemon's start; 0 while the flow goes on.
    #[serde(default)]
    pub number: u64,
    /// The application's name in the policy; empty for a program without policy.
    pub application: String,
    /// The executable of the process that was first seen sending; a bare name if its file is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The process ID of that process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The IP protocol number.
    pub protocol: u8,
    /// The address and port of this host; unspecified and port 0 where a call was refused. A later fragment of a
    /// datagram has no ports.
    pub local: SocketAddr,
    /// The address and port of the peer.
    pub remote: SocketAddr,
    /// The side that sent the first packet; absent if the flow's beginning was not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<FlowInitiator>,
    /// The time of the first packet: RFC 3339, UTC.
    pub first: String,
    /// The time of the last packet: RFC 3339, UTC.
    pub last: String,
    /// The traffic that was sent.
    pub outbound: SentTraffic,
    /// The traffic that arrived.
    pub inbound: Arrived,
    /// The verdict of the policy in force for the flow.
    pub verdict: Verdict,
    /// The policy line that gives the verdict; absent if no line does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<Position>,
    /// What would become of the flow if the network were not only watched (`observe`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<String>,
    /// The reason why the flow is over; absent while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<FlowEnd>,
}

impl FlowRecord {
    /// The sum of octets of both directions, without refused ones.
    pub fn octets(&self) -> u64 {
        let (out, inn) = (&self.outbound, &self.inbound);
        [out.clear, out.authenticated, out.encrypted, inn.clear, inn.authenticated, inn.encrypted]
            .iter()
            .fold(0, |sum, amount| sum.saturating_add(amount.bytes))
    }
}
