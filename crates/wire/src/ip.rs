//! A summary of a whole IP packet of either version: where its parts are, and who talks to whom.

use crate::field::{array, be16, octet, put_octet, range, tail};
use crate::ipv4::{self, Ipv4};
use crate::ipv6::{self, Ipv6};
use crate::tcp::Tcp;
use crate::{Evidence, Flow, WireError, icmp, options, protocol, sctp, stage, udp};
use std::net::{IpAddr, Ipv6Addr};

/// The fragment fields of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The identification (16 bits in IPv4).
    pub id: u32,
    /// The offset of this fragment's payload in the datagram, in octets.
    pub offset: usize,
    /// Whether more fragments follow.
    pub more: bool,
    /// Octets in front of the fragment header (IPv6), or of the IPv4 header.
    pub unfragmentable_len: usize,
    /// The protocol that the fragmentable part starts with, as this fragment says.
    pub next_header: u8,
}

/// A summary of one packet's headers, to decide by. It is never written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// The IP version, 4 or 6.
    pub version: u8,
    /// Octets in front of the upper layer, options and extension headers included.
    pub header_len: usize,
    /// Octets of the packet; the bytes may go on behind it.
    pub total_len: usize,
    /// The source address of the packet.
    pub src: IpAddr,
    /// The destination address in the header. With a routing header it is not the last one ([`final_destination`]).
    pub dst: IpAddr,
    /// The protocol of the upper layer. In an IPv6 fragment that is not the first, it is whatever starts the
    /// fragmentable part.
    pub protocol: u8,
    /// The offset of the octet that names `protocol`.
    pub protocol_at: usize,
    /// The fragment fields, if the packet is a fragment (in IPv6, if it has a fragment header).
    pub fragment: Option<Fragment>,
    /// Whether the packet must not be fragmented on its way; always so in IPv6.
    pub dont_fragment: bool,
    /// Whether there are IPv4 options, or an IPv6 hop-by-hop, routing or destination options header.
    pub has_options: bool,
    /// The type of service or traffic class: DSCP and ECN.
    pub tos: u8,
    /// The time to live or hop limit.
    pub ttl: u8,
}

/// A packet whose headers were read is one whose headers are known to be sound.
impl Evidence<stage::Raw, stage::Clean> for Headers {}

impl Headers {
    /// Reads and checks the headers of the packet at the start of `bytes`. Only the IPv4 header checksum
    /// ([`checksum_ok`]) and the upper layer are not checked.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Headers, WireError> {
        match bytes.first().map(|first| first >> 4) {
            None => Err(WireError::Truncated),
            Some(4) => Self::parse_v4(bytes),
            Some(6) => Self::parse_v6(bytes),
            Some(_) => Err(WireError::Version),
        }
    }

    #[inline]
    fn parse_v4(bytes: &[u8]) -> Result<Headers, WireError> {
        let view = Ipv4::new_checked(bytes)?;
        let header_len = view.header_len();
        let (offset, more) = (view.frag_offset(), view.more_fragments());
        let fragment = (more || offset != 0).then(|| Fragment {
            id: u32::from(view.id()),
            offset,
            more,
            unfragmentable_len: header_len,
            next_header: view.protocol(),
        });
        Ok(Headers {
            version: 4,
            header_len,
            total_len: view.total_len(),
            src: IpAddr::V4(view.src()),
            dst: IpAddr::V4(view.dst()),
            protocol: view.protocol(),
            protocol_at: 9,
            fragment,
            dont_fragment: view.dont_fragment(),
            has_options: !view.options().is_empty(),
            tos: view.tos(),
            ttl: view.ttl(),
        })
    }

    fn parse_v6(bytes: &[u8]) -> Result<Headers, WireError> {
        let view = Ipv6::new_checked(bytes)?;
        let (src, dst) = (view.src(), view.dst());
        if src.to_ipv4_mapped().is_some() || dst.to_ipv4_mapped().is_some() {
            return Err(WireError::MappedAddress);
        }
        let chain = ipv6::walk(range(bytes, 0, view.total_len()))?;
        let fragment = chain.fragment.map(|f| Fragment {
            id: f.id,
            offset: f.offset,
            more: f.more,
            unfragmentable_len: f.at,
            next_header: f.next_header,
        });
        Ok(Headers {
            version: 6,
            header_len: chain.upper_at,
            total_len: view.total_len(),
            src: IpAddr::V6(src),
            dst: IpAddr::V6(dst),
            protocol: chain.protocol,
            protocol_at: chain.protocol_at,
            fragment,
            dont_fragment: true,
            has_options: chain.has_options,
            tos: view.traffic_class(),
            ttl: view.hop_limit(),
        })
    }

    /// The upper layer, or the payload of a fragment, of the packet that these headers were read from.
    #[inline]
    pub fn upper<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        range(bytes, self.header_len, self.total_len)
    }
}

/// The IP version in the first nibble; `None` if there are no octets.
#[inline]
pub fn version(bytes: &[u8]) -> Option<u8> {
    bytes.first().map(|first| first >> 4)
}

/// Whether the IPv4 header checksum is right; true for IPv6, which has none.
pub fn checksum_ok(bytes: &[u8], headers: &Headers) -> bool {
    headers.version == 6 || Ipv4::new_checked(bytes).is_ok_and(|view| view.checksum_ok())
}

/// The flow of the packet as the host sees it; `outbound` says that the host is the sender. Ports are zero in fragments
/// that do not start with the upper layer, and for protocols without ports. [`Flow`] says how ICMP is treated.
#[inline]
pub fn flow(bytes: &[u8], headers: &Headers, outbound: bool) -> Flow {
    let upper = headers.upper(bytes);
    let first = headers.fragment.is_none_or(|f| f.offset == 0);
    let read = if first { ports_or_kind(headers.version, headers.protocol, upper) } else { None };
    let (src_port, dst_port) = read.unwrap_or_default();
    let is_kind = protocol::has_type(headers.protocol);
    let (local, remote) = if outbound { (headers.src, headers.dst) } else { (headers.dst, headers.src) };
    let (local_port, remote_port) =
        if outbound || is_kind { (src_port, dst_port) } else { (dst_port, src_port) };
    let opaque = read.is_none() && (is_kind || protocol::has_ports(headers.protocol));
    Flow { local, remote, local_port, remote_port, protocol: headers.protocol, opaque }
}

/// The source and destination port, or the type in place of the first. `None` if the protocol has neither, or they are
/// cut off.
#[inline]
pub(crate) fn ports_or_kind(version: u8, protocol: u8, upper: &[u8]) -> Option<(u16, u16)> {
    if protocol::has_ports(protocol) {
        return (upper.len() >= 4).then(|| (be16(upper, 0), be16(upper, 2)));
    }
    kind_as_port(version, protocol, upper).map(|kind| (kind, 0))
}

/// The value for the local port of a [`Flow`] whose protocol has a type instead of ports. `None` if it has none, or is
/// cut short.
fn kind_as_port(version: u8, protocol: u8, upper: &[u8]) -> Option<u16> {
    match (version, protocol) {
        (4, protocol::ICMP) | (6, protocol::ICMPV6) => (upper.len() >= 2).then(|| be16(upper, 0)),
        // RFC 6275 section 6.1.1; where RFC 7296 section 3.13.1 puts it.
        (_, protocol::MOBILITY) => upper.get(2).map(|kind| u16::from(*kind) << 8),
        _ => None,
    }
}

/// Changes the protocol that the octet at `protocol_at` names ([`Headers::protocol_at`]). The caller fills in the IPv4
/// checksum.
pub fn set_protocol(bytes: &mut [u8], protocol_at: usize, protocol: u8) {
    put_octet(bytes, protocol_at, protocol);
}

/// The source and destination addresses as they stand in the header, one behind the other: 8 or 32 octets.
#[inline]
pub fn addresses(bytes: &[u8], version: u8) -> &[u8] {
    if version == 4 { range(bytes, 12, 20) } else { range(bytes, 8, 40) }
}

/// The type of service of IPv4 or traffic class of IPv6 (RFC 2474); `None` if the octets are no such header.
#[inline]
pub fn tos(bytes: &[u8]) -> Option<u8> {
    match *bytes {
        [first, tos, ..] if first >> 4 == 4 => Some(tos),
        [first, second, ..] if first >> 4 == 6 => Some(first << 4 | second >> 4),
        _ => None,
    }
}

/// Sets DSCP and ECN, and adjusts the IPv4 checksum.
pub fn set_tos(bytes: &mut [u8], version: u8, tos: u8) {
    if version == 4 {
        if let Ok(mut view) = Ipv4::new_checked(bytes) {
            view.set_tos(tos);
            view.fill_checksum();
        }
    } else if let Ok(mut view) = Ipv6::new_checked(bytes) {
        view.set_traffic_class(tos);
    }
}

/// Sets the time to live or hop limit, and adjusts the IPv4 checksum.
pub fn set_ttl(bytes: &mut [u8], headers: &mut Headers, ttl: u8) {
    if headers.version == 4 {
        ipv4::edit_ttl(bytes, ttl);
    } else if let Ok(mut view) = Ipv6::new_checked(bytes) {
        view.set_hop_limit(ttl);
    }
    headers.ttl = ttl;
}

/// Whether a whole packet or first fragment holds its upper layer's header (RFC 7112; RFC 1858 for IPv4).
pub fn upper_complete(bytes: &[u8], headers: &Headers) -> bool {
    let upper = headers.upper(bytes);
    match headers.protocol {
        protocol::TCP => Tcp::new_checked(upper).is_ok(),
        protocol::UDP | protocol::ESP => upper.len() >= udp::HEADER_LEN,
        protocol::ICMP if headers.version == 4 => upper.len() >= icmp::HEADER_LEN,
        protocol::ICMPV6 => upper.len() >= 4,
        protocol::SCTP if headers.version == 4 => upper.len() >= sctp::HEADER_LEN,
        // An extension header of IPv6; ICV and all.
        protocol::AH if headers.version == 6 => {
            upper.len() >= 2 && upper.len() >= (usize::from(octet(upper, 1)) + 2) * 4
        }
        _ => true,
    }
}

/// Sets the total length of the packet, in its header and in `headers`, and adjusts the IPv4 checksum.
///
/// # Errors
/// [`WireError::TooLong`] if `total` does not fit the field, or what is wrong with the packet then.
pub fn put_total_len(bytes: &mut [u8], headers: &mut Headers, total: usize) -> Result<(), WireError> {
    if headers.version == 4 {
        let len = u16::try_from(total).map_err(|_| WireError::TooLong)?;
        ipv4::put_total_len(bytes, len);
        Ipv4::new_checked(&mut *bytes)?.fill_checksum();
    } else {
        ipv6::put_payload_len(bytes.get_mut(..total).ok_or(WireError::Truncated)?)?;
    }
    headers.total_len = total;
    Ok(())
}

/// Whether the upper layer is the ICMP of this IP version.
pub fn is_icmp(headers: &Headers) -> bool {
    headers.protocol == if headers.version == 4 { protocol::ICMP } else { protocol::ICMPV6 }
}

/// The last destination of the packet, which the pseudo-header of its upper layer holds (RFC 8200 section 8.1, and what
/// hosts do in IPv4). A source route (IPv4) or a routing header of a known type holds it while there are stops left;
/// otherwise it is `headers.dst`.
///
/// # Errors
/// An option of IPv4, or a routing header of a known type, contradicts itself.
pub fn final_destination(bytes: &[u8], headers: &Headers) -> Result<IpAddr, WireError> {
    if !headers.has_options {
        return Ok(headers.dst);
    }
    if headers.version == 4 {
        return options::final_destination(range(bytes, 0, headers.header_len)).map(IpAddr::V4);
    }
    routed_destination(bytes, headers)
}

/// Octets of a routing header in front of its addresses.
const ROUTING_FIXED: usize = 8;
const ADDRESS: usize = 16;

/// The last destination by the packet's routing header; `headers.dst` if that has no segments left or an unknown type.
fn routed_destination(bytes: &[u8], headers: &Headers) -> Result<IpAddr, WireError> {
    let Some(routing) = ipv6::walk(range(bytes, 0, headers.total_len))?.routing else {
        return Ok(headers.dst);
    };
    end_of_route(range(bytes, routing.at, routing.at + routing.len))
        .map(|last| last.map_or(headers.dst, IpAddr::V6))
}

/// The last address of a whole routing header with segments left; `None` if its type is unknown.
///
/// # Errors
/// The routing header contradicts itself.
pub(crate) fn end_of_route(header: &[u8]) -> Result<Option<Ipv6Addr>, WireError> {
    let list = header.len().saturating_sub(ROUTING_FIXED);
    let left = usize::from(octet(header, 3));
    let (at, fits) = match octet(header, 2) {
        // RFC 2460 section 4.4: a list in travelling order, and nothing else.
        0 => (header.len().saturating_sub(ADDRESS), list.is_multiple_of(ADDRESS) && left <= list / ADDRESS),
        // RFC 6275 section 6.4.1: one address.
        2 => (ROUTING_FIXED, list == ADDRESS && left == 1),
        // RFC 8754 section 2: a list in reverse order, perhaps with more behind it.
        4 => (ROUTING_FIXED, list >= ADDRESS),
        _ => return Ok(None),
    };
    if fits { Ok(Some(Ipv6Addr::from(array::<ADDRESS>(header, at)))) } else { Err(WireError::RoutingType) }
}

/// The stops of a source route between the next one, `headers.dst`, and [`final_destination`], in no order. For a route
/// that contradicts itself, there are none, or some of them.
pub fn stops_between(bytes: &[u8], headers: &Headers) -> Vec<IpAddr> {
    if !headers.has_options {
        return Vec::new();
    }
    if headers.version == 4 {
        let stops = options::stops_between(range(bytes, 0, headers.header_len));
        return stops.into_iter().map(IpAddr::V4).collect();
    }
    let walked = ipv6::walk(range(bytes, 0, headers.total_len));
    let Some(routing) = walked.ok().and_then(|walked| walked.routing) else { return Vec::new() };
    let header = range(bytes, routing.at, routing.at + routing.len);
    let addresses = tail(header, ROUTING_FIXED).as_chunks::<ADDRESS>().0;
    let left = usize::from(octet(header, 3));
    let between = match routing.kind {
        0 => addresses.len().saturating_sub(left)..addresses.len().saturating_sub(1),
        4 => 1..left.min(addresses.len()),
        _ => 0..0,
    };
    let stops = addresses.get(between).unwrap_or_default();
    stops.iter().map(|address| IpAddr::V6(Ipv6Addr::from(*address))).collect()
}
