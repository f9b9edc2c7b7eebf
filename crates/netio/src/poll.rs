//! Waiting for descriptors (ppoll(2)): a handful of them, so no epoll set is kept.

use crate::error::check;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::Duration;

/// Wait until at least one of `fds` can be read (or has an error or hang-up to report, which a read will tell);
/// `None` waits without end. All false: the time is up or a signal came.
pub fn readable<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    wait(fds.map(|fd| (fd, libc::POLLIN)), timeout)
}

/// Wait until `fd` takes data, at most `timeout`; whether it does.
pub fn writable(fd: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
    wait([(fd, libc::POLLOUT)], Some(timeout)).map(|[ready]| ready)
}

/// Wait until `fd` (a file of procfs or cgroupfs) says that it changed since it was read, at most `timeout`.
pub fn changed(fd: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
    wait([(fd, libc::POLLPRI)], Some(timeout)).map(|[ready]| ready)
}

fn wait<const N: usize>(
    fds: [(BorrowedFd<'_>, libc::c_short); N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut set = fds.map(|(fd, events)| libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 });
    let limit = timeout.map(|t| libc::timespec {
        tv_sec: libc::time_t::try_from(t.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(t.subsec_nanos().cast_signed()),
    });
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `set` holds N pollfds whose descriptors are borrowed for the call; `limit` is null or outlives it.
    match check(unsafe { libc::ppoll(set.as_mut_ptr(), N as libc::nfds_t, limit, ptr::null()) }) {
        Ok(_) => Ok(set.map(|fd| fd.revents != 0)),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok([false; N]),
        Err(e) => Err(e),
    }
}
