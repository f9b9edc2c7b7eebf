//! ICMP errors that quote ESP and AH, whole, cut short and odd.

use proptest::prelude::*;
use wire::ip::Headers;
use wire::quote::{IcmpError, Quoted};
use wire::{DropReason, checksum, protocol};

const SPI: u32 = 0x0102_0304;
const SEQUENCE: u32 = 0x0506_0708;

/// A packet of this protocol in either family; its length field says 1400 octets.
fn packet(v6: bool, number: u8, upper: &[u8]) -> Vec<u8> {
    let mut bytes = if v6 {
        let mut bytes = vec![0x60, 0, 0, 0, 0x05, 0x50, number, 60];
        bytes.extend((1..=16).chain(101..=116).map(|octet: u8| octet));
        bytes
    } else {
        let mut bytes = vec![0x45, 0, 0x05, 0x78, 0, 0, 0x40, 0, 60, number, 0, 0];
        bytes.extend([192, 0, 2, 1, 198, 51, 100, 2]);
        bytes
    };
    bytes.extend(upper);
    bytes
}

/// The flow of what an error quotes.
fn flow_of(quoted: &[u8]) -> Option<wire::Flow> {
    Quoted::read(quoted[0] >> 4, quoted)?.flow()
}

/// A type stands in the local port, whoever looks at the packet and whether it is quoted or not.
#[test]
fn the_type_of_a_packet_without_ports() {
    let echo = [8, 3, 0, 0, 0, 0, 0, 0];
    let binding = [59, 0, 5, 0, 0, 0, 0, 0];
    for (v6, number, upper, kind) in [
        (false, protocol::ICMP, echo, 0x0803),
        (true, protocol::ICMPV6, echo, 0x0803),
        (true, protocol::ICMP, echo, 0),
        (true, protocol::MOBILITY, binding, 0x0500),
    ] {
        let mut bytes = packet(v6, number, &upper);
        bytes.resize(1400, 0);
        let headers = Headers::parse(&bytes).unwrap();
        let [sent, arrived] = [true, false].map(|outbound| wire::ip::flow(&bytes, &headers, outbound));
        assert_eq!((sent.local_port, sent.remote_port), (kind, 0));
        assert_eq!(sent.reversed(), arrived);
        assert_eq!(flow_of(&bytes), Some(sent));
        // Cut in front of it.
        let short = flow_of(&bytes[..headers.header_len + 1]).unwrap();
        assert_eq!(short.local_port, 0);
    }
    let mut ports = packet(false, protocol::TCP, &[1, 2, 3, 4]);
    let flow = flow_of(&ports).unwrap();
    assert_eq!((flow.local_port, flow.reversed().local_port), (0x0102, 0x0304));
    // A later fragment has other octets there.
    for number in [protocol::TCP, protocol::ICMP] {
        (ports[6], ports[7], ports[9]) = (0x20, 1, number);
        let flow = flow_of(&ports).unwrap();
        assert_eq!((flow.local_port, flow.remote_port), (0, 0));
    }
}

fn name() -> Vec<u8> {
    [SPI.to_be_bytes(), SEQUENCE.to_be_bytes()].concat()
}

fn udp(payload: &[u8]) -> Vec<u8> {
    [&[0x11, 0x94, 0x4e, 0x21, 0, 0, 0, 0], payload].concat()
}

fn error(v6: bool, kind: u8, code: u8, mtu: u16, quoted: &[u8]) -> Vec<u8> {
    let message = [&[kind, code, 0, 0, 0, 0][..], &mtu.to_be_bytes(), quoted].concat();
    let mut bytes = if v6 {
        let mut bytes = vec![0x60, 0, 0, 0, 0, 0, protocol::ICMPV6, 60];
        bytes[4..6].copy_from_slice(&(message.len() as u16).to_be_bytes());
        bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
        bytes.extend(1..=16);
        bytes
    } else {
        let mut bytes =
            vec![0x45, 0, 0, 0, 0, 0, 0, 0, 60, protocol::ICMP, 0, 0, 203, 0, 113, 9, 192, 0, 2, 1];
        bytes[2..4].copy_from_slice(&(20 + message.len() as u16).to_be_bytes());
        bytes
    };
    bytes.extend(message);
    let headers = Headers::parse(&bytes).unwrap();
    checksum::complete_transport(&mut bytes, &headers).unwrap();
    bytes
}

#[test]
fn esp_ah_and_esp_in_udp_are_read() {
    for v6 in [false, true] {
        let (kind, code) = if v6 { (2, 0) } else { (3, 4) };
        let ah = [&[4, 4, 0, 0][..], &name()].concat();
        for (number, upper, ports) in [
            (protocol::ESP, name(), None),
            (protocol::AH, ah, None),
            (protocol::UDP, udp(&name()), Some((4500, 20_001))),
        ] {
            let read = IcmpError::parse(&error(v6, kind, code, 1300, &packet(v6, number, &upper))).unwrap();
            assert_eq!((read.version, read.kind, read.code), (if v6 { 6 } else { 4 }, kind, code));
            assert_eq!((read.mtu, read.quote.protocol), (Some(1300), number));
            assert_eq!((read.quote.name, read.quote.ports), (Some((SPI, SEQUENCE)), ports));
            assert_eq!(read.quote.total_len, 1400);
            let (src, dst) = if v6 {
                ("102:304:506:708:90a:b0c:d0e:f10", "6566:6768:696a:6b6c:6d6e:6f70:7172:7374")
            } else {
                ("192.0.2.1", "198.51.100.2")
            };
            assert_eq!(
                (read.quote.src.to_string().as_str(), read.quote.dst.to_string().as_str()),
                (src, dst)
            );
            // One octet less of the name is no name.
            let cut = packet(v6, number, &upper[..upper.len() - 1]);
            assert_eq!(IcmpError::parse(&error(v6, kind, code, 1300, &cut)).unwrap().quote.name, None);
        }
        // Other errors have no MTU.
        let other = error(v6, if v6 { 1 } else { 11 }, 0, 1300, &packet(v6, protocol::ESP, &name()));
        assert_eq!(IcmpError::parse(&other).unwrap().mtu, None);
    }
}

#[test]
fn options_and_extension_headers_are_passed_over() {
    let mut v4 = packet(false, protocol::ESP, &[]);
    v4[0] = 0x47;
    v4.extend([1; 8]);
    v4.extend(name());
    assert_eq!(IcmpError::parse(&error(false, 3, 4, 1300, &v4)).unwrap().quote.name, Some((SPI, SEQUENCE)));
    // Hop-by-hop, destination options of 16 octets, a first fragment.
    let chain =
        [&[60, 0, 1, 4, 0, 0, 0, 0, 44, 1][..], &[0; 14], &[50, 0, 0, 1, 0, 0, 0, 7], &name()].concat();
    let read = IcmpError::parse(&error(true, 2, 0, 1300, &packet(true, 0, &chain))).unwrap();
    assert_eq!((read.quote.protocol, read.quote.name), (protocol::ESP, Some((SPI, SEQUENCE))));
}

#[test]
fn later_fragments_have_no_name() {
    let mut v4 = packet(false, protocol::ESP, &name());
    v4[7] = 5;
    assert_eq!(IcmpError::parse(&error(false, 3, 4, 1300, &v4)).unwrap().quote.name, None);
    let chain = [&[50, 0, 0, 8, 0, 0, 0, 7][..], &name()].concat();
    let read = IcmpError::parse(&error(true, 2, 0, 1300, &packet(true, 44, &chain))).unwrap();
    assert_eq!(read.quote.name, None);
}

#[test]
fn what_is_no_error_about_a_packet_is_refused() {
    let quoted = packet(false, protocol::ESP, &name());
    let good = error(false, 3, 4, 1300, &quoted);
    assert!(IcmpError::parse(&good).is_ok());
    let refused = |bytes: &[u8]| IcmpError::parse(bytes).unwrap_err();
    assert_eq!(refused(&error(false, 8, 0, 0, &quoted)), DropReason::IcmpRefused);
    assert_eq!(refused(&error(false, 5, 0, 0, &quoted)), DropReason::IcmpRefused);
    assert_eq!(refused(&error(true, 128, 0, 0, &packet(true, 50, &name()))), DropReason::IcmpRefused);
    assert_eq!(refused(&packet(false, protocol::ESP, &[0; 1380])), DropReason::IcmpRefused);
    assert_eq!(refused(&error(false, 3, 4, 1300, &quoted[..19])), DropReason::Truncated);
    assert_eq!(refused(&error(false, 3, 4, 1300, &packet(true, 50, &name()))), DropReason::Truncated);
    assert_eq!(refused(&error(true, 2, 0, 1300, &quoted)), DropReason::Truncated);
    let mut damaged = good;
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(refused(&damaged), DropReason::BadChecksum);
    assert_eq!(refused(&[]), DropReason::Truncated);
    // IKE behind its marker is not ESP.
    let ike = packet(false, protocol::UDP, &udp(&[0; 12]));
    assert_eq!(IcmpError::parse(&error(false, 3, 4, 1300, &ike)).unwrap().quote.name, None);
}

#[test]
fn what_is_quoted_of_any_protocol() {
    for v6 in [false, true] {
        let ports = [0x9c, 0x40, 0, 80, 1, 2, 3, 4];
        let tcp = packet(v6, protocol::TCP, &ports);
        let read = |bytes: &[u8]| Quoted::read(if v6 { 6 } else { 4 }, bytes);
        let quoted = read(&tcp).expect("a header");
        assert_eq!((quoted.ports, quoted.seq, quoted.echo), (Some((40000, 80)), Some(0x01020304), None));
        assert_eq!((quoted.header_len, quoted.total_len), (tcp.len() - 8, 1400));
        assert_eq!(read(&tcp[..tcp.len() - 1]).expect("a header").seq, None);
        assert_eq!(read(&tcp[..tcp.len() - 5]).expect("a header").ports, None);
        assert_eq!(read(&tcp[..19]), None);
        let (icmp, other) =
            if v6 { (protocol::ICMPV6, protocol::ICMP) } else { (protocol::ICMP, protocol::ICMPV6) };
        let echo = [8, 0, 0, 0, 0, 7, 0, 1];
        assert_eq!(read(&packet(v6, icmp, &echo)).expect("a header").echo, Some((8, 7)));
        assert_eq!(read(&packet(v6, other, &echo)).expect("a header").echo, None);
    }
    let mut later = packet(false, protocol::UDP, &[0; 8]);
    later[7] = 1;
    assert_eq!(Quoted::read(4, &later).expect("a header").ports, None);
}

/// A segment with its numbers moved is what its sender would have sent: its checksum is right if all of it is quoted.
#[test]
fn a_quoted_segment_gets_other_numbers() {
    let be = |number: u32| number.to_be_bytes();
    let segment = |seq: u32, ack: u32, edges: [u32; 4], flags: u8| {
        let mut bytes =
            [&[0x9c, 0x40, 0, 80][..], &be(seq), &be(ack), &[0xb0, flags, 1, 2, 0, 0, 0, 0]].concat();
        bytes.extend([1, 1, 5, 18]);
        edges.iter().for_each(|edge| bytes.extend(be(*edge)));
        bytes.extend([1, 1, 1, 0]);
        bytes.extend(b"odd data!");
        bytes
    };
    for v6 in [false, true] {
        let whole = |upper: &[u8]| {
            let mut bytes = packet(v6, protocol::TCP, upper);
            let (at, len) = if v6 { (4, bytes.len() - 40) } else { (2, bytes.len()) };
            bytes[at..at + 2].copy_from_slice(&(len as u16).to_be_bytes());
            let headers = Headers::parse(&bytes).unwrap();
            checksum::complete_transport(&mut bytes, &headers).unwrap();
            bytes
        };
        let (before, after) = (u32::MAX - 5, 94);
        let edges = [before, 100, 200, 300];
        let sent = whole(&segment(7, before, edges, 0x10));
        let read = |bytes: &[u8]| Quoted::read(if v6 { 6 } else { 4 }, bytes).expect("a header");
        for len in 8..=sent.len() - read(&sent).header_len {
            let end = read(&sent).header_len + len;
            let mut quote = sent[..end].to_vec();
            assert!(read(&quote).renumber(&mut quote, 1000, 100));
            let moved = whole(&segment(1007, after, edges.map(|edge| edge.wrapping_add(100)), 0x10));
            // The checksum of all, where all is there; blocks only where all options are.
            let known = match len {
                ..18 => len.min(if len < 12 { 8 } else { 16 }),
                18..44 => 16,
                _ => len,
            };
            let from = read(&sent).header_len;
            assert_eq!(quote[..from + known], moved[..from + known], "{len} octets");
        }
        // One that acknowledges nothing has no number there.
        let syn = whole(&segment(7, 0, [0; 4], 0x02));
        let mut quote = syn.clone();
        assert!(!read(&syn).renumber(&mut quote, 0, 100));
        assert_eq!(quote, syn);
        let mut cut = syn[..read(&syn).header_len + 12].to_vec();
        assert!(!read(&syn).renumber(&mut cut, 0, 100));
    }
}

proptest! {
    #[test]
    fn no_octets_are_too_odd(v6: bool, kind: u8, quoted in prop::collection::vec(any::<u8>(), 0..200), first in 0u8..3) {
        let mut quoted = quoted;
        if let Some(octet) = quoted.first_mut() {
            *octet = [*octet, 0x45, 0x60][usize::from(first)];
        }
        for version in [4, 6] {
            if let Some(read) = Quoted::read(version, &quoted) {
                read.renumber(&mut quoted.clone(), 1, 2);
            }
        }
        let _ = IcmpError::parse(&error(v6, kind, 0, 1, &quoted));
    }
}
