//! IPv6 headers, and the walk along their extension headers (RFC 8200 sections 3 and 4).

use crate::field::{array, be16, be32, octet, put, put_octet, put16, put32, range};
use crate::{Buf, WireError, protocol};
use std::net::Ipv6Addr;

/// Octets of the fixed header.
pub const HEADER_LEN: usize = 40;
/// Octets of a fragment header.
pub const FRAGMENT_LEN: usize = 8;
/// The most extension headers that the walk follows; a packet with more is refused.
pub const MAX_EXTENSIONS: usize = 8;
/// The smallest MTU of an IPv6 link (RFC 8200 section 5).
pub const MIN_MTU: usize = 1280;

const OPTION_PAD1: u8 = 0;
const OPTION_JUMBO: u8 = 0xc2;

/// A view of an IPv6 packet; its bytes may go on behind the packet's end.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6<B> {
    bytes: B,
}

impl<B: AsRef<[u8]>> Ipv6<B> {
    /// Makes a view whose lengths have been checked. Jumbograms are refused by [`walk`], not here.
    pub fn new_checked(bytes: B) -> Result<Self, WireError> {
        let octets = bytes.as_ref();
        if octets.is_empty() {
            return Err(WireError::Truncated);
        }
        if octet(octets, 0) >> 4 != 6 {
            return Err(WireError::Version);
        }
        let view = Ipv6 { bytes };
        let have = view.octets().len();
        if have < HEADER_LEN || view.total_len() > have {
            return Err(WireError::Truncated);
        }
        Ok(view)
    }

    fn octets(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// The traffic class: DSCP and ECN.
    pub fn traffic_class(&self) -> u8 {
        (be16(self.octets(), 0) >> 4) as u8
    }

    /// The flow label (20 bits).
    pub fn flow_label(&self) -> u32 {
        be32(self.octets(), 0) & 0xf_ffff
    }

    /// Octets behind the fixed header, extension headers included.
    pub fn payload_len(&self) -> usize {
        usize::from(be16(self.octets(), 4))
    }

    /// Octets of the whole packet.
    pub fn total_len(&self) -> usize {
        HEADER_LEN + self.payload_len()
    }

    /// The protocol number of what follows the fixed header.
    pub fn next_header(&self) -> u8 {
        octet(self.octets(), 6)
    }

    /// The hop limit of the packet.
    pub fn hop_limit(&self) -> u8 {
        octet(self.octets(), 7)
    }

    /// The source address of the packet.
    pub fn src(&self) -> Ipv6Addr {
        Ipv6Addr::from(array::<16>(self.octets(), 8))
    }

    /// The destination address that the fixed header names.
    pub fn dst(&self) -> Ipv6Addr {
        Ipv6Addr::from(array::<16>(self.octets(), 24))
    }

    /// The payload of the packet, extension headers included, without octets that lie behind its end.
    pub fn payload(&self) -> &[u8] {
        range(self.octets(), HEADER_LEN, self.total_len())
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Ipv6<B> {
    /// Sets the traffic class: DSCP and ECN.
    pub fn set_traffic_class(&mut self, class: u8) {
        let rest = be16(self.octets(), 0) & 0xf00f;
        put16(self.bytes.as_mut(), 0, rest | u16::from(class) << 4);
    }

    /// Sets the payload length, which is the octets behind the fixed header.
    pub fn set_payload_len(&mut self, len: u16) {
        put16(self.bytes.as_mut(), 4, len);
    }

    /// Sets the protocol number of what follows the fixed header.
    pub fn set_next_header(&mut self, next: u8) {
        put_octet(self.bytes.as_mut(), 6, next);
    }

    /// Sets the flow label; its low 20 bits are used.
    pub fn set_flow_label(&mut self, label: u32) {
        let rest = be32(self.octets(), 0) & !0xf_ffff;
        put32(self.bytes.as_mut(), 0, rest | label & 0xf_ffff);
    }

    /// Sets the hop limit of the packet.
    pub fn set_hop_limit(&mut self, hops: u8) {
        put_octet(self.bytes.as_mut(), 7, hops);
    }
}

/// The fields of a header to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Repr {
    /// The source address of the packet.
    pub src: Ipv6Addr,
    /// The destination address of the packet.
    pub dst: Ipv6Addr,
    /// The protocol number of what follows the header.
    pub next_header: u8,
    /// The hop limit of the packet.
    pub hop_limit: u8,
    /// The traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// The flow label; its low 20 bits are used.
    pub flow_label: u32,
    /// Octets behind the header.
    pub payload_len: usize,
}

/// Writes a header of [`HEADER_LEN`] octets to the start of `buf`.
pub fn emit(buf: &mut [u8], repr: &Ipv6Repr) -> Result<(), WireError> {
    let payload_len = u16::try_from(repr.payload_len).map_err(|_| WireError::TooLong)?;
    let header: &mut [u8; HEADER_LEN] = buf.first_chunk_mut().ok_or(WireError::NoRoom)?;
    put32(header, 0, 6 << 28 | u32::from(repr.traffic_class) << 20 | repr.flow_label & 0xf_ffff);
    put16(header, 4, payload_len);
    put(header, 6, [repr.next_header, repr.hop_limit]);
    put(header, 8, repr.src.octets());
    put(header, 24, repr.dst.octets());
    Ok(())
}

/// Turns the header of a first fragment at the start of `bytes` into that of the whole packet. It gets the payload
/// length, and the bits of `class_mark` are added to the traffic class.
pub(crate) fn put_whole(bytes: &mut [u8], payload_len: u16, class_mark: u8) {
    let mut view = Ipv6 { bytes };
    view.set_payload_len(payload_len);
    view.set_traffic_class(view.traffic_class() | class_mark);
}

/// Sets the payload length of a packet that fills `bytes`, whatever its header said before.
pub fn put_payload_len(bytes: &mut [u8]) -> Result<(), WireError> {
    let len = bytes.len().checked_sub(HEADER_LEN).ok_or(WireError::Truncated)?;
    put16(bytes, 4, u16::try_from(len).map_err(|_| WireError::TooLong)?);
    Ok(())
}

/// The fragment header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentHeader {
    /// The offset where it starts, which is the length of the unfragmentable part.
    pub at: usize,
    /// The offset of the octet that names it.
    pub named_at: usize,
    /// The protocol that the fragmentable part starts with.
    pub next_header: u8,
    /// The identification that the fragments of one packet share.
    pub id: u32,
    /// The offset of this fragment's payload in the datagram, in octets.
    pub offset: usize,
    /// Whether more fragments follow.
    pub more: bool,
}

/// A routing header with segments left. The packet's destination is not the final one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutingHeader {
    /// The offset where it starts.
    pub at: usize,
    /// The length of it in octets.
    pub len: usize,
    /// The routing type of it.
    pub kind: u8,
}

/// A summary of the headers between the fixed header and the upper layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The protocol behind the chain. In a fragment that is not the first, it is what the fragment header names.
    pub protocol: u8,
    /// The offset of the octet that names `protocol`.
    pub protocol_at: usize,
    /// The offset where the upper layer's header, or the fragment's payload, starts.
    pub upper_at: usize,
    /// The fragment header, if there is one.
    pub fragment: Option<FragmentHeader>,
    /// The routing header, if it has segments left.
    pub routing: Option<RoutingHeader>,
    /// Whether there are hop-by-hop options, a routing header or destination options.
    pub has_options: bool,
}

/// Follows the extension headers of a whole IPv6 packet (`bytes` end where it ends, and were checked by
/// [`Ipv6::new_checked`]). Hop-by-hop, routing, fragment and destination headers are passed over; ESP, AH, mobility and
/// everything else is the upper layer. A chain that runs over the end is refused, also in a first fragment (RFC 7112).
pub fn walk(bytes: &[u8]) -> Result<Chain, WireError> {
    let mut chain = Chain {
        protocol: octet(bytes, 6),
        protocol_at: 6,
        upper_at: HEADER_LEN,
        fragment: None,
        routing: None,
        has_options: false,
    };
    let mut seen = 0;
    loop {
        match chain.protocol {
            protocol::HOP_BY_HOP if chain.protocol_at != 6 => return Err(WireError::ExtensionOrder),
            protocol::FRAGMENT if chain.fragment.is_some() => return Err(WireError::FragmentTwice),
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION | protocol::FRAGMENT => {}
            _ => return Ok(chain),
        }
        if seen == MAX_EXTENSIONS {
            return Err(WireError::TooManyExtensions);
        }
        seen += 1;
        if step(bytes, &mut chain)? {
            return Ok(chain);
        }
    }
}

/// The place of an extension header in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// The protocol number of it.
    pub protocol: u8,
    /// The offset where it starts.
    pub at: usize,
    /// The length of it in octets.
    pub len: usize,
    /// The offset of the octet that names it.
    pub named_at: usize,
}

/// The extension headers that [`walk`] passes over, in order. For bytes that `walk` refuses, they are those in front of
/// the contradiction.
pub fn extensions(bytes: &[u8]) -> impl Iterator<Item = Extension> + '_ {
    let mut next = Some((octet(bytes, 6), HEADER_LEN, 6));
    let headers = std::iter::from_fn(move || {
        let (protocol, at, named_at) = next.take()?;
        let len = match protocol {
            protocol::FRAGMENT => FRAGMENT_LEN,
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION => {
                (usize::from(octet(bytes, at + 1)) + 1) * 8
            }
            _ => return None,
        };
        if bytes.len() < at + len {
            return None;
        }
        let later = protocol == protocol::FRAGMENT && be16(bytes, at + 2) & 0xfff8 != 0;
        next = (!later).then(|| (octet(bytes, at), at + len, at));
        Some(Extension { protocol, at, len, named_at })
    });
    headers.take(MAX_EXTENSIONS)
}

impl Extension {
    /// The routing type, if this is a routing header.
    pub fn routing_type(&self, bytes: &[u8]) -> Option<u8> {
        (self.protocol == protocol::ROUTING).then(|| octet(bytes, self.at + 2))
    }

    /// Whether reserved bits of a fragment header are set (RFC 8200 section 4.5: initialised to zero, ignored).
    pub fn has_reserved(&self, bytes: &[u8]) -> bool {
        self.protocol == protocol::FRAGMENT
            && (octet(bytes, self.at + 1) != 0 || octet(bytes, self.at + 3) & 6 != 0)
    }

    /// Clears the reserved bits of a fragment header.
    pub fn clear_reserved(&self, bytes: &mut [u8]) {
        let last = octet(bytes, self.at + 3);
        put_octet(bytes, self.at + 1, 0);
        put_octet(bytes, self.at + 3, last & !6);
    }

    /// Removes this header from the packet that `buf` holds, which moves what is in front of it. The header must come
    /// from [`extensions`] of these bytes. For any other, the answer may be `false`, and nothing is removed.
    pub fn remove(&self, buf: &mut Buf) -> bool {
        let bytes = buf.as_mut_slice();
        let next = octet(bytes, self.at);
        let payload = be16(bytes, 4).saturating_sub(self.len as u16);
        if self.at + self.len > bytes.len() || self.named_at >= self.at {
            return false;
        }
        put_octet(bytes, self.named_at, next);
        put16(bytes, 4, payload);
        bytes.copy_within(..self.at, self.len);
        buf.trim_front(self.len)
    }
}

/// The headers that stay in front of a security header (RFC 4303 section 3.1.1, RFC 4302 section 3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// The length in octets, fixed header included: everything up to the last hop-by-hop or routing header.
    pub len: usize,
    /// The offset of the octet that names what follows these headers.
    pub named_at: usize,
    /// The protocol number of what follows these headers.
    pub next_header: u8,
    /// Whether a fragment header is among the extension headers.
    pub is_fragment: bool,
}

/// Splits a whole IPv6 packet where a security header goes in transport mode. That is behind hop-by-hop options,
/// routing header and the destination options in front of it, and before the destination options behind it. It refuses
/// what [`walk`] refuses.
pub fn front(bytes: &[u8]) -> Result<Front, WireError> {
    let chain = walk(bytes)?;
    let mut front = Front {
        len: HEADER_LEN,
        named_at: 6,
        next_header: octet(bytes, 6),
        is_fragment: chain.fragment.is_some(),
    };
    let (mut at, mut next) = (HEADER_LEN, octet(bytes, 6));
    // The walk has checked every length on this way.
    while at < chain.upper_at && next != protocol::FRAGMENT {
        let (this, len) = (next, (usize::from(octet(bytes, at + 1)) + 1) * 8);
        next = octet(bytes, at);
        if matches!(this, protocol::HOP_BY_HOP | protocol::ROUTING) {
            front = Front { len: at + len, named_at: at, next_header: next, ..front };
        }
        at += len;
    }
    Ok(front)
}

/// Passes over one extension header; true if the walk ends behind it.
fn step(bytes: &[u8], chain: &mut Chain) -> Result<bool, WireError> {
    let at = chain.upper_at;
    let is_fragment = chain.protocol == protocol::FRAGMENT;
    let len = if is_fragment { FRAGMENT_LEN } else { (usize::from(octet(bytes, at + 1)) + 1) * 8 };
    if bytes.len() < at + len {
        // RFC 2675: a payload length of zero and a hop-by-hop header announce a jumbogram.
        let jumbo = chain.protocol == protocol::HOP_BY_HOP && be16(bytes, 4) == 0;
        return Err(if jumbo { WireError::Jumbogram } else { WireError::Truncated });
    }
    let header = range(bytes, at, at + len);
    let mut ends = false;
    match chain.protocol {
        protocol::FRAGMENT => {
            let field = be16(header, 2);
            let fragment = FragmentHeader {
                at,
                named_at: chain.protocol_at,
                next_header: octet(header, 0),
                id: be32(header, 4),
                offset: usize::from(field & 0xfff8),
                more: field & 1 != 0,
            };
            chain.fragment = Some(fragment);
            ends = fragment.offset != 0;
        }
        protocol::ROUTING => {
            chain.has_options = true;
            if octet(header, 3) != 0 {
                chain.routing = Some(RoutingHeader { at, len, kind: octet(header, 2) });
            }
        }
        protocol::HOP_BY_HOP => {
            chain.has_options = true;
            check_options(header)?;
        }
        _ => chain.has_options = true,
    }
    chain.protocol = octet(header, 0);
    chain.protocol_at = at;
    chain.upper_at = at + len;
    Ok(ends)
}

/// Checks the options of a hop-by-hop header: each is inside the header, and none is a jumbo payload.
fn check_options(header: &[u8]) -> Result<(), WireError> {
    let mut at = 2;
    while at < header.len() {
        match octet(header, at) {
            OPTION_PAD1 => at += 1,
            OPTION_JUMBO => return Err(WireError::Jumbogram),
            _ => at += 2 + usize::from(octet(header, at + 1)),
        }
    }
    if at == header.len() { Ok(()) } else { Err(WireError::OptionLength) }
}
