//! Sets of small numbers.

use crate::meta::AggregateId;

/// Aggregates, of the first 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AggregateSet(u64);

impl AggregateSet {
    /// Whether the aggregate is in the set.
    pub const fn has(self, aggregate: AggregateId) -> bool {
        aggregate.0 < 64 && self.0 & (1 << aggregate.0) != 0
    }
}

impl FromIterator<AggregateId> for AggregateSet {
    fn from_iter<I: IntoIterator<Item = AggregateId>>(aggregates: I) -> AggregateSet {
        let bits =
            aggregates.into_iter().filter(|aggregate| aggregate.0 < 64).map(|aggregate| 1 << aggregate.0);
        AggregateSet(bits.fold(0, |set, bit: u64| set | bit))
    }
}

/// Suites by their numbers in the graph's list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SuiteSet(Vec<u64>);

impl SuiteSet {
    /// Whether the suite is in the set.
    pub fn has(&self, suite: u16) -> bool {
        self.0.get(usize::from(suite / 64)).is_some_and(|word| word & (1 << (suite % 64)) != 0)
    }
}

impl FromIterator<u16> for SuiteSet {
    fn from_iter<I: IntoIterator<Item = u16>>(suites: I) -> SuiteSet {
        let mut words = Vec::new();
        for suite in suites {
            let word = usize::from(suite / 64);
            if words.len() <= word {
                words.resize(word + 1, 0);
            }
            words[word] |= 1 << (suite % 64);
        }
        SuiteSet(words)
    }
}
