//! `ravelin boot`: protection before the network is up.

use std::path::PathBuf;

use clap::Args;
use daemon::start::{Booted, RunError};

use crate::exit::{Failure, Kind};

/// Put the last policy in force before the network is up, and end.
///
/// What must be protected is refused from then on, until `ravelin run` takes over. The policy is the one that the last daemon had
/// in force (kept beside the policy file, as NAME.last), else the policy file. Where a daemon was since the boot, nothing is changed.
#[derive(Debug, Args)]
pub struct Boot {
    /// The configuration file of the daemon.
    #[arg(long, value_name = "FILE", default_value = "/etc/ravelin/ravelin.toml")]
    config: PathBuf,
}

impl Boot {
    pub fn execute(self) -> anyhow::Result<()> {
        let config = super::run::load(&self.config)?;
        control::debug::start(config.log.word(), crate::color::on_stderr());
        let booted = daemon::start::boot(&config).map_err(|error| {
            let kind = if matches!(error, RunError::Policy(_)) { Kind::BadInput } else { Kind::Failed };
            Failure::of(kind, error.to_string())
        })?;
        match booted {
            Booted::Already => println!("a policy is in force already: nothing changed"),
            Booted::Policy { file, applications, uplinks } => {
                let devices = if uplinks.is_empty() { "none yet".to_owned() } else { uplinks.join(", ") };
                println!(
                    "in force: {}, applications: {applications}, guarded devices: {devices}\n\
                     what must be protected is refused until `ravelin run` takes over",
                    file.display()
                );
            }
        }
        Ok(())
    }
}
