//! The document of `ravelin cipher check --json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One check of a cipher of one's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CipherCheck {
    /// The name of the check.
    pub name: String,
    /// Whether the cipher passed it. A check that was left out was not passed.
    pub ok: bool,
    /// A description of what was found, or of what was wrong. A check that this kind of cipher cannot have says so.
    pub detail: String,
}

/// The document of `ravelin cipher check --json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CipherChecked {
    /// The name of the cipher.
    pub cipher: String,
    /// Whether every check that was not left out was passed.
    pub ok: bool,
    /// The checks, in a fixed order.
    pub checks: Vec<CipherCheck>,
    /// Names of checks that were left out by `--without`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}
