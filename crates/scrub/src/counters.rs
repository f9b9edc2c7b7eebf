//! What passed, and what each rule did.

use crate::rule::Rule;
use crate::verdict::{Met, Outcome, Side, Verdict};

/// Of one rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounters {
    /// Packets it ended.
    pub dropped: u64,
    /// Packets it changed that went on.
    pub changed: u64,
    /// Packets it would have ended or changed, where it only observes.
    pub observed: u64,
}

/// Of a scrubber since its start.
#[derive(Clone, Debug)]
pub struct Counters {
    rules: [RuleCounters; Rule::ALL.len()],
    /// Packets that came, by side.
    pub packets: [u64; 2],
    /// Of those, packets that went on.
    pub forwarded: [u64; 2],
    /// Of those, fragments that were kept.
    pub held: [u64; 2],
    /// Of the fragments that were kept, those that were given up later: the rules that ended them count them as dropped.
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
    /// What a rule did.
    pub fn of(&self, rule: Rule) -> RuleCounters {
        self.rules.get(rule.index()).copied().unwrap_or_default()
    }

    /// Fragments that were held ended by this rule.
    pub(crate) fn lost(&mut self, rule: Rule, packets: u64) {
        self.given_up += packets;
        self.ended(rule, packets);
    }

    fn ended(&mut self, rule: Rule, packets: u64) {
        if let Some(of) = self.rules.get_mut(rule.index()) {
            of.dropped += packets;
        }
    }

    /// What another scrubber's rule did.
    pub(crate) fn add(&mut self, rule: Rule, dropped: u64, changed: u64, observed: u64) {
        if let Some(of) = self.rules.get_mut(rule.index()) {
            of.dropped = of.dropped.saturating_add(dropped);
            of.changed = of.changed.saturating_add(changed);
            of.observed = of.observed.saturating_add(observed);
        }
    }

    /// What passed another scrubber: packets, forwarded, held.
    pub(crate) fn add_packets(&mut self, sums: &[[u64; 2]; 3]) {
        for (sums, more) in [&mut self.packets, &mut self.forwarded, &mut self.held].into_iter().zip(sums) {
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
        }
    }

    /// Of a packet that went the short way, where one rule at most has acted.
    #[inline]
    pub(crate) fn count_express(&mut self, from: Side, met: Met) {
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
