//! Poly1305 (RFC 8439 section 2.5) of whole blocks: one at a time, or eight side by side with the multiplications of 52 bits (IFMA).
//!
//! Numbers modulo 2^130 - 5 are three limbs of 44, 44 and 42 bits; between operations a limb may have a few bits more.

use core::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_and_si512, _mm512_madd52hi_epu64, _mm512_madd52lo_epu64,
    _mm512_or_si512, _mm512_reduce_add_epi64, _mm512_set1_epi64, _mm512_setzero_si512, _mm512_slli_epi64,
    _mm512_srli_epi64, _mm512_unpackhi_epi64, _mm512_unpacklo_epi64,
};

use crate::lanes::{BLOCK, Lanes, One, Quad};

/// Blocks that are hashed side by side.
const WIDE: usize = 8;
/// Octets of the blocks that are hashed side by side.
const WIDE_LEN: usize = WIDE * BLOCK;
/// Octets from which on eight blocks are hashed side by side: the powers that this takes cost as much as a few blocks
/// alone.
pub(crate) const WORTH_WIDE: usize = 2 * WIDE_LEN;

const LIMB: u64 = (1 << 44) - 1;
const LAST: u64 = (1 << 42) - 1;
/// The bit above each whole block, in the last limb: 2^128.
const ABOVE: u64 = 1 << 40;

/// A number modulo 2^130 - 5.
#[derive(Clone, Copy)]
pub(crate) struct Number([u64; 3]);

impl Number {
    pub(crate) const ZERO: Number = Number([0; 3]);

    /// A number of 128 bits at most.
    #[inline(always)]
    fn of(value: u128) -> Number {
        Number([value as u64 & LIMB, (value >> 44) as u64 & LIMB, (value >> 88) as u64])
    }

    /// A whole block, with the bit above it.
    #[inline(always)]
    fn of_block(block: u128) -> Number {
        let Number([a, b, c]) = Number::of(block);
        Number([a, b, c + ABOVE])
    }

    #[inline(always)]
    fn plus(self, other: Number) -> Number {
        let ([a, b, c], [d, e, f]) = (self.0, other.0);
        Number([a + d, b + e, c + f])
    }

    /// The product, limb by limb, not yet carried.
    #[inline(always)]
    fn product(self, other: Number) -> [u128; 3] {
        let ([a, b, c], [x, y, z]) = (self.0, other.0);
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        // 2^132 is 20.
        let (y20, z20) = (20 * y, 20 * z);
        [
            product(a, x) + product(b, z20) + product(c, y20),
            product(a, y) + product(b, x) + product(c, z20),
            product(a, z) + product(b, y) + product(c, x),
        ]
    }

    #[inline(always)]
    fn times(self, other: Number) -> Number {
        Number::carried(self.product(other))
    }

    #[inline(always)]
    fn carried([low, middle, high]: [u128; 3]) -> Number {
        let middle = middle + (low >> 44);
        let high = high + (middle >> 44);
        let carry = (high >> 42) as u64;
        // 2^130 is 5.
        let low = (low as u64 & LIMB) + 5 * carry;
        Number([low & LIMB, (middle as u64 & LIMB) + (low >> 44), high as u64 & LAST])
    }

    /// What it is modulo 2^130 - 5, of which the lowest 128 bits.
    #[inline(always)]
    fn lowest(self) -> u128 {
        let [mut a, mut b, mut c] = self.0;
        for _ in 0..2 {
            b += a >> 44;
            a &= LIMB;
            c += b >> 44;
            b &= LIMB;
            a += 5 * (c >> 42);
            c &= LAST;
        }
        b += a >> 44;
        a &= LIMB;
        // Less the modulus, if it is not less than that: 5 more carries into bit 130.
        let (d, carry) = ((a + 5) & LIMB, (a + 5) >> 44);
        let (e, carry) = ((b + carry) & LIMB, (b + carry) >> 44);
        let f = c + carry;
        let over = (f >> 42).wrapping_neg();
        let choose = |less: u64, more: u64| (less & !over) | (more & over);
        let (a, b, c) = (choose(a, d), choose(b, e), choose(c, f & LAST));
        // What is above 2^128 goes.
        u128::from(a).wrapping_add(u128::from(b) << 44).wrapping_add(u128::from(c) << 88)
    }
}

/// A one-time key, as powers of r and the pad s. Powers beyond the second are there only if they were asked for.
pub(crate) struct Key {
    /// Powers of r, from the first to the eighth.
    powers: [Number; WIDE],
    pad: u128,
}

impl Key {
    /// The key made of the first 32 octets of the key stream, `r` and `s`. `wide`: [`Key::absorb_wide`] will be called.
    #[inline(always)]
    pub(crate) fn new(r: u128, s: u128, wide: bool) -> Key {
        let r = Number::of(r & 0x0fff_fffc_0fff_fffc_0fff_fffc_0fff_ffff);
        let two = r.times(r);
        let mut powers = [r, two, r, r, r, r, r, r];
        if wide {
            let (three, four) = (two.times(r), two.times(two));
            powers =
                [r, two, three, four, four.times(r), four.times(two), four.times(three), four.times(four)];
        }
        Key { powers, pad: s }
    }

    /// The sum after one more whole block.
    #[inline(always)]
    pub(crate) fn absorb(&self, sum: Number, block: u128) -> Number {
        sum.plus(Number::of_block(block)).times(self.powers[0])
    }

    /// The sum after two more whole blocks, with one carry for both.
    #[inline(always)]
    fn absorb_two(&self, sum: Number, first: u128, second: u128) -> Number {
        let [a, b, c] = sum.plus(Number::of_block(first)).product(self.powers[1]);
        let [d, e, f] = Number::of_block(second).product(self.powers[0]);
        Number::carried([a + d, b + e, c + f])
    }

    /// The sum after all these whole blocks.
    #[inline(always)]
    pub(crate) fn absorb_all(&self, mut sum: Number, mut blocks: impl Iterator<Item = u128>) -> Number {
        while let Some(first) = blocks.next() {
            sum = match blocks.next() {
                Some(second) => self.absorb_two(sum, first, second),
                None => self.absorb(sum, first),
            };
        }
        sum
    }

    /// All of `data`, at least [`WORTH_WIDE`] octets with zeros to a whole block, and the block of lengths behind it, eight blocks side
    /// by side: the first time as many as go into no whole eight.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512ifma")]
    pub(crate) fn absorb_wide(&self, sum: Number, data: &[u8], lengths: u128) -> Number {
        let all = |value: u64| _mm512_set1_epi64(value.cast_signed());
        let [eight_a, eight_b, eight_c] = self.powers[7].0;
        let eighth = [all(eight_a), all(eight_b), all(eight_c)];
        let odd = data.len().div_ceil(BLOCK) % WIDE + 1;
        let (first, rest) = data.split_at((odd * BLOCK).min(data.len()));
        // What is there already goes before the first block.
        let Number([a, b, c]) = sum;
        let lane = loaded(&ONLY[WIDE - odd]);
        let there = |limb: u64| _mm512_and_si512(all(limb), lane);
        let before = [there(a), there(b), there(c)];
        let (low, high) = at_the_end(first);
        let mut sums = added(split(low, high, loaded(&FROM[WIDE - odd])), before);
        let (whole, tail) = rest.as_chunks::<WIDE_LEN>();
        for blocks in whole {
            let (low, high) = blocks.split_at(WIDE_LEN / 2);
            sums = added(multiplied(sums, eighth), split(Quad::load(low), Quad::load(high), all(ABOVE)));
        }
        let (low, high) = tail.split_at(tail.len().min(Quad::LEN));
        let high = Quad::load(high).with_last(One::new(lengths));
        sums = added(multiplied(sums, eighth), split(Quad::load(low), high, all(ABOVE)));
        // Lane by lane the power of what is behind it.
        let [one, two, three, four, five, six, seven, eight] = self.powers.map(|power| power.0);
        let order = [eight, four, seven, three, six, two, five, one];
        let mut powers = [[0; WIDE]; 3];
        for (limb, powers) in powers.iter_mut().enumerate() {
            for (power, number) in powers.iter_mut().zip(&order) {
                *power = number[limb];
            }
        }
        let powers = [loaded(&powers[0]), loaded(&powers[1]), loaded(&powers[2])];
        let [a, b, c] = multiplied(sums, powers);
        let of_all = |limb| _mm512_reduce_add_epi64(limb).cast_unsigned();
        let (a, b, c) = (of_all(a), of_all(b), of_all(c));
        // Sums of eight limbs: carry once, so that each fits again.
        let (b, a) = (b + (a >> 44), a & LIMB);
        let (c, b) = (c + (b >> 44), b & LIMB);
        Number([a + 5 * (c >> 42), b, c & LAST])
    }

    /// The tag of everything that was summed.
    #[inline(always)]
    pub(crate) fn tag(&self, sum: Number) -> u128 {
        sum.lowest().wrapping_add(self.pad)
    }
}

/// Limbs of eight numbers.
type Wide = [__m512i; 3];

/// Which block stands in which lane: [`split`] takes one of each half in turn.
const ORDER: [usize; WIDE] = [0, 4, 1, 5, 2, 6, 3, 7];

/// Ones in the lane of the block with this index.
const ONLY: [[u64; WIDE]; WIDE] = lanes(true, u64::MAX);

/// [`ABOVE`] in the lanes of the block with this index and of those behind it.
const FROM: [[u64; WIDE]; WIDE] = lanes(false, ABOVE);

const fn lanes(alone: bool, value: u64) -> [[u64; WIDE]; WIDE] {
    let mut all = [[0; WIDE]; WIDE];
    let mut first = 0;
    while first < WIDE {
        let mut lane = 0;
        while lane < WIDE {
            if ORDER[lane] == first || !alone && ORDER[lane] > first {
                all[first][lane] = value;
            }
            lane += 1;
        }
        first += 1;
    }
    all
}

#[inline]
#[target_feature(enable = "avx512f")]
fn loaded(values: &[u64; WIDE]) -> __m512i {
    bytemuck::must_cast(*values)
}

/// At most eight blocks with zeros in front, as the first four and the last four.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn at_the_end(blocks: &[u8]) -> (Quad, Quad) {
    let (before, behind) = blocks.split_at(blocks.len().saturating_sub(Quad::LEN));
    (Quad::load_last(before), Quad::load_last(behind))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn added([a, b, c]: Wide, [d, e, f]: Wide) -> Wide {
    [_mm512_add_epi64(a, d), _mm512_add_epi64(b, e), _mm512_add_epi64(c, f)]
}

/// Eight blocks, each with what is above it.
#[inline]
#[target_feature(enable = "avx512f")]
fn split(first: Quad, second: Quad, above: __m512i) -> Wide {
    let (first, second) = (first.register(), second.register());
    let (low, high) = (_mm512_unpacklo_epi64(first, second), _mm512_unpackhi_epi64(first, second));
    let limb = _mm512_set1_epi64(LIMB.cast_signed());
    [
        _mm512_and_si512(low, limb),
        _mm512_and_si512(_mm512_or_si512(_mm512_srli_epi64::<44>(low), _mm512_slli_epi64::<20>(high)), limb),
        _mm512_or_si512(_mm512_srli_epi64::<24>(high), above),
    ]
}

/// Eight products, one in each lane. One multiplication gives the lower 52 bits of a product, another the upper ones,
/// which stand 8 bits above the next limb.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn multiplied([a, b, c]: Wide, [x, y, z]: Wide) -> Wide {
    let all = |value: u64| _mm512_set1_epi64(value.cast_signed());
    let times_20 = |limb| _mm512_add_epi64(_mm512_slli_epi64::<4>(limb), _mm512_slli_epi64::<2>(limb));
    let (y20, z20) = (times_20(y), times_20(z));
    let zero = _mm512_setzero_si512();
    let mut low = [zero; 3];
    let mut high = [zero; 3];
    let rows = [[(a, x), (b, z20), (c, y20)], [(a, y), (b, x), (c, z20)], [(a, z), (b, y), (c, x)]];
    for ((low, high), row) in low.iter_mut().zip(&mut high).zip(&rows) {
        for (one, other) in row {
            *low = _mm512_madd52lo_epu64(*low, *one, *other);
            *high = _mm512_madd52hi_epu64(*high, *one, *other);
        }
    }
    let (limb, last) = (all(LIMB), all(LAST));
    let upper = |high| _mm512_slli_epi64::<8>(high);
    let first = low[0];
    let second = _mm512_add_epi64(_mm512_add_epi64(low[1], upper(high[0])), _mm512_srli_epi64::<44>(first));
    let third = _mm512_add_epi64(_mm512_add_epi64(low[2], upper(high[1])), _mm512_srli_epi64::<44>(second));
    // What is above 2^130, times 5; the upper part of the last limb stands at 2^140.
    let carry = _mm512_add_epi64(_mm512_srli_epi64::<42>(third), _mm512_slli_epi64::<10>(high[2]));
    let carry = _mm512_add_epi64(carry, _mm512_slli_epi64::<2>(carry));
    let first = _mm512_add_epi64(_mm512_and_si512(first, limb), carry);
    let second = _mm512_add_epi64(_mm512_and_si512(second, limb), _mm512_srli_epi64::<44>(first));
    [_mm512_and_si512(first, limb), second, _mm512_and_si512(third, last)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Wide as Unit;

    /// The most that a limb may have: what a multiplication takes and what it gives.
    const IN: [u64; 3] = [2 * LIMB, 2 * LIMB + 512, LAST + 2 * ABOVE - 1];
    const OUT: [u64; 3] = [LIMB, LIMB + 512, LAST];

    /// 2^130 - 5 as the upper 64 and the lower 128 bits of a number.
    const MODULUS: (u64, u128) = (3, u128::MAX - 4);

    /// A number below the modulus: how it should be computed, bit by bit.
    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Plain(u64, u128);

    impl Plain {
        fn plus(self, other: Plain) -> Plain {
            let (low, carry) = self.1.overflowing_add(other.1);
            let mut sum = Plain(self.0 + other.0 + u64::from(carry), low);
            while (sum.0, sum.1) >= MODULUS {
                let (low, borrow) = sum.1.overflowing_sub(MODULUS.1);
                sum = Plain(sum.0 - MODULUS.0 - u64::from(borrow), low);
            }
            sum
        }

        fn times(self, other: Plain) -> Plain {
            let bit =
                |at: u32| if at < 128 { other.1 >> at & 1 == 1 } else { other.0 >> (at - 128) & 1 == 1 };
            (0..130).rev().fold(Plain(0, 0), |product, at| {
                let twice = product.plus(product);
                if bit(at) { twice.plus(self) } else { twice }
            })
        }

        fn of(limbs: [u64; 3]) -> Plain {
            let doubled = |number: Plain| (0..44).fold(number, |number, _| number.plus(number));
            let [a, b, c] = limbs.map(|limb| Plain(0, u128::from(limb)));
            doubled(doubled(c).plus(b)).plus(a)
        }
    }

    /// Limbs at their bounds and others, the same ones in every run.
    fn limbs(most: [u64; 3], number: u64) -> [u64; 3] {
        let mut dice = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        most.map(|most| {
            dice = (dice ^ dice >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            match dice >> 61 {
                0..3 => most,
                3 => 0,
                4 => most - (dice >> 8) % 3,
                _ => (dice >> 8) % (most + 1),
            }
        })
    }

    fn fits(limbs: [u64; 3]) -> bool {
        limbs.iter().zip(OUT).all(|(limb, most)| *limb <= most)
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    fn eight_products(one: [u64; 3], other: [u64; 3]) -> [[u64; 8]; 3] {
        let all = |limbs: [u64; 3]| limbs.map(|limb| _mm512_set1_epi64(limb.cast_signed()));
        multiplied(all(one), all(other)).map(bytemuck::must_cast)
    }

    #[test]
    fn products_of_limbs_at_their_bounds() {
        let ifma = Unit::detect_all().iter().any(|unit| unit.has_ifma());
        for number in 0..4000 {
            let (one, other) =
                if number == 0 { (IN, OUT) } else { (limbs(IN, number), limbs(OUT, number + 10_000)) };
            let expected = Plain::of(one).times(Plain::of(other));
            let product = Number(one).times(Number(other)).0;
            assert!(fits(product) && Plain::of(product) == expected, "{one:?} {other:?}");
            if ifma {
                // SAFETY: the processor has the instructions.
                let [a, b, c] = unsafe { eight_products(one, other) };
                for lane in 0..WIDE {
                    let product = [a[lane], b[lane], c[lane]];
                    assert!(fits(product) && Plain::of(product) == expected, "{one:?} {other:?}");
                }
            }
        }
    }

    /// Limbs of the modulus, of 2^130, of multiples, and of what is near them.
    #[test]
    fn the_lowest_bits_around_the_modulus() {
        for c in [0, 1, LAST - 1, LAST, IN[2]] {
            for b in [0, LIMB - 1, LIMB, LIMB + 1, LIMB + 511, IN[1]] {
                for middle in [12, LIMB - 4, LIMB, LIMB + 40, 2 * LIMB - 12] {
                    for a in middle - 12..=middle + 12 {
                        let number = [a, b, c];
                        assert_eq!(Number(number).lowest(), Plain::of(number).1, "{number:?}");
                    }
                }
            }
        }
    }
}
