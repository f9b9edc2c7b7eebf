//! The policy that is loaded, and the result of a load.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{PinnedFile, Position};

/// The state of the policy in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyState {
    /// The path of the policy file.
    pub file: String,
    /// The generation number, which grows with each load.
    pub generation: u64,
    /// Number of applications with a block.
    pub applications: usize,
    /// The time of the load, in seconds since 1970.
    pub loaded_unix_seconds: u64,
    /// Number of warnings of the last load.
    pub warnings: usize,
    /// Blocks that did not compile; each runs in its last good version, or not at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_blocks: Vec<RefusedBlock>,
    /// The error of the last attempt to load, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The trial that the policy is on: it is taken back unless it is confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Files that the policy names by digest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<PinnedFile>,
    /// The criteria by which its applications choose processes.
    #[serde(default)]
    pub subjects: Subjects,
    /// Subjects that no program of this host matches; at most 64 are told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingProgram>,
    /// What the last load wrote into the kernel half's maps, and how much is in them; absent if there is no kernel
    /// half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelLoad>,
}

/// The criteria by which applications choose processes: `program`, `anonymous`, `digest`, `from`, `unit`, `cgroup`,
/// `uid`, `default`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Subjects {
    /// Number of applications for each criterion; an application with several counts for each.
    pub counts: BTreeMap<String, usize>,
    /// The applications that are listed: those that ask for more than a program come first.
    pub applications: Vec<ChosenBy>,
    /// Number of applications that are not listed.
    #[serde(default)]
    pub more: usize,
}

/// A policy in force that is taken back unless it is confirmed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Waiting {
    /// The origin of the policy's text.
    pub file: String,
    /// Seconds left until the policy is taken back.
    pub seconds_left: u64,
}

/// A subject that no process of this host can match. The traffic that it was to protect is in clear.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissingProgram {
    /// A stable code: `RVL-P414` (there is no such executable) or `RVL-P415` (it is a script).
    pub code: String,
    /// The application whose subject it is.
    pub application: String,
    /// The path or bare name that has no executable: the application's own, or one behind `from`.
    pub program: String,
    /// The position of the application's block.
    pub at: Position,
    /// A description of the finding.
    pub message: String,
    /// What to do about it, with the program that may have been meant if one is near.
    pub remedy: String,
}

/// An application, and the criteria by which it chooses processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChosenBy {
    /// The name of the application.
    pub application: String,
    /// The words of its criteria.
    pub by: Vec<String>,
}

/// The effect of a policy load on the kernel half's maps. A table holds the networks of one block; equal blocks share
/// one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelLoad {
    /// Number of tables in force.
    pub tables: usize,
    /// Number of networks in all tables.
    pub networks: usize,
    /// Number of protections in all tables.
    pub protections: usize,
    /// Number of pairs of tables that compare.
    pub orders: usize,
    /// Number of applications that got another table.
    pub applications_changed: usize,
    /// Number of tables written: those that no policy before had.
    pub tables_written: usize,
    /// Number of networks that were written.
    pub networks_written: usize,
    /// Number of protections that were written.
    pub protections_written: usize,
    /// Number of orders (pairs of tables that compare) that were written.
    pub orders_written: usize,
    /// Number of tables that were removed.
    pub tables_removed: usize,
    /// Number of pairs that were not compared, or found no room. No socket changes hands between their tables.
    pub orders_left_out: usize,
    /// Number of executables, and of places of some, that are new or have another meaning than before.
    #[serde(default)]
    pub executables_written: usize,
}

/// A block that did not compile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedBlock {
    /// The application, as far as it could be read.
    pub application: String,
    /// Whether its last good version stays in force; otherwise it has no policy.
    pub kept_last_good: bool,
    /// The position of the block.
    pub at: Position,
}

/// The answer to POST `/v1/policy/reload?allow_empty=true&allow_missing=true`. Without `allow_empty`, a file that names
/// no application is refused if an application had a policy before. Without `allow_missing`, a file with subjects that
/// no program of this host matches is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyReload {
    /// Whether the new policy is in force (perhaps without its broken blocks).
    pub applied: bool,
    /// The generation in force now.
    pub generation: u64,
    /// Number of applications in force now.
    pub applications: usize,
    /// Applications whose tables differ from those before, by name; the others keep what they had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// Blocks that did not compile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_blocks: Vec<RefusedBlock>,
    /// Applications that had a policy and have none now: their traffic is in clear.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Subjects that no program of this host matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingProgram>,
    /// Further remarks, such as that the configuration file was changed, which a reload does not read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Errors, warnings and notes as the compiler prints them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub diagnostics: String,
    /// What the load wrote into the kernel half's maps; absent if there is no kernel half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelLoad>,
}

/// The document of `ravelin policy check --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyCheck {
    /// Whether the policy has no error.
    pub ok: bool,
    /// The path of the policy file.
    pub file: String,
    /// Names of the applications that compiled.
    pub applications: Vec<String>,
    /// What was found, in the order of the file.
    pub findings: Vec<Finding>,
    /// The results of the file's own tests; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<PolicyTests>,
    /// Files that the policy names by digest, with their state on this host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<PinnedFile>,
}

/// The results of a policy's tests, counted by their lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyTests {
    /// Number of tests that came true.
    pub passed: usize,
    /// Number of tests that did not come true, or cannot be read.
    pub failed: usize,
    /// Number of tests that were not run because their program's block has errors.
    pub skipped: usize,
}

/// One finding in a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// A stable code for the kind of finding: `RVL-P101`.
    pub code: String,
    /// The severity: `error`, `warning` or `note`.
    pub severity: String,
    /// The position where it starts.
    pub at: Position,
    /// The position one past its last character.
    #[serde(default)]
    pub end: Place,
    /// A description of the finding.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Other places that belong to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<Related>,
}

/// A place in the policy file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
}

/// Another place that belongs to a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Related {
    /// A description of what is there.
    pub message: String,
    /// The position where it starts.
    pub at: Place,
}
