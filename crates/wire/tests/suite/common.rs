//! Packets for the tests of this room.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::ip::Headers;
use wire::ipv4::Ipv4Repr;
use wire::ipv6::Ipv6Repr;
use wire::{checksum, ipv4, ipv6, protocol};

pub const V4: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, 2));
pub const V6: (Ipv6Addr, Ipv6Addr) =
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2));

/// An IP packet of either version around `upper`.
pub fn ip(v6: bool, protocol: u8, upper: &[u8]) -> Vec<u8> {
    ip_with(v6, protocol, upper, |_| {})
}

/// The same, with the IPv4 header edited before its checksum is made.
pub fn ip_with(v6: bool, protocol: u8, upper: &[u8], edit: impl Fn(&mut Ipv4Repr)) -> Vec<u8> {
    let mut bytes;
    if v6 {
        bytes = vec![0; ipv6::HEADER_LEN];
        let repr = Ipv6Repr {
            src: V6.0,
            dst: V6.1,
            next_header: protocol,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0x12345,
            payload_len: upper.len(),
        };
        ipv6::emit(&mut bytes, &repr).unwrap();
    } else {
        bytes = vec![0; ipv4::HEADER_LEN];
        let mut repr = Ipv4Repr {
            src: V4.0,
            dst: V4.1,
            protocol,
            ttl: 64,
            tos: 0,
            id: 0xfffe,
            df: false,
            payload_len: upper.len(),
        };
        edit(&mut repr);
        ipv4::emit(&mut bytes, &repr).unwrap();
    }
    bytes.extend_from_slice(upper);
    bytes
}

/// A TCP segment without checksum. `options` must be a multiple of four octets.
pub fn tcp(seq: u32, flags: u16, urgent: u16, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(40000_u16.to_be_bytes());
    bytes.extend(443_u16.to_be_bytes());
    bytes.extend(seq.to_be_bytes());
    bytes.extend(0x0a0b_0c0d_u32.to_be_bytes());
    let offset = (5 + options.len() / 4) as u16;
    bytes.extend((offset << 12 | flags).to_be_bytes());
    bytes.extend(0x1000_u16.to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(urgent.to_be_bytes());
    bytes.extend(options);
    bytes.extend(payload);
    bytes
}

/// A UDP datagram without checksum.
pub fn udp(payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    let repr = wire::udp::UdpRepr { src_port: 5000, dst_port: 53, payload_len: payload.len() };
    wire::udp::emit(&mut bytes, &repr).unwrap();
    bytes.extend(payload);
    bytes
}

/// Put the pseudo-header's sum where the kernel puts it when it leaves the checksum to the reader.
pub fn leave_checksum_open(packet: &mut [u8]) -> wire::Gso {
    let headers = Headers::parse(packet).unwrap();
    let offset = if headers.protocol == protocol::TCP { 16 } else { 6 };
    let len = headers.total_len - headers.header_len;
    let pseudo = checksum::fold(checksum::pseudo(headers.src, headers.dst, headers.protocol, len));
    let at = headers.header_len + offset;
    packet[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
    wire::Gso {
        kind: wire::GsoKind::None,
        needs_checksum: true,
        size: 0,
        checksum_start: headers.header_len as u16,
        checksum_offset: offset as u16,
    }
}

/// The Internet checksum as RFC 1071 defines it, word by word.
pub fn naive_sum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        if sum > 0xffff {
            sum -= 0xffff;
        }
    }
    sum as u16
}

/// The transport checksum of a whole packet, from the RFCs alone: zero if it is right.
pub fn naive_verify(packet: &[u8]) -> u16 {
    let headers = Headers::parse(packet).unwrap();
    let upper = &packet[headers.header_len..headers.total_len];
    let mut area = Vec::new();
    match (headers.src, headers.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            area.extend(src.octets());
            area.extend(dst.octets());
            area.extend([0, headers.protocol]);
            area.extend((upper.len() as u16).to_be_bytes());
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            area.extend(src.octets());
            area.extend(dst.octets());
            area.extend((upper.len() as u32).to_be_bytes());
            area.extend([0, 0, 0, headers.protocol]);
        }
        _ => unreachable!(),
    }
    if headers.protocol == protocol::ICMP {
        area.clear();
    }
    area.extend(upper);
    !naive_sum(&area)
}

/// A fragment of `payload[from..to]` of the packet whose fragmentable part is `payload`. `extension` (IPv6) is a
/// chain of extension headers that starts with one of kind `first` and ends by naming the fragment header.
pub fn fragment_of(v6: bool, id: u32, protocol: u8, payload: &[u8], from: usize, to: usize) -> Vec<u8> {
    let more = to < payload.len();
    raw_fragment(v6, id, protocol, &payload[from..to], from, more, 0)
}

/// A fragment made of its parts, right or wrong.
pub fn raw_fragment(
    v6: bool,
    id: u32,
    protocol: u8,
    data: &[u8],
    offset: usize,
    more: bool,
    tos: u8,
) -> Vec<u8> {
    let mut bytes;
    if v6 {
        let mut upper = vec![protocol, 0];
        upper.extend((offset as u16 & 0xfff8 | u16::from(more)).to_be_bytes());
        upper.extend(id.to_be_bytes());
        upper.extend(data);
        bytes = ip(true, protocol::FRAGMENT, &upper);
        let mut view = wire::ipv6::Ipv6::new_checked(&mut bytes[..]).unwrap();
        view.set_traffic_class(tos);
    } else {
        bytes = ip_with(false, protocol, data, |repr| {
            repr.id = id as u16;
            repr.tos = tos;
        });
        let field = (offset / 8) as u16 | if more { 0x2000 } else { 0 };
        bytes[6..8].copy_from_slice(&field.to_be_bytes());
        let mut view = wire::ipv4::Ipv4::new_checked(&mut bytes[..]).unwrap();
        view.fill_checksum();
    }
    bytes
}
