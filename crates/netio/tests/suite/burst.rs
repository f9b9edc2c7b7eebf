//! Bursts between two namespaces and coalesced packets to a TUN: what one system call carries. Needs root.

use crate::common;

use common::{LEFT, RIGHT, namespaces};
use netio::clock;
use netio::link::{Offload, set_offload};
use netio::netns::Netns;
use netio::poll;
use netio::tun::{Tun, TunConfig, TunOptions};
use netio::udp::{Family, HEADROOM, MAX_DATAGRAM, SendResult, UdpOptions, UdpTransport};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::time::Duration;
use wire::burst::{MAX_DATAGRAMS, MAX_LEN_V4, MAX_LEN_V6};
use wire::coalesce::try_append;
use wire::ip::Headers;
use wire::{Buf, Burst, Coalesced, DropReason, OuterHeader, Pool, record, stage};

/// Evidence of every step, for packets that a test puts at some stage.
struct Placed;
impl<From, To> wire::Evidence<From, To> for Placed {}

const LIMIT: Option<Duration> = Some(Duration::from_secs(5));

struct Pair {
    _left: Netns,
    right: Netns,
    sender: UdpTransport,
    receiver: UdpTransport,
}

fn pair(name: &str, mtu: u32) -> Pair {
    let (left, right) = namespaces(name, mtu);
    let open =
        |namespace: &Netns| namespace.run(|| UdpTransport::open(&UdpOptions::default()).unwrap()).unwrap();
    let (sender, receiver) = (open(&left), open(&right));
    Pair { _left: left, right, sender, receiver }
}

fn header(family: Family) -> OuterHeader {
    let addr = |(v4, v6): (&str, &str)| -> IpAddr {
        if family == Family::V4 { v4.parse().unwrap() } else { v6.parse().unwrap() }
    };
    OuterHeader {
        src: addr(LEFT),
        dst: addr(RIGHT),
        src_port: 4500,
        dst_port: 4500,
        tos: 0xb8,
        ttl: 61,
        may_fragment: false,
    }
}

/// `count` datagrams, the last one of `last` octets; each begins with its number.
fn burst(header: OuterHeader, stride: usize, count: usize, last: usize) -> Burst<stage::Outer> {
    let mut burst = Burst::begin(&Placed, Buf::with_capacity(70_000, 0), header, stride).unwrap();
    for n in 0..count {
        let len = if n + 1 == count { last } else { stride };
        let slot = burst.next_slot(len).unwrap();
        slot.fill(n as u8);
        slot[..1].fill(n as u8 | 0x80);
        assert!(burst.commit(len));
    }
    burst.advance(&Placed)
}

fn datagrams<S>(burst: &Burst<S>) -> Vec<Vec<u8>> {
    burst.datagrams().map(<[u8]>::to_vec).collect()
}

/// Wait until `count` datagrams have come.
fn receive(transport: &mut UdpTransport, family: Family, count: usize) -> Vec<Burst<stage::Raw>> {
    let mut pool = Pool::new(MAX_DATAGRAM, 0, 16);
    let (mut out, mut have) = (Vec::new(), 0);
    while have < count {
        let [ready] = poll::readable([transport.fd(family).unwrap()], LIMIT).unwrap();
        assert!(ready, "{have} of {count} came");
        let received = transport.recv_bursts(family, clock::monotonic(), &mut pool, &mut out).unwrap();
        assert_eq!(received.truncated, 0);
        have += received.datagrams;
    }
    assert_eq!(out.iter().map(Burst::count).sum::<usize>(), count, "not one too many");
    out
}

fn whole(count: usize) -> SendResult {
    SendResult { datagrams: count, dropped: None, whole: true }
}

#[test]
fn every_size_of_burst_arrives_with_one_call_each_way() {
    let mut hosts = pair("nt-burst", 1500);
    hosts.receiver.join_datagrams(true).unwrap();
    for family in [Family::V4, Family::V6] {
        for count in 1..=MAX_DATAGRAMS {
            for (stride, last) in [(1000, 1000), (1000, 1), (700, 699)] {
                let sent = burst(header(family), stride, count, last);
                assert_eq!(hosts.sender.send_burst(&sent), whole(count));
                let got = receive(&mut hosts.receiver, family, count);
                assert_eq!(got.iter().flat_map(datagrams).collect::<Vec<_>>(), datagrams(&sent));
                assert_eq!(got.len(), 1, "{family:?}: {count} datagrams in one piece");
                assert_eq!(got[0].header, header(family));
            }
        }
    }
    assert_eq!(hosts.receiver.lost(), 0);
}

#[test]
fn the_largest_bursts_and_jumbo_frames() {
    for mtu in [1500usize, 9000] {
        let mut hosts = pair(&format!("nt-burst{mtu}"), mtu as u32);
        hosts.receiver.join_datagrams(true).unwrap();
        for (family, headers, most) in [(Family::V4, 28, MAX_LEN_V4), (Family::V6, 48, MAX_LEN_V6)] {
            let stride = mtu - headers;
            let (full, rest) = (most / stride, most % stride);
            let sent = burst(header(family), stride, full + 1, rest);
            assert_eq!(sent.bytes().len(), most);
            assert_eq!(hosts.sender.send_burst(&sent), whole(full + 1), "{family:?}, MTU {mtu}");
            let got = receive(&mut hosts.receiver, family, full + 1);
            assert_eq!(got.iter().flat_map(datagrams).collect::<Vec<_>>(), datagrams(&sent));
            // One octet more than the device carries, without leave to fragment; with it.
            let long = burst(header(family), stride + 1, 3, stride + 1);
            let refused = hosts.sender.send_burst(&long);
            assert_eq!((refused.datagrams, refused.dropped), (0, Some(DropReason::TooBig)));
            let leave = OuterHeader { may_fragment: true, ..header(family) };
            let long = burst(leave, stride + 1, 3, stride + 1);
            assert_eq!(hosts.sender.send_burst(&long), SendResult { whole: false, ..whole(3) });
            let got = receive(&mut hosts.receiver, family, 3);
            assert_eq!(got.iter().flat_map(datagrams).collect::<Vec<_>>(), datagrams(&long));
        }
    }
}

#[test]
fn a_receiver_that_joins_nothing_gets_every_datagram() {
    let mut hosts = pair("nt-burst-plain", 1500);
    for family in [Family::V4, Family::V6] {
        let sent = burst(header(family), 1000, 30, 10);
        hosts.receiver.join_datagrams(false).unwrap();
        assert_eq!(hosts.sender.send_burst(&sent), whole(30));
        let got = receive(&mut hosts.receiver, family, 30);
        assert_eq!(got.len(), 30);
        assert_eq!(got.iter().flat_map(datagrams).collect::<Vec<_>>(), datagrams(&sent));

        // One that asks for whole packets gets them, joined by the kernel or not.
        for join in [false, true] {
            hosts.receiver.join_datagrams(join).unwrap();
            assert_eq!(hosts.sender.send_burst(&sent), whole(30));
            let mut pool = Pool::new(HEADROOM + MAX_DATAGRAM, HEADROOM, 32);
            let mut packets = Vec::new();
            let mut count = 0;
            while count < 30 {
                assert!(poll::readable([hosts.receiver.fd(family).unwrap()], LIMIT).unwrap()[0]);
                let now = clock::monotonic();
                count += hosts.receiver.recv(family, now, &mut pool, &mut packets).unwrap().datagrams;
            }
            assert_eq!((count, packets.len()), (30, 30), "joined {join}");
            for (packet, datagram) in packets.iter().zip(datagrams(&sent)) {
                let headers = Headers::parse(packet.bytes()).unwrap();
                assert_eq!(headers.upper(packet.bytes())[8..], datagram);
                assert_eq!((headers.tos, headers.ttl, packet.meta.tos), (0xb8, 61, 0xb8));
            }
        }
    }
}

/// A socket without checksums cannot segment (EINVAL): the same datagrams leave one by one, and arrive so.
#[test]
fn what_the_kernel_does_not_segment_leaves_one_by_one() {
    let mut hosts = pair("nt-burst-each", 1500);
    hosts.receiver.join_datagrams(true).unwrap();
    let on: libc::c_int = 1;
    // SAFETY: an int is passed with its length.
    let set = unsafe {
        let fd = hosts.sender.fd(Family::V4).unwrap().as_raw_fd();
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_NO_CHECK, (&raw const on).cast(), 4)
    };
    assert_eq!(set, 0);
    let sent = burst(header(Family::V4), 1000, MAX_DATAGRAMS, 10);
    assert_eq!(hosts.sender.send_burst(&sent), SendResult { whole: false, ..whole(MAX_DATAGRAMS) });
    let got = receive(&mut hosts.receiver, Family::V4, MAX_DATAGRAMS);
    assert_eq!(got.iter().flat_map(datagrams).collect::<Vec<_>>(), datagrams(&sent));
    assert_eq!(got.len(), MAX_DATAGRAMS, "the kernel joins none without a checksum");
}

/// Datagrams one by one, marked differently, on a device that joins: none gets the mark of another.
#[test]
fn joined_datagrams_have_one_type_of_service() {
    let mut hosts = pair("nt-burst-tos", 1500);
    hosts.right.run(|| set_offload("eth0", Offload::Gro, true)).unwrap().unwrap();
    hosts.receiver.join_datagrams(true).unwrap();
    for family in [Family::V4, Family::V6] {
        let mut wanted = Vec::new();
        for n in 0..60u8 {
            let tos = [2, 2, 2, 3, 1][usize::from(n) % 5];
            let header = OuterHeader { tos, ..header(family) };
            let mut one = Burst::begin(&Placed, Buf::with_capacity(500, 0), header, 500).unwrap();
            one.next_slot(500).unwrap().fill(n);
            assert!(one.commit(500));
            assert_eq!(hosts.sender.send_burst(&one.advance(&Placed)), whole(1));
            wanted.push((tos, n));
        }
        let got = receive(&mut hosts.receiver, family, 60);
        let marks: Vec<_> = got.iter().flat_map(|b| b.datagrams().map(|d| (b.header.tos, d[0]))).collect();
        assert_eq!(marks, wanted);
    }
}

#[test]
fn what_cannot_be_sent_is_named() {
    let hosts = pair("nt-burst-bad", 1500);
    let refused = |header| {
        let sent = hosts.sender.send_burst(&burst(header, 100, 3, 100));
        assert_eq!(sent.datagrams, 0);
        sent.dropped
    };
    let good = header(Family::V4);
    assert_eq!(refused(OuterHeader { src_port: 4501, ..good }), Some(DropReason::BadHeader));
    let nowhere = "203.0.113.1".parse().unwrap();
    assert_eq!(refused(OuterHeader { dst: nowhere, ..good }), Some(DropReason::Unroutable));
    assert_eq!(refused(OuterHeader { src: nowhere, ..good }), Some(DropReason::Unroutable));
}

fn datagram(n: u8) -> Vec<u8> {
    let mut upper = [5000u16, 7001, 508, 0].map(u16::to_be_bytes).concat();
    upper.extend_from_slice(&[n; 500]);
    let (src, dst) = (Ipv4Addr::new(192, 0, 2, 9), Ipv4Addr::new(169, 254, 77, 1));
    let payload_len = upper.len();
    let mut bytes = vec![0; 20];
    let repr = wire::ipv4::Ipv4Repr { src, dst, protocol: 17, ttl: 64, tos: 0, id: 0, df: true, payload_len };
    wire::ipv4::emit(&mut bytes, &repr).unwrap();
    bytes.extend_from_slice(&upper);
    let headers = Headers::parse(&bytes).unwrap();
    wire::checksum::complete_transport(&mut bytes, &headers).unwrap();
    bytes
}

/// A packet socket on the device sees what the kernel was given: one packet, record in front.
#[test]
fn a_train_is_one_packet_for_the_kernel() {
    Netns::remove("nt-train").expect("root is needed");
    Netns::create("nt-train")
        .expect("root is needed")
        .run(|| {
            let tun = Tun::open("rvl0", &TunOptions { persist: false, ..TunOptions::default() }).unwrap();
            tun.configure(&TunConfig { address: Ipv4Addr::new(169, 254, 77, 1), mtu: 1500 }).unwrap();
            let script = "import socket; s=socket.socket(17,3,socket.htons(3)); s.bind(('rvl0',3)); \
                          s.settimeout(5); print('ready',flush=True)\n\
                          while 1:\n p=s.recvfrom(70000); \
                          p[1][2]!=4 and print(p[0].hex(),flush=True)";
            let mut watcher =
                Command::new("python3").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
            let mut lines = BufReader::new(watcher.stdout.take().unwrap()).lines().map(Result::unwrap);
            assert_eq!(lines.next().as_deref(), Some("ready"));
            let hex = |bytes: &[u8]| bytes.iter().map(|o| format!("{o:02x}")).collect::<String>();

            let packets: Vec<_> = (0..5).map(datagram).collect();
            let mark = record::PROOF | 9;
            let mut coalesced = Coalesced::begin(&packets[0], mark);
            assert!(packets[1..].iter().all(|packet| try_append(&mut coalesced, packet, mark)));
            let delivered = tun.send_coalesced(&coalesced);
            assert_eq!((delivered.packets, delivered.dropped), (5, None));
            let mut super_packet = Buf::with_capacity(3000, 0);
            coalesced.copy_into(&mut super_packet).unwrap();
            let record = wire::Record { version: 4, mark, cookie: 0 }.emit();
            assert_eq!(lines.next().unwrap(), hex(&[&record, super_packet.as_slice()].concat()));

            // One packet goes as it is.
            assert_eq!(tun.send_coalesced(&Coalesced::begin(&packets[3], mark)).packets, 1);
            assert_eq!(lines.next().unwrap(), hex(&[&record, &packets[3][..]].concat()));

            let nonsense = tun.send_coalesced(&Coalesced::begin(&[0x10; 40], mark));
            assert_eq!((nonsense.packets, nonsense.dropped), (0, Some((1, DropReason::BadVersion))));
            watcher.kill().unwrap();
            watcher.wait().unwrap();
        })
        .unwrap();
}
