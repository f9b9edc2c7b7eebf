//! A graph with the packets that wait in it, as both halves keep it.
//!
//! What enters: packets with what is known of them. What leaves: the same packets, by their tickets.

mod reserved;

use crypto::SuiteId;
use qos::dispatcher::{Assignment, JobId};
use qos::graph::description::HookPoint;
use qos::graph::{Back, Due, Graph};
use qos::node::Ended;
use qos::reservation::ReservedFlows;
use qos::unit::UnitId;
use qos::{AggregateId, Amount, Context, Direction, HeaderKind, Meta, UnitMask};
use sadb::sa::{Encapsulation, SaConfig, SaProtocol};
use wire::{Packet, Time};

use super::{FlowHash, LONGEST_IN_CELL, Slots, Ticket};
use crate::random::Random;

/// The most packets and bursts that wait at a time. Limits of queues are below it; it bounds the memory of what has none.
const ROOM: u32 = 4096;

/// The most packets and bursts longer than a cell that wait at a time. Each keeps a buffer of [`crate::BUF_CAPACITY`]
/// octets.
const MOST_LARGE: usize = 64;

/// The jobs of one turn at most: a turn is short, whatever the unit wants.
const MOST_JOBS: usize = 64;

/// The most nanoseconds that an unknown packet is expected to cost.
const MOST_USUAL: u64 = 1_000_000;

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
}

impl std::fmt::Display for GraphError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            GraphError::Direction => f.write_str("the graph is one of the other direction"),
        }
    }
}

/// Something that waits in one place.
pub(crate) trait Wait {
    /// The number of octets that it has.
    fn octets(&self) -> usize;
}

/// A job that was given to a unit and is not settled.
#[derive(Clone, Copy)]
struct Assigned {
    unit: UnitId,
    job: JobId,
    /// The number of packets.
    packets: u64,
    /// The cost that was expected, by which the time of the turn is shared out.
    expected: u64,
}

/// A turn that was settled.
#[derive(Clone, Copy)]
pub(crate) struct Settled {
    /// The number of its jobs.
    pub(crate) jobs: usize,
    /// The number of packets of these.
    pub(crate) packets: u64,
    /// The nanoseconds that it took, with input and output.
    pub(crate) spent: u64,
}

/// How many packets turns serve lately, and how long one takes.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    /// What the last turn served.
    pub(crate) served: usize,
    /// The nanoseconds that a packet took lately, for one whose association is not known yet.
    pub(crate) usual: u64,
}

impl Pace {
    /// Learn from a turn that served so many in so many nanoseconds.
    pub(crate) fn learn(&mut self, served: usize, spent: u64) {
        self.served = served;
        if served > 0 {
            // A moving average, as the cost model has, over packets and pieces of whatever suite.
            // A turn in which the thread was not run for long says nothing of what a packet costs.
            let each = spent / served as u64;
            let each = each.clamp(self.usual / 4, self.usual * 4).min(MOST_USUAL);
            self.usual = ((self.usual * 7 + each) / 8).max(1);
        }
    }
}

/// A graph, the packets or bursts that wait in it, and the jobs of the turn that is under way.
pub(crate) struct GraphState<W> {
    pub(crate) graph: Graph<Ticket>,
    pub(crate) waiting: Slots<W>,
    /// Packets and bursts that wait in buffers of full size.
    large: usize,
    /// Packets and bursts that found no place to wait.
    no_place: u64,
    /// The suites in order, with their numbers in the graph.
    suites: Vec<(SuiteId, u16)>,
    ended: Vec<Ended<Ticket>>,
    given: Vec<Assigned>,
    began: Time,
    pub(crate) pace: Pace,
    pub(crate) hash: FlowHash,
    random: Random,
    /// Copies of the packets whose outcomes follow, for those who capture; `None`: nobody does.
    copies: Option<Vec<CopiedPacket>>,
    /// The flows that are reserved; `None`: none is, and a packet pays the look whether there are any.
    reserved: Option<Box<ReservedFlows>>,
}

impl<W: Wait> GraphState<W> {
    /// A graph of this direction, in which nothing waits. `suites` are those that associations can have, with their
    /// numbers in the graph's list; `seed` is random and secret.
    ///
    /// # Errors
    /// The reason why the engine cannot use it.
    pub(crate) fn new(
        direction: Direction,
        graph: Graph<Ticket>,
        mut suites: Vec<(SuiteId, u16)>,
        seed: u64,
    ) -> Result<GraphState<W>, GraphError> {
        if graph.direction() != direction {
            return Err(GraphError::Direction);
        }
        suites.sort_unstable();
        Ok(GraphState {
            graph,
            waiting: Slots::new(ROOM),
            large: 0,
            no_place: 0,
            suites,
            ended: Vec::with_capacity(ROOM as usize),
            given: Vec::with_capacity(MOST_JOBS),
            began: Time::default(),
            pace: Pace { served: 0, usual: 1_000 },
            hash: FlowHash::new(seed),
            random: Random::new(seed.rotate_left(29)),
            copies: None,
            reserved: None,
        })
    }

    /// The number of packets and bursts that wait, and the number that can.
    pub(crate) fn room(&self) -> (usize, usize) {
        (self.waiting.len(), self.waiting.capacity())
    }

    /// The number of packets of a class that the graph has room for.
    pub(crate) fn room_of(&self, aggregate: AggregateId) -> u64 {
        let (waiting, places) = self.room();
        let each = Amount { packets: 1, octets: 1, ns: self.pace.usual };
        self.graph.room(aggregate, each).min((places - waiting) as u64)
    }

    /// The packets and bursts that found no place to wait, since the instance began.
    pub(crate) fn no_place(&self) -> u64 {
        self.no_place
    }

    pub(crate) fn context(&mut self, now: Time) -> Context {
        Context { now, random: self.random.next() }
    }

    /// The number of a suite in the graph, and the units that can serve it in a class.
    #[inline]
    pub(crate) fn served(&self, suite: SuiteId, aggregate: AggregateId) -> (u16, UnitMask) {
        let place = self.suites.binary_search_by_key(&suite, |(suite, _)| *suite);
        let Some((_, number)) = place.ok().and_then(|place| self.suites.get(place)) else {
            return (0, UnitMask(0));
        };
        (*number, self.graph.dispatcher().capable(*number, aggregate))
    }

    /// The nanoseconds that a packet with so many octets is expected to cost, with the costliest of these suites; with
    /// that of all suites, if none of these is known.
    pub(crate) fn costliest(&self, suites: &[SuiteId], octets: u64) -> u64 {
        let amount = Amount { packets: 1, octets, ns: 0 };
        let cost =
            |(_, number): &(SuiteId, u16)| self.graph.expected(*number, self.graph.direction(), &amount);
        let of_these = self.suites.iter().filter(|(suite, _)| suites.contains(suite)).map(cost).max();
        of_these.or_else(|| self.suites.iter().map(cost).max()).unwrap_or(0)
    }

    /// Put what waits into a place. It is given back if there is none.
    #[inline]
    pub(crate) fn keep(&mut self, waiting: W) -> Result<Ticket, W> {
        let is_large = waiting.octets() > LONGEST_IN_CELL;
        let kept = match is_large && !self.has_room_for_large() {
            true => Err(waiting),
            false => self.waiting.insert(waiting),
        };
        match kept {
            Ok(_) => self.large += usize::from(is_large),
            Err(_) => self.no_place += 1,
        }
        kept
    }

    /// Whether one more that is longer than a cell may wait.
    pub(crate) fn has_room_for_large(&self) -> bool {
        self.large < MOST_LARGE
    }

    /// Take what waits out of its place.
    #[inline]
    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<W> {
        let waiting = self.waiting.take(ticket)?;
        self.large -= usize::from(waiting.octets() > LONGEST_IN_CELL && self.large > 0);
        Some(waiting)
    }

    /// Offer what has this ticket at a hook.
    #[inline]
    pub(crate) fn offer(&mut self, at: HookPoint, ticket: Ticket, meta: Meta, context: &Context) {
        self.graph.offer(at, ticket, meta, context, &mut self.ended);
    }

    /// The packet whose turn it is behind a queue that is not one of units.
    #[inline]
    pub(crate) fn take_at(&mut self, at: HookPoint, context: &Context) -> Option<Due<Ticket>> {
        self.graph.take(at, context, &mut self.ended)
    }

    /// Notes the time at which a turn begins; what the turn costs is counted from there.
    #[inline]
    pub(crate) fn begin_turn(&mut self, now: Time) {
        self.began = now;
    }

    /// The next of the turn that is under way, with the job that it is.
    #[inline]
    pub(crate) fn next(&mut self, context: &Context) -> Option<Assignment<Ticket>> {
        let assignment = self.graph.next(context, &mut self.ended)?;
        let Assignment { unit, job, budget, .. } = &assignment;
        self.given.push(Assigned { unit: *unit, job: *job, packets: budget.packets, expected: budget.ns });
        Some(assignment)
    }

    /// Whether the turn that is under way has no room for another job.
    #[inline]
    pub(crate) fn is_turn_full(&self) -> bool {
        self.given.len() >= MOST_JOBS
    }

    /// Whether the graph has dropped something that is to be ended.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// The next that the graph has dropped.
    #[inline]
    pub(crate) fn next_ended(&mut self) -> Option<Ended<Ticket>> {
        self.ended.pop()
    }

    /// Answer the jobs of the last turn, whose outcomes are carried out.
    pub(crate) fn settle(&mut self, context: &Context) -> Settled {
        let spent = context.now.0.saturating_sub(self.began.0);
        let packets = self.given.iter().map(|given| given.packets).sum();
        let settled = Settled { jobs: self.given.len(), packets, spent };
        let expected: u64 = self.given.iter().map(|given| given.expected.max(1)).sum();
        for given in self.given.drain(..) {
            let share = u128::from(spent) * u128::from(given.expected.max(1)) / u128::from(expected.max(1));
            // The inline unit answers in order and at once; a fault is one of time, and was counted.
            let _ = self.graph.done(given.unit, given.job, share as u64, context);
        }
        settled
    }

    /// Take over what waits in the graph before. What has no queue here is classified again.
    pub(crate) fn adopt(&mut self, before: GraphState<W>, now: Time) {
        let GraphState { graph, waiting, large, no_place, pace, hash, copies, reserved, .. } = before;
        self.pace = pace;
        (self.waiting, self.large, self.no_place, self.copies) = (waiting, large, no_place, copies);
        self.reserved = reserved;
        // Hashes of flows stay what they are, so that packets of a flow stay together.
        self.hash = hash;
        let mut back = Vec::new();
        self.graph.adopt(graph, &mut back);
        let context = self.context(now);
        for Back { at, item, mut meta } in back {
            // Further on the graph does it, and tells its limits.
            if at.queue() == 1 && !self.graph.has(meta.aggregate) {
                meta.aggregate = self.graph.classify(&meta);
            }
            self.offer(at, item, meta, &context);
        }
    }

    /// Whether packets are copied.
    #[inline]
    pub(crate) fn is_copying(&self) -> bool {
        self.copies.is_some()
    }

    /// Copy packets from now on, or no more.
    pub(crate) fn copy_packets(&mut self, on: bool) {
        if self.is_copying() != on {
            self.copies = on.then(Vec::new);
        }
    }

    /// The packets whose outcomes came since the last call.
    pub(crate) fn take_copies(&mut self) -> Vec<CopiedPacket> {
        self.copies.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Copy a packet for those who capture, whose outcomes begin at this place.
    #[inline]
    pub(crate) fn copy<S>(&mut self, packet: &Packet<S>, from: usize) {
        if let Some(copies) = &mut self.copies {
            copies.push(CopiedPacket { octets: packet.bytes().to_vec(), meta: packet.meta, from });
        }
    }

    /// Take back the copies of packets whose outcomes are at this place or behind it, since they wait once more.
    pub(crate) fn take_copies_of(&mut self, from: usize) -> Vec<CopiedPacket> {
        let Some(copies) = &mut self.copies else { return Vec::new() };
        let first = copies.partition_point(|copy| copy.from < from);
        copies.split_off(first)
    }

    /// Put a copy back, whose packet's outcomes follow.
    pub(crate) fn copy_again(&mut self, copy: CopiedPacket) {
        if let Some(copies) = &mut self.copies {
            copies.push(copy);
        }
    }

    /// Forget the latest copy if nothing has become of it, among so many outcomes: its packet waits.
    #[inline]
    pub(crate) fn forget_copy(&mut self, outcomes: usize) {
        if let Some(copies) = &mut self.copies {
            copies.pop_if(|copy| copy.from == outcomes);
        }
    }
}

/// The kind of header that packets of an association have.
pub(crate) fn header_kind(config: &SaConfig) -> HeaderKind {
    match (config.options.protocol, config.options.encapsulation) {
        (SaProtocol::Ah, _) => HeaderKind::Ah,
        (SaProtocol::IpComp | SaProtocol::IpIp, _) => HeaderKind::IpComp,
        (SaProtocol::Esp, Encapsulation::Udp) => HeaderKind::EspInUdp,
        (SaProtocol::Esp, Encapsulation::None) => HeaderKind::Esp,
    }
}
