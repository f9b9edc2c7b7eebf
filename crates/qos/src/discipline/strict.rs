//! Strict priority with a guard.
//!
//! Child 0 goes first, the last child last. A child that never ends would starve those behind it, so each has a guard:
//! a token bucket of what it may take while a child behind it waits. In any time `t` in which others behind it wait
//! throughout, a child takes at most `burst + rate * t` and the rest of the packet that uses up the last token. What
//! nobody else waits for is free.
//!
//! One guard can also stand for every child in front of the last one together, which then waits no longer than the
//! guard's burst lets it.

use wire::Time;

use crate::amount::{Amount, Measure};
use crate::component::{About, ChildId, Children, Context, Discipline};

use super::{cost, setting, signed};

/// Tokens are counted in parts of this size, so that no part of one is lost in a nanosecond.
const PARTS: i128 = 1_000_000_000;

/// The most that a child may take while a child behind it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// What it may take in a second, in the measure of the discipline.
    pub rate: u64,
    /// What it may take at once.
    pub burst: u64,
}

impl Guard {
    /// A guard that bounds nothing. Where it stands, something else has to police the child.
    pub const NONE: Guard = Guard { rate: u64::MAX, burst: u64::MAX };
}

/// The tokens of one child.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    parts: i128,
    filled: Time,
}

/// Takes the first child that has a packet and is within its guard.
#[derive(Clone, Debug)]
pub struct StrictPriority {
    measure: Measure,
    guards: Vec<Guard>,
    buckets: Vec<Bucket>,
    /// One guard is for all children in front of the last one, together.
    is_common: bool,
    /// Whether a child behind the chosen one had a packet.
    others_wait: bool,
}

impl StrictPriority {
    /// A discipline of these guards, one for each child, in the measure. The last child needs none.
    pub fn new(measure: Measure, guards: Vec<Guard>) -> StrictPriority {
        StrictPriority { measure, guards, buckets: Vec::new(), is_common: false, others_wait: false }
    }

    /// A discipline with one guard for every child in front of the last one, together. It counts while the last child
    /// waits.
    pub fn common(measure: Measure, guard: Guard) -> StrictPriority {
        StrictPriority { is_common: true, ..StrictPriority::new(measure, vec![guard]) }
    }

    /// The number of the bucket that a child takes from.
    fn bucket(&self, child: usize) -> usize {
        if self.is_common { 0 } else { child }
    }

    fn guard(&self, child: usize) -> Guard {
        setting(&self.guards, child, Guard::NONE)
    }

    /// The parts that a full bucket of the child has. A bucket without room for one token would never give any.
    fn full(&self, child: usize) -> i128 {
        i128::from(signed(self.guard(child).burst.max(1))) * PARTS
    }

    /// Fill the bucket of a child up to now, and answer whether it has a token.
    fn has_tokens(&mut self, child: usize, now: Time) -> bool {
        let guard = self.guard(child);
        if guard == Guard::NONE {
            return true;
        }
        let full = self.full(child);
        let bucket = &mut self.buckets[child];
        let passed = now.0.saturating_sub(bucket.filled.0);
        bucket.filled = bucket.filled.max(now);
        bucket.parts = (bucket.parts + i128::from(signed(guard.rate)) * i128::from(passed)).min(full);
        bucket.parts > 0
    }

    fn charge(&mut self, child: ChildId, parts: i128) {
        let at = self.bucket(usize::from(child.0));
        let full = self.full(at);
        if let Some(bucket) = self.buckets.get_mut(at).filter(|_| self.others_wait) {
            bucket.parts = (bucket.parts - parts).min(full);
        }
    }
}

impl Discipline for StrictPriority {
    fn next(&mut self, children: &dyn Children, context: &Context) -> Option<ChildId> {
        let count = children.count();
        for child in self.buckets.len()..usize::from(count) {
            self.buckets.push(Bucket { parts: self.full(child), filled: context.now });
        }
        let last = (0..count).rev().find(|&child| children.head(ChildId(child)).is_some())?;
        if self.is_common {
            self.others_wait = false;
            let first = (0..count).find(|&child| children.head(ChildId(child)).is_some())?;
            if last + 1 < count || first == last {
                return Some(ChildId(first));
            }
            self.others_wait = self.has_tokens(0, context.now);
            return Some(ChildId(if self.others_wait { first } else { last }));
        }
        for child in 0..last {
            if children.head(ChildId(child)).is_some() && self.has_tokens(usize::from(child), context.now) {
                self.others_wait = true;
                return Some(ChildId(child));
            }
        }
        self.others_wait = false;
        Some(ChildId(last))
    }

    fn served(&mut self, child: ChildId, spent: Amount, _: &Context) {
        self.charge(child, i128::from(cost(spent, self.measure)) * PARTS);
    }

    fn put_back(&mut self, child: ChildId, unspent: Amount, _: &Context) {
        self.charge(child, -i128::from(cost(unspent, self.measure)) * PARTS);
    }

    fn about(&self) -> About {
        let guards: Vec<_> = self.guards.iter().map(|guard| (guard.rate, guard.burst)).collect();
        About { kind: "strict-priority", settings: format!("guards {guards:?} {:?}", self.measure) }
    }
}
