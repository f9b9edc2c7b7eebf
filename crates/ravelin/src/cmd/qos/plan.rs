//! `ravelin qos plan`: what a graph promises its classes, and what it needs.

use std::collections::BTreeMap;
use std::fmt::Write;

use api::{QosCostSource, QosDelay, QosPlan, QosWindow};
use clap::Args;
use documents::qos_plan;
use qos::graph::quantity::{show_about, show_share};

use super::graph::{CostArgument, GraphArguments};
use crate::color::{HEAD, paint};
use crate::output;

/// Suites that a line names.
const NAMED: usize = 6;

/// Print what a graph promises and needs: the worst delay of each class with its terms, memory, replay window, units.
///
/// Costs that were not measured on this machine are assumed, and the output says which. Nothing is promised for classes
/// of a graph whose bound is not proved.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ravelin qos plan --preset voice
  ravelin qos plan /etc/ravelin/qos.toml --cost costs.toml --json")]
pub struct Plan {
    #[command(flatten)]
    graph: GraphArguments,
    #[command(flatten)]
    cost: CostArgument,
    /// Print JSON, for programs.
    #[arg(long)]
    json: bool,
}

impl Plan {
    pub fn execute(self) -> anyhow::Result<()> {
        let mut house = self.graph.house()?;
        self.cost.put(&self.graph.catalogue, &mut house)?;
        let graph = self.graph.sound(&house)?;
        let plan = qos_plan::plan(&graph, &house, false);
        if self.json { output::json(&plan) } else { output::styled(&text(&plan)) }
    }
}

fn text(plan: &QosPlan) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{} {}", paint(HEAD, "graph:"), plan.file);
    for note in &plan.notes {
        let _ = writeln!(out, "{} {note}", paint(HEAD, "note:"));
    }
    let _ = writeln!(out, "\n{}", paint(HEAD, "Costs"));
    out.push_str(&costs(plan));
    let _ = writeln!(out, "\n{}", paint(HEAD, "Worst delays"));
    out.push_str(&delays(&plan.classes));
    for class in plan.classes.iter().filter(|class| class.no_bound.is_some()) {
        let why = class.no_bound.as_deref().unwrap_or_default();
        let _ = writeln!(out, "{} {}: no bound: {why}", class.class, class.direction);
    }
    let _ = writeln!(out, "\n{}", paint(HEAD, "Needs"));
    let _ = writeln!(out, "memory of full queues: {}", output::octets(plan.memory_octets));
    for window in &plan.replay_windows {
        let _ = writeln!(out, "{}", needed(window));
    }
    for kernel in &plan.kernel_queues {
        let queues = if kernel.queues == 1 { "queue" } else { "queues" };
        let (count, limit, classes) = (kernel.queues, kernel.limit, kernel.classes.join(", "));
        let _ =
            writeln!(out, "kernel {}: {count} {queues} of {limit} packets for {classes}", kernel.direction);
    }
    let _ = writeln!(out, "\n{}", paint(HEAD, "Units"));
    let rows: Vec<Vec<String>> = plan
        .units
        .iter()
        .map(|unit| {
            let reserved =
                if unit.reserved.is_empty() { "every class".to_owned() } else { unit.reserved.join(", ") };
            vec![unit.name.clone(), unit.kind.clone(), reserved, show_about(unit.most_committed_ns)]
        })
        .collect();
    out.push_str(&output::table(&["UNIT", "KIND", "SERVES", "COMMITTED"], &rows));
    out.push('\n');
    out.push_str(&capabilities(plan));
    out
}

fn costs(plan: &QosPlan) -> String {
    let costs = &plan.costs;
    let line = |base_ns: u64, ps: u64| format!("{} + {} ps an octet", show_about(base_ns), ps);
    let origin = if costs.path_is_assumed { "assumed" } else { "measured" };
    let mut rows: Vec<Vec<String>> = costs
        .path
        .iter()
        .map(|step| vec![step.step.clone(), line(step.base_ns, step.ps_per_octet), origin.to_owned()])
        .collect();
    rows.push(vec!["wake-up".to_owned(), show_about(costs.wake_ns), origin.to_owned()]);
    rows.push(vec![
        "turn of the other direction".to_owned(),
        show_about(costs.other_turn_ns),
        origin.to_owned(),
    ]);
    for cost in &costs.suites {
        let name = format!("{}, {}", cost.suite, cost.direction);
        rows.push(vec![name, line(cost.base_ns, cost.ps_per_octet), "from the file".to_owned()]);
    }
    if costs.suites_from == QosCostSource::Nothing {
        rows.push(vec!["every suite".to_owned(), "nothing".to_owned(), "not known".to_owned()]);
    }
    output::table(&["WORK", "COSTS", "IS"], &rows)
}

fn delays(classes: &[QosDelay]) -> String {
    let head = [
        "CLASS",
        "DIR",
        "DELAY",
        "KERNEL QUEUE",
        "WAKE-UP",
        "COMMITTED",
        "OTHER CLASSES",
        "OWN BURST",
        "I/O",
        "OTHER DIR",
        "ERROR TERM",
        "SHARE",
        "MEMORY",
    ];
    let rows: Vec<Vec<String>> = classes
        .iter()
        .map(|class| {
            let mut row = vec![class.class.clone(), class.direction.to_string()];
            row.push(class.delay_ns.map_or_else(|| "no bound".to_owned(), show_about));
            match &class.terms {
                Some(terms) => row.extend(
                    [
                        terms.kernel_queue_ns,
                        terms.wake_up_ns,
                        terms.committed_work_ns,
                        terms.other_classes_ns,
                        terms.own_burst_ns,
                        terms.io_ns,
                        terms.other_direction_ns,
                        terms.error_term_ns,
                    ]
                    .map(show_about),
                ),
                None => row.extend(std::iter::repeat_n("-".to_owned(), 8)),
            }
            row.push(show_share(class.share_ppm));
            row.push(output::octets(class.memory_octets));
            row
        })
        .collect();
    output::table(&head, &rows)
}

fn needed(window: &QosWindow) -> String {
    let what = format!("replay window of associations with several classes, {}", window.direction);
    match (window.packets, &window.no_bound) {
        (Some(packets), _) => {
            let class = window.class.as_ref().map(|class| format!(" (they pass one of `{class}`)"));
            let advice = window.too_large.as_ref().map(|advice| format!("\n  {advice}"));
            format!("{what}: {packets} packets{}{}", class.unwrap_or_default(), advice.unwrap_or_default())
        }
        (None, why) => format!("{what}: no bound: {}", why.as_deref().unwrap_or("unknown")),
    }
}

/// The suites, those together that the same units can do.
fn capabilities(plan: &QosPlan) -> String {
    let mut groups: BTreeMap<&[String], Vec<&str>> = BTreeMap::new();
    for row in &plan.capabilities {
        groups.entry(&row.units).or_default().push(&row.suite);
    }
    let every = plan.capabilities.len();
    let rows = groups.into_iter().map(|(units, suites)| {
        let named = match suites.get(..NAMED).filter(|_| suites.len() > NAMED) {
            _ if suites.len() == every => "every suite".to_owned(),
            Some(first) => format!("{} and {} more; --json has all", first.join(", "), suites.len() - NAMED),
            None => suites.join(", "),
        };
        let units = if units.is_empty() { "no unit".to_owned() } else { units.join(", ") };
        vec![named, units]
    });
    output::table(&["SUITE", "UNITS THAT CAN DO IT"], &rows.collect::<Vec<_>>())
}
