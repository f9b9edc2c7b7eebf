//! Counters: drops of the data path by reason, the counts of the kernel half, and all of it by protocol as netstat
//! shows it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer to GET `/v1/counters`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// Packets dropped on their way out, by the name of the reason; zeros are left out.
    pub outbound: Vec<Count>,
    /// Packets dropped on their way in, by the name of the reason.
    pub inbound: Vec<Count>,
    /// The counters of the BPF programs (docs/design/0002).
    pub kernel: Vec<Count>,
    /// All counters by protocol or database, in the order in which they are shown; zeros only with `?all=true`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<CountersSection>,
}

/// The counters of one protocol or database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CountersSection {
    /// The name of the section: `esp`, `ah`, `udp`, `spd` and so on.
    pub name: String,
    /// The lines of the section.
    pub lines: Vec<Line>,
}

/// A counter of a section, with the text that follows its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// A stable word for programs, unique within the section.
    pub word: String,
    /// The value of the counter.
    pub count: u64,
    /// The text, as it reads behind the number.
    pub text: String,
}

/// A counter, by its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Count {
    /// The word of the reason.
    pub reason: String,
    /// Number of times that it occurred.
    pub count: u64,
    /// A sentence that says what the reason means; absent where the word says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}
