//! What an association may be told beside its names, selectors and key. Everything here has a default.

use serde::{Deserialize, Serialize};

/// The protocol of an association, or a member of a chain without a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SaType {
    /// Encapsulating Security Payload (RFC 4303).
    #[default]
    Esp,
    /// Authentication Header (RFC 4302).
    Ah,
    /// Compression (RFC 3173).
    Ipcomp,
    /// IP in IP (RFC 2003, RFC 2473).
    Ipip,
}

/// How outer packets travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encapsulation {
    /// ESP in UDP (RFC 3948).
    Udp,
    /// With an IP protocol number of their own.
    None,
}

/// How much, and for how long. Absent or zero: without limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Octets of inner packets.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Seconds since it was added.
    pub seconds: u64,
    /// Seconds since its first packet.
    pub seconds_used: u64,
}

/// Soft limits announce the end, hard ones are the end (RFC 4301 section 4.4.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Lifetime {
    /// At these a successor is asked for.
    pub soft: Limits,
    /// At these nothing more is carried.
    pub hard: Limits,
    /// Soft limits are lowered by a random part of at most this many percent (0 to 50).
    pub jitter: u8,
}

impl Lifetime {
    /// Whether there is no limit.
    pub fn is_unlimited(&self) -> bool {
        self.soft == Limits::default() && self.hard == Limits::default()
    }
}

/// A word, or a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum WordOr<T> {
    /// A value.
    Value(T),
    /// `copy`, `none`, `full` ...
    Word(String),
}

/// The outer DSCP: `"copy"`, one value, or 64 values by the inner one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DscpRule {
    /// Always this one.
    Set(u8),
    /// By the inner one: 64 values.
    Map(Vec<u8>),
    /// `copy`.
    Word(String),
}

/// Header fields at the ends of a tunnel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Headers {
    /// `"copy"` (default), a value, or a table of 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<DscpRule>,
    /// Inbound: the outer DSCP replaces the inner one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dscp_inward: bool,
    /// `false`: outer packets are not ECN-capable (RFC 6040 compatibility mode). Default `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// `copy` (default), `set` or `clear`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub df: Option<String>,
    /// `"copy"` or a value; 64 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hop_limit: Option<WordOr<u8>>,
    /// `after` (default): what does not fit is carried whole in an outer packet that is fragmented; `before`: it is cut first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fragment: Option<String>,
}

/// Where an association is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LifeState {
    /// Within its soft limits.
    #[default]
    Mature,
    /// Behind a soft limit.
    Dying,
    /// Behind a hard limit.
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
