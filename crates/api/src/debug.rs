//! The filter of the log, which can be changed while the daemon runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The body of POST `/v1/debug`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DebugRequest {
    /// A level (`off`, `error`, `warn`, `info`, `debug`, `trace`), crates with their levels
    /// (`daemon=debug,sockmon=trace`), or `default` for the filter that the daemon was started with.
    pub filter: String,
    /// Seconds after which the filter that the daemon was started with is in force again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

/// The answer to GET `/v1/debug`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DebugState {
    /// The filter in force.
    pub filter: String,
    /// The filter that the daemon was started with.
    pub default: String,
    /// Seconds until the default filter is in force again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<u64>,
}
