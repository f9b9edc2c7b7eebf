//! The SHA-256 digest that names the content of a file.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::hex;

/// The SHA-256 digest of a file, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; Digest::LEN]);

impl Digest {
    /// The number of octets of a digest.
    pub const LEN: usize = 32;

    /// The digest of these octets.
    pub fn of(octets: &[u8]) -> Digest {
        Digest(Sha256::digest(octets).into())
    }
}

/// A text that is no SHA-256 digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a SHA-256 digest has 64 hexadecimal digits")]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_fips_180() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of(b"abc").to_string(), abc);
    }
}
