//! The control law of RFC 8289 section 5.6, which CoDel and COBALT share.

/// The time to the next drop after `count` drops, in nanoseconds: `interval / sqrt(count)`, rounded down, exactly.
pub fn step(interval: u64, count: u32) -> u64 {
    let count = u128::from(count.max(1));
    let square = u128::from(interval) * u128::from(interval);
    // The estimate of floating point is off by its last bits at most; the whole numbers decide.
    let mut step = (interval as f64 / (count as f64).sqrt()) as u64;
    let is_above = |step: u64| {
        let step = u128::from(step);
        (step * step).checked_mul(count).is_none_or(|product| product > square)
    };
    while is_above(step) {
        step -= 1;
    }
    while step < interval && !is_above(step + 1) {
        step += 1;
    }
    step
}
