//! `ravelin qos`: graphs of classes, checked, printed, planned and simulated without root and without a daemon.

mod graph;
mod plan;
mod simulate;

use clap::{Args, Subcommand};
use documents::qos_plan;

use crate::exit::{Failure, Kind};
use crate::output;
use graph::{GraphArguments, Outcome};

/// Look at graphs of classes: what is wrong, what they promise, what becomes of a capture. No daemon is asked.
#[derive(Debug, Subcommand)]
pub enum Qos {
    Check(Check),
    Presets(Presets),
    Show(Show),
    Plan(plan::Plan),
    Simulate(simulate::Simulate),
}

/// Check a graph of classes; exit status 2 if it has errors.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ravelin qos check /etc/ravelin/qos.toml
  ravelin qos check --preset voice")]
pub struct Check {
    #[command(flatten)]
    graph: GraphArguments,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

/// List the graphs that come with the program, and what each is for.
#[derive(Debug, Args)]
pub struct Presets {
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

/// Print a graph in its full form: what a preset or a short form stands for, hook by hook.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ravelin qos show --graph --preset voice
  ravelin qos show --graph /etc/ravelin/qos.toml")]
pub struct Show {
    /// Print the hooks with their components, schedulers, queues and units.
    #[arg(long, required = true)]
    graph: bool,
    #[command(flatten)]
    of: GraphArguments,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

impl Qos {
    pub fn execute(self) -> anyhow::Result<()> {
        match self {
            Qos::Check(check) => check.execute(),
            Qos::Presets(presets) => presets.execute(),
            Qos::Show(show) => show.execute(),
            Qos::Plan(plan) => plan.execute(),
            Qos::Simulate(simulate) => simulate.execute(),
        }
    }
}

impl Check {
    fn execute(self) -> anyhow::Result<()> {
        let report = match self.graph.outcome(&self.graph.house()?)? {
            Outcome::Sound(graph) => qos_plan::sound(&graph),
            Outcome::Broken(broken) => {
                if !self.json {
                    eprintln!("{broken}");
                }
                qos_plan::broken(&broken)
            }
        };
        if self.json {
            output::json(&report)?;
        } else {
            output::text(&summary(&report))?;
        }
        if report.ok { Ok(()) } else { Err(Failure::silent(Kind::BadInput)) }
    }
}

fn summary(report: &api::QosCheck) -> String {
    let counted = policy::counted;
    let errors = counted(report.findings.len(), "error");
    match report.ok {
        true => {
            let classes = if report.classes.len() == 1 {
                "1 class".to_owned()
            } else {
                format!("{} classes", report.classes.len())
            };
            format!("{}: {classes} ({}), {errors}\n", report.file, report.classes.join(", "))
        }
        false => format!("{}: {errors}\n", report.file),
    }
}

impl Presets {
    fn execute(self) -> anyhow::Result<()> {
        let presets = qos_plan::presets();
        if self.json {
            return output::json(&presets);
        }
        let rows: Vec<Vec<String>> =
            presets.presets.into_iter().map(|preset| vec![preset.name, preset.purpose]).collect();
        output::text(&output::table(&["PRESET", "IS FOR"], &rows))
    }
}

impl Show {
    fn execute(self) -> anyhow::Result<()> {
        let graph = self.of.sound(&self.of.house()?)?;
        let text = qos::graph::print(&graph.description);
        if self.json {
            return output::json(&api::QosGraph { file: graph.source, graph: text });
        }
        output::text(&text)
    }
}
