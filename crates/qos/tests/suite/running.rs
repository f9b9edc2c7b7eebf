//! What the tests of running graphs share: packets by DSCP, a gateway with round costs, and a loop that works.

use qos::cost::{CostModel, Line as Cost};
use qos::dispatcher::{Assignment, UNITS};
use qos::graph::description::{Description, HookPoint};
use qos::graph::house::{Line, Path, SuiteCost};
use qos::graph::{Graph, House, check, compile, preset};
use qos::node::{Ended, Wake};
use qos::{AggregateId, Amount, Context, Direction, Meta, UnitMask};
use wire::Time;

/// Nanoseconds in a microsecond.
pub const US: u64 = 1_000;

/// A gateway on which a packet costs `ns`, whatever its length, and the path costs nothing.
pub fn house(ns: u64) -> House {
    house_of(ns, 0)
}

/// A gateway on which a packet costs `ns` and an eighth of a nanosecond, so many times, for each octet.
pub fn house_of(ns: u64, eighths: u64) -> House {
    let free = Line::default();
    let path =
        Path { wake_ns: 0, other_turn_ns: 0, receive: free, send: free, batch: 0, mtu: 1_500, cell: 2_000 };
    let line = Line { base_ns: ns, ps_per_octet: 125 * eighths };
    let cost = |direction| SuiteCost { suite: "3des-md5".to_owned(), direction, line };
    House { costs: vec![cost(Direction::Outbound), cost(Direction::Inbound)], path, ..House::default() }
}

/// The costs of that gateway.
pub fn costs(ns: u64) -> CostModel {
    costs_of(ns, 0)
}

/// The costs of a gateway whose octets cost something.
pub fn costs_of(ns: u64, eighths: u64) -> CostModel {
    let [base_ns, ns_per_1024] = [ns, 128 * eighths].map(|ns| u32::try_from(ns).unwrap());
    let line = Cost { base_ns, ns_per_1024, batch_saves_ns: 0 };
    CostModel::new(UNITS as u8, 1, line)
}

pub fn described(text: &str, house: &House) -> Description {
    check(text, house).unwrap_or_else(|faults| panic!("{faults:#?}\n{text}"))
}

pub fn graph_of(description: &Description, house: &House) -> Graph<u64> {
    compile(description, house, Direction::Outbound, 7).unwrap_or_else(|faults| panic!("{faults:#?}"))
}

pub fn graph(text: &str, house: &House) -> Graph<u64> {
    graph_of(&described(text, house), house)
}

pub fn of_preset(name: &str, house: &House) -> Graph<u64> {
    graph_of(&preset(name).unwrap(), house)
}

/// The text of a file of `examples/qos`.
#[allow(clippy::disallowed_methods, reason = "a test reads its own data files")]
pub fn example(name: &str) -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/qos");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// A packet of a DSCP that costs `ns`.
pub fn of_dscp(dscp: u8, ns: u64) -> Meta {
    Meta {
        amount: Amount { packets: 1, octets: 1_000, ns },
        dscp: [dscp; 2],
        units: UnitMask(u16::MAX),
        ..Meta::default()
    }
}

pub const EF: u8 = 46;
pub const BE: u8 = 0;

/// A graph that is worked by hand, with the time.
pub struct Works {
    pub graph: Graph<u64>,
    pub now: u64,
    pub ended: Vec<Ended<u64>>,
    /// What is in flight, in the order of its giving.
    pub given: Vec<Assignment<u64>>,
    /// The tickets that left at 2b, in their order.
    pub left: Vec<(u64, Meta)>,
}

impl Works {
    pub fn new(graph: Graph<u64>) -> Works {
        Works { graph, now: 1, ended: Vec::new(), given: Vec::new(), left: Vec::new() }
    }

    pub fn context(&self) -> Context {
        Context { now: Time(self.now), random: self.now.wrapping_mul(0x9e37_79b9_7f4a_7c15) }
    }

    pub fn offer(&mut self, ticket: u64, meta: Meta) {
        let context = self.context();
        let meta = Meta { arrived: context.now, ..meta };
        self.graph.offer(HookPoint::In1a, ticket, meta, &context, &mut self.ended);
    }

    /// Let every packet go on, up to the units.
    pub fn forward(&mut self) {
        let context = self.context();
        while let Some(due) = self.graph.serve(&context, &mut self.ended) {
            let onwards = if due.at == HookPoint::Out4b { HookPoint::In2a } else { HookPoint::In3a };
            self.graph.offer(onwards, due.item, due.meta, &context, &mut self.ended);
        }
        while let Some(due) = self.graph.take(HookPoint::Out2b, &context, &mut self.ended) {
            self.left.push((due.item, due.meta));
        }
        while let Some(assignment) = self.graph.next(&context, &mut self.ended) {
            self.given.push(assignment);
        }
        assert!(self.graph.conserved(), "{:?}", self.graph.counts());
    }

    /// Let the job that was given at this place be done.
    pub fn finish(&mut self, place: usize) {
        let assignment = self.given.remove(place);
        self.now += assignment.budget.ns;
        let context = self.context();
        let ns = assignment.budget.ns;
        self.graph.done(assignment.unit, assignment.job, ns, &context).unwrap();
        self.graph.offer(HookPoint::In4a, assignment.item, assignment.meta, &context, &mut self.ended);
    }

    /// Work until nothing waits or is in flight, or until nothing can be done.
    pub fn drain(&mut self) {
        self.forward();
        while !self.given.is_empty() {
            self.finish(0);
            self.forward();
        }
        if let Wake::At(time) = self.graph.wake(&self.context())
            && time.0 > self.now
        {
            self.now = time.0;
            self.drain();
        }
    }

    pub fn class(&self, name: &str) -> AggregateId {
        self.graph.aggregates().find(name).unwrap()
    }

    /// The tickets that left, without what is known of them.
    pub fn tickets(&self) -> Vec<u64> {
        self.left.iter().map(|(ticket, _)| *ticket).collect()
    }
}
