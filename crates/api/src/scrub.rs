//! The lines of `ravelin scrub --json`, and of `ravelin scrub --rules --json`.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScrubVerdict {
    /// It is in the output, perhaps changed.
    Forward,
    /// It ended, by `rule` or for `reason`.
    Drop,
    /// It is a fragment that waits for the others; what they make together is in the place of the last.
    Hold,
    /// What it made whole is in the output in fragments.
    Fragmented,
    /// Not of the capture: a packet of the scrubber's own.
    Emitted,
    /// It is in the output and nobody looked at it, for `reason`.
    Pass,
}

impl ScrubVerdict {
    /// The word in reports.
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

/// Why a frame ended or passed without being looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScrubReason {
    /// There is no IP packet in it.
    NotIp,
    /// The capture did not keep all of its packet.
    TruncatedByCapture,
    /// Its link header names one IP version, its packet another.
    IpVersion,
    /// There may be an IP packet in it, behind headers that are not read here.
    UnscrubbedIp,
}

impl ScrubReason {
    /// The word in reports.
    pub const fn name(self) -> &'static str {
        match self {
            ScrubReason::NotIp => "not_ip",
            ScrubReason::TruncatedByCapture => "truncated_by_capture",
            ScrubReason::IpVersion => "ip_version",
            ScrubReason::UnscrubbedIp => "unscrubbed_ip",
        }
    }
}

/// Between whom a packet travels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubFlow {
    /// `tcp`, `udp`, `icmp`, `icmpv6`, `sctp`, `esp`, `ah`, or a number.
    pub protocol: String,
    /// Source address.
    pub source: IpAddr,
    /// Its port; none in a fragment that is not the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// Destination address.
    pub destination: IpAddr,
    /// Its port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<u16>,
}

/// One stretch of octets that is not as it came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubChange {
    /// Where it begins, from the IP header's first octet.
    pub offset: usize,
    /// Header fields that it touches: `ip.ttl`, `tcp.flags`, `payload`.
    pub fields: Vec<String>,
    /// Octets as they came, hexadecimal; at most 64.
    pub before: String,
    /// Octets as they went; at most 64.
    pub after: String,
    /// The stretch is longer than what is shown of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// One frame of the capture, or one packet of the scrubber's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScrubLine {
    /// Its place in the capture, from 1; of an emitted packet: of the frame that caused it.
    pub index: u64,
    /// Its time in the capture, seconds since 1970 (or since the capture's own start).
    pub time: f64,
    /// What became of it.
    pub verdict: ScrubVerdict,
    /// The rule that ended it, or that made an emitted packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Why nobody looked at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ScrubReason>,
    /// Rules that changed or ended it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acted: Vec<String>,
    /// Rules that only observe and would have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub would: Vec<String>,
    /// The side it came from: `outside` or `inside`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Between whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<ScrubFlow>,
    /// Frames in the output for it.
    pub written: u32,
    /// It is made of fragments: there is no one packet to compare it with.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reassembled: bool,
    /// What is not as it came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ScrubChange>,
    /// Further stretches, which are not in `changes`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_changes: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// What one rule did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubRuleCount {
    /// Its number: `4.9`.
    pub id: String,
    /// Its word: `ipv4_reassemble`.
    pub name: String,
    /// Packets it ended.
    pub dropped: u64,
    /// Packets it changed that went on.
    pub changed: u64,
    /// Packets it would have ended or changed, where it only observes.
    pub observed: u64,
    /// What it does.
    pub text: String,
}

/// The last line: what became of all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubSummary {
    /// Frames read.
    pub packets: u64,
    /// Frames written.
    pub written: u64,
    /// Packets that went on.
    pub forwarded: u64,
    /// Of these, packets that are not as they came.
    pub changed: u64,
    /// Frames that ended.
    pub dropped: u64,
    /// Fragments that were kept for the others.
    pub held: u64,
    /// Packets of the scrubber's own.
    pub emitted: u64,
    /// Frames without an IP packet; they passed, unless only IP was asked for.
    pub not_ip: u64,
    /// Frames that may hold an IP packet behind headers that are not read here; they passed unscrubbed, but for the profile `strict`.
    #[serde(default)]
    pub unscrubbed_ip: u64,
    /// Frames of which the capture did not keep all.
    pub truncated_by_capture: u64,
    /// Packets that the capture cut off and that passed, since what is there of them contradicts nothing.
    #[serde(default)]
    pub cut_passed: u64,
    /// Frames whose link header contradicts the packet.
    pub ip_version: u64,
    /// Packets that lack what a network card fills in: checksums, lengths.
    #[serde(default)]
    pub unfinished: u64,
    /// Rules that met something.
    pub rules: Vec<ScrubRuleCount>,
    /// What to try, if much was dropped for a reason that has a remedy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// The capture cannot be read to its end; this is about what comes before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

/// One rule, as `--rules` tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubRule {
    /// Its number.
    pub id: String,
    /// Its word.
    pub name: String,
    /// Its mode in the profile `minimal`: `off`, `observe` or `on`.
    pub minimal: String,
    /// In `standard`.
    pub standard: String,
    /// In `strict`.
    pub strict: String,
    /// It cannot be off.
    pub structural: bool,
    /// What it does.
    pub text: String,
}

/// `--rules --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubRuleList {
    /// Every rule, in order.
    pub rules: Vec<ScrubRule>,
}

/// `--explain N --json`: one packet and what its rules say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScrubExplained {
    /// What became of it.
    #[serde(flatten)]
    pub line: ScrubLine,
    /// The packet in words.
    pub decoded: String,
    /// Its octets as they came, hexadecimal, from the IP header on.
    pub came: String,
    /// The frames that went, likewise; none if it ended or waits.
    pub went: Vec<String>,
    /// The rules it met, with their text.
    pub rules: Vec<ScrubRule>,
    /// Where more is said.
    pub see: String,
}
