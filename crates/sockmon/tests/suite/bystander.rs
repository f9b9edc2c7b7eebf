//! What no socket of an application sends: frames of packet sockets, packets of other network namespaces, of the kernel and of
//! programs without a policy (docs/design/0016). Needs root.

use crate::common;

use common::*;
use sadb::spd::{AppPolicy, Class};

/// Frames for bob's addresses, by the type that the sender names and that of the frame, in hexadecimal.
fn frame(named: &str, real: &str, to: &str) -> String {
    format!("frame s up0 {named} {real} {to}")
}

/// Nothing leaves for bob's networks but to 10.99.0.140 and fd99::8.
fn guard() -> AppPolicy {
    let networks = vec![
        network("10.99.0.0/24", Class::Untrusted),
        network("10.99.0.140/32", Class::Trusted),
        network("fd99::/64", Class::Untrusted),
        network("fd99::8/128", Class::Trusted),
    ];
    AppPolicy::new(networks, Vec::new())
}

#[test]
fn frames_of_a_program_are_its_packets() {
    let mut world = usual_world("frames");
    world.wire();
    let mut program = world.start("strict");
    program.run(&["open s packet0"]);
    for (to, kind) in [("10.99.0.2", "0800"), ("fd99::2", "86dd")] {
        program.run(&[&frame(kind, kind, to)]);
        let seen = world.drain();
        assert_eq!(seen.len(), 1, "{to}");
        assert_eq!(seen[0].mark, stamp(STRICT), "{to}");
    }
    // Trusted, none, untrusted.
    for (to, count) in [("10.99.0.130", 1), ("10.98.0.2", 1), ("10.99.0.70", 0)] {
        program.ask(&frame("0800", "0800", to));
        assert_eq!(world.wire().len(), count, "{to}");
    }
    assert_eq!(world.counter("egress_untrusted"), 1);
    assert_eq!(world.drain(), []);
    // Other programs, and the daemon's own.
    for (name, part) in [("unnamed", "app"), ("strict", "daemon")] {
        let mut other = world.start_in(name, part);
        other.run(&["open s packet0", &frame("0800", "0800", "10.99.0.2")]);
        assert_eq!(world.wire().len(), 1, "{name} in {part}");
    }
}

#[test]
fn a_frame_says_what_it_is() {
    let mut world = usual_world("disguise");
    world.wire();
    let mut program = world.start("strict");
    program.run(&["open s packet0"]);
    let disguises = [
        ("88b5", "0800"),
        ("88b5", "86dd"),
        ("8100", "8100"),
        ("88b5", "8100"),
        ("8847", "88b5"),
        // Said to be IP, and another thing on the wire.
        ("0800", "8100"),
        ("0800", "86dd"),
        ("86dd", "88b5"),
        // IEEE 802.2.
        ("0004", "002c"),
        ("88b5", "0027"),
        // ISO's protocols behind it, and bridged frames.
        ("88b5", "0028"),
        ("88b5", "002d"),
        // IP where ARP should be.
        ("0806", "0806"),
        // More tags, PPP, a bridged frame.
        ("88b5", "9200"),
        ("88b5", "9300"),
        ("88b5", "880b"),
        ("88b5", "6558"),
    ];
    for (named, real) in disguises {
        assert_eq!(program.ask(&frame(named, real, "10.99.0.2")), "errno 105", "{named} {real}");
    }
    assert_eq!(world.counter("egress_disguised"), disguises.len() as u64);
    // What is not IP is not our business.
    program.run(&[&frame("88b5", "88b5", "10.99.0.2"), "arp s up0"]);
    assert_eq!(world.counter("egress_disguised"), disguises.len() as u64);
    let mut other = world.start("unnamed");
    other.run(&["open s packet0", &frame("88b5", "0800", "10.99.0.2")]);
    // PACKET_QDISC_BYPASS, XDP_TX_RING.
    program.run(&["open x xdp0"]);
    for way in ["set s 263 20 4", "set x 283 3 4"] {
        assert_eq!(program.ask(way), "EPERM", "{way}");
    }
    other.run(&["set s 263 20 4"]);
    assert_eq!(world.counter("setsockopt_bypass"), 2);
}

/// What `wire::link` takes for IP, or says that others may, is no other frame to the kernel half either.
#[test]
fn the_kernel_half_knows_every_disguise_that_captures_are_searched_for() {
    let mut world = usual_world("link-types");
    let mut program = world.start("strict");
    program.run(&["open s packet0"]);
    let mut known = 0;
    for kind in 0x0600..=0xffff_u16 {
        let frame = [vec![2; 12], kind.to_be_bytes().to_vec(), vec![0x45; 60]].concat();
        let is_tag = wire::link::may_carry_ip(kind);
        if !is_tag && wire::link::ethernet(&frame) == wire::link::FrameContent::Other {
            continue;
        }
        known += 1;
        let answer = program.ask(&format!("frame s up0 88b5 {kind:04x} 10.99.0.2"));
        assert_eq!(answer, "errno 105", "{kind:04x}");
    }
    assert!(known > 20, "{known}");
    assert_eq!(world.counter("egress_disguised"), known);
}

/// Finding 7: a call of 32 bits passes no cgroup hook. Where this kernel takes a program at its security hook, that one refuses; where it
/// does not, `sockmon::option_hook` (and with it `ravelin doctor`) says that nobody does.
#[cfg(target_arch = "x86_64")]
#[test]
fn calls_of_32_bits_are_no_way_past_the_devices() {
    let mut world = usual_world("compat");
    world.wire();
    let mut program = world.start("strict");
    program.run(&["open s packet0", "open x xdp0", "open u udp4", "stranger raw"]);
    let mut other = world.start("unnamed");
    other.run(&["open s packet0", "open u udp4", "stranger raw"]);
    let frame = frame("0800", "0800", "10.99.0.70");
    assert_eq!(other.ask("set32 u 1 6 4"), "ok", "this kernel has calls of 32 bits (SO_BROADCAST)");
    // Ravelin's own options need their value, which only the cgroup hook sees: such a call gets the kernel's answer.
    assert_eq!(other.ask("set32 u 5395020 1 4"), "ENOPROTOOPT");
    if sockmon::option_hook().is_none() {
        assert_eq!(program.ask("set32 s 263 20 4"), "ok");
        program.run(&[&frame]);
        assert_eq!(world.wire().len(), 1, "this is what `doctor` warns of");
        return;
    }
    // PACKET_QDISC_BYPASS, XDP_TX_RING, SO_MARK.
    for way in ["set32 s 263 20 4", "set32 x 283 3 4", "set32 u 1 36 4"] {
        assert_eq!(program.ask(way), "EPERM", "{way}");
    }
    program.ask(&frame);
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
    assert_eq!(world.counter("egress_untrusted"), 1);
    assert_eq!((world.counter("setsockopt_bypass"), world.counter("setsockopt_mark")), (2, 1));
    // By a call of 64 bits it is told once, too.
    assert_eq!(program.ask("set s 263 20 4"), "EPERM");
    assert_eq!(world.counter("setsockopt_bypass"), 3);
    // Other options, other programs, and the daemon.
    program.run(&["set32 u 1 6 4"]);
    other.run(&["set32 s 263 20 4", "set32 u 1 36 4"]);
    let mut daemon = world.start_in("strict", "daemon");
    daemon.run(&["open s packet0", "set32 s 263 20 4"]);
    // With `guard` nobody's frames leave past it.
    let mut spd = usual();
    spd.guard = guard();
    world.load(&spd, &usual_orders());
    assert_eq!(other.ask("set32 s 263 20 4"), "EPERM");
    other.run(&["set32 u 1 36 4"]);
    daemon.run(&["set32 s 263 20 4"]);
    // Nothing of it outlives the instance.
    drop(world.sockmon.take());
    assert_eq!(program.ask("set32 s 263 20 4"), "EPERM", "without a daemon");
    sockmon::detach(&world.name).unwrap();
    program.run(&["set32 s 263 20 4"]);
}

/// Finding 8: another Ethernet device than the uplinks, as whoever has CAP_NET_RAW alone.
#[test]
fn frames_leave_by_no_other_device_either() {
    let mut world = usual_world("bystander-others");
    world.alice.sh("ip link add side0 address 02:00:00:00:00:0a type veth peer name side1
        ip link set side0 up; ip link set side1 up");
    let side = world.alice.ifindex("side0");
    world.monitor(move |monitor| monitor.set_others(&[side]).unwrap());
    let far = world.alice.run(|| packets::listen_on(c"side1"));
    let mut program = world.start("strict");
    program.run(&["open s packet0", "stranger raw"]);
    // Protected, trusted, none, untrusted.
    let cases = [("10.99.0.2", false), ("10.99.0.130", true), ("10.98.0.2", true), ("10.99.0.70", false)];
    for (to, leaves) in cases {
        let before = world.counter("egress_unguarded");
        let answer = program.ask(&format!("frame s side0 0800 0800 {to}"));
        assert_eq!(answer == "ok", leaves, "{to}: {answer}");
        assert_eq!(packets::heard(&far), u32::from(leaves), "{to}");
        assert_eq!(world.counter("egress_unguarded") - before, u64::from(!leaves), "{to}");
    }
    assert_eq!(program.ask("frame s side0 88b5 0800 10.99.0.2"), "errno 105");
    assert_eq!(packets::heard(&far), 0);
    // What goes to lo might be forwarded.
    assert_eq!(program.ask("frame s lo 0800 0800 10.99.0.2"), "errno 105");
    // Other programs, and what is not IP.
    let mut other = world.start("unnamed");
    other.run(&["open s packet0", "frame s side0 0800 0800 10.99.0.2"]);
    program.run(&["frame s side0 88b5 88b5 10.99.0.2"]);
    assert_eq!(packets::heard(&far), 2);
    // It goes with the device, and is no fault.
    world.monitor(move |monitor| monitor.set_others(&[]).unwrap());
    program.run(&["frame s side0 0800 0800 10.99.0.2"]);
    assert_eq!(packets::heard(&far), 1);
    world.monitor(move |monitor| monitor.set_others(&[side, 9999]).unwrap());
    assert_eq!(world.monitor(move |monitor| monitor.health()), []);
}

/// A device writes the checksum of a packet into it behind our programs, where the sender says (PACKET_VNET_HDR): not over its address.
#[test]
fn a_device_writes_nothing_but_checksums() {
    let mut world = usual_world("bystander-summed");
    let mut program = world.start("strict");
    program.run(&["open s packet0", "stranger raw"]);
    // To a trusted network: the checksum of UDP, one over the destination, one over a port; a frame that is not IP yet.
    let cases = [
        ("34 6 up0 0800 0800", "ok"),
        ("20 10 up0 0800 0800", "errno 105"),
        ("34 2 up0 0800 0800", "errno 105"),
        ("20 0 up0 88b5 88b5", "errno 105"),
    ];
    for (how, expected) in cases {
        let before = world.counter("egress_disguised");
        assert_eq!(program.ask(&format!("summed s {how} 10.99.0.130")), expected, "{how}");
        assert_eq!(world.counter("egress_disguised") - before, u64::from(expected != "ok"), "{how}");
    }
    let mut other = world.start("unnamed");
    other.run(&["open s packet0", "summed s 20 0 up0 88b5 88b5 10.99.0.130"]);
}

/// An interface of a network behind this host is no way out for a program's frames, either.
#[test]
fn frames_leave_by_no_inside_interface_either() {
    let mut world = World::new("bystander-inside");
    world.alice.sh("ip link add in0 address 02:00:00:00:00:0a type veth peer name in1
        ip link set in0 up; ip link set in1 up");
    let inside = world.alice.ifindex("in0");
    world.attach_with(move |options| options.insides = vec![inside]);
    world.load(&usual(), &usual_orders());
    let far = world.alice.run(|| packets::listen_on(c"in1"));
    let mut program = world.start("strict");
    program.run(&["open s packet0", "stranger raw"]);
    // Protected, trusted, none, untrusted.
    let cases = [("10.99.0.2", false), ("10.99.0.130", true), ("10.98.0.2", true), ("10.99.0.70", false)];
    for (to, leaves) in cases {
        let before = world.counter("egress_unguarded");
        let answer = program.ask(&format!("frame s in0 0800 0800 {to}"));
        assert_eq!(answer == "ok", leaves, "{to}: {answer}");
        assert_eq!(packets::heard(&far), u32::from(leaves), "{to}");
        assert_eq!(world.counter("egress_unguarded") - before, u64::from(!leaves), "{to}");
    }
    assert_eq!(program.ask("frame s in0 88b5 0800 10.99.0.2"), "errno 105");
    let mut other = world.start("unnamed");
    other.run(&["open s packet0", "frame s in0 0800 0800 10.99.0.2"]);
    assert_eq!(packets::heard(&far), 1);
}

/// The copy has no socket, and goes by a device that is no uplink.
#[test]
fn a_firewalls_copy_of_a_protected_packet_does_not_leave() {
    let mut world = usual_world("bystander-copy");
    world.alice.sh("ip link add side0 address 02:00:00:00:00:0a type veth peer name side1
        ip link set side0 up; ip link set side1 up
        ip route add 10.98.0.3/32 dev side0
        ip neigh replace 10.98.0.3 lladdr 02:00:00:00:00:0b dev side0 nud permanent
        ip neigh replace 10.99.0.130 lladdr 02:00:00:00:00:0b dev up0
        nft 'add table ip d; add chain ip d out { type filter hook output priority 0; }'
        nft 'add rule ip d out udp dport 9 dup to 10.98.0.3 device side0'");
    let side = world.alice.ifindex("side0");
    world.monitor(move |monitor| monitor.set_others(&[side]).unwrap());
    let far = world.alice.run(|| packets::listen_on(c"side1"));
    let mut program = world.start("strict");
    program.run(&["open u udp4", "sendto u 10.99.0.130:9 20"]);
    assert_eq!(packets::heard(&far), 1, "what policy trusts is the firewall's to copy");
    program.run(&["sendto u 10.99.0.2:9 20"]);
    assert_eq!((packets::heard(&far), world.counter("egress_unguarded")), (0, 1));
    assert_eq!(world.seen_within(SOON).expect("on the TUN").mark, stamp(STRICT));
}

#[test]
fn nothing_unpoliced_leaves_for_guarded_networks() {
    let mut world = World::new("bystander-guard");
    world.attach();
    let mut spd = usual();
    spd.guard = guard();
    world.load(&spd, &usual_orders());
    world.wire();
    world.alice.sh("ip neigh replace 10.99.0.130 lladdr 02:00:00:00:00:0b dev up0
                    ip neigh replace 10.99.0.140 lladdr 02:00:00:00:00:0b dev up0
                    ip neigh replace fd99::8 lladdr 02:00:00:00:00:0b dev up0
                    ip neigh replace 10.98.0.2 lladdr 02:00:00:00:00:0b dev up0");
    let mut other = world.start("unnamed");
    other.run(&["open s packet0", "open u udp4", "open v udp6"]);
    let refused = [
        frame("0800", "0800", "10.99.0.2"),
        frame("86dd", "86dd", "fd99::2"),
        "sendto u 10.99.0.2:9 20".into(),
        "sendto u 10.99.0.130:9 20".into(),
        "sendto v [fd99::2]:9 20".into(),
    ];
    for (done, way) in refused.iter().enumerate() {
        other.ask(way);
        assert_eq!(world.wire(), [] as [Vec<u8>; 0], "{way}");
        assert_eq!(world.counter("egress_guard"), done as u64 + 1, "{way}");
    }
    assert_eq!(other.ask(&frame("88b5", "0800", "10.99.0.2")), "errno 105");
    assert_eq!(other.ask("set s 263 20 4"), "EPERM");
    for way in [
        frame("0800", "0800", "10.99.0.140"),
        frame("86dd", "86dd", "fd99::8"),
        "sendto u 10.99.0.140:9 20".into(),
        "sendto v [fd99::8]:9 20".into(),
        "sendto u 10.98.0.2:9 20".into(),
    ] {
        other.run(&[&way]);
        assert_eq!(world.wire().len(), 1, "{way}");
    }
    // `guard` holds by a device that is no uplink as well.
    world.alice.sh("ip link add side0 address 02:00:00:00:00:0a type veth peer name side1
        ip link set side0 up; ip link set side1 up
        ip route add 10.99.0.3/32 dev side0 src 10.99.0.1; ip route add 10.98.0.3/32 dev side0 src 10.99.0.1
        ip neigh replace 10.99.0.3 lladdr 02:00:00:00:00:0b dev side0 nud permanent
        ip neigh replace 10.98.0.3 lladdr 02:00:00:00:00:0b dev side0 nud permanent");
    let side = world.alice.ifindex("side0");
    world.monitor(move |monitor| monitor.set_others(&[side]).unwrap());
    let far = world.alice.run(|| packets::listen_on(c"side1"));
    let before = world.counter("egress_guard");
    other.ask("sendto u 10.99.0.3:9 20");
    assert_eq!((packets::heard(&far), world.counter("egress_guard") - before), (0, 1));
    other.run(&["sendto u 10.98.0.3:9 20"]);
    assert_eq!(packets::heard(&far), 1);
    // Programs with a policy have theirs, the daemon has none.
    let mut weak = world.start("weak");
    weak.run(&["open s udp4", "sendto s 10.99.0.2:9 20"]);
    assert_eq!(world.wire().len(), 1, "a program that trusts the network");
    let mut strict = world.start("strict");
    strict.run(&["open s udp4", "sendto s 10.99.0.2:9 20"]);
    assert_eq!(world.drain().len(), 1);
    let mut daemon = world.start_in("unnamed", "daemon");
    daemon.run(&["open s udp4", "sendto s 10.99.0.2:4500 20", "open p packet0"]);
    daemon.run(&["frame p up0 0800 0800 10.99.0.2"]);
    assert_eq!(world.wire().len(), 2, "the daemon's own");

    // A network behind this host, and the kernel's own answers.
    let count = world.counter("egress_guard");
    world.alice.sh("echo 1 > /proc/sys/net/ipv4/ip_forward
        ip link add in0 address 02:00:00:00:00:0a type veth peer name in1
        ip addr add 10.97.0.1/24 dev in0; ip link set in0 up; ip link set in1 up");
    let packet = packets::udp(("10.97.0.2", 9), (BOB, 9), b"forwarded");
    world.alice.run(move || packets::send_from(c"in1", &packet));
    wait_for(&mut world, count + 1);
    let echo = [8, 0, 0xf7, 0xfd, 0, 1, 0, 1];
    world.bob_sends(&packets::ip(BOB, ALICE, 1, &echo));
    wait_for(&mut world, count + 2);
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
    // Neighbours are found all the same.
    world.alice.sh("ip neigh del fd99::2 dev up0; ip neigh del fd99::1 dev up0 2>/dev/null || true");
    other.run(&["sendto v [fd99::2]:9 20"]);
    wait_for(&mut world, count + 3);

    // Without the statement everything is as before.
    world.load(&usual(), &usual_orders());
    other.run(&["sendto u 10.99.0.2:9 20"]);
    assert_eq!(world.wire().len(), 1);
}

/// Wait until so many packets were stopped.
fn wait_for(world: &mut World, count: u64) {
    let end = std::time::Instant::now() + SOON;
    while world.counter("egress_guard") < count {
        assert!(std::time::Instant::now() < end, "{} of {count} stopped", world.counter("egress_guard"));
        std::thread::sleep(NEVER / 10);
    }
}
