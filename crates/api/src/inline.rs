//! The control API of an inline scrubber, and the documents that `ravelin inline ... --json` prints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ScrubExplained, ScrubRuleCount};

/// A count of frames and their octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InlineAmount {
    /// Number of frames; a super-packet counts as one.
    pub frames: u64,
    /// Number of octets in these frames.
    pub octets: u64,
}

/// The state of one interface of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InlineSide {
    /// The side of the line: `outside` or `inside`.
    pub side: String,
    /// The name of the interface.
    pub interface: String,
    /// The interface index; absent while there is no such interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// Octets of the longest packet that leaves by this interface.
    pub mtu: usize,
    /// Whether nothing passes this interface but what the workers send.
    pub guarded: bool,
    /// Descriptions of what is wrong with the guard.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// Frames that arrived, as the guard counts them.
    pub arrived: InlineAmount,
    /// Frames that the workers sent, as the guard counts them.
    pub sent: InlineAmount,
    /// Frames of other senders that the guard dropped.
    pub refused: InlineAmount,
    /// Frames that the workers received.
    pub heard: InlineAmount,
    /// Super-packets among the frames that the workers received.
    pub super_packets: u64,
    /// Frames for which a worker's socket had no room.
    pub lost: u64,
    /// Frames that passed because they are not IP.
    pub passed: u64,
    /// Frames that ended without a rule, counted by reason.
    pub dropped: InlineDropped,
    /// Packets that the scrubber itself made and sent by this interface.
    pub own: u64,
}

/// Counts of frames that ended without a rule, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InlineDropped {
    /// The frame is not IP, and its type is none that passes.
    pub not_ip: u64,
    /// The frame's type names one IP version, and the packet another.
    pub ip_version: u64,
    /// The packet is too long, or is a super-packet of an unknown kind.
    pub unreadable: u64,
    /// A leaving packet was longer than the interface carries.
    pub too_long: u64,
    /// A leaving packet found no room at the interface.
    pub full: u64,
    /// A leaving packet found the interface down or gone.
    pub refused: u64,
    /// A packet that the scrubber made was for a host whose link-layer address is not known.
    pub no_station: u64,
}

/// The state of one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InlineWorker {
    /// Packets that its scrubber saw.
    pub packets: u64,
    /// Packets among these that went on.
    pub forwarded: u64,
    /// Fragments among these that were kept until the others come.
    pub held: u64,
    /// Number of connections that the worker tracks.
    pub connections: usize,
    /// Connections among these whose handshake is not complete.
    pub half_open: usize,
    /// Number of stream octets that the worker keeps in store.
    pub stored: usize,
    /// Packets that rules met and that came too fast to be recorded.
    pub unrecorded: u64,
}

/// The state of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InlineStatus {
    /// The instance name of the line.
    pub instance: String,
    /// The process ID of the line.
    pub pid: u32,
    /// The profile that its rules started from.
    pub profile: String,
    /// Whether the line only looks and changes nothing.
    pub observing: bool,
    /// The two interfaces, outside first.
    pub sides: Vec<InlineSide>,
    /// The workers of the line, in order.
    pub workers: Vec<InlineWorker>,
    /// Indices of interfaces that an earlier configuration closed and that are still closed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub still_closed: Vec<String>,
}

/// The counts of what the rules did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InlineRules {
    /// The rules that met something.
    pub rules: Vec<ScrubRuleCount>,
}

/// A packet that a rule met. The line's `index` is the packet's number in the inline scrubber.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InlineEvent {
    /// The number of the worker that saw the packet.
    pub worker: usize,
    /// Octets of the packet as it came. For a long packet, `came` and `went` have only the beginning.
    pub octets: u32,
    /// What became of the packet, and why.
    #[serde(flatten)]
    pub explained: ScrubExplained,
}

/// The latest packets that rules met.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InlineEvents {
    /// The packets, the oldest first.
    pub events: Vec<InlineEvent>,
    /// Packets that came too fast to be recorded, since the start.
    pub unrecorded: u64,
}

/// The query that selects events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InlineQuery {
    /// Selects events with a higher number than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Selects the event with this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Selects only packets that were dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<bool>,
    /// Selects only packets from or to this address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<std::net::IpAddr>,
    /// Selects only packets from or to this port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The maximum number of events in the answer, which are the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<usize>,
}

/// A TCP connection that goes through a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InlineFlow {
    /// The number of the worker that tracks it.
    pub worker: usize,
    /// The address and port of its outside end.
    pub outside: std::net::SocketAddr,
    /// The address and port of its inside end.
    pub inside: std::net::SocketAddr,
    /// The state as paper 003 names it: `INIT`, `INIT2`, `ESTAB`, `CLOSE`, `CLOSED`.
    pub state: String,
}

/// The TCP connections of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InlineFlows {
    /// The connections, at most 1000 of each worker.
    pub flows: Vec<InlineFlow>,
    /// Number of all connections of the line.
    pub total: usize,
}

/// The document of `ravelin inline check --json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InlineCheck {
    /// The settings of the configuration file; absent if none was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<InlineCheckSettings>,
    /// The lines whose guards are attached to this host.
    pub lines: Vec<InlineCheckLine>,
}

/// The settings of a line, as its configuration file has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InlineCheckSettings {
    /// The name of the instance.
    pub instance: String,
    /// The name of the interface to the outside.
    pub outside: String,
    /// The name of the interface to the inside.
    pub inside: String,
    /// The name of the profile.
    pub profile: String,
    /// Number of its workers.
    pub workers: usize,
}

/// A line whose guards are attached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InlineCheckLine {
    /// The name of the instance.
    pub instance: String,
    /// Whether its process runs. Otherwise the line is closed.
    pub running: bool,
    /// The interfaces of the line.
    pub interfaces: Vec<InlineCheckInterface>,
}

/// An interface of a line, and what its guard counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InlineCheckInterface {
    /// The index of the interface.
    pub index: u32,
    /// The name of the interface; absent if it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether its guard is attached.
    pub guarded: bool,
    /// Number of frames that ended at its ingress.
    pub arrived: u64,
    /// Number of frames that others would have sent by it.
    pub refused: u64,
}
