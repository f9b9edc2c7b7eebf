//! Keying material in requests: hexadecimal text that is wiped when dropped and never shown.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::{Zeroize, Zeroizing};

/// Hexadecimal keying material (cipher key, then salt).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Keymat(Zeroizing<Box<str>>);

/// The reason why keying material cannot be read. It never quotes the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeymatError {
    /// The number of digits, which is odd.
    OddLength(usize),
    /// The character at this place (counted from 1) is not a hexadecimal digit.
    NotHex(usize),
    /// No keying material was given.
    Empty,
}

impl fmt::Display for KeymatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeymatError::OddLength(n) => {
                write!(f, "keying material of {n} hexadecimal digits: an odd number")
            }
            KeymatError::NotHex(at) => {
                write!(f, "character {at} of the keying material is not a hexadecimal digit")
            }
            KeymatError::Empty => f.write_str("no keying material was given"),
        }
    }
}

impl std::error::Error for KeymatError {}

impl Keymat {
    /// Takes the text into custody, without the white space around it, and wipes the caller's copy.
    pub fn new(mut text: String) -> Keymat {
        let kept: Box<str> = text.trim().into();
        text.zeroize();
        Keymat(Zeroizing::new(kept))
    }

    /// Writes these octets as hexadecimal text.
    pub fn from_octets(octets: &[u8]) -> Keymat {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        // Made in one piece, so that no grown text leaves a key behind.
        let mut text = String::with_capacity(2 * octets.len());
        for octet in octets {
            text.push(char::from(DIGITS[usize::from(octet >> 4)]));
            text.push(char::from(DIGITS[usize::from(octet & 15)]));
        }
        Keymat(Zeroizing::new(text.into_boxed_str()))
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Decodes the text into octets. Only this container wipes them: a copy needs one that does so too.
    ///
    /// # Errors
    /// The text is empty, or is not an even number of hexadecimal digits.
    pub fn octets(&self) -> Result<Zeroizing<Vec<u8>>, KeymatError> {
        let digits = self.0.as_bytes();
        if digits.is_empty() {
            return Err(KeymatError::Empty);
        }
        // Found out first, so that no half-read key is left behind in a grown vector.
        if let Some(at) = digits.iter().position(|c| !c.is_ascii_hexdigit()) {
            return Err(KeymatError::NotHex(at + 1));
        }
        if digits.len() % 2 == 1 {
            return Err(KeymatError::OddLength(digits.len()));
        }
        let mut octets = Zeroizing::new(Vec::with_capacity(digits.len() / 2));
        octets.extend(digits.chunks_exact(2).map(|pair| value(pair[0]) << 4 | value(pair[1])));
        Ok(octets)
    }
}

/// The value of a hexadecimal digit (checked by the caller).
fn value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.wrapping_sub(b'A').wrapping_add(10),
    }
}

impl fmt::Debug for Keymat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keymat({} digits)", self.0.len())
    }
}

impl JsonSchema for Keymat {
    fn schema_name() -> Cow<'static, str> {
        "Keymat".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Keying material in hexadecimal: two digits an octet.",
            "type": "string",
            "pattern": "^\\s*([0-9A-Fa-f]{2})*\\s*$",
            "writeOnly": true,
        })
    }
}

impl Serialize for Keymat {
    /// Writes the digits in full. Only requests hold this type, so no answer can show a key.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Keymat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Keymat;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("keying material as a hexadecimal string")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Keymat, E> {
                Ok(Keymat(Zeroizing::new(text.trim().into())))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Keymat, E> {
                Ok(Keymat::new(text))
            }

            // The provided methods would quote the value in their message.
            fn visit_u64<E: de::Error>(self, _: u64) -> Result<Keymat, E> {
                Err(E::custom("keying material must be a hexadecimal string, not a number"))
            }

            fn visit_i64<E: de::Error>(self, _: i64) -> Result<Keymat, E> {
                Err(E::custom("keying material must be a hexadecimal string, not a number"))
            }

            fn visit_f64<E: de::Error>(self, _: f64) -> Result<Keymat, E> {
                Err(E::custom("keying material must be a hexadecimal string, not a number"))
            }
        }
        // `any`, since serde_json itself answers `str` for a number and quotes it.
        deserializer.deserialize_any(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_hex_of_either_case_and_names_the_bad_digit() {
        assert_eq!(*Keymat::new(" 00fFa0\n".into()).octets().unwrap(), [0x00, 0xff, 0xa0]);
        assert_eq!(Keymat::new("0".into()).octets().unwrap_err(), KeymatError::OddLength(1));
        assert_eq!(Keymat::new("00g0".into()).octets().unwrap_err(), KeymatError::NotHex(3));
        assert_eq!(Keymat::new("  ".into()).octets().unwrap_err(), KeymatError::Empty);
    }

    #[test]
    fn neither_debug_nor_a_json_error_shows_it() {
        let keymat = Keymat::new("deadbeefdeadbeef".into());
        assert_eq!(format!("{keymat:?}"), "Keymat(16 digits)");
        for json in ["1234567890", "-12345678", "12345678.5"] {
            let error = serde_json::from_str::<Keymat>(json).unwrap_err().to_string();
            assert!(!error.contains("1234567"), "{error}");
        }
    }
}
