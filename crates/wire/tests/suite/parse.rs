//! Headers in tables, and any bytes at all.

use crate::common;

use common::{V4, V6, ip, ip_with, raw_fragment, tcp, udp};
use proptest::prelude::*;
use std::net::IpAddr;
use wire::esp::{Esp, UdpPayload};
use wire::eth::Ethernet;
use wire::icmp::{Icmpv4, Icmpv6};
use wire::ip::Headers;
use wire::ipv4::Ipv4;
use wire::ipv6::Ipv6;
use wire::tcp::{Flags, Tcp, TcpOption};
use wire::udp::Udp;
use wire::{DropReason, Flow, Record, WireError, checksum, esp, ip as ip_layer, protocol};

fn error(bytes: &[u8]) -> WireError {
    Headers::parse(bytes).unwrap_err()
}

#[test]
fn ipv4_headers() {
    let mut packet = ip_with(false, protocol::TCP, &tcp(1, 2, 0, &[], &[]), |repr| {
        repr.df = true;
        repr.tos = 0xb9;
        repr.ttl = 9;
    });
    packet.extend([0; 6]); // Padding of a link is not part of the packet.
    let headers = Headers::parse(&packet).unwrap();
    let expected = Headers {
        version: 4,
        header_len: 20,
        total_len: 40,
        src: IpAddr::V4(V4.0),
        dst: IpAddr::V4(V4.1),
        protocol: protocol::TCP,
        protocol_at: 9,
        fragment: None,
        dont_fragment: true,
        has_options: false,
        tos: 0xb9,
        ttl: 9,
    };
    assert_eq!(headers, expected);
    assert_eq!(headers.upper(&packet).len(), 20);
    assert!(ip_layer::checksum_ok(&packet, &headers));
    packet[8] = 10;
    assert!(!ip_layer::checksum_ok(&packet, &headers));

    assert_eq!(error(&[]), WireError::Truncated);
    assert_eq!(error(&[0x45]), WireError::Truncated);
    assert_eq!(error(&[0x55; 60]), WireError::Version);
    assert_eq!(error(&packet[..39]), WireError::Truncated);
    packet[0] = 0x44;
    assert_eq!(error(&packet), WireError::HeaderLength);
    packet[0] = 0x4b;
    assert_eq!(error(&packet), WireError::TotalLength);
    packet[0] = 0x4a;
    assert_eq!(Headers::parse(&packet).map(|h| (h.header_len, h.has_options)), Ok((40, true)));

    let fragment = Headers::parse(&raw_fragment(false, 0x1234, 17, &[0; 8], 1480, true, 0)).unwrap();
    let expected = ip_layer::Fragment {
        id: 0x1234,
        offset: 1480,
        more: true,
        unfragmentable_len: 20,
        next_header: protocol::UDP,
    };
    assert_eq!(fragment.fragment, Some(expected));
}

/// An IPv6 packet with a chain of headers: (kind, body), each body a multiple of eight octets less two.
fn chain(extensions: &[(u8, &[u8])], last: u8, upper: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, (_, body)) in extensions.iter().enumerate() {
        bytes.push(extensions.get(index + 1).map_or(last, |(kind, _)| *kind));
        bytes.push(((body.len() + 2) / 8 - 1) as u8);
        bytes.extend(*body);
    }
    bytes.extend(upper);
    ip(true, extensions.first().map_or(last, |(kind, _)| *kind), &bytes)
}

#[test]
fn ipv6_chains() {
    use protocol::{AH, DESTINATION, ESP, FRAGMENT, HOP_BY_HOP, NO_NEXT, ROUTING, TCP};
    const PAD: &[u8] = &[1, 4, 0, 0, 0, 0];
    const PAD1: &[u8] = &[0; 6];
    const LONG: &[u8] = &[1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    const ROUTE: &[u8] = &[4, 0, 0, 0, 0, 0];
    // A fragment header's second octet is reserved, not a length: one of 8 octets all the same.
    const WHOLE: &[u8] = &[0, 0, 0, 0, 0, 1];
    const FIRST: &[u8] = &[0, 1, 0, 0, 0, 1];
    const LATER: &[u8] = &[0, 8, 0, 0, 0, 1];
    type Case<'a> = (&'a [(u8, &'a [u8])], u8, Result<(u8, usize, usize, bool), WireError>);
    let many = [(DESTINATION, PAD); 9];
    // What stands in the packet; (protocol, where it is named, where it starts, options).
    let cases: &[Case<'_>] = &[
        (&[], TCP, Ok((TCP, 6, 40, false))),
        (&[(HOP_BY_HOP, PAD)], TCP, Ok((TCP, 40, 48, true))),
        (&[(HOP_BY_HOP, PAD1), (DESTINATION, LONG), (ROUTING, ROUTE)], TCP, Ok((TCP, 64, 72, true))),
        (&[(DESTINATION, PAD)], NO_NEXT, Ok((NO_NEXT, 40, 48, true))),
        (&[(DESTINATION, PAD)], ESP, Ok((ESP, 40, 48, true))),
        (&[], AH, Ok((AH, 6, 40, false))),
        (&[(FRAGMENT, WHOLE), (DESTINATION, PAD)], TCP, Ok((TCP, 48, 56, true))),
        (&[(FRAGMENT, FIRST)], TCP, Ok((TCP, 40, 48, false))),
        // In a later fragment what follows is payload, whatever it is named.
        (&[(FRAGMENT, LATER)], DESTINATION, Ok((DESTINATION, 40, 48, false))),
        (&[(DESTINATION, PAD), (HOP_BY_HOP, PAD)], TCP, Err(WireError::ExtensionOrder)),
        (&[(HOP_BY_HOP, PAD), (HOP_BY_HOP, PAD)], TCP, Err(WireError::ExtensionOrder)),
        (&[(FRAGMENT, WHOLE), (FRAGMENT, WHOLE)], TCP, Err(WireError::FragmentTwice)),
        (&[(FRAGMENT, FIRST), (FRAGMENT, LATER)], TCP, Err(WireError::FragmentTwice)),
        (&many[..8], TCP, Ok((TCP, 96, 104, true))),
        (&many, TCP, Err(WireError::TooManyExtensions)),
        (&[(HOP_BY_HOP, &[0xc2, 4, 0, 1, 0, 0])], TCP, Err(WireError::Jumbogram)),
        (&[(HOP_BY_HOP, &[5, 2, 0, 0, 1, 1])], TCP, Err(WireError::OptionLength)),
        (&[(HOP_BY_HOP, &[5, 2, 0, 0, 1, 0])], TCP, Ok((TCP, 40, 48, true))),
    ];
    for (index, (extensions, last, expected)) in cases.iter().enumerate() {
        let packet = chain(extensions, *last, &tcp(1, 2, 0, &[], &[]));
        let result =
            Headers::parse(&packet).map(|h| (h.protocol, h.protocol_at, h.header_len, h.has_options));
        assert_eq!(result, *expected, "case {index}");
        // Cut anywhere, with its length made to agree: an error or a shorter packet, and never a panic.
        for len in 40..packet.len() {
            let mut short = packet[..len].to_vec();
            assert_eq!(Ipv6::new_checked(&short[..]).map(|_| ()), Err(WireError::Truncated));
            short[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
            if let Ok((_, _, upper_at, _)) = expected {
                assert_eq!(Headers::parse(&short).is_ok(), len >= *upper_at, "case {index}, {len} octets");
            }
        }
    }
}

#[test]
fn ipv6_headers() {
    let mut packet = ip(true, protocol::UDP, &udp(b"hello"));
    Ipv6::new_checked(&mut packet[..]).unwrap().set_traffic_class(0xb9);
    let view = Ipv6::new_checked(&packet[..]).unwrap();
    assert_eq!((view.traffic_class(), view.flow_label(), view.next_header()), (0xb9, 0x12345, 17));
    let headers = Headers::parse(&packet).unwrap();
    assert_eq!((headers.src, headers.dst), (IpAddr::V6(V6.0), IpAddr::V6(V6.1)));
    assert_eq!((headers.tos, headers.ttl, headers.total_len), (0xb9, 64, 53));
    assert!(headers.dont_fragment && headers.fragment.is_none());
    assert_eq!(error(&packet[..52]), WireError::Truncated);
    assert_eq!(error(&packet[..39]), WireError::Truncated);
    // A mapped address would be taken for the IPv4 address by policy.
    for at in [8, 24] {
        let mut mapped = packet.clone();
        mapped[at..at + 16].copy_from_slice(&V4.0.to_ipv6_mapped().octets());
        assert_eq!(error(&mapped), WireError::MappedAddress);
    }
    // A jumbogram as RFC 2675 writes it.
    let mut jumbo = chain(&[(protocol::HOP_BY_HOP, &[0xc2, 4, 0, 1, 0, 0])], protocol::TCP, &[0; 100]);
    Ipv6::new_checked(&mut jumbo[..]).unwrap().set_payload_len(0);
    assert_eq!(error(&jumbo), WireError::Jumbogram);
}

#[test]
fn flows() {
    let segment = tcp(1, 2, 0, &[], &[]);
    for v6 in [false, true] {
        let (src, dst) =
            if v6 { (IpAddr::V6(V6.0), IpAddr::V6(V6.1)) } else { (IpAddr::V4(V4.0), IpAddr::V4(V4.1)) };
        let icmp = if v6 { protocol::ICMPV6 } else { protocol::ICMP };
        let foreign_icmp = if v6 { protocol::ICMP } else { protocol::ICMPV6 };
        let out = |local_port, remote_port, protocol| Flow {
            opaque: false,
            local: src,
            remote: dst,
            local_port,
            remote_port,
            protocol,
        };
        // Ports, or a type, that cannot be read.
        let opaque = |protocol| Flow { opaque: true, ..out(0, 0, protocol) };
        let cases = [
            (ip(v6, 6, &segment), out(40000, 443, 6)),
            (ip(v6, 17, &udp(b"x")), out(5000, 53, 17)),
            (ip(v6, protocol::SCTP, &[0, 1, 0, 2]), out(1, 2, protocol::SCTP)),
            (ip(v6, 6, &[1, 2, 3]), opaque(6)),
            (ip(v6, protocol::ESP, &[1; 20]), out(0, 0, protocol::ESP)),
            (ip(v6, icmp, &[8, 3, 0, 0]), out(0x0803, 0, icmp)),
            (ip(v6, icmp, &[8]), opaque(icmp)),
            (ip(v6, foreign_icmp, &[8, 3, 0, 0]), opaque(foreign_icmp)),
            (raw_fragment(v6, 1, 6, &[&segment[..], &[0; 4]].concat(), 0, true, 0), out(40000, 443, 6)),
            (raw_fragment(v6, 1, 6, &segment, 8, false, 0), opaque(6)),
            (raw_fragment(v6, 1, icmp, &[8; 16], 8, true, 0), opaque(icmp)),
        ];
        for (index, (packet, expected)) in cases.iter().enumerate() {
            let headers = Headers::parse(packet).unwrap();
            assert_eq!(ip_layer::flow(packet, &headers, true), *expected, "v6 {v6}, case {index}");
            let inbound = ip_layer::flow(packet, &headers, false);
            assert_eq!((inbound.local, inbound.remote), (dst, src));
            if expected.protocol != icmp {
                let ports = (expected.remote_port, expected.local_port);
                assert_eq!((inbound.local_port, inbound.remote_port), ports, "v6 {v6}, case {index}");
            } else {
                assert_eq!((inbound.local_port, inbound.remote_port), (expected.local_port, 0));
            }
        }
    }
}

#[test]
fn tcp_headers_and_options() {
    let parse = |options: &[u8]| {
        let bytes = tcp(7, 0x112, 0, options, b"data");
        let view = Tcp::new_checked(&bytes[..]).unwrap();
        assert_eq!((view.header_len(), view.payload()), (20 + options.len(), &b"data"[..]));
        view.options().map(|o| o.map(|o| format!("{o:?}"))).collect::<Vec<_>>()
    };
    let ok = |o: TcpOption<'_>| Ok(format!("{o:?}"));
    let error = || Err(WireError::OptionLength);
    let syn = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 3, 3, 7];
    assert_eq!(
        parse(&syn),
        [
            ok(TcpOption::MaxSegment(1460)),
            ok(TcpOption::SackPermitted),
            ok(TcpOption::Timestamps { value: 1, echo: 2 }),
            ok(TcpOption::Nop),
            ok(TcpOption::WindowScale(7)),
        ]
    );
    let sack = [1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    assert_eq!(parse(&sack)[2], ok(TcpOption::Sack(&[0, 0, 0, 1, 0, 0, 0, 2])));
    assert_eq!(parse(&[19, 4, 1, 2]), [ok(TcpOption::Other { kind: 19, data: &[1, 2] })]);
    // A known kind with a length of another; the end of the list; errors end it.
    assert_eq!(parse(&[2, 2, 5, 3, 7, 1, 1, 1])[0], ok(TcpOption::Other { kind: 2, data: &[] }));
    assert_eq!(parse(&[1, 0, 2, 99]), [ok(TcpOption::Nop)]);
    assert_eq!(parse(&[2, 5, 1, 1]), [error()]);
    assert_eq!(parse(&[2, 1, 1, 1]), [error()]);
    assert_eq!(parse(&[2, 0, 1, 1]), [error()]);
    assert_eq!(parse(&[1, 1, 1, 8]), [ok(TcpOption::Nop), ok(TcpOption::Nop), ok(TcpOption::Nop), error()]);

    let mut bytes = tcp(7, 0x112, 3, &[], &[]);
    let mut view = Tcp::new_checked(&mut bytes[..]).unwrap();
    assert_eq!((view.src_port(), view.dst_port(), view.seq(), view.ack()), (40000, 443, 7, 0x0a0b_0c0d));
    assert_eq!((view.window(), view.urgent(), view.checksum()), (0x1000, 3, 0));
    assert_eq!(view.flags(), Flags::SYN | Flags::ACK | Flags(0x100));
    view.set_flags(Flags::FIN);
    view.set_seq(9);
    view.set_urgent(4);
    view.set_checksum(5);
    assert_eq!((view.flags(), view.header_len(), view.seq()), (Flags::FIN, 20, 9));
    assert_eq!((view.urgent(), view.checksum()), (4, 5));
    assert_eq!(Tcp::new_checked(&bytes[..19]).map(|_| ()), Err(WireError::Truncated));
    bytes[12] = 0x40;
    assert_eq!(Tcp::new_checked(&bytes[..]).map(|_| ()), Err(WireError::HeaderLength));
    bytes[12] = 0x60;
    assert_eq!(Tcp::new_checked(&bytes[..]).map(|_| ()), Err(WireError::Truncated));
}

#[test]
fn udp_headers() {
    let mut bytes = udp(b"hello");
    bytes.extend([9; 3]);
    let view = Udp::new_checked(&bytes[..]).unwrap();
    assert_eq!((view.src_port(), view.dst_port(), view.len(), view.payload()), (5000, 53, 13, &b"hello"[..]));
    assert_eq!(Udp::new_checked(&bytes[..12]).map(|_| ()), Err(WireError::Truncated));
    assert_eq!(Udp::new_checked(&bytes[..7]).map(|_| ()), Err(WireError::Truncated));
    bytes[5] = 7;
    assert_eq!(Udp::new_checked(&bytes[..]).map(|_| ()), Err(WireError::TotalLength));
    bytes[5] = 13;
    bytes.truncate(13);
    let mut packet = ip(true, protocol::UDP, &bytes);
    let mut view = Udp::new_checked(&mut packet[40..]).unwrap();
    view.fill_checksum(IpAddr::V6(V6.0), IpAddr::V6(V6.1));
    assert_ne!(view.checksum(), 0);
    assert_eq!(common::naive_verify(&packet), 0);
    let mut view = Udp::new_checked(&mut packet[40..]).unwrap();
    view.clear_checksum();
    assert_eq!(view.checksum(), 0);
    let repr = wire::udp::UdpRepr { src_port: 1, dst_port: 2, payload_len: 65528 };
    assert_eq!(wire::udp::emit(&mut [0; 8], &repr), Err(WireError::TooLong));
    assert_eq!(
        wire::udp::emit(&mut [0; 7], &wire::udp::UdpRepr { payload_len: 0, ..repr }),
        Err(WireError::NoRoom)
    );
}

#[test]
fn esp_headers_and_what_shares_their_port() {
    let mut bytes = [0xaa; 12];
    esp::emit(&mut bytes, 0x0102_0304, 9).unwrap();
    let view = Esp::new_checked(&bytes[..]).unwrap();
    assert_eq!((view.spi(), view.sequence(), view.payload()), (0x0102_0304, 9, &[0xaa; 4][..]));
    assert_eq!(Esp::new_checked(&bytes[..7]).map(|_| ()), Err(WireError::Truncated));
    assert_eq!(esp::emit(&mut bytes[..7], 1, 1), Err(WireError::NoRoom));
    let cases: [(&[u8], UdpPayload); 7] = [
        (&bytes, UdpPayload::Esp),
        (&[0xff], UdpPayload::Keepalive),
        (&[0xff, 0xff], UdpPayload::Other),
        (&[0, 0, 0, 0], UdpPayload::Ike),
        (&[0, 0, 0, 0, 1, 2, 3, 4, 5], UdpPayload::Ike),
        (&[], UdpPayload::Other),
        (&[0, 0, 0, 1, 0, 0, 0], UdpPayload::Other),
    ];
    for (payload, expected) in cases {
        assert_eq!(esp::classify(payload), expected, "{payload:?}");
    }
}

#[test]
fn ethernet_frames() {
    let mut frame = vec![1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0x08, 0x00, 0x45];
    let view = Ethernet::new_checked(&frame[..]).unwrap();
    assert_eq!((view.dst(), view.src(), view.ethertype()), ([1; 6], [2; 6], wire::eth::IPV4));
    assert_eq!((view.header_len(), view.payload()), (14, &[0x45][..]));
    frame.splice(12..12, [0x88, 0xa8, 0, 1, 0x81, 0, 0, 2]);
    let view = Ethernet::new_checked(&frame[..]).unwrap();
    assert_eq!((view.ethertype(), view.payload()), (wire::eth::IPV4, &[0x45][..]));
    assert_eq!(Ethernet::new_checked(&frame[..21]).map(|_| ()), Err(WireError::Truncated));
    assert_eq!(Ethernet::new_checked(&frame[..13]).map(|_| ()), Err(WireError::Truncated));
    // A third tag is not followed.
    frame.splice(12..12, [0x81, 0, 0, 3]);
    assert_eq!(Ethernet::new_checked(&frame[..]).map(|v| v.ethertype()), Ok(0x8100));
}

#[test]
fn too_big_goes_back_to_the_sender() {
    for v6 in [false, true] {
        for (payload, quoted) in [(1500, if v6 { 1232 } else { 548 }), (1400, if v6 { 1232 } else { 548 })] {
            let original = ip(v6, protocol::UDP, &udp(&vec![7; payload]));
            let headers = Headers::parse(&original).unwrap();
            let buf = wire::icmp::too_big(&original, &headers, 1300, None).unwrap();
            assert!(buf.headroom() >= 26);
            let bytes = buf.as_slice();
            let own = Headers::parse(bytes).unwrap();
            assert_eq!((own.src, own.dst, own.ttl), (headers.dst, headers.src, 64));
            assert!(own.total_len == bytes.len() && ip_layer::checksum_ok(bytes, &own));
            assert_eq!(checksum::verify_transport(bytes, &own), Some(true));
            assert_eq!(common::naive_verify(bytes), 0);
            let quote = if v6 {
                let view = Icmpv6::new_checked(own.upper(bytes)).unwrap();
                assert_eq!((view.kind(), view.code(), view.mtu(), view.is_error()), (2, 0, Some(1300), true));
                view.payload().to_vec()
            } else {
                let view = Icmpv4::new_checked(own.upper(bytes)).unwrap();
                assert_eq!((view.kind(), view.code(), view.mtu(), view.is_error()), (3, 4, Some(1300), true));
                view.payload().to_vec()
            };
            assert_eq!(quote, original[..quoted]);
            assert_eq!(bytes.len(), if v6 { 1280 } else { 576 });
        }
    }
    // A short packet is quoted whole, without what lies behind it.
    let mut original = ip(false, protocol::UDP, &udp(&[7; 100]));
    let len = original.len();
    original.extend([0xee; 50]);
    let headers = Headers::parse(&original).unwrap();
    let buf = wire::icmp::too_big(&original, &headers, 100, None).unwrap();
    assert_eq!(buf.as_slice()[28..], original[..len]);
}

#[test]
fn some_packets_must_not_be_answered() {
    let answer = |packet: &[u8], mtu| {
        let headers = Headers::parse(packet).unwrap();
        wire::icmp::too_big(packet, &headers, mtu, None).is_some()
    };
    let with = |v6: bool, at: usize, octets: &[u8]| {
        let mut packet = ip(v6, protocol::UDP, &udp(&[0; 1500]));
        packet[at..at + octets.len()].copy_from_slice(octets);
        packet
    };
    assert!(answer(&with(false, 0, &[]), 1400) && answer(&with(true, 0, &[]), 1400));
    // It fits, or no host would go so low.
    assert!(!answer(&with(false, 0, &[]), 1528) && !answer(&with(true, 0, &[]), 1548));
    assert!(!answer(&ip(false, 17, &udp(&[0; 40])), 20) && !answer(&ip(true, 17, &udp(&[0; 1232])), 1000));
    // Not one sender, not one receiver (RFC 1122 section 3.2.2, RFC 4443 section 2.4).
    for octets in [[224, 0, 0, 1], [255; 4], [240, 0, 0, 1], [127, 0, 0, 1], [0; 4]] {
        for at in [12, 16] {
            assert!(!answer(&with(false, at, &octets), 1400), "{octets:?} at {at}");
        }
    }
    let mut loopback = [0; 16];
    loopback[15] = 1;
    for octets in [[0xff; 16], [0; 16], loopback] {
        for at in [8, 24] {
            assert!(!answer(&with(true, at, &octets), 1400), "{octets:?} at {at}");
        }
    }
    // ICMP errors never, queries do.
    for (v6, protocol, errors, queries) in [
        (false, protocol::ICMP, &[3, 4, 5, 11, 12][..], &[0, 8, 13][..]),
        (true, protocol::ICMPV6, &[1, 2, 3, 4, 100, 127, 137], &[128, 129, 135]),
    ] {
        let message = |kind: u8| ip(v6, protocol, &[&[kind][..], &[0; 1500]].concat());
        assert!(errors.iter().all(|kind| !answer(&message(*kind), 1400)));
        assert!(queries.iter().all(|kind| answer(&message(*kind), 1400)));
    }
    // Of fragments only the first.
    for v6 in [false, true] {
        assert!(answer(&raw_fragment(v6, 1, 17, &[0; 1480], 0, true, 0), 1400));
        assert!(!answer(&raw_fragment(v6, 1, 17, &[0; 1480], 1480, true, 0), 1400));
    }
}

#[test]
fn every_error_has_a_reason() {
    let cases = [
        (WireError::Truncated, DropReason::Truncated),
        (WireError::Version, DropReason::BadVersion),
        (WireError::HeaderLength, DropReason::HeaderLength),
        (WireError::TotalLength, DropReason::TotalLength),
        (WireError::ExtensionOrder, DropReason::ExtensionOrder),
        (WireError::FragmentTwice, DropReason::ExtensionOrder),
        (WireError::TooManyExtensions, DropReason::TooManyExtensions),
        (WireError::Jumbogram, DropReason::Jumbogram),
        (WireError::MappedAddress, DropReason::MappedAddress),
        (WireError::OptionLength, DropReason::BadOption),
        (WireError::Record, DropReason::BadRecord),
        (WireError::Gso, DropReason::GsoInvalid),
        (WireError::TooBig, DropReason::TooBig),
        (WireError::TooLong, DropReason::TooLong),
        (WireError::NoRoom, DropReason::TooLong),
    ];
    for (error, reason) in cases {
        assert_eq!(DropReason::from(error), reason);
        assert!(!error.to_string().is_empty());
    }
}

/// Every parser and every question on some bytes.
fn look_everywhere(bytes: &[u8]) {
    let _ = Record::parse(bytes);
    let _ = esp::classify(bytes);
    let _ = Esp::new_checked(bytes).map(|v| (v.spi(), v.sequence(), v.payload().len()));
    let _ = Ethernet::new_checked(bytes).map(|v| (v.dst(), v.src(), v.ethertype(), v.payload().len()));
    let _ = Icmpv4::new_checked(bytes).map(|v| (v.kind(), v.code(), v.checksum(), v.mtu(), v.is_error()));
    let _ = Icmpv6::new_checked(bytes).map(|v| (v.kind(), v.code(), v.checksum(), v.mtu(), v.is_error()));
    let _ = Udp::new_checked(bytes).map(|v| (v.src_port(), v.dst_port(), v.payload().len(), v.checksum()));
    if let Ok(view) = Tcp::new_checked(bytes) {
        assert!(view.options().count() <= 40);
        assert!(view.header_len() + view.payload().len() == bytes.len());
    }
    let _ =
        Ipv4::new_checked(bytes).map(|v| (v.checksum_ok(), v.payload().len(), v.options().len(), v.ecn()));
    let _ = Ipv6::new_checked(bytes).map(|v| (v.payload().len(), v.hop_limit()));
    let Ok(headers) = Headers::parse(bytes) else { return };
    assert!(headers.header_len <= headers.total_len && headers.total_len <= bytes.len());
    assert!(headers.protocol_at < headers.header_len);
    assert_eq!(bytes[headers.protocol_at], headers.protocol);
    let flow = ip_layer::flow(bytes, &headers, true);
    assert_eq!(flow.local, headers.src);
    let _ = ip_layer::final_destination(bytes, &headers);
    assert!(ip_layer::stops_between(bytes, &headers).len() <= 127);
    let _ = ip_layer::checksum_ok(bytes, &headers);
    let mut copy = bytes.to_vec();
    if checksum::complete_transport(&mut copy, &headers).is_ok() {
        assert_eq!(checksum::verify_transport(&copy, &headers), Some(true));
    }
    if let Some(error) = wire::icmp::too_big(bytes, &headers, 100, None) {
        assert!(Headers::parse(error.as_slice()).is_ok_and(|h| h.total_len == error.len()));
    }
}

proptest! {
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        look_everywhere(&bytes);
    }

    /// Bytes that get past the first checks: a version, and lengths that may agree.
    #[test]
    fn likely_bytes(
        mut bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0_u8..4, Just(60), Just(43), Just(44)], 40..300),
        v6: bool, next in prop_oneof![Just(0_u8), Just(43), Just(44), Just(60), any::<u8>()], words in 5_u8..8, less in 0_usize..20,
    ) {
        let len = bytes.len() - less.min(bytes.len() - 40);
        if v6 {
            bytes[0] = 0x60;
            bytes[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
            bytes[6] = next;
        } else {
            bytes[0] = 0x40 | words;
            bytes[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        }
        look_everywhere(&bytes);
    }

    /// Real packets with one octet changed, at every length.
    #[test]
    fn spoiled_packets(v6: bool, is_tcp: bool, at in any::<prop::sample::Index>(), value: u8, cut in any::<prop::sample::Index>()) {
        let mut packet = if is_tcp { ip(v6, 6, &tcp(1, 0x18, 0, &[8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1], &[0; 40])) } else { ip(v6, 17, &udp(&[0; 40])) };
        let at = at.index(packet.len());
        packet[at] = value;
        look_everywhere(&packet);
        look_everywhere(&packet[..cut.index(packet.len())]);
    }
}
