//! ICMP errors from the unprotected side, and the packets with ESP or AH that they quote (RFC 792, RFC 4443 section 3).
//!
//! A whole IP packet enters that anybody may have sent. Its claims leave: none of them is proved, and the quotation may
//! be cut short behind any octet.

use crate::field::{array, be16, be32, octet, put16, put32, range, tail};
use crate::icmp::{HEADER_LEN, Icmpv4, Icmpv6};
use crate::ip::{self, Headers};
use crate::tcp::Tcp;
use crate::{DropReason, Flow, WireError, checksum, esp, ipv4, ipv6, options, protocol, udp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Octets of the longest TCP header (RFC 9293 section 3.1).
const MOST_TCP_HEADER: usize = 60;
/// Octets of AH up to the end of its sequence number.
const AH_NAMED: usize = 12;

/// An ICMP error as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// The source address of the error, unproved.
    pub from: IpAddr,
    /// The version of ICMP: 4 (ICMP) or 6 (ICMPv6).
    pub version: u8,
    /// The ICMP type of the error.
    pub kind: u8,
    /// The ICMP code of the error.
    pub code: u8,
    /// The MTU field of "fragmentation needed" or "packet too big". Zero comes from a router older than RFC 1191.
    pub mtu: Option<u32>,
    /// The packet that the error quotes.
    pub quote: Quote,
}

/// The IPsec-related parts of the packet that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    /// The source address of the quoted packet.
    pub src: IpAddr,
    /// The destination address of the quoted packet.
    pub dst: IpAddr,
    /// Octets of the quoted packet, as its own header says.
    pub total_len: usize,
    /// The protocol: ESP, AH or UDP. Any other protocol is that of a packet that does not belong to us.
    pub protocol: u8,
    /// The UDP ports, source first, if they are quoted.
    pub ports: Option<(u16, u16)>,
    /// The SPI and the low half of the sequence number, if they are quoted.
    pub name: Option<(u32, u32)>,
}

impl IcmpError {
    /// Reads an error out of a whole packet of ICMP or ICMPv6.
    ///
    /// # Errors
    /// The reason for which the IP header is refused; [`DropReason::BadChecksum`]; [`DropReason::Truncated`] if no IP
    /// header of the same version is quoted; [`DropReason::IcmpRefused`] for anything but an error.
    pub fn parse(bytes: &[u8]) -> Result<IcmpError, DropReason> {
        let headers = Headers::parse(bytes)?;
        if !ip::is_icmp(&headers) || headers.fragment.is_some() {
            return Err(DropReason::IcmpRefused);
        }
        let message = headers.upper(bytes);
        // A raw socket of IPv4 is given messages before the kernel has looked at their checksum.
        if checksum::verify_transport(bytes, &headers) != Some(true) {
            return Err(DropReason::BadChecksum);
        }
        let (kind, code, mtu) = if headers.version == 4 {
            let view = Icmpv4::new_checked(message)?;
            let is_error = matches!(view.kind(), 3 | 11 | 12);
            (is_error.then_some(view.kind()), view.code(), view.mtu())
        } else {
            let view = Icmpv6::new_checked(message)?;
            (matches!(view.kind(), 1..=4).then_some(view.kind()), view.code(), view.mtu())
        };
        let kind = kind.ok_or(DropReason::IcmpRefused)?;
        let quote = Quote::read(headers.version, tail(message, HEADER_LEN)).ok_or(DropReason::Truncated)?;
        let mtu = mtu.map(|mtu| u32::try_from(mtu).unwrap_or(u32::MAX));
        Ok(IcmpError { from: headers.src, version: headers.version, kind, code, mtu, quote })
    }
}

/// The packet that an error is about, of any protocol, as far as it is quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// The source address of the quoted packet.
    pub src: IpAddr,
    /// The destination address in the quoted header.
    pub dst: IpAddr,
    /// Octets of the quoted packet, as its own header says.
    pub total_len: usize,
    /// Octets of the headers in front of the upper layer.
    pub header_len: usize,
    /// The protocol of the upper layer.
    pub protocol: u8,
    /// The source and destination port of TCP, UDP and SCTP.
    pub ports: Option<(u16, u16)>,
    /// The sequence number of a TCP segment.
    pub seq: Option<u32>,
    /// The type and identifier of an ICMP message.
    pub echo: Option<(u8, u16)>,
    /// The last destination: `dst`, unless a source route had stops left.
    pub last: IpAddr,
    /// Whether there were stops between `dst` and `last`.
    pub has_stops: bool,
    /// The values for the ports of the packet's [`Flow`].
    selected: Option<(u16, u16)>,
    /// Whether the headers could be read up to the upper layer.
    is_whole: bool,
}

impl Quoted {
    /// Reads what an error quotes. `None` unless there is a whole IP header of this version. A later fragment has no
    /// upper layer.
    pub fn read(version: u8, quoted: &[u8]) -> Option<Quoted> {
        let front = Front::read(version, quoted)?;
        let Front { src, dst, total_len, header_len, protocol, upper, route, is_whole } = front;
        let with_ports = matches!(protocol, protocol::TCP | protocol::UDP | protocol::SCTP);
        let is_icmp = protocol == if version == 4 { protocol::ICMP } else { protocol::ICMPV6 };
        let ports = (with_ports && upper.len() >= 4).then(|| (be16(upper, 0), be16(upper, 2)));
        let seq = (protocol == protocol::TCP && upper.len() >= 8).then(|| be32(upper, 4));
        let echo = (is_icmp && upper.len() >= 8).then(|| (octet(upper, 0), be16(upper, 4)));
        let (last, has_stops) = route.unwrap_or((dst, false));
        let selected = ip::ports_or_kind(version, protocol, upper);
        let is_whole = is_whole && route.is_ok();
        Some(Quoted {
            src,
            dst,
            total_len,
            header_len,
            protocol,
            ports,
            seq,
            echo,
            last,
            has_stops,
            selected,
            is_whole,
        })
    }

    /// The flow of the quoted packet, as its sender sees it. `None` if its headers cannot be read up to the upper
    /// layer, so that nobody can tell whose packet it is. It is [opaque](Flow::opaque) if its ports, or its type, are
    /// not quoted.
    pub fn flow(&self) -> Option<Flow> {
        let (local_port, remote_port) = self.selected.unwrap_or_default();
        let has_any = protocol::has_ports(self.protocol) || protocol::has_type(self.protocol);
        self.is_whole.then_some(Flow {
            local: self.src,
            remote: self.last,
            local_port,
            remote_port,
            protocol: self.protocol,
            opaque: has_any && self.selected.is_none(),
        })
    }

    /// Adds to the sequence number, the acknowledgment number and the SACK blocks (RFC 2018) of the TCP segment that
    /// `quoted` holds, as far as they are quoted, and keeps its checksum right (RFC 1624). Whether anything changed.
    pub fn renumber(&self, quoted: &mut [u8], seq: u32, ack: u32) -> bool {
        let Some(upper) = quoted.get_mut(self.header_len..).filter(|_| self.protocol == protocol::TCP) else {
            return false;
        };
        // Where the flags are not quoted a segment that acknowledges is one that has a number there.
        let acknowledges = match upper.get(13) {
            Some(flags) => flags & 0x10 != 0,
            None => upper.len() >= 12 && be32(upper, 8) != 0,
        };
        let (seq, ack) = (if upper.len() >= 8 { seq } else { 0 }, if acknowledges { ack } else { 0 });
        if (seq, ack) == (0, 0) {
            return false;
        }
        let sum_of =
            |upper: &[u8]| checksum::fold(checksum::sum(range(upper, 0, upper.len().min(MOST_TCP_HEADER))));
        let before = sum_of(upper);
        put32(upper, 4, be32(upper, 4).wrapping_add(seq));
        if ack != 0 {
            put32(upper, 8, be32(upper, 8).wrapping_add(ack));
            if let Ok(mut view) = Tcp::new_checked(&mut *upper) {
                view.shift_sack(ack);
            }
        }
        if upper.len() >= 18 {
            let change = u32::from(!before) + u32::from(sum_of(upper));
            put16(upper, 16, !checksum::fold(u32::from(!be16(upper, 16)) + change));
        }
        true
    }
}

/// The parts of a quoted packet.
struct Front<'a> {
    src: IpAddr,
    dst: IpAddr,
    total_len: usize,
    header_len: usize,
    protocol: u8,
    /// The octets of the upper layer; none for a later fragment.
    upper: &'a [u8],
    /// The last destination, and whether there were stops on the way there; an error if the source route contradicts
    /// itself.
    route: Result<(IpAddr, bool), WireError>,
    /// Whether the headers could be read to their end, which `protocol` then names.
    is_whole: bool,
}

impl<'a> Front<'a> {
    /// Reads a quoted packet. `None` unless there is a whole IP header of this version.
    fn read(version: u8, quoted: &'a [u8]) -> Option<Front<'a>> {
        if octet(quoted, 0) >> 4 != version {
            return None;
        }
        if version == 4 { Front::read_v4(quoted) } else { Front::read_v6(quoted) }
    }

    fn read_v4(quoted: &'a [u8]) -> Option<Front<'a>> {
        let header_len = usize::from(octet(quoted, 0) & 15) * 4;
        if header_len < ipv4::HEADER_LEN || quoted.len() < header_len {
            return None;
        }
        let address = |at| IpAddr::V4(Ipv4Addr::from(array::<4>(quoted, at)));
        let first = be16(quoted, 6) & 0x1fff == 0;
        let upper = if first { tail(quoted, header_len) } else { &[] };
        let total_len = usize::from(be16(quoted, 2));
        let (src, dst, protocol) = (address(12), address(16), octet(quoted, 9));
        let header = range(quoted, 0, header_len);
        let route = options::final_destination(header)
            .map(|last| (IpAddr::V4(last), !options::stops_between(header).is_empty()));
        Some(Front { src, dst, total_len, header_len, protocol, upper, route, is_whole: true })
    }

    /// Reads a quoted IPv6 packet by the rules of [`ipv6::walk`], but it may end anywhere.
    fn read_v6(quoted: &'a [u8]) -> Option<Front<'a>> {
        if quoted.len() < ipv6::HEADER_LEN {
            return None;
        }
        let address = |at| IpAddr::V6(Ipv6Addr::from(array::<16>(quoted, at)));
        let total_len = ipv6::HEADER_LEN + usize::from(be16(quoted, 4));
        let (src, dst) = (address(8), address(24));
        let mut front = Front {
            src,
            dst,
            total_len,
            header_len: ipv6::HEADER_LEN,
            protocol: octet(quoted, 6),
            upper: &[],
            route: Ok((dst, false)),
            is_whole: true,
        };
        let (mut later, mut fragments, mut seen) = (false, 0, 0);
        while is_extension(front.protocol) && !later {
            let (number, at) = (front.protocol, front.header_len);
            let fragment = number == protocol::FRAGMENT;
            let len = if fragment { ipv6::FRAGMENT_LEN } else { 8 + 8 * usize::from(octet(quoted, at + 1)) };
            let misplaced = number == protocol::HOP_BY_HOP && seen > 0;
            (seen, fragments) = (seen + 1, fragments + usize::from(fragment));
            if seen > ipv6::MAX_EXTENSIONS || fragments > 1 || misplaced || quoted.len() < at + len {
                front.is_whole = false;
                break;
            }
            let header = range(quoted, at, at + len);
            later = fragment && be16(header, 2) & 0xfff8 != 0;
            if number == protocol::ROUTING && octet(header, 3) != 0 {
                front.route =
                    ip::end_of_route(header).map(|last| (last.map_or(dst, IpAddr::V6), octet(header, 3) > 1));
            }
            (front.protocol, front.header_len) = (octet(header, 0), at + len);
        }
        if later {
            // What follows is inside the packet, not its headers.
            front.is_whole &= !is_extension(front.protocol);
        } else if front.is_whole {
            front.upper = tail(quoted, front.header_len);
        }
        Some(front)
    }
}

/// Whether the number is that of an IPv6 header that is passed over.
fn is_extension(number: u8) -> bool {
    let passed = [protocol::HOP_BY_HOP, protocol::ROUTING, protocol::DESTINATION, protocol::FRAGMENT];
    passed.contains(&number)
}

impl Quote {
    fn read(version: u8, quoted: &[u8]) -> Option<Quote> {
        let Front { src, dst, total_len, protocol, upper, .. } = Front::read(version, quoted)?;
        Some(Quote::of(src, dst, total_len, protocol, upper))
    }

    fn of(src: IpAddr, dst: IpAddr, total_len: usize, number: u8, upper: &[u8]) -> Quote {
        let (ports, name) = match number {
            protocol::UDP => {
                let ports = (upper.len() >= 4).then(|| (be16(upper, 0), be16(upper, 2)));
                // Four zero octets are not an SPI: IKE.
                let inside = tail(upper, udp::HEADER_LEN);
                let is_esp = esp::classify(inside) == esp::UdpPayload::Esp;
                (ports, is_esp.then(|| (be32(inside, 0), be32(inside, 4))))
            }
            protocol::ESP => {
                (None, (upper.len() >= esp::HEADER_LEN).then(|| (be32(upper, 0), be32(upper, 4))))
            }
            protocol::AH => {
                let fixed = range(upper, 0, AH_NAMED);
                (None, (fixed.len() == AH_NAMED).then(|| (be32(fixed, 4), be32(fixed, 8))))
            }
            _ => (None, None),
        };
        Quote { src, dst, total_len, protocol: number, ports, name }
    }
}
