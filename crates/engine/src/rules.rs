//! The rules of the SPD as one half of the engine holds them: a snapshot, and what each rule decided.

use std::sync::Arc;

pub(crate) use sadb::rules::Direction as Way;
use sadb::rules::{Direction, RuleKey, Slot};
use sadb::selector::{Condition, field};
use sadb::{PacketKey, Snapshot};

use crate::tally::Traffic;

/// In the `rule` of a [`crate::Dropped`], of [`wire::Meta`] and of an acquire: the number is one of the SPD's rules, not of
/// the applications' policy.
pub const SPD_RULE: u32 = 1 << 31;

/// The number of a rule where numbers of policy stand too.
pub(crate) fn number(key: RuleKey) -> u32 {
    SPD_RULE | key.0
}

/// The rules for packets one way.
pub(crate) struct Rules {
    pub snapshot: Arc<Snapshot>,
    direction: Direction,
    /// By slot: whose count it is, and the count.
    counts: Vec<Option<(RuleKey, Traffic)>>,
    /// Whether any of them asks for the DSCP.
    pub names_dscp: bool,
}

impl Rules {
    /// These rules in place of `old`; those that were there keep their counts. `None` if none is for packets this way.
    pub fn new(old: Option<Rules>, snapshot: Arc<Snapshot>, direction: Direction) -> Option<Rules> {
        if !snapshot.has_rules_for(direction) {
            return None;
        }
        let mut counts = Vec::new();
        let mut names_dscp = false;
        for (slot, rule) in snapshot.iter().filter(|(_, rule)| rule.is_for(direction)) {
            let at = slot.0 as usize;
            if counts.len() <= at {
                counts.resize(at + 1, None);
            }
            names_dscp |= rule.selectors.iter().any(|one| *one.condition(&field::DSCP) != Condition::Any);
            let before = old.as_ref().and_then(|old| *old.counts.get(at)?);
            let kept = before.filter(|(key, _)| *key == rule.key);
            counts[at] = Some(kept.unwrap_or((rule.key, Traffic::default())));
        }
        Some(Rules { snapshot, direction, counts, names_dscp })
    }

    /// The first rule in order that matches.
    #[inline]
    pub fn find(&self, packet: &PacketKey) -> Option<Slot> {
        self.snapshot.find(self.direction, packet)
    }

    /// A packet of `len` octets was decided by this rule.
    #[inline]
    pub fn count(&mut self, slot: Slot, len: usize) {
        if let Some(Some((_, traffic))) = self.counts.get_mut(slot.0 as usize) {
            traffic.count(len);
        }
    }

    /// What each rule decided.
    pub fn counts(&self) -> impl Iterator<Item = (RuleKey, Traffic)> + '_ {
        self.counts.iter().flatten().copied()
    }
}
