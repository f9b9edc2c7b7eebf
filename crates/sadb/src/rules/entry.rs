//! The form of a selector for lookups: patterns of bits under masks, and ranges that no pattern expresses.

use std::sync::Arc;

use super::{Rank, Slot};
use crate::selector::{Condition, Field, PacketKey, TrafficSelector, WORDS};

pub(super) type Words = [u64; WORDS];

/// The largest number of patterns of one selector. Ranges that would need more are checked separately, under the bits
/// that their ends share.
const MAX_PATTERNS: usize = 8;

/// Bits of a key under a mask. Bits outside the mask are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(align(64))]
pub(super) struct Pattern {
    pub bits: Words,
    pub mask: Words,
}

impl Pattern {
    const ANY: Pattern = Pattern { bits: [0; WORDS], mask: [0; WORDS] };

    #[inline]
    pub fn admits(&self, key: &Words) -> bool {
        let differing = |i: usize| (key[i] ^ self.bits[i]) & self.mask[i];
        (0..WORDS).fold(0, |all, i| all | differing(i)) == 0
    }

    /// Whether these bits and the pattern's are equal under a mask.
    pub fn meets(&self, bits: &Words, mask: &Words) -> bool {
        (0..WORDS).all(|i| (bits[i] ^ self.bits[i]) & mask[i] == 0)
    }

    /// The way of this pattern at a branch: zero or one where the mask is set, two where it is not.
    #[inline]
    pub fn trit(&self, bit: u16) -> usize {
        if test(&self.mask, bit) { usize::from(test(&self.bits, bit)) } else { 2 }
    }

    /// The first bit at which the two demand something different.
    pub fn first_difference(&self, other: &Pattern) -> Option<u16> {
        (0..WORDS).find_map(|i| {
            let differing = (self.mask[i] ^ other.mask[i]) | (self.bits[i] ^ other.bits[i]);
            (differing != 0).then(|| i as u16 * 64 + differing.leading_zeros() as u16)
        })
    }

    /// This pattern with one more condition on a field that it leaves open: the availability flag and the first `len`
    /// bits of `value`.
    fn with(&self, field: &Field, value: u128, len: u32) -> Pattern {
        let width = u32::from(field.width());
        let kept = if len == 0 { 0 } else { field.max() & field.max() << (width - len) };
        let mut made = *self;
        field.put(&mut made.bits, value & kept);
        field.put(&mut made.mask, kept);
        made
    }
}

/// Bit `bit` of a key, counted from the most significant.
#[inline]
pub(super) fn test(words: &Words, bit: u16) -> bool {
    words[usize::from(bit / 64) % WORDS] >> (63 - bit % 64) & 1 == 1
}

/// A condition that the pattern leaves open: the field's value must be in one of these ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Residual {
    field: &'static Field,
    ranges: Vec<(u128, u128)>,
}

/// The rank and slot of a rule, which are kept beside its pattern.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub rank: Rank,
    pub slot: Slot,
    /// The conditions that the pattern does not express.
    residuals: Option<Arc<[Residual]>>,
}

impl Entry {
    /// Whether a packet that the pattern admits fulfils the remaining conditions too.
    #[inline]
    pub fn admits(&self, packet: &PacketKey) -> bool {
        self.residuals.as_ref().is_none_or(|residuals| {
            residuals.iter().all(|residual| {
                packet.get(residual.field).is_some_and(|value| {
                    residual.ranges.iter().any(|(first, last)| *first <= value && value <= *last)
                })
            })
        })
    }
}

/// The patterns of a selector, disjoint, and the entry that goes with each.
pub(super) fn compile(rank: Rank, slot: Slot, selector: &TrafficSelector) -> (Vec<Pattern>, Entry) {
    let mut patterns = vec![Pattern::ANY];
    let mut residuals = Vec::new();
    let mut ranged = Vec::new();
    for term in selector.terms() {
        let field = term.field();
        match term.condition() {
            Condition::Any => {}
            // The flag in the mask, zero in the bits.
            Condition::Opaque => field.put_flag(&mut patterns[0].mask),
            Condition::Masked { value, mask } => {
                field.put(&mut patterns[0].bits, *value);
                field.put(&mut patterns[0].mask, *mask);
            }
            Condition::In(ranges) => {
                let exact = prefixes(field, ranges.list());
                ranged.push((exact, field, ranges.list()));
            }
        }
    }
    // Those that need fewest patterns first, so that the bound serves as many fields as it can.
    ranged.sort_by_key(|(exact, ..)| exact.as_ref().map_or(usize::MAX, Vec::len));
    for (exact, field, ranges) in ranged {
        let exact = exact.filter(|list| list.len() * patterns.len() <= MAX_PATTERNS);
        let prefixes = exact.unwrap_or_else(|| {
            residuals.push(Residual { field, ranges: ranges.to_vec() });
            vec![hull(field, ranges)]
        });
        patterns = patterns
            .iter()
            .flat_map(|pattern| prefixes.iter().map(|(value, len)| pattern.with(field, *value, *len)))
            .collect();
    }
    let residuals = (!residuals.is_empty()).then(|| residuals.into());
    (patterns, Entry { rank, slot, residuals })
}

/// The fewest prefixes (value, length) that make up these ranges; `None` if there are more than [`MAX_PATTERNS`].
fn prefixes(field: &Field, ranges: &[(u128, u128)]) -> Option<Vec<(u128, u32)>> {
    let width = u32::from(field.width());
    let mut list = Vec::new();
    for &(first, last) in ranges {
        let mut at = first;
        loop {
            if list.len() == MAX_PATTERNS {
                return None;
            }
            let mut free = at.trailing_zeros().min(width);
            while free > 0 && at | ones(free) > last {
                free -= 1;
            }
            list.push((at, width - free));
            let end = at | ones(free);
            if end >= last {
                break;
            }
            at = end + 1;
        }
    }
    Some(list)
}

/// The longest prefix that holds all ranges.
fn hull(field: &Field, ranges: &[(u128, u128)]) -> (u128, u32) {
    let first = ranges.first().map_or(0, |range| range.0);
    let last = ranges.last().map_or(0, |range| range.1);
    let differing = 128 - (first ^ last).leading_zeros();
    (first & !ones(differing), u32::from(field.width()) - differing)
}

fn ones(count: u32) -> u128 {
    if count == 0 { 0 } else { u128::MAX >> (128 - count) }
}
