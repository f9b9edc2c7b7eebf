//! From datagrams to whole outer IP packets, one by one, or to bursts as the kernel joined them.
//!
//! A datagram may have up to 64 KiB, since an outer packet can come as IP fragments, so each slot is a buffer of
//! that size; there are few, and of each only the pages that a datagram touches are ever resident: 16 slots of 1,500 octets
//! are a working set of 32 KiB (DESIGN section 4 asks for at most 2 MiB per core).

use super::control::{self, Control, DatagramInfo};
use super::socket::FamilySockets;
use super::{Family, HEADROOM, UdpTransport};
use crate::error::check;
use crate::sockopt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::ptr;
use wire::ipv4::{self, Ipv4Repr};
use wire::ipv6::{self, Ipv6Repr};
use wire::udp::{self, UdpRepr};
use wire::{Buf, Burst, DropReason, Meta, OuterHeader, Packet, Pool, Time, WireError, protocol, stage};

/// Datagrams taken with one system call.
const BATCH: usize = 16;

/// Messages taken with one system call where each may be a burst of 64 KiB: a working set of half a mebibyte.
pub(super) const BURSTS: usize = 8;

/// Time to live that is written when the kernel did not say it.
const USUAL_TTL: u8 = 64;

/// The datagrams that one call received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Datagrams taken from the socket.
    pub datagrams: usize,
    /// Datagrams among these that were dropped: they did not fit their buffer, or cannot stand in one IP packet.
    pub truncated: usize,
    /// There may be more: call again.
    pub more: bool,
}

/// The peer's address as the kernel writes it.
#[repr(C)]
union Name {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl UdpTransport {
    /// Take waiting datagrams of `family` (never waits) and append them to `out` as whole IP packets. The pool's buffers
    /// need [`HEADROOM`] octets in front and [`super::MAX_DATAGRAM`] behind it.
    pub fn recv(
        &mut self,
        family: Family,
        now: Time,
        pool: &mut Pool,
        out: &mut Vec<Packet<stage::Raw>>,
    ) -> io::Result<Received> {
        let Some(socket) = self.sockets_of(family).map(|sockets| sockets.whole.as_raw_fd()) else {
            return Ok(Received::default());
        };
        // A pool for bursts may have given some without room for headers.
        self.slots.retain(|slot| slot.headroom() >= HEADROOM);
        self.fill_slots(BATCH, pool);
        if self.slots.iter().any(|slot| slot.headroom() < HEADROOM) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "receive buffers have too little headroom",
            ));
        }
        let mut batch = [const { ArrivedDatagram::NONE }; BATCH];
        let count = receive(socket, &mut self.slots, &mut batch)?;
        let mut answer = Received { datagrams: count, truncated: 0, more: count == BATCH };
        let rest = self.slots.len() - count;
        for (mut buf, arrived) in self.slots.drain(rest..).rev().zip(&batch) {
            buf.set_len(arrived.len);
            let info = control::parse(arrived.control());
            if let Some(lost) = info.lost {
                self.lost[usize::from(family == Family::V6)][0] = lost;
            }
            let cut = arrived.is_cut();
            let joined = info.stride.filter(|stride| !cut && *stride < buf.len());
            if let (Some(stride), Some(header)) = (joined, arrived.header(family, &info, self.sockets.port)) {
                answer.datagrams -= 1;
                if let Some(burst) = Burst::raw(buf, header, stride, now) {
                    split(burst, pool, out, &mut answer);
                }
                continue;
            }
            let (src, src_port) = arrived.peer(family);
            let dst_port = self.sockets.port;
            match write_headers(&mut buf, &info, (src, src_port), dst_port) {
                Ok(()) if !cut => {
                    let meta = Meta { received: now, tos: info.tos, ..Meta::default() };
                    out.push(Packet::raw(buf, meta));
                }
                _ => {
                    answer.truncated += 1;
                    pool.put(buf);
                }
            }
        }
        Ok(answer)
    }

    /// Have the kernel join datagrams of one flow, equal length and equal headers (UDP_GRO), or not; what arrives with equal
    /// type of service and time to live only, and with a UDP checksum. [`UdpTransport::recv_bursts`] takes what it joined in
    /// one piece; [`UdpTransport::recv`] cuts it again, which costs a copy.
    ///
    /// It is asked for on each socket of the port. As the kernel joins, it asks the socket that the flow's hash gives, and no
    /// program; so one that does not ask for it would keep every flow of its hashes in pieces.
    pub fn join_datagrams(&self, on: bool) -> io::Result<()> {
        let on = libc::c_int::from(on);
        let mut sockets = self.families().flat_map(FamilySockets::all);
        sockets.try_for_each(|socket| sockopt::set_int(socket, libc::SOL_UDP, libc::UDP_GRO, on))
    }

    /// Take waiting bursts of `family` (never waits) and append them to `out`: the datagrams as they came, without headers. A
    /// datagram that the kernel did not join is a burst of one. The pool's buffers need [`super::MAX_DATAGRAM`] octets
    /// behind their headroom. [`UdpTransport::join_datagrams`] comes first, once.
    pub fn recv_bursts(
        &mut self,
        family: Family,
        now: Time,
        pool: &mut Pool,
        out: &mut Vec<Burst<stage::Raw>>,
    ) -> io::Result<Received> {
        self.recv_bursts_of((family, 0), BURSTS, now, pool, out)
    }

    /// Take bursts as [`UdpTransport::recv_bursts`] does, of one queue and at most so many.
    ///
    /// # Errors
    /// The kernel's.
    pub fn recv_bursts_of(
        &mut self,
        (family, queue): (Family, usize),
        most: usize,
        now: Time,
        pool: &mut Pool,
        out: &mut Vec<Burst<stage::Raw>>,
    ) -> io::Result<Received> {
        let socket = self.sockets_of(family).and_then(|sockets| sockets.queue(queue));
        let Some(socket) = socket.map(AsRawFd::as_raw_fd) else {
            return Ok(Received::default());
        };
        let (received, lost) = self.take_bursts((family, socket), most, now, pool, out)?;
        let place = self.lost[usize::from(family == Family::V6)].get_mut(queue);
        if let (Some(lost), Some(place)) = (lost, place) {
            *place = lost;
        }
        Ok(received)
    }

    /// Take bursts of a socket, at most so many, and what the kernel said of datagrams that it had no room for.
    pub(super) fn take_bursts(
        &mut self,
        (family, socket): (Family, libc::c_int),
        most: usize,
        now: Time,
        pool: &mut Pool,
        out: &mut Vec<Burst<stage::Raw>>,
    ) -> io::Result<(Received, Option<u32>)> {
        let most = most.clamp(1, BURSTS);
        self.fill_slots(most, pool);
        let from = self.slots.len() - most;
        let mut batch = [const { ArrivedDatagram::NONE }; BURSTS];
        let count = receive(socket, self.slots.get_mut(from..).unwrap_or_default(), &mut batch)?;
        let mut answer = Received { more: count == most, ..Received::default() };
        let mut lost = None;
        let rest = self.slots.len() - count;
        for (mut buf, arrived) in self.slots.drain(rest..).rev().zip(&batch) {
            buf.set_len(arrived.len);
            let info = control::parse(arrived.control());
            lost = info.lost.or(lost);
            let header = arrived.header(family, &info, self.sockets.port).filter(|_| !arrived.is_cut());
            let stride = info.stride.unwrap_or(0);
            let Some(header) = header else {
                answer.datagrams += 1;
                answer.truncated += 1;
                pool.put(buf);
                continue;
            };
            if let Some(burst) = Burst::raw(buf, header, stride, now) {
                answer.datagrams += burst.count();
                out.push(burst);
            }
        }
        Ok((answer, lost))
    }

    fn fill_slots(&mut self, count: usize, pool: &mut Pool) {
        while self.slots.len() < count {
            self.slots.push(pool.take());
        }
    }
}

/// Cut a joined message into whole packets.
fn split(
    burst: Burst<stage::Raw>,
    pool: &mut Pool,
    out: &mut Vec<Packet<stage::Raw>>,
    answer: &mut Received,
) {
    for packet in burst.packets(pool) {
        answer.datagrams += 1;
        match packet {
            Ok(packet) => out.push(packet),
            Err(_) => answer.truncated += 1,
        }
    }
    pool.put(burst.into_buf());
}

/// The information of recvmmsg(2) about one datagram: its length, flags, sender and control messages.
pub(crate) struct ArrivedDatagram {
    len: usize,
    flags: libc::c_int,
    name: Name,
    control: Control,
    control_len: usize,
}

impl ArrivedDatagram {
    pub(crate) const NONE: ArrivedDatagram = ArrivedDatagram {
        len: 0,
        flags: 0,
        // The longer member: every octet of the union is set.
        name: Name {
            v6: libc::sockaddr_in6 {
                sin6_family: 0,
                sin6_port: 0,
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
                sin6_scope_id: 0,
            },
        },
        control: Control::EMPTY,
        control_len: 0,
    };

    fn control(&self) -> &[u8] {
        self.control.octets.get(..self.control_len).unwrap_or_default()
    }

    /// Whether the datagram or its control messages did not fit.
    pub(crate) fn is_cut(&self) -> bool {
        self.flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0
    }

    /// The octets of data that arrived.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Packets that the socket's queue had no room for, if the kernel said it.
    pub(crate) fn lost(&self) -> Option<u32> {
        control::parse(self.control()).lost
    }

    /// The VLAN tag that the kernel took out of a frame.
    pub(crate) fn tag(&self) -> Option<[u8; 4]> {
        control::parse(self.control()).tag
    }

    /// The IPv6 flow label; zero where the socket did not ask for it.
    pub(crate) fn flow_label(&self) -> u32 {
        control::parse(self.control()).flow_label
    }

    /// Source, destination, type of service and time to live of a packet of a raw socket.
    pub(crate) fn raw_header(&self, family: Family) -> Option<OuterHeader> {
        self.header(family, &control::parse(self.control()), 0)
    }

    /// The headers that it travelled in; `None` if the kernel did not say the address it was sent to.
    fn header(&self, family: Family, info: &DatagramInfo, dst_port: u16) -> Option<OuterHeader> {
        let (src, src_port) = self.peer(family);
        Some(OuterHeader {
            src,
            dst: info.dst?,
            src_port,
            dst_port,
            tos: info.tos,
            ttl: info.ttl.unwrap_or(USUAL_TTL),
            may_fragment: false,
        })
    }

    fn peer(&self, family: Family) -> (IpAddr, u16) {
        match family {
            Family::V4 => {
                // SAFETY: every octet of the union was set, and every pattern is a sockaddr_in.
                let name = unsafe { self.name.v4 };
                (Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes()).into(), u16::from_be(name.sin_port))
            }
            Family::V6 => {
                // SAFETY: every octet of the union was set, and every pattern is a sockaddr_in6.
                let name = unsafe { self.name.v6 };
                (Ipv6Addr::from(name.sin6_addr.s6_addr).into(), u16::from_be(name.sin6_port))
            }
        }
    }
}

/// recvmmsg(2) into the free areas of `slots`, the last one first: it was used last, and is still in the cache. How many
/// messages came, zero if none waits.
pub(crate) fn receive<const N: usize>(
    socket: libc::c_int,
    slots: &mut [Buf],
    batch: &mut [ArrivedDatagram; N],
) -> io::Result<usize> {
    let mut parts = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; N];
    let slots_len = slots.len();
    // SAFETY: mmsghdr is plain old data; all zeroes is a valid value of it.
    let mut messages: [libc::mmsghdr; N] = unsafe { std::mem::zeroed() };
    for (((message, part), slot), arrived) in
        messages.iter_mut().zip(&mut parts).zip(slots.iter_mut().rev()).zip(&mut *batch)
    {
        let room = slot.spare_mut();
        *part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        let header = &mut message.msg_hdr;
        header.msg_name = ptr::from_mut(&mut arrived.name).cast();
        header.msg_namelen = size_of::<Name>() as libc::socklen_t;
        header.msg_iov = part;
        header.msg_iovlen = 1;
        header.msg_control = arrived.control.octets.as_mut_ptr().cast();
        header.msg_controllen = arrived.control.octets.len();
    }
    // The fewest of the three: no message without a slot.
    let wanted = N.min(slots_len);
    // SAFETY: each of the first `wanted` messages points to one iovec over a slot's own free area, to a name and to a control
    // area, all live and exclusively borrowed until the call returns, with their lengths.
    let count = check(unsafe {
        libc::recvmmsg(
            socket,
            messages.as_mut_ptr(),
            wanted as libc::c_uint,
            libc::MSG_DONTWAIT,
            ptr::null_mut(),
        )
    });
    let count = match count {
        Ok(count) => usize::try_from(count).unwrap_or(0).min(wanted),
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => 0,
        Err(e) => return Err(e),
    };
    for (message, arrived) in messages.iter().zip(batch).take(count) {
        arrived.len = message.msg_len as usize;
        arrived.flags = message.msg_hdr.msg_flags;
        arrived.control_len = message.msg_hdr.msg_controllen;
    }
    Ok(count)
}

/// Put the IP and UDP headers that a datagram travelled in back in front of it.
fn write_headers(
    buf: &mut Buf,
    info: &DatagramInfo,
    (src, src_port): (IpAddr, u16),
    dst_port: u16,
) -> Result<(), DropReason> {
    let repr = UdpRepr { src_port, dst_port, payload_len: buf.len() };
    udp::emit(push(buf, udp::HEADER_LEN)?, &repr)?;
    let (tos, ttl, payload_len) = (info.tos, info.ttl.unwrap_or(USUAL_TTL), buf.len());
    match (src, info.dst) {
        (IpAddr::V4(src), Some(IpAddr::V4(dst))) => {
            let repr = Ipv4Repr { src, dst, protocol: protocol::UDP, ttl, tos, id: 0, df: true, payload_len };
            ipv4::emit(push(buf, ipv4::HEADER_LEN)?, &repr)?;
        }
        (IpAddr::V6(src), Some(IpAddr::V6(dst))) => {
            let repr = Ipv6Repr {
                src,
                dst,
                next_header: protocol::UDP,
                hop_limit: ttl,
                traffic_class: tos,
                flow_label: 0,
                payload_len,
            };
            ipv6::emit(push(buf, ipv6::HEADER_LEN)?, &repr)?;
        }
        _ => return Err(DropReason::BadHeader),
    }
    Ok(())
}

fn push(buf: &mut Buf, len: usize) -> Result<&mut [u8], WireError> {
    buf.push_front(len).ok_or(WireError::NoRoom)
}
