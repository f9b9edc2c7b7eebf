//! Security parameters indexes as text: eight hexadecimal digits, or decimal where people type.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A security parameters index (RFC 4303 section 2.1), in JSON `"0x0000c0de"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Spi(pub u32);

impl fmt::Display for Spi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:08x}", self.0)
    }
}

/// The error for text that is not an SPI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSpi(String);

impl fmt::Display for BadSpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not an SPI: write 0xc0de or 49374, between 256 and 4294967295", self.0)
    }
}

impl std::error::Error for BadSpi {}

impl FromStr for Spi {
    type Err = BadSpi;

    fn from_str(text: &str) -> Result<Spi, BadSpi> {
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        let number = match digits {
            // `from_str_radix` would take a sign.
            Some(hex) if hex.bytes().all(|c| c.is_ascii_hexdigit()) => u32::from_str_radix(hex, 16).ok(),
            Some(_) => None,
            None if text.bytes().all(|c| c.is_ascii_digit()) => text.parse().ok(),
            None => None,
        };
        number.map(Spi).ok_or_else(|| BadSpi(text.chars().take(32).collect()))
    }
}

impl Serialize for Spi {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Spi {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrText;
        impl de::Visitor<'_> for NumberOrText {
            type Value = Spi;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an SPI, as \"0x0000c0de\" or a number")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Spi, E> {
                u32::try_from(number).map(Spi).map_err(|_| E::custom(BadSpi(number.to_string())))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Spi, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(NumberOrText)
    }
}

impl JsonSchema for Spi {
    fn schema_name() -> Cow<'static, str> {
        "Spi".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let text = "A security parameters index (RFC 4303 section 2.1).";
        if generator.contract().is_serialize() {
            return json_schema!({ "description": text, "type": "string", "pattern": "^0x[0-9a-f]{8}$" });
        }
        json_schema!({
            "description": text,
            "type": ["string", "integer"],
            "pattern": "^(0[xX][0-9A-Fa-f]{1,8}|[0-9]+)$",
            "minimum": 0,
            "maximum": u32::MAX,
        })
    }
}

/// The SPI that a new association is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpiRequest {
    /// The daemon chooses the SPI (inbound only: an outbound SPI is the peer's choice).
    Auto,
    /// The association gets this SPI.
    This(Spi),
}

impl fmt::Display for SpiRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpiRequest::Auto => f.write_str("auto"),
            SpiRequest::This(spi) => spi.fmt(f),
        }
    }
}

impl FromStr for SpiRequest {
    type Err = BadSpi;

    fn from_str(text: &str) -> Result<SpiRequest, BadSpi> {
        if text == "auto" { Ok(SpiRequest::Auto) } else { text.parse().map(SpiRequest::This) }
    }
}

impl Serialize for SpiRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for SpiRequest {
    fn schema_name() -> Cow<'static, str> {
        "SpiRequest".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The SPI of a new association, or auto: the daemon chooses it (inbound only).",
            "type": ["string", "integer"],
            "pattern": "^(auto|0[xX][0-9A-Fa-f]{1,8}|[0-9]+)$",
            "minimum": 0,
            "maximum": u32::MAX,
        })
    }
}

impl<'de> Deserialize<'de> for SpiRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Number(u32),
            Text(String),
        }
        match Form::deserialize(deserializer)? {
            Form::Number(number) => Ok(SpiRequest::This(Spi(number))),
            Form::Text(text) => text.parse().map_err(de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_an_spi() {
        for (text, want) in [
            ("0xc0de", Some(0xc0de)),
            ("49374", Some(0xc0de)),
            ("0xFFFFFFFF", Some(u32::MAX)),
            ("0x1ffffffff", None),
            ("0x+1", None),
            ("+1", None),
            ("", None),
            ("0x", None),
            ("c0de", None),
        ] {
            assert_eq!(text.parse::<Spi>().ok(), want.map(Spi), "{text}");
        }
        assert_eq!(serde_json::to_string(&Spi(0xc0de)).unwrap(), "\"0x0000c0de\"");
        assert_eq!(serde_json::from_str::<Spi>("49374").unwrap(), Spi(0xc0de));
        assert_eq!(serde_json::from_str::<SpiRequest>("\"auto\"").unwrap(), SpiRequest::Auto);
        assert_eq!(serde_json::from_str::<SpiRequest>("300").unwrap(), SpiRequest::This(Spi(300)));
        assert!(serde_json::from_str::<SpiRequest>("4294967296").is_err());
    }
}
