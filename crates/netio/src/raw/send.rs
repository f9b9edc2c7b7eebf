//! From whole outer packets to the kernel, many with one sendmmsg(2).

use super::BUFFER;
use crate::error::{IoContext, Result};
use crate::sockopt;
use crate::udp::{PriorityMessage, patiently, send_many, send_whole};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use wire::ip::Headers;
use wire::ipv4::Ipv4;
use wire::{Buf, DropReason, Packet, Pool, fragment, stage};

/// Packets given to the kernel with one system call.
const BATCH: usize = 64;

/// The kernel's answer for one packet.
type Answer = std::result::Result<(), DropReason>;

/// Sends whole outer packets of both families as they are. Those of one family leave in the order in which they were given.
#[derive(Debug)]
pub struct RawSender {
    v4: Lane,
    v6: Option<Lane>,
    /// The buffer in which pieces of a packet that may be fragmented are written.
    piece: Buf,
    /// Identification of the next IPv6 packet that is fragmented.
    next_id: u32,
}

/// The socket of a family and the packets that wait for the call.
#[derive(Debug)]
struct Lane {
    socket: Socket,
    waiting: Vec<Waiting>,
}

/// A packet that waits for the call.
#[derive(Debug)]
struct Waiting {
    packet: Packet<stage::Outer>,
    dst: IpAddr,
    priority: Option<PriorityMessage>,
}

impl RawSender {
    /// Open the sockets (CAP_NET_RAW). `first_id` is random (RFC 7739).
    ///
    /// # Errors
    /// If the kernel does not let us.
    pub fn open(first_id: u32) -> Result<RawSender> {
        let what = || "opening raw sockets".to_owned();
        let lane = |socket| Lane { socket, waiting: Vec::with_capacity(BATCH) };
        let v6 = match socket(Domain::IPV6) {
            Err(e) if e.raw_os_error() == Some(libc::EAFNOSUPPORT) => None,
            socket => Some(lane(socket.doing(what)?)),
        };
        let piece = Buf::with_capacity(wire::ipv6::HEADER_LEN + usize::from(u16::MAX), 0);
        Ok(RawSender { v4: lane(socket(Domain::IPV4).doing(what)?), v6, piece, next_id: first_id })
    }

    /// Take an outer packet, to leave with the next call: [`RawSender::flush`], or when there are enough. One that may be
    /// fragmented, and does not fit the device, leaves in fragments that fit `path_mtu`; for the others that is
    /// [`DropReason::TooBig`]. `priority` is that of the packet for the queueing disciplines of its device; `None` is the
    /// kernel's choice. `answered` hears of each packet, with its destination and SPI, whether the kernel took it; buffers
    /// go to `pool`.
    pub fn send(
        &mut self,
        mut packet: Packet<stage::Outer>,
        path_mtu: usize,
        priority: Option<u32>,
        pool: &mut Pool,
        answered: &mut impl FnMut(IpAddr, u32, Answer),
    ) {
        let headers = match Headers::parse(packet.bytes()) {
            Ok(headers) => headers,
            Err(error) => {
                answered(Ipv4Addr::UNSPECIFIED.into(), packet.meta.spi, Err(error.into()));
                return pool.put(packet.into_buf());
            }
        };
        packet.buf_mut().truncate(headers.total_len);
        let lane = if headers.dst.is_ipv4() { Some(&mut self.v4) } else { self.v6.as_mut() };
        let Some(lane) = lane else {
            answered(headers.dst, packet.meta.spi, Err(DropReason::Unroutable));
            return pool.put(packet.into_buf());
        };
        if packet.meta.may_fragment && packet.bytes().len() > path_mtu {
            lane.flush(pool, answered);
            let sent = self.send_pieces(packet.bytes(), &headers, path_mtu, priority);
            answered(headers.dst, packet.meta.spi, sent);
            return pool.put(packet.into_buf());
        }
        lane.waiting.push(Waiting { packet, dst: headers.dst, priority: priority.map(PriorityMessage::new) });
        if lane.waiting.len() >= BATCH {
            lane.flush(pool, answered);
        }
    }

    /// Send the packets that wait, and give their buffers to `pool`.
    #[inline]
    pub fn flush(&mut self, pool: &mut Pool, answered: &mut impl FnMut(IpAddr, u32, Answer)) {
        for lane in std::iter::once(&mut self.v4).chain(&mut self.v6) {
            lane.flush(pool, answered);
        }
    }

    #[cold]
    fn send_pieces(
        &mut self,
        bytes: &[u8],
        headers: &Headers,
        path_mtu: usize,
        priority: Option<u32>,
    ) -> std::result::Result<(), DropReason> {
        let (socket, id) = match (headers.version, &self.v6) {
            (4, _) => (&self.v4.socket, Ipv4::new_checked(bytes)?.id().into()),
            (_, Some(lane)) => {
                self.next_id = self.next_id.wrapping_add(1);
                (&lane.socket, self.next_id)
            }
            (_, None) => return Err(DropReason::Unroutable),
        };
        let to = SockAddr::from(SocketAddr::new(headers.dst, 0));
        let mut pieces = fragment::fragments(bytes, headers, id, path_mtu)?;
        let piece = &mut self.piece;
        loop {
            piece.reset(0);
            match pieces.next_into(piece) {
                None => return Ok(()),
                Some(made) => made?,
            }
            send_whole(socket, &to, piece.as_slice(), 0, priority)?;
        }
    }
}

impl Lane {
    /// Send all queued packets with one call, and with one more call behind each packet that the kernel refuses. If a
    /// queue stays full, all packets that are left are refused.
    #[inline]
    fn flush(&mut self, pool: &mut Pool, answered: &mut impl FnMut(IpAddr, u32, Answer)) {
        if self.waiting.is_empty() {
            return;
        }
        self.transmit(answered);
        self.waiting.drain(..).for_each(|waiting| pool.put(waiting.packet.into_buf()));
    }

    fn transmit(&self, answered: &mut impl FnMut(IpAddr, u32, Answer)) {
        let mut names = [const { Name::NONE }; BATCH];
        let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
        // SAFETY: mmsghdr is plain old data; all zeroes is a valid value of it.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        let places = messages.iter_mut().zip(&mut parts).zip(&mut names);
        for (waiting, ((message, part), name)) in self.waiting.iter().zip(places) {
            let bytes = waiting.packet.bytes();
            *part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            let header = &mut message.msg_hdr;
            header.msg_namelen = name.set(waiting.dst);
            header.msg_name = std::ptr::from_mut(name).cast();
            header.msg_iov = part;
            header.msg_iovlen = 1;
            if let Some(priority) = &waiting.priority {
                (header.msg_control, header.msg_controllen) = priority.control();
            }
        }
        let count = self.waiting.len().min(BATCH);
        let mut done = 0;
        while done < count {
            let rest = messages.get_mut(done..count).unwrap_or_default();
            let mut taken = 0;
            let mut full = false;
            let sent = patiently(&self.socket, || {
                let sent = send_many(&self.socket, rest);
                full = sent.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock);
                sent.inspect(|n| taken = *n)
            });
            let mut those =
                self.waiting.iter().skip(done).map(|waiting| (waiting.dst, waiting.packet.meta.spi));
            those.by_ref().take(taken).for_each(|(dst, spi)| answered(dst, spi, Ok(())));
            done += taken;
            match sent {
                Ok(()) => {}
                Err(reason) if full => {
                    those.for_each(|(dst, spi)| answered(dst, spi, Err(reason)));
                    return;
                }
                Err(reason) => {
                    those.take(1).for_each(|(dst, spi)| answered(dst, spi, Err(reason)));
                    done += 1;
                }
            }
        }
    }
}

/// The peer's address as the kernel reads it.
#[derive(Clone, Copy)]
#[repr(C)]
union Name {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl Name {
    const NONE: Name = Name {
        // The longer member: every octet of the union is set.
        v6: libc::sockaddr_in6 {
            sin6_family: 0,
            sin6_port: 0,
            sin6_flowinfo: 0,
            sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
            sin6_scope_id: 0,
        },
    };

    /// Write this address, without a port; its length.
    fn set(&mut self, dst: IpAddr) -> libc::socklen_t {
        match dst {
            IpAddr::V4(v4) => {
                self.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: 0,
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.octets()) },
                    sin_zero: [0; 8],
                };
                size_of::<libc::sockaddr_in>() as libc::socklen_t
            }
            IpAddr::V6(v6) => {
                self.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: 0,
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr { s6_addr: v6.octets() },
                    sin6_scope_id: 0,
                };
                size_of::<libc::sockaddr_in6>() as libc::socklen_t
            }
        }
    }
}

fn socket(domain: Domain) -> io::Result<Socket> {
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
