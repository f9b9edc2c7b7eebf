//! A wake-up for a thread that waits in poll: "there is something in your channel" (eventfd(2)).

use crate::error::{IoContext, Result, check, check_len};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Wakes a waiting thread. Any number of [`Wake::wake`] before one [`Wake::take`] count as one.
#[derive(Debug)]
pub struct Wake {
    fd: OwnedFd,
}

impl Wake {
    /// A new one, not signalled.
    pub fn new() -> Result<Wake> {
        // SAFETY: eventfd takes no pointer.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
            .doing(|| "making an eventfd".into())?;
        // SAFETY: `fd` was just returned to us and nobody else owns it.
        Ok(Wake { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// A second handle to the same wake-up, for the thread on the other side.
    pub fn try_clone(&self) -> io::Result<Wake> {
        Ok(Wake { fd: self.fd.try_clone()? })
    }

    /// Make the descriptor readable. Never blocks.
    pub fn wake(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: `one` is eight readable octets. The only failure is a full counter, which is readable anyway.
        unsafe { libc::write(self.fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Whether it was signalled since the last call; resets it. Never blocks.
    pub fn take(&self) -> bool {
        let mut count = [0u8; 8];
        // SAFETY: `count` is eight writable octets.
        check_len(unsafe { libc::read(self.fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) }).is_ok()
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
