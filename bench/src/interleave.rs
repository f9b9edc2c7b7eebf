//! Two contenders in one process, in turns: figures drift with the load of the machine, ratios taken in turns do not.
//!
//! Time is the CPU time of this thread, so that being preempted does not count.

use rustix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;
use std::time::Duration;

/// What one batch cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// CPU time of the thread.
    pub time: Duration,
    /// Number of items that were handled.
    pub items: usize,
}

impl Cost {
    /// Nanoseconds of CPU time for one item.
    pub fn per_item(self) -> f64 {
        self.time.as_nanos() as f64 / self.items as f64
    }
}

/// Run `work` and say what it cost. Whatever prepares the work belongs outside.
pub fn timed<R>(items: usize, work: impl FnOnce() -> R) -> (R, Cost) {
    let start = cpu_time();
    let result = work();
    let time = (cpu_time() - start).saturating_sub(clock_cost());
    (result, Cost { time, items })
}

/// What asking twice costs: batches are as short as a burst, and the clock is a system call.
fn clock_cost() -> Duration {
    static COST: OnceLock<Duration> = OnceLock::new();
    *COST.get_or_init(|| {
        let ask = |_| {
            let start = cpu_time();
            cpu_time() - start
        };
        (0..1000).map(ask).min().unwrap_or_default()
    })
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// The rounds and batches of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rounds; each gives one value of the figure.
    pub rounds: usize,
    /// Pairs of batches a round.
    pub batches: usize,
}

/// Nanoseconds an item of both contenders, one pair a round.
#[derive(Clone, Debug, Default)]
pub struct Duel {
    /// (first, second) of each round.
    pub rounds: Vec<(f64, f64)>,
}

impl Duel {
    /// Let both run in turns: one batch of each, over and over. A round's value is the median of its batches. A
    /// round before the first warms caches and is not counted.
    pub fn run(plan: Plan, mut first: impl FnMut() -> Cost, mut second: impl FnMut() -> Cost) -> Duel {
        let mut duel = Duel::default();
        for round in 0..=plan.rounds {
            let (mut a, mut b) = (Vec::with_capacity(plan.batches), Vec::with_capacity(plan.batches));
            for batch in 0..plan.batches {
                // Each goes first every other time.
                if batch % 2 == 0 {
                    a.push(first().per_item());
                    b.push(second().per_item());
                } else {
                    b.push(second().per_item());
                    a.push(first().per_item());
                }
            }
            if round > 0 {
                duel.rounds.push((median(&mut a), median(&mut b)));
            }
        }
        duel
    }

    /// first / second of each round: above one if the second is faster.
    pub fn ratios(&self) -> Vec<f64> {
        self.rounds.iter().map(|(first, second)| first / second).collect()
    }

    /// Median of both, in nanoseconds.
    pub fn medians(&self) -> (f64, f64) {
        let (mut first, mut second): (Vec<_>, Vec<_>) = self.rounds.iter().copied().unzip();
        (median(&mut first), median(&mut second))
    }
}

/// The middle value (the lower of two middles); sorts in place.
///
/// # Panics
/// On an empty slice.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contenders_take_turns_and_the_first_round_is_not_counted() {
        let order = std::cell::RefCell::new(String::new());
        let cost = |name: char, ns: u64| {
            order.borrow_mut().push(name);
            Cost { time: Duration::from_nanos(ns), items: 2 }
        };
        let duel = Duel::run(Plan { rounds: 1, batches: 2 }, || cost('a', 100), || cost('b', 400));
        assert_eq!(*order.borrow(), "abbaabba");
        assert_eq!(duel.ratios(), [0.25]);
        assert_eq!(duel.medians(), (50.0, 200.0));
    }
}
