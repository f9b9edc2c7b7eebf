//! The time that calls take, and when it was too much.
//!
//! A data thread is interrupted, and then the clock says more than a call took. So the clock only raises a suspicion: the
//! calls behind one that took too long by the clock are measured by the processor time of the thread, which costs a
//! system call each, and those alone count. A component that is over its budget once in thousands of calls stays.

/// The calls that are measured by processor time once there is a suspicion.
const WATCHED: u32 = 1024;
/// The calls over the budget, each within [`WATCHED`] calls of the one before, behind which a component is detached.
const STRIKES: u32 = 4;

/// A counter of the calls that are over a budget.
#[derive(Clone, Debug)]
pub(crate) struct Timer {
    budget_ns: u64,
    watched: u32,
    strikes: u32,
    over: u64,
    longest_ns: u64,
}

/// The time that a call took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Took {
    /// The packets of the call, each of which has the budget.
    pub(crate) packets: u64,
    /// Nanoseconds by the clock.
    pub(crate) clock_ns: u64,
    /// Nanoseconds of a processor, where the call was watched.
    pub(crate) processor_ns: Option<u64>,
}

/// Too many calls were over the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooSlow {
    pub(crate) calls: u32,
    pub(crate) budget_ns: u64,
    pub(crate) took_ns: u64,
}

impl Timer {
    pub(crate) const fn new(budget_ns: u64) -> Timer {
        Timer { budget_ns, watched: 0, strikes: 0, over: 0, longest_ns: 0 }
    }

    /// Whether the next call is measured by processor time.
    pub(crate) const fn is_watched(&self) -> bool {
        self.watched > 0
    }

    /// Calls that were over the budget, by processor time.
    pub(crate) const fn over(&self) -> u64 {
        self.over
    }

    /// Nanoseconds of the longest call, by the clock.
    pub(crate) const fn longest_ns(&self) -> u64 {
        self.longest_ns
    }

    /// A call has ended.
    ///
    /// # Errors
    /// [`TooSlow`]: too many calls were over the budget.
    pub(crate) fn note(&mut self, took: Took) -> Result<(), TooSlow> {
        self.longest_ns = self.longest_ns.max(took.clock_ns);
        let budget_ns = self.budget_ns.saturating_mul(took.packets);
        let Some(processor_ns) = took.processor_ns else {
            if took.clock_ns > budget_ns {
                self.watched = WATCHED;
            }
            return Ok(());
        };
        self.watched = self.watched.saturating_sub(1);
        if processor_ns > budget_ns {
            self.over += 1;
            self.strikes += 1;
            self.watched = WATCHED;
            if self.strikes >= STRIKES {
                return Err(TooSlow { calls: self.strikes, budget_ns, took_ns: processor_ns });
            }
        } else if self.watched == 0 {
            self.strikes = 0;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(timer: &mut Timer, clock_ns: u64, processor_ns: u64) -> Result<(), TooSlow> {
        let processor_ns = timer.is_watched().then_some(processor_ns);
        timer.note(Took { packets: 1, clock_ns, processor_ns })
    }

    #[test]
    fn a_component_that_is_always_slow_is_detached_at_the_fifth_call() {
        let mut timer = Timer::new(1_000);
        for _ in 0..4 {
            assert_eq!(call(&mut timer, 1_001, 1_001), Ok(()));
        }
        let slow = TooSlow { calls: 4, budget_ns: 1_000, took_ns: 1_001 };
        assert_eq!(call(&mut timer, 1_001, 1_001), Err(slow));
        assert_eq!((timer.over(), timer.longest_ns()), (4, 1_001));
    }

    #[test]
    fn an_interrupted_thread_is_no_fault_of_the_component() {
        let mut timer = Timer::new(1_000);
        for _ in 0..100_000 {
            assert_eq!(call(&mut timer, 5_000_000, 900), Ok(()));
        }
        assert_eq!(timer.over(), 0);
    }

    #[test]
    fn a_component_that_is_slow_once_in_a_while_stays_and_one_that_is_slow_more_often_does_not() {
        let slow_each = |every: u32| {
            let mut timer = Timer::new(1_000);
            (0..100_000_u32).all(|n| {
                let ns = if n % every == 0 { 2_000 } else { 100 };
                call(&mut timer, ns, ns).is_ok()
            })
        };
        assert!(slow_each(2_000));
        assert!(!slow_each(1_000));
    }

    #[test]
    fn each_packet_of_a_call_has_the_budget() {
        let mut timer = Timer::new(1_000);
        timer.note(Took { packets: 64, clock_ns: 64_000, processor_ns: None }).unwrap();
        assert!(!timer.is_watched());
        timer.note(Took { packets: 63, clock_ns: 64_000, processor_ns: None }).unwrap();
        assert!(timer.is_watched());
    }
}
