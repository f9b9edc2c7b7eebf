//! From a burst to datagrams: one system call, or as few as the kernel allows.

use super::control::{Control, Writer};
use super::send::{patiently, transmit};
use super::{Family, UdpTransport};
use crate::error::check;
use socket2::{SockAddr, Socket};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use wire::burst::MAX_DATAGRAMS;
use wire::{Burst, DropReason, OuterHeader, stage};

/// The result of sending a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendResult {
    /// Datagrams that the kernel took, from the first on.
    pub datagrams: usize,
    /// The reason why the other datagrams were not taken; `None` if all were.
    pub dropped: Option<DropReason>,
    /// The kernel took the burst in one piece.
    pub whole: bool,
}

impl UdpTransport {
    /// Send a burst from our port. One system call; if the route has no use for UDP_SEGMENT (EIO, EINVAL: a device without
    /// checksums, an XFRM policy, an old kernel), or the datagrams may be fragmented, one for all of them as single datagrams.
    pub fn send_burst(&self, burst: &Burst<stage::Outer>) -> SendResult {
        self.send_burst_with_priority(burst, None)
    }

    /// Send a burst like [`UdpTransport::send_burst`], with a priority for the queueing disciplines of its device.
    pub fn send_burst_with_priority(&self, burst: &Burst<stage::Outer>, priority: Option<u32>) -> SendResult {
        let header = &burst.header;
        let family = if header.dst.is_ipv4() { Family::V4 } else { Family::V6 };
        let refused = |reason| SendResult { dropped: Some(reason), ..SendResult::default() };
        if burst.is_empty() {
            return SendResult::default();
        }
        if header.src_port != self.port() {
            return refused(DropReason::BadHeader);
        }
        let Some(sockets) = self.sockets_of(family) else { return refused(DropReason::Unroutable) };
        let to = SockAddr::from(SocketAddr::new(header.dst, header.dst_port));
        if header.may_fragment {
            return one_by_one(&sockets.fragmenting, &to, burst, priority);
        }
        if burst.count() == 1 {
            return one_by_one(&sockets.whole, &to, burst, priority);
        }
        let Ok(stride) = u16::try_from(burst.stride()) else { return refused(DropReason::TooLong) };
        let mut control = Control::EMPTY;
        let control_len = write_control(&mut control, header, priority, Some(stride));
        let mut unfit = false;
        let sent = patiently(&sockets.whole, || {
            let sent = transmit(&sockets.whole, &to, burst.bytes(), &mut control, control_len);
            unfit = matches!(&sent, Err(e) if matches!(e.raw_os_error(), Some(libc::EIO | libc::EINVAL)));
            sent
        });
        match sent {
            Ok(()) => SendResult { datagrams: burst.count(), dropped: None, whole: true },
            Err(_) if unfit => one_by_one(&sockets.whole, &to, burst, priority),
            Err(reason) => refused(reason),
        }
    }
}

/// The control messages of every datagram of a burst; how many octets.
fn write_control(
    control: &mut Control,
    header: &OuterHeader,
    priority: Option<u32>,
    stride: Option<u16>,
) -> usize {
    let mut writer = Writer::new(control);
    writer.source(header.src);
    writer.service(header.dst.is_ipv6(), header.tos, header.ttl);
    if let Some(priority) = priority {
        writer.priority(priority);
    }
    if let Some(stride) = stride {
        writer.segment(stride);
    }
    writer.len()
}

/// sendmmsg(2): each datagram by itself, all with the same name and control messages.
fn one_by_one(
    socket: &Socket,
    to: &SockAddr,
    burst: &Burst<stage::Outer>,
    priority: Option<u32>,
) -> SendResult {
    let mut control = Control::EMPTY;
    let control_len = write_control(&mut control, &burst.header, priority, None);
    if burst.count() == 1 {
        let sent = patiently(socket, || transmit(socket, to, burst.bytes(), &mut control, control_len));
        return SendResult { datagrams: usize::from(sent.is_ok()), dropped: sent.err(), whole: true };
    }
    let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MAX_DATAGRAMS];
    // SAFETY: mmsghdr is plain old data; all zeroes is a valid value of it.
    let mut messages: [libc::mmsghdr; MAX_DATAGRAMS] = unsafe { std::mem::zeroed() };
    let mut count = 0;
    for ((datagram, part), message) in burst.datagrams().zip(&mut parts).zip(&mut messages) {
        *part = libc::iovec { iov_base: datagram.as_ptr().cast_mut().cast(), iov_len: datagram.len() };
        let header = &mut message.msg_hdr;
        header.msg_name = to.as_ptr().cast_mut().cast();
        header.msg_namelen = to.len();
        header.msg_iov = part;
        header.msg_iovlen = 1;
        header.msg_control = control.octets.as_mut_ptr().cast();
        header.msg_controllen = control_len.min(control.octets.len());
        count += 1;
    }
    let mut done = 0;
    while done < count {
        let rest = messages.get_mut(done..count).unwrap_or_default();
        let sent = patiently(socket, || send_many(socket, rest).inspect(|n| done += n));
        if let Err(reason) = sent {
            return SendResult { datagrams: done, dropped: Some(reason), whole: false };
        }
    }
    SendResult { datagrams: done, dropped: None, whole: false }
}

/// Send messages with one call. Returns the number that the kernel took, or an error if it did not take even the first.
pub(crate) fn send_many(socket: &Socket, messages: &mut [libc::mmsghdr]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: each message points to a name, an iovec over a datagram or packet and perhaps control messages, all live for
    // the call with the lengths given; the kernel only reads them and writes each `msg_len`.
    let sent = check(unsafe {
        libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), messages.len() as libc::c_uint, flags)
    })?;
    match usize::try_from(sent) {
        // Nothing taken and no error cannot be; taken for one, it could not loop.
        Ok(0) | Err(_) => Err(io::Error::from_raw_os_error(libc::EIO)),
        Ok(sent) => Ok(sent),
    }
}
