//! A graph of the inbound half, with the packets that wait in it.
//!
//! What enters: packets and bursts that name an association, with what is known of them. What leaves: the same, by their
//! tickets. The steps between are in `queued.rs`.

use std::net::IpAddr;

use crypto::SuiteId;
use qos::behaviour::{AuthBudget, Demotion};
use qos::dispatcher::JobId;
use qos::graph::Graph;
use qos::graph::description::HookPoint;
use qos::node::{Ended, Wake};
use qos::unit::UnitId;
use qos::{Amount, Colour, Context, Direction, HeaderKind};
use sadb::InboundSa;
use sadb::sa::{Encapsulation, SaProtocol};
use wire::stage::Raw;
use wire::{AggregateId, Burst, Packet, Time};

use crate::outbound::{CopiedPacket, GraphError};
use crate::queued::{FlowHash, LONGEST_IN_CELL, Slots, Ticket};
use crate::random::Random;

/// The most packets and bursts that wait at a time. Limits of queues are below it; it bounds the memory of what has none.
const ROOM: u32 = 4096;

/// The most packets and bursts longer than a cell that wait at a time. Each keeps a buffer of [`crate::BUF_CAPACITY`]
/// octets.
const MOST_LARGE: usize = 64;

/// The nanoseconds that packets of one source may cost in an association without being authentic, until others go first.
const AUTH_BUDGET: u64 = 2_000_000;

/// The pairs of association and source whose failures are counted apart.
const PAIRS: usize = 1024;

/// The jobs of one turn at most: a turn is short, whatever the unit wants.
pub(super) const MOST_JOBS: usize = 64;

/// What waits in one place.
pub(super) enum Waiting {
    /// A packet whose outer headers were read.
    Packet(Packet<Raw>),
    /// Datagrams of one association.
    Burst(Burst<Raw>),
}

impl Waiting {
    fn len(&self) -> usize {
        match self {
            Waiting::Packet(packet) => packet.bytes().len(),
            Waiting::Burst(burst) => burst.bytes().len(),
        }
    }
}

/// The outer header by which an association is found.
#[derive(Clone, Copy)]
pub(super) struct Name {
    pub(super) spi: u32,
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    /// The type of service.
    pub(super) tos: u8,
}

/// A packet or burst that waits, with the name of its association.
pub(super) struct WaitingEntry {
    pub(super) name: Name,
    pub(super) waiting: Waiting,
}

/// A job that was given to a unit and is not settled.
#[derive(Clone, Copy)]
pub(super) struct Assigned {
    unit: UnitId,
    job: JobId,
    /// The cost that was expected, by which the time of the turn is shared out.
    expected: u64,
}

impl Assigned {
    pub(super) fn new(unit: UnitId, job: JobId, expected: u64) -> Assigned {
        Assigned { unit, job, expected }
    }
}

/// A graph of the inbound half, with the packets that wait in it.
pub struct InboundGraph {
    pub(super) graph: Graph<Ticket>,
    pub(super) waiting: Slots<WaitingEntry>,
    /// Packets and bursts that wait in buffers of full size.
    pub(super) large: usize,
    /// Packets and bursts that found no place to wait.
    pub(super) no_place: u64,
    /// The suites in order, with their numbers in the graph.
    suites: Vec<(SuiteId, u16)>,
    pub(super) ended: Vec<Ended<Ticket>>,
    pub(super) given: Vec<Assigned>,
    pub(super) began: Time,
    pub(super) hash: FlowHash,
    random: Random,
    /// The work that went into packets that were not authentic, of each association and source.
    pub(super) budget: AuthBudget,
    /// The class of sources that used their budget up.
    pub(super) lowest: AggregateId,
    /// Copies of the packets whose outcomes follow, for those who capture; `None`: nobody does.
    pub(super) copies: Option<Vec<CopiedPacket>>,
}

impl InboundGraph {
    /// A graph of the engine. `suites` are those that associations can have, with their numbers in the graph's list;
    /// `seed` is random and secret.
    ///
    /// # Errors
    /// The reason why the engine cannot use it.
    pub fn new(
        graph: Graph<Ticket>,
        mut suites: Vec<(SuiteId, u16)>,
        seed: u64,
    ) -> Result<InboundGraph, GraphError> {
        if graph.direction() != Direction::Inbound {
            return Err(GraphError::Direction);
        }
        for at in [HookPoint::In4a, HookPoint::In2a] {
            if !graph.is_plain(at) {
                return Err(GraphError::BehindCryptography(at));
            }
        }
        suites.sort_unstable();
        let unmarked = qos::Meta { direction: Direction::Inbound, ..qos::Meta::default() };
        let less = graph.aggregates().find("le").filter(|class| graph.has(*class));
        let lowest = less.unwrap_or_else(|| graph.classify(&unmarked));
        let demotion = Demotion::Aggregate(lowest);
        let budget = AuthBudget::new(AUTH_BUDGET, demotion, PAIRS, seed.rotate_left(41));
        Ok(InboundGraph {
            graph,
            waiting: Slots::new(ROOM),
            large: 0,
            no_place: 0,
            suites,
            ended: Vec::with_capacity(ROOM as usize),
            given: Vec::with_capacity(MOST_JOBS),
            began: Time::default(),
            hash: FlowHash::new(seed),
            random: Random::new(seed.rotate_left(29)),
            budget: budget.map_err(|_| GraphError::Direction)?,
            lowest,
            copies: None,
        })
    }

    /// The graph, to be asked.
    pub fn graph(&self) -> &Graph<Ticket> {
        &self.graph
    }

    /// The number of packets and bursts that wait, and the number that can.
    pub fn waiting(&self) -> (usize, usize) {
        (self.waiting.len(), self.waiting.capacity())
    }

    /// The packets and bursts that found no place to wait, a burst as one, since the instance began.
    pub fn no_place(&self) -> u64 {
        self.no_place
    }

    pub(super) fn context(&mut self, now: Time) -> Context {
        Context { now, random: self.random.next() }
    }

    /// The facts of packets of an association, as far as the outer header and the association tell them.
    pub(super) fn describe(
        &self,
        sa: &InboundSa,
        name: &Name,
        now: Time,
        (packets, octets): (u64, u64),
    ) -> qos::Meta {
        let config = sa.config();
        let named = config.options.aggregate;
        let header = match (config.options.protocol, config.options.encapsulation) {
            (SaProtocol::Ah, _) => HeaderKind::Ah,
            (SaProtocol::IpComp | SaProtocol::IpIp, _) => HeaderKind::IpComp,
            (SaProtocol::Esp, Encapsulation::Udp) => HeaderKind::EspInUdp,
            (SaProtocol::Esp, Encapsulation::None) => HeaderKind::Esp,
        };
        let dscp = name.tos >> 2;
        let mut meta = qos::Meta {
            arrived: now,
            amount: Amount { packets, octets, ns: 0 },
            association: name.spi,
            spi: name.spi,
            user: self.hash.source(name.src),
            flow: self.hash.association((name.src, name.dst), name.spi),
            app: config.selectors.app.unwrap_or_default(),
            peer: self.graph.peers().number(name.src),
            colour: Colour::Green,
            // The inner header is hidden still, so the outer one stands for it.
            dscp: [dscp, dscp],
            ecn: name.tos & 3,
            header,
            direction: Direction::Inbound,
            aggregate: if self.graph.has(named) { named } else { AggregateId::DEFAULT },
            ..qos::Meta::default()
        };
        self.demote(&mut meta);
        let place = self.suites.binary_search_by_key(&config.suite, |(suite, _)| *suite);
        let number = place.ok().and_then(|place| self.suites.get(place)).map(|(_, number)| *number);
        meta.suite = number.unwrap_or(0);
        meta.amount.ns = self.graph.expected(meta.suite, Direction::Inbound, &meta.amount);
        meta
    }

    /// The units that can serve packets of an association in a class.
    pub(super) fn serve(&self, sa: &InboundSa, meta: &mut qos::Meta) {
        let suite = sa.config().suite;
        let place = self.suites.binary_search_by_key(&suite, |(suite, _)| *suite);
        let number = place.ok().and_then(|place| self.suites.get(place)).map(|(_, number)| *number);
        let capable = |number| self.graph.dispatcher().capable(number, meta.aggregate);
        meta.units = number.map_or(qos::UnitMask(0), capable);
        meta.suite = number.unwrap_or(0);
    }

    /// Take a source that used its budget up out of its class. Nothing that it writes into its header helps.
    pub(super) fn demote(&self, meta: &mut qos::Meta) {
        if self.budget.is_demoted(meta.association, meta.user) {
            meta.aggregate = self.lowest;
            meta.dscp = [0, 0];
        }
    }

    /// Put what waits into a place. It is given back if there is none.
    #[expect(clippy::result_large_err, reason = "it is the packet, whose buffer must not be lost")]
    pub(super) fn keep(&mut self, held: WaitingEntry) -> Result<Ticket, WaitingEntry> {
        let is_large = held.waiting.len() > LONGEST_IN_CELL;
        let kept = match is_large && !self.has_room_for_large() {
            true => Err(held),
            false => self.waiting.insert(held),
        };
        match kept {
            Ok(_) => self.large += usize::from(is_large),
            Err(_) => self.no_place += 1,
        }
        kept
    }

    /// Whether one more that is longer than a cell may wait.
    pub(super) fn has_room_for_large(&self) -> bool {
        self.large < MOST_LARGE
    }

    /// Take what waits out of its place.
    pub(super) fn take(&mut self, ticket: Ticket) -> Option<WaitingEntry> {
        let held = self.waiting.take(ticket)?;
        self.large -= usize::from(held.waiting.len() > LONGEST_IN_CELL && self.large > 0);
        Some(held)
    }

    /// Copy a packet for those who capture, whose outcomes begin at this place.
    #[inline]
    pub(super) fn copy<S>(&mut self, packet: &Packet<S>, from: usize) {
        if let Some(copies) = &mut self.copies {
            copies.push(CopiedPacket { octets: packet.bytes().to_vec(), meta: packet.meta, from });
        }
    }

    /// Forget the latest copy if nothing has become of it: its packet waits.
    #[inline]
    pub(super) fn forget(&mut self, outcomes: usize) {
        if let Some(copies) = &mut self.copies {
            copies.pop_if(|copy| copy.from == outcomes);
        }
    }

    /// Say that what the last turn brought is carried out; see [`super::Inbound::settle`].
    pub(super) fn settle(&mut self, now: Time) -> Wake {
        let context = self.context(now);
        let spent = now.0.saturating_sub(self.began.0);
        let expected: u64 = self.given.iter().map(|given| given.expected.max(1)).sum();
        for given in self.given.drain(..) {
            let share = u128::from(spent) * u128::from(given.expected.max(1)) / u128::from(expected.max(1));
            // The inline unit answers in order and at once; a fault is one of time, and was counted.
            let _ = self.graph.done(given.unit, given.job, share as u64, &context);
        }
        self.graph.wake(&context)
    }
}
