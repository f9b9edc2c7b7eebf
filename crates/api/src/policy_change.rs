//! A change of policy before it happens (`plan`), while it is on trial (`apply`, `confirm`) and taken back (`rollback`).

use serde::{Deserialize, Serialize};

use crate::{FlowInfo, MissingProgram, PinnedFile, Position, RefusedBlock};

/// The longest that a change may wait for its confirmation, in seconds.
pub const MAX_CONFIRM_SECONDS: u64 = 86_400;

/// POST `/v1/policy/plan`: the policy to be compared with the one in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyText {
    /// What its text is called in the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The text; absent: that of the daemon's own policy file as it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// What a policy would change. Nothing changes by asking.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyPlan {
    /// Something means another thing than now.
    pub changes: bool,
    /// The file that was compiled.
    pub file: String,
    /// The generation in force that it was compared with.
    pub generation: u64,
    /// Applications that are not as they are now, by name.
    pub applications: Vec<ApplicationChange>,
    /// Applications that mean what they mean now.
    pub unchanged: usize,
    /// Open sockets with a peer whose verdict would be another.
    pub sockets: Vec<SocketChange>,
    /// Sockets that were left out, beyond the number that is told.
    #[serde(default)]
    pub more_sockets: usize,
    /// Open sockets of these applications without a peer (servers): what they get depends on who it will be.
    #[serde(default)]
    pub servers: usize,
    /// Files that it names by their digests; one that the policy in force does not name so is hashed when this one is loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<PinnedFile>,
    /// Subjects that no program of this host matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingProgram>,
    /// Blocks that did not compile: they would keep what they have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_blocks: Vec<RefusedBlock>,
    /// Errors, warnings and notes as the compiler prints them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub diagnostics: String,
}

/// What happens to an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It has no policy yet.
    Added,
    /// It would have none any more: clear.
    Removed,
    /// Another policy.
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

/// An application whose policy would be another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationChange {
    /// Its name.
    pub application: String,
    /// How.
    pub change: Change,
    /// Its block now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Position>,
    /// Its block then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Position>,
    /// Peers with which flows fare otherwise, by address.
    pub peers: Vec<PeersChange>,
    /// Ranges of peers that were left out, beyond the number that is told.
    #[serde(default)]
    pub more_peers: usize,
    /// Its limits on clear text, if they would be others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitChange>,
}

/// Limits that would be others: the statements, none if there is no limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitChange {
    /// Those now.
    pub before: Vec<String>,
    /// Those then.
    pub after: Vec<String>,
}

impl std::fmt::Display for LimitChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let said = |list: &[String]| if list.is_empty() { "no limit".to_owned() } else { list.join(" ") };
        write!(f, "{} -> {}", said(&self.before), said(&self.after))
    }
}

/// Peers that are treated otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeersChange {
    /// A prefix, or a range.
    pub peers: String,
    /// The `network` line now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Position>,
    /// The `network` line then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Position>,
    /// Flows with them, one entry for each pair of rules.
    pub flows: Vec<FlowChange>,
}

/// Flows that fare otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowChange {
    /// `tcp`, `udp`, a number, `any`.
    pub protocol: String,
    /// This host's ports, `any` or a range: the first such range, if there are several.
    pub local_ports: String,
    /// The peer's ports, likewise.
    pub remote_ports: String,
    /// What they get now.
    pub before: Said,
    /// What they would get.
    pub after: Said,
}

/// A verdict in words, and the line behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// `clear`, `refused`, or the demand: `encryption mandatory suite aes256gcm16`.
    pub verdict: String,
    /// The most specific line; absent: no line, the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<Position>,
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.verdict)?;
        self.line.as_ref().map_or(Ok(()), |line| write!(f, " ({line})"))
    }
}

/// A socket whose verdict would be another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketChange {
    /// Its process.
    pub pid: u32,
    /// The process's name.
    pub comm: String,
    /// Its descriptor.
    pub fd: u32,
    /// Its application now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// Its application then, if that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub becomes: Option<String>,
    /// Its flow.
    pub flow: FlowInfo,
    /// What it gets now.
    pub before: Said,
    /// What it would get.
    pub after: Said,
}

/// POST `/v1/policy/apply`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyApply {
    /// Where the text is from, for the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The text; absent: that of the daemon's own policy file as it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Take it back after so many seconds, unless it is confirmed; 1 to [`MAX_CONFIRM_SECONDS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_within_seconds: Option<u64>,
    /// Take a policy that names no application any more.
    #[serde(default)]
    pub allow_empty: bool,
    /// Take subjects that no program of this host matches.
    #[serde(default)]
    pub allow_missing: bool,
}

/// The answer of `apply`, `confirm` and `rollback`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyApplied {
    /// The generation in force now.
    pub generation: u64,
    /// Applications in force now.
    pub applications: usize,
    /// Applications whose tables are other ones than before.
    pub changed: Vec<String>,
    /// Applications that had a policy and have none now: their traffic is in clear.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Subjects that no program of this host matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingProgram>,
    /// It waits to be confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// The policy file, if its text was exchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed: Option<String>,
    /// Where the text is that was there before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_as: Option<String>,
    /// Warnings and notes as the compiler prints them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub diagnostics: String,
}

/// A policy in force that is taken back unless it is confirmed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Where its text is from.
    pub file: String,
    /// Until it is taken back.
    pub seconds_left: u64,
}
