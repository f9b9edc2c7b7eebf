//! From a whole outer IP packet to a datagram.

use super::control::{Control, Writer};
use super::{Family, UdpTransport};
use crate::error::check_len;
use crate::poll;
use socket2::{SockAddr, Socket};
use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;
use wire::ip::Headers;
use wire::udp::Udp;
use wire::{DropReason, Packet, protocol, stage};

/// The time that one packet may wait for room in a socket's queue. It is long enough that bulk TCP is slowed and not
/// cut down at every burst, and short enough that a stuck device does not stop the thread.
const PATIENCE: Duration = Duration::from_millis(10);

impl UdpTransport {
    /// Send an outer packet: IP without options, UDP from our port. Packets that may be fragmented are, by the kernel; for
    /// the others "does not fit the device" is [`DropReason::TooBig`].
    pub fn send(&self, packet: &Packet<stage::Outer>) -> Result<(), DropReason> {
        self.send_with_priority(packet, None)
    }

    /// Send an outer packet like [`UdpTransport::send`], with a priority for the queueing disciplines of its device.
    pub fn send_with_priority(
        &self,
        packet: &Packet<stage::Outer>,
        priority: Option<u32>,
    ) -> Result<(), DropReason> {
        let bytes = packet.bytes();
        let headers = Headers::parse(bytes)?;
        if headers.protocol != protocol::UDP || headers.fragment.is_some() || headers.has_options {
            return Err(DropReason::BadHeader);
        }
        let datagram = Udp::new_checked(headers.upper(bytes))?;
        if datagram.src_port() != self.port() {
            return Err(DropReason::BadHeader);
        }
        let family = if headers.dst.is_ipv4() { Family::V4 } else { Family::V6 };
        let sockets = self.sockets_of(family).ok_or(DropReason::Unroutable)?;
        let socket = if packet.meta.may_fragment { &sockets.fragmenting } else { &sockets.whole };
        let (port, payload) = (datagram.dst_port(), datagram.payload());
        Outgoing { headers: &headers, port, mark: 0, priority, payload }.send(socket)
    }
}

/// A payload around which the kernel puts an IP header, and the values for that header.
pub(crate) struct Outgoing<'a> {
    pub(crate) headers: &'a Headers,
    /// Port of the destination; zero on a raw socket.
    pub(crate) port: u16,
    /// The packet's mark; zero: none.
    pub(crate) mark: u32,
    /// The packet's priority for queueing disciplines; `None`: the kernel's choice.
    pub(crate) priority: Option<u32>,
    pub(crate) payload: &'a [u8],
}

impl Outgoing<'_> {
    pub(crate) fn send(&self, socket: &Socket) -> Result<(), DropReason> {
        let to = SockAddr::from(SocketAddr::new(self.headers.dst, self.port));
        let mut control = Control::EMPTY;
        let mut writer = Writer::new(&mut control);
        writer.source(self.headers.src);
        writer.service(matches!(self.headers.dst, IpAddr::V6(_)), self.headers.tos, self.headers.ttl);
        if self.mark != 0 {
            writer.mark(self.mark);
        }
        if let Some(priority) = self.priority {
            writer.priority(priority);
        }
        let control_len = writer.len();
        patiently(socket, || transmit(socket, &to, self.payload, &mut control, control_len))
    }
}

/// Send a packet that has its own header, with a mark if that is not zero, and a priority if there is one.
pub(crate) fn send_whole(
    socket: &Socket,
    to: &SockAddr,
    packet: &[u8],
    mark: u32,
    priority: Option<u32>,
) -> Result<(), DropReason> {
    let mut control = Control::EMPTY;
    let mut writer = Writer::new(&mut control);
    if mark != 0 {
        writer.mark(mark);
    }
    if let Some(priority) = priority {
        writer.priority(priority);
    }
    let control_len = writer.len();
    patiently(socket, || transmit(socket, to, packet, &mut control, control_len))
}

/// Send once more after the socket's queue had no room; the kernel's refusal in the house's words.
pub(crate) fn patiently(
    socket: &Socket,
    mut send: impl FnMut() -> io::Result<usize>,
) -> Result<(), DropReason> {
    let mut waited = false;
    ERRNO.set(None);
    loop {
        match send() {
            Ok(_) => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && !waited => {
                waited = true;
                if !poll::writable(socket.as_fd(), PATIENCE).unwrap_or(false) {
                    return Err(reason(&e));
                }
            }
            Err(e) => return Err(reason(&e)),
        }
    }
}

pub(super) fn transmit(
    socket: &Socket,
    to: &SockAddr,
    payload: &[u8],
    control: &mut Control,
    control_len: usize,
) -> io::Result<usize> {
    let mut part = libc::iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() };
    // SAFETY: msghdr is plain old data; all zeroes is a valid value of it.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = to.as_ptr().cast_mut().cast();
    message.msg_namelen = to.len();
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.octets.as_mut_ptr().cast();
    message.msg_controllen = control_len.min(control.octets.len());
    // SAFETY: name, payload and control are live for the call with the lengths given; sendmsg only reads them.
    check_len(unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) })
}

thread_local! {
    /// The number of the error for which the kernel refused the packet that this thread sent last.
    static ERRNO: Cell<Option<i32>> = const { Cell::new(None) };
}

/// The number of the error (errno) for which the kernel refused the packet that this thread sent last, by whichever
/// sender. It is told once.
pub fn take_errno() -> Option<i32> {
    ERRNO.take()
}

/// The kernel's refusal, in the house's words.
#[cold]
fn reason(error: &io::Error) -> DropReason {
    ERRNO.set(error.raw_os_error());
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => DropReason::Backpressure,
        Some(libc::EMSGSIZE) => DropReason::TooBig,
        // ENETUNREACH, EHOSTUNREACH, ENETDOWN, a source address that is not ours (EINVAL, EADDRNOTAVAIL), and a
        // firewall's refusal (EPERM): from here the peer cannot be reached.
        _ => DropReason::Unroutable,
    }
}
