//! A graph of the outbound half, with the packets that wait in it.
//!
//! What enters: packets with what is known of them. What leaves: the same packets, by their tickets. The steps between
//! are in `queued.rs`.

use std::collections::VecDeque;

use crypto::SuiteId;
use qos::dispatcher::JobId;
use qos::graph::Graph;
use qos::graph::description::HookPoint;
use qos::node::Wake;
use qos::reservation::{Flow, FlowCounts};
use qos::unit::UnitId;
use qos::{Direction, HeaderKind, UnitMask};
use sadb::OutboundSa;
use wire::stage::{Inner, Selected};
use wire::{AggregateId, Packet, SegmentPosition, Time};

use super::finished::{Collected, Finished};
use super::protector::{BundledPacket, SealTask, SealWork};
use super::selection::Selection;
use crate::queued::{
    CopiedPacket, FlightJob, Flights, GraphError, GraphState, Reserved, Sliced, Ticket, UnitFaults, Wait,
    WaitStage, header_kind, inner_name, outer_name,
};

/// A packet that waits.
pub(super) enum Waiting {
    /// It waits for its look-up.
    Received(Packet<Inner>, Reserved),
    /// It waits for its turn with the association that was chosen for it.
    Selected(Chosen),
    /// It waits between two members of its bundle. It is in a box, so that the places of all others stay small.
    Bundled(Box<BundledEntry>),
    /// It is ready for the wire, and waits behind cryptography.
    Finished(Finished),
}

/// A packet that waits between two members of its bundle.
pub(super) struct BundledEntry {
    pub(super) packet: BundledPacket,
    /// The copies of the packet, for those who capture.
    pub(super) copies: Vec<CopiedPacket>,
    /// Whether it waits behind the member before (4a), and not in front of the next one (3a).
    pub(super) is_behind: bool,
}

/// A packet that waits for its turn.
pub(super) struct Chosen {
    pub(super) packet: Packet<Selected>,
    pub(super) selection: Selection,
    /// The epoch of policy and associations in which it was decided.
    pub(super) epoch: u64,
    /// The place up to which a super-packet has left.
    pub(super) sent: SegmentPosition,
}

impl Wait for Waiting {
    fn octets(&self) -> usize {
        match self {
            Waiting::Received(packet, _) => packet.bytes().len(),
            Waiting::Selected(chosen) => chosen.packet.bytes().len(),
            Waiting::Bundled(entry) => entry.packet.packet.bytes().len(),
            Waiting::Finished(finished) => finished.octets(),
        }
    }

    fn stage(&self) -> WaitStage {
        match self {
            Waiting::Received(..) | Waiting::Selected(_) => WaitStage::Ahead,
            Waiting::Bundled(_) => WaitStage::Between,
            Waiting::Finished(_) => WaitStage::Behind,
        }
    }
}

/// A graph of the outbound half, with the packets that wait in it.
pub struct OutboundGraph {
    pub(super) state: GraphState<Waiting>,
    /// The class of the packet that had the last turn.
    pub(super) last: AggregateId,
    /// What the graph knows of the packet whose look-up is under way, and what came of it at the reserved flows.
    pub(super) entering: Option<(qos::Meta, Reserved)>,
    /// The outcomes of the turn that is under way, for the queues behind cryptography.
    pub(super) collected: Collected,
    /// Work that units answer later.
    pub(super) flights: Flights<SealWork>,
    /// Work that is ready for its unit.
    pub(super) departed: VecDeque<SealWork>,
    /// Work that this thread does in steps.
    pub(super) sliced: Sliced<SealWork>,
    /// Lists without tasks, for further work.
    pub(super) lists: Vec<Vec<SealTask>>,
}

impl OutboundGraph {
    /// A graph of the engine. `suites` are those that associations can have, with their numbers in the graph's list;
    /// `seed` is random and secret.
    ///
    /// # Errors
    /// The reason why the engine cannot use it.
    pub fn new(
        graph: Graph<Ticket>,
        suites: Vec<(SuiteId, u16)>,
        seed: u64,
    ) -> Result<OutboundGraph, GraphError> {
        let is_plain = graph.is_plain(HookPoint::In4a) && graph.is_plain(HookPoint::In2a);
        // An outer header is written behind cryptography.
        let collected = Collected::new(!is_plain, graph.marks());
        Ok(OutboundGraph {
            state: GraphState::new(Direction::Outbound, graph, suites, seed)?,
            last: AggregateId::DEFAULT,
            entering: None,
            collected,
            flights: Flights::default(),
            departed: VecDeque::new(),
            sliced: Sliced::default(),
            lists: Vec::new(),
        })
    }

    /// The graph, to be asked.
    pub fn graph(&self) -> &Graph<Ticket> {
        &self.state.graph
    }

    /// The number of packets that wait, and the number that can.
    pub fn waiting(&self) -> (usize, usize) {
        self.state.room()
    }

    /// The packets that were dropped since no place was left for them, whatever their class; a super-packet is one.
    pub fn no_place(&self) -> u64 {
        self.state.no_place()
    }

    /// The nanoseconds that a packet with so many octets is expected to cost, with the costliest of these suites; with
    /// that of all suites, if none of these is known.
    pub fn costliest(&self, suites: &[SuiteId], octets: u64) -> u64 {
        self.state.costliest(suites, octets)
    }

    /// The packets that came of reserved flows, in the order of the flows.
    pub fn reserved_counts(&self, flows: &[Flow]) -> Vec<FlowCounts> {
        self.state.reserved_counts(flows)
    }

    /// The number of packets of a class that the graph has room for.
    pub(super) fn room(&self, aggregate: AggregateId) -> u64 {
        self.state.room_of(aggregate)
    }

    /// What units did wrong that answer later.
    pub fn unit_faults(&self) -> UnitFaults {
        self.state.faults
    }

    /// The number of jobs that the last turn had, with those that were answered since the turn before.
    pub fn last_turn(&self) -> usize {
        self.state.pace.jobs
    }

    /// The number of an association's suite in the graph, and the facts that its packets have.
    pub(super) fn known(&self, sa: &OutboundSa, aggregate: AggregateId) -> (u16, UnitMask, HeaderKind) {
        let config = sa.config();
        let (suite, units) = self.state.served(config.suite, aggregate);
        (suite, units, header_kind(config))
    }

    /// Note the far end of an association in what is known of a packet.
    #[inline]
    pub(super) fn note_peer(&self, meta: &mut qos::Meta, sa: &OutboundSa) {
        self.state.note_peer(meta, sa.config().endpoints.remote);
    }

    /// A packet has left cryptography, or needs none. Returns whether it goes on to queues behind, with the outcomes that
    /// are offered next; if not, limits count it no more.
    #[inline]
    pub(super) fn leave(&mut self, meta: &qos::Meta) -> bool {
        if self.collected.is_wanted {
            self.collected.note(meta);
        } else {
            self.state.graph.pass(meta);
        }
        self.collected.is_wanted
    }

    /// A packet is in the work that is put together for a unit which answers later. It leaves cryptography with the answer.
    pub(super) fn postpone(&mut self, unit: UnitId, job: JobId, meta: &qos::Meta) {
        let expected = self.state.postpone(job);
        self.flights.add(unit, FlightJob { job, meta: *meta, expected });
    }

    /// Compare a packet with the reserved flows: by its flow, and by its association, as far as each is known. One within
    /// the rate gets the class.
    #[cold]
    pub(super) fn ask_reserved(
        &mut self,
        now: Time,
        flow: Option<&wire::Flow>,
        sa: Option<&OutboundSa>,
        meta: &mut qos::Meta,
    ) -> Reserved {
        let inner = flow.map(|flow| inner_name(flow, meta.dscp[1]));
        let outer = sa.and_then(|sa| outer_name(sa.config(), sa.config().endpoints.remote, sa.spi().0));
        let (found, class) = self.state.ask_reserved(now, &meta.amount, inner.as_ref(), outer.as_ref());
        if found == Reserved::Within {
            meta.aggregate = class;
        }
        found
    }

    /// Say that what the last turn brought is carried out; see [`super::Outbound::settle`].
    pub(super) fn settle(&mut self, now: Time) -> Wake {
        let context = self.state.context(now);
        let was_step = self.sliced.settle(now);
        while let Some((flight, spent)) = self.sliced.next_done() {
            self.state.answer(&flight, spent, &context);
            self.flights.recycle(flight.jobs);
        }
        if !was_step || self.state.has_given() {
            self.state.settle(&context);
        }
        self.state.graph.wake(&context)
    }

    /// Take over what waits in the graph before, and what was learned.
    pub(super) fn adopt(&mut self, before: OutboundGraph, now: Time) {
        self.collected.adopt(before.collected);
        (self.flights, self.departed, self.lists) = (before.flights, before.departed, before.lists);
        let (addresses, were) = (self.state.graph.addresses(), before.state.graph.addresses());
        self.flights.metas_mut().for_each(|meta| addresses.renumber(were, meta));
        self.state.adopt(before.state, now);
    }
}
