//! A graph on a gateway, as the packets of one direction meet it, and what they cost there.

use std::collections::BTreeMap;

use super::arrival::Arrival;
use crate::Direction;
use crate::graph::description::Description;
use crate::graph::house::House;
use crate::graph::kinds::{Component, FOREIGN_BUDGET, Kind, Value};

/// The octets of the smallest packet that bounds count with: an IPv4 header with its UDP header.
pub const SMALLEST: u64 = 28;

/// A graph as the packets of one direction meet it.
#[derive(Clone, Copy, Debug)]
pub struct View<'d> {
    /// The graph that is bounded.
    pub description: &'d Description,
    /// The gateway that it runs on.
    pub house: &'d House,
    /// The direction of the packets.
    pub direction: Direction,
    /// What each class asks for at the tree that is looked at.
    pub arrivals: &'d Arrivals,
}

/// What classes ask for, by their names; `None` for one that nobody polices.
pub type Arrivals = BTreeMap<String, Option<Arrival>>;

/// What a component may take of a packet, if it is one from outside.
fn foreign_budget(component: &Component) -> Option<u64> {
    let is_foreign = component.kind.value == Kind::Foreign;
    is_foreign.then(|| component.number("budget").unwrap_or(FOREIGN_BUDGET))
}

impl View<'_> {
    /// The cost of a packet from its receiving to its sending, in nanoseconds.
    pub fn cost(&self, octets: u64) -> u64 {
        let path = &self.house.path;
        let io = path.receive.ns(octets).saturating_add(path.send.ns(octets));
        let work = io.saturating_add(self.house.costliest(self.direction, octets));
        work.saturating_add(self.foreign())
    }

    /// What components from outside may take of a packet together, in nanoseconds.
    pub fn foreign(&self) -> u64 {
        let parts = self.description.chain(self.direction).into_iter().map(|(_, part)| part);
        parts.filter_map(foreign_budget).fold(0, u64::saturating_add)
    }

    /// The cost of the cheapest packet.
    pub fn cheapest(&self) -> u64 {
        let path = &self.house.path;
        let io = path.receive.ns(SMALLEST).saturating_add(path.send.ns(SMALLEST));
        io.saturating_add(self.house.cheapest(self.direction, SMALLEST)).max(1)
    }

    /// The cost of the costliest packet of a suite that is not worked on in steps, with its receiving and sending; 0 if
    /// every suite is.
    pub fn costliest_whole(&self) -> u64 {
        let path = &self.house.path;
        let octets = path.mtu;
        let io = path.receive.ns(octets).saturating_add(path.send.ns(octets)).saturating_add(self.foreign());
        let suites = self.house.costs.iter().filter(|cost| cost.direction == self.direction);
        let whole = suites.filter(|cost| !cost.is_in_steps()).map(|cost| cost.line.ns(octets));
        whole.max().map_or(0, |ns| ns.saturating_add(io))
    }

    /// What a class asks for at the tree that is looked at.
    pub fn arrival(&self, class: &str) -> Option<Arrival> {
        self.arrivals.get(class).copied().flatten()
    }

    /// The cost of the costliest packet.
    pub fn costliest(&self) -> u64 {
        self.cost(self.house.path.mtu).max(1)
    }

    /// The arrival of a class at the first of its queues, with a policer in front of that; `None` without one.
    ///
    /// A policer that counts octets is turned into work by the cost of the smallest packets, which cost most for each
    /// octet.
    pub fn at_entry(&self, class: &str) -> Option<Arrival> {
        let before = self.description.first_wait(class, self.direction);
        let policer = self.description.bounding_policer(class, self.direction, before)?;
        self.of_policer(policer)
    }

    fn of_policer(&self, policer: &Component) -> Option<Arrival> {
        let per_octet = self.cost(SMALLEST) as f64 / SMALLEST as f64;
        let rate = match policer.get("rate")?.value {
            Value::Share(parts) => parts as f64 / 1e6,
            Value::Rate(bits) => bits as f64 / 8.0 / 1e9 * per_octet,
            _ => return None,
        };
        let burst = match policer.get("burst")?.value {
            // The packet that empties the bucket goes whole.
            Value::Time(ns) => (ns as f64).max(self.costliest() as f64),
            Value::Octets(octets) => octets as f64 * per_octet,
            _ => return None,
        };
        Some(Arrival { burst, rate })
    }
}
