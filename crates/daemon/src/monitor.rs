//! The kernel half as the control plane holds it: one caller at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use sockmon::Sockmon;

/// The socket monitor behind a lock: libbpf's objects may move between threads, but not be shared by them.
pub struct Monitor(Mutex<Sockmon>);

impl Monitor {
    /// Put it behind the lock.
    pub fn new(monitor: Sockmon) -> Monitor {
        Monitor(Mutex::new(monitor))
    }

    /// Lock the kernel half, to use it. The lock is never held while waiting for a data thread.
    pub fn get(&self) -> MutexGuard<'_, Sockmon> {
        // What a panicking caller left is still what the kernel has.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
