//! The state of files that the policy names by digest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a file has a digest that the policy names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PinnedState {
    /// The file has such a digest: its processes have the policy that names them.
    Verified,
    /// The file has another digest: its processes are refused every peer.
    Differs,
    /// There is no file at the path.
    Missing,
    /// The file was not hashed yet, or was changed since: its processes are refused until it is hashed.
    Unverified,
    /// The file cannot be hashed: its processes are refused.
    Unknown,
}

/// A path that the policy names with digests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PinnedFile {
    /// The path of the file.
    pub path: String,
    /// The state of the file at this path.
    pub state: PinnedState,
    /// The state in words, with the reason.
    pub text: String,
    /// The SHA-256 digest of the file in hexadecimal digits, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// The digests that policy names.
    pub wanted: Vec<String>,
}
