//! The form of a finding.

use api::{Check, CheckState};

/// The finding of one examination: what was found, or what is wrong, and then the remedy.
pub(super) fn check(name: &str, result: Result<String, String>, remedy: &str) -> Check {
    let (state, found) = match result {
        Ok(found) => (CheckState::Ok, found),
        Err(found) => (CheckState::Fail, found),
    };
    let remedy = (state != CheckState::Ok).then(|| remedy.to_owned());
    Check { name: name.to_owned(), state, found, remedy }
}
