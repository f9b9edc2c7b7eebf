//! The document of `ravelin demo --json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One check of the demonstration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DemoCheck {
    /// The name of the check.
    pub name: String,
    /// A description of what should be seen.
    pub expected: String,
    /// A description of what was seen.
    pub seen: String,
    /// Whether the two agree.
    pub ok: bool,
}

/// The document of `ravelin demo --json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DemoReport {
    /// The checks in the order in which they were made.
    pub checks: Vec<DemoCheck>,
    /// Number of checks that were as expected.
    pub passed: usize,
    /// Number of checks that were not.
    pub failed: usize,
    /// The duration of the demonstration in seconds.
    pub seconds: f64,
}
