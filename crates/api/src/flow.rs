//! The flows of programs that have a policy.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// GET `/v1/flows`: one for each socket with a peer whose application has a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flows {
    /// At most 10,000.
    pub flows: Vec<LiveFlow>,
    /// How many there are beyond those.
    #[serde(default)]
    pub left_out: usize,
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LiveFlow {
    /// The application's name in the policy in force.
    pub application: String,
    /// IP protocol number.
    pub protocol: u8,
    /// This host's end.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
}
