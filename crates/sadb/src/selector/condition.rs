//! The condition of a selector on one field.

/// A set of values as ranges: in order, disjoint, none touching the next. An empty list holds no value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Ranges(Vec<(u128, u128)>);

impl Ranges {
    /// The union of ranges, both ends included, in any order. A range whose first value is above its last holds none.
    pub fn new(ranges: impl IntoIterator<Item = (u128, u128)>) -> Ranges {
        let mut list: Vec<_> = ranges.into_iter().filter(|(first, last)| first <= last).collect();
        list.sort_unstable();
        let mut merged: Vec<(u128, u128)> = Vec::with_capacity(list.len());
        for (first, last) in list {
            match merged.last_mut() {
                Some(top) if first <= top.1.saturating_add(1) => top.1 = top.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Ranges(merged)
    }

    /// The ranges in order, both ends included.
    pub fn list(&self) -> &[(u128, u128)] {
        &self.0
    }

    /// Whether `value` is in one of the ranges.
    pub fn contains(&self, value: u128) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= value);
        after > 0 && value <= self.0[after - 1].1
    }

    /// The greatest value, if there is any.
    pub(crate) fn max(&self) -> Option<u128> {
        self.0.last().map(|(_, last)| *last)
    }

    /// Whether the two sets have a value in common.
    pub(crate) fn meets(&self, other: &Ranges) -> bool {
        self.0.iter().any(|(first, last)| other.0.iter().any(|(f, l)| first <= l && f <= last))
    }
}

/// The condition of a selector on one field (RFC 4301 section 4.4.1).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum Condition {
    /// The field may have any value or none.
    #[default]
    Any,
    /// The packet must not have the value (RFC 4301 section 4.4.1.1: OPAQUE).
    Opaque,
    /// The value must be available and in one of these ranges.
    In(Ranges),
    /// The value must be available and have these bits under this mask.
    Masked {
        /// The bits that the value must have.
        value: u128,
        /// The mask of the bits that count.
        mask: u128,
    },
}

impl Condition {
    /// The condition that the field has this value.
    pub fn one(value: impl Into<u128>) -> Condition {
        let value = value.into();
        Condition::In(Ranges::new([(value, value)]))
    }

    /// The condition that the value is from `first` to `last`, both included.
    pub fn range(first: impl Into<u128>, last: impl Into<u128>) -> Condition {
        Condition::In(Ranges::new([(first.into(), last.into())]))
    }

    /// Whether a packet with this value, or without one, fulfils the condition.
    pub fn admits(&self, value: Option<u128>) -> bool {
        match (self, value) {
            (Condition::Any, _) => true,
            (Condition::Opaque, value) => value.is_none(),
            (_, None) => false,
            (Condition::In(ranges), Some(value)) => ranges.contains(value),
            (Condition::Masked { value: want, mask }, Some(value)) => value & mask == *want,
        }
    }
}
