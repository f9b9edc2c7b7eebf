//! What of each class waits for units, with what it is expected to cost there.

use crate::amount::Burden;
use crate::meta::{AggregateId, Meta};

/// The number of classes that are told apart.
const CLASSES: usize = 64;

/// What the waiting packets of each class are.
pub(super) struct Classes(Box<[Burden; CLASSES]>);

impl Default for Classes {
    fn default() -> Classes {
        Classes(Box::new([Burden::default(); CLASSES]))
    }
}

impl Classes {
    pub(super) fn waiting(&self, aggregate: AggregateId) -> Burden {
        self.0[place(aggregate)]
    }

    /// A packet waits for a unit.
    #[inline]
    pub(super) fn wait(&mut self, meta: &Meta) {
        self.0[place(meta.aggregate)].add(&meta.amount);
    }

    /// A packet that waited does so no more.
    #[inline]
    pub(super) fn leave(&mut self, meta: &Meta) {
        self.0[place(meta.aggregate)].take(&meta.amount);
    }
}

fn place(aggregate: AggregateId) -> usize {
    usize::from(aggregate.0).min(CLASSES - 1)
}
