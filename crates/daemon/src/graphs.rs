//! The graphs that the data threads run, made from a description and from what this gateway has (docs/design/0040).

use crypto::{Registry, SuiteId};
use engine::OutboundGraph;
use netio::clock;
use qos::Direction;
use qos::graph::compile::suites;
use qos::graph::house::{Line, SuiteCost};
use qos::graph::{Code, Description, Fault, House, compile};

/// What a packet costs on its way through sockets and devices, in nanoseconds, until it is measured.
const INPUT_AND_OUTPUT: u64 = 1_500;

/// What this gateway has, as far as a graph is checked against it: the suites that are served, and what they cost. The
/// measurement takes some hundred milliseconds where legacy suites are allowed.
pub(crate) fn house(registry: &Registry) -> House {
    let mut house = House::default();
    let mut clock = || clock::monotonic().0;
    let served: Vec<SuiteId> = registry.units().map(|unit| unit.suite).collect();
    house.known_suites = served.iter().map(ToString::to_string).collect();
    for suite in served {
        let Some(measured) = registry.measure(suite, &mut clock) else { continue };
        // Octets cost what the difference of the two lengths does.
        let ps_per_octet = (measured.full_ns.saturating_sub(measured.short_ns)) * 1000 / (1400 - 64);
        let base = measured.short_ns.saturating_sub(ps_per_octet * 64 / 1000);
        let line = Line { base_ns: base + INPUT_AND_OUTPUT, ps_per_octet };
        for direction in [Direction::Outbound, Direction::Inbound] {
            house.costs.push(SuiteCost { suite: suite.to_string(), direction, line });
        }
    }
    house
}

/// The graph of the outbound thread.
///
/// # Errors
/// What is wrong with the description, or what of it the engine cannot carry out.
pub(crate) fn outbound(
    description: &Description,
    house: &House,
    registry: &Registry,
    seed: u64,
) -> Result<Box<OutboundGraph>, Vec<Fault>> {
    let compiled = compile(description, house, Direction::Outbound, seed)?;
    let numbers = (0..).zip(suites(house));
    let known: Vec<(SuiteId, u16)> = numbers
        .filter_map(|(number, name)| {
            let unit = registry.units().find(|unit| unit.suite.to_string() == name)?;
            Some((unit.suite, number))
        })
        .collect();
    OutboundGraph::new(compiled, known, seed.rotate_left(7)).map(Box::new).map_err(|error| {
        vec![Fault {
            span: 0..0,
            code: Code::WrongPlace,
            message: error.to_string(),
            remedy: "leave that hook empty".to_owned(),
        }]
    })
}
