//! The lines of `ravelin replay --json`.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Position, Spi};

/// Which half of the engine a packet of the capture went through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReplayDirection {
    /// The packet goes from the wire to this host.
    Inbound,
    /// The packet goes from this host, or a network behind it, to the wire.
    Outbound,
}

impl std::fmt::Display for ReplayDirection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ReplayDirection::Inbound => "inbound",
            ReplayDirection::Outbound => "outbound",
        })
    }
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReplayVerdict {
    /// The packet was sealed; the outer packets are in the output.
    Protect,
    /// The packet was left as it is, as the policy says; it is in the output. This occurs in both directions.
    Bypass,
    /// The packet was opened and admitted; the inner packets are in the output.
    Deliver,
    /// The packet is a fragment that waits for others. If its datagram never becomes whole, a second line with its
    /// index says so.
    Hold,
    /// The packet was answered with an ICMP error, which is in the output.
    Reply,
    /// The packet is an ICMP error about a packet of an association, and was believed; nothing is in the output.
    Learn,
    /// The packet was dropped.
    Drop,
    /// The frame holds no IP packet and was passed over.
    Skip,
}

impl std::fmt::Display for ReplayVerdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ReplayVerdict::Protect => "protect",
            ReplayVerdict::Bypass => "bypass",
            ReplayVerdict::Deliver => "deliver",
            ReplayVerdict::Hold => "hold",
            ReplayVerdict::Reply => "reply",
            ReplayVerdict::Learn => "learn",
            ReplayVerdict::Drop => "drop",
            ReplayVerdict::Skip => "skip",
        })
    }
}

/// A packet of the capture, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayLine {
    /// The packet's place in the capture, counted from 1.
    pub index: u64,
    /// The packet's time in the capture, in seconds since 1970 (or since the capture's own start).
    pub time: f64,
    /// The half of the engine that it went through.
    pub direction: ReplayDirection,
    /// What became of the packet.
    pub verdict: ReplayVerdict,
    /// The name of the drop reason, if it was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The source address of the packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// The destination address of the packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<IpAddr>,
    /// The application to which the packet was assigned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// The line of the policy that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Position>,
    /// The rule of the SPD that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spd_rule: Option<String>,
    /// The association that sealed or opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spi: Option<Spi>,
    /// The ESP sequence number of the packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// Number of packets written to the output for it.
    pub written: u32,
    /// The packets written to the output, whole, in hexadecimal; only on request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packets: Vec<String>,
}

/// The last line, which sums up all packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplaySummary {
    /// Number of packets that were read.
    pub packets: u64,
    /// Number of packets that were written.
    pub written: u64,
    /// Number of packets that were dropped.
    pub dropped: u64,
    /// Number of frames skipped because their link type is not supported.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unread: u64,
}

/// The last line of `ravelin replay --json`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayEnd {
    /// The sums over all packets.
    pub summary: ReplaySummary,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}
