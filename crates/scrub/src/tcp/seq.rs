//! Sequence numbers: arithmetic modulo 2^32 (RFC 9293 section 3.4).

/// How far `to` is behind `from`, negative if it is in front of it.
#[inline]
pub const fn distance(from: u32, to: u32) -> i32 {
    to.wrapping_sub(from) as i32
}

/// Whether `a` is in front of `b`.
#[inline]
pub const fn before(a: u32, b: u32) -> bool {
    distance(b, a) < 0
}

/// The one further on.
#[inline]
pub const fn max(a: u32, b: u32) -> u32 {
    if before(a, b) { b } else { a }
}

/// Octets from `from` to `to`; none if `to` is not behind `from`.
#[inline]
pub const fn gap(from: u32, to: u32) -> u32 {
    if before(from, to) { to.wrapping_sub(from) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn order_survives_the_wrap(at in any::<u32>(), by in 1_u32..=i32::MAX as u32) {
            let later = at.wrapping_add(by);
            prop_assert!(before(at, later) && !before(later, at) && !before(at, at));
            prop_assert_eq!((max(at, later), max(later, at)), (later, later));
            prop_assert_eq!((gap(at, later), gap(later, at)), (by, 0));
            prop_assert_eq!((distance(at, later), distance(later, at)), (by as i32, -(by as i32)));
        }
    }
}
