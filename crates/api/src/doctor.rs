//! The checks of `ravelin doctor`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The document of `ravelin doctor --json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Doctor {
    /// Whether no check failed.
    pub ok: bool,
    /// Every check, in the order in which they were made.
    pub checks: Vec<Check>,
}

impl Doctor {
    /// Makes a report of these checks.
    pub fn new(checks: Vec<Check>) -> Doctor {
        Doctor { ok: checks.iter().all(|c| c.state != CheckState::Fail), checks }
    }

    /// Iterates over the checks that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|c| c.state == CheckState::Fail)
    }
}

/// A check, and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// What was checked, in few words.
    pub name: String,
    /// The result of the check.
    pub state: CheckState,
    /// A description of what was found.
    pub found: String,
    /// What to do about it, if the check did not go well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// Everything is as it should be.
    Ok,
    /// The host works this way, but not at its best, or nobody can say.
    Warn,
    /// The host is not as it should be. Without `--hardening`, `ravelin run` refuses to start.
    Fail,
}

impl std::fmt::Display for CheckState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            CheckState::Ok => "ok",
            CheckState::Warn => "warn",
            CheckState::Fail => "FAIL",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_not_a_failure() {
        let check = |state| Check { name: "n".into(), state, found: "f".into(), remedy: None };
        assert!(Doctor::new(vec![check(CheckState::Ok), check(CheckState::Warn)]).ok);
        let sick = Doctor::new(vec![check(CheckState::Ok), check(CheckState::Fail)]);
        assert!(!sick.ok);
        assert_eq!(sick.failures().count(), 1);
        assert!(serde_json::to_string(&sick).unwrap().contains(r#""state":"fail""#));
    }
}
