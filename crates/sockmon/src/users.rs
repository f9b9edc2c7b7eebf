//! Users that rules of the SPD name: their packets go to the engine (docs/design/0009).

use crate::abi::UserKey;
use crate::error::SockmonError;
use crate::monitor::Sockmon;
use std::ops::RangeInclusive;

/// A run of numbers that a prefix of 32 bits stands for.
fn prefixes(range: &RangeInclusive<u32>) -> impl Iterator<Item = UserKey> {
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

impl Sockmon {
    /// From now on the packets of these users, and of no others, go to the engine where no application's policy decides about
    /// them. Those that are new come first, those that are gone last.
    ///
    /// # Errors
    /// If the kernel has no room for them; then those of before are among those that are ruled.
    pub fn set_users(&self, users: &[RangeInclusive<u32>]) -> Result<(), SockmonError> {
        let keys: Vec<UserKey> = users.iter().flat_map(prefixes).collect();
        for key in &keys {
            self.loaded.maps.write("users", key, &1u32)?;
        }
        self.loaded.maps.retain("users", |key: &UserKey| !keys.contains(key)).map(drop)
    }
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
