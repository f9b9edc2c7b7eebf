//! The classifier that reads the rules in order. Every other structure must agree with it.

use super::{Classifier, Rank, Slot};
use crate::selector::{PacketKey, TrafficSelector};

/// A list of selectors in the order of their ranks.
#[derive(Clone, Debug, Default)]
pub struct Linear {
    entries: Vec<(Rank, Slot, TrafficSelector)>,
}

impl Classifier for Linear {
    fn empty(_seed: u64) -> Linear {
        Linear::default()
    }

    fn insert(&mut self, rank: Rank, slot: Slot, selector: &TrafficSelector) {
        let at = self.entries.partition_point(|entry| entry.0 <= rank);
        self.entries.insert(at, (rank, slot, selector.clone()));
    }

    fn remove(&mut self, rank: Rank, slot: Slot, selector: &TrafficSelector) {
        let is_it = |entry: &(Rank, Slot, TrafficSelector)| {
            (entry.0, entry.1) == (rank, slot) && entry.2 == *selector
        };
        if let Some(at) = self.entries.iter().position(is_it) {
            self.entries.remove(at);
        }
    }

    fn lookup(&self, packet: &PacketKey) -> Option<Slot> {
        self.entries.iter().find(|(_, _, selector)| selector.matches(packet)).map(|(_, slot, _)| *slot)
    }
}
