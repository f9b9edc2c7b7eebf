//! Outer packets without UDP: ESP and AH under IP protocol numbers of their own (raw(7)), and the ICMP errors that come back.
//!
//! The right way for interoperation, not the fast one: one system call a packet, no segmentation behind us. Like the UDP
//! sockets these must be made in the exempt cgroup. The kernel puts IP fragments together before a raw socket sees them. IPv6
//! gives its reader no extension headers, so AH over IPv6 arrives whole only where the sender used none.

use crate::error::{Doing, Result};
use crate::sockopt;
use crate::udp::{Arrived, Family, patiently, receive};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use wire::ip::Headers;
use wire::ipv4::Ipv4;
use wire::ipv6::{self, Ipv6Repr};
use wire::{Buf, DropReason, Meta, Packet, Pool, Time, fragment, protocol, stage};

/// Octets that a received packet of IPv6 gets in front: the headroom that its buffer must have.
pub const HEADROOM: usize = ipv6::HEADER_LEN;

/// Octets that the kernel may queue per socket.
const BUFFER: usize = 4 << 20;

/// What arrives on one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ESP (RFC 4303), protocol 50.
    Esp,
    /// AH (RFC 4302), protocol 51.
    Ah,
    /// ICMP errors: destination unreachable, packet too big, time exceeded, parameter problem.
    Errors,
}

/// One raw socket to receive from.
#[derive(Debug)]
pub struct RawReceiver {
    socket: Socket,
    family: Family,
    protocol: u8,
    /// The buffer that waits for a packet.
    slot: Vec<Buf>,
}

/// One answer of a raw socket.
#[derive(Debug)]
pub enum FromRaw {
    /// A whole IP packet.
    Packet(Packet<stage::Raw>),
    /// A packet that ends here, and why.
    Dropped(DropReason),
    /// There is none now.
    Empty,
}

impl RawReceiver {
    /// Open a socket (CAP_NET_RAW); `None` if the host has no such family.
    pub fn open(family: Family, kind: Kind) -> Result<Option<RawReceiver>> {
        let protocol = match (kind, family) {
            (Kind::Esp, _) => protocol::ESP,
            (Kind::Ah, _) => protocol::AH,
            (Kind::Errors, Family::V4) => protocol::ICMP,
            (Kind::Errors, Family::V6) => protocol::ICMPV6,
        };
        let what = || format!("opening a raw socket for IP protocol {protocol} ({family:?})");
        match make(family, kind, protocol) {
            Err(e) if e.raw_os_error() == Some(libc::EAFNOSUPPORT) => Ok(None),
            socket => {
                Ok(Some(RawReceiver { socket: socket.doing(what)?, family, protocol, slot: Vec::new() }))
            }
        }
    }

    /// Take the next packet (never waits) into a buffer of `pool`, which needs [`HEADROOM`] in front.
    pub fn recv(&mut self, now: Time, pool: &mut Pool) -> io::Result<FromRaw> {
        if self.slot.is_empty() {
            self.slot.push(pool.take());
        }
        let mut batch = [Arrived::NONE; 1];
        if receive(self.socket.as_raw_fd(), &mut self.slot, &mut batch)? == 0 {
            return Ok(FromRaw::Empty);
        }
        let (Some(mut buf), [arrived]) = (self.slot.pop(), batch) else { return Ok(FromRaw::Empty) };
        buf.set_len(arrived.len());
        let whole = match self.family {
            // The kernel gives the IPv4 header.
            Family::V4 => true,
            Family::V6 => write_header(&mut buf, &arrived, self.protocol),
        };
        if arrived.is_cut() || !whole {
            pool.put(buf);
            return Ok(FromRaw::Dropped(DropReason::Truncated));
        }
        Ok(FromRaw::Packet(Packet::raw(buf, Meta { received: now, ..Meta::default() })))
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
    if family == Family::V6 {
        for option in [libc::IPV6_RECVPKTINFO, libc::IPV6_RECVTCLASS, libc::IPV6_RECVHOPLIMIT] {
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
fn write_header(buf: &mut Buf, arrived: &Arrived, next_header: u8) -> bool {
    let payload_len = buf.len();
    let Some(header) = arrived.raw_header(Family::V6) else { return false };
    let (IpAddr::V6(src), IpAddr::V6(dst)) = (header.src, header.dst) else { return false };
    let repr = Ipv6Repr {
        src,
        dst,
        next_header,
        hop_limit: header.ttl,
        traffic_class: header.tos,
        flow_label: 0,
        payload_len,
    };
    payload_len <= usize::from(u16::MAX)
        && buf.push_front(ipv6::HEADER_LEN).is_some()
        && ipv6::emit(buf.as_mut_slice(), &repr).is_ok()
}

/// Sends whole outer packets of both families as they are.
#[derive(Debug)]
pub struct RawSender {
    v4: Socket,
    v6: Option<Socket>,
    /// Where pieces of a packet that may be fragmented are written.
    piece: Buf,
    /// Identification of the next IPv6 packet that is fragmented.
    next_id: u32,
}

impl RawSender {
    /// Open the sockets (CAP_NET_RAW). `first_id` is random (RFC 7739).
    pub fn open(first_id: u32) -> Result<RawSender> {
        let what = || "opening raw sockets".to_owned();
        let v6 = match sender(Domain::IPV6) {
            Err(e) if e.raw_os_error() == Some(libc::EAFNOSUPPORT) => None,
            socket => Some(socket.doing(what)?),
        };
        let piece = Buf::with_capacity(wire::ipv6::HEADER_LEN + usize::from(u16::MAX), 0);
        Ok(RawSender { v4: sender(Domain::IPV4).doing(what)?, v6, piece, next_id: first_id })
    }

    /// Send an outer packet. One that may be fragmented, and does not fit the device, leaves in fragments that fit
    /// `path_mtu`; for the others that is [`DropReason::TooBig`].
    pub fn send(
        &mut self,
        packet: &Packet<stage::Outer>,
        path_mtu: usize,
    ) -> std::result::Result<(), DropReason> {
        let bytes = packet.bytes();
        let headers = Headers::parse(bytes)?;
        let bytes = bytes.get(..headers.total_len).ok_or(DropReason::Truncated)?;
        if bytes.len() <= path_mtu || !packet.meta.may_fragment {
            return self.send_one(bytes, headers.dst);
        }
        let id = match headers.version {
            4 => Ipv4::new_checked(bytes)?.id().into(),
            _ => {
                self.next_id = self.next_id.wrapping_add(1);
                self.next_id
            }
        };
        let mut pieces = fragment::fragments(bytes, &headers, id, path_mtu)?;
        let mut piece = std::mem::replace(&mut self.piece, Buf::with_capacity(0, 0));
        let mut sent = Ok(());
        loop {
            piece.reset(0);
            match pieces.next_into(&mut piece) {
                None => break,
                Some(Ok(())) => sent = self.send_one(piece.as_slice(), headers.dst),
                Some(Err(error)) => sent = Err(error.into()),
            }
            if sent.is_err() {
                break;
            }
        }
        self.piece = piece;
        sent
    }

    fn send_one(&self, bytes: &[u8], dst: IpAddr) -> std::result::Result<(), DropReason> {
        let socket = if dst.is_ipv4() { &self.v4 } else { self.v6.as_ref().ok_or(DropReason::Unroutable)? };
        let to = SockAddr::from(SocketAddr::new(dst, 0));
        patiently(socket, || socket.send_to_with_flags(bytes, &to, libc::MSG_NOSIGNAL))
    }
}

fn sender(domain: Domain) -> io::Result<Socket> {
    let raw = Protocol::from(libc::IPPROTO_RAW);
    let socket = Socket::new(domain, Type::RAW.nonblocking().cloexec(), Some(raw))?;
    sockopt::set_int(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, BUFFER as libc::c_int)?;
    // A raw socket of IPPROTO_RAW writes its own header in both families. What an inner "packet too big" taught the route is
    // not for outer packets, which would be cut or dropped by it.
    let (level, option, probe) = match domain == Domain::IPV4 {
        true => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE),
        false => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE),
    };
    sockopt::set_int(&socket, level, option, probe)?;
    Ok(socket)
}
