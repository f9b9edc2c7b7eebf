//! How policy becomes entries, where that is done socket by socket (docs/design/0011).

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Position;

/// What the translation of a daemon does, and what it costs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranslationState {
    /// `compiled` or `per-socket`. All else is zero where it is `compiled`.
    pub mode: String,
    /// Entries there are.
    pub entries: usize,
    /// Sockets that have some, or are served by their listener's.
    pub sockets: usize,
    /// Events of sockets that were translated.
    pub events: u64,
    /// Events that the kernel half had no room for; their sockets were looked for afterwards.
    pub lost: u64,
    /// Entries made.
    pub added: u64,
    /// Entries deleted.
    pub deleted: u64,
    /// Of these, the ones whose time was over.
    pub expired: u64,
    /// Entries and sockets for which there was no room: their packets are refused.
    pub refused: u64,
    /// Packets that wait for their entry.
    pub waiting: usize,
    /// Packets that waited and then had one.
    pub caught_up: u64,
    /// What translating took, all events together.
    pub nanoseconds: u64,
    /// From the call to its entry, all events together.
    pub latency_nanoseconds: u64,
    /// The same of the event that took longest.
    pub latency_max_nanoseconds: u64,
}

/// GET `/v1/entries`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpdEntries {
    /// What made them.
    pub translation: TranslationState,
    /// Those for every peer of a port, each socket's in the order in which they are asked; then those for one flow.
    pub entries: Vec<SpdEntry>,
}

/// One entry of one socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpdEntry {
    /// The application.
    pub application: String,
    /// The kernel's cookie of the socket.
    pub socket: u64,
    /// `mirrored`, `inbound` or `outbound`.
    pub direction: String,
    /// IP protocol number.
    pub protocol: u8,
    /// This host's address; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<IpAddr>,
    /// This host's port.
    pub local_port: u16,
    /// The peers: a prefix.
    pub remote: String,
    /// Their ports: `any`, one, or a range.
    pub remote_port: String,
    /// `bypass`, `discard`, or the service and the level: `encryption mandatory`.
    pub action: String,
    /// The rule behind it; absent: the host's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Position>,
    /// Milliseconds until it goes if nothing uses it; absent: with its socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// Its socket is closed: it serves what is still on its way.
    #[serde(default)]
    pub closing: bool,
}
