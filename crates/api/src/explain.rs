//! The reasons why a flow is treated as it is, from a policy file (`ravelin policy explain`) or a running daemon
//! (`ravelin explain`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{PinnedFile, SaInfo};

/// A place in a policy file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Position {
    /// The file name as the user gave it.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// The statement as written, with white space squeezed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        self.column.map_or(Ok(()), |column| write!(f, ":{column}"))
    }
}

/// PROTECT, BYPASS or DISCARD (RFC 4301 section 4.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The packet passes in clear.
    Bypass,
    /// The packet is refused.
    Discard,
    /// The packet is protected by ESP.
    Protect,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Verdict::Bypass => "bypass",
            Verdict::Discard => "discard",
            Verdict::Protect => "protect",
        })
    }
}

/// What the policy says about one flow, and which lines say so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// What happens to the flow.
    pub verdict: Verdict,
    /// The service, `authentication` or `encryption`, where the verdict is protect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The level, `mandatory` or `optional`, where the verdict is protect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// How the answer came about, step by step.
    pub why: Vec<String>,
    /// Further remarks about the decision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The `application` block that the flow belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<Position>,
    /// The `network` line that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Position>,
    /// The name of the protection that the network refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protection: Option<String>,
    /// The protection item that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<Position>,
    /// The most specific of the lines above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<Position>,
    /// What would become of the flow if the network were not only watched (`observe`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<String>,
    /// The class of the graph that the flow's packets are in, if the item says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The profile by which the flow's packets are scrubbed where they are protected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrub: Option<ScrubbedBy>,
}

/// The profile by which a flow is scrubbed, and the item that says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScrubbedBy {
    /// The name of the profile: `observe`, `minimal`, `standard` or `strict`.
    pub profile: String,
    /// The application whose item says so; it is not always the flow's own.
    pub application: String,
    /// The position of the policy item that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<Position>,
}

/// The addresses and ports of a flow as this host sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowInfo {
    /// The protocol: `tcp`, `udp`, or its number.
    pub protocol: String,
    /// The address and port of this host; absent while they are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<String>,
    /// The address and port of the peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
}

/// The document of `ravelin policy explain --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyExplanation {
    /// The application that the question is about.
    pub application: String,
    /// The flow that the question is about.
    pub flow: FlowInfo,
    /// The decision of the policy for this flow.
    pub decision: Decision,
    /// Files that the policy names by digest, with their state on this host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<PinnedFile>,
}

/// The query of GET `/v1/explain`. Exactly one of `pid`, `socket`, `drop`, or `app` with `to` is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainQuery {
    /// A process: every socket of it is explained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// A connection in the form `LOCAL:PORT,REMOTE:PORT[/tcp|/udp]`, whose sockets are explained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    /// A refusal: its number, `last` or `all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop: Option<String>,
    /// The program of a flow that need not exist, as the policy names it. It needs `to`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// The peer of that flow: `ADDRESS:PORT/PROTOCOL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The local port of that flow, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_port: Option<u16>,
}

/// The answer to GET `/v1/explain`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The process, if the question was about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessInfo>,
    /// The sockets of the process, or the one asked about. If there are none, `process` says what a new socket would
    /// get.
    pub sockets: Vec<SocketExplained>,
    /// Calls and packets that were refused, the newest first, if the question was about them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drops: Vec<DropExplained>,
    /// Files that the policy names by digest and that matter here, with their state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<PinnedFile>,
}

/// A process, and the application that the policy sees in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessInfo {
    /// The ID of the process.
    pub pid: u32,
    /// The short name of the process (`comm`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm: Option<String>,
    /// The path of its executable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
    /// The application that the policy sees in the process; absent if no block names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<AppRef>,
    /// Whether the process is refused every peer, because its file is not known to be what the policy says.
    #[serde(default)]
    pub refused: bool,
}

/// A call or a packet that the kernel half refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DropExplained {
    /// The number of the refusal, counted since the daemon's start.
    pub id: u64,
    /// The time when the daemon heard of it: RFC 3339, UTC.
    pub time: String,
    /// The application that was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<AppRef>,
    /// The process ID, if a call was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The user of that process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The short name of that process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm: Option<String>,
    /// The name of the call, or `packet out`, or `packet in`.
    pub attempt: String,
    /// The protocol and the peer.
    pub flow: FlowInfo,
    /// The name of the counter that counted it.
    pub reason: String,
    /// A sentence that explains the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Whether it passed because the network is only watched; it would have been refused otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub observed: bool,
    /// The decision of the policy in force for such a flow, with this host's port left open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
}

/// An application of the policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppRef {
    /// The name of the application in the policy.
    pub name: String,
    /// The number of the application in marks and maps.
    pub id: u16,
    /// The position of its block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<Position>,
}

/// A socket, the policy's decision for it, and the associations that serve it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SocketExplained {
    /// The process that owns the socket, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The short name of the owning process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm: Option<String>,
    /// The file descriptor in the owning process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fd: Option<i32>,
    /// The state of the socket: `established`, `listen`, and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The application that the socket belongs to; absent if it belongs to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<AppRef>,
    /// The flow of the socket.
    pub flow: FlowInfo,
    /// The decision of the policy; absent for a socket without a peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// The association that carries its packets out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sa_out: Option<SaInfo>,
    /// The associations that may bring its packets in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sa_in: Vec<SaInfo>,
    /// What really happens to its packets now: `protected`, `clear`, `refused`, or `blocked` (protection is mandatory
    /// and no association serves it).
    pub effect: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_round_trips_without_its_absent_parts() {
        let network = "network 192.0.2.0/24 untrusted;".to_owned();
        let decision = Decision {
            verdict: Verdict::Discard,
            service: None,
            level: None,
            why: vec!["the network is untrusted".into()],
            notes: Vec::new(),
            block: None,
            network: Some(Position { file: "p".into(), line: 2, column: Some(5), text: network }),
            protection: None,
            item: None,
            line: None,
            observed: None,
            class: None,
            scrub: None,
        };
        let text = serde_json::to_string(&decision).unwrap();
        assert!(!text.contains("null") && !text.contains("level"), "{text}");
        assert_eq!(serde_json::from_str::<Decision>(&text).unwrap(), decision);
        assert_eq!(decision.network.unwrap().to_string(), "p:2:5");
    }

    #[test]
    fn a_question_with_an_unknown_field_is_refused() {
        assert!(serde_json::from_str::<ExplainQuery>(r#"{"pod":3}"#).is_err());
    }
}
