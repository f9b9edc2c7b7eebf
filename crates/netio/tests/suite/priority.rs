//! Priorities beside packets, as HTB on the device counts them: a class has what was sent with its number. Needs root,
//! tc(8) and a kernel of 6.14 or later with HTB.

use crate::common;

use common::{LEFT, RIGHT, namespaces};
use netio::netns::Netns;
use netio::raw::RawSender;
use netio::udp::{SendResult, UdpOptions, UdpTransport, takes_priorities};
use std::net::IpAddr;
use std::process::Command;
use wire::ipv4::Ipv4Repr;
use wire::ipv6::Ipv6Repr;
use wire::udp::UdpRepr;
use wire::{Buf, Burst, Meta, OuterHeader, Packet, Pool, protocol, stage};

/// Evidence of every step, for packets that a test puts at some stage.
struct Placed;
impl<From, To> wire::Evidence<From, To> for Placed {}

/// The class `1:10` as a number.
const EXPEDITED: Option<u32> = Some(0x1_0010);
/// Expedited forwarding, of which the kernel makes a priority of its own.
const TOS: u8 = 0xb8;

fn tc(namespace: &Netns, args: &str) -> Result<String, String> {
    let mut tc = Command::new("tc");
    tc.args(args.split(' '));
    let done = namespace.prepare(&mut tc, None).unwrap().output().unwrap();
    let text = |octets| String::from_utf8(octets).unwrap();
    if done.status.success() { Ok(text(done.stdout)) } else { Err(text(done.stderr)) }
}

/// HTB with the classes `1:10`, `1:20` and `1:30`; `false` if this kernel lacks it. The second takes what names no class.
/// The third takes ICMPv6 of the kernel's own: router solicitations and reports of multicast listeners come at any time.
fn shape(namespace: &Netns) -> bool {
    if let Err(why) = tc(namespace, "qdisc add dev eth0 root handle 1: htb default 20") {
        println!("skipped: no HTB here: {why}");
        return false;
    }
    for class in ["10", "20", "30"] {
        tc(
            namespace,
            &format!("class add dev eth0 parent 1: classid 1:{class} htb rate 1gbit quantum 60000"),
        )
        .unwrap();
    }
    // ICMPv6 itself, and behind hop-by-hop options.
    for number in [protocol::ICMPV6, protocol::HOP_BY_HOP] {
        let rule = format!("protocol ipv6 prio 1 u32 match ip6 protocol {number} 0xff flowid 1:30");
        if let Err(why) = tc(namespace, &format!("filter add dev eth0 parent 1: {rule}")) {
            println!("skipped: no classifier u32 here: {why}");
            return false;
        }
    }
    true
}

/// The packets that `1:10` and `1:20` have sent, from `tc -s class show`.
fn counts(namespace: &Netns) -> [u64; 2] {
    let text = tc(namespace, "-s class show dev eth0").unwrap();
    ["1:10", "1:20"].map(|class| {
        let (_, of_class) = text.split_once(&format!("class htb {class} ")).unwrap();
        let (_, sent) = of_class.split_once(" bytes ").unwrap();
        sent.split(' ').next().unwrap().parse().unwrap()
    })
}

/// The packets that `1:10` and `1:20` have sent in the course of `work`. Neighbours are known, so ARP sends nothing.
fn counted(namespace: &Netns, work: impl FnOnce()) -> [u64; 2] {
    let before = counts(namespace);
    work();
    let after = counts(namespace);
    [after[0] - before[0], after[1] - before[1]]
}

fn hosts(name: &str) -> Option<(Netns, Netns)> {
    let (left, right) = namespaces(name, 1500);
    if !takes_priorities() {
        println!("skipped: this kernel takes no priority beside a packet");
        return None;
    }
    for address in [RIGHT.0, RIGHT.1] {
        let mut ip = Command::new("ip");
        let args = format!("neigh replace {address} lladdr 02:00:00:00:00:02 dev eth0 nud permanent");
        ip.args(args.split(' '));
        assert!(left.prepare(&mut ip, None).unwrap().status().unwrap().success());
    }
    shape(&left).then_some((left, right))
}

fn addresses(v6: bool) -> (IpAddr, IpAddr) {
    let (src, dst) = if v6 { (LEFT.1, RIGHT.1) } else { (LEFT.0, RIGHT.0) };
    (src.parse().unwrap(), dst.parse().unwrap())
}

/// A packet of this protocol from left to right. With UDP it is a datagram of our port.
fn packet(v6: bool, number: u8, len: usize, may_fragment: bool) -> Packet<stage::Outer> {
    let (tos, payload_len) = (TOS, len);
    let head = if v6 { 40 } else { 20 };
    let mut bytes = vec![0; head + len];
    match addresses(v6) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let df = !may_fragment;
            let repr = Ipv4Repr { src, dst, protocol: number, ttl: 61, tos, id: 77, df, payload_len };
            wire::ipv4::emit(&mut bytes, &repr).unwrap();
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let (hop_limit, flow_label) = (61, 0);
            let repr = Ipv6Repr {
                src,
                dst,
                next_header: number,
                hop_limit,
                traffic_class: tos,
                flow_label,
                payload_len,
            };
            wire::ipv6::emit(&mut bytes, &repr).unwrap();
        }
        _ => unreachable!(),
    }
    if number == protocol::UDP {
        let repr = UdpRepr { src_port: 4500, dst_port: 4500, payload_len: len - 8 };
        wire::udp::emit(&mut bytes[head..], &repr).unwrap();
    }
    let meta = Meta { may_fragment, ..Meta::default() };
    Packet::from_host(Buf::from_slice(&bytes, 0, 0), meta)
        .advance::<stage::Selected>(&Placed)
        .advance::<stage::Scheduled>(&Placed)
        .advance(&Placed)
}

fn burst(v6: bool, count: usize, may_fragment: bool) -> Burst<stage::Outer> {
    let (src, dst) = addresses(v6);
    let header = OuterHeader { src, dst, src_port: 4500, dst_port: 4500, tos: TOS, ttl: 61, may_fragment };
    let mut burst = Burst::begin(&Placed, Buf::with_capacity(70_000, 0), header, 1000).unwrap();
    for _ in 0..count {
        burst.next_slot(1000).unwrap().fill(7);
        assert!(burst.commit(1000));
    }
    burst.advance(&Placed)
}

#[test]
fn datagrams_and_bursts_have_their_priority_whatever_the_type_of_service_says() {
    let Some((left, _right)) = hosts("nt-prioudp") else { return };
    let udp = left.run(|| UdpTransport::open(&UdpOptions::default())).unwrap().unwrap();
    for v6 in [false, true] {
        for may_fragment in [false, true] {
            let one = packet(v6, protocol::UDP, 500, may_fragment);
            let sent = |priority| counted(&left, || udp.send_with_priority(&one, priority).unwrap());
            assert_eq!(sent(EXPEDITED), [1, 0], "IPv6 {v6}, may be fragmented {may_fragment}");
            assert_eq!(sent(None), [0, 1], "IPv6 {v6}, may be fragmented {may_fragment}");
            assert_eq!(sent(Some(0x1_0020)), [0, 1]);
            // No class of HTB has this number.
            assert_eq!(sent(Some(6)), [0, 1]);
            for count in [1, 30] {
                let burst = burst(v6, count, may_fragment);
                let sent = |priority| {
                    counted(&left, || {
                        let SendResult { datagrams, dropped, .. } =
                            udp.send_burst_with_priority(&burst, priority);
                        assert_eq!((datagrams, dropped), (count, None));
                    })
                };
                let count = count as u64;
                assert_eq!(sent(EXPEDITED), [count, 0], "IPv6 {v6}, may be fragmented {may_fragment}");
                assert_eq!(sent(None), [0, count], "IPv6 {v6}, may be fragmented {may_fragment}");
            }
        }
    }
}

#[test]
fn each_bare_packet_of_a_call_has_its_own_priority_and_each_of_its_fragments_too() {
    let Some((left, _right)) = hosts("nt-prioraw") else { return };
    let mut raw = left.run(|| RawSender::open(9)).unwrap().unwrap();
    let mut pool = Pool::new(65_535, 0, 8);
    for v6 in [false, true] {
        let sent = counted(&left, || {
            let mut taken = 0;
            let mut answered = |_, _, answer: Result<(), _>| taken += u32::from(answer.is_ok());
            for priority in [EXPEDITED, None, EXPEDITED, EXPEDITED, Some(0)] {
                raw.send(packet(v6, protocol::ESP, 100, false), 1500, priority, &mut pool, &mut answered);
            }
            // Three fragments each.
            for priority in [EXPEDITED, None] {
                raw.send(packet(v6, protocol::ESP, 4000, true), 1500, priority, &mut pool, &mut answered);
            }
            raw.flush(&mut pool, &mut answered);
            assert_eq!(taken, 7);
        });
        assert_eq!(sent, [3 + 3, 2 + 3], "IPv6 {v6}");
    }
}
