//! Whether times depend on what was computed: Welch's t over two classes, with slow measurements cut off in many ways
//! (Reparaz, Balasch, Verbauwhede 2017, "Dude, is my code constant time?"). The times come from elsewhere.

/// The greatest |t| of a computation whose time does not depend on its class.
pub const MOST_T: f64 = 4.5;

/// The number of ways of cutting.
const CUTS: usize = 100;
/// Measurements of each class without which a cut says nothing.
const ENOUGH: f64 = 500.0;
/// Measurements before the means are good enough to measure the distance from them.
const BEFORE_SECOND: f64 = 1000.0;

/// What is measured against what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The same input each time.
    Fixed,
    /// Another input each time.
    Random,
}

/// Number, mean and squares of one class (Welford 1962).
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn push(&mut self, value: f64) {
        self.count += 1.0;
        let off = value - self.mean;
        self.mean += off / self.count;
        self.squares += off * (value - self.mean);
    }

    /// The variance of the mean.
    fn variance_of_mean(&self) -> f64 {
        self.squares / (self.count - 1.0) / self.count
    }
}

/// Two classes beside each other.
#[derive(Clone, Copy, Debug, Default)]
struct Welch {
    fixed: Moments,
    random: Moments,
}

impl Welch {
    fn class(&mut self, class: Class) -> &mut Moments {
        match class {
            Class::Fixed => &mut self.fixed,
            Class::Random => &mut self.random,
        }
    }

    /// Welch's t; 0 for classes that never vary and are alike.
    fn t(&self) -> f64 {
        let difference = self.fixed.mean - self.random.mean;
        let error = (self.fixed.variance_of_mean() + self.random.variance_of_mean()).sqrt();
        if difference == 0.0 { 0.0 } else { difference / error }
    }

    fn least_count(&self) -> f64 {
        self.fixed.count.min(self.random.count)
    }
}

/// The times of two classes.
#[derive(Clone, Debug)]
pub struct Timing {
    /// For each way of cutting the time from which on nothing counts.
    limits: Vec<f64>,
    cut: Vec<Welch>,
    whole: Welch,
    /// The squares of the distances from the means: whether the classes spread alike. Times beyond the last cut are left
    /// out, since one interrupt would move the mean of its class away from all the others.
    spread: Welch,
}

/// What the times say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The greatest |t| of all ways of cutting, of the whole, and of the spread.
    pub t: f64,
    /// Measurements of the class that has fewer.
    pub measurements: f64,
    /// Whether the time seems not to depend on the class. Too few measurements are no such sign.
    pub ok: bool,
}

impl Timing {
    /// Begin with some times, of whatever class, which say where to cut and count no further.
    pub fn after(first: &[f64]) -> Timing {
        let mut sorted = first.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| sorted.get((share * sorted.len() as f64) as usize).copied();
        // More cuts where most times are, as in the paper.
        let limits: Vec<f64> =
            (1..=CUTS).filter_map(|cut| at(1.0 - 0.5f64.powf(10.0 * cut as f64 / CUTS as f64))).collect();
        Timing {
            cut: vec![Welch::default(); limits.len()],
            limits,
            whole: Welch::default(),
            spread: Welch::default(),
        }
    }

    /// Add a time that was measured.
    pub fn push(&mut self, class: Class, time: f64) {
        self.whole.class(class).push(time);
        for (limit, welch) in self.limits.iter().zip(&mut self.cut) {
            if time < *limit {
                welch.class(class).push(time);
            }
        }
        if let Some((limit, most)) = self.limits.last().zip(self.cut.last_mut())
            && time < *limit
            && most.least_count() > BEFORE_SECOND
        {
            let off = time - most.class(class).mean;
            self.spread.class(class).push(off * off);
        }
    }

    /// What the times say so far.
    pub fn verdict(&self) -> Verdict {
        let all = self.cut.iter().chain([&self.whole, &self.spread]);
        let enough = all.filter(|welch| welch.least_count() >= ENOUGH);
        let t = enough.map(|welch| welch.t().abs()).fold(0.0, f64::max);
        let measurements = self.whole.least_count();
        Verdict { t, measurements, ok: measurements >= ENOUGH && t < MOST_T }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Times around 1000: the sum of four dice, and now and then an interrupt.
    fn noise(random: &mut Random) -> f64 {
        let dice: u64 = (0..4).map(|_| random.number() % 64).sum();
        let interrupt = if random.number().is_multiple_of(100) { random.number() % 200_000 } else { 0 };
        (1000 + dice + interrupt) as f64
    }

    fn measured(count: usize, mut time: impl FnMut(Class, &mut Random) -> f64) -> Verdict {
        let mut random = Random::for_use(7, "times");
        let first: Vec<f64> = (0..10_000).map(|_| time(Class::Random, &mut random)).collect();
        let mut timing = Timing::after(&first);
        for _ in 0..count {
            let class = if random.number() & 1 == 0 { Class::Fixed } else { Class::Random };
            let time = time(class, &mut random);
            timing.push(class, time);
        }
        timing.verdict()
    }

    #[test]
    fn t_is_that_of_scipy() {
        let mut welch = Welch::default();
        [1.0, 2.0, 3.5, 4.0, 7.25].iter().for_each(|x| welch.fixed.push(*x));
        [2.0, 4.5, 8.0, 9.0, 10.0, 11.5].iter().for_each(|x| welch.random.push(*x));
        assert!((welch.t() - -2.183_242_510_924_319_6).abs() < 1e-12, "{}", welch.t());
    }

    #[test]
    fn equal_times_pass() {
        let verdict = measured(200_000, |_, random| noise(random));
        assert!(verdict.ok && verdict.t < MOST_T, "{verdict:?}");
        assert!(measured(200_000, |_, _| 5.0).ok);
    }

    #[test]
    fn a_difference_of_two_in_a_thousand_is_seen_behind_interrupts() {
        let leak = |class, random: &mut Random| noise(random) + if class == Class::Fixed { 2.0 } else { 0.0 };
        let verdict = measured(200_000, leak);
        assert!(!verdict.ok && verdict.t > MOST_T, "{verdict:?}");
    }

    #[test]
    fn a_spread_that_depends_on_the_class_is_seen() {
        let spread = |class, random: &mut Random| {
            let side = if random.number() & 1 == 0 { 1.0 } else { -1.0 };
            let width = if class == Class::Fixed { 10.0 } else { 11.0 };
            1000.0 + side * width + (random.number() % 4) as f64
        };
        let verdict = measured(100_000, spread);
        assert!(!verdict.ok, "{verdict:?}");
    }

    #[test]
    fn one_long_interruption_is_no_difference_of_the_classes() {
        let (mut number, mut done) = (0, false);
        let verdict = measured(20_000, |class, random| {
            number += 1;
            // In the beginning of one class the machine did something else for 50 ms.
            if number > 10_300 && class == Class::Fixed && !std::mem::replace(&mut done, true) {
                return 5e7;
            }
            noise(random)
        });
        assert!(verdict.ok, "{verdict:?}");
    }

    #[test]
    fn constant_times_that_differ_are_seen() {
        assert!(!measured(10_000, |class, _| if class == Class::Fixed { 5.0 } else { 6.0 }).ok);
    }

    #[test]
    fn few_measurements_are_no_pass() {
        assert!(!measured(100, |_, random| noise(random)).ok);
        assert!(!Timing::after(&[]).verdict().ok);
    }
}
