//! The arithmetic of sequence numbers, modulo 2^32 (RFC 9293 section 3.4).

/// Makes the arithmetic for one width of numbers. The tests use eight bits, so that they can try every case.
macro_rules! arithmetic {
    ($number:ty, $distance:ty) => {
        /// The distance by which `to` is behind `from`, negative if it is in front of it.
        #[inline]
        pub const fn distance(from: $number, to: $number) -> $distance {
            to.wrapping_sub(from) as $distance
        }

        /// Whether `a` is in front of `b`.
        #[inline]
        pub const fn before(a: $number, b: $number) -> bool {
            distance(b, a) < 0
        }

        /// The number that is further on.
        #[inline]
        pub const fn max(a: $number, b: $number) -> $number {
            if before(a, b) { b } else { a }
        }

        /// The number of octets from `from` to `to`; zero if `to` is not behind `from`.
        #[inline]
        pub const fn gap(from: $number, to: $number) -> $number {
            if before(from, to) { to.wrapping_sub(from) } else { 0 }
        }
    };
}

arithmetic!(u32, i32);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    mod small {
        arithmetic!(u8, i8);
    }

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

    /// All numbers of eight bits, against integers that do not wrap: whatever lies within half the circle keeps its
    /// order.
    #[test]
    fn every_place_on_a_circle_of_256() {
        for base in 0..=u8::MAX {
            for a in 0..128_i32 {
                for b in 0..128_i32 {
                    let [x, y] = [a, b].map(|offset| base.wrapping_add(offset as u8));
                    assert_eq!(small::before(x, y), a < b);
                    assert_eq!(small::max(x, y), base.wrapping_add(a.max(b) as u8));
                    assert_eq!(i32::from(small::gap(x, y)), (b - a).max(0));
                    assert_eq!(i32::from(small::distance(x, y)), b - a);
                }
            }
        }
    }
}
