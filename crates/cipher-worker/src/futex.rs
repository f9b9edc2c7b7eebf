//! Waiting for a word of shared memory to change.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::thread::futex::{Flags, Timespec, wait as kernel_wait, wake as kernel_wake};

/// Sleep until somebody wakes the word, as long as it has this value, or until the time is over. It can return early.
pub(crate) fn wait(word: &AtomicU32, value: u32, most: Option<Duration>) {
    let time = most.map(|most| Timespec {
        tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: most.subsec_nanos().into(),
    });
    // Every reason to return is a reason to look again.
    let _ = kernel_wait(word, Flags::empty(), value, time.as_ref());
}

/// Wake who sleeps on the word.
pub(crate) fn wake(word: &AtomicU32) {
    // An error would say that the address is none.
    let _ = kernel_wake(word, Flags::empty(), u32::MAX >> 1);
}
