//! The clocks; the pure rooms take the time as an argument.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wire::Time;

/// Monotonic time (CLOCK_MONOTONIC): timeouts, reassembly, lifetimes.
pub fn monotonic() -> Time {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec to write to; the call cannot fail for CLOCK_MONOTONIC.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    Time::from_secs(now.tv_sec.unsigned_abs()) + Duration::from_nanos(now.tv_nsec.unsigned_abs())
}

/// Time of day since 1970: capture files and logs only.
pub fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn never_runs_backwards() {
        let first = super::monotonic();
        let second = super::monotonic();
        assert!(second >= first && first.0 > 0);
        assert!(super::wall().as_secs() > 1_600_000_000);
    }
}
