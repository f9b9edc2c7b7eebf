//! Values with the octets of the text where they stand, names, and limits.

use std::ops::Range;

/// The octets of the text where a part stands.
pub type Span = Range<usize>;

/// A value with the octets of the text where it stands. Two are equal if their values are, wherever they stand.
#[derive(Clone, Debug, Default, Eq)]
pub struct Spanned<T> {
    /// The value without its place.
    pub value: T,
    /// The octets of the text where it stands; empty if no text holds it.
    pub span: Span,
}

impl<T> Spanned<T> {
    /// A value that stands in no text.
    pub const fn bare(value: T) -> Spanned<T> {
        Spanned { value, span: 0..0 }
    }

    /// A value that stands where `span` is.
    pub const fn at(value: T, span: Span) -> Spanned<T> {
        Spanned { value, span }
    }
}

impl<T: PartialEq> PartialEq for Spanned<T> {
    fn eq(&self, other: &Spanned<T>) -> bool {
        self.value == other.value
    }
}

/// A name with its place.
pub type Name = Spanned<String>;

/// The most that may wait, in each measure that is limited.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// The most packets that may wait.
    pub packets: Option<Spanned<u64>>,
    /// The most octets that may wait.
    pub octets: Option<Spanned<u64>>,
    /// The most nanoseconds of a processor.
    pub time: Option<Spanned<u64>>,
}

impl Limits {
    /// Whether no measure is limited.
    pub fn is_none(&self) -> bool {
        self.packets.is_none() && self.octets.is_none() && self.time.is_none()
    }
}

/// The longest name of a class or tunnel: names of queues are made of both.
pub const SHORT_NAME: usize = 24;
/// The longest name of any other part.
pub const LONG_NAME: usize = 80;

/// Whether a text of at most `most` octets can name a part of a graph.
pub fn is_name(name: &str, most: usize) -> bool {
    name.len() <= most
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_')
}
