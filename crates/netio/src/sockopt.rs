//! Socket options with integer or plain struct values, for which the libraries have no function.

use crate::error::check;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;

/// Set an integer option.
///
/// # Errors
/// The error that the kernel answers.
pub fn set_int(fd: impl AsFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    set(fd, level, name, &value)
}

/// Set an option whose value is a plain C struct.
///
/// # Errors
/// The error that the kernel answers.
pub fn set<T: Copy>(fd: impl AsFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is readable for `len` octets; the kernel copies them.
    check(unsafe { libc::setsockopt(fd.as_fd().as_raw_fd(), level, name, ptr::from_ref(value).cast(), len) })
        .map(drop)
}

/// Let a BPF program look at what comes for a socket, in place of the one that did; `None`: none does.
///
/// # Errors
/// The error that the kernel answers. That there was none is no error.
pub fn set_filter(fd: impl AsFd, program: Option<BorrowedFd<'_>>) -> io::Result<()> {
    match program {
        Some(program) => set_int(fd, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, program.as_raw_fd()),
        None => match set_int(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
            _ => Ok(()),
        },
    }
}

/// Get a socket option whose value is plain old data.
///
/// # Errors
/// The error that the kernel answers.
///
/// # Safety
/// Every bit pattern must be a valid `T`, and the kernel must write a whole `T` for this option.
pub unsafe fn get<T: Copy + Default>(fd: impl AsFd, level: libc::c_int, name: libc::c_int) -> io::Result<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as libc::socklen_t;
    let out = ptr::from_mut(&mut value).cast();
    // SAFETY: `out` is writable for `len` octets; the caller vouches for the bit pattern.
    check(unsafe { libc::getsockopt(fd.as_fd().as_raw_fd(), level, name, out, &mut len) })?;
    Ok(value)
}

/// Get an integer option.
///
/// # Errors
/// The error that the kernel answers.
pub fn get_int(fd: impl AsFd, level: libc::c_int, name: libc::c_int) -> io::Result<libc::c_int> {
    // SAFETY: every pattern is an int.
    unsafe { get(fd, level, name) }
}
