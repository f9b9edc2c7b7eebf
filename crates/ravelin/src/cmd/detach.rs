//! `ravelin detach`: take an instance off the host.

use clap::Args;
use daemon::detach::DetachError;

use crate::client::instance;
use crate::exit::{Failure, Kind};
use crate::output;

/// Take an instance off the host: BPF programs and maps, TUN, cgroup, settings. From then on its programs' traffic is clear.
#[derive(Debug, Args)]
pub struct Detach {
    /// The instance.
    #[arg(long, value_name = "NAME", default_value = daemon::config::INSTANCE, value_parser = instance)]
    instance: String,
}

impl Detach {
    pub fn execute(self) -> anyhow::Result<()> {
        let done = daemon::detach::detach(&self.instance)
            .map_err(|error: DetachError| Failure::of(Kind::Failed, error.to_string()))?;
        let mut text = String::new();
        for removed in &done.removed {
            text.push_str(&format!("removed {removed}\n"));
        }
        if done.removed.is_empty() {
            text.push_str(&format!("instance {} had nothing on this host\n", self.instance));
        }
        output::text(&text)?;
        for left in &done.left {
            eprintln!("ravelin: left behind: {left}");
        }
        if done.left.is_empty() { Ok(()) } else { Err(Failure::silent(Kind::Failed)) }
    }
}
