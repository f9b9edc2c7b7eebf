use std::sync::Arc;

use crate::controls::{TableAes, reference};

use super::*;

const LIMIT: f64 = 1e-6;
const TRIALS: Trials = Trials { keys: 8, inputs: 64 };

fn flips(subject: &Subject) -> [Flips; 2] {
    let (mut random, mut refused) = (Random::new(5), 0);
    let input = Flips::of_input(subject, TRIALS, &mut random, &mut refused).unwrap();
    let key = Flips::of_key(subject, TRIALS, &mut random, &mut refused).unwrap();
    assert_eq!(refused, 0);
    [input, key]
}

#[test]
fn aes_passes() {
    for flips in flips(&Subject::new(reference())) {
        assert_eq!(flips.trials, 512);
        for (p, detail) in [flips.mean(), flips.weights(), flips.dependence().0, flips.dependence().1] {
            assert!(p > 1e-3, "{p} {detail}");
        }
        let figures = flips.figures();
        assert!((figures.mean - 0.5).abs() < 0.002, "{}", figures.mean);
        assert!(figures.least > 0.3 && figures.greatest < 0.7);
        assert_eq!(figures.weights.len(), 129);
    }
}

#[test]
fn one_round_fails_them_all() {
    let [input, key] = flips(&Subject::new(Arc::new(TableAes::new(1))));
    for flips in [&input, &key] {
        for (p, detail) in [flips.mean(), flips.weights(), flips.dependence().0, flips.dependence().1] {
            assert!(p < LIMIT, "{p} {detail}");
        }
    }
    assert_eq!(input.figures().least, 0.0);
    assert_eq!(input.figures().by_bit.len(), 128);
    assert_eq!(key.figures().by_bit.len(), 256);
}

/// Made counts: half of the trials in every cell, and all weights as the binomial distribution has them.
fn made(trials: u64, cell: u32) -> Flips {
    let mut flips = Flips::new(16, 2);
    flips.trials = trials;
    flips.matrix.fill(cell);
    flips
}

#[test]
fn mean_sees_a_share_that_is_little_off() {
    // 256 cells of 10^4 trials: one standard deviation is 800 changes, and a share of 0.502 is 6.4 of them.
    assert!(made(10_000, 5_000).mean().0 > 0.99);
    assert!(made(10_000, 5_020).mean().0 < LIMIT);
}

#[test]
fn dependence_sees_one_cell_and_names_it() {
    let mut flips = made(10_000, 5_000);
    // Row 3, output bit 9: 6 standard deviations.
    *flips.matrix.get_mut(3 * 16 + 9).unwrap() = 5_300;
    let (all, worst) = flips.dependence();
    assert!(worst.0 < LIMIT, "{worst:?}");
    assert!(all.0 > LIMIT, "{all:?}");
    assert!(worst.1.contains("flipped bit 3 changes output bit 9 "), "{worst:?}");
}

#[test]
fn weights_are_compared_with_the_binomial_distribution() {
    let mut flips = made(10_000, 5_000);
    // C(16, w) times 100.
    flips.weights = [1u64, 16, 120, 560, 1820, 4368, 8008, 11440, 12870].map(|count| count * 100).to_vec();
    let mirror: Vec<u64> = flips.weights.iter().rev().skip(1).copied().collect();
    flips.weights.extend(mirror);
    let (p, detail) = flips.weights();
    assert!(p > 0.99 && detail.contains("16 degrees"), "{p} {detail}");
    // A narrower one with the same mean.
    *flips.weights.get_mut(8).unwrap() += 60_000;
    assert!(flips.weights().0 < LIMIT);
}
