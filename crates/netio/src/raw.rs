//! Outer packets without UDP: ESP and AH under IP protocol numbers of their own (raw(7)), and the ICMP errors that come back.
//!
//! The kernel has no segmentation for these protocols: it walks its stack once for each packet. But many go to it, and come
//! from it, with one system call. Like the UDP sockets these must be made in the exempt cgroup. The kernel puts IP fragments
//! together before a raw socket sees them. IPv6 gives its reader no extension headers, so AH over IPv6 arrives whole only
//! where the sender used none.

mod handle;
mod send;

pub use handle::RawHandle;
pub use send::RawSender;

use crate::error::{IoContext, Result};
use crate::sockopt;
use crate::udp::{ArrivedDatagram, Family, IPV6_FLOWINFO, Received, receive};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use wire::ipv6::{self, Ipv6Repr};
use wire::{Buf, Meta, Packet, Pool, Time, protocol, stage};

/// The octets that a received IPv6 packet gets in front of it, which is the headroom that its buffer must have.
pub const HEADROOM: usize = ipv6::HEADER_LEN;

/// The octets that the kernel may queue per socket.
const BUFFER: usize = 4 << 20;

/// Packets taken with one system call.
const BATCH: usize = 32;

/// ICMP errors taken with one system call: anybody may send them.
const ERRORS: usize = 16;

/// The kind of packets that arrive on one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ESP (RFC 4303), protocol 50.
    Esp,
    /// AH (RFC 4302), protocol 51.
    Ah,
    /// IPv4 in IP (RFC 2003, RFC 2473), protocol 4.
    Ipv4,
    /// IPv6 in IP (RFC 4213, RFC 2473), protocol 41.
    Ipv6,
    /// ICMP errors: destination unreachable, packet too big, time exceeded, parameter problem.
    Errors,
}

/// A raw socket that receives.
#[derive(Debug)]
pub struct RawReceiver {
    socket: Socket,
    family: Family,
    kind: Kind,
    protocol: u8,
    /// Packets of one call.
    batch: usize,
    /// Buffers that wait for packets.
    slots: Vec<Buf>,
    /// Packets that the kernel had no room for, as it last said.
    lost: u32,
}

impl RawReceiver {
    /// Open a socket (CAP_NET_RAW); `None` if the host has no such family.
    pub fn open(family: Family, kind: Kind) -> Result<Option<RawReceiver>> {
        let protocol = match (kind, family) {
            (Kind::Esp, _) => protocol::ESP,
            (Kind::Ah, _) => protocol::AH,
            (Kind::Ipv4, _) => protocol::IPV4,
            (Kind::Ipv6, _) => protocol::IPV6,
            (Kind::Errors, Family::V4) => protocol::ICMP,
            (Kind::Errors, Family::V6) => protocol::ICMPV6,
        };
        let batch = if kind == Kind::Errors { ERRORS } else { BATCH };
        let what = || format!("opening a raw socket for IP protocol {protocol} ({family:?})");
        match make(family, kind, protocol) {
            Err(e) if e.raw_os_error() == Some(libc::EAFNOSUPPORT) => Ok(None),
            socket => {
                let (socket, slots) = (socket.doing(what)?, Vec::with_capacity(batch));
                Ok(Some(RawReceiver { socket, family, kind, protocol, batch, slots, lost: 0 }))
            }
        }
    }

    /// The IP version of its packets.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The kind of its packets.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// A handle of the socket for somebody who does not receive.
    ///
    /// # Errors
    /// There is no descriptor to be had.
    pub fn handle(&self) -> Result<RawHandle> {
        let socket = self.socket.try_clone().doing(|| "copying the descriptor of a raw socket".into())?;
        Ok(RawHandle::new(socket, self.family))
    }

    /// Take waiting packets (never waits), as many as one call gives, and append them to `out`. The pool's buffers need
    /// [`HEADROOM`] in front.
    ///
    /// # Errors
    /// The kernel's.
    pub fn recv(
        &mut self,
        now: Time,
        pool: &mut Pool,
        out: &mut Vec<Packet<stage::Raw>>,
    ) -> io::Result<Received> {
        self.recv_most(self.batch, now, pool, out)
    }

    /// Take waiting packets as [`RawReceiver::recv`] does, at most so many.
    ///
    /// # Errors
    /// The kernel's.
    pub fn recv_most(
        &mut self,
        most: usize,
        now: Time,
        pool: &mut Pool,
        out: &mut Vec<Packet<stage::Raw>>,
    ) -> io::Result<Received> {
        let most = most.clamp(1, self.batch);
        while self.slots.len() < most {
            self.slots.push(pool.take());
        }
        let from = self.slots.len() - most;
        let slots = self.slots.get_mut(from..).unwrap_or_default();
        let mut batch = [const { ArrivedDatagram::NONE }; BATCH];
        let count = receive(self.socket.as_raw_fd(), slots, &mut batch)?;
        let mut answer = Received { datagrams: count, truncated: 0, more: count == most };
        let rest = self.slots.len() - count;
        for (mut buf, arrived) in self.slots.drain(rest..).rev().zip(&batch) {
            buf.set_len(arrived.len());
            self.lost = arrived.lost().unwrap_or(self.lost);
            let whole = match self.family {
                // The kernel gives the IPv4 header.
                Family::V4 => true,
                Family::V6 => write_header(&mut buf, arrived, self.protocol),
            };
            if arrived.is_cut() || !whole {
                answer.truncated += 1;
                pool.put(buf);
            } else {
                out.push(Packet::raw(buf, Meta { received: now, ..Meta::default() }));
            }
        }
        Ok(answer)
    }

    /// Packets that arrived when the socket's queue was full, since it was made, as the kernel last said.
    pub fn lost(&self) -> u64 {
        self.lost.into()
    }
}

impl AsFd for RawReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn make(family: Family, kind: Kind, number: u8) -> io::Result<Socket> {
    let domain = if family == Family::V4 { Domain::IPV4 } else { Domain::IPV6 };
    let socket =
        Socket::new(domain, Type::RAW.nonblocking().cloexec(), Some(Protocol::from(i32::from(number))))?;
    sockopt::set_int(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER as libc::c_int)?;
    sockopt::set_int(&socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)?;
    // The kernel would take any "packet too big" that quotes the socket's protocol for its own, and shrink the path of everybody.
    let (level, option, mode) = match family {
        Family::V4 => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_INTERFACE),
        Family::V6 => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_INTERFACE),
    };
    sockopt::set_int(&socket, level, option, mode)?;
    if family == Family::V6 {
        for option in [libc::IPV6_RECVPKTINFO, libc::IPV6_RECVTCLASS, libc::IPV6_RECVHOPLIMIT, IPV6_FLOWINFO]
        {
            sockopt::set_int(&socket, libc::IPPROTO_IPV6, option, 1)?;
        }
    }
    if kind == Kind::Errors {
        match family {
            // A set bit blocks its type. 3 unreachable, 11 time exceeded, 12 parameter problem (RFC 792).
            Family::V4 => {
                const ICMP_FILTER: libc::c_int = 1;
                let passes: u32 = 1 << 3 | 1 << 11 | 1 << 12;
                sockopt::set(&socket, libc::SOL_RAW, ICMP_FILTER, &!passes)?;
            }
            // Errors are the types below 128 (RFC 4443 section 2.1); 1 to 4 are those there are.
            Family::V6 => {
                const ICMPV6_FILTER: libc::c_int = 1;
                let mut blocked = [u32::MAX; 8];
                blocked[0] = !0b1_1110;
                sockopt::set(&socket, libc::SOL_ICMPV6, ICMPV6_FILTER, &blocked)?;
            }
        }
    }
    Ok(socket)
}

/// Put the IPv6 header in front that the packet travelled in, as far as the kernel tells.
fn write_header(buf: &mut Buf, arrived: &ArrivedDatagram, next_header: u8) -> bool {
    let payload_len = buf.len();
    let Some(header) = arrived.raw_header(Family::V6) else { return false };
    let (IpAddr::V6(src), IpAddr::V6(dst)) = (header.src, header.dst) else { return false };
    let repr = Ipv6Repr {
        src,
        dst,
        next_header,
        hop_limit: header.ttl,
        traffic_class: header.tos,
        flow_label: arrived.flow_label(),
        payload_len,
    };
    payload_len <= usize::from(u16::MAX)
        && buf.push_front(ipv6::HEADER_LEN).is_some()
        && ipv6::emit(buf.as_mut_slice(), &repr).is_ok()
}
