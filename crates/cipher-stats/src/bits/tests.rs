use super::*;
use crate::random::Random;

const LIMIT: f64 = 1e-6;

fn random(octets: usize) -> Vec<u8> {
    Random::for_use(1, "tests of tests").octets(octets)
}

/// Octets of bits that are written as digits.
fn packed(bits: &str) -> Vec<u8> {
    let bits: Vec<u8> = bits.bytes().map(|bit| bit - b'0').collect();
    assert!(bits.len().is_multiple_of(8), "whole octets");
    bits.chunks(8).map(|octet| octet.iter().fold(0, |octet, bit| octet << 1 | bit)).collect()
}

#[track_caller]
fn near(got: f64, want: f64) {
    assert!((got - want).abs() < 1e-6, "{got} is not {want}");
}

/// The 100 bits of the examples in SP 800-22, less the last four, since octets are whole. The probabilities are those of
/// the formulas, computed apart in Python.
const EXAMPLE: &str =
    "110010010000111111011010101000100010000101101000110000100011010011000100110001100110001010001011";

#[test]
fn probabilities_of_an_example() {
    let octets = packed(EXAMPLE);
    near(monobit(&octets).0, 0.153_041_884);
    near(runs(&octets).0, 0.401_703_001);
    near(serial(&octets).0.0, 0.841_509_621);
    near(serial(&octets).1.0, 0.826_563_462);
    near(octet_frequencies(&octets).0, 0.678_905_448);
    near(nibble_frequencies(&octets).0, 0.382_051_662);
    near(positions(&octets, 2).0.0, 0.500_373_476);
}

/// Every test passes what is random, so that each test below shows what it is for.
#[test]
fn random_octets_pass() {
    let octets = random(1 << 18);
    let (all, worst) = positions(&octets, 16);
    let (first, second) = serial(&octets);
    for (p, detail) in [
        monobit(&octets),
        all,
        worst,
        runs(&octets),
        first,
        second,
        octet_frequencies(&octets),
        nibble_frequencies(&octets),
        collisions(&octets),
    ] {
        assert!(p > 1e-3, "{p} {detail}");
    }
}

#[test]
fn monobit_sees_more_ones() {
    let mut octets = random(1 << 18);
    octets.iter_mut().step_by(8).for_each(|octet| *octet |= 0x10);
    assert!(monobit(&octets).0 < LIMIT);
}

#[test]
fn positions_see_one_bit_and_name_it() {
    let mut octets = random(1 << 18);
    // Half a percent of all blocks: too few for the sum of all bits.
    for block in octets.chunks_mut(16).step_by(16) {
        block[3] |= 0x04;
    }
    let (all, worst) = positions(&octets, 16);
    assert!(monobit(&octets).0 > LIMIT);
    assert!(worst.0 < LIMIT, "{worst:?}");
    // One bit is little among all positions together.
    assert!(all.0 > LIMIT, "{all:?}");
    assert!(worst.1.starts_with("bit 29 "), "{worst:?}");
}

#[test]
fn runs_see_bits_that_stick() {
    // Each bit is the one before it in 51 of 100 cases: as many ones as zeros.
    let mut random = Random::for_use(2, "runs");
    let mut bit = 0;
    let octets: Vec<u8> = (0..1 << 16)
        .map(|_| {
            (0..8).fold(0, |octet, _| {
                bit ^= u8::from(random.number() % 100 >= 51);
                octet << 1 | bit
            })
        })
        .collect();
    assert!(monobit(&octets).0 > LIMIT);
    assert!(runs(&octets).0 < LIMIT);
}

#[test]
fn serial_sees_patterns_that_runs_do_not() {
    // The tenth bit of ten is the sum of the first and the fifth: runs and ones are as they should be.
    let mut random = Random::for_use(3, "serial");
    let mut bits: Vec<u8> = Vec::new();
    while bits.len() < 1 << 19 {
        let nine: Vec<u8> = (0..9).map(|_| (random.number() & 1) as u8).collect();
        bits.extend_from_slice(&nine);
        bits.push(nine[0] ^ nine[4]);
    }
    bits.truncate(1 << 19);
    let octets: Vec<u8> =
        bits.chunks(8).map(|octet| octet.iter().fold(0, |octet, bit| octet << 1 | bit)).collect();
    assert!(monobit(&octets).0 > LIMIT);
    assert!(runs(&octets).0 > LIMIT);
    assert!(serial(&octets).0.0 < LIMIT);
    assert!(serial(&octets).1.0 < LIMIT);
}

#[test]
fn frequencies_see_an_octet_that_is_missing() {
    let mut octets = random(1 << 18);
    octets.iter_mut().filter(|octet| **octet == 0x5a).for_each(|octet| *octet = 0xa5);
    assert!(monobit(&octets).0 > LIMIT);
    assert!(octet_frequencies(&octets).0 < LIMIT);
    let mut few = random(1 << 12);
    few.iter_mut().filter(|octet| **octet >> 4 == 5).for_each(|octet| *octet ^= 0xf0);
    assert!(nibble_frequencies(&few).0 < LIMIT);
}

#[test]
fn collisions_see_what_repeats_and_what_never_does() {
    let period = random(1 << 16);
    assert!(collisions(&period.repeat(2)).0 < LIMIT);
    // Different words only, as no random ones are.
    let counter: Vec<u8> = (0..1u32 << 19).flat_map(|number| number.to_be_bytes()).collect();
    assert!(collisions(&counter).0 < LIMIT);
}

#[test]
fn counts_that_are_too_even_have_a_great_p() {
    let even: Vec<u8> = (0..=255).cycle().take(1 << 16).collect();
    assert!(octet_frequencies(&even).0 > 1.0 - LIMIT);
}

#[test]
fn nothing_passes_without_data() {
    for p in [monobit(&[]).0, positions(&[], 16).0.0, runs(&[]).0, serial(&[]).0.0, octet_frequencies(&[]).0]
    {
        assert!(p.is_nan() || p < LIMIT, "{p}");
    }
}
