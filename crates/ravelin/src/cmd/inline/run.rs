//! The commands that need no process of a line: `run`, `check`, `detach`.

use std::path::PathBuf;

use api::{InlineCheck, InlineCheckInterface, InlineCheckLine, InlineCheckSettings};
use clap::Args;
use config::scrub_text;
use line::{LineError, LineOptions, LineSettings};

use crate::client::instance;
use crate::cmd::scrub::Profile;
use crate::exit::{Failure, Kind};
use crate::output;

fn failed(error: LineError) -> anyhow::Error {
    let kind = match error {
        LineError::NoInterface(_) | LineError::NotEthernet(_) => Kind::BadInput,
        _ => Kind::Failed,
    };
    Failure::of(kind, error.to_string())
}

/// What a line is to be.
#[derive(Debug, Args)]
struct RunArguments {
    /// The line's settings (TOML).
    #[arg(long, value_name = "FILE", required_unless_present_all = ["outside", "inside"])]
    config: Option<PathBuf>,
    /// The interface that leads to where nobody is trusted.
    #[arg(long, value_name = "INTERFACE", requires = "inside", conflicts_with = "config")]
    outside: Option<String>,
    /// The interface that leads to what is protected.
    #[arg(long, value_name = "INTERFACE", requires = "outside", conflicts_with = "config")]
    inside: Option<String>,
    /// Modes of all rules.
    #[arg(long, value_enum, default_value_t = Profile::Standard, conflicts_with = "config")]
    profile: Profile,
    /// The mode of one rule, as in Q.8=observe. May be repeated, also with --config.
    #[arg(long = "rule", value_name = "RULE=MODE")]
    rule: Vec<String>,
    /// Threads [default: processors, at most 8].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=64))]
    workers: Option<u8>,
    /// The line's name [default: main].
    #[arg(long, value_name = "NAME", value_parser = instance, conflicts_with = "config")]
    instance: Option<String>,
}

impl RunArguments {
    fn settings(&self) -> anyhow::Result<LineSettings> {
        let mut settings = match (&self.config, &self.outside, &self.inside) {
            (Some(path), ..) => {
                LineSettings::load(path).map_err(|error| crate::cmd::run::bad_config(&error))?
            }
            (None, Some(outside), Some(inside)) if outside == inside => {
                return Err(Failure::bad_input(
                    "--outside and --inside are one interface; a line is between two",
                ));
            }
            (None, Some(outside), Some(inside)) => {
                LineSettings::new(outside, inside, self.profile.of_scrubber())
            }
            _ => return Err(Failure::bad_input("say --config FILE, or --outside and --inside")),
        };
        if let Some(name) = &self.instance {
            settings.set_instance(name);
        }
        if let Some(workers) = self.workers {
            settings.workers = workers.into();
        }
        for rule in &self.rule {
            let set = scrub_text::rule_and_mode(rule)
                .and_then(|(rule, mode)| scrub_text::set_rule(&mut settings.scrub, rule, mode));
            set.map_err(Failure::bad_input)?;
        }
        Ok(settings)
    }
}

/// Scrub what goes from one interface to the other, in the foreground.
///
/// Both interfaces are closed first: from then on a frame passes only through this process. When it ends, whatever the reason, they stay
/// closed; `ravelin inline detach` opens them.
#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    what: RunArguments,
    /// Take connections over from the process that has the line.
    #[arg(long)]
    take_over: bool,
    /// Open the line at the end.
    #[arg(long)]
    detach_on_exit: bool,
    /// For measurements: nobody looks at the packets. The line is no scrubber then.
    #[arg(long, hide = true)]
    measure_without_scrubber: bool,
}

impl Run {
    pub fn execute(self) -> anyhow::Result<()> {
        let mut settings = self.what.settings()?;
        settings.bare = self.measure_without_scrubber;
        control::debug::start(settings.log.word(), crate::color::on_stderr());
        let options = LineOptions { take_over: self.take_over, detach_on_exit: self.detach_on_exit };
        line::run(settings, options).map_err(failed)
    }
}

/// Check a line's settings, and say what is on this host: lines that are closed, with or without a process.
#[derive(Debug, Args)]
pub struct Check {
    /// Settings to check (TOML).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

impl Check {
    pub fn execute(self) -> anyhow::Result<()> {
        let settings = match &self.config {
            Some(path) => {
                let settings =
                    LineSettings::load(path).map_err(|error| crate::cmd::run::bad_config(&error))?;
                let [outside, inside] = settings.interfaces;
                let (profile, workers) = (settings.profile.name().to_owned(), settings.workers);
                Some(InlineCheckSettings { instance: settings.instance, outside, inside, profile, workers })
            }
            None => None,
        };
        let line = |line: line::Closed| InlineCheckLine {
            instance: line.instance,
            running: line.running,
            interfaces: line.interfaces.into_iter().map(interface).collect(),
        };
        let lines = line::closed().map_err(failed)?.into_iter().map(line).collect();
        let checked = InlineCheck { settings, lines };
        if self.json {
            return output::json(&checked);
        }
        output::text(&text(&checked))
    }
}

fn interface(interface: line::ClosedInterface) -> InlineCheckInterface {
    InlineCheckInterface {
        index: interface.index,
        name: interface.name,
        guarded: interface.guarded,
        arrived: interface.counts.arrived[0],
        refused: interface.counts.refused[0],
    }
}

fn text(checked: &InlineCheck) -> String {
    let mut out = String::new();
    if let Some(settings) = &checked.settings {
        let InlineCheckSettings { instance, outside, inside, profile, workers } = settings;
        out.push_str(&format!(
            "the settings are good: line {instance}, {outside} outside, {inside} inside, profile {profile}, {workers} workers\n"
        ));
    }
    if checked.lines.is_empty() {
        out.push_str("no line is closed on this host\n");
    }
    for line in &checked.lines {
        let state = if line.running { "served by a process" } else { "served by nobody: nothing passes" };
        out.push_str(&format!("line {}: {state}\n", line.instance));
        for interface in &line.interfaces {
            let name = interface.name.as_deref().unwrap_or("gone");
            let guard =
                if interface.guarded { "closed" } else { "NOT closed: its guard is not the first program" };
            out.push_str(&format!(
                "  {} ({name}): {guard}; {} frames arrived, {} of others refused\n",
                interface.index, interface.arrived, interface.refused
            ));
        }
    }
    out
}

/// Open a line that nobody serves: its interfaces pass whatever the host lets pass.
#[derive(Debug, Args)]
pub struct Detach {
    /// The name of the line.
    #[arg(long, value_name = "NAME", default_value = config::INSTANCE, value_parser = instance)]
    instance: String,
}

impl Detach {
    pub fn execute(self) -> anyhow::Result<()> {
        match line::open(&self.instance).map_err(failed)? {
            0 => output::text(&format!("line {} was not closed on this host\n", self.instance)),
            gone => output::text(&format!("line {} is open: {gone} guards removed\n", self.instance)),
        }
    }
}
