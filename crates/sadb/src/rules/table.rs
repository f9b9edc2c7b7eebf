//! The ordered table of rules, from which every snapshot is made.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Classifier, Name, Radix, Rank, Rule, RuleError, RuleKey, Slot, Snapshot};

/// The largest number of rules in one table.
pub const MAX_RULES: usize = 1 << 20;

/// The distance between the ranks of rules that were added one after the other, so that others fit between.
const GAP: u64 = 1 << 32;

/// The place of a new rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The place before all rules.
    First,
    /// The place after all rules.
    Last,
    /// The place before the rule at this position, counted from zero. A position at or past the end is after all rules.
    At(usize),
    /// The place right before this rule.
    Before(RuleKey),
    /// The place right after this rule.
    After(RuleKey),
}

/// An ordered table of rules. The first that matches a packet decides.
#[derive(Clone, Debug)]
pub struct RuleTable<C = Radix> {
    /// The rules in order, with growing ranks.
    order: Vec<(Rank, Slot)>,
    ranks: HashMap<RuleKey, (Rank, Slot), Fixed>,
    free: Vec<Slot>,
    current: Arc<Snapshot<C>>,
    seed: u64,
}

/// The hash of rule keys. It needs no secret, since the keys are the operator's numbers.
type Fixed = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;

impl<C: Classifier> RuleTable<C> {
    /// A table without rules. `seed` is random; see [`Classifier::empty`].
    pub fn new(seed: u64) -> RuleTable<C> {
        RuleTable {
            order: Vec::new(),
            ranks: HashMap::default(),
            free: Vec::new(),
            current: Arc::new(Snapshot::new(seed, 0)),
            seed,
        }
    }

    /// A snapshot of the present rules. It does not change when the table does.
    pub fn snapshot(&self) -> Arc<Snapshot<C>> {
        Arc::clone(&self.current)
    }

    /// The number of rules.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The rules in order.
    pub fn list(&self) -> impl Iterator<Item = &Rule> {
        self.order.iter().filter_map(|(_, slot)| self.current.rule(*slot))
    }

    /// The rule of this number.
    pub fn get(&self, key: RuleKey) -> Option<&Rule> {
        self.current.rule(self.ranks.get(&key)?.1)
    }

    /// The position of the rule of this number, counted from zero.
    pub fn position(&self, key: RuleKey) -> Option<usize> {
        let (rank, _) = self.ranks.get(&key)?;
        self.order.binary_search_by_key(rank, |(rank, _)| *rank).ok()
    }

    /// The first rule in order for a peer of this name (RFC 4301 section 4.4.1.1, use 1).
    pub fn by_name(&self, name: &Name) -> Option<&Rule> {
        self.list().find(|rule| rule.names.contains(name))
    }

    /// Add a rule at `place`. If readers hold the snapshot it is copied once; the change itself touches only the rule's
    /// own ways.
    ///
    /// # Errors
    /// What [`Rule::checked`] finds; [`RuleError::Duplicate`]; [`RuleError::Unknown`] if `place` names no rule;
    /// [`RuleError::TooMany`].
    pub fn add(&mut self, place: Place, rule: Rule) -> Result<(), RuleError> {
        let rule = rule.checked()?;
        if self.ranks.contains_key(&rule.key) {
            return Err(RuleError::Duplicate(rule.key));
        }
        if self.order.len() >= MAX_RULES {
            return Err(RuleError::TooMany(MAX_RULES));
        }
        let at = self.index(place)?;
        let rank = match self.between(at) {
            Some(rank) => rank,
            None => {
                self.spread();
                self.between(at).unwrap_or(Rank(u64::MAX - 1))
            }
        };
        let slot = self.free.pop().unwrap_or(Slot(self.order.len() as u32));
        self.order.insert(at, (rank, slot));
        self.ranks.insert(rule.key, (rank, slot));
        Arc::make_mut(&mut self.current).put(rank, slot, Arc::new(rule));
        Ok(())
    }

    /// Remove the rule of this number and return it.
    ///
    /// # Errors
    /// [`RuleError::Unknown`].
    pub fn remove(&mut self, key: RuleKey) -> Result<Rule, RuleError> {
        let at = self.position(key).ok_or(RuleError::Unknown(key))?;
        let (rank, slot) = self.order.remove(at);
        self.ranks.remove(&key);
        let rule = Arc::make_mut(&mut self.current).take(rank, slot).ok_or(RuleError::Unknown(key))?;
        self.free.push(slot);
        Ok(Arc::unwrap_or_clone(rule))
    }

    /// Remove all rules of the table. Decisions that readers remember from earlier snapshots are no longer valid.
    pub fn clear(&mut self) {
        let epoch = self.current.epoch() + 1;
        self.order.clear();
        self.ranks.clear();
        self.free.clear();
        self.current = Arc::new(Snapshot::new(self.seed, epoch));
    }

    fn index(&self, place: Place) -> Result<usize, RuleError> {
        let of = |key| self.position(key).ok_or(RuleError::Unknown(key));
        Ok(match place {
            Place::First => 0,
            Place::Last => self.order.len(),
            Place::At(at) => at.min(self.order.len()),
            Place::Before(key) => of(key)?,
            Place::After(key) => of(key)? + 1,
        })
    }

    /// A rank for a rule at this position, if there is one left between its neighbours.
    fn between(&self, at: usize) -> Option<Rank> {
        let below = at.checked_sub(1).map_or(0, |before| self.order[before].0.0);
        let rank = match self.order.get(at) {
            Some((above, _)) => below + (above.0 - below) / 2,
            None => below.checked_add(GAP).filter(|rank| *rank < u64::MAX)?,
        };
        (rank > below).then_some(Rank(rank))
    }

    /// Give all rules new ranks with room between them, and compile the classifiers anew.
    fn spread(&mut self) {
        let mut fresh = Snapshot::new(self.seed, self.current.epoch());
        for (index, (rank, slot)) in self.order.iter_mut().enumerate() {
            *rank = Rank((index as u64 + 1) * GAP);
            if let Some(rule) = self.current.shared(*slot) {
                self.ranks.insert(rule.key, (*rank, *slot));
                fresh.put(*rank, *slot, rule);
            }
        }
        self.current = Arc::new(fresh);
    }
}
