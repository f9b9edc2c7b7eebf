//! Why a flow is treated as it is: of a policy file (`ravelin policy explain`), and of a running daemon
//! (`ravelin explain`).

use serde::{Deserialize, Serialize};

use crate::{PinnedFile, SaInfo};

/// A place in a policy file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The file as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// The statement as written, white space squeezed.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Clear.
    Bypass,
    /// Refused.
    Discard,
    /// Protected by ESP.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The verdict.
    pub verdict: Verdict,
    /// `authentication` or `encryption`, where the verdict is protect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// `mandatory` or `optional`, where the verdict is protect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// How the answer came about, step by step.
    pub why: Vec<String>,
    /// What else to know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The `application` block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<Position>,
    /// The `network` line that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Position>,
    /// The protection that the network names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protection: Option<String>,
    /// The protection item that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<Position>,
    /// The most specific of these lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<Position>,
    /// What would become of the flow, if the network were not only watched (`observe`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<String>,
    /// By which profile its packets are scrubbed, as far as they are protected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrub: Option<ScrubbedBy>,
}

/// By which profile a flow is scrubbed, and who says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubbedBy {
    /// `observe`, `minimal`, `standard` or `strict`.
    pub profile: String,
    /// The application whose item says so: not always the flow's own.
    pub application: String,
    /// The item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<Position>,
}

/// A flow as this host sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowInfo {
    /// `tcp`, `udp`, or the number.
    pub protocol: String,
    /// This host's address and port; absent where not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<String>,
    /// The peer's address and port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
}

/// The document of `ravelin policy explain --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyExplanation {
    /// The application asked about.
    pub application: String,
    /// The flow asked about.
    pub flow: FlowInfo,
    /// The answer.
    pub decision: Decision,
    /// Files that it speaks of by their digests, as they are on this host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<PinnedFile>,
}

/// The question of GET `/v1/explain`: one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainQuery {
    /// Every socket of this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// One connection: `LOCAL:PORT,REMOTE:PORT[/tcp|/udp]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    /// Something that was refused: its number, `last` or `all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop: Option<String>,
    /// A flow that may never have been: the program, as the policy names it. With `to`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Its peer: `ADDRESS:PORT/PROTOCOL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// This host's port, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_port: Option<u16>,
}

/// GET `/v1/explain`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The process, if one was asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessInfo>,
    /// Its sockets, or the one that was asked about. May be empty: `process` says what a new socket would get.
    pub sockets: Vec<SocketExplained>,
    /// What was refused, the newest first, if that was asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drops: Vec<DropExplained>,
    /// What policy asks of the files that matter here by their digests, and whether they are so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<PinnedFile>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// Its number.
    pub pid: u32,
    /// Its short name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm: Option<String>,
    /// Its executable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
    /// The application that policy sees in it; absent: no block names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<AppRef>,
    /// It runs a file that is not known to be what policy says: it is refused every peer.
    #[serde(default)]
    pub refused: bool,
}

/// A call or a packet that the kernel half refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropExplained {
    /// Its number since the daemon's start.
    pub id: u64,
    /// When the daemon heard of it: RFC 3339, UTC.
    pub time: String,
    /// Whose it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<AppRef>,
    /// The process, if a call was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm: Option<String>,
    /// The call, or `packet out`, `packet in`.
    pub attempt: String,
    /// Protocol and peer.
    pub flow: FlowInfo,
    /// The word of the counter that counted it.
    pub reason: String,
    /// What it means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// It was let pass, for the network is only watched: it would have been refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub observed: bool,
    /// What the policy in force says of such a flow, this host's port left open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
}

/// An application of the policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppRef {
    /// Its name in the policy.
    pub name: String,
    /// Its number in marks and maps.
    pub id: u16,
    /// Its block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<Position>,
}

/// One socket, the policy's decision for it, and the associations that serve it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SocketExplained {
    /// Its owner, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The owner's short name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm: Option<String>,
    /// The owner's descriptor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fd: Option<i32>,
    /// `established`, `listen`, and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The application on the socket; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<AppRef>,
    /// The flow.
    pub flow: FlowInfo,
    /// What the policy says; absent for a socket without a peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// The association that carries its packets out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sa_out: Option<SaInfo>,
    /// The associations that may bring its packets in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sa_in: Vec<SaInfo>,
    /// What really happens to its packets now: `protected`, `clear`, `refused`, or `blocked` (protection is
    /// mandatory and no association serves it).
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
