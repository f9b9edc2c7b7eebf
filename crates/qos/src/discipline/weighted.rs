//! Weighted round robin: as many packets of each child in turn as its weight says.

use crate::amount::Amount;
use crate::component::{About, ChildId, Children, Context, Discipline};

use super::{first_ready, setting, signed};

/// Takes the children in turn, each for as many packets as its weight. A super-packet counts as its pieces, and what it
/// has beyond the weight is paid in the next turns of its child.
#[derive(Clone, Debug)]
pub struct WeightedRoundRobin {
    weights: Vec<u32>,
    turn: u16,
    /// Packets that each child may still give in its turn; below zero for what it owes.
    credits: Vec<i64>,
}

impl WeightedRoundRobin {
    /// A discipline of these weights, one for each child. A weight of 0 counts as 1.
    pub fn new(weights: Vec<u32>) -> WeightedRoundRobin {
        WeightedRoundRobin { weights, turn: 0, credits: Vec::new() }
    }

    fn weight(&self, child: usize) -> i64 {
        i64::from(setting(&self.weights, child, 1).max(1))
    }
}

impl Discipline for WeightedRoundRobin {
    fn next(&mut self, children: &dyn Children, _: &Context) -> Option<ChildId> {
        let count = children.count();
        if self.credits.len() < usize::from(count) {
            let is_first = self.credits.is_empty();
            self.credits.resize(usize::from(count), 0);
            if is_first {
                self.credits[0] = self.weight(0);
            }
        }
        let first = first_ready(children, self.turn)?;
        let mut child = first;
        // A round that finds only debts pays one turn of each, so the loop ends.
        loop {
            let at = usize::from(child.0);
            if child.0 != self.turn {
                let old = std::mem::replace(&mut self.turn, child.0);
                if let Some(credit) = self.credits.get_mut(usize::from(old)) {
                    *credit = (*credit).min(0);
                }
                self.credits[at] = self.credits[at].min(0) + self.weight(at);
            }
            if self.credits[at] > 0 {
                return Some(child);
            }
            let next = first_ready(children, child.0 + 1)?;
            if next == child {
                self.credits[at] += self.weight(at);
            }
            child = next;
        }
    }

    fn served(&mut self, child: ChildId, spent: Amount, _: &Context) {
        if let Some(credit) = self.credits.get_mut(usize::from(child.0)) {
            *credit -= signed(spent.packets);
        }
    }

    fn put_back(&mut self, child: ChildId, unspent: Amount, _: &Context) {
        if let Some(credit) = self.credits.get_mut(usize::from(child.0)) {
            *credit += signed(unspent.packets);
            self.turn = child.0;
        }
    }

    fn about(&self) -> About {
        About { kind: "weighted-round-robin", settings: format!("weights {:?}", self.weights) }
    }
}
