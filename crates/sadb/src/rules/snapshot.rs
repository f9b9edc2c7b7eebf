//! The state of the rules that data threads read.

use std::sync::Arc;

use super::{Classifier, Direction, Radix, Rank, Rule, Slot};
use crate::selector::PacketKey;

/// The rules at one moment, with a classifier for each direction. A reader may keep it for any time.
#[derive(Clone, Debug)]
pub struct Snapshot<C = Radix> {
    rules: Vec<Option<Arc<Rule>>>,
    inbound: C,
    outbound: C,
    epoch: u64,
}

impl<C: Classifier> Snapshot<C> {
    pub(super) fn new(seed: u64, epoch: u64) -> Snapshot<C> {
        Snapshot { rules: Vec::new(), inbound: C::empty(seed), outbound: C::empty(!seed), epoch }
    }

    /// The first rule in order that matches the packet; `None` if no rule does, and the packet is discarded.
    ///
    /// No packet goes in [`Direction::Both`]; for it the answer is that for [`Direction::Out`].
    #[inline]
    pub fn lookup(&self, direction: Direction, packet: &PacketKey) -> Option<&Rule> {
        let classifier = if direction == Direction::In { &self.inbound } else { &self.outbound };
        let slot = classifier.lookup(packet)?;
        self.rule(slot)
    }

    /// The slot of the rule that [`Snapshot::lookup`] finds. A cache can hold it as long as [`Snapshot::epoch`] is the
    /// same.
    #[inline]
    pub fn find(&self, direction: Direction, packet: &PacketKey) -> Option<Slot> {
        let classifier = if direction == Direction::In { &self.inbound } else { &self.outbound };
        classifier.lookup(packet)
    }

    /// The rule in this slot.
    #[inline]
    pub fn rule(&self, slot: Slot) -> Option<&Rule> {
        self.rules.get(slot.0 as usize)?.as_deref()
    }

    /// Every rule with its place, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, &Rule)> {
        let held = self.rules.iter().enumerate();
        held.filter_map(|(at, rule)| Some((Slot(u32::try_from(at).ok()?), rule.as_deref()?)))
    }

    /// Whether any rule is for packets in this direction.
    pub fn has_rules_for(&self, direction: Direction) -> bool {
        self.iter().any(|(_, rule)| rule.is_for(direction))
    }

    /// A number that grows with every change of the table.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn shared(&self, slot: Slot) -> Option<Arc<Rule>> {
        self.rules.get(slot.0 as usize)?.clone()
    }

    pub(super) fn put(&mut self, rank: Rank, slot: Slot, rule: Arc<Rule>) {
        for selector in &rule.selectors {
            if rule.is_for(Direction::In) {
                self.inbound.insert(rank, slot, selector);
            }
            if rule.is_for(Direction::Out) {
                self.outbound.insert(rank, slot, selector);
            }
        }
        let at = slot.0 as usize;
        if self.rules.len() <= at {
            self.rules.resize(at + 1, None);
        }
        self.rules[at] = Some(rule);
        self.epoch += 1;
    }

    pub(super) fn take(&mut self, rank: Rank, slot: Slot) -> Option<Arc<Rule>> {
        let rule = self.rules.get_mut(slot.0 as usize)?.take()?;
        for selector in &rule.selectors {
            if rule.is_for(Direction::In) {
                self.inbound.remove(rank, slot, selector);
            }
            if rule.is_for(Direction::Out) {
                self.outbound.remove(rank, slot, selector);
            }
        }
        self.epoch += 1;
        Some(rule)
    }
}
