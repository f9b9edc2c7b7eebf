//! Digests of executables (SHA-256, FIPS 180-4) as a policy names them: `/usr/bin/curl sha256 HEX`. Nothing is hashed
//! here.

use std::fmt;

/// The SHA-256 digest of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Parses 64 hexadecimal digits. The error says what they are instead.
    pub fn parse(text: &str) -> Result<Digest, String> {
        if let Some(other) = text.chars().find(|c| !c.is_ascii_hexdigit()) {
            return Err(format!("`{}` is not a hexadecimal digit", other.escape_default()));
        }
        if text.len() != 64 {
            return Err(format!("{} hexadecimal digits instead of 64", text.len()));
        }
        let mut out = [0; 32];
        for (octet, pair) in out.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digit = |c: &u8| char::from(*c).to_digit(16).unwrap_or(0) as u8;
            *octet = pair.iter().fold(0, |sum, c| sum << 4 | digit(c));
        }
        Ok(Digest(out))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_64_hexadecimal_digits() {
        let text = "00ffab".to_string() + &"1".repeat(58);
        let digest = Digest::parse(&text).unwrap();
        assert_eq!(digest.0[..4], [0x00, 0xff, 0xab, 0x11]);
        assert_eq!(digest.to_string(), text);
        assert_eq!(Digest::parse(&text.to_uppercase()), Ok(digest));
        for wrong in ["", "12", &text[1..], &format!("{text}0"), &text.replace('f', "g"), &"é".repeat(32)] {
            assert!(Digest::parse(wrong).is_err(), "{wrong}");
        }
    }
}
