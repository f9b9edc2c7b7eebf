//! The reason why a cipher does not pass a test.

use crypto::UnitFailed;
use crypto::custom::SetKeyError;

/// The reason why one test was not passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    #[error("{0}")]
    Differs(&'static str),
    #[error("a cipher of kind {0} has no tests of this mode or with these lengths")]
    Mode(&'static str),
    #[error("{0}")]
    Key(#[from] SetKeyError),
    #[error("the cipher's answer did not come: {0}")]
    Unit(#[from] UnitFailed),
}

impl Failure {
    /// Whether the cipher gave no answer at all.
    pub(super) const fn is_no_answer(self) -> bool {
        matches!(self, Failure::Unit(_) | Failure::Key(SetKeyError::Unit(_) | SetKeyError::NoRoom(_)))
    }
}
