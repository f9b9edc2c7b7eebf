//! `ravelin cipher ct`: whether the time of a cipher depends on its key and its input.

mod measure;
mod undefined;

use std::path::PathBuf;
use std::sync::Arc;

use api::{CipherCt, CtCheck, CtControl};
use cipher_stats::{Random, SEED, Subject, TableAes, reference, timing};
use clap::{Args, ValueEnum};
use crypto::custom::CustomCipher;

use super::stats::failed;
use super::target::Target;
use crate::exit::{Failure, Kind};
use crate::output;

pub use undefined::{UNDEFINED, child_task, undefined_main};

use measure::Experiment;
use undefined::{KeyDependence, Watched};

/// What stands in every report.
const STATEMENT: &str =
    "Finding nothing proves nothing: other processors, inputs and code paths may show a dependence.";
/// The part of the measurements that the control whose time depends on its key gets: it shows at once, and is slow.
const SLOW_PART: u64 = 20;

/// A method of looking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Method {
    /// Measured times of fixed against random inputs and keys.
    Timing,
    /// Branches and addresses that depend on a key that valgrind takes as unknown.
    Valgrind,
}

/// See whether the time of a cipher depends on its key and its input.
///
/// Two methods. Timing compares the times of one fixed input, and of one fixed key, with those of random ones: |t| (Welch)
/// must stay below 4.5, whatever slow measurements are cut off. Valgrind is told that the key is unknown, and tells of each
/// branch and each address that depends on it; it shows the cipher a processor without AVX-512 and VAES, and the report
/// names the code path. The machine should do nothing else meanwhile.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ravelin cipher ct mycipher.json
  ravelin cipher ct mycipher.json --without valgrind --json

A report is void if the control is not flagged whose table or whose search depends on the key, or if AES by instructions is.
The exit status is 1 if a dependence was found, a method could not run that was not left out, or the report is void.")]
pub struct Ct {
    /// The manifest of the cipher, library and vectors beside it; or maes512, which is compiled in.
    cipher: PathBuf,
    /// The number of measurements of each experiment.
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(20_000..=1_000_000_000))]
    samples: u64,
    /// Leave a method out; the report says so.
    #[arg(long, value_enum)]
    without: Vec<Method>,
    /// Print a JSON document.
    #[arg(long)]
    json: bool,
}

impl Ct {
    pub fn execute(self) -> anyhow::Result<()> {
        let target = Target::of(&self.cipher);
        let cipher = target.load()?;
        let name = cipher.description().name.clone();
        let (mut checks, mut controls) = (Vec::new(), Vec::new());
        let skips = |method: Method| self.without.contains(&method);
        for experiment in [Experiment::Inputs, Experiment::Keys] {
            if skips(Method::Timing) {
                checks.push(left_out(experiment.method(), "timing"));
                continue;
            }
            checks.push(self.timing(&cipher, experiment)?);
            controls.extend(self.timing_controls(experiment)?);
        }
        let mut code_path = "none: valgrind did not run".to_owned();
        if skips(Method::Valgrind) {
            checks.push(left_out(VALGRIND, VALGRIND));
        } else {
            let watched = undefined::target(&target)?;
            if let Ok(seen) = &watched {
                code_path = undefined::code_path(seen);
                controls.extend(valgrind_controls());
            }
            checks.push(valgrind_check(&watched));
        }
        let void = !controls.iter().all(|control| control.ok);
        let report = CipherCt {
            cipher: name,
            ok: !void
                && checks.iter().all(|check| check.ok || check.left_out)
                && checks.iter().any(|check| check.ok),
            void,
            statement: STATEMENT.to_owned(),
            code_path,
            checks,
            controls,
        };
        if self.json {
            output::json(&report)?;
        } else {
            output::text(&text(&report))?;
        }
        if report.ok { Ok(()) } else { Err(Failure::silent(Kind::Failed)) }
    }

    fn times(
        &self,
        cipher: &Arc<dyn CustomCipher>,
        experiment: Experiment,
        samples: u64,
    ) -> anyhow::Result<timing::Verdict> {
        let mut random = Random::for_use(SEED, experiment.method());
        let subject = Subject::new(Arc::clone(cipher));
        measure::measure(&subject, experiment, samples, &mut random).map_err(|error| failed(&error))
    }

    fn timing(&self, cipher: &Arc<dyn CustomCipher>, experiment: Experiment) -> anyhow::Result<CtCheck> {
        let verdict = self.times(cipher, experiment, self.samples)?;
        Ok(CtCheck {
            method: experiment.method().to_owned(),
            ok: verdict.ok,
            left_out: false,
            t: Some(verdict.t),
            detail: figures(&verdict),
        })
    }

    fn timing_controls(&self, experiment: Experiment) -> anyhow::Result<[CtControl; 2]> {
        let searching: Arc<dyn CustomCipher> = Arc::new(TableAes::searching());
        let slow = self.times(&searching, experiment, (self.samples / SLOW_PART).max(20_000))?;
        let constant = self.times(&reference(), experiment, self.samples)?;
        let control = |name: &str, must_be_flagged, verdict: timing::Verdict| CtControl {
            name: name.to_owned(),
            method: experiment.method().to_owned(),
            must_be_flagged,
            ok: verdict.ok != must_be_flagged,
            detail: figures(&verdict),
        };
        Ok([control(SEARCHING, true, slow), control(CONSTANT, false, constant)])
    }
}

/// The method by its name in reports.
const VALGRIND: &str = "valgrind";
const SEARCHING: &str = "AES that searches its table";
const TABLE: &str = "AES with a table";
const CONSTANT: &str = "AES of the crate aes";

fn left_out(method: &str, option: &str) -> CtCheck {
    let detail = format!("left out by --without {option}");
    CtCheck { method: method.to_owned(), ok: false, left_out: true, t: None, detail }
}

fn figures(verdict: &timing::Verdict) -> String {
    format!(
        "|t| {:.2}, at most {}, over {} measurements of each class",
        verdict.t,
        timing::MOST_T,
        verdict.measurements
    )
}

fn valgrind_check(watched: &Watched) -> CtCheck {
    let (ok, detail) = match watched {
        Ok(seen) => (seen.is_clean(), seen.to_string()),
        Err(why) => (false, why.clone()),
    };
    CtCheck { method: VALGRIND.to_owned(), ok, left_out: false, t: None, detail }
}

fn valgrind_controls() -> [CtControl; 2] {
    let control = |name: &str, word, must_be_flagged| {
        let watched = undefined::built_in(word);
        // What did not run flags nothing and clears nothing.
        let ok = watched.as_ref().is_ok_and(|seen: &KeyDependence| seen.is_clean() != must_be_flagged);
        let detail = watched.map_or_else(|why| why, |seen| seen.to_string());
        CtControl { name: name.to_owned(), method: VALGRIND.to_owned(), must_be_flagged, ok, detail }
    };
    [control(TABLE, undefined::TABLE, true), control(CONSTANT, undefined::CONSTANT, false)]
}

fn text(report: &CipherCt) -> String {
    let verdict = |check: &CtCheck| match (check.ok, check.left_out) {
        (true, _) => "ok",
        (false, true) => "left out",
        (false, false) => "FAILED",
    };
    let rows: Vec<Vec<String>> = report
        .checks
        .iter()
        .map(|check| vec![check.method.clone(), verdict(check).to_owned(), check.detail.clone()])
        .collect();
    let controls: Vec<Vec<String>> = report
        .controls
        .iter()
        .map(|control| {
            let must = if control.must_be_flagged { "be flagged" } else { "not be flagged" };
            let did = if control.ok { "as it must" } else { "NOT AS IT MUST" };
            vec![
                control.name.clone(),
                control.method.clone(),
                must.to_owned(),
                did.to_owned(),
                control.detail.clone(),
            ]
        })
        .collect();
    let words = match (report.void, report.ok) {
        (true, _) => "VOID: a control did not behave as it must, so nothing above counts",
        (false, true) => "no dependence on the key was found",
        (false, false) => "did NOT pass",
    };
    format!(
        "{}\n{}\nCode path that valgrind checked: {}.\n{}: {words}. {}\n",
        output::table(&["METHOD", "VERDICT", "DETAIL"], &rows),
        output::table(&["CONTROL", "METHOD", "MUST", "DID", "DETAIL"], &controls),
        report.code_path,
        report.cipher,
        report.statement
    )
}
