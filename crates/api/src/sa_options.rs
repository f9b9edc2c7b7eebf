//! Optional properties of an association besides its names, selectors and key. Everything here has a default.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The protocol of an association, or a member of a chain without a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SaType {
    /// Encapsulating Security Payload (RFC 4303).
    #[default]
    Esp,
    /// Authentication Header (RFC 4302).
    Ah,
    /// IP payload compression (RFC 3173).
    Ipcomp,
    /// IP in IP encapsulation (RFC 2003, RFC 2473).
    Ipip,
}

/// The encapsulation of outer packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encapsulation {
    /// ESP travels in UDP (RFC 3948).
    Udp,
    /// Packets have an IP protocol number of their own.
    None,
}

/// The limits of an association's lifetime. A limit that is absent or zero does not apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Number of octets of inner packets that the association may carry.
    pub bytes: u64,
    /// Number of packets that the association may carry.
    pub packets: u64,
    /// Seconds since the association was added.
    pub seconds: u64,
    /// Seconds since the association's first packet.
    pub seconds_used: u64,
}

/// The lifetime of an association: soft limits announce the end, hard limits are the end (RFC 4301 section 4.4.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Lifetime {
    /// The limits at which a successor is asked for.
    pub soft: Limits,
    /// The limits at which nothing more is carried.
    pub hard: Limits,
    /// Soft limits are lowered by a random part of at most this many percent (0 to 50).
    pub jitter: u8,
}

impl Lifetime {
    /// Whether there is neither a soft nor a hard limit.
    pub fn is_unlimited(&self) -> bool {
        self.soft == Limits::default() && self.hard == Limits::default()
    }
}

/// A setting that is a number or a word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum WordOr<T> {
    /// The setting as a number.
    Value(T),
    /// The setting as a word: `copy`, `none`, `full` and so on.
    Word(String),
}

/// The rule for the outer DSCP: `"copy"`, one value, or a table of 64 values by the inner DSCP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum DscpRule {
    /// The outer DSCP is always this value.
    Set(u8),
    /// A table of 64 outer DSCPs, indexed by the inner one.
    Map(Vec<u8>),
    /// The rule as a word: `copy`.
    Word(String),
}

/// The treatment of header fields at the ends of a tunnel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Headers {
    /// The outer DSCP: `"copy"` (default), a value, or a table of 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<DscpRule>,
    /// Whether the outer DSCP of an inbound packet replaces the inner one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dscp_inward: bool,
    /// Whether outer packets are ECN-capable; `true` if absent. `false` is the compatibility mode of RFC 6040.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// The outer DF bit: `copy` (default), `set` or `clear`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub df: Option<String>,
    /// The outer hop limit: `"copy"` or a value; 64 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hop_limit: Option<WordOr<u8>>,
    /// When a packet that does not fit is fragmented: `after` (default), as a whole in an outer packet that is
    /// fragmented, or `before`, where the inner packet is cut first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fragment: Option<String>,
}

/// The stage of an association's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LifeState {
    /// The association is within its soft limits.
    #[default]
    Mature,
    /// The association has passed a soft limit.
    Dying,
    /// The association has passed a hard limit.
    Dead,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_numbers_and_tables_are_told_apart() {
        let headers: Headers =
            serde_json::from_str(r#"{"dscp":"copy","hop_limit":12,"df":"set","ecn":false}"#).unwrap();
        assert_eq!(headers.dscp, Some(DscpRule::Word("copy".into())));
        assert_eq!(headers.hop_limit, Some(WordOr::Value(12)));
        let headers: Headers = serde_json::from_str(r#"{"dscp":46,"hop_limit":"copy"}"#).unwrap();
        assert_eq!((headers.dscp, headers.ecn), (Some(DscpRule::Set(46)), None));
        let headers: Headers = serde_json::from_str(r#"{"dscp":[0,1,2]}"#).unwrap();
        assert_eq!(headers.dscp, Some(DscpRule::Map(vec![0, 1, 2])));
        assert!(serde_json::from_str::<Headers>(r#"{"tos":1}"#).is_err());
    }

    #[test]
    fn limits_that_are_absent_are_none() {
        let lifetime: Lifetime = serde_json::from_str(r#"{"hard":{"packets":7}}"#).unwrap();
        assert_eq!(lifetime.hard, Limits { packets: 7, ..Limits::default() });
        assert!(!lifetime.is_unlimited());
        assert!(Lifetime::default().is_unlimited());
        assert!(serde_json::from_str::<Lifetime>(r#"{"hard":{"days":7}}"#).is_err());
    }
}
