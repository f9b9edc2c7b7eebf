//! What can be wrong with a rule or a change of the table.

use super::RuleKey;
use crate::selector::Field;

/// Why a rule or a change was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// No selector: nothing would match.
    #[error("a rule needs at least one selector; for every packet give \"any\"")]
    NoSelector,
    /// PROTECT with no template.
    #[error("a rule that protects needs at least one template; name the one to use, outermost last")]
    NoTemplate,
    /// PROTECT that demands no service.
    #[error(
        "a rule that protects must demand authentication or encryption; to let packets pass clear, use bypass"
    )]
    NoService,
    /// Populate-from-packet without an association to populate.
    #[error("\"pfp\" narrows associations, and a rule that bypasses or discards makes none; leave it out")]
    PopulateNothing,
    /// One selector populates a field that another demands to be opaque (flags are for the whole rule).
    #[error(
        "one selector takes {0:?} from the packet and another says it is opaque; leave out one of the two"
    )]
    PopulateOpaque(&'static Field),
    /// The key names a rule there is.
    #[error("there is a rule {0} already; choose another number, or remove that one first")]
    Duplicate(RuleKey),
    /// The key names none.
    #[error("there is no rule {0}; list the rules to see their numbers")]
    Unknown(RuleKey),
    /// More rules than a table holds.
    #[error("there are already {0} rules, the most there can be; remove some first")]
    TooMany(usize),
}
