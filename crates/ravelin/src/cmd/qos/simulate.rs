//! `ravelin qos simulate`: a capture through a graph, in the capture's own time.

use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;

use api::{QosPacket, QosSimulation, QosSimulationEnd};
use clap::{Args, ValueEnum};
use offline::replay::HalfChoice;
use offline::simulation::{self, SimulationError, SimulationOptions};
use qos::graph::quantity::show_about;

use super::graph::{CostArgument, LoadArgument, PresetArgument, house, sound};
use crate::catalogue::{Catalogue, OF_GRAPHS};
use crate::exit::{Failure, Kind};
use crate::output;

/// Run a capture through a graph in the capture's own time: class, wait and verdict of each packet.
///
/// What is for a --local address goes in, what is from one goes out; of the rest ESP and AH go in, everything else goes
/// out. The same input gives the same output. Costs are those of a plan.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
#[command(mut_arg("config", |config| config.help(OF_GRAPHS)))]
#[command(after_help = "\
Examples:
  ravelin qos simulate --preset voice call.pcap
  ravelin qos simulate /etc/ravelin/qos.toml call.pcap --cost costs.toml --json")]
pub struct Simulate {
    /// The graph (`-`: standard input).
    #[arg(value_name = "GRAPH", required_unless_present = "preset", conflicts_with = "preset")]
    file: Option<PathBuf>,
    /// The capture (pcap or pcapng; Ethernet with or without VLAN tags, raw IP, Linux cooked).
    #[arg(value_name = "CAPTURE", required = true)]
    capture: PathBuf,
    #[command(flatten)]
    preset: PresetArgument,
    #[command(flatten)]
    catalogue: Catalogue,
    #[command(flatten)]
    load: LoadArgument,
    #[command(flatten)]
    cost: CostArgument,
    /// The suite whose work every packet costs [default: the costliest one of the file of costs].
    #[arg(long, value_name = "NAME")]
    suite: Option<String>,
    /// The direction that every packet is taken for.
    #[arg(long, value_enum, default_value_t = DirectionChoice::Auto)]
    direction: DirectionChoice,
    /// An address of this gateway, which says which way packets go. May be repeated.
    #[arg(long, value_name = "ADDRESS")]
    local: Vec<IpAddr>,
    /// Print the sums alone.
    #[arg(long)]
    quiet: bool,
    /// Print one JSON object per packet, then one with the sums.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DirectionChoice {
    In,
    Out,
    Auto,
}

impl Simulate {
    pub fn execute(self) -> anyhow::Result<()> {
        let mut house = house(&self.catalogue)?;
        self.load.put(&self.catalogue, &mut house)?;
        self.cost.put(&self.catalogue, &mut house)?;
        let graph = sound(self.file.as_deref(), &self.preset, &house)?;
        let suite = match &self.suite {
            Some(name) => {
                let found = self.catalogue.suites()?.find(name);
                Some(found.map_err(|error| Failure::bad_input(format!("--suite: {error}")))?.to_string())
            }
            None => None,
        };
        let options = SimulationOptions {
            input: self.capture,
            way: match self.direction {
                DirectionChoice::In => HalfChoice::In,
                DirectionChoice::Out => HalfChoice::Out,
                DirectionChoice::Auto => HalfChoice::Auto,
            },
            local: self.local,
            suite,
        };
        let (json, quiet) = (self.json, self.quiet);
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        let sums = simulation::run(&graph, &house, &options, &mut |packet| match (quiet, json) {
            (true, _) => Ok(()),
            (false, true) => output::line_to(&mut out, packet),
            (false, false) => writeln!(out, "{}", text(packet)),
        });
        let sums = sums.map_err(|error| match error {
            SimulationError::Netio(error) => Failure::bad_input(error.to_string()),
            SimulationError::Line(error) => error.into(),
            other => Failure::of(Kind::Failed, other.to_string()),
        })?;
        if self.json {
            output::take();
            output::line_to(&mut out, &QosSimulationEnd { summary: sums })?;
        } else {
            out.write_all(summary(&sums).as_bytes())?;
        }
        out.flush()?;
        Ok(())
    }
}

fn text(packet: &QosPacket) -> String {
    let mut out = format!("{} {:.6}", packet.index, packet.time);
    if let Some(direction) = packet.direction {
        out.push_str(&format!(" {direction}"));
    }
    out.push_str(&format!(" {}", packet.verdict));
    if let Some(reason) = &packet.reason {
        out.push_str(&format!(" ({reason})"));
    }
    if let Some(class) = &packet.class {
        out.push_str(&format!(" {class}"));
    }
    if let Some(wait) = packet.wait_ns {
        out.push_str(&format!(" after {}", show_about(wait)));
    }
    out
}

fn summary(sums: &QosSimulation) -> String {
    let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), show_about);
    let rows: Vec<Vec<String>> = sums
        .classes
        .iter()
        .map(|class| {
            vec![
                class.class.clone(),
                class.direction.to_string(),
                class.passed.to_string(),
                class.dropped.to_string(),
                class.longest_loss.to_string(),
                time(class.median_wait_ns),
                time(class.p99_wait_ns),
                time(class.longest_wait_ns),
            ]
        })
        .collect();
    let head = ["CLASS", "DIR", "PASSED", "DROPPED", "IN A ROW", "MEDIAN WAIT", "99 %", "LONGEST"];
    let QosSimulation { packets, passed, dropped, skipped, .. } = sums;
    let mut out = output::table(&head, &rows);
    out.push_str(&format!(
        "{packets} frames read, {passed} passed, {dropped} dropped, {skipped} passed over\n"
    ));
    if sums.costs_are_assumed {
        out.push_str("no cost of a suite is known, so the work of ciphers counts as nothing; name a file with --cost\n");
    }
    out
}
