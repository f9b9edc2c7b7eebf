//! The command of the operator, `ravelin`.
//!
//! What enters: arguments, files, the answers of a daemon's control socket. What leaves: text for people, or with
//! `--json` the documents of the `api` room; and an exit status: 0 done, 1 failed or refused, 2 bad input or usage,
//! 3 no daemon answers, 4 `policy plan` found changes (docs/man/ravelin.1.md).
#![forbid(unsafe_code)]

mod client;
mod cmd;
mod exit;
mod lsp;
mod output;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Keys come by, in buffers of libraries too.
#[global_allocator]
static MEMORY: netio::secret::Wiping = netio::secret::Wiping;

/// Application-aware IPsec: says per program which of its traffic is protected, and protects it.
#[derive(Debug, Parser)]
#[command(name = "ravelin", version, disable_help_subcommand = true, propagate_version = true)]
#[command(
    after_help = "Exit status: 0 done, 1 failed or refused, 2 bad input or usage, 3 no daemon answers, 4 `policy plan` found changes."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(cmd::init::Init),
    Boot(cmd::boot::Boot),
    Run(cmd::run::Run),
    Status(cmd::status::Status),
    Explain(cmd::explain::Explain),
    Flows(cmd::flows::Flows),
    #[command(subcommand)]
    Policy(cmd::policy::Policy),
    #[command(subcommand)]
    Sa(cmd::sa::Sa),
    #[command(subcommand)]
    Spd(cmd::spd::Spd),
    Import(cmd::import::Import),
    #[command(visible_alias = "counters")]
    Stats(cmd::stats::Stats),
    Capture(cmd::capture::Capture),
    Debug(cmd::debug::Debug),
    Doctor(cmd::doctor::Doctor),
    Replay(cmd::replay::Replay),
    Scrub(cmd::scrub::Scrub),
    #[command(subcommand)]
    Inline(cmd::inline::Inline),
    #[command(subcommand)]
    Scrubbed(cmd::scrubbed::Scrubbed),
    Detach(cmd::detach::Detach),
    Demo(cmd::demo::Demo),
}

fn main() -> ExitCode {
    if let Err(refused) = cmd::sa::no_key_in_arguments(std::env::args_os().skip(1)) {
        return exit::report(&refused);
    }
    let result = match Cli::parse().command {
        Command::Init(init) => init.execute(),
        Command::Boot(boot) => boot.execute(),
        Command::Run(run) => run.execute(),
        Command::Status(status) => status.execute(),
        Command::Explain(explain) => explain.execute(),
        Command::Flows(flows) => flows.execute(),
        Command::Policy(policy) => policy.execute(),
        Command::Sa(sa) => sa.execute(),
        Command::Spd(spd) => spd.execute(),
        Command::Import(import) => import.execute(),
        Command::Stats(stats) => stats.execute(),
        Command::Capture(capture) => capture.execute(),
        Command::Debug(debug) => debug.execute(),
        Command::Doctor(doctor) => doctor.execute(),
        Command::Replay(replay) => replay.execute(),
        Command::Scrub(scrub) => scrub.execute(),
        Command::Inline(inline) => inline.execute(),
        Command::Scrubbed(scrubbed) => scrubbed.execute(),
        Command::Detach(detach) => detach.execute(),
        Command::Demo(demo) => demo.execute(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&error),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_arguments_are_consistent() {
        use clap::CommandFactory;
        super::Cli::command().debug_assert();
    }
}
