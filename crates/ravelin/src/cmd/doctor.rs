//! `ravelin doctor`: does this host have what the daemon needs?

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;

use crate::exit::{Failure, Kind};
use crate::output;

/// Check what the daemon needs from this host; exit status 1 if something is missing.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Configuration file whose devices and cgroup are looked at as well.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub fn execute(self) -> anyhow::Result<()> {
        let config = self.config.as_deref().map(super::run::load).transpose()?;
        let report = api::Doctor::new(daemon::doctor::checks(config.as_ref()));
        if self.json {
            output::json(&report)?;
        } else {
            output::text(&text(&report))?;
        }
        if report.ok { Ok(()) } else { Err(Failure::silent(Kind::Failed)) }
    }
}

fn text(report: &api::Doctor) -> String {
    let mut out = String::new();
    for check in &report.checks {
        let _ = writeln!(out, "{:<5} {:<16} {}", check.state, check.name, check.found);
        if let Some(remedy) = &check.remedy {
            let _ = writeln!(out, "{:<5} {:<16} -> {remedy}", "", "");
        }
    }
    let failed = report.failures().count();
    let _ = match failed {
        0 => writeln!(out, "this host has what the daemon needs"),
        1 => writeln!(out, "1 check failed: `ravelin run` will not start"),
        n => writeln!(out, "{n} checks failed: `ravelin run` will not start"),
    };
    out
}
