//! The translation of policy into entries, where that is done socket by socket (docs/design/0011).

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Position;

/// The state of a daemon's translation, and its cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TranslationState {
    /// The mode: `compiled` or `per-socket`. All else is zero where it is `compiled`.
    pub mode: String,
    /// Number of entries at present.
    pub entries: usize,
    /// Number of sockets that have entries, or are served by those of their listener.
    pub sockets: usize,
    /// Number of socket events that were translated.
    pub events: u64,
    /// Events that the kernel half had no room for; their sockets were looked for afterwards.
    pub lost: u64,
    /// Number of entries that were made.
    pub added: u64,
    /// Number of entries that were deleted.
    pub deleted: u64,
    /// Deleted entries whose time was over.
    pub expired: u64,
    /// Entries and sockets for which there was no room; their packets are refused.
    pub refused: u64,
    /// Packets that wait for their entry.
    pub waiting: usize,
    /// Packets that waited for their entry and got it.
    pub caught_up: u64,
    /// Nanoseconds of translating, summed over all events.
    pub nanoseconds: u64,
    /// Nanoseconds from a call to its entry, summed over all events.
    pub latency_nanoseconds: u64,
    /// Nanoseconds from a call to its entry for the slowest event.
    pub latency_max_nanoseconds: u64,
}

/// The answer to GET `/v1/entries`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpdEntries {
    /// The state of the translation that made them.
    pub translation: TranslationState,
    /// The entries: first those for every peer of a port, each socket's in the order in which they are asked, then
    /// those for one flow.
    pub entries: Vec<SpdEntry>,
}

/// A policy entry of one socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpdEntry {
    /// The name of the application.
    pub application: String,
    /// The socket cookie of the kernel.
    pub socket: u64,
    /// The direction: `mirrored`, `inbound` or `outbound`.
    pub direction: String,
    /// The IP protocol number.
    pub protocol: u8,
    /// The address of this host; absent for any address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<IpAddr>,
    /// The port of this host.
    pub local_port: u16,
    /// The peers as a prefix.
    pub remote: String,
    /// The ports of the peers: `any`, one, or a range.
    pub remote_port: String,
    /// The action: `bypass`, `discard`, or the service and the level, as in `encryption mandatory`.
    pub action: String,
    /// The policy line behind the entry; absent for the host's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Position>,
    /// Milliseconds until the entry goes if nothing uses it; absent if it goes with its socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// Whether the socket is closed; the entry serves packets that are still on their way.
    #[serde(default)]
    pub closing: bool,
}
