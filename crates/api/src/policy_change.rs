//! Changes of policy: previewed (`plan`), on trial (`apply`, `confirm`) and taken back (`rollback`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{FlowInfo, MissingProgram, PinnedFile, Position, RefusedBlock, Waiting};

/// The longest time that a change may wait for its confirmation, in seconds.
pub const MAX_CONFIRM_SECONDS: u64 = 86_400;

/// The body of POST `/v1/policy/plan`: the policy to compare with the one in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyText {
    /// The name that the answer uses for the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The text; if absent, the present text of the daemon's own policy file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// The changes that a policy would make. Asking changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyPlan {
    /// Whether anything would mean something else than now.
    pub changes: bool,
    /// The name of the file that was compiled.
    pub file: String,
    /// The generation in force that the policy was compared with.
    pub generation: u64,
    /// Applications that differ from those in force, by name.
    pub applications: Vec<ApplicationChange>,
    /// Number of applications that mean what they mean now.
    pub unchanged: usize,
    /// Open sockets with a peer that would get another verdict.
    pub sockets: Vec<SocketChange>,
    /// Number of further sockets that are not listed.
    #[serde(default)]
    pub more_sockets: usize,
    /// Number of these applications' open sockets without a peer (servers). The peer decides what they get.
    #[serde(default)]
    pub servers: usize,
    /// Files that the policy names by digest. One that the policy in force does not name so is hashed when this policy
    /// is loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<PinnedFile>,
    /// Subjects that no program of this host matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingProgram>,
    /// Blocks that did not compile; they would keep what they have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_blocks: Vec<RefusedBlock>,
    /// Errors, warnings and notes as the compiler prints them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub diagnostics: String,
}

/// What happens to an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// The application has no policy yet.
    Added,
    /// The application would have no policy any more: its traffic would be in clear.
    Removed,
    /// The application would have another policy.
    Changed,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Change::Added => "added",
            Change::Removed => "removed",
            Change::Changed => "changed",
        })
    }
}

/// An application that would get another policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApplicationChange {
    /// The name of the application.
    pub application: String,
    /// The kind of change.
    pub change: Change,
    /// The position of its block in the policy in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Position>,
    /// The position of its block in the new policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Position>,
    /// Peers whose flows would be treated differently, by address.
    pub peers: Vec<PeersChange>,
    /// Number of further ranges of peers that are not listed.
    #[serde(default)]
    pub more_peers: usize,
    /// The application's limits on clear text, if they would change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitChange>,
}

/// A change of an application's limits on clear text. A list is empty where there is no limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitChange {
    /// The statements of the policy in force.
    pub before: Vec<String>,
    /// The statements of the new policy.
    pub after: Vec<String>,
}

impl std::fmt::Display for LimitChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let said = |list: &[String]| if list.is_empty() { "no limit".to_owned() } else { list.join(" ") };
        write!(f, "{} -> {}", said(&self.before), said(&self.after))
    }
}

/// A range of peers whose flows would be treated differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PeersChange {
    /// The range: a prefix, or the first and the last address.
    pub peers: String,
    /// The position of the `network` line in the policy in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Position>,
    /// The position of the `network` line in the new policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Position>,
    /// The flows with these peers, one entry for each pair of rules.
    pub flows: Vec<FlowChange>,
}

/// A set of flows that would be treated differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowChange {
    /// The protocol: `tcp`, `udp`, a number, or `any`.
    pub protocol: String,
    /// The ports of this host, `any` or a range; the first such range, if there are several.
    pub local_ports: String,
    /// The ports of the peer, `any` or a range; the first such range, if there are several.
    pub remote_ports: String,
    /// The verdict of the policy in force.
    pub before: PolicyAnswer,
    /// The verdict of the new policy.
    pub after: PolicyAnswer,
}

/// A verdict in words, and the line behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyAnswer {
    /// The verdict: `clear`, `refused`, or the demand, as in `encryption mandatory suite aes256gcm16`.
    pub verdict: String,
    /// The most specific line; absent if the default decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<Position>,
}

impl std::fmt::Display for PolicyAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.verdict)?;
        self.line.as_ref().map_or(Ok(()), |line| write!(f, " ({line})"))
    }
}

/// A socket that would get another verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SocketChange {
    /// The ID of its process.
    pub pid: u32,
    /// The short name of its process.
    pub comm: String,
    /// The file descriptor in that process.
    pub fd: u32,
    /// The application of the socket in the policy in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// The application of the socket in the new policy, if that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub becomes: Option<String>,
    /// The flow of the socket.
    pub flow: FlowInfo,
    /// The verdict of the policy in force.
    pub before: PolicyAnswer,
    /// The verdict of the new policy.
    pub after: PolicyAnswer,
}

/// The body of POST `/v1/policy/apply`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyApply {
    /// The origin of the text, for the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The text; if absent, the present text of the daemon's own policy file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The policy is taken back after so many seconds unless it is confirmed; 1 to [`MAX_CONFIRM_SECONDS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_within_seconds: Option<u64>,
    /// Whether to accept a policy that names no application any more.
    #[serde(default)]
    pub allow_empty: bool,
    /// Whether to accept subjects that no program of this host matches.
    #[serde(default)]
    pub allow_missing: bool,
}

/// The answer of `apply`, `confirm` and `rollback`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyApplied {
    /// The generation in force now.
    pub generation: u64,
    /// Number of applications in force now.
    pub applications: usize,
    /// Applications whose tables differ from those before.
    pub changed: Vec<String>,
    /// Applications that had a policy and have none now: their traffic is in clear.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Subjects that no program of this host matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingProgram>,
    /// The trial that the policy is on, if it waits to be confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// The path of the policy file, if its text was replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed: Option<String>,
    /// The path of the file that keeps the previous text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_as: Option<String>,
    /// Warnings and notes as the compiler prints them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub diagnostics: String,
}
