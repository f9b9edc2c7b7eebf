//! The interface to structures that find the first rule for a packet.

use crate::selector::{PacketKey, TrafficSelector};

/// The place of a rule in the order. The one of lower rank decides where two match. No two rules have the same rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub u64);

/// The index of a rule in the list of whoever keeps the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

/// A structure over the selectors of rules. It knows keys and masks, and no field by name.
pub trait Classifier: Clone {
    /// A classifier without selectors. `seed` is random. One that hashes uses it, so that nobody can choose packets
    /// that collide.
    fn empty(seed: u64) -> Self;

    /// Take in one selector of the rule at `slot`. A rule of several selectors is inserted once with each.
    fn insert(&mut self, rank: Rank, slot: Slot, selector: &TrafficSelector);

    /// Take out what was inserted with these three arguments; nothing happens if nothing was.
    fn remove(&mut self, rank: Rank, slot: Slot, selector: &TrafficSelector);

    /// The slot of lowest rank among those with a selector that matches.
    fn lookup(&self, packet: &PacketKey) -> Option<Slot>;
}
