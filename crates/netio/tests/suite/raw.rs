//! Bare ESP, AH and ICMP errors between two namespaces. Needs root.

use crate::common;

use common::{LEFT, RIGHT, namespaces};
use netio::clock;
use netio::poll;
use netio::raw::{HEADROOM, Kind, RawReceiver, RawSender};
use netio::udp::Family;
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};
use wire::ip::Headers;
use wire::ipv4::Ipv4Repr;
use wire::ipv6::{Ipv6, Ipv6Repr};
use wire::{Buf, DropReason, Meta, Packet, Pool, icmp, protocol, stage};

/// Evidence of every step, for packets that a test puts at some stage.
struct Placed;
impl<From, To> wire::Evidence<From, To> for Placed {}

const LIMIT: Option<Duration> = Some(Duration::from_secs(5));

/// The flow label of IPv6 packets.
const LABEL: u32 = 0x4_2a17;

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
                flow_label: LABEL,
                payload_len,
            };
            wire::ipv6::emit(&mut bytes, &repr).unwrap();
        }
        _ => unreachable!(),
    }
    bytes.extend(payload);
    let meta = Meta { may_fragment, ..Meta::default() };
    Packet::from_host(Buf::from_slice(&bytes, 0, 0), meta)
        .advance::<stage::Selected>(&Placed)
        .advance::<stage::Scheduled>(&Placed)
        .advance(&Placed)
}

fn receive(receiver: &mut RawReceiver, pool: &mut Pool) -> Packet<stage::Raw> {
    let mut got = Vec::new();
    assert_eq!(poll::readable([receiver.as_fd()], LIMIT).unwrap(), [true]);
    let received = receiver.recv(clock::monotonic(), pool, &mut got).unwrap();
    assert_eq!((received.datagrams, received.truncated, received.more), (1, 0, false));
    got.pop().unwrap()
}

/// Whether no packet waits at the receiver.
fn is_empty(receiver: &mut RawReceiver, pool: &mut Pool) -> bool {
    receiver.recv(clock::monotonic(), pool, &mut Vec::new()).unwrap().datagrams == 0
}

/// Send these, as one batch; the reasons of those that did not leave.
fn send(sender: &mut RawSender, packets: Vec<Packet<stage::Outer>>) -> Vec<DropReason> {
    let (mut pool, mut reasons) = (pool(), Vec::new());
    for packet in packets {
        sender.send(packet, 1500, None, &mut pool, &mut |_, _, answer| reasons.extend(answer.err()));
    }
    sender.flush(&mut pool, &mut |_, _, answer| reasons.extend(answer.err()));
    reasons
}

#[test]
fn bare_esp_and_ah_travel_with_their_headers() {
    let (left, right) = namespaces("rvl-raw", 1500);
    for (v6, family) in [(false, Family::V4), (true, Family::V6)] {
        let kinds = [
            (Kind::Esp, protocol::ESP),
            (Kind::Ah, protocol::AH),
            (Kind::Ipv4, protocol::IPV4),
            (Kind::Ipv6, protocol::IPV6),
        ];
        for (kind, number) in kinds {
            let mut receiver = right.run(|| RawReceiver::open(family, kind)).unwrap().unwrap().unwrap();
            let mut sender = left.run(|| RawSender::open(9)).unwrap().unwrap();
            let mut pool = pool();
            for len in [8, 100, 1400] {
                let payload: Vec<u8> = (0..len).map(|i| (i * 3 + number as usize) as u8).collect();
                let make = || packet(v6, number, 0x2e << 2 | 1, &payload, false);
                let sent = make();
                assert_eq!(send(&mut sender, vec![make()]), []);
                let got = receive(&mut receiver, &mut pool);
                let headers = Headers::parse(got.bytes()).unwrap();
                let expected = Headers::parse(sent.bytes()).unwrap();
                assert_eq!(
                    (headers.src, headers.dst, headers.protocol),
                    (expected.src, expected.dst, number)
                );
                assert_eq!((headers.tos, headers.ttl), (0x2e << 2 | 1, 61));
                if v6 {
                    assert_eq!(Ipv6::new_checked(got.bytes()).unwrap().flow_label(), LABEL);
                }
                assert_eq!(headers.upper(got.bytes()), payload);
            }
            // Too big for the wire: refused, or cut where it may be, and whole again at the other end.
            let long: Vec<u8> = (0..4000).map(|i| (i % 251) as u8).collect();
            let refused = send(&mut sender, vec![packet(v6, number, 0, &long, false)]);
            assert_eq!(refused, [DropReason::TooBig]);
            for _ in 0..2 {
                assert_eq!(send(&mut sender, vec![packet(v6, number, 0, &long, true)]), []);
                let got = receive(&mut receiver, &mut pool);
                let headers = Headers::parse(got.bytes()).unwrap();
                assert_eq!(headers.upper(got.bytes()), long, "{family:?} {kind:?}");
                assert!(headers.fragment.is_none());
            }
            assert!(is_empty(&mut receiver, &mut pool));
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
        assert!(is_empty(&mut receiver, &mut pool));
    }
    drop(right);
}

/// 150 packets of both families, numbered, some of which the kernel does not take.
#[test]
fn a_batch_leaves_in_order_without_those_that_do_not_fit() {
    let (left, right) = namespaces("rvl-rawmany", 1500);
    let open = |family| right.run(|| RawReceiver::open(family, Kind::Esp)).unwrap().unwrap().unwrap();
    let mut receivers = [open(Family::V4), open(Family::V6)];
    let mut sender = left.run(|| RawSender::open(9)).unwrap().unwrap();
    let is_long = |n: u32| n % 40 == 7;
    let all: Vec<_> = (0..150_u32)
        .map(|n| {
            let mut payload = n.to_be_bytes().to_vec();
            payload.resize(if is_long(n) { 3000 } else { 8 + n as usize }, 1);
            packet(n % 3 == 0, protocol::ESP, 0, &payload, false)
        })
        .collect();
    let refused = send(&mut sender, all);
    assert_eq!(refused, [DropReason::TooBig; 4]);
    for (v6, receiver) in [false, true].into_iter().zip(&mut receivers) {
        let mut pool = pool();
        let wanted: Vec<u32> = (0..150).filter(|n| (n % 3 == 0) == v6 && !is_long(*n)).collect();
        let (mut got, mut calls) = (Vec::new(), 0);
        while got.len() < wanted.len() {
            assert_eq!(poll::readable([receiver.as_fd()], LIMIT).unwrap(), [true]);
            let received = receiver.recv(clock::monotonic(), &mut pool, &mut got).unwrap();
            assert_eq!(received.truncated, 0);
            calls += 1;
        }
        let numbers = got.iter().map(|packet| {
            let headers = Headers::parse(packet.bytes()).unwrap();
            let payload = headers.upper(packet.bytes());
            assert_eq!(payload.len(), 8 + *payload.get(3).unwrap() as usize);
            u32::from_be_bytes(*payload.first_chunk().unwrap())
        });
        assert_eq!(numbers.collect::<Vec<_>>(), wanted);
        // All were there before the first call.
        assert_eq!(calls, wanted.len().div_ceil(32), "packets of one call");
        assert!(is_empty(receiver, &mut pool));
        assert_eq!(receiver.lost(), 0);
    }
}

#[test]
fn what_is_cut_keeps_its_place() {
    let (left, right) = namespaces("rvl-rawcut", 1500);
    let mut receiver = right.run(|| RawReceiver::open(Family::V4, Kind::Esp)).unwrap().unwrap().unwrap();
    let mut sender = left.run(|| RawSender::open(9)).unwrap().unwrap();
    let lens = [100, 4000, 200];
    let all = lens.map(|len| packet(false, protocol::ESP, 0, &vec![5; len], true));
    assert_eq!(send(&mut sender, all.into()), []);
    let (mut pool, mut got) = (pool(), Vec::new());
    while got.len() < lens.len() {
        assert_eq!(poll::readable([receiver.as_fd()], LIMIT).unwrap(), [true]);
        receiver.recv(clock::monotonic(), &mut pool, &mut got).unwrap();
    }
    let seen: Vec<usize> = got.iter().map(|packet| packet.bytes().len() - 20).collect();
    assert_eq!(seen, lens);
}

#[test]
fn who_cannot_be_reached_takes_nobody_along() {
    let (left, _right) = namespaces("rvl-rawgone", 1500);
    let mut sender = left.run(|| RawSender::open(9)).unwrap().unwrap();
    let nowhere = |n: u8| {
        let mut bytes = vec![0; 20];
        let (src, dst) = (LEFT.0.parse().unwrap(), [203, 0, 113, n].into());
        let repr = Ipv4Repr { src, dst, protocol: 50, ttl: 61, tos: 0, id: 0, df: true, payload_len: 8 };
        bytes.extend([0; 8]);
        wire::ipv4::emit(&mut bytes, &repr).unwrap();
        Packet::from_host(Buf::from_slice(&bytes, 0, 0), Meta::default())
            .advance::<stage::Selected>(&Placed)
            .advance::<stage::Scheduled>(&Placed)
            .advance(&Placed)
    };
    let all = vec![nowhere(1), packet(false, protocol::ESP, 0, &[1; 8], false), nowhere(2)];
    assert_eq!(send(&mut sender, all), [DropReason::Unroutable; 2]);
}

/// The kernel must not take an error about ESP or AH for news of its own: the path of every program would shrink, on anybody's word.
#[test]
fn an_error_in_clear_shrinks_no_path() {
    let (left, right) = namespaces("rvl-rawpmtu", 1500);
    for (number, marker, shrinks) in
        [(protocol::ESP, 1000, false), (protocol::AH, 900, false), (254, 800, true)]
    {
        let kinds = [Kind::Esp, Kind::Ah, Kind::Errors]
            .map(|kind| left.run(move || RawReceiver::open(Family::V4, kind)));
        // The control: the kernel believes an error about the protocol of a raw socket that has the default setting.
        let careless = left
            .run(move || Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(254))))
            .unwrap()
            .unwrap();
        // One error about the protocol, and behind it one about 254 with a larger MTU, which the kernel always believes:
        // once a path MTU is there, the first error has been read. A busy kernel reads them some time after their send.
        let about = |number, mtu: u16| {
            let mut error = vec![3, 4, 0, 0, 0, 0];
            error.extend(mtu.to_be_bytes());
            error.extend(packet(false, number, 0, &[0; 64], false).bytes());
            let sum = wire::checksum::ip_checksum(&error);
            error[2..4].copy_from_slice(&sum.to_be_bytes());
            error
        };
        let errors = [about(number, 552), about(254, marker)];
        let sent = right.run(move || {
            let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).unwrap();
            errors.map(|error| socket.send_to(&error, &SocketAddr::from((addr(LEFT.0), 0)).into()).unwrap())
        });
        assert_eq!(sent.unwrap(), [92; 2]);
        let wanted = if shrinks { 552 } else { marker };
        let learnt = || {
            let text = Command::new("ip").args(["route", "get", RIGHT.0]).output().unwrap().stdout;
            let text = String::from_utf8(text).unwrap();
            text.split("mtu ")
                .nth(1)
                .map(|rest| rest.split_whitespace().next().unwrap().parse::<u16>().unwrap())
        };
        let until = Instant::now() + Duration::from_secs(30);
        let mut mtu = None;
        while mtu != Some(wanted) && mtu != Some(552) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
            mtu = left.run(learnt).unwrap();
        }
        assert_eq!(mtu, Some(wanted), "an error about protocol {number}");
        drop((kinds, careless));
    }
}
