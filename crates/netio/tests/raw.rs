//! Bare ESP, AH and ICMP errors between two namespaces. Needs root.

mod common;

use common::{LEFT, RIGHT, namespaces};
use netio::clock;
use netio::poll;
use netio::raw::{FromRaw, HEADROOM, Kind, RawReceiver, RawSender};
use netio::udp::Family;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;
use wire::ip::Headers;
use wire::ipv4::Ipv4Repr;
use wire::ipv6::Ipv6Repr;
use wire::{Buf, DropReason, Meta, Packet, Pool, icmp, protocol, stage};

const LIMIT: Option<Duration> = Some(Duration::from_secs(5));

fn addr(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn pool() -> Pool {
    Pool::new(HEADROOM + 65535, HEADROOM, 4)
}

/// A whole packet of this protocol from left to right.
fn packet(v6: bool, number: u8, tos: u8, payload: &[u8], may_fragment: bool) -> Packet<stage::Outer> {
    let (src, dst) = if v6 { (LEFT.1, RIGHT.1) } else { (LEFT.0, RIGHT.0) };
    let payload_len = payload.len();
    let mut bytes = vec![0; if v6 { 40 } else { 20 }];
    match (addr(src), addr(dst)) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let df = !may_fragment;
            let repr = Ipv4Repr { src, dst, protocol: number, ttl: 61, tos, id: 77, df, payload_len };
            wire::ipv4::emit(&mut bytes, &repr).unwrap();
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let repr = Ipv6Repr {
                src,
                dst,
                next_header: number,
                hop_limit: 61,
                traffic_class: tos,
                flow_label: 0,
                payload_len,
            };
            wire::ipv6::emit(&mut bytes, &repr).unwrap();
        }
        _ => unreachable!(),
    }
    bytes.extend(payload);
    let meta = Meta { may_fragment, ..Meta::default() };
    Packet::from_host(Buf::from_slice(&bytes, 0, 0), meta)
        .advance::<stage::Selected>()
        .advance::<stage::Scheduled>()
        .advance()
}

fn receive(receiver: &mut RawReceiver, pool: &mut Pool) -> Packet<stage::Raw> {
    assert_eq!(poll::readable([receiver.as_fd()], LIMIT).unwrap(), [true]);
    match receiver.recv(clock::monotonic(), pool).unwrap() {
        FromRaw::Packet(packet) => packet,
        other => panic!("{other:?}"),
    }
}

#[test]
fn bare_esp_and_ah_travel_with_their_headers() {
    let (left, right) = namespaces("rvl-raw", 1500);
    for (v6, family) in [(false, Family::V4), (true, Family::V6)] {
        for (kind, number) in [(Kind::Esp, protocol::ESP), (Kind::Ah, protocol::AH)] {
            let mut receiver = right.run(|| RawReceiver::open(family, kind)).unwrap().unwrap().unwrap();
            let mut sender = left.run(|| RawSender::open(9)).unwrap().unwrap();
            let mut pool = pool();
            for len in [8, 100, 1400] {
                let payload: Vec<u8> = (0..len).map(|i| (i * 3 + number as usize) as u8).collect();
                let sent = packet(v6, number, 0x2e << 2 | 1, &payload, false);
                sender.send(&sent, 1500).unwrap();
                let got = receive(&mut receiver, &mut pool);
                let headers = Headers::parse(got.bytes()).unwrap();
                let expected = Headers::parse(sent.bytes()).unwrap();
                assert_eq!(
                    (headers.src, headers.dst, headers.protocol),
                    (expected.src, expected.dst, number)
                );
                assert_eq!((headers.tos, headers.ttl), (0x2e << 2 | 1, 61));
                assert_eq!(headers.upper(got.bytes()), payload);
            }
            // Too big for the wire: refused, or cut where it may be, and whole again at the other end.
            let long: Vec<u8> = (0..4000).map(|i| (i % 251) as u8).collect();
            assert_eq!(sender.send(&packet(v6, number, 0, &long, false), 1500), Err(DropReason::TooBig));
            for _ in 0..2 {
                sender.send(&packet(v6, number, 0, &long, true), 1500).unwrap();
                let got = receive(&mut receiver, &mut pool);
                let headers = Headers::parse(got.bytes()).unwrap();
                assert_eq!(headers.upper(got.bytes()), long, "{family:?} {kind:?}");
                assert!(headers.fragment.is_none());
            }
            assert!(matches!(receiver.recv(clock::monotonic(), &mut pool).unwrap(), FromRaw::Empty));
        }
    }
}

#[test]
fn only_errors_arrive_as_errors() {
    let (left, right) = namespaces("rvl-rawerr", 1500);
    for (v6, family) in [(false, Family::V4), (true, Family::V6)] {
        let mut receiver = left.run(|| RawReceiver::open(family, Kind::Errors)).unwrap().unwrap().unwrap();
        let (here, there) = if v6 { (LEFT.1, RIGHT.1) } else { (LEFT.0, RIGHT.0) };
        // A closed port answers with an error, and a neighbour that is looked for does not count.
        let socket = left.run(|| UdpSocket::bind((addr(here), 0))).unwrap().unwrap();
        socket.send_to(b"is anybody there", (addr(there), 9999)).unwrap();
        let mut pool = pool();
        let got = receive(&mut receiver, &mut pool);
        let headers = Headers::parse(got.bytes()).unwrap();
        assert_eq!((headers.src, headers.dst), (addr(there), addr(here)));
        let upper = headers.upper(got.bytes());
        let (kind, quoted) = if v6 {
            let icmp = icmp::Icmpv6::new_checked(upper).unwrap();
            ((icmp.kind(), icmp.code()), icmp.payload().to_vec())
        } else {
            let icmp = icmp::Icmpv4::new_checked(upper).unwrap();
            ((icmp.kind(), icmp.code()), icmp.payload().to_vec())
        };
        assert_eq!(kind, if v6 { (1, 4) } else { (3, 3) });
        let quoted = Headers::parse(&quoted).unwrap();
        assert_eq!((quoted.src, quoted.dst, quoted.protocol), (addr(here), addr(there), protocol::UDP));
        assert!(matches!(receiver.recv(clock::monotonic(), &mut pool).unwrap(), FromRaw::Empty));
    }
    drop(right);
}
