//! The lines of `ravelin replay --json`.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{Position, Spi};

/// Which half of the engine a packet of the capture went through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplayDirection {
    /// From the wire to this host.
    Inbound,
    /// From this host, or a network behind it, to the wire.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplayVerdict {
    /// Sealed; the outer packets are in the output.
    Protect,
    /// Left as it is, as policy says, in either direction; in the output.
    Bypass,
    /// Opened and admitted; the inner packets are in the output.
    Deliver,
    /// It waits for more (a fragment). If its packet never becomes whole, a second line with its index says so.
    Hold,
    /// Answered with an ICMP error, which is in the output.
    Reply,
    /// An ICMP error about a packet of an association, which was believed; nothing is in the output.
    Learn,
    /// It ended.
    Drop,
    /// Not an IP packet; passed over.
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

/// One packet of the capture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayLine {
    /// Its place in the capture, from 1.
    pub index: u64,
    /// Its time in the capture, seconds since 1970 (or since the capture's own start).
    pub time: f64,
    /// Which half of the engine it went through.
    pub direction: ReplayDirection,
    /// What became of it.
    pub verdict: ReplayVerdict,
    /// The reason's word, if it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Source address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// Destination address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<IpAddr>,
    /// The application it was taken for.
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
    /// Its ESP sequence number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// Packets written to the output for it.
    pub written: u32,
    /// Those packets, whole, in hexadecimal; only if that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packets: Vec<String>,
}

/// The last line: what became of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplaySummary {
    /// Packets read.
    pub packets: u64,
    /// Packets written.
    pub written: u64,
    /// Packets that ended.
    pub dropped: u64,
    /// Frames of a link type that is not read; they are skipped.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unread: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}
