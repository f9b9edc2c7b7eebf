//! Files that policy names by their digests.

use serde::{Deserialize, Serialize};

/// Whether such a file is what policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PinnedState {
    /// It is: its processes have the policy that names them.
    Verified,
    /// It has another digest: its processes are refused every peer.
    Differs,
    /// There is no file.
    Missing,
    /// It was not hashed yet, or was changed since: its processes are refused until it is.
    Unverified,
    /// It cannot be hashed: its processes are refused.
    Unknown,
}

/// One path with digests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedFile {
    /// The path.
    pub path: String,
    /// What is there.
    pub state: PinnedState,
    /// In words, with the reason.
    pub text: String,
    /// The digest of the file, if it is known: SHA-256 in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// The digests that policy names.
    pub wanted: Vec<String>,
}
