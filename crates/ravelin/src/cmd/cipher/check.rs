//! `ravelin cipher check`: fifteen checks of a cipher.

use std::path::PathBuf;

use api::CipherChecked;
use cipher_kit::{CheckName, Options, SECONDS};
use cipher_loader::{LoadError, Trial};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use documents::ciphers::TRIAL_COMMAND;

use crate::exit::{Failure, Kind};
use crate::output;

/// Check a cipher: fifteen checks, each in a process of its own.
///
/// The checks find mistakes of a library and of its files. They say nothing of the strength of a cipher. Whoever calls answers for
/// the files: they may belong to anybody. The library runs under a filter of system calls, but for the check `memory`, which
/// needs valgrind; a reference.py beside the manifest is run as it is.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ravelin cipher check mycipher.json
  ravelin cipher check mycipher.json --json --without memory    where valgrind is not installed

Checks: descriptor vectors inverse permutation multiblock placement reentrancy immutability wipe keys forgery esp montecarlo
agreement memory. The exit status is 1 if one of them fails that was not left out.")]
pub struct Check {
    /// The manifest of the cipher; library and vectors are beside it.
    manifest: PathBuf,
    /// Leave a check out; the report says so.
    #[arg(long, value_name = "CHECK", value_parser = names(), hide_possible_values = true)]
    without: Vec<CheckName>,
    /// Print a JSON document.
    #[arg(long)]
    json: bool,
}

/// The command of a child, for checks and for the trial of a library.
pub(super) fn trial() -> Trial {
    Trial::own([TRIAL_COMMAND])
}

/// The names of the checks, for arguments and for the shell.
fn names() -> impl TypedValueParser<Value = CheckName> {
    PossibleValuesParser::new(CheckName::ALL.map(CheckName::word)).try_map(|word| word.parse::<CheckName>())
}

impl Check {
    pub fn execute(self) -> anyhow::Result<()> {
        let options = Options {
            manifest: self.manifest,
            trial: trial(),
            seconds: SECONDS,
            without: self.without.into_iter().collect(),
        };
        let report = cipher_kit::check(&options).map_err(|error| unusable(&error))?;
        if self.json {
            output::json(&report)?;
        } else {
            output::text(&table(&report))?;
        }
        if report.ok { Ok(()) } else { Err(Failure::silent(Kind::Failed)) }
    }
}

/// Nothing is known of the cipher.
pub(super) fn unusable(error: &LoadError) -> anyhow::Error {
    Failure::with_remedy(Kind::BadInput, error.to_string(), error.remedy())
}

fn table(report: &CipherChecked) -> String {
    let verdict = |ok, name: &String| match ok {
        true => "ok",
        false if report.left_out.contains(name) => "left out",
        false => "FAILED",
    };
    let rows: Vec<Vec<String>> = report
        .checks
        .iter()
        .map(|check| {
            vec![check.name.clone(), verdict(check.ok, &check.name).to_owned(), check.detail.clone()]
        })
        .collect();
    let count =
        |wanted: &str| rows.iter().filter(|row| row.get(1).is_some_and(|word| word == wanted)).count();
    let words = if report.ok { "passed what was checked" } else { "did NOT pass" };
    format!(
        "{}\n{} {words}: {} ok, {} failed, {} left out. Passing says nothing of the strength of a cipher.\n",
        output::table(&["CHECK", "VERDICT", "DETAIL"], &rows),
        report.cipher,
        count("ok"),
        count("FAILED"),
        count("left out"),
    )
}
