//! Another behaviour, kept to some aggregates: how one chain has a meter for each class.

use wire::Time;

use crate::component::{About, Behaviour, Context, Entry};
use crate::meta::AggregateId;

/// A set of aggregates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AggregateSet([u64; 4]);

impl AggregateSet {
    /// The set of these aggregates.
    pub fn of(list: &[AggregateId]) -> AggregateSet {
        let mut set = AggregateSet::default();
        for id in list {
            set.0[usize::from(id.0 >> 6)] |= 1 << (id.0 & 63);
        }
        set
    }

    /// Whether the aggregate is in it.
    pub const fn has(&self, id: AggregateId) -> bool {
        self.0[(id.0 >> 6) as usize] & 1 << (id.0 & 63) != 0
    }

    /// The number of aggregates in it.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
}

/// A behaviour that is given the packets of some aggregates alone.
pub struct Only<B> {
    set: AggregateSet,
    inner: B,
}

impl<B: Behaviour> Only<B> {
    /// Keep a behaviour to the aggregates of the set.
    pub const fn new(set: AggregateSet, inner: B) -> Only<B> {
        Only { set, inner }
    }

    /// The behaviour that is kept to the set.
    pub const fn inner(&mut self) -> &mut B {
        &mut self.inner
    }
}

impl<B: Behaviour> Behaviour for Only<B> {
    fn run(&mut self, batch: &mut [Entry], context: &Context) {
        let has = |entry: &Entry| self.set.has(entry.meta.aggregate);
        for run in batch.chunk_by_mut(|one, next| has(one) == has(next)) {
            if run.first().is_some_and(has) {
                self.inner.run(run, context);
            }
        }
    }

    fn eligible_at(&self) -> Option<Time> {
        self.inner.eligible_at()
    }

    fn about(&self) -> About {
        let About { kind, settings } = self.inner.about();
        About { kind, settings: format!("{settings}, for {} aggregates", self.set.count()) }
    }
}
