//! `ravelin qos`: graphs of classes, checked, printed, planned and simulated without root and without a daemon; and the
//! graph that the daemon has in force.

mod change;
mod component;
mod graph;
mod plan;
mod reserve;
mod simulate;
mod top;

use api::{QosClassCounts, QosKernelCounts, QosState, QosUnitFaults, QosUnitState, path};
use clap::{Args, Subcommand};
use documents::qos_plan;

use crate::client::Ask;
use crate::exit::{Failure, Kind};
use crate::output;
use graph::{GraphArguments, GraphChoice, NONE, Outcome};

/// Look at graphs of classes, and put one in force: what is wrong, what they promise, what becomes of a capture. Only
/// `show` without a file, `top`, `apply`, `confirm`, `rollback` and `reserve` ask the daemon.
#[derive(Debug, Subcommand)]
pub enum Qos {
    Check(Check),
    Presets(Presets),
    Show(Show),
    Top(top::Top),
    Plan(plan::Plan),
    Apply(change::Apply),
    Confirm(change::Confirm),
    Rollback(change::Rollback),
    Simulate(simulate::Simulate),
    #[command(subcommand)]
    Reserve(reserve::Reserve),
    #[command(subcommand)]
    Component(component::Component),
}

/// Check a graph of classes; exit status 2 if it has errors. A warning refuses nothing.
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

/// Show what the graph that is in force has done, class by class; or print a graph in its full form, hook by hook.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ravelin qos show                           what the daemon's graph has done
  ravelin qos show --graph                   the daemon's graph in its full form
  ravelin qos show --graph --preset voice    what a preset stands for
  ravelin qos show --graph /etc/ravelin/qos.toml")]
pub struct Show {
    /// Print the hooks with their components, schedulers, queues and units: of the file or preset, or of the graph that
    /// is in force.
    #[arg(long)]
    graph: bool,
    #[command(flatten)]
    of: GraphChoice,
    #[command(flatten)]
    ask: Ask,
}

impl Qos {
    pub fn execute(self) -> anyhow::Result<()> {
        match self {
            Qos::Check(check) => check.execute(),
            Qos::Presets(presets) => presets.execute(),
            Qos::Show(show) => show.execute(),
            Qos::Top(top) => top.execute(),
            Qos::Plan(plan) => plan.execute(),
            Qos::Apply(apply) => apply.execute(),
            Qos::Confirm(confirm) => confirm.execute(),
            Qos::Rollback(rollback) => rollback.execute(),
            Qos::Simulate(simulate) => simulate.execute(),
            Qos::Reserve(reserve) => reserve.execute(),
            Qos::Component(component) => component.execute(),
        }
    }
}

impl Check {
    fn execute(self) -> anyhow::Result<()> {
        let house = self.graph.house()?;
        let report = match self.graph.outcome(&house)? {
            Outcome::Sound(graph) => {
                if !self.json && !graph.warnings.is_empty() {
                    eprintln!("{}", graph.show_warnings());
                }
                qos_plan::sound(&graph, &house)
            }
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
    let warnings = report.findings.iter().filter(|finding| finding.severity == "warning").count();
    let mut errors = counted(report.findings.len() - warnings, "error");
    if warnings > 0 {
        errors += &format!(", {}", counted(warnings, "warning"));
    }
    match report.ok {
        true => {
            let classes = if report.classes.len() == 1 {
                "1 class".to_owned()
            } else {
                format!("{} classes", report.classes.len())
            };
            let mut out = format!("{}: {classes} ({}), {errors}\n", report.file, report.classes.join(", "));
            report.notes.iter().for_each(|note| out += &format!("note: {note}\n"));
            out
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
        let Some(of) = self.of.graph() else { return self.in_force() };
        if !self.graph {
            return Err(Failure::bad_input(
                "a file or preset has done nothing; add `--graph` to print it, or leave it out to ask the daemon",
            ));
        }
        let graph = of.sound(&of.house()?)?;
        let graph = api::QosGraph { file: graph.source, graph: qos::graph::print(&graph.description) };
        self.print(&graph)
    }

    fn print(&self, graph: &api::QosGraph) -> anyhow::Result<()> {
        if self.ask.json { output::json(graph) } else { output::text(&graph.graph) }
    }

    /// Ask the daemon for its graph.
    fn in_force(self) -> anyhow::Result<()> {
        let state: QosState = self.ask.connect.get(path::QOS)?;
        if !self.graph {
            return self.ask.show(&state, text);
        }
        match (state.file, state.graph) {
            (Some(file), Some(graph)) => self.print(&api::QosGraph { file, graph }),
            _ => Err(Failure::of(Kind::Failed, NONE.to_owned())),
        }
    }
}

/// What waits in a kernel queue without a class.
const NO_ASSOCIATION: &str = "no association";

/// The state of the graph, for people.
fn text(state: &QosState) -> String {
    let Some(file) = &state.file else { return format!("{NONE}\n") };
    let origin = state.origin.as_ref().map(|origin| format!(", {origin}")).unwrap_or_default();
    let mut out = format!("graph: {file}{origin}\n");
    if let Some(waiting) = &state.waiting {
        out += &change::taken_back(waiting);
    }
    if let Some(rejected) = state.origin.as_ref().and_then(|origin| origin.rejected.as_ref()) {
        out += &format!("a graph was taken back: its text is {rejected} now\n");
    }
    state.notes.iter().for_each(|note| out += &format!("note: {note}\n"));
    for direction in &state.directions {
        out +=
            &format!("\n{}, {} of {} packets wait\n", direction.direction, direction.waiting, direction.room);
        if direction.no_place > 0 {
            out += &format!("{} packets were dropped since no place was left\n", direction.no_place);
        }
        if !direction.kernel_queues.is_empty() {
            let row = |counts: &QosKernelCounts| {
                let is_strangers = counts.classes.is_empty();
                vec![
                    if is_strangers { NO_ASSOCIATION.to_owned() } else { counts.classes.join(", ") },
                    counts.arrived.to_string(),
                    counts.taken.to_string(),
                    counts.waiting.to_string(),
                    counts.lost.to_string(),
                    counts.limit.to_string(),
                ]
            };
            let rows: Vec<_> = direction.kernel_queues.iter().map(row).collect();
            out += &output::table(&["KERNEL QUEUE OF", "ARRIVED", "TAKEN", "WAIT", "LOST", "LIMIT"], &rows);
            out += "\n";
        }
        let row = |counts: &QosClassCounts| {
            let dropped: Vec<String> =
                counts.dropped.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
            vec![
                counts.hook.clone(),
                counts.class.clone(),
                counts.arrived.to_string(),
                counts.left.to_string(),
                counts.waiting.to_string(),
                dropped.join(", "),
            ]
        };
        let rows: Vec<_> = direction.classes.iter().map(row).collect();
        out += &output::table(&["HOOK", "CLASS", "ARRIVED", "LEFT", "WAIT", "DROPPED"], &rows);
        let row = |unit: &QosUnitState| {
            vec![
                unit.unit.clone(),
                unit.kind.clone(),
                microseconds(unit.committed_ns),
                unit.waiting.to_string(),
                microseconds(unit.waiting_ns),
                format!("{} to {}", microseconds(unit.low_ns), microseconds(unit.high_ns)),
            ]
        };
        let rows: Vec<_> = direction.units.iter().map(row).collect();
        out += "\n";
        out += &output::table(&["UNIT", "KIND", "COMMITTED", "WAIT", "WORK THAT WAITS", "MARKS"], &rows);
        let QosUnitFaults { failed, late, disordered } = direction.unit_faults;
        if failed > 0 {
            out += &format!(
                "{failed} units were taken out, since they did not answer within 100 ms or their thread has ended; \
                 one comes back when it has answered everything, or with `ravelin qos apply`\n"
            );
        }
        if late + disordered > 0 {
            out += &format!("answers of units: {late} too late, {disordered} out of order\n");
        }
        out += &component::table(&direction.components);
    }
    out += &format!("\nreservations: {}\n", state.reservations);
    out + &reserve::left(&state.resources)
}

fn microseconds(ns: u64) -> String {
    format!("{}.{} us", ns / 1000, ns % 1000 / 100)
}
