//! What can be wrong with a selector, and what is allowed.

use super::Field;

/// Why a selector was refused. Each text names the word and says what may stand there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorError {
    /// A word that names no field.
    #[error("\"{word}\" is not a selector field; the fields are {allowed}")]
    UnknownField {
        /// The word.
        word: String,
        /// The fields there are.
        allowed: String,
    },
    /// The text ends, or the next field begins, where a value should stand.
    #[error("\"{field}\" needs a value after it: {allowed}")]
    MissingValue {
        /// The field's word.
        field: String,
        /// What may stand there.
        allowed: &'static str,
    },
    /// A value that the field cannot have.
    #[error("\"{value}\" cannot stand after \"{field}\"; {allowed}")]
    BadValue {
        /// The field's word.
        field: String,
        /// The value.
        value: String,
        /// What may stand there.
        allowed: String,
    },
    /// A range that holds no value.
    #[error("\"{value}\" after \"{field}\" is an empty range; give the lower end first")]
    EmptyRange {
        /// The field's word.
        field: String,
        /// The range.
        value: String,
    },
    /// A field given twice.
    #[error("\"{field}\" stands there twice; give one list with commas")]
    Twice {
        /// The field's word.
        field: String,
    },
    /// `type` or `code` without what it belongs to.
    #[error("\"{word}\" needs {need} before it")]
    OutOfPlace {
        /// The word.
        word: String,
        /// What it needs.
        need: &'static str,
    },
    /// OPAQUE for a field that every packet has.
    #[error("{0:?} is in every packet and never opaque; only ports, types, app, uid, dev and proto can be")]
    NeverOpaque(&'static Field),
    /// A condition that no value of the field fulfils.
    #[error(
        "no packet has such a {field:?}: its greatest value is {max}, and a condition needs at least one value"
    )]
    NoSuchValue {
        /// The field.
        field: &'static Field,
        /// Its greatest value.
        max: u128,
    },
    /// A mask on a field that has no bits of its own meaning.
    #[error("{0:?} takes values and ranges, not a value under a mask")]
    Unmaskable(&'static Field),
    /// Populate-from-packet of a field that must not be there (RFC 4301 section 4.4.2.2, note ***).
    #[error("{0:?} is opaque, so it cannot be populated from the packet; leave out \"pfp\" or \"opaque\"")]
    PopulateOpaque(&'static Field),
    /// IPv4 on one side and IPv6 on the other.
    #[error(
        "local and remote have no address family in common, so no packet matches; give both of one family"
    )]
    MixedFamilies,
}
