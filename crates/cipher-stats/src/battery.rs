//! All tests of a cipher, set of data by set of data, and the report with its controls.

use std::sync::Arc;

use api::{Avalanche, CipherStats, StatsControl, StatsDistribution, StatsLeftOut, StatsTest};
use crypto::custom::CustomCipher;

use crate::avalanche::{Flips, Trials};
use crate::controls::{Control, controls, reference};
use crate::random::Random;
use crate::sets::{self, Set};
use crate::subject::{Subject, SubjectError};
use crate::{bits, probability};

/// The p value below which a test fails (issue 23 item 8).
pub const LIMIT: f64 = 1e-6;

/// The seed of every report, unless whoever runs it wants another: the first octets of pi.
pub const SEED: u64 = 0x243f_6a88_85a3_08d3;

/// What stands in every report.
pub const STATEMENT: &str = "Passing proves nothing about strength; failing disproves it.";

/// How much is tested.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    name: &'static str,
    avalanche: Trials,
    /// Octets of each set.
    octets: usize,
    /// Keys of few ones or few zeros.
    density_keys: usize,
    /// Keys for sums over 4, 8 and 16 bits; none leaves the sums out.
    sums: [usize; 3],
}

impl Profile {
    /// The tests that a report of a cipher needs.
    pub const DEFAULT: Profile = Profile {
        name: "default",
        avalanche: Trials { keys: 64, inputs: 256 },
        octets: 4 << 20,
        density_keys: 4096,
        sums: [256, 256, 2],
    };
    /// The same tests over less data, for a first look.
    pub const QUICK: Profile = Profile {
        name: "quick",
        avalanche: Trials { keys: 16, inputs: 64 },
        octets: 1 << 20,
        density_keys: 512,
        sums: [64, 32, 0],
    };
}

/// A set of data that is made of a cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Outputs of inputs that differ in one bit.
    InputBits,
    /// Outputs under keys that differ in one bit.
    KeyBits,
    /// Sums of outputs over all values of half an octet of the input.
    NibbleSums,
    /// Sums of outputs over all values of an octet of the input.
    OctetSums,
    /// Sums of outputs over all values of two octets of the input.
    PairSums,
    /// The key stream.
    Counter,
    /// Outputs of inputs of few ones.
    LowInputs,
    /// Outputs of inputs of few zeros.
    HighInputs,
    /// Outputs under keys of few ones.
    LowKeys,
    /// Outputs under keys of few zeros.
    HighKeys,
    /// Each output is the next input.
    Chained,
    /// Inputs XORed with outputs.
    Difference,
}

impl Data {
    /// All sets, in the order of the report.
    pub const ALL: [Data; 12] = [
        Data::InputBits,
        Data::KeyBits,
        Data::NibbleSums,
        Data::OctetSums,
        Data::PairSums,
        Data::Counter,
        Data::LowInputs,
        Data::HighInputs,
        Data::LowKeys,
        Data::HighKeys,
        Data::Chained,
        Data::Difference,
    ];

    /// The words for it in reports.
    pub fn name(self) -> &'static str {
        match self {
            Data::InputBits => "input bits",
            Data::KeyBits => "key bits",
            Data::NibbleSums => "sums over half an octet",
            Data::OctetSums => "sums over an octet",
            Data::PairSums => "sums over two octets",
            Data::Counter => "key stream",
            Data::LowInputs => "low density inputs",
            Data::HighInputs => "high density inputs",
            Data::LowKeys => "low density keys",
            Data::HighKeys => "high density keys",
            Data::Chained => "chained outputs",
            Data::Difference => "inputs XOR outputs",
        }
    }
}

/// What the tests of one set said.
#[derive(Default)]
struct Outcome {
    tests: Vec<StatsTest>,
    avalanche: Option<Avalanche>,
    left_out: Option<String>,
    refused: u64,
}

/// Whether a p value counts for the distribution of all.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counts {
    Yes,
    No,
}

/// Collects the results of the tests over one set.
struct Results(&'static str, Vec<StatsTest>);

impl Results {
    fn add(&mut self, test: &str, (p, detail): bits::Result, counts: Counts) {
        let counts = counts == Counts::Yes;
        // A p that is not a number is below every limit.
        let (p, ok) = if p.is_nan() { (0.0, false) } else { (p, p >= LIMIT) };
        self.1.push(StatsTest { test: test.to_owned(), data: self.0.to_owned(), p, ok, counts, detail });
    }
}

/// A run over one cipher.
struct Run<'a> {
    subject: &'a Subject,
    profile: Profile,
    seed: u64,
}

impl Run<'_> {
    fn of(&self, data: Data) -> Result<Outcome, SubjectError> {
        let mut random = Random::for_use(self.seed, data.name());
        let (subject, profile, mut refused) = (self.subject, self.profile, 0);
        let (random, refused_here) = (&mut random, &mut refused);
        let octets = profile.octets;
        let outcome = match data {
            Data::InputBits => {
                avalanche(data, &Flips::of_input(subject, profile.avalanche, random, refused_here)?)
            }
            Data::KeyBits => {
                avalanche(data, &Flips::of_key(subject, profile.avalanche, random, refused_here)?)
            }
            Data::NibbleSums => self.sums(data, 4, profile.sums[0], random, refused_here)?,
            Data::OctetSums => self.sums(data, 8, profile.sums[1], random, refused_here)?,
            Data::PairSums => self.sums(data, 16, profile.sums[2], random, refused_here)?,
            Data::Counter => self.set(data, sets::counter(subject, octets, random, refused_here)?),
            Data::LowInputs | Data::HighInputs => {
                let high = data == Data::HighInputs;
                self.set(data, sets::density_inputs(subject, octets, high, random, refused_here)?)
            }
            Data::LowKeys | Data::HighKeys => {
                let (high, most) = (data == Data::HighKeys, profile.density_keys);
                self.set(data, sets::density_keys(subject, octets, most, high, random, refused_here)?)
            }
            Data::Chained => self.set(data, sets::chained(subject, octets, random, refused_here)?),
            Data::Difference => self.set(data, sets::difference(subject, octets, random, refused_here)?),
        };
        Ok(Outcome { refused, ..outcome })
    }

    fn sums(
        &self,
        data: Data,
        width: usize,
        keys: usize,
        random: &mut Random,
        refused: &mut u64,
    ) -> Result<Outcome, SubjectError> {
        if keys == 0 {
            let left_out = Some(format!("the profile {} does not have them", self.profile.name));
            return Ok(Outcome { left_out, ..Outcome::default() });
        }
        let sums = sets::integral_sums(self.subject, width, keys, random, refused)?;
        let mut results = Results(data.name(), Vec::new());
        let (all, worst) = bits::positions(&sums, self.subject.output_len());
        results.add("integral-monobit", bits::monobit(&sums), Counts::Yes);
        results.add("integral-positions", all, Counts::Yes);
        results.add("integral-worst", worst, Counts::No);
        results.add("integral-chi-square", bits::nibble_frequencies(&sums), Counts::Yes);
        Ok(Outcome { tests: results.1, ..Outcome::default() })
    }

    fn set(&self, data: Data, set: Set) -> Outcome {
        let set = match set {
            Ok(set) => set,
            Err(why) => return Outcome { left_out: Some(why), ..Outcome::default() },
        };
        let mut results = Results(data.name(), Vec::new());
        let (all, worst) = bits::positions(&set, self.subject.output_len());
        let (first, second) = bits::serial(&set);
        results.add("monobit", bits::monobit(&set), Counts::Yes);
        results.add("monobit-positions", all, Counts::Yes);
        results.add("monobit-worst", worst, Counts::No);
        results.add("runs", bits::runs(&set), Counts::Yes);
        results.add("serial-1", first, Counts::Yes);
        results.add("serial-2", second, Counts::No);
        results.add("chi-square", bits::octet_frequencies(&set), Counts::Yes);
        results.add("collisions", bits::collisions(&set), Counts::No);
        Outcome { tests: results.1, ..Outcome::default() }
    }
}

fn avalanche(data: Data, flips: &Flips) -> Outcome {
    let mut results = Results(data.name(), Vec::new());
    let (all, worst) = flips.dependence();
    results.add("avalanche", flips.mean(), Counts::Yes);
    results.add("avalanche-weights", flips.weights(), Counts::Yes);
    results.add("dependence", all, Counts::Yes);
    results.add("dependence-worst", worst, Counts::No);
    Outcome { tests: results.1, avalanche: Some(flips.figures()), ..Outcome::default() }
}

fn distribution(tests: &[StatsTest]) -> StatsDistribution {
    let values: Vec<f64> = tests.iter().filter(|test| test.counts).map(|test| test.p).collect();
    let (distance, p) = probability::uniform(&values);
    StatsDistribution { values: values.len(), distance, p, ok: p >= LIMIT }
}

/// The cipher that must pass: its own run over everything.
fn run_reference(cipher: &Arc<dyn CustomCipher>, profile: Profile, seed: u64) -> StatsControl {
    let subject = Subject::new(Arc::clone(cipher));
    let run = Run { subject: &subject, profile, seed };
    let outcomes: Result<Vec<Outcome>, _> = Data::ALL.iter().map(|data| run.of(*data)).collect();
    let name = "AES-256".to_owned();
    let outcomes = match outcomes {
        Ok(outcomes) => outcomes,
        Err(error) => {
            return StatsControl { name, must_fail: None, ok: false, p: 0.0, detail: error.to_string() };
        }
    };
    let tests: Vec<StatsTest> = outcomes.into_iter().flat_map(|outcome| outcome.tests).collect();
    let all = distribution(&tests);
    let failed: Vec<String> =
        tests.iter().filter(|test| !test.ok).map(|test| format!("{} of {}", test.test, test.data)).collect();
    let least = tests.iter().map(|test| test.p).fold(all.p, f64::min);
    let detail = match failed.is_empty() {
        true => {
            format!("{} tests passed; the distribution of their p values has p {:.4}", tests.len(), all.p)
        }
        false => format!("it failed {}", failed.join(", ")),
    };
    StatsControl { name, must_fail: None, ok: failed.is_empty() && all.ok, p: least, detail }
}

fn run_control(control: &Control, profile: Profile, seed: u64) -> StatsControl {
    let subject = Subject::new(Arc::clone(&control.cipher));
    let outcome = Run { subject: &subject, profile, seed }.of(control.data);
    let test = outcome.map(|outcome| outcome.tests.into_iter().find(|test| test.test == control.test));
    // A test that did not run has found nothing.
    let (p, detail) = match test {
        Ok(Some(test)) => (test.p, test.detail),
        Ok(None) => (1.0, "the test did not run".to_owned()),
        Err(error) => (1.0, error.to_string()),
    };
    StatsControl {
        name: control.name.to_owned(),
        must_fail: Some(format!("{} of {}", control.test, control.data.name())),
        ok: p < LIMIT,
        p,
        detail,
    }
}

/// Test a cipher, and the controls beside it.
///
/// # Errors
/// [`SubjectError`]: the cipher could not be tested.
pub fn stats(
    cipher: Arc<dyn CustomCipher>,
    profile: Profile,
    seed: u64,
) -> Result<CipherStats, SubjectError> {
    stats_beside(cipher, profile, seed, &reference(), &controls())
}

/// [`stats`] with controls that the caller brings.
fn stats_beside(
    cipher: Arc<dyn CustomCipher>,
    profile: Profile,
    seed: u64,
    reference: &Arc<dyn CustomCipher>,
    controls: &[Control],
) -> Result<CipherStats, SubjectError> {
    let name = cipher.description().name.clone();
    let subject = Subject::new(cipher);
    let run = Run { subject: &subject, profile, seed };
    let (mut tests, mut left_out, mut refused_keys) = (Vec::new(), Vec::new(), 0);
    let (mut input_avalanche, mut key_avalanche) = (Avalanche::default(), Avalanche::default());
    for data in Data::ALL {
        let outcome = run.of(data)?;
        tests.extend(outcome.tests);
        refused_keys += outcome.refused;
        left_out.extend(outcome.left_out.map(|why| StatsLeftOut { data: data.name().to_owned(), why }));
        match data {
            Data::InputBits => input_avalanche = outcome.avalanche.unwrap_or_default(),
            Data::KeyBits => key_avalanche = outcome.avalanche.unwrap_or_default(),
            _ => {}
        }
    }
    let distribution = distribution(&tests);
    let mut verdicts = vec![run_reference(reference, profile, seed)];
    verdicts.extend(controls.iter().map(|control| run_control(control, profile, seed)));
    let void = !verdicts.iter().all(|control| control.ok);
    Ok(CipherStats {
        cipher: name,
        primitive: subject.primitive().name().to_owned(),
        ok: !void && distribution.ok && tests.iter().all(|test| test.ok),
        void,
        statement: STATEMENT.to_owned(),
        profile: profile.name.to_owned(),
        seed: format!("{seed:016x}"),
        limit: LIMIT,
        tests,
        distribution,
        left_out,
        refused_keys,
        input_avalanche,
        key_avalanche,
        controls: verdicts,
        outside: Vec::new(),
    })
}

#[cfg(test)]
mod tests;
