//! Probabilities: what a perfect cipher would do as often or more seldom.

use statrs::function::erf::erfc;
use statrs::function::gamma::{checked_gamma_lr, checked_gamma_ur};

/// The probability that a standard normal value is at least as far from 0 as `z`.
pub fn two_sided_normal(z: f64) -> f64 {
    erfc(z.abs() / std::f64::consts::SQRT_2)
}

/// The probability that a chi-square value with so many degrees of freedom is at least this great. Not a number if
/// there is no such distribution, which no limit lets pass.
pub fn chi_square(value: f64, degrees: f64) -> f64 {
    if value <= 0.0 && degrees > 0.0 {
        return 1.0;
    }
    checked_gamma_ur(degrees / 2.0, value / 2.0).unwrap_or(f64::NAN)
}

/// The probability that a Poisson value with this mean is at least as far on the same side as `count`, twice, so that
/// both sides count.
pub fn two_sided_poisson(count: u64, mean: f64) -> f64 {
    let count = count as f64;
    let at_most = checked_gamma_ur(count + 1.0, mean).unwrap_or(f64::NAN);
    let at_least = if count == 0.0 { 1.0 } else { checked_gamma_lr(count, mean).unwrap_or(f64::NAN) };
    (2.0 * at_most.min(at_least)).min(1.0)
}

/// The probability that the least of so many independent p values is at most `p` (Sidak).
pub fn least_of(p: f64, count: f64) -> f64 {
    -f64::exp_m1(count * f64::ln_1p(-p))
}

/// The greatest distance of the distribution of these values from the uniform one on 0 to 1, and the probability of
/// such a distance or a greater one (Kolmogorov and Smirnov; the correction for few values is Stephens', 1970).
///
/// No values have the distance 0 and the probability 1. A value that is not a number makes the probability one that no
/// limit lets pass.
pub fn uniform(values: &[f64]) -> (f64, f64) {
    if values.iter().any(|p| p.is_nan()) {
        return (1.0, f64::NAN);
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let distance = sorted.iter().zip(0u32..).fold(0.0f64, |distance, (p, index)| {
        let below = f64::from(index) / count;
        let above = f64::from(index + 1) / count;
        distance.max(above - p).max(p - below)
    });
    let root = count.sqrt();
    let p = if sorted.is_empty() { 1.0 } else { kolmogorov((root + 0.12 + 0.11 / root) * distance) };
    (distance, p)
}

/// The probability that Kolmogorov's variable is at least `x`.
fn kolmogorov(x: f64) -> f64 {
    let pi = std::f64::consts::PI;
    let terms = (1..=20).map(f64::from);
    if x <= 0.0 {
        1.0
    } else if x < 1.0 {
        // The other form of the sum, which is the one that converges quickly here.
        let sum: f64 = terms.map(|k| (-((2.0 * k - 1.0) * pi / x).powi(2) / 8.0).exp()).sum();
        (1.0 - (2.0 * pi).sqrt() / x * sum).clamp(0.0, 1.0)
    } else {
        let sign = |k: f64| if k % 2.0 == 1.0 { 2.0 } else { -2.0 };
        terms.map(|k| sign(k) * (-2.0 * (k * x).powi(2)).exp()).sum::<f64>().clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests;
