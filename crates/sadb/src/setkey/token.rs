//! The words of a setkey file, with the place of each.

use super::error::SetkeyError;

/// The longest file that is read, in octets.
pub const MAX_TEXT: usize = 16 << 20;

/// A word, a quoted string or `;`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'t> {
    /// The text, without quotes.
    pub text: &'t str,
    /// The line number, counted from 1.
    pub line: u32,
    /// Whether the text stood in quotes.
    pub quoted: bool,
}

/// Cut a file into statements; each ends with `;`.
pub fn statements(text: &str) -> Result<Vec<Vec<Token<'_>>>, SetkeyError> {
    if text.len() > MAX_TEXT {
        return Err(SetkeyError::at(1, format!("the file is longer than {MAX_TEXT} octets")));
    }
    let mut out = Vec::new();
    let mut statement: Vec<Token<'_>> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut rest = line;
        loop {
            rest = rest.trim_start();
            let Some(first) = rest.chars().next() else { break };
            match first {
                '#' => break,
                ';' => {
                    if !statement.is_empty() {
                        out.push(std::mem::take(&mut statement));
                    }
                    rest = &rest[1..];
                }
                '"' => {
                    let inner = &rest[1..];
                    let Some(end) = inner.find('"') else {
                        return Err(SetkeyError::at(number, "a string without its closing quote"));
                    };
                    statement.push(Token { text: &inner[..end], line: number, quoted: true });
                    rest = &inner[end + 1..];
                }
                _ => {
                    let end = rest
                        .find(|c: char| c.is_whitespace() || matches!(c, ';' | '#' | '"'))
                        .unwrap_or(rest.len());
                    statement.push(Token { text: &rest[..end], line: number, quoted: false });
                    rest = &rest[end..];
                }
            }
        }
    }
    match statement.first() {
        None => Ok(out),
        Some(first) => Err(SetkeyError::at(first.line, "a statement without its closing semicolon")),
    }
}
