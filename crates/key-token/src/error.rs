//! The error of every part of this crate: whose fault it is, where and why, and what to do.

use std::fmt;

/// The part that is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The PKCS#11 URI of the token.
    Uri,
    /// The file or the object with a public key.
    PublicKey,
    /// The key file: it is damaged, altered, or none.
    KeyFile,
    /// The key file is sealed to other keys than those of the token.
    OtherToken,
    /// The key file is for another suite.
    Suite,
    /// The key file was opened on this host before.
    Used,
    /// The book of used key files.
    Book,
    /// The PIN, or the descriptor that gives it.
    Pin,
    /// The vendor's PKCS#11 module.
    Module,
    /// The token, or what it answers.
    Token,
    /// The system: random octets, files.
    System,
}

impl Fault {
    /// Whether an argument or a file of the caller is not as it must be, rather than that an operation failed.
    pub const fn is_bad_input(self) -> bool {
        matches!(self, Fault::Uri | Fault::PublicKey | Fault::KeyFile | Fault::Suite)
    }
}

/// An error with its remedy. Neither of them ever holds a key or a PIN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenError {
    fault: Fault,
    text: String,
    remedy: String,
}

impl TokenError {
    pub(crate) fn new(fault: Fault, text: impl Into<String>, remedy: impl Into<String>) -> TokenError {
        TokenError { fault, text: text.into(), remedy: remedy.into() }
    }

    /// The part that is at fault.
    pub fn fault(&self) -> Fault {
        self.fault
    }

    /// What to do about it, as the end of a sentence.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }

    /// The same error, with the file in front that it is about.
    pub(crate) fn at(mut self, place: impl fmt::Display) -> TokenError {
        self.text = format!("{place}: {}", self.text);
        self
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for TokenError {}
