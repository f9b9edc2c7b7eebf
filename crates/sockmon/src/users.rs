//! Users that rules of the SPD name: their packets go to the engine (docs/design/0009).

use crate::abi::UserKey;
use std::ops::RangeInclusive;

/// A run of numbers that a prefix of 32 bits stands for.
pub(crate) fn prefixes(range: &RangeInclusive<u32>) -> impl Iterator<Item = UserKey> {
    let (mut first, last) = (u64::from(*range.start()), u64::from(*range.end()));
    std::iter::from_fn(move || {
        if first > last {
            return None;
        }
        // The largest block that begins here and ends no later.
        let aligned = first.trailing_zeros().min(32);
        let fits = (last - first + 1).ilog2();
        let bits = aligned.min(fits);
        let key = UserKey { prefixlen: 32 - bits, user: (first as u32).to_be_bytes() };
        first += 1 << bits;
        Some(key)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_cover_a_range_and_nothing_else() {
        let wide =
            [0..=0, 1000..=1000, 7..=300, 0..=u32::MAX, u32::MAX..=u32::MAX, 1..=u32::MAX, 65_534..=65_536];
        for range in wide {
            let mut next = u64::from(*range.start());
            for key in prefixes(&range) {
                let first = u64::from(u32::from_be_bytes(key.user));
                assert_eq!(first, next, "{range:?}");
                let len = 1u64 << (32 - key.prefixlen);
                assert!(first.is_multiple_of(len), "{range:?}: {key:?}");
                next = first + len;
            }
            assert_eq!(next, u64::from(*range.end()) + 1, "{range:?}");
        }
    }
}
