//! What may reach a program: the proof of protection, in a table; records; forged ICMP. Needs root.

use crate::common;

use common::packets::*;
use common::*;
use sadb::Selectors;
use sadb::spd::{AppPolicy, Class, Level, PortRange, Spd};
use wire::Services;

/// The mark with which a datagram to ourselves arrives if it is sent with `mark`.
fn mark_over_loopback(mark: u32) -> u32 {
    use std::os::fd::AsRawFd;
    const SO_RCVMARK: i32 = 75;
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut data = [0u8; 8];
    let mut control = [0u64; 8];
    let mut part = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    // SAFETY: zeroes are a msghdr; the buffers have the lengths that are passed and live for the calls.
    unsafe {
        let on = 1u32;
        assert_eq!(libc::setsockopt(receiver.as_raw_fd(), 1, SO_RCVMARK, (&raw const on).cast(), 4), 0);
        assert_eq!(libc::setsockopt(sender.as_raw_fd(), 1, libc::SO_MARK, (&raw const mark).cast(), 4), 0);
        sender.send_to(b"x", receiver.local_addr().unwrap()).unwrap();
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        assert_eq!(libc::recvmsg(receiver.as_raw_fd(), &raw mut message, 0), 1);
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        assert!(!header.is_null());
        assert_eq!(((*header).cmsg_level, (*header).cmsg_type), (libc::SOL_SOCKET, libc::SO_MARK));
        libc::CMSG_DATA(header).cast::<u32>().read_unaligned()
    }
}

const PROOF: u32 = 0x8000_0000;
const STAMPED: u32 = 0x0001_0000;
const AUTHENTICATED: u32 = 0x0100_0000;
const ENCRYPTED: u32 = 0x0200_0000;
pub const FULL: u32 = PROOF | AUTHENTICATED | ENCRYPTED;
/// Came bare as IP in IP: it is clear.
pub const ARRIVED: u32 = 0x0004_0000;

/// Port 7001 mandatory encryption, 7002 mandatory authentication, 7003 optional, 7004 no item; 10.99.0.64/26 untrusted,
/// 10.99.0.128/26 trusted.
fn table() -> Spd {
    let at = |port, services, level| item(PortRange::one(port), PortRange::ANY, services, level);
    let items = vec![
        at(7001, Services::ENCRYPTED, Level::Mandatory),
        at(7002, Services::AUTHENTICATED, Level::Mandatory),
        at(7003, Services::ENCRYPTED, Level::Optional),
    ];
    let networks = vec![
        network("10.99.0.0/24", Class::Protected(0)),
        network("fd99::/64", Class::Protected(0)),
        network("10.99.0.64/26", Class::Untrusted),
        network("10.99.0.128/26", Class::Trusted),
    ];
    let mut spd = Spd::new(1);
    spd.insert(STRICT, AppPolicy::new(networks, vec![items]));
    spd
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Wire,
    Tun(u32),
}
use By::{Tun, Wire};

#[test]
fn the_proof_is_what_policy_demands() {
    let mut world = World::new("proof");
    world.attach();
    demands_proof(&mut world, false);
}

/// The kernel may take a datagram out of such a socket before `proof` is asked: the devices judge it as `proof` would, which is left out here.
#[test]
fn the_devices_demand_it_for_what_an_encapsulation_takes() {
    let mut world = World::new("encapsulated");
    world.attach_without("proof");
    demands_proof(&mut world, true);
}

/// The table of proofs. Where `encapsulated`, the sockets of the application's program are.
fn demands_proof(world: &mut World, encapsulated: bool) {
    world.load(&table(), &[]);
    let mut program = world.start("strict");
    for port in 7001..=7004 {
        program.run(&[&format!("open p{port} udp4"), &format!("bind p{port} 10.99.0.1:{port}")]);
        program.run(&[&format!("open q{port} udp6"), &format!("bind q{port} [fd99::1]:{port}")]);
        if encapsulated {
            program.run(&[&format!("encapsulate p{port}"), &format!("encapsulate q{port}")]);
        }
    }
    let mut unnamed = world.start("unnamed");
    unnamed.run(&["open p7005 udp4", "bind p7005 10.99.0.1:7005"]);

    let app = u32::from(STRICT.0);
    let cases: &[(u16, &str, By, Option<&str>)] = &[
        (7001, BOB, Wire, Some("ingress_no_proof")),
        (7001, BOB, Tun(FULL), None),
        (7001, BOB, Tun(FULL | app), None),
        (7001, BOB, Tun(FULL | 8), Some("ingress_other_app")),
        (7001, BOB, Tun(PROOF | AUTHENTICATED), Some("ingress_services")),
        (7001, BOB, Tun(AUTHENTICATED | ENCRYPTED), Some("tun_no_proof")),
        (7001, BOB, Tun(ARRIVED), Some("ingress_no_proof")),
        (7003, BOB, Tun(ARRIVED), None),
        (7004, BOB, Tun(ARRIVED), Some("ingress_no_item")),
        (7001, "10.99.0.70", Tun(ARRIVED), Some("ingress_untrusted")),
        (7001, "10.99.0.130", Tun(ARRIVED), None),
        (7005, BOB, Tun(ARRIVED), None),
        (7003, BOB, Tun(ARRIVED | app), Some("tun_no_proof")),
        (7003, BOB, Tun(ARRIVED | ENCRYPTED), Some("tun_no_proof")),
        (7002, BOB, Wire, Some("ingress_no_proof")),
        (7002, BOB, Tun(PROOF | AUTHENTICATED), None),
        (7002, BOB, Tun(FULL), None),
        (7002, BOB, Tun(PROOF), Some("ingress_services")),
        (7003, BOB, Wire, None),
        (7003, BOB, Tun(FULL), None),
        (7003, BOB, Tun(PROOF | AUTHENTICATED), Some("ingress_services")),
        (7004, BOB, Wire, Some("ingress_no_item")),
        (7004, BOB, Tun(FULL), Some("ingress_no_item")),
        (7001, "10.99.0.70", Wire, Some("ingress_untrusted")),
        (7001, "10.99.0.70", Tun(FULL), Some("ingress_untrusted")),
        (7001, "10.99.0.130", Wire, None),
        (7001, "10.99.0.130", Tun(FULL), Some("ingress_unexpected_proof")),
        (7001, "10.98.0.2", Tun(FULL), Some("ingress_unexpected_proof")),
        (7005, BOB, Wire, None),
        (7005, BOB, Tun(FULL), (!encapsulated).then_some("ingress_unexpected_proof")),
        (7001, BOB6, Wire, Some("ingress_no_proof")),
        (7001, BOB6, Tun(FULL), None),
        (7003, BOB6, Wire, None),
    ];
    for &(port, from, by, refused) in cases {
        let case = format!("port {port} from {from} by {by:x?}, encapsulated: {encapsulated}");
        let v6 = from.contains(':');
        let to = if v6 { ALICE6 } else { ALICE };
        let packet = udp((from, 5000), (to, port), b"payload");
        let before = refused.map(|counter| world.counter(counter));
        let (receiver, name) =
            if port == 7005 { (&mut unnamed, "p") } else { (&mut program, if v6 { "q" } else { "p" }) };
        match by {
            Wire => world.bob_sends(&packet),
            Tun(mark) => world.inject(mark, &packet),
        }
        match refused {
            None => assert_eq!(receiver.ask(&format!("recv {name}{port} 5000")), "7", "{case}"),
            Some(counter) => {
                assert_eq!(receiver.ask(&format!("recv {name}{port} 40")), "ETIMEDOUT", "{case}");
                assert_eq!(world.counter(counter), before.unwrap() + 1, "{case}: {counter}");
            }
        }
    }

    // Optional is sticky once an association serves the peer.
    world.sockmon().set_live_sas(&[serving("10.99.0.2/32")]).unwrap();
    world.bob_sends(&udp((BOB, 5000), (ALICE, 7003), b"payload"));
    assert_eq!(program.ask("recv p7003 40"), "ETIMEDOUT");
    assert_eq!(world.counter("ingress_sticky"), 1);
    world.inject(ARRIVED, &udp((BOB, 5000), (ALICE, 7003), b"payload"));
    assert_eq!(program.ask("recv p7003 40"), "ETIMEDOUT");
    assert_eq!(world.counter("ingress_sticky"), 2);
    world.inject(FULL, &udp((BOB, 5000), (ALICE, 7003), b"payload"));
    assert_eq!(program.ask("recv p7003 5000"), "7");
    world.sockmon().set_live_sas(&[]).unwrap();
    world.bob_sends(&udp((BOB, 5000), (ALICE, 7003), b"payload"));
    assert_eq!(program.ask("recv p7003 5000"), "7");
    // In fragments, and within the host: of another host's source it is worth what it is from the wire.
    let whole = udp((BOB, 5000), (ALICE, 7001), &[0; 64]);
    let refused = world.counter("ingress_no_proof");
    world.bob_sends(&fragment(BOB, ALICE, 17, &whole[20..52], 0, true));
    world.bob_sends(&fragment(BOB, ALICE, 17, &whole[52..], 32, false));
    assert_eq!(program.ask("recv p7001 40"), "ETIMEDOUT");
    unnamed.run(&["open r raw4", "spoof r 10.99.0.2 10.99.0.1:7001"]);
    assert_eq!(program.ask("recv p7001 40"), "ETIMEDOUT");
    assert_eq!(world.counter("ingress_no_proof"), refused + 2);
    unnamed.run(&["open s udp4", "sendto s 10.99.0.1:7001 5"]);
    assert_eq!(program.ask("recv p7001 5000"), "5");
}

/// Whoever has a raw socket of ICMP gets a copy of every message. The daemon's gets none of its own answers, and misses none.
#[test]
fn a_copy_for_the_daemon_is_no_loss() {
    let mut world = World::new("copies");
    world.attach();
    world.load(&table(), &[]);
    let too_big = icmp_error(BOB, ALICE, 3, 4, 1280, &udp((ALICE, 5000), (BOB, 7001), b"payload"));
    for (part, losses) in [("daemon", 0), ("app", 1)] {
        let mut listener = world.start_in("unnamed", part);
        listener.run(&["open i icmp4"]);
        let before = world.counter("ingress_unexpected_proof");
        world.inject(FULL, &too_big);
        assert_eq!(listener.ask("recv i 40"), "ETIMEDOUT", "{part}");
        assert_eq!(world.counter("ingress_unexpected_proof"), before + losses, "{part}");
        world.bob_sends(&too_big);
        assert_eq!(listener.ask("recv i 5000"), too_big.len().to_string(), "{part}");
    }
}

#[test]
fn optional_is_sticky_for_what_an_association_covers_and_for_nothing_else() {
    let mut world = World::new("sticky");
    world.attach();
    let at = |first, last| PortRange { first, last };
    let items = vec![item(at(7001, 7009), PortRange::ANY, Services::ENCRYPTED, Level::Optional)];
    let networks =
        ["10.99.0.0/24", "fd99::/64"].map(|text| network(text, Class::Protected(0))).into_iter().collect();
    let mut spd = Spd::new(1);
    spd.insert(STRICT, AppPolicy::new(networks, vec![items]));
    world.load(&spd, &[]);
    let mut program = world.start("strict");
    for port in [7001, 7002] {
        program.run(&[&format!("open p{port} udp4"), &format!("bind p{port} 10.99.0.1:{port}")]);
        program.run(&[&format!("open q{port} udp6"), &format!("bind q{port} [fd99::1]:{port}")]);
    }
    let any = || serving("10.99.0.2/32");
    let tables: &[(&str, Vec<Selectors>, [bool; 4])] = &[
        // The last column: whether clear text for 7001 and 7002 from port 5000, for 7001 from 5001, and for 7001 by IPv6 passes.
        ("none", vec![], [true; 4]),
        ("all of the peer", vec![any()], [false, false, false, true]),
        (
            "one port",
            vec![Selectors { local_ports: PortRange::one(7001), ..any() }],
            [false, true, false, true],
        ),
        (
            "ports of the peer",
            vec![Selectors { remote_ports: at(1, 5000), ..any() }],
            [false, false, true, true],
        ),
        ("another protocol", vec![Selectors { protocol: Some(6), ..any() }], [true; 4]),
        ("this protocol", vec![Selectors { protocol: Some(17), ..any() }], [false, false, false, true]),
        ("another program", vec![Selectors { app: Some(OTHER), ..any() }], [true; 4]),
        ("this program", vec![Selectors { app: Some(STRICT), ..any() }], [false, false, false, true]),
        ("another address", vec![Selectors { local: prefix("10.99.0.9/32"), ..any() }], [true; 4]),
        (
            "one of this host's networks",
            vec![Selectors { local: prefix("10.99.0.0/29"), ..any() }],
            [false, false, false, true],
        ),
        (
            "a wider one beside",
            vec![
                Selectors { local_ports: PortRange::one(7002), ..any() },
                Selectors { remote_ports: PortRange::one(5001), ..serving("10.99.0.0/16") },
            ],
            [true, false, false, true],
        ),
        ("by IPv6", vec![serving("fd99::/64")], [true, true, true, false]),
        (
            "more than are told apart",
            (100..110).map(|n| Selectors { local_ports: PortRange::one(n), ..any() }).collect(),
            [false, false, false, true],
        ),
    ];
    for (name, served, passes) in tables {
        world.sockmon().set_live_sas(served).unwrap();
        let cases = [(7001, 5000, false), (7002, 5000, false), (7001, 5001, false), (7001, 5000, true)];
        for ((port, from, v6), passes) in cases.into_iter().zip(passes) {
            let case = format!("{name}: {from} to {port}, IPv6 {v6}");
            let (bob, alice, socket) = if v6 { (BOB6, ALICE6, "q") } else { (BOB, ALICE, "p") };
            let before = world.counter("ingress_sticky");
            world.bob_sends(&udp((bob, from), (alice, port), b"payload"));
            if *passes {
                assert_eq!(program.ask(&format!("recv {socket}{port} 5000")), "7", "{case}");
            } else {
                assert_eq!(program.ask(&format!("recv {socket}{port} 40")), "ETIMEDOUT", "{case}");
                assert_eq!(world.counter("ingress_sticky"), before + 1, "{case}");
            }
            world.inject(FULL, &udp((bob, from), (alice, port), b"payload"));
            assert_eq!(program.ask(&format!("recv {socket}{port} 5000")), "7", "{case}, proven");
        }
    }
}

#[test]
fn a_listener_answers_a_proven_syn_only() {
    let mut world = usual_world("syn");
    let mut program = world.start("strict");
    program.run(&["open l tcp4", "bind l 10.99.0.1:8080", "listen l"]);
    world.wire();
    world.bob_sends(&tcp((BOB, 5000), (ALICE, 8080), 100, 0, SYN));
    assert_eq!((world.wire().len(), world.seen()), (0, None), "a clear SYN is not answered");
    assert_eq!(world.counter("ingress_no_proof"), 1);
    world.inject(FULL, &tcp((BOB, 5001), (ALICE, 8080), 100, 0, SYN));
    let answer = world.seen_within(SOON).expect("a SYN-ACK on the TUN");
    assert_eq!(answer.mark, stamp(STRICT));
    // A port nobody listens on: the kernel's own RST goes the way the SYN came (fwmark_reflect).
    world.drain();
    world.inject(FULL | 7, &tcp((BOB, 5002), (ALICE, 8081), 100, 0, SYN));
    let reset = world.seen_within(SOON).expect("a RST on the TUN");
    assert_eq!(reset.mark, FULL | 7);
    assert_eq!(tcp_numbers(&reset.packet).2 & 0x3f, RST | ACK);
    // The same for a port unreachable, which quotes what was decrypted.
    world.inject(FULL, &udp((BOB, 5000), (ALICE, 9), b"secret"));
    let unreachable = world.drain().into_iter().find(|s| s.packet[9] == 1).expect("unreachable on the TUN");
    assert_eq!((unreachable.mark, unreachable.packet[20]), (FULL, 3));
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
}

/// The whole life of a connection whose marks are all wiped, as a firewall could: steered by storage, by the listener's
/// for the SYN-ACK, and by reflection behind TIME_WAIT.
#[test]
fn a_connection_without_marks_stays_in_the_tunnel() {
    let mut world = World::new("unmarked");
    world.attach_without("set_option");
    world.load(&usual(), &usual_orders());
    let mut program = world.start("strict");
    program.run(&["open l tcp4", "bind l 10.99.0.1:8080", "listen l", "setmark l 0"]);
    world.wire();
    let peer = (BOB, 5000);
    let here = (ALICE, 8080);
    world.inject(FULL, &tcp(peer, here, 100, 0, SYN));
    let answer = world.seen_within(SOON).expect("SYN-ACK");
    assert_eq!((answer.mark, answer.packet[33]), (stamp(STRICT), SYN | ACK));
    let cookie = answer.cookie;
    let mut sequence = tcp_numbers(&answer.packet).0 + 1;
    world.inject(FULL, &tcp(peer, here, 101, sequence, ACK));
    program.run(&["accept l c 5000", "setmark c 0", "send c 2680"]);
    // Super-packets of TCP: how many there are depends on how fast the kernel finds the path to be.
    let mut sent = 0;
    while sent < 2680 {
        let data = world.seen_within(SOON).expect("data");
        assert_eq!((data.mark, data.cookie), (stamp(STRICT), cookie), "one cookie from the SYN-ACK on");
        if sent == 0 {
            assert_eq!(data.gso_type & 0x7f, 1, "a super-packet");
            assert!(data.gso_size >= 536, "{}", data.gso_size);
        }
        sent += data.packet.len() - 40;
    }
    assert_eq!(sent, 2680);
    sequence += 2680;
    world.inject(FULL, &tcp(peer, here, 101, sequence, ACK));
    program.run(&["close c"]);
    let fin = world.seen_within(SOON).expect("FIN");
    assert_eq!((fin.mark, fin.packet[33] & 1), (stamp(STRICT), 1));
    world.inject(FULL, &tcp(peer, here, 101, sequence + 1, ACK | 1));
    let last = world.seen_within(SOON).expect("the last ACK");
    assert_eq!(last.packet[33], ACK);
    world.drain();
    // TIME_WAIT: the peer did not get the last ACK and says FIN again.
    world.inject(FULL, &tcp(peer, here, 101, sequence + 1, ACK | 1));
    let again = world.seen_within(SOON).expect("an ACK from TIME_WAIT");
    assert_eq!((again.mark, again.packet[33]), (FULL, ACK));
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
}

#[test]
fn time_wait_answers_a_clear_packet_in_the_tunnel() {
    let world = usual_world("time-wait");
    let mut program = world.start("strict");
    program.run(&["open l tcp4", "bind l 10.99.0.1:8080", "listen l"]);
    world.wire();
    let peer = (NOBODY, 5000);
    let here = (ALICE, 8080);
    world.inject(FULL, &tcp(peer, here, 100, 0, SYN));
    let sequence = tcp_numbers(&world.seen_within(SOON).expect("SYN-ACK").packet).0 + 1;
    world.inject(FULL, &tcp(peer, here, 101, sequence, ACK));
    program.run(&["accept l c 5000", "close c"]);
    world.inject(FULL, &tcp(peer, here, 101, sequence + 1, ACK | 1));
    world.drain();
    world.bob_sends(&tcp(peer, here, 101, sequence + 1, ACK | 1));
    let again = world.seen_within(SOON).expect("an ACK from TIME_WAIT");
    assert_eq!((again.mark, again.packet[33]), (stamp(STRICT), ACK));
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
}

#[test]
fn without_the_proof_hook_clear_packets_get_in() {
    let mut world = World::new("no-proof");
    world.attach_without("proof");
    world.load(&table(), &[]);
    let mut program = world.start("strict");
    program.run(&["open p udp4", "bind p 10.99.0.1:7001"]);
    world.bob_sends(&udp((BOB, 5000), (ALICE, 7001), b"payload"));
    assert_eq!(program.ask("recv p 5000"), "7");
}

#[test]
fn the_tun_takes_only_whole_packets_with_a_record() {
    let mut world = usual_world("strip");
    let mut program = world.start("strict");
    program.run(&["open p udp4", "bind p 10.99.0.1:7001", "open q udp6", "bind q [fd99::1]:7001"]);
    let datagram = udp_datagram((BOB, 5000), (ALICE, 7001), &[7; 1600]);
    // A proven fragment would lend its proof to a clear one.
    world.inject(FULL, &fragment(BOB, ALICE, 17, &datagram[..800], 0, true));
    world.inject(FULL, &fragment(BOB, ALICE, 17, &datagram[800..], 800, false));
    assert_eq!(world.counter("tun_fragment"), 2);
    assert_eq!(program.ask("recv p 40"), "ETIMEDOUT");
    // IPv6 with a fragment header.
    let mut extension = vec![17, 0, 0, 1, 0, 0, 0, 1];
    extension.extend_from_slice(&udp_datagram((BOB6, 5000), (ALICE6, 7001), &[7; 100])[..64]);
    world.inject(FULL, &ip(BOB6, ALICE6, 44, &extension));
    assert_eq!(world.counter("tun_fragment"), 3);
    // The record names the other version.
    let mut bytes = vec![0u8; 10];
    bytes.extend_from_slice(b"\x40RVL");
    bytes.extend_from_slice(&FULL.to_ne_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&udp((BOB6, 5000), (ALICE6, 7001), b"payload"));
    std::io::Write::write_all(&mut &world.tun, &bytes).unwrap();
    assert_eq!(world.counter("tun_malformed"), 1);
    // No record at all.
    let mut bare = vec![0u8; 10];
    bare.extend_from_slice(&udp((BOB, 5000), (ALICE, 7001), b"payload"));
    std::io::Write::write_all(&mut &world.tun, &bare).unwrap();
    assert_eq!(world.counter("tun_no_record"), 1);
    // The whole packet.
    world.inject(FULL, &ip(BOB, ALICE, 17, &datagram));
    assert_eq!(program.ask("recv p 5000"), "1600");
    world.inject(FULL, &udp((BOB6, 5000), (ALICE6, 7001), b"payload"));
    assert_eq!(program.ask("recv q 5000"), "7");
}

/// What another host's address as the source brings about is answered there, in clear: too long a packet, a neighbour that does not answer.
#[test]
fn nothing_leaves_from_an_address_that_answers_would_go_to_in_clear() {
    let mut world = usual_world("foreign-source");
    let mut program = world.start("strict");
    // From an untrusted network, a protected one, a trusted one, one that policy does not name, this host. To a trusted one each.
    let cases = [
        ("fd99:0:0:0:1::7", "EPERM"),
        ("fd99::2", "EPERM"),
        ("fd99:0:0:0:2::7", "ok"),
        ("fd98::7", "ok"),
        ("fd99::1", "ok"),
    ];
    for (from, expected) in cases {
        let before = world.counter("egress_foreign");
        program.run(&["open f udp6", "freebind f", &format!("bind f [{from}]:7001")]);
        assert_eq!(program.ask("sendto f [fd99:0:0:0:2::9]:9 100"), expected, "{from}");
        assert_eq!(world.counter("egress_foreign") - before, u64::from(expected != "ok"), "{from}");
        program.run(&["close f"]);
    }
    let mut unnamed = world.start("unnamed");
    unnamed.run(&[
        "open f udp6",
        "freebind f",
        "bind f [fd99:0:0:0:1::7]:7001",
        "sendto f [fd99:0:0:0:2::9]:9 100",
    ]);
    // Programs of users that rules name are held to the same.
    world.sockmon().set_users(&[0..=0]).unwrap();
    assert_eq!(unnamed.ask("sendto f [fd99:0:0:0:2::9]:9 100"), "EPERM");
    unnamed.run(&["open g udp6", "bind g [fd99::1]:7002", "sendto g [fd99:0:0:0:2::9]:9 100"]);
}

/// The engine answers the program of this host that sent too long a packet, and nobody else.
#[test]
fn an_answer_to_a_program_reaches_no_other_host() {
    let mut world = usual_world("answer");
    let answer = |to| icmp_error(BOB, to, 3, 4, 1300, &udp((to, 6000), (BOB, 53), &[0; 64]));
    world.inject(FULL | STAMPED, &answer("10.98.0.7"));
    world.inject(FULL | STAMPED, &answer(ALICE));
    let deadline = std::time::Instant::now() + SOON;
    while world.counter("tun_stripped") == 0 {
        assert!(std::time::Instant::now() < deadline, "the answer to this host is dropped");
    }
    assert_eq!((world.counter("tun_foreign_answer"), world.counter("tun_stripped")), (1, 1));
}

pub fn unnamed_echo(world: &World, unnamed: &mut program::Program) {
    world.bob_sends(&udp((BOB, 53), (ALICE, 6100), b"!"));
    // An earlier error may come first.
    while unnamed.ask("recv u 5000") != "1" {}
}

/// A program sends to this host as somebody else, and the kernel answers him: its error would carry the program's data away.
#[test]
fn what_the_kernel_would_answer_to_another_host_stays() {
    let mut world = World::new("reflected");
    world.attach();
    world.load(&table(), &[]);
    let mut unnamed = world.start("unnamed");
    let mut strict = world.start("strict");
    let reflect = ["open f udp6", "freebind f", "bind f [fd99::2]:7001", "sendto f [fd99::1]:9 500"];
    let answers = |world: &World| world.wire().iter().filter(|packet| packet.len() > 500).count();
    world.wire();
    unnamed.run(&reflect);
    let deadline = std::time::Instant::now() + SOON;
    while answers(&world) == 0 {
        assert!(std::time::Instant::now() < deadline, "the kernel answers nobody");
    }
    unnamed.run(&["close f"]);
    let before = world.counter("egress_unguarded");
    strict.run(&reflect);
    assert_eq!(world.counter("egress_unguarded"), before + 1);
    assert_eq!(answers(&world), 0);
    // Within the host it goes on.
    unnamed.run(&["open p udp6", "bind p [fd99::1]:7009"]);
    strict.run(&["open s udp6", "bind s [fd99::1]:7001", "sendto s [fd99::1]:7009 5"]);
    assert_eq!(unnamed.ask("recv p 5000"), "5");
}

#[test]
fn forged_marks_on_the_loopback_are_worth_nothing() {
    let mut world = World::new("loopback");
    world.attach();
    world.load(&table(), &[]);
    let mut program = world.start("strict");
    program.run(&["open p udp4", "bind p 10.99.0.1:7001", "open n udp4", "bind n 10.99.0.1:7004"]);
    let mut unnamed = world.start("unnamed");
    unnamed.run(&["open s udp4", "sendto s 10.99.0.1:7001 5"]);
    assert_eq!(program.ask("recv p 5000"), "5", "traffic within the host is checked for discard only");
    unnamed.run(&["sendto s 10.99.0.1:7004 5"]);
    assert_eq!(program.ask("recv n 40"), "ETIMEDOUT");
    assert_eq!(world.counter("ingress_no_item"), 1);
    assert_eq!(unnamed.ask("setmark s 83000000"), "EPERM");
    // Finding 5: another host's source. Anybody may have it over IPv6, over IPv4 who has CAP_NET_RAW.
    program.run(&["open q udp6", "bind q [fd99::1]:7001", "open t udp4", "bind t 10.99.0.1:7003"]);
    let mut stranger = world.start("stranger");
    stranger.run(&["open r raw4", "stranger raw", "open f udp6", "freebind f", "bind f [fd99::2]:5000"]);
    for (kind, forge, to) in
        [("IPv6", "sendto f [fd99::1]:7001 5", "q"), ("IPv4", "spoof r 10.99.0.2 10.99.0.1:7001", "p")]
    {
        let before = world.counter("ingress_no_proof");
        stranger.run(&[forge]);
        assert_eq!(program.ask(&format!("recv {to} 40")), "ETIMEDOUT", "{kind}");
        assert_eq!(world.counter("ingress_no_proof"), before + 1, "{kind}");
    }
    // Where clear packets of the peer are taken, they are taken here.
    stranger.run(&["spoof r 10.99.0.2 10.99.0.1:7003"]);
    assert_eq!(program.ask("recv t 5000"), "7");
    // From one address of this host to another: known, once the host's addresses are.
    unnamed.run(&["open a udp6", "bind a [fd99::1]:6001", "sendto a [fd99::1]:7001 5"]);
    assert_eq!(program.ask("recv q 5000"), "5");
    world.alice.sh("ip addr add 10.99.0.200/32 dev up0");
    unnamed.run(&["open b udp4", "bind b 10.99.0.200:6001", "sendto b 10.99.0.1:7001 5"]);
    assert_eq!(program.ask("recv p 40"), "ETIMEDOUT", "not told of yet");
    world.monitor(|monitor| monitor.set_locals(&[prefix("10.99.0.200/32")]).unwrap());
    unnamed.run(&["sendto b 10.99.0.1:7001 5"]);
    assert_eq!(program.ask("recv p 5000"), "5");
    world.monitor(|monitor| monitor.set_locals(&[]).unwrap());
    unnamed.run(&["sendto b 10.99.0.1:7001 5"]);
    assert_eq!(program.ask("recv p 40"), "ETIMEDOUT", "gone again");
    // A process outside of the watched cgroup may set any mark; it does not outlive lo.
    assert_eq!(world.alice.run(|| mark_over_loopback(FULL)), 0);
    assert_eq!(world.alice.run(|| mark_over_loopback(0xca6c)), 0xca6c, "marks that are not ours stay");
    // Nor does an error that would change the path MTU of a protected flow.
    program.run(&["open u udp4", "bind u 10.99.0.1:7002", "connect u 10.99.0.2:53"]);
    let forged = icmp_error(BOB, ALICE, 3, 4, 1000, &udp((ALICE, 7002), (BOB, 53), &[0; 64]));
    world.alice.run(move || send_from(c"lo", &forged));
    unnamed.run(&["sendto s 10.99.0.1:7001 5"]);
    assert_eq!(program.ask("recv p 5000"), "5");
    assert_eq!(world.counter("icmp_protected"), 1);
}

/// The kernel takes a second priority tag off behind the hook, which saw no IP.
#[test]
fn a_frame_with_tags_is_no_way_past_a_hook() {
    let mut world = World::new("tagged");
    world.attach();
    world.load(&table(), &[]);
    let mut program = world.start("strict");
    program.run(&["open p udp4", "bind p 10.99.0.1:7001", "open t udp4", "bind t 10.99.0.1:7003"]);
    program.run(&["open u udp4", "bind u 10.99.0.1:7002", "connect u 10.99.0.2:53"]);
    world.alice.sh("sysctl -qw net.ipv4.conf.lo.rp_filter=0 net.ipv4.conf.all.rp_filter=0");
    world.alice.sh("sysctl -qw net.ipv4.conf.lo.accept_local=1");
    for tags in 0..4 {
        // A forged datagram of the peer's for a socket that wants proof, and for one that does not: that can arrive, unless it is hidden.
        for (socket, port, arrives) in [("p", 7001, false), ("t", 7003, tags < 2)] {
            let forged = udp((BOB, 5353), (ALICE, port), b"forged!");
            world.alice.run(move || send_tagged(c"lo", [0; 6], &forged, tags));
            match arrives {
                true => assert_eq!(program.ask(&format!("recv {socket} 5000")), "7", "{tags} tags"),
                false => assert_eq!(program.ask(&format!("recv {socket} 40")), "ETIMEDOUT", "{tags} tags"),
            }
        }
        // An error that would change the path MTU of a protected flow.
        let forged = icmp_error(BOB, ALICE, 3, 4, 1000, &udp((ALICE, 7002), (BOB, 53), &[0; 64]));
        let (hidden, refused) = (world.counter("ingress_tagged"), world.counter("icmp_protected"));
        world.alice.run(move || send_tagged(c"lo", [0; 6], &forged, tags));
        let (hidden, refused) =
            (world.counter("ingress_tagged") - hidden, world.counter("icmp_protected") - refused);
        assert_eq!((hidden, refused), if tags < 2 { (0, 1) } else { (1, 0) }, "{tags} tags");
    }
}

#[test]
fn a_raw_sockets_copy_of_the_daemons_packets_is_no_refusal() {
    let mut world = World::new("daemon-copies");
    world.attach();
    let at = |port, level| item(PortRange::one(port), PortRange::ANY, Services::ENCRYPTED, level);
    let networks =
        vec![network("10.99.0.0/24", Class::Protected(0)), network("fd99::/64", Class::Protected(0))];
    let mut spd = Spd::new(1);
    spd.insert(STRICT, AppPolicy::new(networks, vec![vec![at(7001, Level::Mandatory)]]));
    world.load(&spd, &[]);
    let mut daemon = world.start_in("unnamed", "daemon");
    daemon.run(&["open d udp6", "bind d [::]:4500"]);
    let mut program = world.start("strict");
    program.run(&["open u rawudp4", "open v rawudp6", "open e rawesp4"]);
    let esp = ip(BOB, ALICE, 50, &[0; 40]);
    for (packet, socket) in [
        (udp((BOB, 4500), (ALICE, 4500), b"12345678ciphertext"), "u"),
        (udp((BOB6, 4500), (ALICE6, 4500), b"12345678ciphertext"), "v"),
        (esp, "e"),
    ] {
        let before = world.counter("ingress_copy");
        world.bob_sends(&packet);
        assert_eq!(program.ask(&format!("recv {socket} 100")), "ETIMEDOUT", "it is not shown either");
        assert_eq!(world.counter("ingress_copy"), before + 1, "{socket}");
    }
    let sums = world.traffic(STRICT);
    assert_eq!((sums.in_refused.packets, sums.reasons.len()), (0, 0), "{sums:?}");
    assert!(world.sockmon().events().unwrap().is_empty());
    // What is not for the daemon is refused and counted as ever: the same port with nobody of the daemon's behind it, another port.
    world.bob_sends(&udp((BOB, 5000), (ALICE, 7001), b"payload"));
    assert_eq!(program.ask("recv u 40"), "ETIMEDOUT");
    assert_eq!(world.counter("ingress_no_proof"), 1);
    daemon.run(&["close d"]);
    world.bob_sends(&udp((BOB, 4500), (ALICE, 4500), b"12345678ciphertext"));
    assert_eq!(program.ask("recv u 40"), "ETIMEDOUT");
    assert_eq!((world.counter("ingress_no_item"), world.counter("ingress_copy")), (1, 3));
}
