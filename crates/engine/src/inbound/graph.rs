//! A graph of the inbound half, with the packets that wait in it.
//!
//! What enters: packets and bursts that name an association, with what is known of them. What leaves: the same, by their
//! tickets. The steps between are in `queued.rs`.

use std::collections::VecDeque;

use crypto::SuiteId;
use qos::behaviour::{AuthBudget, Demotion};
use qos::graph::Graph;
use qos::graph::description::HookPoint;
use qos::node::Wake;
use qos::reservation::{Flow, FlowCounts};
use qos::{Amount, Colour, Direction};
use sadb::InboundSa;
use wire::stage::Raw;
use wire::{AggregateId, Burst, Packet, Time};

use super::name::Name;
use super::nested::NestedPacket;
use super::opened::{Collected, Opened};
use super::work::{OpenTask, OpenWork};
use crate::queued::{
    Flights, GraphError, GraphState, Reserved, Sliced, Ticket, UnitFaults, Wait, WaitStage, header_kind,
    outer_name,
};

/// The nanoseconds that packets of one source may cost in an association without being authentic, until others go first.
/// Only an authentic packet gives them back.
const AUTH_BUDGET: u64 = 2_000_000;

/// The pairs of association and source whose failures are counted apart.
const PAIRS: usize = 1024;

/// What waits in one place.
pub(super) enum Waiting {
    /// A packet whose outer headers were read.
    Packet(Packet<Raw>),
    /// Datagrams of one association.
    Burst(Burst<Raw>),
    /// A packet between two members of its bundle. It is in a box, so that the places of all others stay small.
    Nested(Box<NestedEntry>),
    /// Packets for the host, behind cryptography.
    Opened(Opened),
}

/// A packet that waits between two members of its bundle.
pub(super) struct NestedEntry {
    pub(super) nested: NestedPacket,
    /// Whether it waits behind the member before (4a), and not in front of the next one (3a).
    pub(super) is_behind: bool,
}

/// A packet or burst that waits, with the name of its association.
pub(super) struct WaitingEntry {
    pub(super) name: Name,
    pub(super) waiting: Waiting,
}

impl Wait for WaitingEntry {
    fn octets(&self) -> usize {
        match &self.waiting {
            Waiting::Packet(packet) => packet.bytes().len(),
            Waiting::Burst(burst) => burst.bytes().len(),
            Waiting::Nested(entry) => entry.nested.octets(),
            Waiting::Opened(opened) => opened.octets(),
        }
    }

    fn stage(&self) -> WaitStage {
        match &self.waiting {
            Waiting::Packet(_) | Waiting::Burst(_) => WaitStage::Ahead,
            // What came in a tunnel without a key has cost nothing yet.
            Waiting::Nested(entry) if entry.nested.is_new => WaitStage::Ahead,
            Waiting::Nested(_) => WaitStage::Between,
            Waiting::Opened(_) => WaitStage::Behind,
        }
    }
}

impl WaitingEntry {
    /// Whether it waits at hooks 4 or 2.
    pub(super) fn is_behind(&self) -> bool {
        match &self.waiting {
            Waiting::Packet(_) | Waiting::Burst(_) => false,
            Waiting::Nested(entry) => entry.is_behind,
            Waiting::Opened(_) => true,
        }
    }
}

/// A graph of the inbound half, with the packets that wait in it.
pub struct InboundGraph {
    pub(super) state: GraphState<WaitingEntry>,
    /// The work that went into packets that were not authentic, of each association and source.
    pub(super) budget: AuthBudget,
    /// The class of sources that used their budget up.
    lowest: AggregateId,
    /// What is collected of the job that is under way, for the queues behind cryptography.
    pub(super) collected: Collected,
    /// Work that units answer later.
    pub(super) flights: Flights<OpenWork>,
    /// Work that is ready for its unit.
    pub(super) departed: VecDeque<OpenWork>,
    /// Work that this thread does in steps.
    pub(super) sliced: Sliced<OpenWork>,
    /// What is put together for a unit that answers later.
    pub(super) tasks: Vec<OpenTask>,
    /// Lists without tasks, for further work.
    pub(super) lists: Vec<Vec<OpenTask>>,
    /// Lists of results, for further bursts.
    pub(super) spare: Vec<Vec<ipsec::slot::Opened>>,
}

impl InboundGraph {
    /// A graph of the engine. `suites` are those that associations can have, with their numbers in the graph's list;
    /// `seed` is random and secret.
    ///
    /// # Errors
    /// The reason why the engine cannot use it.
    pub fn new(
        graph: Graph<Ticket>,
        suites: Vec<(SuiteId, u16)>,
        seed: u64,
    ) -> Result<InboundGraph, GraphError> {
        let is_plain = graph.is_plain(HookPoint::In4a) && graph.is_plain(HookPoint::In2a);
        let collected = Collected::new(!is_plain || graph.marks());
        let state = GraphState::new(Direction::Inbound, graph, suites, seed)?;
        let unmarked = qos::Meta { direction: Direction::Inbound, ..qos::Meta::default() };
        let less = state.graph.aggregates().find("le").filter(|class| state.graph.has(*class));
        let lowest = less.unwrap_or_else(|| state.graph.classify(&unmarked));
        let demotion = Demotion::Aggregate(lowest);
        let budget = AuthBudget::new(0, AUTH_BUDGET, demotion, PAIRS, seed.rotate_left(41));
        Ok(InboundGraph {
            state,
            budget: budget.map_err(|_| GraphError::Direction)?,
            lowest,
            collected,
            flights: Flights::default(),
            departed: VecDeque::new(),
            sliced: Sliced::default(),
            tasks: Vec::new(),
            lists: Vec::new(),
            spare: Vec::new(),
        })
    }

    /// The graph, to be asked.
    pub fn graph(&self) -> &Graph<Ticket> {
        &self.state.graph
    }

    /// The number of packets and bursts that wait, and the number that can.
    pub fn waiting(&self) -> (usize, usize) {
        self.state.room()
    }

    /// The packets and bursts that found no place to wait, a burst as one, since the instance began.
    pub fn no_place(&self) -> u64 {
        self.state.no_place()
    }

    /// What units did wrong that answer later.
    pub fn unit_faults(&self) -> UnitFaults {
        self.state.faults
    }

    /// The number of packets that the last turn opened, with those that were answered since the turn before.
    pub fn last_turn(&self) -> usize {
        usize::try_from(self.state.pace.packets).unwrap_or(usize::MAX)
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

    /// The facts of packets of an association, as far as the outer header and the association tell them.
    pub(super) fn describe(
        &mut self,
        sa: &InboundSa,
        name: &Name,
        now: Time,
        (packets, octets): (u64, u64),
    ) -> qos::Meta {
        let config = sa.config();
        let named = config.options.aggregate;
        let dscp = name.tos >> 2;
        let mut meta = qos::Meta {
            arrived: now,
            amount: Amount { packets, octets, ns: 0 },
            association: name.spi,
            spi: name.spi,
            user: self.state.hash.source(name.src),
            flow: self.state.hash.association((name.src, name.dst), name.spi),
            app: config.selectors.app.unwrap_or_default(),
            colour: Colour::Green,
            // The inner header is hidden still, so the outer one stands for it.
            dscp: [dscp, dscp],
            ecn: name.tos & 3,
            header: header_kind(config),
            direction: Direction::Inbound,
            aggregate: if self.state.graph.has(named) { named } else { AggregateId::DEFAULT },
            ..qos::Meta::default()
        };
        self.state.note_peer(&mut meta, name.src);
        if self.state.has_reserved()
            && !self.budget.is_demoted(meta.association, meta.user, now)
            && let Some(outer) = outer_name(config, name.dst, name.spi)
            && let (Reserved::Within, class) = self.state.ask_reserved(now, &meta.amount, None, Some(&outer))
        {
            meta.aggregate = class;
        }
        self.demote(&mut meta, now);
        (meta.suite, _) = self.state.served(config.suite, meta.aggregate);
        meta.amount.ns = self.state.graph.expected(meta.suite, Direction::Inbound, &meta.amount);
        meta
    }

    /// The number of datagrams of an association, from the first on, that keep within the rate that is reserved for it;
    /// `None` if none is.
    pub(super) fn within_reserved(
        &mut self,
        sa: &InboundSa,
        name: &Name,
        now: Time,
        lengths: impl Iterator<Item = u64>,
    ) -> Option<usize> {
        let source = self.state.hash.source(name.src);
        if !self.state.has_reserved() || self.budget.is_demoted(name.spi, source, now) {
            return None;
        }
        self.state.within_reserved(now, &outer_name(sa.config(), name.dst, name.spi)?, lengths)
    }

    /// Whether what has this ticket came out of another association, or a tunnel.
    #[inline]
    pub(super) fn is_nested(&self, item: Ticket) -> bool {
        self.state.waiting.get(item).is_some_and(|held| matches!(held.waiting, Waiting::Nested(_)))
    }

    /// The units that can serve packets of an association in a class.
    pub(super) fn serve(&self, sa: &InboundSa, meta: &mut qos::Meta) {
        (meta.suite, meta.units) = self.state.served(sa.config().suite, meta.aggregate);
    }

    /// Take a source that used its budget up out of its class. Nothing that it writes into its header helps.
    pub(super) fn demote(&self, meta: &mut qos::Meta, now: Time) {
        if self.budget.is_demoted(meta.association, meta.user, now) {
            meta.aggregate = self.lowest;
            meta.dscp = [0, 0];
        }
    }

    /// A packet has left cryptography. It goes on to the queues behind, or limits count it no more.
    #[inline]
    pub(super) fn leave(&mut self, meta: &qos::Meta) {
        if !self.collected.note(meta.amount) {
            self.state.graph.pass(meta);
        }
    }

    /// Say that what the last turn brought is carried out; see [`super::Inbound::settle`].
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

    /// Take over what waits in the graph before. Who was demoted stays so: the hashes of sources are what they were.
    pub(super) fn adopt(&mut self, before: InboundGraph, now: Time) {
        self.budget = before.budget;
        self.collected.adopt(before.collected);
        (self.flights, self.departed) = (before.flights, before.departed);
        (self.lists, self.spare) = (before.lists, before.spare);
        let (addresses, were) = (self.state.graph.addresses(), before.state.graph.addresses());
        self.flights.metas_mut().for_each(|meta| addresses.renumber(were, meta));
        self.state.adopt(before.state, now);
    }
}
