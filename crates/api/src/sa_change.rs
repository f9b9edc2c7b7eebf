//! Changes to existing associations.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sa_options::Limits;
use crate::{Keymat, SaInfo, Spi, SpiRequest};

/// The body of PATCH `/v1/sa/{spi}`. Fields that are absent stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SaUpdate {
    /// The size of an inbound replay window in packets: a power of two from 64 to 65536, or 0 for no replay protection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay_window: Option<u32>,
    /// The new soft limits, which replace all of the old ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soft: Option<Limits>,
    /// The new hard limits, which replace all of the old ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard: Option<Limits>,
}

/// The answer to [`SaUpdate`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SaUpdated {
    /// The association as it is now.
    pub sa: SaInfo,
}

fn overlap() -> u64 {
    30
}

/// The body of POST `/v1/replace`: successors for one or both associations of a pair, make before break. A successor
/// has everything of the old association except the SPI, the key and, if given, the suite. The inbound one comes first;
/// the outbound ones are exchanged between two packets; the old inbound one goes when the overlap has passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SaReplace {
    /// The inbound association of the pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inbound: Option<ReplaceOne>,
    /// The outbound association of the pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outbound: Option<ReplaceOne>,
    /// Seconds that the old inbound association stays.
    #[serde(default = "overlap")]
    pub overlap_seconds: u64,
}

/// The replacement of one association.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplaceOne {
    /// The SPI of the association that goes.
    pub old: Spi,
    /// The address of its peer, where associations to several peers have this SPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<IpAddr>,
    /// The SPI of the successor, or `"auto"` (inbound), by which the daemon chooses. Inbound and without a key, it
    /// names an association that exists already.
    pub spi: SpiRequest,
    /// The suite of the successor; that of the old association if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// The key of the successor, as in [`crate::SaAdd::keymat`].
    #[serde(default)]
    pub keymat: Keymat,
}

/// The answer to [`SaReplace`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SaReplaced {
    /// The successors, inbound first.
    pub sas: Vec<SaInfo>,
    /// The associations that they replace: an inbound one as it is from now on, an outbound one as it was.
    pub replaced: Vec<SaInfo>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replacement_hides_its_keys_and_has_a_default_overlap() {
        let text = r#"{"outbound":{"old":"0x1000","spi":"0x1001","keymat":"00112233"}}"#;
        let request: SaReplace = serde_json::from_str(text).unwrap();
        assert_eq!((request.overlap_seconds, &request.inbound), (30, &None));
        assert!(!format!("{request:?}").contains("0011"));
        assert!(serde_json::from_str::<SaReplace>(r#"{"both":1}"#).is_err());
    }
}
