//! A graph of the outbound half, with the packets that wait in it.
//!
//! What enters: packets with what is known of them. What leaves: the same packets, by their tickets. The steps between
//! are in `queued.rs`.

use crypto::SuiteId;
use qos::dispatcher::JobId;
use qos::graph::Graph;
use qos::graph::description::HookPoint;
use qos::node::{Ended, Wake};
use qos::unit::UnitId;
use qos::{Amount, Context, Direction, HeaderKind, UnitMask};
use sadb::OutboundSa;
use sadb::sa::{Encapsulation, SaProtocol};
use wire::stage::{Inner, Selected};
use wire::{AggregateId, Packet, SegmentPosition, Time};

use super::selection::Selection;
use crate::queued::{FlowHash, LONGEST_IN_CELL, Slots, Ticket};
use crate::random::Random;

/// The most packets that wait at a time. Limits of queues are below it; it bounds the memory of what has none.
const ROOM: u32 = 4096;

/// The most packets longer than a cell that wait at a time. Each keeps a buffer of [`crate::BUF_CAPACITY`] octets.
const MOST_LARGE: usize = 64;

/// A packet that waits.
pub(super) enum Waiting {
    /// It waits for its look-up.
    Received(Packet<Inner>),
    /// It waits for its turn with the association that was chosen for it.
    Selected(Chosen),
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

/// A job that was given to a unit and is not settled.
#[derive(Clone, Copy)]
pub(super) struct Assigned {
    pub(super) unit: UnitId,
    pub(super) job: JobId,
    /// The cost that was expected, by which the time of the turn is shared out.
    pub(super) expected: u64,
}

/// A graph of the outbound half, with the packets that wait in it.
pub struct OutboundGraph {
    pub(super) graph: Graph<Ticket>,
    pub(super) waiting: Slots<Waiting>,
    /// Packets that wait in buffers of full size.
    pub(super) large: usize,
    /// Packets that found no place to wait, since the instance began.
    pub(super) no_place: u64,
    /// The suites in order, with their numbers in the graph.
    suites: Vec<(SuiteId, u16)>,
    pub(super) ended: Vec<Ended<Ticket>>,
    pub(super) given: Vec<Assigned>,
    /// The number of jobs that were settled last.
    settled: usize,
    pub(super) began: Time,
    /// The class of the packet that had the last turn.
    pub(super) last: AggregateId,
    pub(super) hash: FlowHash,
    random: Random,
    /// The nanoseconds that a packet took lately, for one whose association is not known yet.
    pub(super) usual: u64,
    /// What the graph knows of the packet whose look-up is under way.
    pub(super) entering: Option<qos::Meta>,
    /// Copies of the packets whose outcomes follow, for those who capture; `None`: nobody does.
    pub(super) copies: Option<Vec<CopiedPacket>>,
}

/// A copy of a packet as it was in front of its outcomes.
#[derive(Debug)]
pub struct CopiedPacket {
    /// The octets of the packet.
    pub octets: Vec<u8>,
    /// What was known of it.
    pub meta: wire::Meta,
    /// The place of its first outcome among those of the call.
    pub from: usize,
}

/// The reason why a graph cannot be used by the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphError {
    /// The graph is one of the other direction.
    Direction,
    /// Components hang at a hook behind cryptography, which this version passes over.
    BehindCryptography(HookPoint),
}

impl GraphError {
    /// The hook that the error is about.
    pub fn hook(self) -> Option<HookPoint> {
        match self {
            GraphError::Direction => None,
            GraphError::BehindCryptography(at) => Some(at),
        }
    }
}

impl std::fmt::Display for GraphError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            GraphError::Direction => f.write_str("the graph is one of the other direction"),
            GraphError::BehindCryptography(at) => {
                write!(f, "components at hook {} are not carried out yet; take them out", at.name())
            }
        }
    }
}

impl OutboundGraph {
    /// A graph of the engine. `suites` are those that associations can have, with their numbers in the graph's list;
    /// `seed` is random and secret.
    ///
    /// # Errors
    /// The reason why the engine cannot use it.
    pub fn new(
        graph: Graph<Ticket>,
        mut suites: Vec<(SuiteId, u16)>,
        seed: u64,
    ) -> Result<OutboundGraph, GraphError> {
        if graph.direction() != Direction::Outbound {
            return Err(GraphError::Direction);
        }
        for at in [HookPoint::In4a, HookPoint::In2a] {
            if !graph.is_plain(at) {
                return Err(GraphError::BehindCryptography(at));
            }
        }
        suites.sort_unstable();
        Ok(OutboundGraph {
            graph,
            waiting: Slots::new(ROOM),
            large: 0,
            no_place: 0,
            suites,
            ended: Vec::with_capacity(ROOM as usize),
            given: Vec::with_capacity(MOST_JOBS),
            settled: 0,
            began: Time::default(),
            last: AggregateId::DEFAULT,
            hash: FlowHash::new(seed),
            random: Random::new(seed.rotate_left(29)),
            usual: 1_000,
            entering: None,
            copies: None,
        })
    }

    /// The graph, to be asked.
    pub fn graph(&self) -> &Graph<Ticket> {
        &self.graph
    }

    /// The number of packets that wait, and the number that can.
    pub fn waiting(&self) -> (usize, usize) {
        (self.waiting.len(), self.waiting.capacity())
    }

    /// The packets that were dropped since no place was left for them, whatever their class; a super-packet is one.
    pub fn no_place(&self) -> u64 {
        self.no_place
    }

    /// The number of packets of a class that the graph has room for.
    pub(super) fn room(&self, aggregate: AggregateId) -> u64 {
        let places = self.waiting.capacity() - self.waiting.len();
        let each = Amount { packets: 1, octets: 1, ns: self.usual };
        self.graph.room(aggregate, each).min(places as u64)
    }

    /// The number of jobs that the last turn had.
    pub fn last_turn(&self) -> usize {
        self.settled
    }

    pub(super) fn context(&mut self, now: Time) -> Context {
        Context { now, random: self.random.next() }
    }

    /// The number of an association's suite in the graph, and the facts that its packets have.
    pub(super) fn known(&self, sa: &OutboundSa, aggregate: AggregateId) -> (u16, UnitMask, HeaderKind) {
        let config = sa.config();
        let place = self.suites.binary_search_by_key(&config.suite, |(suite, _)| *suite);
        let number = place.ok().and_then(|place| self.suites.get(place)).map(|(_, number)| *number);
        let units = number.map_or(UnitMask(0), |number| self.graph.dispatcher().capable(number, aggregate));
        let header = match (config.options.protocol, config.options.encapsulation) {
            (SaProtocol::Ah, _) => HeaderKind::Ah,
            (SaProtocol::IpComp | SaProtocol::IpIp, _) => HeaderKind::IpComp,
            (SaProtocol::Esp, Encapsulation::Udp) => HeaderKind::EspInUdp,
            (SaProtocol::Esp, Encapsulation::None) => HeaderKind::Esp,
        };
        (number.unwrap_or(0), units, header)
    }

    /// The number of an association's far end among those that the graph's rules name.
    #[inline]
    pub(super) fn peer(&self, sa: &OutboundSa) -> u16 {
        let peers = self.graph.peers();
        if peers.is_empty() { 0 } else { peers.number(sa.config().endpoints.remote) }
    }

    /// Put a packet into a place, in a cell if it is short enough. It is given back if there is none.
    #[expect(clippy::result_large_err, reason = "it is the packet, whose buffer must not be lost")]
    pub(super) fn keep(&mut self, waiting: Waiting, is_large: bool) -> Result<Ticket, Waiting> {
        let kept = match is_large && self.large >= MOST_LARGE {
            true => Err(waiting),
            false => self.waiting.insert(waiting),
        };
        match kept {
            Ok(_) => self.large += usize::from(is_large),
            Err(_) => self.no_place += 1,
        }
        kept
    }

    /// Copy a packet for those who capture, whose outcomes begin at this place.
    #[inline]
    pub(super) fn copy<S>(&mut self, packet: &Packet<S>, from: usize) {
        if let Some(copies) = &mut self.copies {
            copies.push(CopiedPacket { octets: packet.bytes().to_vec(), meta: packet.meta, from });
        }
    }

    /// Take a packet out of its place.
    pub(super) fn take(&mut self, ticket: Ticket) -> Option<Waiting> {
        let waiting = self.waiting.take(ticket)?;
        let len = match &waiting {
            Waiting::Received(packet) => packet.bytes().len(),
            Waiting::Selected(chosen) => chosen.packet.bytes().len(),
        };
        self.large -= usize::from(len > LONGEST_IN_CELL && self.large > 0);
        Some(waiting)
    }
}

/// The most nanoseconds that an unknown packet is expected to cost.
const MOST_USUAL: u64 = 1_000_000;

/// The jobs of one turn at most: a turn is short, whatever the unit wants.
pub(super) const MOST_JOBS: usize = 64;

impl OutboundGraph {
    pub(super) fn settle(&mut self, now: Time) -> Wake {
        let context = self.context(now);
        self.settled = self.given.len();
        if !self.given.is_empty() {
            let spent = now.0.saturating_sub(self.began.0);
            let expected: u64 = self.given.iter().map(|given| given.expected.max(1)).sum();
            // A moving average, as the cost model has, over packets and pieces of whatever suite.
            // A turn in which the thread was not run for long says nothing of what a packet costs.
            let each =
                (spent / self.given.len() as u64).clamp(self.usual / 4, self.usual * 4).min(MOST_USUAL);
            self.usual = ((self.usual * 7 + each) / 8).max(1);
            for given in self.given.drain(..) {
                let share =
                    u128::from(spent) * u128::from(given.expected.max(1)) / u128::from(expected.max(1));
                // The inline unit answers in order and at once; a fault is one of time, and was counted.
                let _ = self.graph.done(given.unit, given.job, share as u64, &context);
            }
        }
        self.graph.wake(&context)
    }
}
