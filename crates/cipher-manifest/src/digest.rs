//! The SHA-256 digest that names the content of a file.

use std::fmt;
use std::str::FromStr;

use crate::hex;

/// The SHA-256 digest of a file, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; Digest::LEN]);

impl Digest {
    /// The number of octets of a digest.
    pub const LEN: usize = 32;
}

/// A text that is no SHA-256 digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a SHA-256 digest has 64 hexadecimal digits; `sha256sum FILE` prints it")]
pub struct DigestError;

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Digest, DigestError> {
        let octets = hex::decode(text).ok_or(DigestError)?;
        octets.try_into().map(Digest).map_err(|_| DigestError)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
