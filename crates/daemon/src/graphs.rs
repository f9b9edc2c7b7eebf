//! The graphs that the data threads run, made from the one that `[qos]` names and from what this gateway has
//! (docs/design/0040).

use std::collections::BTreeMap;

use config::{BrokenGraph, Config, GraphError, LoadedGraph, house_of};
use crypto::{Registry, SuiteId};
use engine::{InboundGraph, OutboundGraph, Ticket};
use netio::clock;
use policy::Compiled;
use qos::Direction;
use qos::behaviour::foreign::Libraries;
use qos::graph::compile::suites;
use qos::graph::house::{Line, SuiteCost, Used};
use qos::graph::rules::Field;
use qos::graph::{Aggregates, Code, Fault, Graph, House, compile, named};
use sockmon::QueueSplit;
use wire::AppId;

use crate::graph_store::GraphText;
use crate::priorities;
use crate::socket_queues::PlannedSockets;
use crate::start::RunError;
use crate::tun_queues::PlannedQueues;

/// Nanoseconds that a packet costs on its way through sockets and devices, until it is measured.
const INPUT_AND_OUTPUT: u64 = 1_500;

/// A graph that is ready to be put in force.
pub struct PreparedGraph {
    /// The graph as it was read.
    pub loaded: LoadedGraph,
    /// The graph for the outbound thread.
    pub outbound: Box<OutboundGraph>,
    /// The graph for the inbound thread.
    pub inbound: Box<InboundGraph>,
    /// The queues of the TUN for its classes.
    pub queues: PlannedQueues,
    /// The UDP sockets for its classes.
    pub sockets: PlannedSockets,
    /// Sentences about rules that match nothing on this gateway.
    pub notes: Vec<String>,
}

/// What a gateway has that a graph can name, and what names classes of the graph.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The applications of the policy, with their numbers.
    pub applications: Vec<(String, AppId)>,
    /// The classes that policy, rules and associations name.
    pub used: Vec<Used>,
}

impl Surroundings {
    /// The applications of a policy, where nothing names classes yet. A program goes by its path, and by its file name
    /// too, if no other application has that.
    pub fn of_policy(compiled: &Compiled) -> Surroundings {
        let named = compiled.applications.iter().map(|app| (app.name.clone(), app.id));
        let mut applications: Vec<(String, AppId)> = named.collect();
        let mut short: BTreeMap<&str, Vec<AppId>> = BTreeMap::new();
        for (name, id) in &applications {
            if let Some((_, file)) = name.rsplit_once('/') {
                short.entry(file).or_default().push(*id);
            }
        }
        let alone = |(file, ids): (&str, Vec<AppId>)| match ids[..] {
            [id] if applications.iter().all(|(name, _)| name != file) => Some((file.to_owned(), id)),
            _ => None,
        };
        let short: Vec<(String, AppId)> = short.into_iter().filter_map(alone).collect();
        applications.extend(short);
        Surroundings { applications, used: Vec::new() }
    }
}

/// What graphs of this gateway are made with: its suites with their costs, and its kernel queues.
#[derive(Clone, Debug)]
pub struct GraphMaker {
    house: House,
    suites: BTreeMap<String, SuiteId>,
    /// The length of a queue of the TUN, in packets.
    queue_len: u32,
    /// The reason why priorities of classes do nothing on this host.
    no_priorities: Option<&'static str>,
}

impl GraphMaker {
    /// The maker of a gateway with this configuration. Suites are measured for it, which takes some hundred milliseconds
    /// where legacy suites are allowed.
    pub fn new(config: &Config, registry: &Registry, libraries: Libraries) -> GraphMaker {
        let mut house = House { libraries, ..house_of(config) };
        house.costs = costs(registry);
        let suites = registry.suites().all().map(|suite| (suite.to_string(), suite)).collect();
        let no_priorities = priorities::obstacle(config);
        GraphMaker { house, suites, queue_len: config.tun.queue, no_priorities }
    }

    /// The most queues of the TUN, and the most UDP sockets of a family, that a graph can have.
    pub fn queues(&self) -> usize {
        self.house.kernel_queues.unwrap_or(1).clamp(1, QueueSplit::MOST_QUEUES as u64) as usize
    }

    /// Read a graph, and make what the data thread runs. Names keep their numbers of `catalogue`.
    ///
    /// # Errors
    /// The graph has faults, or has something that the engine does not carry out; or the system gives no random octets.
    pub fn make(
        &self,
        text: &GraphText,
        catalogue: &Aggregates,
        around: Surroundings,
    ) -> Result<PreparedGraph, RunError> {
        let applications = around.applications.iter().map(|(name, id)| (name.clone(), id.0));
        let mut house = House {
            catalogue: catalogue.clone(),
            aggregates: around.used,
            applications: applications.collect(),
            ..self.house.clone()
        };
        let loaded = LoadedGraph::check_octets(&text.source, text.octets.to_vec(), &house)?;
        house.catalogue = loaded.aggregates.clone();
        let mut seed = [0; 8];
        netio::random::fill(&mut seed)
            .map_err(|source| RunError::System { doing: "reading random octets", source })?;
        let seed = u64::from_ne_bytes(seed);
        let outbound = self.half(Direction::Outbound, OutboundGraph::new, &loaded, &house, seed)?;
        let inbound =
            self.half(Direction::Inbound, InboundGraph::new, &loaded, &house, seed.rotate_left(23))?;
        let most = self.queues() as u64;
        let names = named(&loaded.description, Field::Application);
        let (found, missing): (Vec<_>, Vec<_>) = names
            .into_iter()
            .map(|name| (name, around.applications.iter().find(|(known, _)| known == name)))
            .partition(|(_, found)| found.is_some());
        let apps = found.into_iter().filter_map(|(_, found)| Some(found?.1)).collect::<Vec<_>>();
        let queues = PlannedQueues::of(&loaded, most, self.queue_len, &outbound, &apps);
        let sockets = PlannedSockets::of(&loaded, most, &inbound);
        let unknown = missing.into_iter().map(|(name, _)| {
            format!("the policy has no application `{name}`, so a rule that names it matches nothing")
        });
        let unnamed = named(&loaded.description, Field::Association).into_iter().map(|name| {
            format!("associations have no names yet, so a rule for `{name}` matches nothing; match by `spi` or `peer`")
        });
        let priorities = outbound.graph().priorities().and(self.no_priorities).map(priorities::note);
        let notes = unknown.chain(unnamed).chain(priorities).chain(loaded.warning_notes()).collect();
        Ok(PreparedGraph { loaded, outbound, inbound, queues, sockets, notes })
    }

    /// The graph for the thread of a direction. `seed` is random and secret.
    fn half<G>(
        &self,
        direction: Direction,
        make: impl FnOnce(Graph<Ticket>, Vec<(SuiteId, u16)>, u64) -> Result<G, engine::GraphError>,
        loaded: &LoadedGraph,
        house: &House,
        seed: u64,
    ) -> Result<Box<G>, GraphError> {
        let broken = |faults| {
            let LoadedGraph { source, text, .. } = loaded;
            GraphError::Broken(Box::new(BrokenGraph { source: source.clone(), text: text.clone(), faults }))
        };
        let compiled = compile(&loaded.description, house, direction, seed).map_err(broken)?;
        let numbers =
            (0..).zip(suites(house)).filter_map(|(number, name)| Some((*self.suites.get(&name)?, number)));
        make(compiled, numbers.collect(), seed.rotate_left(7)).map(Box::new).map_err(|error| {
            let remedy = "report this to the maintainers of ravelin".to_owned();
            broken(vec![Fault { span: 0..0, code: Code::WrongPlace, message: error.to_string(), remedy }])
        })
    }
}

/// The measured cost of every suite that is served.
fn costs(registry: &Registry) -> Vec<SuiteCost> {
    let mut clock = || clock::monotonic().0;
    let mut costs = Vec::new();
    for suite in registry.units().map(|unit| unit.suite).collect::<Vec<_>>() {
        let Some(measured) = registry.measure(suite, &mut clock) else { continue };
        // Octets cost what the difference of the two lengths does.
        let ps_per_octet = measured.full_ns.saturating_sub(measured.short_ns) * 1000 / (1400 - 64);
        let base_ns = measured.short_ns.saturating_sub(ps_per_octet * 64 / 1000) + INPUT_AND_OUTPUT;
        let line = Line { base_ns, ps_per_octet };
        for direction in [Direction::Outbound, Direction::Inbound] {
            costs.push(SuiteCost { suite: suite.to_string(), direction, line });
        }
    }
    costs
}
