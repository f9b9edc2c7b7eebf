//! The graphs that the data threads run, made from the one that `[qos]` names and from what this gateway has
//! (docs/design/0040).

use config::{BrokenGraph, Config, GraphError, LoadedGraph, house_of, load_graph_for};
use crypto::{Registry, SuiteId};
use engine::OutboundGraph;
use netio::clock;
use qos::Direction;
use qos::graph::compile::suites;
use qos::graph::house::{Line, SuiteCost};
use qos::graph::{Code, Fault, House, compile};

/// Nanoseconds that a packet costs on its way through sockets and devices, until it is measured.
const INPUT_AND_OUTPUT: u64 = 1_500;

/// The graph that is in force.
pub struct GraphInForce {
    /// The graph as it was read.
    pub loaded: LoadedGraph,
    /// What this gateway has, as the graph was checked against it.
    house: House,
}

impl GraphInForce {
    /// The graph that the configuration names; `None` if it names none. Suites are measured for it, which takes some
    /// hundred milliseconds where legacy suites are allowed.
    ///
    /// # Errors
    /// [`GraphError`]: the file cannot be read, or the graph has faults.
    pub fn load(config: &Config, registry: &Registry) -> Result<Option<GraphInForce>, GraphError> {
        if config.qos.is_none() {
            return Ok(None);
        }
        let mut house = house_of(config);
        house.costs = costs(registry);
        let Some(loaded) = load_graph_for(config, &house)? else { return Ok(None) };
        house.catalogue = loaded.aggregates.clone();
        Ok(Some(GraphInForce { loaded, house }))
    }

    /// The graph for the outbound thread. `seed` is random and secret.
    ///
    /// # Errors
    /// [`GraphError::Broken`]: what of it the engine cannot carry out.
    pub fn outbound(&self, registry: &Registry, seed: u64) -> Result<Box<OutboundGraph>, GraphError> {
        let broken = |faults| {
            let LoadedGraph { source, text, .. } = &self.loaded;
            GraphError::Broken(Box::new(BrokenGraph { source: source.clone(), text: text.clone(), faults }))
        };
        let description = &self.loaded.description;
        let compiled = compile(description, &self.house, Direction::Outbound, seed).map_err(broken)?;
        let served: Vec<SuiteId> = registry.suites().all().collect();
        let number = |(number, name): (u16, String)| {
            let suite = served.iter().find(|suite| suite.to_string() == name)?;
            Some((*suite, number))
        };
        let numbers = (0..).zip(suites(&self.house)).filter_map(number).collect();
        OutboundGraph::new(compiled, numbers, seed.rotate_left(7)).map(Box::new).map_err(|error| {
            let remedy = "leave that hook empty".to_owned();
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
