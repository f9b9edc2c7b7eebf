//! The IP packet in a frame of a capture, and what the link says of it.

use netio::pcap::{Frame, LinkType};
use wire::ip::Headers;
use wire::tcp::Tcp;
use wire::{Gso, GsoKind, checksum, protocol};

/// Octets that Ethernet fills a frame's payload up to: 60 without header and check sequence, and 4 for a tag that the card took off.
const PADDED: usize = 50;

/// What is in a frame.
pub(super) enum Inside<'f> {
    NotIp,
    /// The capture does not have all of it.
    Truncated(&'f [u8]),
    /// The link header names another version.
    Contradiction(&'f [u8]),
    /// A packet, with whatever stands behind it, `at` an offset. `padded`: so many octets, if they were filled up by the link.
    Ip {
        at: usize,
        packet: &'f [u8],
        padded: usize,
    },
}

/// Look for the IP packet. Zeros that fill a short frame up are the link's and not the packet's; anything else that stands behind the
/// packet is a matter of rules 4.2 and 6.1.
pub(super) fn look(frame: &Frame) -> Inside<'_> {
    let Some((at, named)) = frame.link.ip_at(&frame.data) else { return Inside::NotIp };
    let octets = frame.data.get(at..).unwrap_or_default();
    let declared = declared(octets);
    if !frame.is_whole() && declared.is_none_or(|len| len > octets.len()) {
        return Inside::Truncated(octets);
    }
    let version = octets.first().map(|first| first >> 4);
    if let (Some(named), Some(version @ (4 | 6))) = (named, version)
        && named != version
    {
        return Inside::Contradiction(octets);
    }
    match without_padding(octets) {
        packet if packet.len() < octets.len() => Inside::Ip { at, packet, padded: octets.len() },
        packet => Inside::Ip { at, packet, padded: 0 },
    }
}

/// A packet without the zeros that fill a short frame up.
pub(crate) fn without_padding(octets: &[u8]) -> &[u8] {
    match declared(octets).and_then(|len| octets.split_at_checked(len)) {
        Some((packet, rest)) if octets.len() <= PADDED && rest.iter().all(|octet| *octet == 0) => packet,
        _ => octets,
    }
}

/// Octets that a packet says it has.
fn declared(octets: &[u8]) -> Option<usize> {
    let field = |at: usize| Some(usize::from(u16::from_be_bytes(*octets.get(at..)?.first_chunk()?)));
    match octets.first()? >> 4 {
        4 => field(2),
        6 => field(4).map(|payload| payload + 40),
        // No packet; there is no use in waiting for more of it.
        _ => Some(0),
    }
}

/// Interface and VLAN tags in a number.
pub(super) fn link(frame: &Frame, at: usize, interface: u32) -> u32 {
    let tags = match frame.link {
        LinkType::Ethernet => frame.data.get(12..at.saturating_sub(2)).unwrap_or_default(),
        _ => &[],
    };
    crate::inline::vlans(tags, interface)
}

/// What the card was left to do when the capture was made, on a host that cuts and sums late: a TCP packet longer than the MTU is a
/// super-packet; with `offload` a checksum that is only that of the pseudo-header is one that was not computed yet.
pub(super) fn gso(packet: &[u8], headers: Option<&Headers>, mtu: [usize; 2], offload: bool) -> Gso {
    let mut gso = Gso::default();
    let Some(headers) = headers.filter(|headers| headers.fragment.is_none()) else { return gso };
    let Some(segment) = packet.get(headers.header_len..headers.total_len) else { return gso };
    let at = match headers.protocol {
        protocol::TCP => 16,
        protocol::UDP => 6,
        _ => return gso,
    };
    gso.checksum_start = u16::try_from(headers.header_len).unwrap_or(u16::MAX);
    gso.checksum_offset = at;
    if let Some(field) =
        segment.get(usize::from(at)..).and_then(|rest| rest.first_chunk()).filter(|_| offload)
    {
        let sum = checksum::pseudo(headers.src, headers.dst, headers.protocol, segment.len());
        gso.needs_checksum = u16::from_be_bytes(*field) == checksum::fold(sum);
    }
    let mtu = mtu[0].min(mtu[1]);
    if headers.protocol == protocol::TCP
        && headers.total_len > mtu
        && let Ok(tcp) = Tcp::new_checked(segment)
    {
        gso.kind = GsoKind::Tcp;
        let room = mtu.saturating_sub(headers.header_len + tcp.header_len()).max(1);
        gso.size = u16::try_from(room).unwrap_or(u16::MAX);
    }
    gso
}
