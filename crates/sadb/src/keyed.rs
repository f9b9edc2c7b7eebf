//! A keyed hash of a few words, by multiplication: for tables whose keys strangers choose.

/// The two halves of the product of two numbers, added without carry.
#[inline]
pub(crate) fn fold(x: u64, y: u64) -> u64 {
    let product = u128::from(x) * u128::from(y);
    product as u64 ^ (product >> 64) as u64
}

/// Spread one seed over several (an odd multiplier and two folds).
pub(crate) fn scatter(seed: u64, stream: u64) -> u64 {
    let mixed = fold(seed ^ 0x9e37_79b9_7f4a_7c15, stream.wrapping_mul(0xd1b5_4a32_d192_ed03) | 1);
    fold(mixed ^ seed.rotate_left(17), 0xa076_1d64_78bd_642f) | 1
}
