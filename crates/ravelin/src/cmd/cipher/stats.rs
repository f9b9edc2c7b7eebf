//! `ravelin cipher stats`: whether what a cipher makes looks like chance.

mod outside;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::CipherStats;
use cipher_stats::{Profile, SEED, SubjectError};
use clap::Args;

use super::target::Target;
use crate::exit::{Failure, Kind};
use crate::output;

/// Test what a cipher makes: whether it looks like chance.
///
/// The tests are avalanche over input and key bits, the dependence of each output bit on each of them, sums over
/// structured inputs, and the tests of NIST SP 800-22 over key streams and over inputs and keys of few ones or zeros;
/// dieharder and ent as well, where they are installed. Passing proves nothing about strength; failing disproves it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ravelin cipher stats mycipher.json            all tests, in about 20 s; with dieharder several minutes
  ravelin cipher stats maes512 --quick --json   the compiled-in mAES-512, fewer trials

A report is void if AES-256 does not pass, or if a broken cipher passes the test that is made for it. The exit status is 1
if a test fails or the report is void.")]
pub struct Stats {
    /// The manifest of the cipher, library and vectors beside it; or maes512, which is compiled in.
    cipher: PathBuf,
    /// Fewer trials, for a first look.
    #[arg(long)]
    quick: bool,
    /// The seed of keys and inputs, as hexadecimal digits [default: the same in every run].
    #[arg(long, value_name = "HEX", value_parser = seed)]
    seed: Option<u64>,
    /// Run only the tests of this program, not dieharder and ent.
    #[arg(long)]
    own: bool,
    /// Seconds that each test of dieharder and ent may take; one that is not done by then is not counted.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    outside_time: u64,
    /// Print a JSON document.
    #[arg(long)]
    json: bool,
}

/// Hexadecimal digits of a seed.
pub fn seed(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|_| "a seed is 1 to 16 hexadecimal digits".to_owned())
}

impl Stats {
    pub fn execute(self) -> anyhow::Result<()> {
        let cipher = Target::of(&self.cipher).load()?;
        let seed = self.seed.unwrap_or(SEED);
        let profile = if self.quick { Profile::QUICK } else { Profile::DEFAULT };
        let mut report =
            cipher_stats::stats(Arc::clone(&cipher), profile, seed).map_err(|error| failed(&error))?;
        if !self.own {
            report.outside = outside::run(&cipher, seed, Duration::from_secs(self.outside_time))?;
            report.ok &= report.outside.iter().all(|suite| suite.ok != Some(false));
        }
        if self.json {
            output::json(&report)?;
        } else {
            output::text(&text(&report))?;
        }
        if report.ok { Ok(()) } else { Err(Failure::silent(Kind::Failed)) }
    }
}

/// The cipher could not be tested.
pub fn failed(error: &SubjectError) -> anyhow::Error {
    Failure::of(Kind::Failed, error.to_string())
}

fn text(report: &CipherStats) -> String {
    let verdict = |ok| if ok { "ok" } else { "FAILED" }.to_owned();
    let mut rows: Vec<Vec<String>> = report
        .tests
        .iter()
        .map(|test| {
            vec![
                test.data.clone(),
                test.test.clone(),
                verdict(test.ok),
                format!("{:.6}", test.p),
                test.detail.clone(),
            ]
        })
        .collect();
    let all = &report.distribution;
    rows.push(vec![
        "all p values".to_owned(),
        "distribution".to_owned(),
        verdict(all.ok),
        format!("{:.6}", all.p),
        format!("{} values, greatest distance {:.4}", all.values, all.distance),
    ]);
    let mut out = output::table(&["DATA", "TEST", "VERDICT", "P", "DETAIL"], &rows);
    let controls: Vec<Vec<String>> = report
        .controls
        .iter()
        .map(|control| {
            let must =
                control.must_fail.as_ref().map_or("pass all".to_owned(), |test| format!("fail {test}"));
            let did = if control.ok { "as it must" } else { "NOT AS IT MUST" };
            vec![control.name.clone(), must, did.to_owned(), control.detail.clone()]
        })
        .collect();
    out += &format!("\n{}", output::table(&["CONTROL", "MUST", "DID", "DETAIL"], &controls));
    out.push('\n');
    for left in &report.left_out {
        out += &format!("Left out: {}, since {}.\n", left.data, left.why);
    }
    for suite in &report.outside {
        let verdict = suite.ok.map_or("not run".to_owned(), verdict);
        out += &format!("{}: {verdict}, {}\n", suite.suite, suite.detail);
    }
    if report.refused_keys > 0 {
        out += &format!("The cipher refused {} keys as weak.\n", report.refused_keys);
    }
    let failures = rows.iter().filter(|row| row.get(2).is_some_and(|word| word == "FAILED")).count();
    let words = match (report.void, report.ok) {
        (true, _) => "VOID: a control did not behave as it must, so nothing above counts".to_owned(),
        (false, true) => "every test passed".to_owned(),
        (false, false) => format!("did NOT pass: {failures} tests failed, or a suite of others did"),
    };
    out + &format!(
        "{}, seed {}, profile {}: {words}. {}\n",
        report.cipher, report.seed, report.profile, report.statement
    )
}
