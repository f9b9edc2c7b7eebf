//! Tests over octets that a perfect cipher would draw at random. Each says how probable its result is.
//!
//! Monobit, runs and serial are those of NIST SP 800-22 rev. 1a (sections 2.1, 2.3 and 2.11).

use crate::probability::{chi_square, least_of, two_sided_normal, two_sided_poisson};

/// A result: the probability, and the figures behind it.
pub type Result = (f64, String);

/// Bits of a pattern of the serial test.
const PATTERN: u32 = 10;
/// Octets of a word of the collision test.
const WORD: usize = 4;

/// Whether there are as many ones as zeros.
pub fn monobit(octets: &[u8]) -> Result {
    let (ones, bits) = (ones(octets), octets.len() as f64 * 8.0);
    let share = ones / bits;
    (two_sided_normal((2.0 * ones - bits) / bits.sqrt()), format!("share of ones {share:.6}"))
}

/// Whether each bit of a block of so many octets is one as often as zero: all positions together, and the one that is
/// furthest from it.
pub fn positions(octets: &[u8], block: usize) -> (Result, Result) {
    let blocks = octets.chunks_exact(block);
    let count = blocks.len() as f64;
    let mut ones = vec![0u32; block * 8];
    for block in blocks {
        add_bits(&mut ones, block);
    }
    let z: Vec<f64> = ones.iter().map(|ones| (2.0 * f64::from(*ones) - count) / count.sqrt()).collect();
    let square: f64 = z.iter().map(|z| z * z).sum();
    let places = z.len() as f64;
    let all = (chi_square(square, places), format!("chi-square {square:.1} over {places} positions"));
    let (worst, z) = furthest(&z);
    let share = 0.5 + z / 2.0 / count.sqrt();
    let one =
        (least_of(two_sided_normal(z), places), format!("bit {worst} has the share of ones {share:.5}"));
    (all, one)
}

/// Whether bits follow each other as often alike as unlike.
pub fn runs(octets: &[u8]) -> Result {
    let bits = octets.len() as f64 * 8.0;
    let share = ones(octets) / bits;
    let mut last = octets.first().map_or(0, |octet| octet >> 7);
    let mut changes = 0u64;
    for octet in octets {
        // Each bit beside the one before it.
        changes += u64::from((octet ^ (octet >> 1 | last << 7)).count_ones());
        last = octet & 1;
    }
    let runs = changes as f64 + 1.0;
    let expected = 2.0 * bits * share * (1.0 - share);
    let deviation = 2.0 * bits.sqrt() * share * (1.0 - share);
    (two_sided_normal((runs - expected) / deviation), format!("{runs} runs, {expected:.0} expected"))
}

/// Whether all patterns of 10 bits, overlapping, come equally often: the first and the second difference.
pub fn serial(octets: &[u8]) -> (Result, Result) {
    let bits = octets.len() as f64 * 8.0;
    let mut counts = vec![0u64; 1 << PATTERN];
    let mask = (1u32 << PATTERN) - 1;
    // The first bits stand behind the last ones once more: every bit begins one pattern.
    let wrapped = octets.iter().chain(octets.iter().take(2));
    let (mut window, mut have, mut left) = (0u32, 0u32, octets.len() * 8);
    for octet in wrapped {
        window = window << 8 | u32::from(*octet);
        have = (have + 8).min(24);
        while have >= PATTERN && left > 0 {
            have -= 1;
            left -= 1;
            let pattern = window >> (have + 1 - PATTERN) & mask;
            if let Some(count) = counts.get_mut(pattern as usize) {
                *count += 1;
            }
        }
    }
    let mut psi = [0.0; 3];
    for psi in &mut psi {
        let square: f64 = counts.iter().map(|count| (*count as f64).powi(2)).sum();
        *psi = counts.len() as f64 / bits * square - bits;
        // Patterns with one bit less: the two that differ in the last bit are one.
        counts = counts.chunks(2).map(|pair| pair.iter().sum()).collect();
    }
    let [long, middle, short] = psi;
    let first = long - middle;
    let second = long - 2.0 * middle + short;
    let degrees = f64::from(1u32 << (PATTERN - 1));
    (
        (chi_square(first, degrees), format!("first difference {first:.1}, {degrees} expected")),
        (
            chi_square(second, degrees / 2.0),
            format!("second difference {second:.1}, {} expected", degrees / 2.0),
        ),
    )
}

/// Whether all octets come equally often.
pub fn octet_frequencies(octets: &[u8]) -> Result {
    let mut counts = [0u64; 256];
    for octet in octets {
        if let Some(count) = counts.get_mut(usize::from(*octet)) {
            *count += 1;
        }
    }
    equal_counts(&counts)
}

/// Whether all halves of octets come equally often: for few octets.
pub fn nibble_frequencies(octets: &[u8]) -> Result {
    let mut counts = [0u64; 16];
    for nibble in octets.iter().flat_map(|octet| [octet >> 4, octet & 15]) {
        if let Some(count) = counts.get_mut(usize::from(nibble)) {
            *count += 1;
        }
    }
    equal_counts(&counts)
}

fn equal_counts(counts: &[u64]) -> Result {
    let total: u64 = counts.iter().sum();
    let expected = total as f64 / counts.len() as f64;
    let square: f64 = counts.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum();
    let degrees = counts.len() as f64 - 1.0;
    (chi_square(square, degrees), format!("chi-square {square:.1}, {degrees} degrees of freedom"))
}

/// Whether words of 4 octets come again as often as by chance, and not more often: what a key stream does that repeats.
pub fn collisions(octets: &[u8]) -> Result {
    let (words, _) = octets.as_chunks::<WORD>();
    let mut words: Vec<u32> = words.iter().map(|word| u32::from_be_bytes(*word)).collect();
    words.sort_unstable();
    let count = words.len() as f64;
    words.dedup();
    let again = count - words.len() as f64;
    let range = 2f64.powi(32);
    // The words less the number of different ones that so many draws give.
    let expected = count + range * f64::exp_m1(count * f64::ln_1p(-1.0 / range));
    (two_sided_poisson(again as u64, expected), format!("{again} words came again, {expected:.1} expected"))
}

/// Add the bits of octets to counters, the most significant bit of the first octet to the first.
pub fn add_bits(counters: &mut [u32], octets: &[u8]) {
    for (counters, octet) in counters.chunks_mut(8).zip(octets) {
        for (counter, shift) in counters.iter_mut().zip((0..8).rev()) {
            *counter += u32::from(octet >> shift & 1);
        }
    }
}

/// The index of the value that is furthest from 0, and the value.
pub fn furthest(values: &[f64]) -> (usize, f64) {
    values.iter().copied().enumerate().fold((0, 0.0), |far, (index, value)| {
        // What is not a number is further than all others.
        if value.is_nan() || value.abs() > f64::abs(far.1) { (index, value) } else { far }
    })
}

fn ones(octets: &[u8]) -> f64 {
    octets.iter().map(|octet| u64::from(octet.count_ones())).sum::<u64>() as f64
}

#[cfg(test)]
mod tests;
