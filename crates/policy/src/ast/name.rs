//! Names, and how the language writes them.

use crate::lexer::Span;

/// A name with its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name without quotes and escapes.
    pub text: String,
    /// The place of the name as written.
    pub span: Span,
}

/// The name as the language writes it, in quotes where it needs them.
pub fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:+@%~-".contains(c);
    if !name.is_empty() && name.chars().all(plain) && !name.starts_with("//") && !name.ends_with('/') {
        return name.into();
    }
    always_quoted(name)
}

/// The name in quotes.
pub(crate) fn always_quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}
