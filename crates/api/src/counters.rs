//! Counters by reason: the drops of the data path, and what the kernel half counted.

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
