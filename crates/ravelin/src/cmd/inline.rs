//! `ravelin inline`: the transport scrubber between two interfaces.

pub(super) mod ask;
mod run;
mod standby;

use clap::Subcommand;

/// The transport scrubber between two interfaces: what goes from one to the other goes through it, or not at all.
///
/// A process of its own: no policy, no keys, no daemon. The manual is ravelin-inline(7).
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  ravelin inline run --outside eth0 --inside eth1 --profile observe    look, change nothing
  ravelin inline run --config /etc/ravelin/inline.toml
  ravelin inline status                                                interfaces, guards, workers
  ravelin inline rules                                                 what each rule did
  ravelin inline watch                                                 packets that rules meet, as they come
  ravelin inline explain 192.0.2.7:443                                 why packets of a host and port went as they did
  ravelin inline detach                                                open a line that nobody serves")]
pub enum Inline {
    Run(run::Run),
    Check(run::Check),
    Status(ask::Status),
    Rules(ask::Rules),
    Flows(ask::Flows),
    Explain(ask::Explain),
    Watch(ask::Watch),
    Feed(standby::FeedCommand),
    Follow(standby::Follow),
    Detach(run::Detach),
}

impl Inline {
    pub fn execute(self) -> anyhow::Result<()> {
        match self {
            Inline::Run(run) => run.execute(),
            Inline::Check(check) => check.execute(),
            Inline::Status(status) => status.execute(),
            Inline::Rules(rules) => rules.execute(),
            Inline::Flows(flows) => flows.execute(),
            Inline::Explain(explain) => explain.execute(),
            Inline::Watch(watch) => watch.execute(),
            Inline::Feed(feed) => feed.execute(),
            Inline::Follow(follow) => follow.execute(),
            Inline::Detach(detach) => detach.execute(),
        }
    }
}
