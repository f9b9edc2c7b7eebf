//! The rules of the security policy database: the request that adds one, and what is told about them.

use serde::{Deserialize, Serialize};

use crate::Verdict;

/// Packets of which way a rule is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SpdDirection {
    /// From the wire.
    In,
    /// To the wire.
    Out,
    /// All.
    #[default]
    Both,
}

impl std::fmt::Display for SpdDirection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SpdDirection::In => "in",
            SpdDirection::Out => "out",
            SpdDirection::Both => "both",
        })
    }
}

/// POST `/v1/spd`, and the value of `rule` in a line of `ravelin replay`. Holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpdAdd {
    /// Its name; the daemon makes one (`rule-7`) if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `first`, `last` (default), `before:NAME`, `after:NAME`, or `at:N`, counted from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Which way; both if absent.
    #[serde(default)]
    pub direction: SpdDirection,
    /// Which packets: those inside at least one (`"local 10.0.0.0/8 remote 192.0.2.0/24 proto tcp remote-port 443"`, `"any"`).
    pub selectors: Vec<String>,
    /// What happens to them.
    pub action: Verdict,
    /// To protect: `authentication` or `encryption` (default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// To protect: `mandatory` (default) or `optional`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// To protect: the associations that a packet passes, innermost first; an SPI, or `PROTOCOL/MODE/LOCAL-REMOTE`. Any
    /// association that serves the packet if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bundle: Vec<String>,
    /// To protect or bypass, of both directions: `observe`, `minimal`, `standard` or `strict`; not scrubbed if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrub: Option<String>,
}

/// What a rule decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpdCount {
    /// Packets.
    pub packets: u64,
    /// Octets of inner packets.
    pub bytes: u64,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpdRule {
    /// Where it stands, from 0.
    pub position: usize,
    /// Its name.
    pub name: String,
    /// Which way.
    pub direction: SpdDirection,
    /// Which packets.
    pub selectors: Vec<String>,
    /// What happens to them.
    pub action: Verdict,
    /// Where it protects: the least service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Where it protects: how strictly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// Where it protects: by what.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bundle: Vec<String>,
    /// By which profile they are scrubbed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrub: Option<String>,
    /// Outbound packets that it decided.
    pub outbound: SpdCount,
    /// Inbound packets that it decided.
    pub inbound: SpdCount,
}

/// GET `/v1/spd`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpdList {
    /// The rules in order. What none of them matches is discarded; if there is none, there is no SPD.
    pub rules: Vec<SpdRule>,
}

/// The answer to [`SpdAdd`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpdAdded {
    /// The rule as it is now.
    pub rule: SpdRule,
}

/// The answer to DELETE `/v1/spd/{name}` and DELETE `/v1/spd`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpdDeleted {
    /// The rules as they were.
    pub rules: Vec<SpdRule>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_defaults_and_refuses_what_it_does_not_know() {
        let rule: SpdAdd = serde_json::from_str(r#"{"selectors":["any"],"action":"bypass"}"#).unwrap();
        assert!(!serde_json::to_string(&rule).unwrap().contains("scrub"));
        assert_eq!((rule.direction, rule.name, rule.scrub), (SpdDirection::Both, None, None));
        assert!(serde_json::from_str::<SpdAdd>(r#"{"selectors":[],"action":"bypass","key":1}"#).is_err());
        assert!(serde_json::from_str::<SpdAdd>(r#"{"action":"bypass"}"#).is_err());
    }
}
