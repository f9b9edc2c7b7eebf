//! Whole IP packets that policy lets leave in clear (bypass, or *optional* without an association), by raw sockets
//! (raw(7)). Like the UDP sockets they must be made in the exempt cgroup, or the uplink's program hands each packet straight back.
//!
//! A packet leaves with the header it has (IP_HDRINCL), which the kernel never fragments. One that does not fit the device
//! and may be fragmented was put together from fragments by the engine; its upper layer is given to a socket of
//! that protocol, so that the kernel writes the IP header and cuts it again.

use crate::error::{IoContext, Result};
use crate::sockopt;
use crate::udp::{Outgoing, send_whole};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use wire::ip::Headers;
use wire::{DropReason, protocol};

/// Sends whole IP packets of both families. The kernel fills in an IPv4 header checksum and routes by destination.
#[derive(Debug)]
pub struct ClearSender {
    v4: Family,
    v6: Option<Family>,
}

#[derive(Debug)]
struct Family {
    whole: Socket,
    /// Sockets for the protocols whose senders let the network fragment, each with its protocol number. TCP is not
    /// among them.
    fragmenting: [(u8, Socket); 2],
}

impl ClearSender {
    /// Open the sockets (CAP_NET_RAW).
    pub fn open() -> Result<ClearSender> {
        let what = || "opening raw sockets".to_owned();
        let v6 = match Family::v6() {
            Err(e) if e.raw_os_error() == Some(libc::EAFNOSUPPORT) => None,
            family => Some(family.doing(what)?),
        };
        Ok(ClearSender { v4: Family::v4().doing(what)?, v6 })
    }

    /// Send `packet`, a whole IP packet, with this mark (zero: none); octets behind its end do not travel.
    pub fn send(&self, packet: &[u8], mark: u32) -> std::result::Result<(), DropReason> {
        let headers = Headers::parse(packet)?;
        let bytes = packet.get(..headers.total_len).ok_or(DropReason::Truncated)?;
        let family =
            if headers.dst.is_ipv4() { &self.v4 } else { self.v6.as_ref().ok_or(DropReason::Unroutable)? };
        let to = SockAddr::from(SocketAddr::new(headers.dst, 0));
        let whole = &family.whole;
        match send_whole(whole, &to, bytes, mark, None) {
            Err(DropReason::TooBig) => family.send_in_fragments(bytes, &headers, mark),
            answer => answer,
        }
    }
}

impl Family {
    fn v4() -> io::Result<Family> {
        // 192.0.0.8, the dummy address of RFC 7600 section 4.8.
        let nowhere = SocketAddr::from((Ipv4Addr::new(192, 0, 0, 8), 0));
        let fragmenting = |number| -> io::Result<(u8, Socket)> {
            let socket = open(Domain::IPV4, number)?;
            sockopt::set_int(&socket, libc::IPPROTO_IP, libc::IP_FREEBIND, 1)?;
            sockopt::set_int(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_OMIT)?;
            socket.bind(&nowhere.into())?;
            Ok((number, socket))
        };
        Ok(Family {
            whole: open(Domain::IPV4, RAW)?,
            fragmenting: [fragmenting(protocol::UDP)?, fragmenting(protocol::ICMP)?],
        })
    }

    fn v6() -> io::Result<Family> {
        // In 100::/64, the discard-only prefix of RFC 6666.
        let nowhere = SocketAddr::from((Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1), 0));
        let fragmenting = |number| -> io::Result<(u8, Socket)> {
            let socket = open(Domain::IPV6, number)?;
            sockopt::set_int(&socket, libc::IPPROTO_IPV6, libc::IPV6_FREEBIND, 1)?;
            sockopt::set_int(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DONT)?;
            socket.bind(&nowhere.into())?;
            Ok((number, socket))
        };
        Ok(Family {
            whole: open(Domain::IPV6, RAW)?,
            fragmenting: [fragmenting(protocol::UDP)?, fragmenting(protocol::ICMPV6)?],
        })
    }

    /// Send a packet that is longer than the device's MTU, which the kernel cuts into fragments. An IPv6 packet does
    /// not say whether it may be fragmented; one that is too long arrived in fragments.
    fn send_in_fragments(
        &self,
        packet: &[u8],
        headers: &Headers,
        mark: u32,
    ) -> std::result::Result<(), DropReason> {
        if headers.has_options || (headers.version == 4 && headers.dont_fragment) {
            return Err(DropReason::TooBig);
        }
        let socket = self.fragmenting.iter().find(|(number, _)| *number == headers.protocol);
        let (_, socket) = socket.ok_or(DropReason::TooBig)?;
        Outgoing { headers, port: 0, mark, priority: None, payload: headers.upper(packet) }.send(socket)
    }
}

/// IPPROTO_RAW: the IP header is ours, in both families, and nothing is ever received.
const RAW: u8 = 255;

/// A socket of any other number would also receive; those are bound to an address that is nowhere.
fn open(domain: Domain, number: u8) -> io::Result<Socket> {
    let kind = Type::RAW.nonblocking().cloexec();
    let socket = Socket::new(domain, kind, Some(Protocol::from(libc::c_int::from(number))))?;
    socket.set_send_buffer_size(4 << 20)?;
    Ok(socket)
}
