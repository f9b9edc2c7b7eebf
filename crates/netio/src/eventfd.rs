//! A wake-up for a thread that waits in poll: "there is something in your channel" (eventfd(2)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use crate::error::{IoContext, Result};

/// Wakes a waiting thread. Any number of [`Wake::wake`] before one [`Wake::take`] count as one.
#[derive(Debug)]
pub struct Wake {
    fd: OwnedFd,
}

impl Wake {
    /// A new one, not signalled.
    pub fn new() -> Result<Wake> {
        let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(io::Error::from);
        Ok(Wake { fd: made.doing(|| "making an eventfd".into())? })
    }

    /// A second handle to the same wake-up, for the thread on the other side.
    pub fn try_clone(&self) -> io::Result<Wake> {
        Ok(Wake { fd: self.fd.try_clone()? })
    }

    /// Make the descriptor readable. Never blocks.
    pub fn wake(&self) {
        // The only failure is a full counter, which is readable anyway.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Whether it was signalled since the last call; resets it. Never blocks.
    pub fn take(&self) -> bool {
        rustix::io::read(&self.fd, &mut [0u8; 8]).is_ok()
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn many_wakes_are_one() {
        let wake = Wake::new().unwrap();
        let other = wake.try_clone().unwrap();
        let readable = |timeout| crate::poll::readable([wake.as_fd()], Some(timeout)).unwrap()[0];
        assert!(!readable(Duration::ZERO));
        other.wake();
        other.wake();
        assert!(readable(Duration::from_secs(5)));
        assert!(wake.take());
        assert!(!wake.take() && !readable(Duration::ZERO));
    }
}
