//! The lines of `ravelin scrub --json`, and of `ravelin scrub --rules --json`.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of a frame or packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScrubVerdict {
    /// The packet is in the output, perhaps changed.
    Forward,
    /// The packet was dropped, by `rule` or for `reason`.
    Drop,
    /// The packet is a fragment that waits for the others. What they make together takes the place of the last.
    Hold,
    /// The packet that it completed is in the output in fragments.
    Fragmented,
    /// The scrubber made this packet itself; it is not in the capture.
    Emitted,
    /// The frame is in the output, and was not examined, for `reason`.
    Pass,
}

impl ScrubVerdict {
    /// The word that reports use.
    pub const fn name(self) -> &'static str {
        match self {
            ScrubVerdict::Forward => "forward",
            ScrubVerdict::Drop => "drop",
            ScrubVerdict::Hold => "hold",
            ScrubVerdict::Fragmented => "fragmented",
            ScrubVerdict::Emitted => "emitted",
            ScrubVerdict::Pass => "pass",
        }
    }
}

/// The reason why a frame was dropped or passed without being examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScrubReason {
    /// The frame holds no IP packet.
    NotIp,
    /// The capture did not keep all of the packet.
    TruncatedByCapture,
    /// The link header names one IP version, and the packet another.
    IpVersion,
    /// The frame may hold an IP packet behind headers that are not read here.
    UnscrubbedIp,
}

impl ScrubReason {
    /// The word that reports use.
    pub const fn name(self) -> &'static str {
        match self {
            ScrubReason::NotIp => "not_ip",
            ScrubReason::TruncatedByCapture => "truncated_by_capture",
            ScrubReason::IpVersion => "ip_version",
            ScrubReason::UnscrubbedIp => "unscrubbed_ip",
        }
    }
}

/// The endpoints of a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScrubFlow {
    /// The protocol: `tcp`, `udp`, `icmp`, `icmpv6`, `sctp`, `esp`, `ah`, or a number.
    pub protocol: String,
    /// The source address of the packet.
    pub source: IpAddr,
    /// The source port; absent in a fragment that is not the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// The destination address of the packet.
    pub destination: IpAddr,
    /// The destination port; absent in a fragment that is not the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<u16>,
}

/// A stretch of octets that the scrubber changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScrubChange {
    /// The offset of its first octet, counted from the IP header's first.
    pub offset: usize,
    /// Header fields that it touches: `ip.ttl`, `tcp.flags`, `payload`.
    pub fields: Vec<String>,
    /// The octets as they came, in hexadecimal; at most 64.
    pub before: String,
    /// The octets as they went, in hexadecimal; at most 64.
    pub after: String,
    /// Whether the stretch is longer than what is shown of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// A frame of the capture, or a packet that the scrubber made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScrubLine {
    /// The place of the frame in the capture, counted from 1. For an emitted packet, the place of the frame that caused
    /// it.
    pub index: u64,
    /// The frame's time in the capture, in seconds since 1970 (or since the capture's own start).
    pub time: f64,
    /// What became of the frame.
    pub verdict: ScrubVerdict,
    /// The rule that dropped it, or that made an emitted packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The reason why it was not examined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ScrubReason>,
    /// Rules that changed or dropped it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acted: Vec<String>,
    /// Rules that only observe, and would have changed or dropped it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub would: Vec<String>,
    /// The side that it came from: `outside` or `inside`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The endpoints of the packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<ScrubFlow>,
    /// Number of frames in the output for it.
    pub written: u32,
    /// Whether it is made of fragments, so that there is no one packet to compare it with.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reassembled: bool,
    /// The stretches of octets that were changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ScrubChange>,
    /// Number of further stretches, which are not in `changes`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_changes: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The counts of one rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScrubRuleCount {
    /// The number of the rule: `4.9`.
    pub id: String,
    /// The name of the rule: `ipv4_reassemble`.
    pub name: String,
    /// Number of packets that it dropped.
    pub dropped: u64,
    /// Number of packets that it changed and that went on.
    pub changed: u64,
    /// Number of packets that it would have dropped or changed, where it only observes.
    pub observed: u64,
    /// A sentence about what the rule does.
    pub text: String,
}

/// The last line, which sums up all frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScrubSummary {
    /// Number of frames that were read.
    pub packets: u64,
    /// Number of frames that were written.
    pub written: u64,
    /// Number of packets that went on.
    pub forwarded: u64,
    /// Packets among these that were changed.
    pub changed: u64,
    /// Number of frames that were dropped.
    pub dropped: u64,
    /// Number of fragments that were kept until the others come.
    pub held: u64,
    /// Number of packets that the scrubber made.
    pub emitted: u64,
    /// Frames without an IP packet. They passed, unless only IP was asked for.
    pub not_ip: u64,
    /// Frames that may hold an IP packet behind headers that are not read here. They passed unscrubbed, except in the
    /// profile `strict`.
    #[serde(default)]
    pub unscrubbed_ip: u64,
    /// Number of frames that the capture did not keep whole.
    pub truncated_by_capture: u64,
    /// Packets that the capture cut off and that passed, since what is there of them contradicts nothing.
    #[serde(default)]
    pub cut_passed: u64,
    /// Number of frames whose link header contradicts the packet.
    pub ip_version: u64,
    /// Number of packets that lack what a network card fills in: checksums and lengths.
    #[serde(default)]
    pub unfinished: u64,
    /// Rules that met something.
    pub rules: Vec<ScrubRuleCount>,
    /// Hints about what to try, if much was dropped for a reason that has a remedy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// The reason why the capture cannot be read to its end. The summary is about the part before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

/// The last line of `ravelin scrub --json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScrubEnd {
    /// The sums over all packets.
    pub summary: ScrubSummary,
}

/// A rule, as `ravelin scrub --rules` lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScrubRule {
    /// The number of the rule.
    pub id: String,
    /// The name of the rule.
    pub name: String,
    /// The mode in the profile `minimal`: `off`, `observe` or `on`.
    pub minimal: String,
    /// The mode in the profile `standard`.
    pub standard: String,
    /// The mode in the profile `strict`.
    pub strict: String,
    /// Whether the rule cannot be turned off.
    pub structural: bool,
    /// A sentence about what the rule does.
    pub text: String,
}

/// The document of `ravelin scrub --rules --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScrubRuleList {
    /// Every rule, in order.
    pub rules: Vec<ScrubRule>,
}

/// The document of `ravelin scrub --explain N --json`: a packet and what the rules that it met say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScrubExplained {
    /// What became of the packet.
    #[serde(flatten)]
    pub line: ScrubLine,
    /// The packet in words.
    pub decoded: String,
    /// The octets of the packet as they came, from the IP header on, in hexadecimal.
    pub came: String,
    /// The frames that were sent for it, in hexadecimal; empty if it was dropped or waits.
    pub went: Vec<String>,
    /// The rules that it met, with their text.
    pub rules: Vec<ScrubRule>,
    /// The document that says more.
    pub see: String,
}
