//! What was counted of packets at each queue of a graph, by class and by cause. A super-packet counts as its pieces.

use wire::Time;

use super::description::HookPoint;
use super::sojourn::Sojourn;
use crate::amount::Burden;
use crate::component::Cause;
use crate::meta::{AggregateId, Meta};

/// The number of causes.
const CAUSES: usize = Cause::Component as usize + 1;
/// The number of queues of a graph, those of units being one.
const PLACES: usize = 5;
/// The number of classes that are counted apart.
const CLASSES: usize = 64;

/// The counts of one class at one queue. `come = gone + back + dropped + queued` always holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets that were offered.
    pub come: u64,
    /// Packets that left the queue.
    pub gone: u64,
    /// Packets that were given back to be classified again, in an exchange.
    pub back: u64,
    dropped: [u64; CAUSES],
}

impl Tally {
    /// The packets that ended for a cause.
    pub fn dropped_by(&self, cause: Cause) -> u64 {
        self.dropped[cause as usize]
    }

    /// The causes for which packets ended, with their number.
    pub fn causes(&self) -> impl Iterator<Item = (Cause, u64)> + '_ {
        Cause::EACH.into_iter().zip(self.dropped).filter(|(_, count)| *count > 0)
    }

    /// The packets that ended, for any cause.
    pub fn dropped(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// The packets that are still there; `None` if more left than came.
    pub fn queued(&self) -> Option<u64> {
        self.come.checked_sub(self.gone)?.checked_sub(self.back)?.checked_sub(self.dropped())
    }
}

/// Runs of packets of a class that were lost at a queue, one after the other.
///
/// A packet that is refused as it is offered belongs to the order of arrival, in which a packet that is queued ends the
/// run. One that is lost out of the queue belongs to the order of leaving, in which a packet that leaves ends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LossRuns {
    refused: u64,
    lost: u64,
    longest: u64,
}

/// What is counted of a class at one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Row {
    tally: Tally,
    backlog: Burden,
    /// Nanoseconds of what was given to units.
    served: u64,
    runs: LossRuns,
    sojourn: Sojourn,
}

/// The counts of a graph since its instance began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    rows: Box<[[Row; CLASSES]; PLACES]>,
    /// The sojourn of the packet that was given to a unit last, of which a rest may come back.
    given_after: u64,
    /// Packets whose units answered.
    pub answered: u64,
    /// Packets of jobs that were given up.
    pub given_up: u64,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            rows: Box::new([[Row::default(); CLASSES]; PLACES]),
            given_after: 0,
            answered: 0,
            given_up: 0,
        }
    }
}

impl Counts {
    /// The counts of a class at the queue that a point belongs to.
    pub fn of(&self, at: HookPoint, aggregate: AggregateId) -> &Tally {
        &self.row(at, aggregate).tally
    }

    /// The counts of every class at the queue that a point belongs to.
    pub fn at(&self, at: HookPoint) -> impl Iterator<Item = (AggregateId, &Tally)> {
        (0..=u8::MAX).map(AggregateId).zip(self.rows[place(at)].iter().map(|row| &row.tally))
    }

    /// The packets that are at a queue by these counts; `None` if the counts of a class are wrong.
    pub fn queued(&self, at: HookPoint) -> Option<u64> {
        self.rows[place(at)].iter().map(|row| row.tally.queued()).sum()
    }

    /// The packets that were given to units.
    pub fn given(&self) -> u64 {
        self.rows[place(HookPoint::Out5b)].iter().map(|row| row.tally.gone).sum()
    }

    /// The sojourns of the packets of a class that left the queue which a point belongs to: from their arrival in the
    /// gateway until then.
    pub fn sojourn(&self, at: HookPoint, aggregate: AggregateId) -> &Sojourn {
        &self.row(at, aggregate).sojourn
    }

    /// The most packets of a class that were lost one after the other at the queue that a point belongs to: as they
    /// were offered, with none queued in between, or out of the queue, with none leaving in between. It is a run of the
    /// class; that of a flow is no longer unless packets of others got through in between.
    pub fn longest_loss(&self, at: HookPoint, aggregate: AggregateId) -> u64 {
        self.row(at, aggregate).runs.longest
    }

    /// Nanoseconds that the packets of a class which were given to units were expected to cost there.
    pub fn served(&self, aggregate: AggregateId) -> u64 {
        self.row(HookPoint::Out5b, aggregate).served
    }

    /// What the packets of a class are that are at a queue which is not of units.
    pub(super) fn backlog(&self, at: HookPoint, aggregate: AggregateId) -> Burden {
        self.row(at, aggregate).backlog
    }

    fn row(&self, at: HookPoint, aggregate: AggregateId) -> &Row {
        &self.rows[place(at)][class(aggregate)]
    }

    #[inline]
    fn row_of(&mut self, at: HookPoint, meta: &Meta) -> &mut Row {
        &mut self.rows[place(at)][class(meta.aggregate)]
    }

    #[inline]
    pub(super) fn come(&mut self, at: HookPoint, meta: &Meta) {
        let row = self.row_of(at, meta);
        row.tally.come += meta.amount.packets;
        if has_backlog(at) {
            row.backlog.add(&meta.amount);
        }
    }

    /// A packet that came was queued.
    #[inline]
    pub(super) fn queued_one(&mut self, at: HookPoint, meta: &Meta) {
        self.row_of(at, meta).runs.refused = 0;
    }

    #[inline]
    pub(super) fn gone(&mut self, at: HookPoint, meta: &Meta, now: Time) {
        let row = self.row_of(at, meta);
        row.tally.gone += meta.amount.packets;
        if has_backlog(at) {
            row.backlog.take(&meta.amount);
        }
        row.runs.lost = 0;
        row.sojourn.add(now.0.saturating_sub(meta.arrived.0), meta.amount.packets);
    }

    /// A packet, or pieces of it with this cost, were given to a unit.
    #[inline]
    pub(super) fn given_one(&mut self, meta: &Meta, ns: u64, now: Time) {
        let row = self.row_of(HookPoint::Out5b, meta);
        row.served = row.served.wrapping_add(ns);
        self.given_after = now.0.saturating_sub(meta.arrived.0);
        self.gone(HookPoint::Out5b, meta, now);
    }

    /// What is left of the packet that was given to a unit last is at its queue again.
    pub(super) fn rest(&mut self, meta: &Meta) {
        let after = self.given_after;
        let row = self.row_of(HookPoint::Out5b, meta);
        row.tally.gone = row.tally.gone.saturating_sub(meta.amount.packets);
        row.sojourn.take_back(after, meta.amount.packets);
    }

    /// A packet was refused as it was offered.
    pub(super) fn refused(&mut self, at: HookPoint, meta: &Meta, cause: Cause) {
        let row = self.ended(at, meta, cause);
        row.runs.refused += meta.amount.packets;
        row.runs.longest = row.runs.longest.max(row.runs.refused);
    }

    /// A packet was lost out of a queue, or behind it.
    pub(super) fn lost(&mut self, at: HookPoint, meta: &Meta, cause: Cause) {
        let row = self.ended(at, meta, cause);
        row.runs.lost += meta.amount.packets;
        row.runs.longest = row.runs.longest.max(row.runs.lost);
    }

    fn ended(&mut self, at: HookPoint, meta: &Meta, cause: Cause) -> &mut Row {
        let row = self.row_of(at, meta);
        row.tally.dropped[cause as usize] += meta.amount.packets;
        if has_backlog(at) {
            row.backlog.take(&meta.amount);
        }
        row
    }

    pub(super) fn back(&mut self, at: HookPoint, meta: &Meta) {
        let row = self.row_of(at, meta);
        row.tally.back += meta.amount.packets;
        if has_backlog(at) {
            row.backlog.take(&meta.amount);
        }
    }
}

/// Whether the backlog of a queue is kept here. What waits for units is the dispatcher's, which knows what it costs.
fn has_backlog(at: HookPoint) -> bool {
    at.queue() != 5
}

/// The place of a queue in the order in which packets meet them: 1, 3, 5, 4, 2.
fn place(at: HookPoint) -> usize {
    usize::from(at.order() / 2)
}

fn class(aggregate: AggregateId) -> usize {
    usize::from(aggregate.0).min(CLASSES - 1)
}
