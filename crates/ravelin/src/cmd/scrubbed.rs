//! `ravelin scrubbed`: flows that policy or rules of the SPD want scrubbed.

use clap::Subcommand;

use super::inline::ask::{Explain, Flows, Of, Profiles, Rules, Watch};

/// Flows that policy (`scrub PROFILE` behind an item) or rules of the SPD (`"scrub"`) want scrubbed, as the running daemon has them.
///
/// What a profile does is in ravelin-scrub(7); [scrub.PROFILE] in the configuration refines it.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  ravelin scrubbed status                     packets and connections by profile
  ravelin scrubbed rules                      what each rule did
  ravelin scrubbed watch                      packets that rules meet, as they come
  ravelin scrubbed explain 192.0.2.7:443      why packets of a host and port went as they did")]
pub enum Scrubbed {
    Status(Profiles),
    Rules(Rules),
    Flows(Flows),
    Explain(Explain),
    Watch(Watch),
}

impl Scrubbed {
    pub fn execute(self) -> anyhow::Result<()> {
        match self {
            Scrubbed::Status(status) => status.execute(),
            Scrubbed::Rules(rules) => rules.of(Of::Daemon).execute(),
            Scrubbed::Flows(flows) => flows.of(Of::Daemon).execute(),
            Scrubbed::Explain(explain) => explain.of(Of::Daemon).execute(),
            Scrubbed::Watch(watch) => watch.of(Of::Daemon).execute(),
        }
    }
}
