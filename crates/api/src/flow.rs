//! The flows of programs: those of open sockets, and those that the kernel half counts.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::{Arrived, Position, Sent, Verdict};

/// GET `/v1/flows`: one for each socket with a peer whose application has a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flows {
    /// At most 10,000.
    pub flows: Vec<LiveFlow>,
    /// How many there are beyond those.
    #[serde(default)]
    pub left_out: usize,
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LiveFlow {
    /// The application's name in the policy in force.
    pub application: String,
    /// IP protocol number.
    pub protocol: u8,
    /// This host's end.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
}

/// The question of GET `/v1/flows/counted`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountedQuery {
    /// Only of this application, as the policy names it, or of this program, if it has no policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Only with peers of this prefix: `ADDRESS` or `ADDRESS/LENGTH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Ended flows with a number above this; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// GET `/v1/flows/counted`: what the kernel half's table holds, and what was taken out of it lately.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedFlows {
    /// How full the table is, and what is missing.
    pub table: FlowTable,
    /// Flows that go on, or may: at most 10,000, those with the most octets first.
    pub live: Vec<FlowRecord>,
    /// How many there are beyond those.
    #[serde(default)]
    pub left_out: usize,
    /// Flows that have ended, the oldest first.
    #[serde(default)]
    pub ended: Vec<FlowRecord>,
    /// The number of the last that has ended.
    #[serde(default)]
    pub last: u64,
}

/// The kernel half's table of flows, and the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowTable {
    /// `off`, `applications`, or `everything` (programs without policy too).
    pub counted: String,
    /// Flows in it.
    pub flows: usize,
    /// Room for so many.
    pub room: usize,
    /// Packets that found no room, since the kernel half was attached: they passed as policy says, and are in the sums of
    /// applications.
    pub lost: u64,
    /// Lines in the flow log, since the daemon's start.
    pub written: u64,
    /// Lines that are not in it: the disk was too slow, or took none.
    pub unwritten: u64,
}

/// Who sent the first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Begun {
    /// This host.
    Here,
    /// The peer.
    There,
}

/// Why a flow is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowEnd {
    /// Both sides of a TCP connection said that they will send no more.
    Closed,
    /// One of them broke it off.
    Reset,
    /// Nothing was sent for so long.
    Idle,
    /// Calls that were refused: there is no more to come.
    Refused,
    /// It was silent, and the table nearly full.
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

/// One flow, with what it came to since it was first seen; also a line of the flow log. Never a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowRecord {
    /// Of one that has ended: its number since the daemon's start, from 1. 0: it goes on.
    #[serde(default)]
    pub number: u64,
    /// The application's name in the policy; empty: a program without policy.
    pub application: String,
    /// The executable of the process that was first seen sending; a bare name if its file is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// That process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// IP protocol number.
    pub protocol: u8,
    /// This host's end; unspecified and port 0 where a call was refused. A later fragment of a datagram has no ports.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// Who began it; absent: it was seen from the middle on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Begun>,
    /// The first packet: RFC 3339, UTC.
    pub first: String,
    /// The last packet.
    pub last: String,
    /// What was sent.
    pub outbound: Sent,
    /// What arrived.
    pub inbound: Arrived,
    /// What the policy in force says of it.
    pub verdict: Verdict,
    /// The line that says so; absent: nothing in the policy does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<Position>,
    /// What would become of it, if the network were not only watched (`observe`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<String>,
    /// Why it is over; absent: it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<FlowEnd>,
}

impl FlowRecord {
    /// Octets of both directions, refused ones left out.
    pub fn octets(&self) -> u64 {
        let (out, inn) = (&self.outbound, &self.inbound);
        [out.clear, out.authenticated, out.encrypted, inn.clear, inn.authenticated, inn.encrypted]
            .iter()
            .fold(0, |sum, amount| sum.saturating_add(amount.bytes))
    }
}
