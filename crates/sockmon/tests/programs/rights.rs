//! Descriptors under way in messages between Unix sockets.

use crate::{Sockets, ret};
use std::ffi::c_int;
use std::io;

fn rights() -> u64 {
    u64::from(libc::SOL_SOCKET as u32) | u64::from(libc::SCM_RIGHTS as u32) << 32
}

/// A message with room for two descriptors.
fn message(octet: &mut libc::iovec, control: &mut [u64; 3]) -> libc::msghdr {
    // SAFETY: zeroes are a msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = octet;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(control) as _;
    message
}

/// Send a descriptor by a pair of Unix sockets and close it; the socket of this name is the end where it waits from now on.
pub fn stow(fd: c_int, name: &str, sockets: &mut Sockets) -> io::Result<String> {
    let mut ends = [0; 2];
    // SAFETY: an array of two, as the call wants.
    ret(unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM, 0, ends.as_mut_ptr()) })?;
    let mut data = 0u8;
    let mut octet = libc::iovec { iov_base: (&raw mut data).cast(), iov_len: 1 };
    // cmsg_len, cmsg_level and cmsg_type, the descriptor.
    let mut control = [20, rights(), fd as u64];
    let message = message(&mut octet, &mut control);
    // SAFETY: the message and what it points to live for the call; the descriptors are ours.
    unsafe {
        ret(libc::sendmsg(ends[0], &raw const message, 0) as c_int)?;
        libc::close(fd);
        libc::close(ends[0]);
    }
    sockets.insert(name.into(), ends[1]);
    Ok("ok".into())
}

pub fn take(from: c_int) -> io::Result<c_int> {
    let mut data = 0u8;
    let mut octet = libc::iovec { iov_base: (&raw mut data).cast(), iov_len: 1 };
    let mut control = [0u64; 3];
    let mut message = message(&mut octet, &mut control);
    // SAFETY: the message and what it points to live for the call.
    ret(unsafe { libc::recvmsg(from, &raw mut message, 0) } as c_int)?;
    Ok(control[2] as c_int)
}

/// Send a descriptor and the socket where it arrives to that socket, and close everything. Who collects that is a worker of the kernel's,
/// woken when another Unix socket is closed. The other end is such a socket, so the descriptor is closed first: the worker must find
/// that the message holds it last.
pub fn knot(fd: c_int) -> io::Result<String> {
    let mut ends = [0; 2];
    let mut data = 0u8;
    let mut octet = libc::iovec { iov_base: (&raw mut data).cast(), iov_len: 1 };
    // SAFETY: arrays of two, as the calls want; the message and what it points to live for the call; the descriptors are ours.
    unsafe {
        ret(libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM, 0, ends.as_mut_ptr()))?;
        let both = u64::from(ends[0] as u32) | u64::from(fd as u32) << 32;
        let mut control = [24, rights(), both];
        let message = message(&mut octet, &mut control);
        ret(libc::sendmsg(ends[1], &raw const message, 0) as c_int)?;
        for own in [fd, ends[0], ends[1]] {
            ret(libc::close(own))?;
        }
        ret(libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM, 0, ends.as_mut_ptr()))?;
        for own in ends {
            ret(libc::close(own))?;
        }
    }
    Ok("ok".into())
}
