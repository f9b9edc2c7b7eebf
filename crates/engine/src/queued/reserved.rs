//! Packets of reserved flows: they get the class of the reservation while they keep within its rate (docs/design/0044).
//!
//! Outbound a flow is found by what the inner packet shows, or by the association once it is known; inbound by the
//! association that the outer header names. Nothing of this is asked for where nothing is reserved.

use std::net::IpAddr;

use qos::reservation::{Flow as ReservedName, FlowCounts, FlowTerms, InnerName, OuterName, ReservedFlows};
use qos::{AggregateId, Amount};
use sadb::sa::{SaConfig, SaProtocol};
use wire::{Flow, Time, protocol};

use super::{GraphState, Wait};

/// What came of comparing a packet with the reserved flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reserved {
    /// No reservation is for it, as far as is known of it.
    #[default]
    None,
    /// It keeps within the rate of its flow, and has the class of the reservation.
    Within,
    /// It is beyond the rate of its flow, and has the class that it would have had without.
    Beyond,
}

/// The outer flow of an association to this destination, as RFC 2207 names it; `None` for protocols without an SPI.
pub(crate) fn outer_name(config: &SaConfig, destination: IpAddr, spi: u32) -> Option<OuterName> {
    let protocol = match config.options.protocol {
        SaProtocol::Esp => protocol::ESP,
        SaProtocol::Ah => protocol::AH,
        SaProtocol::IpComp | SaProtocol::IpIp => return None,
    };
    Some(OuterName { destination, protocol, spi })
}

/// What an inner packet shows of its flow.
pub(crate) fn inner_name(flow: &Flow, dscp: u8) -> InnerName {
    let ports = (flow.local_port, flow.remote_port);
    InnerName { destination: flow.remote, protocol: flow.protocol, ports, dscp }
}

impl<W: Wait> GraphState<W> {
    /// Reserve for a flow, or change what is reserved for it; whether there was room. The key is for the hashes of
    /// flows, of which there are `most`.
    pub(crate) fn reserve(
        &mut self,
        key: [u8; 16],
        most: usize,
        flow: &ReservedName,
        terms: FlowTerms,
    ) -> bool {
        self.reserved.get_or_insert_with(|| Box::new(ReservedFlows::new(key, most))).put(flow, terms)
    }

    /// Reserve for a flow no more.
    pub(crate) fn end_reservation(&mut self, flow: &ReservedName) {
        if let Some(flows) = &mut self.reserved {
            flows.remove(flow);
            if flows.is_empty() {
                self.reserved = None;
            }
        }
    }

    /// The packets that came of reserved flows, in the order of the flows.
    pub(crate) fn reserved_counts(&self, flows: &[ReservedName]) -> Vec<FlowCounts> {
        let counts =
            |flow| self.reserved.as_ref().and_then(|reserved| reserved.counts(flow)).unwrap_or_default();
        flows.iter().map(counts).collect()
    }

    /// Whether anything is reserved.
    #[inline]
    pub(crate) fn has_reserved(&self) -> bool {
        self.reserved.is_some()
    }

    /// Compare a packet with the reserved flows, by what the inner packet shows and by its association, as far as each
    /// is known. With it goes the class of one that is within its rate.
    pub(crate) fn ask_reserved(
        &mut self,
        now: Time,
        amount: &Amount,
        inner: Option<&InnerName>,
        outer: Option<&OuterName>,
    ) -> (Reserved, AggregateId) {
        let found = self.reserved.as_mut().and_then(|flows| flows.find(inner, outer));
        // A class of the other direction, or of a graph that is not in force yet, is none.
        let Some(found) = found.filter(|found| self.graph.has(found.class())) else {
            return (Reserved::None, AggregateId::DEFAULT);
        };
        match found.take(now, amount) {
            Some(class) => (Reserved::Within, class),
            None => (Reserved::Beyond, AggregateId::DEFAULT),
        }
    }

    /// The number of datagrams of an outer flow, from the first on, that keep within the rate of their flow; `None` if
    /// nothing is reserved for it.
    pub(crate) fn within_reserved(
        &mut self,
        now: Time,
        outer: &OuterName,
        lengths: impl Iterator<Item = u64>,
    ) -> Option<usize> {
        let found = self.reserved.as_mut()?.find(None, Some(outer))?;
        self.graph.has(found.class()).then(|| found.within(now, lengths))
    }
}
