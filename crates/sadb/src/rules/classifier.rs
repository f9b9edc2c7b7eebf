//! What answers "which rule comes first for this packet".

use crate::selector::{PacketKey, TrafficSelector};

/// Where a rule stands in the order: of two that match, the one of lower rank decides. No two rules have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub u64);

/// Which rule, for whoever keeps the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

/// A structure over the selectors of rules. It knows keys and masks, and no field by name.
pub trait Classifier: Clone {
    /// An empty one. `seed` is random: one that hashes uses it, so that nobody can choose packets that collide.
    fn empty(seed: u64) -> Self;

    /// Take in one selector of the rule at `slot`. A rule of several selectors is inserted once with each.
    fn insert(&mut self, rank: Rank, slot: Slot, selector: &TrafficSelector);

    /// Take out what was inserted with these three; nothing happens if nothing was.
    fn remove(&mut self, rank: Rank, slot: Slot, selector: &TrafficSelector);

    /// The slot of lowest rank among those with a selector that matches.
    fn lookup(&self, packet: &PacketKey) -> Option<Slot>;
}
