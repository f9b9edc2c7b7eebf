//! A graph on a gateway, as the packets of one direction meet it, and what they cost there.

use crate::Direction;
use crate::graph::description::Description;
use crate::graph::house::House;

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
}

impl View<'_> {
    /// The cost of a packet from its receiving to its sending, in nanoseconds.
    pub fn cost(&self, octets: u64) -> u64 {
        let path = &self.house.path;
        let io = path.receive.ns(octets).saturating_add(path.send.ns(octets));
        io.saturating_add(self.house.costliest(self.direction, octets))
    }

    /// The cost of the cheapest packet.
    pub fn cheapest(&self) -> u64 {
        let path = &self.house.path;
        let io = path.receive.ns(SMALLEST).saturating_add(path.send.ns(SMALLEST));
        io.saturating_add(self.house.cheapest(self.direction, SMALLEST)).max(1)
    }

    /// The cost of the costliest packet.
    pub fn costliest(&self) -> u64 {
        self.cost(self.house.path.mtu).max(1)
    }
}
