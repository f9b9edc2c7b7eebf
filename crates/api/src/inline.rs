//! The control API of a scrubber in line, and what `ravelin inline ... --json` prints.

use serde::{Deserialize, Serialize};

use crate::{ScrubExplained, ScrubRuleCount};

/// Frames and their octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InlineAmount {
    /// Frames; a super-packet is one.
    pub frames: u64,
    /// Octets.
    pub octets: u64,
}

/// One interface of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InlineSide {
    /// `outside` or `inside`.
    pub side: String,
    /// Its name.
    pub interface: String,
    /// Its number; none while there is no such interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// The longest packet that leaves by it.
    pub mtu: usize,
    /// Nothing passes it but what the workers send.
    pub guarded: bool,
    /// What is wrong with the guard.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// What arrived, by the guard.
    pub arrived: InlineAmount,
    /// What workers sent, by the guard.
    pub sent: InlineAmount,
    /// What others would have sent, and the guard ended.
    pub refused: InlineAmount,
    /// What the workers heard.
    pub heard: InlineAmount,
    /// Of that, super-packets.
    pub super_packets: u64,
    /// Frames for which a worker's socket had no room.
    pub lost: u64,
    /// Frames that are no IP and passed.
    pub passed: u64,
    /// Frames that ended without a rule, by their reason.
    pub dropped: InlineDropped,
    /// Packets of the scrubber's own that left by it.
    pub own: u64,
}

/// Frames that ended without a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InlineDropped {
    /// No IP, and of no type that passes.
    pub not_ip: u64,
    /// The frame's type names one IP version, the packet another.
    pub ip_version: u64,
    /// Longer than the longest packet, or a super-packet of a kind that nobody knows.
    pub unreadable: u64,
    /// Leaving: longer than the interface carries.
    pub too_long: u64,
    /// Leaving: the interface had no room.
    pub full: u64,
    /// Leaving: the interface was down or gone.
    pub refused: u64,
    /// Packets of the scrubber's own for hosts whose stations nobody knows.
    pub no_station: u64,
}

/// One worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InlineWorker {
    /// Packets that its scrubber saw.
    pub packets: u64,
    /// Of these, ones that went on.
    pub forwarded: u64,
    /// Of these, fragments that were kept for the others.
    pub held: u64,
    /// Connections it knows.
    pub connections: usize,
    /// Of these, ones whose handshake is not done.
    pub half_open: usize,
    /// Octets in store.
    pub stored: usize,
    /// Packets that rules met and that came too fast to be written down.
    pub unrecorded: u64,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InlineStatus {
    /// Its name.
    pub instance: String,
    /// Its process.
    pub pid: u32,
    /// The profile that its rules started from.
    pub profile: String,
    /// Nothing is changed, it only looks.
    pub observing: bool,
    /// Outside, inside.
    pub sides: Vec<InlineSide>,
    /// Its workers, in order.
    pub workers: Vec<InlineWorker>,
    /// Interfaces that an earlier configuration closed and that are closed still.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub still_closed: Vec<String>,
}

/// What rules did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InlineRules {
    /// Those that met something.
    pub rules: Vec<ScrubRuleCount>,
}

/// A packet that a rule met. Its `index` is its number in the line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InlineEvent {
    /// Which worker saw it.
    pub worker: usize,
    /// Octets of the packet as it came; of a long one `came` and `went` have the beginning.
    pub octets: u32,
    /// What became of it, and why.
    #[serde(flatten)]
    pub explained: ScrubExplained,
}

/// The last packets that rules met.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InlineEvents {
    /// The oldest first.
    pub events: Vec<InlineEvent>,
    /// Packets that came too fast to be written down, since the start.
    pub unrecorded: u64,
}

/// Which of them to tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InlineQuery {
    /// Those with a higher number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// The one with this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Only what was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<bool>,
    /// Only of packets from or to this address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<std::net::IpAddr>,
    /// Only of packets from or to this port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// At most so many, the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<usize>,
}

/// A TCP connection that goes through a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InlineFlow {
    /// Which worker has it.
    pub worker: usize,
    /// Its end outside.
    pub outside: std::net::SocketAddr,
    /// Its end inside.
    pub inside: std::net::SocketAddr,
    /// The paper's state: `INIT`, `INIT2`, `ESTAB`, `CLOSE`, `CLOSED`.
    pub state: String,
}

/// The connections of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InlineFlows {
    /// At most 1000 of each worker.
    pub flows: Vec<InlineFlow>,
    /// All that there are.
    pub total: usize,
}
