//! A graph with the packets that wait in it, as both halves keep it.
//!
//! What enters: packets with what is known of them. What leaves: the same packets, by their tickets.

mod addresses;
mod reserved;

use crypto::SuiteId;
use qos::cost::follow;
use qos::dispatcher::{Assignment, JobId};
use qos::graph::description::HookPoint;
use qos::graph::{Back, Due, Graph};
use qos::node::Ended;
use qos::reservation::ReservedFlows;
use qos::unit::{Kind, MOST_AWAY, UnitId};
use qos::{AggregateId, Amount, Context, Direction, HeaderKind, Meta, UnitMask};
use sadb::sa::{Encapsulation, SaConfig, SaProtocol};
use wire::{Packet, Time};

use super::{Answer, CopiedPacket, Flight, FlowHash, LONGEST_IN_CELL, Slots, Ticket};
use crate::random::Random;

/// The most packets and bursts that wait at a time for cryptography. Limits of queues are below it; it bounds the memory of
/// what has none.
const ROOM: Room = Room { places: 4096, large: 64 };

/// The same between two members of a bundle, and behind cryptography. The places are apart, so that no flood that waits
/// costs the work that went into a packet, and no bundle whose next member is slow closes the queues of others.
const ROOM_BETWEEN: Room = Room { places: 512, large: 64 };
const ROOM_BEHIND: Room = Room { places: 1024, large: 256 };

/// The number of all places together.
const PLACES: usize = ROOM.places + ROOM_BETWEEN.places + ROOM_BEHIND.places;

/// The jobs of one turn at most: a turn is short, whatever the unit wants.
const MOST_JOBS: usize = 64;

/// The parts in which a unit that answers later gets what may be committed to it.
const GRAINS: u64 = 4;

/// The most nanoseconds that an unknown packet is expected to cost.
const MOST_USUAL: u64 = 1_000_000;

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

/// How far something that waits has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitStage {
    /// It waits in front of cryptography.
    Ahead,
    /// It waits between two members of its bundle.
    Between,
    /// It waits behind cryptography.
    Behind,
}

impl WaitStage {
    /// The room for it.
    const fn room(self) -> Room {
        match self {
            WaitStage::Ahead => ROOM,
            WaitStage::Between => ROOM_BETWEEN,
            WaitStage::Behind => ROOM_BEHIND,
        }
    }
}

/// Something that waits in one place.
pub(crate) trait Wait {
    /// The number of octets that it has.
    fn octets(&self) -> usize;

    /// How far it has come.
    fn stage(&self) -> WaitStage;
}

/// Places that are taken, or that there are at most.
#[derive(Clone, Copy, Default)]
struct Room {
    /// The number of places.
    places: usize,
    /// The number of places that packets and bursts longer than a cell take. Each keeps a buffer of
    /// [`crate::BUF_CAPACITY`] octets.
    large: usize,
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

/// How many packets turns serve lately, and how long one takes.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    /// The jobs that the last turn served, with those that were answered since the turn before.
    pub(crate) jobs: usize,
    /// The packets of these.
    pub(crate) packets: u64,
    /// The nanoseconds that a packet took lately, for one whose association is not known yet.
    pub(crate) usual: u64,
}

impl Pace {
    /// Learn from work on so many packets or pieces, which took so many nanoseconds.
    pub(crate) fn learn(&mut self, packets: u64, spent: u64) {
        // An average over packets and pieces of whatever suite.
        if let Some(each) = spent.checked_div(packets) {
            self.usual = follow(self.usual, each.min(MOST_USUAL));
        }
    }
}

/// What units that answer later did wrong, since the instance began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitFaults {
    /// Units that were taken out, since they did not answer in time or their thread has ended.
    pub failed: u64,
    /// Answers that came after their work had been given up.
    pub late: u64,
    /// Answers that came before those to older work of the same unit.
    pub disordered: u64,
}

impl UnitFaults {
    /// Count an answer that came at another time than it should.
    pub(crate) fn note(&mut self, answer: Answer) {
        match answer {
            Answer::InOrder => {}
            Answer::OutOfOrder => self.disordered += 1,
            Answer::Late => self.late += 1,
        }
    }
}

/// A graph, the packets or bursts that wait in it, and the jobs of the turn that is under way.
pub(crate) struct GraphState<W> {
    pub(crate) graph: Graph<Ticket>,
    pub(crate) waiting: Slots<W>,
    /// The places that are taken, by [`WaitStage`].
    taken: [Room; 3],
    /// Packets and bursts that found no place to wait.
    no_place: u64,
    /// The suites in order, with their numbers in the graph.
    suites: Vec<(SuiteId, u16)>,
    ended: Vec<Ended<Ticket>>,
    given: Vec<Assigned>,
    /// The jobs of the turn that is under way, with those whose unit answers later.
    jobs: usize,
    /// The packets that the turn prepared for units that answer later.
    prepared: u64,
    /// The nanoseconds that it took lately to prepare one.
    prepare_ns: u64,
    /// The jobs and packets that units answered later, since the last turn was settled.
    answered: (usize, u64),
    began: Time,
    pub(crate) pace: Pace,
    pub(crate) hash: FlowHash,
    random: Random,
    /// Copies of the packets whose outcomes follow, for those who capture; `None`: nobody does.
    copies: Option<Vec<CopiedPacket>>,
    /// The flows that are reserved; `None`: none is, and a packet pays the look whether there are any.
    reserved: Option<Box<ReservedFlows>>,
    /// What units did wrong that answer later.
    pub(crate) faults: UnitFaults,
    /// Units that were taken out, with the pieces of work that each has still to answer. One that does lives.
    away: Vec<(UnitId, usize)>,
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
            waiting: Slots::new(PLACES as u32),
            taken: [Room::default(); 3],
            no_place: 0,
            suites,
            ended: Vec::with_capacity(PLACES),
            given: Vec::with_capacity(MOST_JOBS),
            jobs: 0,
            prepared: 0,
            prepare_ns: 0,
            answered: (0, 0),
            began: Time::default(),
            pace: Pace { jobs: 0, packets: 0, usual: 1_000 },
            hash: FlowHash::new(seed),
            random: Random::new(seed.rotate_left(29)),
            copies: None,
            reserved: None,
            faults: UnitFaults::default(),
            away: Vec::new(),
        })
    }

    /// The number of packets and bursts that wait, and the number that can, in front of cryptography and behind it.
    pub(crate) fn room(&self) -> (usize, usize) {
        (self.taken.iter().map(|taken| taken.places).sum(), self.waiting.capacity())
    }

    /// The number of packets of a class that the graph has room for.
    pub(crate) fn room_of(&self, aggregate: AggregateId) -> u64 {
        let [Room { places, .. }, ..] = self.taken;
        let each = Amount { packets: 1, octets: 1, ns: self.pace.usual };
        self.graph.room(aggregate, each).min(ROOM.places.saturating_sub(places) as u64)
    }

    /// The number of cells that packets may occupy: those that wait, and those that units have which answer later.
    pub(crate) fn cells(&self) -> usize {
        let dispatcher = self.graph.dispatcher();
        let keeps = |unit: &UnitId| {
            dispatcher.kind(*unit).is_some_and(|kind| kind.answers_later() || is_sliced(kind))
        };
        let later = dispatcher.units().filter(keeps).count();
        self.waiting.capacity() + later * MOST_AWAY
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
        let (stage, most) = (waiting.stage(), waiting.stage().room());
        let taken = taken_of(&mut self.taken, stage);
        let has_place = taken.places < most.places && (!is_large || taken.large < most.large);
        let kept = if has_place { self.waiting.insert(waiting) } else { Err(waiting) };
        match kept {
            Ok(_) => {
                taken.places += 1;
                taken.large += usize::from(is_large);
            }
            Err(_) => self.no_place += 1,
        }
        kept
    }

    /// Whether one more that is longer than a cell may wait for cryptography.
    pub(crate) fn has_room_for_large(&self) -> bool {
        let [Room { large, .. }, ..] = self.taken;
        large < ROOM.large
    }

    /// Take what waits out of its place.
    #[inline]
    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<W> {
        let waiting = self.waiting.take(ticket)?;
        let taken = taken_of(&mut self.taken, waiting.stage());
        taken.places = taken.places.saturating_sub(1);
        taken.large -= usize::from(waiting.octets() > LONGEST_IN_CELL && taken.large > 0);
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
        (self.began, self.jobs, self.prepared) = (now, 0, 0);
    }

    /// The next of the turn that is under way, with the job that it is.
    #[inline]
    pub(crate) fn next(&mut self, context: &Context) -> Option<Assignment<Ticket>> {
        let assignment = self.graph.next(context, &mut self.ended)?;
        Some(self.given(assignment))
    }

    #[inline]
    fn given(&mut self, assignment: Assignment<Ticket>) -> Assignment<Ticket> {
        let Assignment { unit, job, budget, .. } = &assignment;
        self.jobs += 1;
        self.given.push(Assigned { unit: *unit, job: *job, packets: budget.packets, expected: budget.ns });
        assignment
    }

    /// Whether jobs of a turn are not settled.
    pub(crate) fn has_given(&self) -> bool {
        !self.given.is_empty() || self.prepared > 0
    }

    /// Whether a packet of a class is prepared for a unit and computed behind the turn: by another thread, or here in the
    /// steps of a sliced unit. What is expedited there is computed in the turn.
    #[inline]
    pub(crate) fn answers_later(&self, unit: UnitId, aggregate: AggregateId) -> bool {
        let dispatcher = self.graph.dispatcher();
        match dispatcher.kind(unit) {
            Some(Kind::Sliced { .. }) => !dispatcher.is_expedited(unit, aggregate),
            kind => kind.is_some_and(Kind::answers_later),
        }
    }

    /// Whether a unit works on this thread, in steps.
    pub(crate) fn is_sliced(&self, unit: UnitId) -> bool {
        self.graph.dispatcher().kind(unit).is_some_and(is_sliced)
    }

    /// The nanoseconds of a step of a unit.
    pub(crate) fn step_of(&self, unit: UnitId) -> u64 {
        match self.graph.dispatcher().kind(unit) {
            Some(Kind::Sliced { step }) => step,
            _ => u64::MAX,
        }
    }

    /// Whether packets of these classes may have a turn while a sliced unit has work.
    pub(crate) fn gets_ahead(&self, unit: UnitId, classes: &[AggregateId]) -> bool {
        let dispatcher = self.graph.dispatcher();
        classes.iter().any(|class| dispatcher.gets_ahead(unit, *class))
    }

    /// The next packet that gets in between two steps of one of these units, with the job that it is.
    pub(crate) fn between(
        &mut self,
        mut units: impl Iterator<Item = UnitId>,
        context: &Context,
    ) -> Option<Assignment<Ticket>> {
        let assignment = units.find_map(|unit| self.graph.between(unit, context, &mut self.ended))?;
        Some(self.given(assignment))
    }

    /// The nanoseconds of work that are sent to a unit at once: a part of what is committed to it, so that it has work
    /// while it is asked for more.
    pub(crate) fn grain(&self, unit: UnitId) -> u64 {
        self.graph.dispatcher().marks(unit).map_or(1, |(_, high)| (high / GRAINS).max(1))
    }

    /// Take a job out of the turn that is under way, since its unit answers later. Returns the nanoseconds that it is
    /// expected to take.
    pub(crate) fn postpone(&mut self, job: JobId) -> u64 {
        let Some(place) = self.given.iter().rposition(|given| given.job == job) else { return 1 };
        let Assigned { packets, expected, .. } = self.given.remove(place);
        self.prepared += packets;
        expected
    }

    /// The next unit that has not answered in time.
    pub(crate) fn overdue(&mut self, now: Time) -> Option<UnitId> {
        self.graph.overdue(now)
    }

    /// Take a unit out: it gets no more work, and what waits for it is offered to others, or ends. Its work in flight
    /// is given up, and the caller ends that; the unit has so many pieces of it, and comes back if it answers all.
    pub(crate) fn fail_unit(&mut self, now: Time, unit: UnitId, pieces: usize) {
        self.faults.failed += 1;
        self.away.retain(|(away, _)| *away != unit);
        self.away.push((unit, pieces));
        let mut back = Vec::new();
        self.graph.detach(unit, &mut back);
        self.graph.give_up(unit, &mut Vec::new());
        let context = self.context(now);
        for (ticket, mut meta) in back {
            meta.units = self.graph.dispatcher().capable(meta.suite, meta.aggregate);
            self.offer(HookPoint::In5a, ticket, meta, &context);
        }
    }

    /// A unit answered work that had been given up. With the last piece of it, it takes work again.
    pub(crate) fn answered_late(&mut self, unit: UnitId) {
        let Some(at) = self.away.iter().position(|(away, _)| *away == unit) else { return };
        let left = self.away.get_mut(at).map_or(0, |(_, left)| {
            *left = left.saturating_sub(1);
            *left
        });
        if left == 0 {
            self.away.swap_remove(at);
            self.graph.revive(unit);
        }
    }

    /// Whether the turn that is under way has no room for another job.
    #[inline]
    pub(crate) fn is_turn_full(&self) -> bool {
        self.jobs >= MOST_JOBS
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

    /// Answer the jobs of the last turn, whose outcomes are carried out, and learn from them.
    pub(crate) fn settle(&mut self, context: &Context) {
        let whole = context.now.0.saturating_sub(self.began.0);
        let spent = whole.saturating_sub(self.preparation(whole));
        let packets: u64 = self.given.iter().map(|given| given.packets).sum();
        let expected: u64 = self.given.iter().map(|given| given.expected.max(1)).sum();
        let (jobs, answered) = std::mem::take(&mut self.answered);
        (self.pace.jobs, self.pace.packets) = (self.given.len() + jobs, packets + answered);
        for given in self.given.drain(..) {
            let share = u128::from(spent) * u128::from(given.expected.max(1)) / u128::from(expected.max(1));
            // The inline unit answers in order and at once; a fault is one of time, and was counted.
            let _ = self.graph.done(given.unit, given.job, share as u64, context);
        }
        self.pace.learn(packets, spent);
    }

    /// The part of a turn of so many nanoseconds that went into work for units which answer later. Turns without other
    /// work tell what a packet of it takes.
    fn preparation(&mut self, whole: u64) -> u64 {
        let prepared = std::mem::take(&mut self.prepared);
        if self.given.is_empty()
            && let Some(each) = whole.checked_div(prepared)
        {
            let each = each.min(MOST_USUAL);
            self.prepare_ns = if self.prepare_ns == 0 { each } else { (self.prepare_ns * 7 + each) / 8 };
        }
        self.prepare_ns * prepared
    }

    /// Take the answer of a unit for these jobs, which took it so many nanoseconds together.
    pub(crate) fn answer<W2>(&mut self, flight: &Flight<W2>, spent: u64, context: &Context) {
        let expected = flight.expected();
        let mut packets = 0;
        for job in &flight.jobs {
            packets += job.meta.amount.packets;
            let share = u128::from(spent) * u128::from(job.expected.max(1)) / u128::from(expected);
            // A fault is one of time or order, and was counted.
            let _ = self.graph.done(flight.unit, job.job, share as u64, context);
        }
        self.answered.0 += flight.jobs.len();
        self.answered.1 += packets;
        self.pace.learn(packets, spent);
    }

    /// Take over what waits in the graph before. What has no queue here is classified again.
    pub(crate) fn adopt(&mut self, before: GraphState<W>, now: Time) {
        let GraphState { graph, waiting, taken, no_place, pace, prepare_ns, .. } = before;
        let GraphState { hash, copies, reserved, faults, .. } = before;
        // A unit that was taken out is attached anew by the exchange, if the graph has it.
        self.faults = faults;
        (self.pace, self.prepare_ns) = (pace, prepare_ns);
        (self.waiting, self.taken, self.no_place, self.copies) = (waiting, taken, no_place, copies);
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

    /// Put copies back, whose packets' outcomes follow at this place.
    pub(crate) fn copy_all(&mut self, copies: Vec<CopiedPacket>, from: usize) {
        for mut copy in copies {
            copy.from = from;
            self.copy_again(copy);
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

/// The places of a stage that are taken.
fn taken_of(taken: &mut [Room; 3], stage: WaitStage) -> &mut Room {
    let [ahead, between, behind] = taken;
    match stage {
        WaitStage::Ahead => ahead,
        WaitStage::Between => between,
        WaitStage::Behind => behind,
    }
}

fn is_sliced(kind: Kind) -> bool {
    matches!(kind, Kind::Sliced { .. })
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
