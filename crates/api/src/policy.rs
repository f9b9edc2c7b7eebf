//! What is told about the policy that is loaded, and about a load.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{PinnedFile, Position, Waiting};

/// The policy in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyState {
    /// Its file.
    pub file: String,
    /// Grows with each load.
    pub generation: u64,
    /// Applications with a block.
    pub applications: usize,
    /// When it was loaded, seconds since 1970.
    pub loaded_unix_seconds: u64,
    /// Warnings of the last load, as text.
    pub warnings: usize,
    /// Blocks that did not compile and run in their last good version, or not at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_blocks: Vec<RefusedBlock>,
    /// What the last attempt to load said, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// It waits to be confirmed and is taken back otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Files that it names by their digests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<PinnedFile>,
    /// What its applications choose processes by.
    #[serde(default)]
    pub subjects: Subjects,
    /// Subjects that no program of this host matches; at most 64 are told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingProgram>,
    /// What the last load wrote into the kernel half's maps, and how much is in them; `None`: there is no kernel half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelLoad>,
}

/// What applications choose processes by: `program`, `anonymous`, `digest`, `from`, `unit`, `cgroup`, `uid`, `default`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subjects {
    /// How many do so, by the word; one with several words counts for each.
    pub counts: BTreeMap<String, usize>,
    /// Those that are told: the ones that ask for more than a program first.
    pub applications: Vec<ChosenBy>,
    /// Those that are not, beyond the number that is told.
    #[serde(default)]
    pub more: usize,
}

/// A subject that no process of this host can match. What it was to protect is in clear.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingProgram {
    /// A stable name: `RVL-P414` there is no such executable, `RVL-P415` it is a script.
    pub code: String,
    /// The application.
    pub application: String,
    /// The path or bare name that has no executable: the application's own, or one behind `from`.
    pub program: String,
    /// The application's block.
    pub at: Position,
    /// What.
    pub message: String,
    /// What to do about it; the program that may have been meant, if one is near.
    pub remedy: String,
}

/// One application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenBy {
    /// Its name.
    pub application: String,
    /// The words.
    pub by: Vec<String>,
}

/// What a load of policy did to the kernel half's maps. A table is the networks of one block: equal blocks have one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelLoad {
    /// Tables in force.
    pub tables: usize,
    /// Networks of all tables.
    pub networks: usize,
    /// Protections of all tables.
    pub protections: usize,
    /// Pairs of tables that compare.
    pub orders: usize,
    /// Applications that got another table.
    pub applications_changed: usize,
    /// Tables that were written: those that no policy before had.
    pub tables_written: usize,
    /// Networks that were written.
    pub networks_written: usize,
    /// Protections that were written.
    pub protections_written: usize,
    /// Orders that were written.
    pub orders_written: usize,
    /// Tables that were removed.
    pub tables_removed: usize,
    /// Pairs that were not compared, or found no room: no socket changes hands between them.
    pub orders_left_out: usize,
    /// Executables, and places of some, that are new or have another meaning than before.
    #[serde(default)]
    pub executables_written: usize,
}

/// A block that did not compile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedBlock {
    /// The application, as far as it could be read.
    pub application: String,
    /// Its last good version stays in force; otherwise nothing does.
    pub kept_last_good: bool,
    /// Where.
    pub at: Position,
}

/// POST `/v1/policy/reload?allow_empty=true&allow_missing=true`; without the first a file that names no application is refused if
/// one had a policy, without the second one with subjects that no program of this host matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyReload {
    /// The new policy is in force (perhaps without its broken blocks).
    pub applied: bool,
    /// The generation in force now.
    pub generation: u64,
    /// Applications in force now.
    pub applications: usize,
    /// Applications whose tables are other ones than before, by name; the others keep what they had.
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
    /// What else should be known: the configuration file was changed, and is not read by a reload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Errors, warnings and notes as the compiler prints them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub diagnostics: String,
    /// What it took; `None`: there is no kernel half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelLoad>,
}

/// The document of `ravelin policy check --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyCheck {
    /// No error.
    pub ok: bool,
    /// The file.
    pub file: String,
    /// Applications that compiled.
    pub applications: Vec<String>,
    /// What was found, in the order of the file.
    pub findings: Vec<Finding>,
    /// How the file's own tests came out; `None`: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<PolicyTests>,
    /// Files that it names by their digests, as they are on this host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<PinnedFile>,
}

/// How the tests of a policy came out, by their lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyTests {
    /// Came true.
    pub passed: usize,
    /// Did not, or cannot be read.
    pub failed: usize,
    /// Not asked: about a program whose block has errors.
    pub skipped: usize,
}

/// One finding in a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// A stable name for the kind of finding: `RVL-P101`.
    pub code: String,
    /// `error`, `warning` or `note`.
    pub severity: String,
    /// Where it starts.
    pub at: Position,
    /// One past its last character.
    #[serde(default)]
    pub end: Place,
    /// What.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Other places that belong to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<Related>,
}

/// A place in the file: both from 1, columns in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

/// Another place that belongs to a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Related {
    /// What is there.
    pub message: String,
    /// Where it starts.
    pub at: Place,
}
