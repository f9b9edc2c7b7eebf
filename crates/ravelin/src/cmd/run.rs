//! `ravelin run`: the daemon, in the foreground.

use std::path::PathBuf;

use clap::Args;
use config::{Config, ConfigError, GraphError};
use daemon::start::{RunError, RunOptions};

use crate::exit::{Failure, Kind};

/// Run the daemon in the foreground.
///
/// When it ends, whatever the reason, what must be protected stays refused; `ravelin detach` opens the host again.
#[derive(Debug, Args)]
pub struct Run {
    /// The configuration file of the daemon.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Take associations and sockets over from the running daemon of the instance.
    #[arg(long)]
    take_over: bool,
    /// Take everything off the host at the end.
    #[arg(long)]
    detach_on_exit: bool,
}

impl Run {
    pub fn execute(self) -> anyhow::Result<()> {
        let config = load(&self.config)?;
        config::load_graph(&config).map_err(|error| bad_graph(&error))?;
        control::debug::start(config.log.word(), crate::color::on_stderr());
        let options = RunOptions { take_over: self.take_over, detach_on_exit: self.detach_on_exit };
        daemon::run::run(config, options).map_err(|error| {
            let kind = if matches!(error, RunError::Policy(_)) { Kind::BadInput } else { Kind::Failed };
            Failure::of(kind, error.to_string())
        })
    }
}

/// Read a configuration, or say what is wrong with it (status 2).
pub fn load(path: &std::path::Path) -> anyhow::Result<Config> {
    Config::load(path).map_err(|error| bad_config(&error))
}

/// What is wrong with a configuration (status 2).
pub fn bad_config(error: &ConfigError) -> anyhow::Error {
    Failure::bad_input(match error {
        // The report stands for itself, one fault after the other, each with its place in front.
        ConfigError::Bad(report) => format!("the configuration has errors\n{report}"),
        other => other.to_string(),
    })
}

/// What is wrong with the graph that a configuration names (status 2).
pub fn bad_graph(error: &GraphError) -> anyhow::Error {
    Failure::bad_input(match error {
        GraphError::Broken(broken) => format!("the graph of classes has errors\n{broken}"),
        other => format!("[qos]: {other}"),
    })
}
