//! The giving half of the dispatcher: which unit gets which packet, and how much of it.

use wire::Time;

use crate::amount::Amount;
use crate::component::Context;
use crate::cost::Work;
use crate::meta::{AggregateId, Meta};
use crate::node::{Ended, Pull, Wake};
use crate::unit::{Kind, UnitId};

use super::station::{Job, Status};
use super::{Assignment, Dispatcher, Grant, JobId, Pace};

impl<T: 'static> Dispatcher<T> {
    /// The next assignment; `None` if no unit wants work, or none has a packet that may leave. Units that want work get
    /// it in turn.
    pub fn next(&mut self, context: &Context, ended: &mut Vec<Ended<T>>) -> Option<Assignment<T>> {
        let count = self.stations.len();
        for at in (self.turn..count).chain(0..self.turn.min(count)) {
            self.tune(at);
            if !self.wants_work(at) {
                continue;
            }
            if let Some(assignment) = self.give(at, context, ended) {
                self.turn = at + 1;
                return Some(assignment);
            }
        }
        None
    }

    /// A packet that gets in between two steps of a sliced unit: of an expedited aggregate, while one job of another
    /// aggregate is in progress. `None` if there is none, or one is in between already.
    pub fn between(
        &mut self,
        unit: UnitId,
        context: &Context,
        ended: &mut Vec<Ended<T>>,
    ) -> Option<Assignment<T>> {
        let at = usize::from(unit.0);
        let station = self.stations.get_mut(at).filter(|station| station.status == Status::Active)?;
        if !matches!(station.spec.kind, Kind::Sliced { .. })
            || station.jobs.iter().any(|job| job.is_between && !job.is_answered)
        {
            return None;
        }
        let is_other = |job: &&Job| !job.is_answered && !station.spec.expedited.has(job.aggregate);
        let in_progress = station.jobs.iter().find(is_other)?.aggregate;
        let head = *station.queues.peek(context)?;
        if !self.may_get_between(at, &head, in_progress) {
            return None;
        }
        let (item, meta) = self.take(at, context, ended)?;
        if !self.may_get_between(at, &meta, in_progress) {
            self.stations[at].queues.put_back(item, meta, context);
            return None;
        }
        Some(self.assign(at, item, meta, 0, true, context))
    }

    fn may_get_between(&self, at: usize, meta: &Meta, in_progress: AggregateId) -> bool {
        let is_expedited = self.stations[at].spec.expedited.has(meta.aggregate);
        is_expedited && meta.aggregate != in_progress && !self.pins.has_older(self.pins.slot(meta))
    }

    /// Put the rest of a super-packet that was cut back to the head of its queue, with the packets and octets that it
    /// has left. It has to come before the next packet is taken.
    pub fn rest(&mut self, job: JobId, item: T, mut meta: Meta, context: &Context) {
        let at = usize::from(job.unit.0);
        if self.stations.len() <= at {
            return;
        }
        self.shorten(at, job, &meta);
        meta.amount.ns = self.estimate(UnitId(at as u8), &meta);
        let slot = self.pins.slot(&meta);
        self.pins.wait(slot, UnitId(at as u8));
        let station = &mut self.stations[at];
        station.waiting += meta.amount;
        self.classes.wait(&meta);
        station.queues.put_back(item, meta, context);
    }

    /// Take the rest of a super-packet out of what is committed for its job.
    fn shorten(&mut self, at: usize, job: JobId, rest: &Meta) {
        let station = &self.stations[at];
        let Some(index) = job.number.checked_sub(station.first_number()) else { return };
        let Some(&entry) = station.jobs.get(index as usize).filter(|entry| !entry.is_answered) else {
            return;
        };
        let mut left = entry.amount;
        left.packets = left.packets.saturating_sub(rest.amount.packets);
        left.octets = left.octets.saturating_sub(rest.amount.octets);
        let joining = station.joining(&left, entry.joins);
        let work = Work { unit: job.unit, suite: entry.suite, direction: entry.direction, joining };
        left.ns = self.cost.ns(&work, &left).min(entry.amount.ns);
        let mut released = entry.amount;
        released -= left;
        let station = &mut self.stations[at];
        station.jobs[index as usize].amount = left;
        station.committed -= released;
        if let Some(dql) = &mut station.dql {
            dql.take_back(released.ns);
        }
    }

    /// Whether a unit is to get work: it is below its high mark, and was at its low mark since it was at the high one.
    pub(super) fn wants_work(&mut self, at: usize) -> bool {
        let station = &mut self.stations[at];
        if station.status != Status::Active || !station.has_depth() {
            return false;
        }
        let (low, high) = station.marks();
        if station.committed.ns <= low || station.in_flight == 0 {
            station.is_filling = true;
        } else if station.committed.ns >= high {
            station.is_filling = false;
        }
        station.is_filling || matches!(self.pace, Pace::Push(_))
    }

    /// Tune the limit of a unit by what it has answered.
    fn tune(&mut self, at: usize) {
        let station = &mut self.stations[at];
        if let (Some(dql), Some((ns, time))) = (&mut station.dql, station.answered.take()) {
            dql.answer(ns, time);
        }
    }

    fn give(&mut self, at: usize, context: &Context, ended: &mut Vec<Ended<T>>) -> Option<Assignment<T>> {
        // Asked before the packet is taken, since taking and putting back costs more.
        let head = *self.stations[at].queues.peek(context)?;
        if !self.may_go(at, &head) {
            return None;
        }
        let (item, meta) = self.take(at, context, ended)?;
        // Another packet may have come instead, if the first one ended.
        if meta != head && !self.may_go(at, &meta) {
            self.stations[at].queues.put_back(item, meta, context);
            return None;
        }
        let room = if self.pace == Pace::Pull { self.room(at) } else { u64::MAX };
        Some(self.assign(at, item, meta, room, false, context))
    }

    /// Whether the unit has room for the packet, and nothing older of its pair is in flight elsewhere.
    fn may_go(&mut self, at: usize, meta: &Meta) -> bool {
        // Behind what a sliced unit holds, an expedited packet would wait longer than for its turn in between.
        let station = &self.stations[at];
        let waits_for_step = station.spec.expedited.has(meta.aggregate) && station.is_in_steps();
        !waits_for_step
            && (self.pace != Pace::Pull || self.has_room(at, meta))
            && !self.pins.has_older(self.pins.slot(meta))
    }

    /// The time from which a unit can be given a packet, as far as no answer has to come first.
    pub(super) fn eligible_at(&mut self, at: usize, context: &Context) -> Option<Time> {
        if !self.wants_work(at) {
            return None;
        }
        if let Some(&head) = self.stations[at].queues.peek(context) {
            return self.may_go(at, &head).then_some(context.now);
        }
        match self.stations[at].queues.wake(context.now) {
            Wake::At(time) => Some(time),
            Wake::Room | Wake::Packet | Wake::Never => None,
        }
    }

    /// Take a packet out of the queues of a unit, and account for those that ended.
    fn take(&mut self, at: usize, context: &Context, ended: &mut Vec<Ended<T>>) -> Option<(T, Meta)> {
        let before = ended.len();
        let taken = self.stations[at].queues.take(context, ended);
        self.count_ended(UnitId(at as u8), &ended[before..]);
        match taken {
            Pull::Packet(item, meta) => Some((item, meta)),
            Pull::Wait(_) => None,
        }
    }

    /// The nanoseconds up to the high mark.
    fn room(&self, at: usize) -> u64 {
        let station = &self.stations[at];
        station.marks().1.saturating_sub(station.committed.ns)
    }

    /// Whether the packet, or a piece of it, may be committed. To a unit without work it may in any case. What is held
    /// back is told to the limit that tunes itself.
    fn has_room(&mut self, at: usize, meta: &Meta) -> bool {
        let room = self.room(at);
        let joins = self.stations[at].joins();
        let piece = self.cost_of_pieces(at, meta, 1, joins);
        let station = &mut self.stations[at];
        if station.in_flight == 0 || piece <= room {
            return true;
        }
        station.is_filling = false;
        if let Some(dql) = &mut station.dql {
            dql.hold_back(piece - room);
        }
        false
    }

    /// What so many pieces of a packet are, and cost on the unit.
    fn pieces(&self, at: usize, meta: &Meta, count: u64, joins: bool) -> Amount {
        let packets = meta.amount.packets.max(1);
        let octets = match meta.amount.octets.checked_mul(count) {
            _ if count == packets => meta.amount.octets,
            Some(product) => product / packets,
            None => meta.amount.octets / packets * count,
        };
        let mut amount = Amount { packets: count, octets, ns: 0 };
        let joining = self.stations[at].joining(&amount, joins);
        let work = Work { unit: UnitId(at as u8), suite: meta.suite, direction: meta.direction, joining };
        amount.ns = self.cost.ns(&work, &amount);
        amount
    }

    fn cost_of_pieces(&self, at: usize, meta: &Meta, count: u64, joins: bool) -> u64 {
        self.pieces(at, meta, count, joins).ns
    }

    /// Commit a packet to a unit. The whole is committed until the rest comes back.
    fn assign(
        &mut self,
        at: usize,
        item: T,
        meta: Meta,
        room: u64,
        is_between: bool,
        context: &Context,
    ) -> Assignment<T> {
        let packets = meta.amount.packets.max(1);
        let joins = self.stations[at].joins();
        let whole = self.pieces(at, &meta, packets, joins);
        let count = if whole.ns <= room || packets == 1 {
            packets
        } else {
            let first = self.cost_of_pieces(at, &meta, 1, joins);
            // A piece that does not begin a batch costs no more than the one that does.
            let mut count = (room / first.max(1)).clamp(1, packets);
            while count > 1 && self.cost_of_pieces(at, &meta, count, joins) > room {
                count -= 1;
            }
            count
        };
        let budget = if count == packets { whole } else { self.pieces(at, &meta, count, joins) };
        let slot = self.pins.slot(&meta);
        self.pins.fly(slot);
        let station = &mut self.stations[at];
        station.waiting -= meta.amount;
        self.classes.leave(&meta);
        if let Some(dql) = &mut station.dql {
            dql.give(whole.ns);
        }
        let number = station.add(Job {
            given: context.now,
            slot,
            suite: meta.suite,
            aggregate: meta.aggregate,
            direction: meta.direction,
            joins,
            is_between,
            is_answered: false,
            amount: whole,
        });
        let unit = UnitId(at as u8);
        Assignment { grant: Grant(()), unit, job: JobId { unit, number }, item, meta, budget }
    }
}
