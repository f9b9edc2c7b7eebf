//! The ways in which a setkey file can be wrong.

/// The reason why a file is refused; nothing of it is done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {text}")]
pub struct SetkeyError {
    /// The line number, counted from 1.
    pub line: u32,
    /// The text that says what is wrong there and what is allowed.
    pub text: String,
}

impl SetkeyError {
    pub(super) fn at(line: u32, text: impl Into<String>) -> SetkeyError {
        SetkeyError { line, text: text.into() }
    }
}
