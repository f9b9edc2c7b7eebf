//! Suites whose encryption rests on a cipher of one's own.

use crypto::{ModeKind, SuiteId};

/// Whether the encryption of a suite rests on a cipher of one's own, and on no standard cipher around it.
pub fn rests_on_custom(suite: SuiteId) -> bool {
    suite.custom().is_some_and(|mode| mode.kind() != ModeKind::Cascade)
}
