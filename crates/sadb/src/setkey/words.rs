//! The words of one statement, read one after the other.

use std::net::IpAddr;

use super::error::SetkeyError;
use super::token::Token;

/// The words of one statement.
pub(super) struct Words<'s, 't> {
    pub(super) tokens: &'s [Token<'t>],
    pub(super) next: usize,
    /// The line number for errors at the end.
    pub(super) line: u32,
}

impl<'s, 't> Words<'s, 't> {
    pub(super) fn new(tokens: &'s [Token<'t>]) -> Words<'s, 't> {
        Words { tokens, next: 0, line: tokens.first().map_or(1, |token| token.line) }
    }

    pub(super) fn peek(&self) -> Option<&'s Token<'t>> {
        self.tokens.get(self.next)
    }

    pub(super) fn take(&mut self, what: &str) -> Result<&'s Token<'t>, SetkeyError> {
        let Some(token) = self.tokens.get(self.next) else {
            return Err(SetkeyError::at(self.line, format!("{what} is missing at the end of the statement")));
        };
        self.next += 1;
        self.line = token.line;
        Ok(token)
    }

    pub(super) fn end(&self) -> Result<(), SetkeyError> {
        match self.peek() {
            None => Ok(()),
            Some(token) => Err(SetkeyError::at(
                token.line,
                format!("{} is not expected here; a statement ends with `;`", shown(token)),
            )),
        }
    }

    pub(super) fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, SetkeyError> {
        let token = self.take(what)?;
        token.text.parse().map_err(|_| {
            SetkeyError::at(token.line, format!("{what} must be a number in range, not {}", shown(token)))
        })
    }

    pub(super) fn address(&mut self, what: &str) -> Result<IpAddr, SetkeyError> {
        let token = self.take(what)?;
        // A port in brackets says nothing for an association.
        let text = token.text.split('[').next().unwrap_or_default();
        text.parse().map_err(|_| {
            SetkeyError::at(
                token.line,
                format!("{what} must be an IPv4 or IPv6 address, not {}", shown(token)),
            )
        })
    }

    /// Skip flags like `-4` and `-n` in front of addresses.
    pub(super) fn skip_flags(&mut self) {
        while self
            .peek()
            .is_some_and(|t| matches!(t.text, "-4" | "-6" | "-n" | "-46" | "-4n" | "-6n" | "-46n"))
        {
            self.next += 1;
        }
    }
}

/// A word in the form that an error may repeat: short, and never what could be a key.
pub(super) fn shown(token: &Token<'_>) -> String {
    shown_part(token, token.text)
}

/// A part of a word, in the same form. Text in quotes is often a key in the wrong place. Text with characters that need
/// escaping is no word of setkey, and an escape may look like digits of a key.
pub(super) fn shown_part(token: &Token<'_>, part: &str) -> String {
    let could_be_a_key = part.split(|c: char| !c.is_ascii_hexdigit()).any(|digits| digits.len() > 8);
    let is_plain = part.chars().all(|c| c.is_ascii_graphic());
    if token.quoted || could_be_a_key || !is_plain || part.len() > 24 {
        "that word".to_owned()
    } else {
        format!("{part:?}")
    }
}
