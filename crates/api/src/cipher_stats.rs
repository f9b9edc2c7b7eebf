//! What `ravelin cipher stats` says of a cipher (issue 23 item 8).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The report of the statistical tests of a cipher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CipherStats {
    /// The name of the cipher.
    pub cipher: String,
    /// What the cipher supplies: `block`, `stream` or `aead`.
    pub primitive: String,
    /// Whether the cipher passed every test and the report is not void.
    pub ok: bool,
    /// Whether a control did not behave as it must. Nothing in a void report counts.
    pub void: bool,
    /// What a reader must know of every such report: that passing proves nothing about strength.
    pub statement: String,
    /// How much was tested: `quick` or `default`.
    pub profile: String,
    /// The seed of all keys and inputs, 16 hexadecimal digits. The same seed gives the same report.
    pub seed: String,
    /// The p value below which a test fails.
    pub limit: f64,
    /// The tests of the cipher.
    pub tests: Vec<StatsTest>,
    /// The distribution of the p values of those tests.
    pub distribution: StatsDistribution,
    /// What does not apply to this cipher, with the reason.
    pub left_out: Vec<StatsLeftOut>,
    /// Keys that the cipher refused as weak and that were drawn again or passed over.
    pub refused_keys: u64,
    /// What happened when one bit of the input was flipped, for drawings. The input is the block, or the nonce where the
    /// cipher has no blocks.
    pub input_avalanche: Avalanche,
    /// What happened when one bit of the key was flipped, for drawings.
    pub key_avalanche: Avalanche,
    /// The controls: AES-256, which must pass, and broken ciphers, each of which must fail the test made for it.
    pub controls: Vec<StatsControl>,
    /// The suites of others that were run over the key stream.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<StatsOutside>,
}

/// One statistical test over one set of data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatsTest {
    /// The name of the test, for example `monobit`.
    pub test: String,
    /// The data that it looked at, for example `low density keys`.
    pub data: String,
    /// The probability that a perfect cipher gives a result as far from expectation as this one.
    pub p: f64,
    /// Whether `p` is at least the limit.
    pub ok: bool,
    /// Whether `p` counts for the distribution of all p values. A test with few possible results does not, and of two tests
    /// that depend on each other one does not.
    pub counts: bool,
    /// The figures behind it.
    pub detail: String,
}

/// The distribution of p values: uniform for a perfect cipher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatsDistribution {
    /// The number of p values.
    pub values: usize,
    /// The greatest distance of their distribution from the uniform one (Kolmogorov and Smirnov).
    pub distance: f64,
    /// The probability of such a distance or a greater one.
    pub p: f64,
    /// Whether `p` is at least the limit.
    pub ok: bool,
}

/// A set of data that does not exist for a cipher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatsLeftOut {
    /// The data.
    pub data: String,
    /// Why it does not exist.
    pub why: String,
}

/// The share of output bits that change when one bit is flipped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Avalanche {
    /// The number of flips of each bit.
    pub trials: u64,
    /// The share of all output bits that changed; 0.5 is expected.
    pub mean: f64,
    /// The least share of a cell of the dependence matrix (one flipped bit, one output bit).
    pub least: f64,
    /// The greatest share of a cell of the dependence matrix.
    pub greatest: f64,
    /// For each flipped bit the share of output bits that changed. Bit 0 is the most significant one of the first octet.
    pub by_bit: Vec<f64>,
    /// How often exactly so many output bits changed, from 0 to all.
    pub weights: Vec<u64>,
}

/// A cipher whose result is known before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatsControl {
    /// What it is.
    pub name: String,
    /// The test that it must fail; `null` for the one that must pass all.
    pub must_fail: Option<String>,
    /// Whether it behaved as it must.
    pub ok: bool,
    /// The p value of the test that it must fail; of the one that must pass all, the least p value.
    pub p: f64,
    /// The figures behind it.
    pub detail: String,
}

/// The verdict of a suite of somebody else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatsOutside {
    /// The name of the program.
    pub suite: String,
    /// Whether it is installed and ran to its end.
    pub ran: bool,
    /// Whether what it said is a pass; `null` if it did not run.
    pub ok: Option<bool>,
    /// The figures that it gave, or why it did not run.
    pub detail: String,
}
