//! A capture through a graph of classes, in the capture's own time, with costs that are given.
//!
//! What enters: a graph that was checked, the gateway with its costs, and a capture. What leaves: for each frame the
//! class, the wait and the verdict of its packet, and the sums of each class. The same input gives the same output.
//!
//! Each direction has a graph and a processor of its own. Every packet costs what receiving it, the work of one suite
//! and sending it cost together. A packet of the capture is all there is: policy and associations are not asked, so
//! rules that name applications, users, keys or names of associations match nothing, and a DSCP counts as both the
//! outer and the inner one. Hosts that talk to each other, or an SPI, stand for an association.

mod packet;

use std::net::IpAddr;
use std::path::PathBuf;

use api::{QosClassSums, QosPacket, QosSimulation, QosVerdict};
use config::LoadedGraph;
use documents::qos_plan;
use netio::pcap::{Frame, LinkType, Reader};
use qos::graph::house::{House, Line, Path, SuiteCost};
use qos::graph::{Addresses, Fault, Graph, compile, costs};
use qos::simulate::{Fate, Report, simulate_each};
use qos::{Direction, Meta};
use wire::Time;

use crate::replay::HalfChoice;
use packet::Packets;

/// The capture to run through a graph, and how.
#[derive(Clone, Debug, Default)]
pub struct SimulationOptions {
    /// The path of the capture.
    pub input: PathBuf,
    /// The direction that packets are taken for.
    pub way: HalfChoice,
    /// This host's addresses: they say which way packets go.
    pub local: Vec<IpAddr>,
    /// The suite that every packet costs the work of; `None`: the costliest one.
    pub suite: Option<String>,
}

/// Why a simulation stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// The capture could not be read.
    #[error(transparent)]
    Netio(#[from] netio::Error),
    /// The graph cannot be made, though it was checked.
    #[error("{}; {}", .0.message, .0.remedy)]
    Graph(Box<Fault>),
    /// Whoever takes the lines does not.
    #[error("{0}")]
    Line(#[from] std::io::Error),
}

/// What is kept of a frame until its fate is known.
struct Row {
    time: f64,
    /// The direction, and the number among the packets of that direction; else why the frame was passed over.
    taken: Result<(Direction, usize), &'static str>,
}

/// The packets of one direction.
#[derive(Default)]
struct Lane {
    arrivals: Vec<(Time, Meta)>,
    fates: Vec<Option<Fate>>,
    /// The names of the classes of the fates, by number.
    names: Vec<String>,
    sums: Vec<QosClassSums>,
}

/// Run a capture through a graph; `line` hears of every frame, in the order of the capture.
///
/// # Errors
/// [`SimulationError`].
pub fn run(
    graph: &LoadedGraph,
    house: &House,
    options: &SimulationOptions,
    line: &mut dyn FnMut(&QosPacket) -> std::io::Result<()>,
) -> Result<QosSimulation, SimulationError> {
    let suite = options.suite.clone().or_else(|| usual(graph, house)).unwrap_or_default();
    let priced = priced(house, &suite);
    let number = compile::suites(&priced).iter().position(|name| *name == suite);
    let number = number.and_then(|number| u16::try_from(number).ok()).unwrap_or(0);
    let addresses = Addresses::of(&graph.description);
    let mut packets = Packets::new(options.way, &options.local, number, addresses);
    let mut rows = Vec::new();
    let mut lanes = [Lane::default(), Lane::default()];
    let mut reader = Reader::open(&options.input)?;
    while let Some(frame) = reader.next_frame()? {
        let taken = packets.read(&frame).map_err(|()| passed_over(&frame));
        let taken = taken.map(|(direction, at, meta)| {
            let lane = &mut lanes[place(direction)];
            lane.arrivals.push((at, meta));
            (direction, lane.arrivals.len() - 1)
        });
        rows.push(Row { time: frame.time.as_secs_f64(), taken });
    }
    for (direction, lane) in [Direction::Outbound, Direction::Inbound].into_iter().zip(&mut lanes) {
        lane.run(graph, &priced, direction)?;
    }
    let mut sums = QosSimulation { costs_are_assumed: house.costs.is_empty(), ..QosSimulation::default() };
    for (index, row) in (1..).zip(&rows) {
        let packet = told(index, row, &lanes);
        sums.packets += 1;
        match packet.verdict {
            QosVerdict::Pass => sums.passed += 1,
            QosVerdict::Drop => sums.dropped += 1,
            QosVerdict::Skip => sums.skipped += 1,
        }
        line(&packet)?;
    }
    sums.classes = lanes.into_iter().flat_map(|lane| lane.sums).collect();
    Ok(sums)
}

impl Lane {
    /// Run the packets of a direction through a graph of their own.
    fn run(
        &mut self,
        graph: &LoadedGraph,
        house: &House,
        direction: Direction,
    ) -> Result<(), SimulationError> {
        if self.arrivals.is_empty() {
            return Ok(());
        }
        let mut made: Graph<u64> = compile(&graph.description, house, direction, 0).map_err(first)?;
        self.fates = vec![None; self.arrivals.len()];
        let fates = &mut self.fates;
        let arrivals = std::mem::take(&mut self.arrivals);
        let report = simulate_each(&mut made, arrivals, &costs(house, &compile::suites(house)), |fate| {
            let place = usize::try_from(fate.number).ok();
            if let Some(row) = place.and_then(|place| fates.get_mut(place)) {
                *row = Some(fate);
            }
        });
        self.names = made.aggregates().iter().map(|(_, name)| name.to_owned()).collect();
        self.sums = self.sums(&report, direction);
        Ok(())
    }

    fn name(&self, class: wire::AggregateId) -> String {
        self.names.get(usize::from(class.0)).cloned().unwrap_or_default()
    }

    fn sums(&self, report: &Report, direction: Direction) -> Vec<QosClassSums> {
        let rows = report.classes.iter().map(|(class, of)| QosClassSums {
            class: self.name(*class),
            direction: qos_plan::direction(direction),
            passed: of.left,
            dropped: of.dropped.values().sum(),
            longest_loss: of.longest_loss,
            median_wait_ns: of.waits.quantile(500_000),
            p99_wait_ns: of.waits.quantile(990_000),
            longest_wait_ns: of.waits.most(),
        });
        rows.collect()
    }
}

/// The line about a frame.
fn told(index: u64, row: &Row, lanes: &[Lane; 2]) -> QosPacket {
    let mut packet = QosPacket {
        index,
        time: row.time,
        direction: None,
        verdict: QosVerdict::Skip,
        class: None,
        reason: None,
        wait_ns: None,
    };
    let (direction, number) = match row.taken {
        Ok(taken) => taken,
        Err(why) => {
            packet.reason = Some(why.to_owned());
            return packet;
        }
    };
    packet.direction = Some(qos_plan::direction(direction));
    let lane = &lanes[place(direction)];
    match lane.fates.get(number).copied().flatten() {
        Some(fate) => {
            packet.verdict = if fate.cause.is_some() { QosVerdict::Drop } else { QosVerdict::Pass };
            packet.class = Some(lane.name(fate.aggregate));
            packet.reason = fate.cause.map(|cause| cause.word().to_owned());
            packet.wait_ns = Some(fate.wait);
        }
        // It waits for ever: a queue of the graph is never served.
        None => {
            packet.verdict = QosVerdict::Drop;
            packet.reason = Some("never_served".to_owned());
        }
    }
    packet
}

const fn place(direction: Direction) -> usize {
    match direction {
        Direction::Outbound => 0,
        Direction::Inbound => 1,
    }
}

/// Why a frame is passed over.
fn passed_over(frame: &Frame) -> &'static str {
    match frame.link {
        LinkType::Other(_) => "link_type",
        _ if !frame.is_whole() => "cut_short",
        _ => "no_ip",
    }
}

fn first(faults: Vec<Fault>) -> SimulationError {
    let none = || Fault {
        span: 0..0,
        code: qos::graph::Code::WrongPlace,
        message: "the graph cannot be made".to_owned(),
        remedy: "check it with `ravelin qos check`".to_owned(),
    };
    SimulationError::Graph(Box::new(faults.into_iter().next().unwrap_or_else(none)))
}

/// The suite whose work costs most, if any cost is known; else the first one that a unit of the graph can do.
fn usual(graph: &LoadedGraph, house: &House) -> Option<String> {
    let costliest = house.costs.iter().max_by_key(|cost| cost.line.ns(house.path.mtu));
    let able = |suite: &&String| graph.description.units.iter().any(|unit| unit.can(suite));
    costliest.map(|cost| cost.suite.clone()).or_else(|| house.known_suites.iter().find(able).cloned())
}

/// The gateway with one cost for each packet: receiving it, the work of the suite, sending it.
fn priced(house: &House, suite: &str) -> House {
    let cost = |direction| {
        let of = |cost: &&SuiteCost| cost.direction == direction;
        let own = house.costs.iter().filter(of).find(|cost| cost.suite == suite);
        // A suite without a cost of its own costs as the costliest one, as in the bounds that `plan` prints.
        let costliest = || house.costs.iter().filter(of).max_by_key(|cost| cost.line.ns(house.path.mtu));
        let work = own.or_else(costliest).map(|cost| cost.line).unwrap_or_default();
        let lines = [house.path.receive, work, house.path.send];
        let line = Line {
            base_ns: lines.iter().fold(0, |sum, line| sum.saturating_add(line.base_ns)),
            ps_per_octet: lines.iter().fold(0, |sum, line| sum.saturating_add(line.ps_per_octet)),
        };
        SuiteCost { suite: suite.to_owned(), direction, line }
    };
    House {
        costs: vec![cost(Direction::Outbound), cost(Direction::Inbound)],
        path: Path { receive: Line::default(), send: Line::default(), ..house.path },
        ..house.clone()
    }
}
