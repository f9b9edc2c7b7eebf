//! The IP packet in a frame of a capture, and what the link says of it.

use netio::pcap::Frame;
use wire::ip::Headers;
use wire::link::{FrameContent, Place, declared_len, vlans, without_padding};
use wire::tcp::Tcp;
use wire::udp::Udp;
use wire::{Gso, GsoKind, checksum, ipv4, ipv6, protocol};

/// Tunnels in one another that are looked into.
const TUNNELS: usize = 4;

/// What is in a frame.
pub(super) enum Inside<'f> {
    NotIp,
    /// There may be an IP packet in it, and nobody here can tell.
    Unread,
    /// The capture does not have all of it.
    Truncated(Place, &'f [u8]),
    /// The link header names another version.
    Contradiction(&'f [u8]),
    /// A packet, with whatever stands behind it but padding of the link.
    Ip(Place, &'f [u8]),
}

/// Look for the IP packet. Zeros that fill a short frame up are the link's and not the packet's; anything else that stands behind the
/// packet is a matter of rules 4.2 and 6.1, and so is a packet that is longer than the link's own length field.
pub(super) fn look(frame: &Frame) -> Inside<'_> {
    let place = match frame.link.carried(&frame.data) {
        FrameContent::Ip(place) => place,
        FrameContent::Other => return Inside::NotIp,
        FrameContent::Unread => return Inside::Unread,
    };
    let mut octets = frame.data.get(place.at..).unwrap_or_default();
    let declared = declared_len(octets);
    if !frame.is_whole() && declared.is_none_or(|len| len > octets.len()) {
        return Inside::Truncated(place, octets);
    }
    let version = octets.first().map(|first| first >> 4);
    if let (Some(named), Some(version @ (4 | 6))) = (place.version, version)
        && named != version
    {
        return Inside::Contradiction(octets);
    }
    if declared.is_some_and(|len| place.at + len > place.end) {
        octets = frame.data.get(place.at..place.end).unwrap_or_default();
    }
    let (mut place, mut octets) = (place, without_padding(octets));
    for _ in 0..TUNNELS {
        let Some((header, inner)) = tunnelled(octets) else { break };
        place.at += header;
        octets = inner;
    }
    Inside::Ip(place, octets)
}

/// The length of the header of a tunnel, and the packet in it: IP in IP (RFC 2003, RFC 4213 section 3, RFC 2473) that every reader would take
/// apart in the same way. Whatever else is in front of it (options, extension headers, fragments, a wrong checksum) is a matter of the
/// rules about IP headers, and rule 4.17 then drops the packet.
fn tunnelled(octets: &[u8]) -> Option<(usize, &[u8])> {
    let headers = Headers::parse(octets).ok().filter(|headers| headers.fragment.is_none())?;
    let plain = match headers.version {
        4 => {
            let header = octets.get(..ipv4::HEADER_LEN)?;
            headers.header_len == header.len() && header[6] & 0x80 == 0 && checksum::ip_checksum(header) == 0
        }
        _ => headers.header_len == ipv6::HEADER_LEN,
    };
    let inner = octets.get(headers.header_len..headers.total_len)?;
    let version = match headers.protocol {
        protocol::IPV4 => 4,
        protocol::IPV6 => 6,
        _ => return None,
    };
    (plain && inner.first()? >> 4 == version).then_some((headers.header_len, inner))
}

/// Turn a link header round, and the headers of tunnels behind it.
pub(super) fn turn(frame: &Frame, header: &mut [u8]) {
    let place = frame.link.carried(header);
    frame.link.turn(header);
    let FrameContent::Ip(place) = place else { return };
    let mut at = place.at;
    while let Some(tunnel) = header.get_mut(at..).filter(|rest| !rest.is_empty()) {
        // The two addresses change places, and the checksum does not notice.
        let (first, size, len) =
            if tunnel[0] >> 4 == 6 { (8, 16, ipv6::HEADER_LEN) } else { (12, 4, ipv4::HEADER_LEN) };
        if let Some(addresses) = tunnel.get_mut(first..first + 2 * size) {
            addresses.rotate_left(size);
        }
        at += len;
    }
}

/// VLAN tags as a number; zero: none.
pub(super) fn vlan(frame: &Frame, place: &Place) -> u32 {
    vlans(frame.data.get(12..place.tags_end).unwrap_or_default(), 0)
}

/// Interface and VLAN tags in a number.
pub(super) fn link(frame: &Frame, place: &Place, interface: u32) -> u32 {
    vlans(frame.data.get(12..place.tags_end).unwrap_or_default(), interface)
}

/// A packet behind a link header, whose length fields fit it.
pub(super) fn behind(frame: &Frame, header: &[u8], packet: &[u8]) -> Vec<u8> {
    let mut whole = [header, packet].concat();
    if let FrameContent::Ip(place) = frame.link.carried(&whole) {
        let len = whole.len() - place.at;
        place.put_len(&mut whole, len);
        // What is in front of the packet and behind the link header is headers of tunnels.
        let mut at = place.at;
        while at < header.len() {
            let Some(tunnel) = whole.get_mut(at..) else { break };
            at += if tunnel[0] >> 4 == 6 {
                let _ = ipv6::put_payload_len(tunnel);
                ipv6::HEADER_LEN
            } else {
                ipv4::put_total_len(tunnel, u16::try_from(tunnel.len()).unwrap_or(u16::MAX));
                if let Ok(mut view) = ipv4::Ipv4::new_checked(tunnel) {
                    view.fill_checksum();
                }
                ipv4::HEADER_LEN
            };
        }
    }
    whole
}

/// The packet as the card sends it, if the capture was made before that had filled in what a host leaves to it: the header's checksum
/// and, of a super-packet, the length (zero until then), and the transport's checksum (zero, or the sum of the pseudo-header). `None`:
/// nothing is missing.
pub(super) fn finished(packet: &[u8]) -> Option<Vec<u8>> {
    let mut out = packet.to_vec();
    let total = u16::try_from(packet.len()).ok()?;
    let (lengthless, unsummed) = match packet.first()? >> 4 {
        4 => (packet.get(2..4)? == [0; 2], packet.get(10..12)? == [0; 2]),
        6 => (packet.get(4..6)? == [0; 2] && packet.len() > ipv6::HEADER_LEN, false),
        _ => return None,
    };
    if lengthless && packet.first()? >> 4 == 4 {
        ipv4::put_total_len(&mut out, total);
    } else if lengthless {
        ipv6::put_payload_len(&mut out).ok()?;
    }
    let v4 = packet.first()? >> 4 == 4;
    if let Ok(mut view) = ipv4::Ipv4::new_checked(&mut out[..])
        && v4
        && (lengthless || unsummed)
    {
        view.fill_checksum();
    }
    let headers = Headers::parse(&out).ok()?;
    if lengthless && headers.protocol != protocol::TCP {
        return None;
    }
    let segment = headers.upper(&out);
    let at = match headers.protocol {
        protocol::TCP => 16,
        protocol::UDP => 6,
        _ => return (out != packet).then_some(out),
    };
    let field = segment.get(at..).and_then(|rest| rest.first_chunk()).map(|field| u16::from_be_bytes(*field));
    if let Some(field) = field.filter(|_| headers.fragment.is_none()) {
        let sum =
            |len: usize| checksum::fold(checksum::pseudo(headers.src, headers.dst, headers.protocol, len));
        let open = field == sum(segment.len())
            || headers.protocol == protocol::TCP && field == 0
            || lengthless && field == sum(0);
        if open || lengthless {
            checksum::complete_transport(&mut out, &headers).ok()?;
        }
    }
    (out != packet).then_some(out)
}

/// What the card was left to do when the capture was made, on a host that cuts late: a TCP packet longer than the MTU is a super-packet.
pub(super) fn gso(packet: &[u8], headers: Option<&Headers>, mtu: [usize; 2]) -> Gso {
    let mut gso = Gso::default();
    let Some(headers) = headers.filter(|headers| headers.fragment.is_none()) else { return gso };
    let Some(segment) = packet.get(headers.header_len..headers.total_len) else { return gso };
    if headers.protocol != protocol::TCP {
        return gso;
    }
    gso.checksum_start = u16::try_from(headers.header_len).unwrap_or(u16::MAX);
    gso.checksum_offset = 16;
    let mtu = mtu[0].min(mtu[1]);
    if headers.total_len > mtu
        && let Ok(tcp) = Tcp::new_checked(segment)
    {
        gso.kind = GsoKind::Tcp;
        let room = mtu.saturating_sub(headers.header_len + tcp.header_len()).max(1);
        gso.size = u16::try_from(room).unwrap_or(u16::MAX);
    }
    gso
}

/// What the capture kept of a segment or datagram, as a packet of its own, so that it can be looked at: lengths are those of what is
/// there, and the checksum, which is of octets that are not, is left to do. A FIN is behind what is missing, so it is taken off. `None`:
/// headers are missing, or it is something else.
pub(super) fn kept_part(octets: &[u8]) -> Option<(Vec<u8>, Headers, Gso)> {
    let mut out = octets.to_vec();
    if octets.first()? >> 4 == 4 {
        let view = ipv4::Ipv4::new_checked(&out[..]);
        // The view may say that the packet is cut off; the header must be whole and right.
        let header = usize::from(octets[0] & 15) * 4;
        if view.is_err() && octets.len() < header.max(20) || checksum::ip_checksum(octets.get(..header)?) != 0
        {
            return None;
        }
        ipv4::put_total_len(&mut out, u16::try_from(octets.len()).ok()?);
        ipv4::Ipv4::new_checked(&mut out[..]).ok()?.fill_checksum();
    } else {
        ipv6::put_payload_len(&mut out).ok()?;
    }
    let headers = Headers::parse(&out).ok().filter(|headers| headers.fragment.is_none())?;
    let at = headers.header_len;
    let offset = match headers.protocol {
        protocol::TCP => {
            let mut view = Tcp::new_checked(out.get_mut(at..)?).ok()?;
            let flags = view.flags().without(wire::tcp::Flags::FIN);
            view.set_flags(flags);
            16
        }
        protocol::UDP if octets.len() >= at + 8 => {
            let len = u16::try_from(octets.len() - at).ok()?;
            out.get_mut(at + 4..at + 6)?.copy_from_slice(&len.to_be_bytes());
            Udp::new_checked(out.get(at..)?).ok()?;
            6
        }
        _ => return None,
    };
    let gso = Gso {
        needs_checksum: true,
        checksum_start: u16::try_from(at).ok()?,
        checksum_offset: offset,
        ..Gso::default()
    };
    Some((out, headers, gso))
}
