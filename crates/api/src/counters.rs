//! What happened so far: the drops of the data path by reason, what the kernel half counted, and the whole in the manner of
//! netstat, by protocol.

use serde::{Deserialize, Serialize};

/// GET `/v1/counters`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Packets that ended on their way out, by the name of the reason; zeros are left out.
    pub outbound: Vec<Count>,
    /// Packets that ended on their way in.
    pub inbound: Vec<Count>,
    /// What the BPF programs counted (docs/design/0002).
    pub kernel: Vec<Count>,
    /// Everything by protocol or database, in the order in which it is shown; zeros only with `?all=true`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<CountersSection>,
}

/// What happened at one protocol or database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountersSection {
    /// `esp`, `ah`, `udp`, `spd` and so on.
    pub name: String,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// One line: a number and what there are so many of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// A stable word for programs, unique within the section.
    pub word: String,
    /// How many.
    pub count: u64,
    /// What, as it reads behind the number.
    pub text: String,
}

/// One counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// The reason's word.
    pub reason: String,
    /// How often.
    pub count: u64,
    /// One sentence: what the reason means; absent where the word says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}
