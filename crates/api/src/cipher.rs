//! The documents of `ravelin cipher`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One check of a cipher of one's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CipherCheck {
    /// The name of the check.
    pub name: String,
    /// Whether the cipher passed it. A check that was left out was not passed.
    pub ok: bool,
    /// A description of what was found, or of what was wrong. A check that this kind of cipher cannot have says so.
    pub detail: String,
}

/// The document of `ravelin cipher check --json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CipherChecked {
    /// The name of the cipher.
    pub cipher: String,
    /// Whether every check that was not left out was passed.
    pub ok: bool,
    /// The checks, in a fixed order.
    pub checks: Vec<CipherCheck>,
    /// Names of checks that were left out by `--without`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// The document of `ravelin cipher pack --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CipherPacked {
    /// The path of the file that was written.
    pub file: String,
    /// The octets of the file.
    pub octets: usize,
    /// The SHA-256 digest of the file: equal for equal files of the cipher.
    pub sha256: String,
}

/// The document of `ravelin cipher install --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CipherInstalled {
    /// The path of the manifest that was installed.
    pub manifest: String,
    /// The lines of the configuration that name the cipher.
    pub configuration: String,
}

/// The time of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CipherCost {
    /// The time of it in nanoseconds.
    pub ns: f64,
    /// Ticks of the processor's time stamp counter, which are cycles at its constant rate. Absent on a processor without
    /// such a counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<f64>,
}

/// The costs of packets of one length, each for one packet of a batch of 16.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CipherLength {
    /// Octets of a packet's data.
    pub octets: usize,
    /// The cost of the cipher alone. Absent where its key stream is computed ahead of the packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cipher: Option<CipherCost>,
    /// A whole packet sealed under the suite.
    pub seal: CipherCost,
    /// A whole packet opened under the suite.
    pub open: CipherCost,
}

/// What a gateway would carry of the packets in a capture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CipherMix {
    /// The path of the capture.
    pub capture: String,
    /// Number of packets in it.
    pub packets: u64,
    /// The mean of the packets' lengths, in octets.
    pub mean_octets: f64,
    /// Gbit/s that one processor seals of this mix.
    pub seal_gbit: f64,
    /// Gbit/s that one processor opens of this mix.
    pub open_gbit: f64,
}

/// The costs of a cipher in one isolation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CipherIsolation {
    /// The place where the cipher's code ran: `compiled in`, `none` (in the process of the daemon), `worker, ahead` (key
    /// stream is computed before the packets come) or `worker, call` (the data thread waits for each batch).
    pub isolation: String,
    /// A key set under the suite, with what the host keeps of it.
    pub setkey: CipherCost,
    /// Packets by their length.
    pub lengths: Vec<CipherLength>,
    /// The share of the packets, 0 to 1, whose key stream was there when they came; only with `worker, ahead`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<f64>,
    /// The mix of a capture, if one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<CipherMix>,
}

/// The document of `ravelin cipher bench --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CipherMeasured {
    /// The name of the cipher.
    pub cipher: String,
    /// The suite under which packets were sealed and opened.
    pub suite: String,
    /// The isolations in which it can run.
    pub isolations: Vec<CipherIsolation>,
}
