//! Flows that the policy wants scrubbed: the documents that `ravelin scrubbed ... --json` prints. Rules, connections
//! and packets that rules met have the documents of an inline scrubber.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The counts of one profile's scrubber.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScrubbedProfile {
    /// The name of the profile.
    pub profile: String,
    /// Number of packets that it saw in both directions.
    pub packets: u64,
    /// Packets among these that went on.
    pub forwarded: u64,
    /// Number of connections that it tracks.
    pub connections: usize,
    /// Connections among these whose handshake is not complete.
    pub half_open: usize,
    /// Number of stream octets that it keeps in store.
    pub stored: usize,
}

/// The state of all scrubbers of flows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScrubbedStatus {
    /// The profiles whose scrubbers saw packets since the start.
    pub profiles: Vec<ScrubbedProfile>,
    /// The scrubber of outer packets; absent if they are not scrubbed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outer: Option<ScrubbedProfile>,
    /// Number of packets made by the scrubbers that found no room.
    pub lost: u64,
}
