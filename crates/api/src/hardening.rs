//! The checks of `ravelin doctor --hardening`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Check, CheckState};

/// The document of `ravelin doctor --hardening --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hardening {
    /// Whether no check failed. What is not known is a warning, and no failure.
    pub ok: bool,
    /// The path of the root of the host that was looked at.
    pub root: String,
    /// The checks, in one group for each remedy of paper 004 section 8.
    pub groups: Vec<HardeningGroup>,
}

impl Hardening {
    /// Makes a report of these groups.
    pub fn new(root: String, groups: Vec<HardeningGroup>) -> Hardening {
        let mut report = Hardening { ok: true, root, groups };
        report.ok = report.count(CheckState::Fail) == 0;
        report
    }

    /// The number of checks with this result.
    pub fn count(&self, state: CheckState) -> usize {
        self.groups.iter().flat_map(|group| &group.checks).filter(|check| check.state == state).count()
    }
}

/// The checks for one remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HardeningGroup {
    /// The remedy that the checks are about.
    pub remedy: HardeningRemedy,
    /// The checks, in the order in which they were made.
    pub checks: Vec<Check>,
}

/// The remedies against attacks on a gateway that paper 004 section 8 lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HardeningRemedy {
    /// Parts of the kernel, and services, that a gateway does not need are left out.
    Modules,
    /// Functions that a gateway does not need are switched off.
    Functions,
    /// The configuration is the one that is meant, and is tested.
    Configuration,
    /// Components are updated as their provider recommends.
    Updates,
    /// Modification without authority is noticed, and so are intruders.
    Integrity,
    /// The log of events is kept on another node.
    #[serde(rename = "remote_log")]
    RemoteLog,
}

impl HardeningRemedy {
    /// The remedy as a heading.
    pub fn heading(self) -> &'static str {
        match self {
            HardeningRemedy::Modules => "1. Unnecessary parts of the kernel and services are left out",
            HardeningRemedy::Functions => "2. Unnecessary functions are switched off",
            HardeningRemedy::Configuration => "3. The configuration is appropriate and tested",
            HardeningRemedy::Updates => "4. Components are updated as their provider recommends",
            HardeningRemedy::Integrity => "5. Modification and intrusion are noticed",
            HardeningRemedy::RemoteLog => "6. Events are logged on another node",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_counted_and_does_not_fail_the_report() {
        let check = |state| Check { name: "n".into(), state, found: "f".into(), remedy: None };
        let group = |checks| HardeningGroup { remedy: HardeningRemedy::RemoteLog, checks };
        let warned = group(vec![check(CheckState::Ok), check(CheckState::Warn)]);
        let report = Hardening::new("/".into(), vec![warned.clone()]);
        assert!(report.ok && report.count(CheckState::Warn) == 1);
        let failed = Hardening::new("/".into(), vec![warned, group(vec![check(CheckState::Fail)])]);
        assert!(!failed.ok && failed.count(CheckState::Fail) == 1);
        let text = serde_json::to_string(&failed).unwrap();
        assert!(
            text.contains(r#""remedy":"remote_log""#) && text.starts_with(r#"{"ok":false,"root":"/""#),
            "{text}"
        );
    }
}
