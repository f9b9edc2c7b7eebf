//! The graphs that the data threads run, made from the one that `[qos]` names and from what this gateway has
//! (docs/design/0040).

use std::collections::BTreeMap;

use config::{BrokenGraph, Config, GraphError, LoadedGraph, house_of, load_graph_for};
use crypto::{Registry, SuiteId};
use engine::{InboundGraph, OutboundGraph, Ticket};
use netio::clock;
use qos::Direction;
use qos::graph::compile::suites;
use qos::graph::description::HookPoint;
use qos::graph::house::{Line, SuiteCost};
use qos::graph::{Code, Fault, Graph, House, compile};

use crate::start::RunError;

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
}

/// Make the graph that the configuration names; `None` if it names none. Suites are measured for it, which takes some
/// hundred milliseconds where legacy suites are allowed.
///
/// # Errors
/// The graph cannot be read, has faults, or has something that the engine does not carry out; or the system gives no
/// random octets.
pub fn prepare(config: &Config, registry: &Registry) -> Result<Option<PreparedGraph>, RunError> {
    if config.qos.is_none() {
        return Ok(None);
    }
    let mut house = house_of(config);
    house.costs = costs(registry);
    let Some(loaded) = load_graph_for(config, &house)? else { return Ok(None) };
    house.catalogue = loaded.aggregates.clone();
    let mut seed = [0; 8];
    netio::random::fill(&mut seed)
        .map_err(|source| RunError::System { doing: "reading random octets", source })?;
    let seed = u64::from_ne_bytes(seed);
    let outbound = of(Direction::Outbound, OutboundGraph::new, &loaded, &house, registry, seed)?;
    let inbound = of(Direction::Inbound, InboundGraph::new, &loaded, &house, registry, seed.rotate_left(23))?;
    Ok(Some(PreparedGraph { loaded, outbound, inbound }))
}

/// The graph for the thread of a direction. `seed` is random and secret.
fn of<G>(
    direction: Direction,
    make: impl FnOnce(Graph<Ticket>, Vec<(SuiteId, u16)>, u64) -> Result<G, engine::GraphError>,
    loaded: &LoadedGraph,
    house: &House,
    registry: &Registry,
    seed: u64,
) -> Result<Box<G>, GraphError> {
    let broken = |faults| {
        let LoadedGraph { source, text, .. } = loaded;
        GraphError::Broken(Box::new(BrokenGraph { source: source.clone(), text: text.clone(), faults }))
    };
    let compiled = compile(&loaded.description, house, direction, seed).map_err(broken)?;
    let all: BTreeMap<String, SuiteId> =
        registry.suites().all().map(|suite| (suite.to_string(), suite)).collect();
    let numbers = (0..).zip(suites(house)).filter_map(|(number, name)| Some((*all.get(&name)?, number)));
    make(compiled, numbers.collect(), seed.rotate_left(7)).map(Box::new).map_err(|error| {
        let at = &loaded.description.hooks;
        let is_it = |point: HookPoint| error.hook().is_some_and(|hook| hook.queue() == point.queue());
        let hook = at.iter().find(|hook| is_it(hook.at.value));
        let span = hook.map_or(0..0, |hook| hook.at.span.clone());
        let remedy = "leave that hook empty".to_owned();
        broken(vec![Fault { span, code: Code::WrongPlace, message: error.to_string(), remedy }])
    })
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
