//! The ways in which a selector can be wrong, each with what is allowed.

use super::Field;

/// The reason why a selector was refused. Each text names the word and says what may stand there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorError {
    /// The word names no field.
    #[error("\"{word}\" is not a selector field; the fields are {allowed}")]
    UnknownField {
        /// The word that names no field.
        word: String,
        /// The fields that there are.
        allowed: String,
    },
    /// The text ends, or the next field begins, where a value should stand.
    #[error("\"{field}\" needs a value after it: {allowed}")]
    MissingValue {
        /// The word of the field.
        field: String,
        /// The values that may stand there.
        allowed: &'static str,
    },
    /// The field cannot have this value.
    #[error("\"{value}\" cannot stand after \"{field}\"; {allowed}")]
    BadValue {
        /// The word of the field.
        field: String,
        /// The value that was given.
        value: String,
        /// The values that may stand there.
        allowed: String,
    },
    /// The range holds no value.
    #[error("\"{value}\" after \"{field}\" is an empty range; give the lower end first")]
    EmptyRange {
        /// The word of the field.
        field: String,
        /// The range that was given.
        value: String,
    },
    /// A field was given twice.
    #[error("\"{field}\" stands there twice; give one list with commas")]
    Twice {
        /// The word of the field.
        field: String,
    },
    /// The word `type`, `code` or `pfp` stands without what it belongs to.
    #[error("\"{word}\" needs {need} before it")]
    OutOfPlace {
        /// The word that is out of place.
        word: String,
        /// The words that must stand before it.
        need: &'static str,
    },
    /// OPAQUE was asked of a field that every packet has.
    #[error("{0:?} is in every packet and never opaque; only ports, types, app, uid, dev and proto can be")]
    NeverOpaque(&'static Field),
    /// The condition is one that no value of the field fulfils.
    #[error(
        "no packet has such a {field:?}: its greatest value is {max}, and a condition needs at least one value"
    )]
    NoSuchValue {
        /// The field that the condition is on.
        field: &'static Field,
        /// The greatest value of the field.
        max: u128,
    },
    /// A mask was given for a field whose bits have no meaning of their own.
    #[error("{0:?} takes values and ranges, not a value under a mask")]
    Unmaskable(&'static Field),
    /// A field is both opaque and populated from the packet (RFC 4301 section 4.4.2.2, note ***).
    #[error("{0:?} is opaque, so it cannot be populated from the packet; leave out \"pfp\" or \"opaque\"")]
    PopulateOpaque(&'static Field),
    /// One side admits only IPv4 and the other only IPv6.
    #[error(
        "local and remote have no address family in common, so no packet matches; give both of one family"
    )]
    MixedFamilies,
}
