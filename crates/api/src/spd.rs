//! The rules of the security policy database: the request that adds one, and the documents that describe them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Verdict;

/// The direction of the packets that a rule is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SpdDirection {
    /// The rule is for packets from the wire.
    In,
    /// The rule is for packets to the wire.
    Out,
    /// The rule is for packets of both directions.
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

/// The body of POST `/v1/spd`, and the value of `rule` in a line of `ravelin replay`. It holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpdAdd {
    /// The name of the rule; the daemon makes one (`rule-7`) if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The place of the rule: `first`, `last` (default), `before:NAME`, `after:NAME`, or `at:N`, counted from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The direction of the packets; both if absent.
    #[serde(default)]
    pub direction: SpdDirection,
    /// The packets that match, which are those inside at least one selector (`"local 10.0.0.0/8 remote 192.0.2.0/24
    /// proto tcp remote-port 443"`, `"any"`).
    pub selectors: Vec<String>,
    /// What happens to matching packets.
    pub action: Verdict,
    /// The least service of a protecting rule: `authentication` or `encryption` (default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The level of a protecting rule: `mandatory` (default) or `optional`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// The suite that one of the associations of a protecting rule must have (`"maes512ctr-sha256"`); behind one that
    /// rests on a cipher of one's own alone stands `alone` (`"maes512gcm alone"`). If absent, any suite will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// The associations that a packet of a protecting rule passes, innermost first: each an SPI, or
    /// `PROTOCOL/MODE/LOCAL-REMOTE`. If absent, any association that serves the packet will do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bundle: Vec<String>,
    /// The scrub profile of a rule that protects or bypasses packets of both directions: `observe`, `minimal`,
    /// `standard` or `strict`; not scrubbed if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrub: Option<String>,
    /// The class of the graph that matching packets are in; none if absent. A rule that discards has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
}

/// The packets that a rule decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpdCount {
    /// Number of these packets.
    pub packets: u64,
    /// Number of octets of inner packets.
    pub bytes: u64,
}

/// The description of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpdRule {
    /// The position of the rule, counted from 0.
    pub position: usize,
    /// The name of the rule.
    pub name: String,
    /// The direction of the packets.
    pub direction: SpdDirection,
    /// The selectors of the packets that match.
    pub selectors: Vec<String>,
    /// What happens to matching packets.
    pub action: Verdict,
    /// The least service, where the rule protects: `authentication` or `encryption`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The level, where the rule protects: `mandatory` or `optional`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// The suite that one of the associations must have, where the rule demands one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// The associations that a packet passes, innermost first, where the rule protects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bundle: Vec<String>,
    /// The scrub profile of the packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrub: Option<String>,
    /// The class of the graph that the packets are in, if the rule says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The outbound packets that the rule decided.
    pub outbound: SpdCount,
    /// The inbound packets that the rule decided.
    pub inbound: SpdCount,
}

/// The answer to GET `/v1/spd`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpdList {
    /// The rules in order. Packets that match none of them are discarded; without rules there is no SPD.
    pub rules: Vec<SpdRule>,
}

/// The answer to [`SpdAdd`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpdAdded {
    /// The rule as it is now.
    pub rule: SpdRule,
}

/// The answer to DELETE `/v1/spd/{name}` and DELETE `/v1/spd`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
        let text = serde_json::to_string(&rule).unwrap();
        assert!(!text.contains("scrub") && !text.contains("class"), "{text}");
        assert_eq!((rule.direction, rule.name, rule.scrub), (SpdDirection::Both, None, None));
        assert!(serde_json::from_str::<SpdAdd>(r#"{"selectors":[],"action":"bypass","key":1}"#).is_err());
        assert!(serde_json::from_str::<SpdAdd>(r#"{"action":"bypass"}"#).is_err());
    }
}
