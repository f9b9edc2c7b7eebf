//! The UDP transport and the clear sender between two namespaces. Needs root.

use crate::common;

use common::{LEFT, RIGHT, namespaces};
use netio::clear::ClearSender;
use netio::clock;
use netio::netns::Netns;
use netio::poll;
use netio::udp::{Family, HEADROOM, MAX_DATAGRAM, UdpOptions, UdpTransport};
use std::net::{IpAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;
use wire::ip::Headers;
use wire::udp::Udp;
use wire::{Buf, DropReason, Meta, Packet, Pool, stage};

/// Evidence of every step, for packets that a test puts at some stage.
struct Placed;
impl<From, To> wire::Evidence<From, To> for Placed {}

const LIMIT: Option<Duration> = Some(Duration::from_secs(5));

struct Pair {
    left: Netns,
    right: Netns,
}

fn addr(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn pair(name: &str) -> Pair {
    let (left, right) = namespaces(name, 1500);
    Pair { left, right }
}

fn pool() -> Pool {
    Pool::new(HEADROOM + MAX_DATAGRAM, HEADROOM, 32)
}

struct Outer<'a> {
    src: &'a str,
    dst: &'a str,
    port: u16,
    to: u16,
    tos: u8,
    ttl: u8,
    payload: &'a [u8],
}

/// A whole outer packet as the engine writes it.
fn outer(o: &Outer<'_>) -> Vec<u8> {
    let (src, dst) = (addr(o.src), addr(o.dst));
    let payload_len = o.payload.len() + 8;
    let header = if src.is_ipv4() { 20 } else { 40 };
    let mut packet = vec![0; header + payload_len];
    packet[header + 8..].copy_from_slice(o.payload);
    let udp = wire::udp::UdpRepr { src_port: o.port, dst_port: o.to, payload_len: o.payload.len() };
    wire::udp::emit(&mut packet[header..], &udp).unwrap();
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let repr = wire::ipv4::Ipv4Repr {
                src,
                dst,
                protocol: 17,
                ttl: o.ttl,
                tos: o.tos,
                id: 0,
                df: true,
                payload_len,
            };
            wire::ipv4::emit(&mut packet, &repr).unwrap();
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let repr = wire::ipv6::Ipv6Repr {
                src,
                dst,
                next_header: 17,
                hop_limit: o.ttl,
                traffic_class: o.tos,
                flow_label: 0,
                payload_len,
            };
            wire::ipv6::emit(&mut packet, &repr).unwrap();
        }
        _ => unreachable!(),
    }
    wire::udp::Udp::new_checked(&mut packet[header..]).unwrap().fill_checksum(src, dst);
    packet
}

/// The stages up to Outer, as the engine walks them.
fn packet(bytes: &[u8], may_fragment: bool) -> Packet<stage::Outer> {
    let meta = Meta { may_fragment, ..Meta::default() };
    let inner = Packet::from_host(Buf::from_slice(bytes, 0, 0), meta);
    inner
        .advance::<stage::Selected>(&Placed)
        .advance::<stage::Scheduled>(&Placed)
        .advance::<stage::Outer>(&Placed)
}

fn receive(transport: &mut UdpTransport, family: Family, pool: &mut Pool) -> Vec<Packet<stage::Raw>> {
    let mut out = Vec::new();
    let [ready] = poll::readable([transport.fd(family).unwrap()], LIMIT).unwrap();
    assert!(ready, "nothing came");
    while transport.recv(family, clock::monotonic(), pool, &mut out).unwrap().more {}
    out
}

#[test]
fn whole_packets_go_in_and_come_out() {
    let hosts = pair("nt-udp");
    let options = UdpOptions { port: 4500, ..UdpOptions::default() };
    let sender = hosts.left.run(|| UdpTransport::open(&options)).unwrap().unwrap();
    let mut receiver = hosts.right.run(|| UdpTransport::open(&options)).unwrap().unwrap();
    let mut pool = pool();
    let big: Vec<u8> = (0..4000u32).map(|n| n as u8).collect();
    for (family, src, dst) in [(Family::V4, LEFT.0, RIGHT.0), (Family::V6, LEFT.1, RIGHT.1)] {
        let small = Outer { src, dst, port: 4500, to: 4500, tos: 0xb9, ttl: 61, payload: b"an ESP packet" };
        let bytes = outer(&small);
        sender.send(&packet(&bytes, false)).unwrap();
        let got = receive(&mut receiver, family, &mut pool);
        assert_eq!(got.len(), 1);
        let headers = Headers::parse(got[0].bytes()).unwrap();
        assert_eq!((headers.src, headers.dst), (addr(src), addr(dst)));
        assert_eq!((headers.tos, headers.ttl, got[0].meta.tos), (0xb9, 61, 0xb9));
        assert_eq!(headers.total_len, got[0].bytes().len());
        assert!(wire::ip::checksum_ok(got[0].bytes(), &headers));
        let udp = Udp::new_checked(headers.upper(got[0].bytes())).unwrap();
        assert_eq!((udp.src_port(), udp.dst_port(), udp.payload()), (4500, 4500, &b"an ESP packet"[..]));

        // Larger than the device: refused whole, carried by the fragmenting socket.
        let large = outer(&Outer { payload: &big, ..small });
        assert_eq!(sender.send(&packet(&large, false)), Err(DropReason::TooBig), "{family:?}");
        sender.send(&packet(&large, true)).unwrap();
        let got = receive(&mut receiver, family, &mut pool);
        assert_eq!(got.len(), 1);
        let headers = Headers::parse(got[0].bytes()).unwrap();
        assert_eq!(Udp::new_checked(headers.upper(got[0].bytes())).unwrap().payload(), &big[..]);
    }
    assert_eq!(receiver.lost(), 0);
}

#[test]
fn many_datagrams_come_in_order_and_buffers_are_used_again() {
    let hosts = pair("nt-udpmany");
    let options = UdpOptions::default();
    let sender = hosts.left.run(|| UdpTransport::open(&options)).unwrap().unwrap();
    let mut receiver = hosts.right.run(|| UdpTransport::open(&options)).unwrap().unwrap();
    let mut pool = Pool::new(HEADROOM + MAX_DATAGRAM, HEADROOM, 128);
    let mut numbers = Vec::new();
    for round in 0..10u32 {
        for n in round * 50..round * 50 + 50 {
            let payload = n.to_be_bytes();
            let o =
                Outer { src: LEFT.0, dst: RIGHT.0, port: 4500, to: 4500, tos: 0, ttl: 64, payload: &payload };
            sender.send(&packet(&outer(&o), n % 7 == 0)).unwrap();
        }
        while numbers.len() < (round as usize + 1) * 50 {
            for got in receive(&mut receiver, Family::V4, &mut pool) {
                numbers.push(u32::from_be_bytes(got.bytes()[28..].try_into().unwrap()));
                pool.put(got.into_buf());
            }
        }
    }
    assert_eq!(
        numbers,
        (0..500).collect::<Vec<_>>(),
        "both sockets of the sender are heard by one of the receiver"
    );
    assert!(pool.allocated() <= 16 + 50, "{} buffers were made", pool.allocated());
}

#[test]
fn the_fragmenting_socket_never_receives() {
    let hosts = pair("nt-udpfirst");
    let mut transport = hosts.left.run(|| UdpTransport::open(&UdpOptions::default())).unwrap().unwrap();
    let mut pool = pool();
    for (family, from, to) in [(Family::V4, RIGHT.0, LEFT.0), (Family::V6, RIGHT.1, LEFT.1)] {
        // The kernel would spread 40 peers over both sockets by a hash of their ports.
        for _ in 0..40 {
            let peer = hosts.right.run(|| UdpSocket::bind((addr(from), 0)).unwrap()).unwrap();
            peer.send_to(b"to the first", (addr(to), 4500)).unwrap();
            assert_eq!(receive(&mut transport, family, &mut pool).len(), 1);
        }
    }
}

#[test]
fn a_plain_peer_behind_another_port_is_answered() {
    let hosts = pair("nt-udpport");
    let mut transport = hosts.left.run(|| UdpTransport::open(&UdpOptions::default())).unwrap().unwrap();
    let peer = hosts.right.run(|| UdpSocket::bind((addr(RIGHT.0), 51000)).unwrap()).unwrap();
    peer.set_read_timeout(LIMIT).unwrap();
    peer.send_to(b"hello", (addr(LEFT.0), 4500)).unwrap();
    let mut pool = pool();
    let got = receive(&mut transport, Family::V4, &mut pool);
    let headers = Headers::parse(got[0].bytes()).unwrap();
    let udp = Udp::new_checked(headers.upper(got[0].bytes())).unwrap();
    assert_eq!((headers.src, udp.src_port(), udp.dst_port()), (addr(RIGHT.0), 51000, 4500));
    let o = Outer { src: LEFT.0, dst: RIGHT.0, port: 4500, to: 51000, tos: 0, ttl: 64, payload: b"answer" };
    transport.send(&packet(&outer(&o), false)).unwrap();
    let mut buf = [0; 100];
    let (len, from) = peer.recv_from(&mut buf).unwrap();
    assert_eq!((&buf[..len], from.to_string()), (&b"answer"[..], "192.0.2.1:4500".to_owned()));
}

#[test]
fn what_cannot_leave_has_a_reason() {
    let hosts = pair("nt-udpbad");
    let transport = hosts.left.run(|| UdpTransport::open(&UdpOptions::default())).unwrap().unwrap();
    let good = Outer { src: LEFT.0, dst: RIGHT.0, port: 4500, to: 4500, tos: 0, ttl: 64, payload: b"x" };
    let send = |o: &Outer<'_>| transport.send(&packet(&outer(o), false));
    assert_eq!(send(&good), Ok(()));
    assert_eq!(send(&Outer { dst: "203.0.113.1", ..good }), Err(DropReason::Unroutable), "no route");
    assert_eq!(send(&Outer { src: "192.0.2.77", ..good }), Err(DropReason::Unroutable), "not our address");
    assert_eq!(send(&Outer { port: 4501, ..good }), Err(DropReason::BadHeader), "not our port");
    let mut tcp = outer(&good);
    tcp[9] = 6;
    assert_eq!(transport.send(&packet(&tcp, false)), Err(DropReason::BadHeader));
    assert!(transport.send(&packet(&outer(&good)[..27], false)).is_err());
    assert!(transport.send(&packet(&[], false)).is_err());
}

#[test]
fn buffers_that_are_too_small_are_noticed() {
    let hosts = pair("nt-udpsmall");
    let mut transport = hosts.left.run(|| UdpTransport::open(&UdpOptions::default())).unwrap().unwrap();
    let peer = hosts.right.run(|| UdpSocket::bind((addr(RIGHT.0), 0)).unwrap()).unwrap();
    peer.send_to(&[7; 500], (addr(LEFT.0), 4500)).unwrap();
    peer.send_to(&[7; 100], (addr(LEFT.0), 4500)).unwrap();
    let mut small = Pool::new(HEADROOM + 200, HEADROOM, 4);
    let mut out = Vec::new();
    poll::readable([transport.fd(Family::V4).unwrap()], LIMIT).unwrap();
    let answer = transport.recv(Family::V4, clock::monotonic(), &mut small, &mut out).unwrap();
    assert_eq!((answer.datagrams, answer.truncated, out.len()), (2, 1, 1));
    let again = transport.recv(Family::V4, clock::monotonic(), &mut small, &mut out).unwrap();
    assert_eq!(again, netio::udp::Received::default(), "an empty socket is no error");

    let mut no_headroom =
        hosts.left.run(|| UdpTransport::open(&UdpOptions { port: 0, ..UdpOptions::default() }));
    let transport = no_headroom.as_mut().unwrap().as_mut().unwrap();
    let mut pool = Pool::new(2000, HEADROOM - 1, 4);
    assert!(transport.recv(Family::V6, clock::monotonic(), &mut pool, &mut out).is_err());
}

/// An inner "packet too big" makes a route exception that outer packets to the same address share. Outer packets do not
/// look at it: they leave whole, at the device's MTU.
#[test]
fn a_smaller_path_mtu_of_the_route_does_not_cut_outer_packets() {
    let hosts = pair("nt-udppmtu");
    let options = UdpOptions::default();
    let sender = hosts.left.run(|| UdpTransport::open(&options)).unwrap().unwrap();
    let mut receiver = hosts.right.run(|| UdpTransport::open(&options)).unwrap().unwrap();
    let mut pool = pool();
    for (family, src, dst) in [(Family::V4, LEFT.0, RIGHT.0), (Family::V6, LEFT.1, RIGHT.1)] {
        let mut ip = Command::new("ip");
        ip.args(["route", "replace", dst, "dev", "eth0", "mtu", "1300"]);
        assert!(hosts.left.prepare(&mut ip, None).unwrap().status().unwrap().success());
        let o = Outer { src, dst, port: 4500, to: 4500, tos: 0, ttl: 64, payload: &[5; 1400] };
        sender.send(&packet(&outer(&o), false)).unwrap();
        assert_eq!(receive(&mut receiver, family, &mut pool).len(), 1);
    }
    let text = hosts.right.run(|| std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap()).unwrap();
    assert_eq!(value(&text, "ReasmReqds"), 0, "an outer packet came in fragments");
    let text = hosts.right.run(|| std::fs::read_to_string("/proc/thread-self/net/snmp6").unwrap()).unwrap();
    let line = text.lines().find(|l| l.starts_with("Ip6ReasmReqds")).unwrap();
    assert_eq!(line.split_ascii_whitespace().nth(1), Some("0"));
}

/// A value of the `Ip:` lines of /proc/net/snmp.
fn value(text: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter(|l| l.starts_with("Ip:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|n| n == name).unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

/// A device slower than the sender: packets wait for room in the socket's queue, and only a stuck one loses them.
#[test]
fn a_slow_device_slows_the_sender_and_a_stuck_one_does_not_stop_it() {
    let hosts = pair("nt-udpslow");
    let options = UdpOptions { buffer: 16 << 10, ..UdpOptions::default() };
    let sender = hosts.left.run(|| UdpTransport::open(&options)).unwrap().unwrap();
    let _taker = hosts.right.run(|| UdpTransport::open(&UdpOptions::default())).unwrap().unwrap();
    let shape = |rate: &str| {
        let mut tc = Command::new("tc");
        tc.args("qdisc replace dev eth0 root tbf burst 4000 limit 1000000 rate".split(' ')).arg(rate);
        assert!(hosts.left.prepare(&mut tc, None).unwrap().status().unwrap().success());
    };
    let o = Outer { src: LEFT.0, dst: RIGHT.0, port: 4500, to: 4500, tos: 0, ttl: 64, payload: &[0; 1200] };
    let bytes = outer(&o);
    shape("50mbit");
    for n in 0..500 {
        assert_eq!(sender.send(&packet(&bytes, false)), Ok(()), "packet {n}");
    }
    shape("8kbit");
    let stuck = (0..100).find_map(|_| sender.send(&packet(&bytes, false)).err());
    assert_eq!(stuck, Some(DropReason::Backpressure));
}

#[test]
fn sockets_are_handed_over() {
    let hosts = pair("nt-udphand");
    let old = hosts.left.run(|| UdpTransport::open(&UdpOptions::default())).unwrap().unwrap();
    let mut fds: Vec<_> = old.fds().iter().map(|fd| fd.try_clone_to_owned().unwrap()).collect();
    assert_eq!(fds.len(), 4);
    fds.reverse();
    drop(old);
    let mut heir = UdpTransport::from_fds(fds, 1).unwrap();
    assert_eq!(heir.port(), 4500);
    let peer = hosts.right.run(|| UdpSocket::bind((addr(RIGHT.1), 0)).unwrap()).unwrap();
    peer.send_to(b"still here", (addr(LEFT.1), 4500)).unwrap();
    let got = receive(&mut heir, Family::V6, &mut pool());
    assert_eq!(&got[0].bytes()[48..], b"still here");
    assert!(UdpTransport::from_fds(Vec::new(), 1).is_err());
    let one = heir.fd(Family::V4).unwrap().try_clone_to_owned().unwrap();
    assert!(UdpTransport::from_fds(vec![one], 1).unwrap_err().to_string().contains("and 0 that fragment"));
    // A socket more would be dropped, or the first one, which receives.
    let twice = heir.fds().into_iter().chain(heir.fds().into_iter().skip(3));
    let twice = twice.map(|fd| fd.try_clone_to_owned().unwrap()).collect();
    let refused = UdpTransport::from_fds(twice, 1).unwrap_err().to_string();
    let why = "1 IPv6 sockets that receive and 2 that fragment were handed over, where 1 and 1 belong";
    assert!(refused.contains(why), "{refused}");
}

#[test]
fn clear_packets_arrive_as_they_were_written() {
    let hosts = pair("nt-clear");
    let sender = hosts.left.run(ClearSender::open).unwrap().unwrap();
    for (src, dst) in [(LEFT.0, RIGHT.0), (LEFT.1, RIGHT.1)] {
        let peer = hosts.right.run(|| UdpSocket::bind((addr(dst), 9000)).unwrap()).unwrap();
        peer.set_read_timeout(LIMIT).unwrap();
        let o = Outer { src, dst, port: 1234, to: 9000, tos: 0, ttl: 64, payload: b"in clear" };
        let mut bytes = outer(&o);
        // Octets behind the packet do not travel.
        bytes.extend_from_slice(b"padding");
        sender.send(&bytes, 7).unwrap();
        let mut buf = [0; 100];
        let (len, from) = peer.recv_from(&mut buf).unwrap();
        assert_eq!((&buf[..len], from.ip(), from.port()), (&b"in clear"[..], addr(src), 1234));

        // Larger than the device, and its sender let it be fragmented: the same datagram, cut by the kernel.
        let mut large = outer(&Outer { payload: &[7; 4000], tos: 0x28, ttl: 33, ..o });
        if src == LEFT.0 {
            assert_eq!(sender.send(&large, 0), Err(DropReason::TooBig), "IPv4 with DF");
            let mut view = wire::ipv4::Ipv4::new_checked(&mut large[..]).unwrap();
            view.set_unfragmented(false);
            view.fill_checksum();
        }
        sender.send(&large, 7).unwrap();
        let mut buf = [0; 5000];
        let (len, from) = peer.recv_from(&mut buf).unwrap();
        assert_eq!((&buf[..len], from.ip(), from.port()), (&[7; 4000][..], addr(src), 1234));
    }
    let lost = Outer { src: LEFT.0, dst: "203.0.113.1", port: 1, to: 1, tos: 0, ttl: 64, payload: b"" };
    assert_eq!(sender.send(&outer(&lost), 0), Err(DropReason::Unroutable));
    assert!(sender.send(b"\x45nonsense", 0).is_err());
}
