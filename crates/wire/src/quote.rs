//! ICMP errors from the unprotected side, and what they quote of a packet with ESP or AH in it (RFC 792, RFC 4443 section 3).
//!
//! Enters a whole IP packet that anybody may have sent. Leaves what it claims: nothing of it is proved, and the quotation may
//! be cut short behind any octet.

use crate::field::{array, be16, be32, octet, put16, put32, range, tail};
use crate::icmp::{HEADER_LEN, Icmpv4, Icmpv6};
use crate::ip::{self, Headers};
use crate::tcp::Tcp;
use crate::{DropReason, checksum, esp, ipv4, ipv6, protocol, udp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Extension headers of a quoted packet that are passed over.
const MAX_EXTENSIONS: usize = 8;
/// Octets of the longest TCP header (RFC 9293 section 3.1).
const MOST_TCP_HEADER: usize = 60;
/// Octets of AH up to the end of its sequence number.
const AH_NAMED: usize = 12;

/// An ICMP error, as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// Who says that it sent the error.
    pub from: IpAddr,
    /// 4 (ICMP) or 6 (ICMPv6).
    pub version: u8,
    /// The type.
    pub kind: u8,
    /// The code.
    pub code: u8,
    /// The MTU field of "fragmentation needed" or "packet too big"; zero: a router from before RFC 1191.
    pub mtu: Option<u32>,
    /// What it quotes.
    pub quote: Quote,
}

/// The packet that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    /// Its sender.
    pub src: IpAddr,
    /// Its receiver.
    pub dst: IpAddr,
    /// Octets it had, as its own header says.
    pub total_len: usize,
    /// ESP, AH or UDP; any other protocol, for packets that are nobody's here.
    pub protocol: u8,
    /// The UDP ports, source first, if they are quoted.
    pub ports: Option<(u16, u16)>,
    /// SPI and the low half of the sequence number, if they are quoted.
    pub name: Option<(u32, u32)>,
}

impl IcmpError {
    /// Read an error out of a whole packet of ICMP or ICMPv6.
    ///
    /// # Errors
    /// What the IP header is refused for; [`DropReason::BadChecksum`]; [`DropReason::Truncated`] if no IP header of the same
    /// version is quoted; [`DropReason::IcmpRefused`] for anything but an error.
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
    /// Its sender.
    pub src: IpAddr,
    /// Its receiver.
    pub dst: IpAddr,
    /// Octets it had, as its own header says.
    pub total_len: usize,
    /// Octets of its headers up to the upper layer.
    pub header_len: usize,
    /// The upper layer's protocol.
    pub protocol: u8,
    /// Source and destination port of TCP, UDP and SCTP.
    pub ports: Option<(u16, u16)>,
    /// The sequence number of TCP.
    pub seq: Option<u32>,
    /// Type and identifier of ICMP.
    pub echo: Option<(u8, u16)>,
}

impl Quoted {
    /// Read what an error quotes. `None` unless there is a whole IP header of this version. A later fragment has no upper layer.
    pub fn read(version: u8, quoted: &[u8]) -> Option<Quoted> {
        let Front { src, dst, total_len, header_len, protocol, upper } = Front::read(version, quoted)?;
        let with_ports = matches!(protocol, protocol::TCP | protocol::UDP | protocol::SCTP);
        let is_icmp = protocol == if version == 4 { protocol::ICMP } else { protocol::ICMPV6 };
        let ports = (with_ports && upper.len() >= 4).then(|| (be16(upper, 0), be16(upper, 2)));
        let seq = (protocol == protocol::TCP && upper.len() >= 8).then(|| be32(upper, 4));
        let echo = (is_icmp && upper.len() >= 8).then(|| (octet(upper, 0), be16(upper, 4)));
        Some(Quoted { src, dst, total_len, header_len, protocol, ports, seq, echo })
    }

    /// Add to the sequence number of a TCP segment that `quoted` begins with, to its acknowledgment and to its SACK blocks (RFC 2018), as
    /// far as they are quoted, and keep its checksum right (RFC 1624). Whether anything changed.
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

/// A quoted packet in its parts.
struct Front<'a> {
    src: IpAddr,
    dst: IpAddr,
    total_len: usize,
    header_len: usize,
    protocol: u8,
    /// Nothing of a later fragment.
    upper: &'a [u8],
}

impl<'a> Front<'a> {
    /// `None` unless there is a whole IP header of this version.
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
        let protocol = octet(quoted, 9);
        Some(Front { src: address(12), dst: address(16), total_len, header_len, protocol, upper })
    }

    fn read_v6(quoted: &'a [u8]) -> Option<Front<'a>> {
        if quoted.len() < ipv6::HEADER_LEN {
            return None;
        }
        let address = |at| IpAddr::V6(Ipv6Addr::from(array::<16>(quoted, at)));
        let total_len = ipv6::HEADER_LEN + usize::from(be16(quoted, 4));
        let (mut number, mut at, mut first) = (octet(quoted, 6), ipv6::HEADER_LEN, true);
        for _ in 0..MAX_EXTENSIONS {
            let len = match number {
                protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION => {
                    8 + 8 * usize::from(octet(quoted, at + 1))
                }
                protocol::FRAGMENT => {
                    first &= be16(quoted, at + 2) & 0xfff8 == 0;
                    8
                }
                _ => break,
            };
            (number, at) = (octet(quoted, at), at + len);
        }
        // An offset behind the quotation leaves nothing.
        let upper = if first { tail(quoted, at) } else { &[] };
        Some(Front { src: address(8), dst: address(24), total_len, header_len: at, protocol: number, upper })
    }
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
