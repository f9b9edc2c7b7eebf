//! Flows that are scrubbed by policy, and what `ravelin scrubbed ... --json` prints. Rules, connections and packets that rules met have
//! the documents of a scrubber in line.

use serde::{Deserialize, Serialize};

/// What one profile's scrubber has to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubbedProfile {
    /// The profile.
    pub profile: String,
    /// Packets that it saw, both ways.
    pub packets: u64,
    /// Of these, ones that went on.
    pub forwarded: u64,
    /// Connections that it knows.
    pub connections: usize,
    /// Of these, ones whose handshake is not done.
    pub half_open: usize,
    /// Octets in store.
    pub stored: usize,
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubbedStatus {
    /// Those that had something to do since the start.
    pub profiles: Vec<ScrubbedProfile>,
    /// What outer packets go through; none: they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outer: Option<ScrubbedProfile>,
    /// Packets of scrubbers' own that found no room.
    pub lost: u64,
}
