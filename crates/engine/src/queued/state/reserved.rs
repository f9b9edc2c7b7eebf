//! The reserved flows of a graph: packets within the rate get the class of the reservation (docs/design/0044). Nothing
//! of this is asked where nothing is reserved.

use qos::reservation::{Flow, FlowCounts, FlowTerms, InnerName, OuterName, ReservedFlows};
use qos::{AggregateId, Amount};
use wire::Time;

use super::super::Reserved;
use super::{GraphState, Wait};

impl<W: Wait> GraphState<W> {
    /// Reserve for a flow, or change what is reserved for it; whether there was room. The key is for the hashes of
    /// flows, of which there are `most`.
    pub(crate) fn reserve(&mut self, key: [u8; 16], most: usize, flow: &Flow, terms: FlowTerms) -> bool {
        self.reserved.get_or_insert_with(|| Box::new(ReservedFlows::new(key, most))).put(flow, terms)
    }

    /// Reserve for a flow no more.
    pub(crate) fn end_reservation(&mut self, flow: &Flow) {
        if let Some(flows) = &mut self.reserved {
            flows.remove(flow);
            if flows.is_empty() {
                self.reserved = None;
            }
        }
    }

    /// The packets that came of reserved flows, in the order of the flows.
    pub(crate) fn reserved_counts(&self, flows: &[Flow]) -> Vec<FlowCounts> {
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
