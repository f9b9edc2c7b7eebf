//! The arguments of `ravelin`, and what each command runs.

use std::ffi::OsString;

use clap::builder::EnumValueParser;
use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::cmd;
use crate::color::ColorChoice;

/// Application-aware IPsec: says per program which of its traffic is protected, and protects it.
#[derive(Debug, Parser)]
#[command(name = "ravelin", version, disable_help_subcommand = true, propagate_version = true)]
#[command(after_help = cmd::help::STATUSES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The commands of `ravelin`, in the order of the list that shows all of them.
#[derive(Debug, Subcommand)]
pub enum Command {
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
    #[command(subcommand)]
    Key(cmd::key::Key),
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
    Cipher(cmd::cipher::Cipher),
    #[command(subcommand)]
    Scrubbed(cmd::scrubbed::Scrubbed),
    #[command(subcommand)]
    Qos(cmd::qos::Qos),
    Schema(cmd::schema::Schema),
    Detach(cmd::detach::Detach),
    Demo(cmd::demo::Demo),
    Help(cmd::help::Help),
    Version(cmd::version::Version),
    Completions(cmd::completions::Completions),
    #[command(hide = true)]
    ManPages(cmd::man_pages::ManPages),
}

impl Command {
    /// Do what the command says.
    pub fn execute(self) -> anyhow::Result<()> {
        match self {
            Command::Init(init) => init.execute(),
            Command::Boot(boot) => boot.execute(),
            Command::Run(run) => run.execute(),
            Command::Status(status) => status.execute(),
            Command::Explain(explain) => explain.execute(),
            Command::Flows(flows) => flows.execute(),
            Command::Policy(policy) => policy.execute(),
            Command::Sa(sa) => sa.execute(),
            Command::Spd(spd) => spd.execute(),
            Command::Key(key) => key.execute(),
            Command::Import(import) => import.execute(),
            Command::Stats(stats) => stats.execute(),
            Command::Capture(capture) => capture.execute(),
            Command::Debug(debug) => debug.execute(),
            Command::Doctor(doctor) => doctor.execute(),
            Command::Replay(replay) => replay.execute(),
            Command::Scrub(scrub) => scrub.execute(),
            Command::Inline(inline) => inline.execute(),
            Command::Cipher(cipher) => cipher.execute(),
            Command::Scrubbed(scrubbed) => scrubbed.execute(),
            Command::Qos(qos) => qos.execute(),
            Command::Schema(schema) => schema.execute(),
            Command::Detach(detach) => detach.execute(),
            Command::Demo(demo) => demo.execute(),
            Command::Help(help) => help.execute(),
            Command::Version(version) => version.execute(),
            Command::Completions(completions) => completions.execute(),
            Command::ManPages(pages) => pages.execute(),
        }
    }
}

/// The arguments as clap knows them, with every command.
pub fn arguments() -> clap::Command {
    // What it says is heard before anything is parsed (`color::choose`): messages about arguments have colours too.
    let color = Arg::new("color")
        .long("color")
        .value_name("WHEN")
        .value_parser(EnumValueParser::<ColorChoice>::new())
        .help("Colour the output: auto (on a terminal), always or never")
        .hide_possible_values(true)
        // The last one holds, as with other tools: an alias may bring one along.
        .overrides_with("color")
        .global(true);
    Cli::command().arg(color)
}

/// Read the command out of arguments, the first of which is the program's name. `--help` is an error, as clap has it.
pub fn parse(arguments: &[OsString]) -> Result<Command, clap::Error> {
    let matches =
        self::arguments().override_help(cmd::help::first_screen()).try_get_matches_from(arguments)?;
    Ok(Cli::from_arg_matches(&matches)?.command)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_arguments_are_consistent() {
        super::arguments().debug_assert();
    }
}
