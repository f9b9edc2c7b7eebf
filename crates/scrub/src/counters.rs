//! The counters of what passed, and of what each rule did.

use crate::rule::Rule;
use crate::verdict::{Outcome, RuleHits, Side, Verdict};

/// The counters of one rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounters {
    /// The number of packets that it dropped.
    pub dropped: u64,
    /// The number of packets that it changed and that went on.
    pub changed: u64,
    /// The number of packets that it would have dropped or changed, where it only observes.
    pub observed: u64,
}

/// The counters of a scrubber since its start.
#[derive(Clone, Debug)]
pub struct Counters {
    rules: [RuleCounters; Rule::ALL.len()],
    /// The number of packets that arrived, by side.
    pub packets: [u64; 2],
    /// The number of packets that were forwarded, by the side from which they came.
    pub forwarded: [u64; 2],
    /// The number of fragments that were kept for reassembly, by the side from which they came.
    pub held: [u64; 2],
    /// The number of kept fragments that were given up later. The rules that ended them count them as dropped.
    pub given_up: u64,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            rules: [RuleCounters::default(); Rule::ALL.len()],
            packets: [0; 2],
            forwarded: [0; 2],
            held: [0; 2],
            given_up: 0,
        }
    }
}

impl Counters {
    /// The counters of a rule.
    pub fn of(&self, rule: Rule) -> RuleCounters {
        self.rules.get(rule.index()).copied().unwrap_or_default()
    }

    /// Count kept fragments that this rule ended.
    pub(crate) fn lost(&mut self, rule: Rule, packets: u64) {
        self.given_up += packets;
        self.ended(rule, packets);
    }

    fn ended(&mut self, rule: Rule, packets: u64) {
        if let Some(of) = self.rules.get_mut(rule.index()) {
            of.dropped += packets;
        }
    }

    /// Add the counts of another scrubber's rule.
    pub(crate) fn add(&mut self, rule: Rule, dropped: u64, changed: u64, observed: u64) {
        if let Some(of) = self.rules.get_mut(rule.index()) {
            of.dropped = of.dropped.saturating_add(dropped);
            of.changed = of.changed.saturating_add(changed);
            of.observed = of.observed.saturating_add(observed);
        }
    }

    /// Add the counts of packets of another scrubber: all, forwarded, held.
    pub(crate) fn add_packets(&mut self, sums: &[[u64; 2]; 3]) {
        for (sums, more) in [&mut self.packets, &mut self.forwarded, &mut self.held].into_iter().zip(sums) {
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
        }
    }

    /// Count a packet that went the fast path, where at most one rule has acted.
    #[inline]
    pub(crate) fn count_fast_path(&mut self, from: Side, met: RuleHits) {
        for sums in [&mut self.packets, &mut self.forwarded] {
            sums[from.index()] += 1;
        }
        if !met.acted.is_empty()
            && let Some(of) = self.rules.get_mut(Rule::V4Id.index())
        {
            of.changed += 1;
        }
    }

    #[inline]
    pub(crate) fn count(&mut self, from: Side, verdict: &Verdict) {
        let add = |sums: &mut [u64; 2]| {
            if let Some(sum) = sums.get_mut(from.index()) {
                *sum += 1;
            }
        };
        add(&mut self.packets);
        let ended = match verdict.outcome {
            Outcome::Forward | Outcome::Fragmented => {
                add(&mut self.forwarded);
                None
            }
            Outcome::Hold => {
                add(&mut self.held);
                None
            }
            Outcome::Drop(rule) => Some(rule),
        };
        if let Some(rule) = ended {
            self.ended(rule, 1);
        } else {
            for rule in verdict.met.acted.iter() {
                if let Some(of) = self.rules.get_mut(rule.index()) {
                    of.changed += 1;
                }
            }
        }
        for rule in verdict.met.would.iter() {
            if let Some(of) = self.rules.get_mut(rule.index()) {
                of.observed += 1;
            }
        }
    }
}
