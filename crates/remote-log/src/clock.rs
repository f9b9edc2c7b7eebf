//! The wall clock, for the times that messages carry.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

/// The time since 1970, or zero if the clock stands before that.
pub(crate) fn wall() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// A time since 1970 as RFC 5424 section 6.2.3 has it: UTC, microseconds.
pub(crate) fn stamp(since_epoch: Duration) -> String {
    let time = i64::try_from(since_epoch.as_micros())
        .ok()
        .and_then(|micros| Timestamp::from_microsecond(micros).ok());
    time.unwrap_or(Timestamp::MAX).strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
