//! The dispatcher: it assigns packets to units that ask for work (paper 002 section III.E).
//!
//! What enters: tickets behind hook 5a, and the answers of units. What leaves: assignments, each with a [`Grant`]. Each
//! unit has a node of its own, which is what hangs at its hook 5b. A packet goes to the unit that can serve it and
//! would finish it first, and then waits there for its turn. Calls come in this order: [`Dispatcher::offer`] when a
//! packet comes; [`Dispatcher::next`] until it has no assignment, [`Dispatcher::rest`] behind one that was cut;
//! [`Dispatcher::done`] when a unit answers; [`Dispatcher::overdue`] when the time of [`Dispatcher::wake`] has come.
//!
//! Order holds for each (association, aggregate): while packets of one wait for a unit or are in flight on it, further
//! ones go to the same unit, as long as it can serve them. Associations whose hashes fall together are one here.
//!
//! Committed work is bounded by construction: beyond its high mark a unit has at most one packet, or one piece of a
//! super-packet, which it got when nothing else was committed to it. A sliced unit can have one more piece in between.

mod answer;
mod classes;
mod exchange;
mod pins;
mod pull;
mod station;

use wire::Time;

use crate::amount::{Amount, Burden, Limit};
use crate::component::{Cause, Context};
use crate::cost::{CostModel, Work};
use crate::meta::{AggregateId, Meta, UnitMask};
use crate::node::{Ended, Node, Offered, Wake};
use crate::unit::{UnitId, UnitSpec};

use classes::Classes;
use pins::Pins;
use station::{Station, Status};

/// The most units of a dispatcher, which is what a [`UnitMask`] can name.
pub const UNITS: usize = 16;

/// The proof that the dispatcher gave a packet its turn. Nothing else makes one, and it cannot be copied.
///
/// ```compile_fail
/// let grant = qos::dispatcher::Grant(());
/// ```
/// ```compile_fail
/// fn twice(grant: qos::dispatcher::Grant) -> (qos::dispatcher::Grant, qos::dispatcher::Grant) {
///     (grant.clone(), grant)
/// }
/// ```
#[derive(Debug)]
pub struct Grant(());

/// The number of a job of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobId {
    unit: UnitId,
    number: u64,
}

/// A packet whose turn has come, and the unit that it goes to.
#[derive(Debug)]
pub struct Assignment<T> {
    /// The proof of its turn.
    pub grant: Grant,
    /// The unit that does the work.
    pub unit: UnitId,
    /// The job, which the answer names.
    pub job: JobId,
    /// The ticket of the packet.
    pub item: T,
    /// What is known of it.
    pub meta: Meta,
    /// What of it is to be done now. If that is less than the whole, the packet is to be cut, and the rest put back.
    pub budget: Amount,
}

/// How units come by their work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Units ask for it by their water marks.
    Pull,
    /// Packets are pushed to units as they come, which is Figure 1 of the paper, for comparison. No more than this
    /// waits for a unit and in it.
    Push(Limit),
}

/// What is left of a unit that was detached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detached {
    /// The number of jobs that are still in flight.
    pub in_flight: usize,
}

/// Assigns packets to units.
pub struct Dispatcher<T> {
    stations: Vec<Station<T>>,
    cost: CostModel,
    pace: Pace,
    pins: Pins,
    classes: Classes,
    /// The unit that is asked first whether it wants work.
    turn: usize,
}

impl<T: 'static> Dispatcher<T> {
    /// A dispatcher without units. The seed is for the hash of associations.
    pub fn new(cost: CostModel, pace: Pace, seed: u64) -> Dispatcher<T> {
        Dispatcher {
            stations: Vec::with_capacity(UNITS),
            cost,
            pace,
            pins: Pins::new(seed),
            classes: Classes::default(),
            turn: 0,
        }
    }

    /// Add a unit with what hangs at its hook 5b; `None` if there are [`UNITS`] already. A unit that is gone for good
    /// leaves its number to the next one.
    pub fn attach(&mut self, spec: UnitSpec, queues: Node<T>) -> Option<UnitId> {
        let gone = self.stations.iter().position(|station| station.status == Status::Gone);
        if let Some(at) = gone {
            let numbers = self.stations[at].numbers();
            self.stations[at] = Station::new(spec, queues, numbers);
            return Some(UnitId(at as u8));
        }
        if self.stations.len() == UNITS {
            return None;
        }
        self.stations.push(Station::new(spec, queues, Default::default()));
        Some(UnitId((self.stations.len() - 1) as u8))
    }

    /// The units that can serve packets of a suite and an aggregate.
    pub fn capable(&self, suite: u16, aggregate: AggregateId) -> UnitMask {
        let serves = |(at, station): (usize, &Station<T>)| u16::from(station.serves(suite, aggregate)) << at;
        UnitMask(self.stations.iter().enumerate().map(serves).fold(0, |mask, bit| mask | bit))
    }

    /// The nanoseconds that the amount is expected to cost on the first unit that serves the suite; 0 if none does.
    pub fn expected(&self, suite: u16, direction: crate::Direction, amount: &Amount) -> u64 {
        let serves = |station: &Station<T>| station.serves_suite(suite);
        let unit = self.stations.iter().position(serves);
        unit.map_or(0, |at| {
            self.cost.ns(&Work { unit: UnitId(at as u8), suite, direction, joining: 0 }, amount)
        })
    }

    /// Queue a packet for the unit that can serve it and would finish it first. What it costs there becomes its amount.
    /// A bundle's next member, whose index is not 0, goes ahead of new packets of its queue.
    pub fn offer(
        &mut self,
        item: T,
        mut meta: Meta,
        context: &Context,
        ended: &mut Vec<Ended<T>>,
    ) -> Offered {
        let is_started = meta.index > 0;
        let slot = self.pins.slot(&meta);
        let Some(unit) = self.choose(&meta, slot) else {
            ended.push(Ended { item, meta, cause: Cause::NoUnit });
            return Offered::Ended;
        };
        meta.amount.ns = self.estimate(unit, &meta);
        let station = &mut self.stations[usize::from(unit.0)];
        if let Pace::Push(limit) = self.pace
            && !is_started
            && !limit.admits(station.load(), meta.amount)
        {
            ended.push(Ended { item, meta, cause: Cause::QueueFull });
            return Offered::Ended;
        }
        self.pins.wait(slot, unit);
        station.waiting += meta.amount;
        self.classes.wait(&meta);
        let before = ended.len();
        let offered = if is_started {
            station.queues.lead(item, meta, context, ended)
        } else {
            station.queues.offer(item, meta, context, ended)
        };
        self.count_ended(unit, &ended[before..]);
        offered
    }

    /// The event after which [`Dispatcher::next`] may have an assignment, or [`Dispatcher::overdue`] a unit. The answer
    /// of a unit is such an event as well.
    pub fn wake(&mut self, context: &Context) -> Wake {
        let mut earliest: Option<Time> = None;
        for at in 0..self.stations.len() {
            let hangs_at = self.stations[at].hangs_at();
            let eligible_at = self.eligible_at(at, context);
            earliest = [hangs_at, eligible_at, earliest].into_iter().flatten().min();
        }
        match earliest {
            Some(time) => Wake::At(time.max(context.now)),
            None if self.stations.iter().any(|station| station.status == Status::Active) => Wake::Packet,
            None => Wake::Never,
        }
    }

    /// What is committed to a unit and not answered.
    pub fn committed(&self, unit: UnitId) -> Amount {
        self.station(unit).map(|station| station.committed).unwrap_or_default()
    }

    /// What waits for a unit.
    pub fn waiting(&self, unit: UnitId) -> Amount {
        self.station(unit).map(|station| station.waiting).unwrap_or_default()
    }

    /// What the packets of a class are that wait for units.
    pub(crate) fn burden(&self, aggregate: AggregateId) -> Burden {
        self.classes.waiting(aggregate)
    }

    /// Nanoseconds that a unit has spent on the jobs that it answered, since it was attached.
    pub fn busy(&self, unit: UnitId) -> u64 {
        self.station(unit).map_or(0, |station| station.busy)
    }

    /// The low and the high mark of a unit now, in nanoseconds.
    pub fn marks(&self, unit: UnitId) -> Option<(u64, u64)> {
        self.station(unit).map(Station::marks)
    }

    /// The number of packets like `each` that a unit has room for, beside what its queues take: where packets are pushed,
    /// what waits for it and in it is limited.
    pub(crate) fn spare(&self, unit: UnitId, each: Amount) -> u64 {
        match (self.pace, self.station(unit)) {
            (Pace::Push(limit), Some(station)) => limit.room(station.load(), each),
            _ => u64::MAX,
        }
    }

    /// The node that hangs at hook 5b of a unit, to be asked.
    pub fn queues(&self, unit: UnitId) -> Option<&Node<T>> {
        self.station(unit).map(|station| &station.queues)
    }

    /// The node that hangs at hook 5b of a unit, to exchange parts of it. Its packets have to stay in it.
    pub fn queues_mut(&mut self, unit: UnitId) -> Option<&mut Node<T>> {
        self.stations.get_mut(usize::from(unit.0)).map(|station| &mut station.queues)
    }

    /// What packets cost, as far as it is learned.
    pub fn cost(&self) -> &CostModel {
        &self.cost
    }

    fn station(&self, unit: UnitId) -> Option<&Station<T>> {
        self.stations.get(usize::from(unit.0))
    }

    /// The unit for a packet: the one that its order binds it to, or the one that would finish it first.
    fn choose(&self, meta: &Meta, slot: usize) -> Option<UnitId> {
        let serves = |unit: UnitId| {
            let station = self.station(unit)?;
            (meta.units.has(unit.0) && station.serves(meta.suite, meta.aggregate)).then_some(unit)
        };
        let bound = self.pins.unit(slot).and_then(serves);
        let finish = |unit: &UnitId| {
            let load = self.station(*unit).map(|station| station.load().ns).unwrap_or(u64::MAX);
            load.saturating_add(self.estimate(*unit, meta))
        };
        let units = (0..self.stations.len()).map(|at| UnitId(at as u8));
        bound.or_else(|| units.filter_map(serves).min_by_key(finish))
    }

    /// The nanoseconds that a packet will cost on a unit, by itself.
    fn estimate(&self, unit: UnitId, meta: &Meta) -> u64 {
        let joining = self.station(unit).map_or(0, |station| station.joining(&meta.amount, false));
        let work = Work { unit, suite: meta.suite, direction: meta.direction, joining };
        self.cost.ns(&work, &meta.amount)
    }

    /// Account for packets that waited for a unit and ended.
    fn count_ended(&mut self, unit: UnitId, ended: &[Ended<T>]) {
        for packet in ended {
            let slot = self.pins.slot(&packet.meta);
            self.pins.leave(slot);
            self.stations[usize::from(unit.0)].waiting -= packet.meta.amount;
            self.classes.leave(&packet.meta);
        }
    }
}
