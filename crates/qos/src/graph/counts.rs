//! What was counted of packets at each queue of a graph, by class and by cause. A super-packet counts as its pieces.

use super::description::HookPoint;
use crate::component::Cause;
use crate::meta::{AggregateId, Meta};

/// The number of causes.
const CAUSES: usize = Cause::Component as usize + 1;
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

/// The counts of a graph since its instance began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    rows: Vec<[Tally; CLASSES]>,
    /// Packets whose units answered.
    pub answered: u64,
    /// Packets of jobs that were given up.
    pub given_up: u64,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts { rows: vec![[Tally::default(); CLASSES]; 5], answered: 0, given_up: 0 }
    }
}

impl Counts {
    /// The counts of a class at the queue that a point belongs to.
    pub fn of(&self, at: HookPoint, aggregate: AggregateId) -> &Tally {
        &self.rows[place(at)][class(aggregate)]
    }

    /// The counts of every class at the queue that a point belongs to.
    pub fn at(&self, at: HookPoint) -> impl Iterator<Item = (AggregateId, &Tally)> {
        (0..=u8::MAX).map(AggregateId).zip(&self.rows[place(at)])
    }

    /// The packets that are at a queue by these counts; `None` if the counts of a class are wrong.
    pub fn queued(&self, at: HookPoint) -> Option<u64> {
        self.rows[place(at)].iter().map(Tally::queued).sum()
    }

    /// The packets that were given to units.
    pub fn given(&self) -> u64 {
        self.rows[place(HookPoint::Out5b)].iter().map(|tally| tally.gone).sum()
    }

    pub(super) fn tally(&mut self, at: HookPoint, meta: &Meta) -> &mut Tally {
        &mut self.rows[place(at)][class(meta.aggregate)]
    }

    pub(super) fn come(&mut self, at: HookPoint, meta: &Meta) {
        self.tally(at, meta).come += meta.amount.packets;
    }

    pub(super) fn gone(&mut self, at: HookPoint, meta: &Meta) {
        self.tally(at, meta).gone += meta.amount.packets;
    }

    pub(super) fn dropped(&mut self, at: HookPoint, meta: &Meta, cause: Cause) {
        self.tally(at, meta).dropped[cause as usize] += meta.amount.packets;
    }

    pub(super) fn back(&mut self, at: HookPoint, meta: &Meta) {
        self.tally(at, meta).back += meta.amount.packets;
    }
}

/// The place of a queue in the order in which packets meet them: 1, 3, 5, 4, 2.
fn place(at: HookPoint) -> usize {
    usize::from(at.order() / 2)
}

fn class(aggregate: AggregateId) -> usize {
    usize::from(aggregate.0).min(CLASSES - 1)
}
