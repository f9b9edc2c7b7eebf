//! The rules of the SPD as one half of the engine holds them: a snapshot, and the counts of each rule.

use std::sync::Arc;

pub(crate) use sadb::rules::Direction as Way;
use sadb::rules::{Action, Direction, RuleKey, Slot};
use sadb::selector::{Condition, field};
use sadb::{PacketKey, Snapshot};

use crate::stats::Traffic;

/// The bit that marks a number as one of the SPD's rules, not of the applications' policy. It stands in the `rule` of a
/// [`crate::Dropped`], of [`wire::Meta`] and of an acquire.
pub const SPD_RULE: u32 = 1 << 31;

/// The number of a rule, in the form for fields that also hold numbers of policy.
pub(crate) fn number(key: RuleKey) -> u32 {
    SPD_RULE | key.0
}

/// The rules for packets in one direction.
pub(crate) struct Rules {
    pub snapshot: Arc<Snapshot>,
    direction: Direction,
    /// The count of each rule by its slot, with the rule's key.
    counts: Vec<Option<(RuleKey, Traffic)>>,
    /// Whether any of the rules asks for the DSCP.
    pub names_dscp: bool,
    /// The numbers of those that name the SPI of an association that serves them, in ascending order.
    naming_spi: Vec<u32>,
}

impl Rules {
    /// These rules in place of `old`; rules that were there before keep their counts. `None` if no rule is for packets
    /// in this direction.
    pub fn new(old: Option<Rules>, snapshot: Arc<Snapshot>, direction: Direction) -> Option<Rules> {
        if !snapshot.has_rules_for(direction) {
            return None;
        }
        let mut counts = Vec::new();
        let (mut names_dscp, mut naming_spi) = (false, Vec::new());
        for (slot, rule) in snapshot.iter().filter(|(_, rule)| rule.is_for(direction)) {
            let at = slot.0 as usize;
            if counts.len() <= at {
                counts.resize(at + 1, None);
            }
            names_dscp |= rule.selectors.iter().any(|one| *one.condition(&field::DSCP) != Condition::Any);
            if let Action::Protect(protection) = &rule.action
                && protection.bundle.iter().any(|one| one.spi.is_some())
            {
                naming_spi.push(number(rule.key));
            }
            let before = old.as_ref().and_then(|old| *old.counts.get(at)?);
            let kept = before.filter(|(key, _)| *key == rule.key);
            counts[at] = Some(kept.unwrap_or((rule.key, Traffic::default())));
        }
        naming_spi.sort_unstable();
        Some(Rules { snapshot, direction, counts, names_dscp, naming_spi })
    }

    /// Whether the rule with this number, as packets carry it, names the SPI of an association that serves it.
    #[inline]
    pub fn names_spi(&self, rule: u32) -> bool {
        self.naming_spi.binary_search(&rule).is_ok()
    }

    /// The first rule in order that matches the packet.
    #[inline]
    pub fn find(&self, packet: &PacketKey) -> Option<Slot> {
        self.snapshot.find(self.direction, packet)
    }

    /// Count a packet of `len` octets for the rule that decided it.
    #[inline]
    pub fn count(&mut self, slot: Slot, len: usize) {
        if let Some(Some((_, traffic))) = self.counts.get_mut(slot.0 as usize) {
            traffic.count(len);
        }
    }

    /// The counts of each rule.
    pub fn counts(&self) -> impl Iterator<Item = (RuleKey, Traffic)> + '_ {
        self.counts.iter().flatten().copied()
    }
}
