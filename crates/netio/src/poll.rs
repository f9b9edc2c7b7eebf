//! Waiting for descriptors (ppoll(2)): a handful of them, so no epoll set is kept.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Wait until at least one of `fds` can be read (or has an error or hang-up to report, which a read will tell);
/// `None` waits without end. All false: the time is up or a signal came.
pub fn readable<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    wait(fds.map(|fd| (fd, PollFlags::IN)), timeout)
}

/// Wait until `fd` takes data, at most `timeout`; whether it does.
pub fn writable(fd: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
    wait([(fd, PollFlags::OUT)], Some(timeout)).map(|[ready]| ready)
}

/// Wait until `fd` (a file of procfs or cgroupfs) says that it changed since it was read, at most `timeout`.
pub fn changed(fd: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
    wait([(fd, PollFlags::PRI)], Some(timeout)).map(|[ready]| ready)
}

fn wait<const N: usize>(
    fds: [(BorrowedFd<'_>, PollFlags); N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut set = fds.map(|(fd, events)| PollFd::from_borrowed_fd(fd, events));
    // A time that the kernel cannot count to is no end.
    let limit = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match poll(&mut set, limit.as_ref()) {
        Ok(_) => Ok(set.map(|fd| !fd.revents().is_empty())),
        Err(Errno::INTR) => Ok([false; N]),
        Err(error) => Err(error.into()),
    }
}
