//! ICMP errors in clear about protected flows: by the uplink, by other devices, on the loopback. Needs root.

use crate::common;
use crate::inbound::{ARRIVED, FULL, unnamed_echo};

use common::packets::*;
use common::*;

#[test]
fn forged_icmp_does_not_reach_protected_flows() {
    let mut world = usual_world("icmp");
    let mut program = world.start("strict");
    program.run(&[
        "open u udp4",
        "bind u 10.99.0.1:6000",
        "connect u 10.99.0.2:53",
        "open v udp6",
        "bind v [fd99::1]:6000",
        "connect v [fd99::2]:53",
        "open t tcp4",
        "bind t 10.99.0.1:6001",
    ]);
    assert_eq!(program.ask("connect t 10.99.0.2:80"), "EINPROGRESS");
    let mut unnamed = world.start("unnamed");
    unnamed.run(&["open u udp4", "bind u 10.99.0.1:6100", "connect u 10.99.0.2:53"]);

    let quote = |from: (&str, u16), to: (&str, u16)| udp(from, to, &[0; 64]);
    let udp4 = quote((ALICE, 6000), (BOB, 53));
    let udp6 = quote((ALICE6, 6000), (BOB6, 53));
    let syn = tcp((ALICE, 6001), (BOB, 80), 1, 0, SYN);
    let clear = quote((ALICE, 6100), (BOB, 53));
    let echo = ip(ALICE, BOB, 1, &[8, 0, 0, 0, 0, 1, 0, 1]);
    let esp = quote((ALICE, 4500), (BOB, 4500));
    let cases: Vec<(&str, Vec<u8>, bool)> = vec![
        ("too big, udp4", icmp_error(BOB, ALICE, 3, 4, 1000, &udp4), true),
        ("port unreachable, udp4", icmp_error(BOB, ALICE, 3, 3, 0, &udp4), true),
        ("time exceeded, udp4", icmp_error(BOB, ALICE, 11, 0, 0, &udp4), true),
        ("parameter problem, udp4", icmp_error(BOB, ALICE, 12, 0, 0, &udp4), true),
        ("too big, tcp4", icmp_error(BOB, ALICE, 3, 4, 1000, &syn), true),
        ("too big, udp6", icmp_error(BOB6, ALICE6, 2, 0, 1300, &udp6), true),
        ("unreachable, udp6", icmp_error(BOB6, ALICE6, 1, 4, 0, &udp6), true),
        ("too big, a program without policy", icmp_error(BOB, ALICE, 3, 4, 1400, &clear), false),
        ("port unreachable, a program without policy", icmp_error(BOB, ALICE, 3, 3, 0, &clear), false),
        ("too big, echo, no association", icmp_error(BOB, ALICE, 3, 4, 1400, &echo), false),
        ("too big, ESP in UDP", icmp_error(BOB, ALICE, 3, 4, 1400, &esp), false),
        ("echo request", ip(BOB, ALICE, 1, &[8, 0, 0xf7, 0xfd, 0, 1, 0, 1]), false),
        ("cut short", icmp_error(BOB, ALICE, 3, 4, 1000, &udp4[..22]), true),
        ("redirect", icmp_error(BOB, ALICE, 5, 1, u32::from_be_bytes([10, 99, 0, 9]), &echo), true),
        ("redirect, IPv6", icmp_error(BOB6, ALICE6, 137, 0, 0, &udp6), true),
        ("source quench", icmp_error(BOB, ALICE, 4, 0, 0, &udp4), true),
        // Errors that nobody has defined, to the kernel errors all the same.
        ("type 0, IPv6", icmp_error(BOB6, ALICE6, 0, 0, 0, &udp6), true),
        ("type 5, IPv6", icmp_error(BOB6, ALICE6, 5, 0, 0, &udp6), true),
        ("type 100, IPv6", icmp_error(BOB6, ALICE6, 100, 0, 0, &udp6), true),
        ("type 127, IPv6", icmp_error(BOB6, ALICE6, 127, 0, 0, &udp6), true),
    ];
    let refused = |world: &mut World| {
        ["icmp_protected", "icmp_unreadable", "icmp_redirect", "gateway_icmp"]
            .iter()
            .map(|name| world.counter(name))
            .sum::<u64>()
    };
    for (name, packet, drop) in cases {
        let before = refused(&mut world);
        world.bob_sends(&packet);
        // Behind it on the same queue, and counted: when this has arrived, the first has been decided on.
        unnamed_echo(&world, &mut unnamed);
        assert_eq!(refused(&mut world) - before, u64::from(drop), "{name}");
        // The same out of IP in IP that arrived bare.
        world.inject(ARRIVED, &packet);
        world.inject(ARRIVED, &udp((BOB, 53), (ALICE, 6100), b"!"));
        while unnamed.ask("recv u 5000") != "1" {}
        assert_eq!(refused(&mut world) - before, 2 * u64::from(drop), "{name}, bare in IP");
    }
    for socket in ["u", "v"] {
        assert_eq!(
            program.ask(&format!("recv {socket} 0")),
            "ETIMEDOUT",
            "no error was reported to the program"
        );
    }
    world.sockmon().set_live_sas(&[serving("10.99.0.2/32")]).unwrap();
    let before = refused(&mut world);
    world.bob_sends(&icmp_error(BOB, ALICE, 3, 4, 1400, &echo));
    unnamed_echo(&world, &mut unnamed);
    assert_eq!(refused(&mut world) - before, 1, "an error about a ping would change the path MTU for all");
    world.bob_sends(&icmp_error(BOB, ALICE, 3, 4, 1400, &clear));
    unnamed_echo(&world, &mut unnamed);
    assert_eq!(
        refused(&mut world) - before,
        2,
        "and so would one about a socket that policy does not speak for"
    );
    let mut daemon = world.start_in("unnamed", "daemon");
    daemon.run(&["open e udp4", "bind e 10.99.0.1:4500"]);
    world.bob_sends(&icmp_error(BOB, ALICE, 3, 4, 1400, &esp));
    unnamed_echo(&world, &mut unnamed);
    assert_eq!(refused(&mut world) - before, 2, "one about ESP in UDP is the daemon's");
    // One that the engine vouches for arrives.
    world.inject(FULL, &icmp_error(BOB, ALICE, 3, 3, 0, &udp4));
    assert_eq!(program.ask("recv u 5000"), "ECONNREFUSED");
}

#[test]
fn without_the_uplink_filter_forged_icmp_arrives() {
    let mut world = World::new("no-filter");
    world.attach_without("uplink_ingress");
    world.load(&usual(), &usual_orders());
    let mut program = world.start("strict");
    program.run(&["open u udp4", "bind u 10.99.0.1:6000", "connect u 10.99.0.2:53"]);
    let quoted = udp((ALICE, 6000), (BOB, 53), &[0; 64]);
    world.bob_sends(&icmp_error(BOB, ALICE, 3, 3, 0, &quoted));
    assert_eq!(program.ask("recv u 5000"), "ECONNREFUSED");
}

/// A second device of Alice's host: what `beside1` sends arrives by `beside0`.
fn another_device(world: &World) -> u32 {
    world.alice.sh("ip link add beside0 address 02:00:00:00:00:0a type veth peer name beside1
        ip link set beside0 up; ip link set beside1 up; sysctl -qw net.ipv4.ip_forward=1");
    world.alice.ifindex("beside0")
}

/// An error that arrives by a device that is no uplink is believed as little.
fn forged_icmp_beside_the_uplink(mut world: World) {
    world.load(&usual(), &usual_orders());
    let mut program = world.start("strict");
    program.run(&[
        "open u udp4",
        "bind u 10.99.0.1:6000",
        "connect u 10.99.0.2:53",
        "open v udp6",
        "bind v [fd99::1]:6000",
        "connect v [fd99::2]:53",
    ]);
    let mut unnamed = world.start("unnamed");
    unnamed.run(&["open u udp4", "bind u 10.99.0.1:6100", "connect u 10.99.0.2:53"]);
    let udp4 = udp((ALICE, 6000), (BOB, 53), &[0; 64]);
    let udp6 = udp((ALICE6, 6000), (BOB6, 53), &[0; 64]);
    let clear = udp((ALICE, 6100), (BOB, 53), &[0; 64]);
    let cases = [
        ("port unreachable", icmp_error(BOB, ALICE, 3, 3, 0, &udp4), 1),
        ("too big", icmp_error(BOB, ALICE, 3, 4, 1000, &udp4), 1),
        ("unreachable, IPv6", icmp_error(BOB6, ALICE6, 1, 4, 0, &udp6), 1),
        ("too big, IPv6", icmp_error(BOB6, ALICE6, 2, 0, 1300, &udp6), 1),
        ("cut short", icmp_error(BOB, ALICE, 3, 3, 0, &udp4[..22]), 1),
        ("a program without policy", icmp_error(BOB, ALICE, 3, 3, 0, &clear), 0),
        ("for another host", icmp_error(BOB, "10.99.0.77", 3, 3, 0, &udp4), 0),
        ("redirect", icmp_error(BOB, ALICE, 5, 1, u32::from_be_bytes([10, 99, 0, 9]), &clear), 1),
    ];
    let refused = |world: &mut World| {
        ["icmp_protected", "icmp_unreadable", "icmp_redirect", "gateway_icmp"]
            .iter()
            .map(|name| world.counter(name))
            .sum::<u64>()
    };
    for (name, packet, dropped) in cases {
        let before = refused(&mut world);
        world.alice.run(move || {
            send_from(c"beside1", &packet);
            send_from(c"beside1", &udp((BOB, 53), (ALICE, 6100), b"!"));
        });
        // Behind it on the same queue. An error may come first.
        while unnamed.ask("recv u 5000") != "1" {}
        assert_eq!(refused(&mut world) - before, dropped, "{name}");
    }
    assert_eq!(program.ask("recv u 0"), "ETIMEDOUT", "no error was reported to the program");
    assert_eq!(program.ask("recv v 0"), "ETIMEDOUT", "no error was reported to the program");
}

#[test]
fn forged_icmp_by_another_device_reaches_no_protected_flow() {
    let mut world = World::new("icmp-beside");
    let beside = another_device(&world);
    world.attach_with(move |options| options.others = vec![beside]);
    forged_icmp_beside_the_uplink(world);
}

#[test]
fn forged_icmp_by_an_inside_interface_reaches_no_protected_flow() {
    let mut world = World::new("icmp-inside");
    let inside = another_device(&world);
    world.attach_with(move |options| options.insides = vec![inside]);
    forged_icmp_beside_the_uplink(world);
}

/// Whoever may open a raw socket sends errors on `lo` as the host itself, or as the peer.
#[test]
fn an_error_on_the_loopback_ends_no_protected_flow() {
    let mut world = usual_world("lo-errors");
    // What a raw socket sends has a route already; these frames must be let in.
    world.alice.sh("sysctl -qw net.ipv4.conf.lo.rp_filter=0 net.ipv4.conf.all.rp_filter=0");
    world.alice.sh("sysctl -qw net.ipv4.conf.lo.accept_local=1");
    let mut program = world.start("strict");
    program.run(&["open u udp4", "bind u 10.99.0.1:6000", "connect u 10.99.0.2:53"]);
    program.run(&["open v udp6", "bind v [fd99::1]:6000", "connect v [fd99::2]:53"]);
    let mut unnamed = world.start("unnamed");
    unnamed.run(&["open w udp4", "bind w 10.99.0.1:6001", "connect w 10.99.0.2:53"]);
    let udp4 = udp((ALICE, 6000), (BOB, 53), &[0; 64]);
    let udp6 = udp((ALICE6, 6000), (BOB6, 53), &[0; 64]);
    let errors = [
        icmp_error(BOB, ALICE, 3, 3, 0, &udp4),
        icmp_error(ALICE, ALICE, 3, 3, 0, &udp4),
        icmp_error(ALICE, ALICE, 3, 1, 0, &udp4),
        icmp_error(ALICE, ALICE, 11, 0, 0, &udp4),
        icmp_error(ALICE, ALICE, 12, 0, 0, &udp4),
        icmp_error(ALICE6, ALICE6, 1, 4, 0, &udp6),
        icmp_error(ALICE6, ALICE6, 3, 0, 0, &udp6),
        icmp_error(ALICE6, ALICE6, 4, 0, 0, &udp6),
    ];
    let sent = errors.len() as u64;
    // What nobody protects is told of as ever, and behind the others.
    let open = icmp_error(ALICE, ALICE, 3, 3, 0, &udp((ALICE, 6001), (BOB, 53), &[0; 64]));
    world
        .alice
        .run(move || errors.iter().chain([&open]).for_each(|error| send_tagged(c"lo", [0; 6], error, 0)));
    assert_eq!(unnamed.ask("recv w 5000"), "ECONNREFUSED");
    assert_eq!(world.counter("icmp_protected"), sent);
    assert_eq!(program.ask("recv u 0"), "ETIMEDOUT");
    assert_eq!(program.ask("recv v 0"), "ETIMEDOUT");
    // The host's own answer to what its programs send to each other.
    program.run(&["open h udp4", "bind h 10.99.0.1:6002", "connect h 10.99.0.1:9", "send h 5"]);
    assert_eq!(program.ask("recv h 5000"), "ECONNREFUSED");
    assert_eq!(world.counter("icmp_protected"), sent);
}
