//! Which graph of classes is in force, and where it is from.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Waiting;

/// The graph of classes that is in force, in the answer to GET `/v1/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosInForce {
    /// The path of the file, or `preset NAME`.
    pub file: String,
    /// Where the graph is from.
    pub origin: QosOrigin,
    /// The trial of the graph; absent: it is not on trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
}

impl fmt::Display for QosInForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.file, self.origin)
    }
}

/// Where the graph of classes that is in force is from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QosOrigin {
    /// What `[qos]` of the configuration names: the path of a file, or `preset NAME`.
    pub configured: String,
    /// Whether a command put the graph in force in the place of what `[qos]` names.
    pub applied: bool,
    /// The file that has the text of the graph that was taken back last, if a file had it and no graph was put in force
    /// since then; absent after a restart too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<String>,
}

impl fmt::Display for QosOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.applied {
            write!(f, "put in force by a command; [qos] of the configuration names {}", self.configured)
        } else {
            write!(f, "as [qos] of the configuration says")
        }
    }
}
