//! A PIN on its way from a descriptor to the token, never from an argument.

use std::fmt;
use std::fs::File;
use std::io::{IsTerminal, Read};

use cryptoki::types::AuthPin;
use zeroize::Zeroizing;

use crate::error::{Fault, TokenError};

/// A PIN: wiped when dropped, never printed.
pub struct Pin(AuthPin);

/// The longest PIN, in octets. PKCS#11 has no limit; tokens have 8 to 255.
const LONGEST: u64 = 255;

impl Pin {
    /// Read the PIN from a descriptor of this process: the first line, without its end.
    ///
    /// # Errors
    /// The descriptor cannot be read, is a terminal, or gives no line of 1 to 255 octets of UTF-8.
    pub fn from_fd(fd: u32) -> Result<Pin, TokenError> {
        let failed = |error: std::io::Error| {
            let text = format!("descriptor {fd} gives no PIN: {error}");
            TokenError::new(Fault::Pin, text, format!("open one, as in: --pin-fd {fd} {fd}<PINFILE"))
        };
        // Opening the link gives a new description of a file, and the same pipe.
        let file = File::open(format!("/proc/self/fd/{fd}")).map_err(failed)?;
        if file.is_terminal() {
            let text = format!("descriptor {fd} is a terminal, which would show the PIN");
            return Err(TokenError::new(Fault::Pin, text, "give it by a pipe or a file of mode 0600"));
        }
        let mut octets = Zeroizing::new(Vec::with_capacity(LONGEST as usize + 3));
        file.take(LONGEST + 3).read_to_end(&mut octets).map_err(failed)?;
        Pin::from_line(&octets).map_err(|error| error.at(format_args!("descriptor {fd}")))
    }

    /// The PIN in a text: the first line, without its end.
    ///
    /// # Errors
    /// There is no line of 1 to 255 octets of UTF-8. The message does not repeat the text.
    pub fn from_line(octets: &[u8]) -> Result<Pin, TokenError> {
        let wrong = |why: &str| {
            TokenError::new(
                Fault::Pin,
                why,
                "give the PIN of the token's user as one line of text, and nothing else",
            )
        };
        let line = octets.split(|octet| *octet == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return Err(wrong("the PIN is empty"));
        }
        if line.len() as u64 > LONGEST {
            return Err(wrong("the line has more than 255 octets: that is no PIN"));
        }
        let text = std::str::from_utf8(line).map_err(|_| wrong("the PIN is not UTF-8"))?;
        // One allocation of the right size: nothing is left behind when it moves.
        Ok(Pin(AuthPin::new(Box::from(text))))
    }

    pub(crate) fn auth(&self) -> &AuthPin {
        &self.0
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pin(..)")
    }
}
