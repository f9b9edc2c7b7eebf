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

/// Wait as [`readable`] does, for at most `N` descriptors. The answer is for each, in their order.
///
/// # Errors
/// The kernel refuses it, or there are too many descriptors.
pub fn readable_among<'fd, const N: usize>(
    fds: impl IntoIterator<Item = BorrowedFd<'fd>>,
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let (mut set, mut count) = ([const { None }; N], 0);
    for fd in fds {
        *set.get_mut(count).ok_or(io::ErrorKind::InvalidInput)? = Some(fd);
        count += 1;
    }
    let Some(first) = set.first().copied().flatten() else { return Ok([false; N]) };
    let mut set = set.map(|fd| match fd {
        Some(fd) => PollFd::from_borrowed_fd(fd, PollFlags::IN),
        None => PollFd::from_borrowed_fd(first, PollFlags::empty()),
    });
    let asked = set.get_mut(..count).ok_or(io::ErrorKind::InvalidInput)?;
    wait_for(asked, timeout)?;
    let mut ready = [false; N];
    for (ready, fd) in ready.iter_mut().zip(asked) {
        *ready = !fd.revents().is_empty();
    }
    Ok(ready)
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
    wait_for(&mut set, timeout)?;
    Ok(set.map(|fd| !fd.revents().is_empty()))
}

/// Wait until one of them is ready, the time is up, or a signal has come.
fn wait_for(set: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<()> {
    // A time that the kernel cannot count to is no end.
    let limit = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match poll(set, limit.as_ref()) {
        Ok(_) => Ok(()),
        Err(Errno::INTR) => {
            set.iter_mut().for_each(PollFd::clear_revents);
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
