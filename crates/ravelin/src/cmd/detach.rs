//! `ravelin detach`: take an instance off the host.

use std::io::IsTerminal;

use clap::Args;
use clap_complete::ArgValueCandidates;
use daemon::detach::DetachError;

use crate::client::instance;
use crate::complete;
use crate::exit::{Failure, Kind};
use crate::output;

/// Take an instance off the host: BPF programs and maps, TUN, cgroup, settings. From then on its programs' traffic is clear.
#[derive(Debug, Args)]
pub struct Detach {
    /// The instance that leaves the host.
    #[arg(long, value_name = "NAME", default_value = config::INSTANCE, value_parser = instance, add = ArgValueCandidates::new(complete::instances))]
    instance: String,
    /// Go ahead without a question.
    #[arg(long, short)]
    yes: bool,
}

/// Programs that a question names.
const NAMED: usize = 16;

impl Detach {
    /// Ask whoever sits there; without anybody the answer is no. With `--yes` it is only said.
    fn ask(&self, losing: &[String]) -> anyhow::Result<()> {
        let named: Vec<&str> = losing.iter().take(NAMED).map(String::as_str).collect();
        let more = match losing.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let text =
            format!("these programs lose their protection and send in clear: {}{more}", named.join(", "));
        if self.yes {
            eprintln!("ravelin: {text}");
            return Ok(());
        }
        if !std::io::stdin().is_terminal() {
            return Err(Failure::with_remedy(Kind::Failed, text, "`--yes` says that this is meant"));
        }
        eprint!("ravelin: {text}\nravelin: take instance {} off the host? [y/N] ", self.instance);
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        match answer.trim() {
            "y" | "Y" | "yes" => Ok(()),
            _ => Err(Failure::of(Kind::Failed, "nothing was changed".to_owned())),
        }
    }

    pub fn execute(self) -> anyhow::Result<()> {
        // Whoever may not read the folders of the instance would be told that there is nothing.
        if !daemon::detach::may_detach() {
            return Err(Failure::with_remedy(
                Kind::NotAllowed,
                format!("instance {}: not allowed to take it off the host", self.instance),
                "only root may",
            ));
        }
        let losing = daemon::policy_store::closed(&self.instance);
        if !losing.is_empty() {
            self.ask(&losing)?;
        }
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
