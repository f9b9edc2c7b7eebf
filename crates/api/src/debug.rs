//! The log's filter, switched while the daemon runs.

use serde::{Deserialize, Serialize};

/// POST `/v1/debug`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DebugRequest {
    /// A level (`off`, `error`, `warn`, `info`, `debug`, `trace`), parts of the house with theirs
    /// (`daemon=debug,sockmon=trace`), or `default` for what the daemon was started with.
    pub filter: String,
    /// Fall back to what the daemon was started with after so many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

/// GET `/v1/debug`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DebugState {
    /// The filter in force.
    pub filter: String,
    /// The one that the daemon was started with.
    pub default: String,
    /// Seconds until that is in force again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<u64>,
}
