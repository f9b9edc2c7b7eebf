//! What `ravelin cipher ct` says of a cipher (issue 23 item 8).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether the time of a cipher seems to depend on its key and its input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CipherCt {
    /// The name of the cipher.
    pub cipher: String,
    /// Whether no dependence was found and the report is not void.
    pub ok: bool,
    /// Whether a control did not behave as it must. Nothing in a void report counts.
    pub void: bool,
    /// What a reader must know of every such report.
    pub statement: String,
    /// The code path that valgrind looked at: what processor it showed to the cipher, and what it did not.
    pub code_path: String,
    /// The methods: timing of inputs, timing of keys, valgrind.
    pub checks: Vec<CtCheck>,
    /// The controls: ciphers that must be flagged, and one that must not.
    pub controls: Vec<CtControl>,
}

/// What one method found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CtCheck {
    /// The method: `timing inputs`, `timing keys` or `valgrind`.
    pub method: String,
    /// Whether it found nothing.
    pub ok: bool,
    /// Whether it was left out. It then found nothing, and is not `ok`.
    pub left_out: bool,
    /// The greatest |t| of a timing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t: Option<f64>,
    /// The figures behind it.
    pub detail: String,
}

/// A cipher whose result is known before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CtControl {
    /// The name of the control.
    pub name: String,
    /// The method that looked at it.
    pub method: String,
    /// Whether the method must flag it.
    pub must_be_flagged: bool,
    /// Whether it behaved as it must.
    pub ok: bool,
    /// The figures behind it.
    pub detail: String,
}
