//! The documents of `ravelin import --json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{SaInfo, SpdRule};

/// The document of `ravelin import --check --json`, about a file without a fault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImportChecked {
    /// The path of the file.
    pub file: String,
    /// Number of statements in the file.
    pub statements: usize,
    /// Number of associations in the file.
    pub sas: usize,
    /// Number of rules in the file.
    pub rules: usize,
}

/// The document of `ravelin import --json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Imported {
    /// The associations that were added.
    pub sas: Vec<SaInfo>,
    /// The rules that were added.
    pub rules: Vec<SpdRule>,
    /// Number of associations that were deleted first.
    pub deleted_sas: usize,
    /// Number of rules that were deleted first.
    pub deleted_rules: usize,
}
