//! The thread of a crypto unit and the data thread (docs/design/0045): no answer is overlooked, no thread sleeps for ever.
//!
//! A ring is a counter here, written and read in the orders in which rtrb does it. The descriptor that wakes the data
//! thread is a counter under a lock with a condition.

#[cfg(test)]
mod tests {
    use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    use crate::wait_flag::WaitFlag;

    /// A descriptor that is readable once it was written to (eventfd(2)).
    #[derive(Default)]
    struct Descriptor {
        written: Mutex<bool>,
        readable: Condvar,
    }

    impl Descriptor {
        fn write(&self) {
            *self.written.lock().unwrap() = true;
            self.readable.notify_one();
        }

        /// Wait until it is readable, and read it. If nobody writes, loom reports a deadlock.
        fn wait(&self) {
            let mut written = self.written.lock().unwrap();
            while !*written {
                written = self.readable.wait(written).unwrap();
            }
            *written = false;
        }
    }

    struct Shared {
        flag: WaitFlag,
        descriptor: Descriptor,
        /// The answers that were put into the ring.
        pushed: AtomicUsize,
        /// The other end of the ring is gone.
        abandoned: AtomicBool,
    }

    impl Shared {
        fn new() -> Arc<Shared> {
            Arc::new(Shared {
                flag: WaitFlag::new(),
                descriptor: Descriptor::default(),
                pushed: AtomicUsize::new(0),
                abandoned: AtomicBool::new(false),
            })
        }

        /// What the unit's thread does with an answer.
        fn answer(&self) {
            let before = self.pushed.load(Ordering::Relaxed);
            self.pushed.store(before + 1, Ordering::Release);
            self.ring();
        }

        fn ring(&self) {
            if self.flag.take_waiting() {
                self.descriptor.write();
            }
        }

        /// What the data thread does until it has so many answers, or the unit's thread is gone. Returns how many it has.
        fn serve(&self, wanted: usize) -> usize {
            let mut taken = 0;
            loop {
                let pushed = self.pushed.load(Ordering::Acquire);
                taken = taken.max(pushed);
                if taken == wanted {
                    return taken;
                }
                self.flag.begin_waiting();
                // In this order: whoever is gone has pushed everything before.
                let is_gone = self.abandoned.load(Ordering::Acquire);
                let is_there = self.pushed.load(Ordering::Acquire) > taken;
                if is_gone && !is_there {
                    return taken;
                }
                if !is_there {
                    self.descriptor.wait();
                }
                self.flag.end_waiting();
            }
        }
    }

    #[test]
    fn every_answer_is_seen_and_the_data_thread_does_not_sleep_for_ever() {
        loom::model(|| {
            let shared = Shared::new();
            let unit = Arc::clone(&shared);
            let unit = thread::spawn(move || (0..2).for_each(|_| unit.answer()));
            assert_eq!(shared.serve(2), 2);
            unit.join().unwrap();
        });
    }

    #[test]
    fn two_units_wake_the_same_thread() {
        // Three threads have too many orders for all of them: those with at most three switches that nothing forces.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = Shared::new();
            let answers = Arc::new(AtomicUsize::new(0));
            let units: Vec<_> = (0..2)
                .map(|_| {
                    let (shared, answers) = (Arc::clone(&shared), Arc::clone(&answers));
                    thread::spawn(move || {
                        let before = answers.fetch_add(1, Ordering::AcqRel);
                        shared.pushed.fetch_max(before + 1, Ordering::AcqRel);
                        shared.ring();
                    })
                })
                .collect();
            assert_eq!(shared.serve(2), 2);
            units.into_iter().for_each(|unit| unit.join().unwrap());
        });
    }

    #[test]
    fn the_end_of_a_units_thread_is_seen() {
        loom::model(|| {
            let shared = Shared::new();
            let unit = Arc::clone(&shared);
            let unit = thread::spawn(move || {
                unit.answer();
                unit.abandoned.store(true, Ordering::Release);
                unit.ring();
            });
            assert_eq!(shared.serve(2), 1);
            unit.join().unwrap();
        });
    }
}
