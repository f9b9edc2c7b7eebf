//! Reserved flows as a data thread knows them: whether a packet is of one, and whether it keeps within its rate.
//!
//! A packet that is within the rate and burst of its flow gets the class of the reservation. One beyond them has the
//! class that it would have had without, and is not dropped for it. Asking takes no lock and no memory: one look at the
//! table for each kind of wildcard that is in use, which for most tables is one.

use std::collections::HashMap;
use std::net::IpAddr;

use wire::Time;

use super::flow::{Flow, FlowHash, Scope};
use crate::AggregateId;
use crate::amount::Amount;
use crate::behaviour::TokenBucket;

/// What a flow may send, and the class that it gets for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowTerms {
    /// The class of packets within the rate.
    pub class: AggregateId,
    /// Bits a second of packets within the rate.
    pub rate: u64,
    /// Octets that may come at once.
    pub burst: u64,
    /// Octets that each packet counts as at least (RFC 2215 section 3, the minimum policed unit).
    pub least: u64,
}

/// The packets that came of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Packets within the rate, which got the class.
    pub within: u64,
    /// Packets beyond it, which did not.
    pub beyond: u64,
}

/// A flow that is reserved, with what is left of its rate.
#[derive(Clone, Copy, Debug)]
pub struct ReservedFlow {
    terms: FlowTerms,
    bucket: TokenBucket,
    counts: FlowCounts,
}

impl ReservedFlow {
    fn new(terms: FlowTerms) -> ReservedFlow {
        let bucket = TokenBucket::new(terms.rate.div_ceil(8), terms.burst);
        ReservedFlow { terms, bucket, counts: FlowCounts::default() }
    }

    /// The class of packets within the rate.
    pub const fn class(&self) -> AggregateId {
        self.terms.class
    }

    /// The class of a packet of the flow, or of several that come together, if all of them are within the rate. A
    /// packet of less than the minimum policed unit counts as that.
    pub fn take(&mut self, now: Time, amount: &Amount) -> Option<AggregateId> {
        let octets = amount.octets.max(amount.packets.saturating_mul(self.terms.least));
        if self.bucket.take(now, octets) {
            self.counts.within += amount.packets;
            return Some(self.terms.class);
        }
        self.counts.beyond += amount.packets;
        None
    }

    /// The number of packets, in the order of these lengths, that are within the rate up to the first one that is not.
    /// Nothing is taken.
    pub fn within(&self, now: Time, lengths: impl Iterator<Item = u64>) -> usize {
        let mut bucket = self.bucket;
        lengths.take_while(|octets| bucket.take(now, (*octets).max(self.terms.least))).count()
    }
}

/// The wildcards of a flow by ports: the source port, the destination port, the DSCP, one bit each.
const SHAPES: usize = 8;

/// The reserved flows of a data thread.
#[derive(Debug)]
pub struct ReservedFlows {
    rows: HashMap<Flow, ReservedFlow, FlowHash>,
    /// The number of flows by ports with each set of wildcards.
    shapes: [u32; SHAPES],
    /// The number of flows by SPI.
    outer: u32,
    most: usize,
}

impl ReservedFlows {
    /// No flow, and room for so many, with a key for their hashes that nobody outside may know. No later call takes
    /// memory.
    pub fn new(key: [u8; 16], most: usize) -> ReservedFlows {
        let rows = HashMap::with_capacity_and_hasher(most.saturating_mul(2), FlowHash::new(key));
        ReservedFlows { rows, shapes: [0; SHAPES], outer: 0, most }
    }

    /// Reserve for a flow from now on, or change what is reserved for it; whether there was room. A flow whose terms
    /// stay keeps its bucket, and each keeps its counts.
    pub fn put(&mut self, flow: &Flow, terms: FlowTerms) -> bool {
        let flow = flow.as_packets_show();
        if let Some(row) = self.rows.get_mut(&flow) {
            if row.terms != terms {
                *row = ReservedFlow { counts: row.counts, ..ReservedFlow::new(terms) };
            }
            return true;
        }
        if self.rows.len() >= self.most {
            return false;
        }
        *self.count_of(&flow) += 1;
        self.rows.insert(flow, ReservedFlow::new(terms));
        true
    }

    /// End what is reserved for a flow; whether anything was.
    pub fn remove(&mut self, flow: &Flow) -> bool {
        let flow = flow.as_packets_show();
        let is_there = self.rows.remove(&flow).is_some();
        if is_there {
            *self.count_of(&flow) -= 1;
        }
        is_there
    }

    /// The number of flows that leave open what this one does.
    fn count_of(&mut self, flow: &Flow) -> &mut u32 {
        match shape(flow) {
            Some(shape) => &mut self.shapes[shape],
            None => &mut self.outer,
        }
    }

    /// Whether nothing is reserved.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The number of flows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The packets that came of a flow.
    pub fn counts(&self, flow: &Flow) -> Option<FlowCounts> {
        self.rows.get(&flow.as_packets_show()).map(|row| row.counts)
    }

    /// The flow of packets with these ports and this DSCP, or else with this SPI. Of several that match by ports, it is
    /// the one with the fewest wildcards; among those, one that names the DSCP goes before one that names the
    /// destination port, and that before one that names the source port.
    #[inline]
    pub fn find(
        &mut self,
        inner: Option<&InnerName>,
        outer: Option<&OuterName>,
    ) -> Option<&mut ReservedFlow> {
        let by_ports = inner.and_then(|inner| {
            let shapes = ORDER.into_iter().filter(|shape| self.shapes[*shape] > 0);
            let mut flows = shapes.map(|shape| inner.with_wildcards(shape));
            flows.find(|flow| self.rows.contains_key(flow))
        });
        let by_spi = || outer.filter(|_| self.outer > 0).map(OuterName::flow);
        let flow = by_ports.or_else(by_spi)?;
        self.rows.get_mut(&flow)
    }
}

/// What an inner packet shows of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InnerName {
    /// The destination of the inner header.
    pub destination: IpAddr,
    /// The protocol of the transport.
    pub protocol: u8,
    /// The source port and the destination port; 0 where none can be read.
    pub ports: (u16, u16),
    /// The DSCP of the inner header.
    pub dscp: u8,
}

impl InnerName {
    /// The flow of its packets with these wildcards.
    fn with_wildcards(&self, shape: usize) -> Flow {
        let scope = Scope::Ports {
            source: if shape & ANY_SOURCE == 0 { self.ports.0 } else { 0 },
            destination: if shape & ANY_DESTINATION == 0 { self.ports.1 } else { 0 },
            dscp: (shape & ANY_DSCP == 0).then_some(self.dscp & 63),
        };
        Flow { destination: self.destination, protocol: self.protocol, scope }
    }
}

/// What an outer packet shows of its flow (RFC 2207 section 4.1; the source is that of the association).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OuterName {
    /// The destination of the outer header.
    pub destination: IpAddr,
    /// The protocol: 50 for ESP, 51 for AH.
    pub protocol: u8,
    /// The security parameter index.
    pub spi: u32,
}

impl OuterName {
    fn flow(&self) -> Flow {
        let scope = Scope::Spi { spi: self.spi, virtual_port: 0 };
        Flow { destination: self.destination, protocol: self.protocol, scope }
    }
}

const ANY_SOURCE: usize = 1;
const ANY_DESTINATION: usize = 2;
const ANY_DSCP: usize = 4;

/// The sets of wildcards, the fewest first.
const ORDER: [usize; SHAPES] = [0, 1, 2, 4, 3, 5, 6, 7];

/// The wildcards of a flow by ports; `None` for one by SPI.
fn shape(flow: &Flow) -> Option<usize> {
    match flow.scope {
        Scope::Spi { .. } => None,
        Scope::Ports { source, destination, dscp } => {
            let bit = |is_any: bool, bit: usize| if is_any { bit } else { 0 };
            let ports = bit(source == 0, ANY_SOURCE) | bit(destination == 0, ANY_DESTINATION);
            Some(ports | bit(dscp.is_none(), ANY_DSCP))
        }
    }
}
