//! What leaves the host: every packet of a protected program goes to the TUN with its application, nothing of it is
//! seen on the wire, and nothing of anyone else is touched. Needs root.

use crate::common;

use common::*;
use sadb::spd::{AppPolicy, Class, Level, Spd};

/// What a program does, how many packets must come out of the TUN, and the IP version.
const WAYS: &[(&str, &[&str], usize, u8)] = &[
    ("udp4 sendto", &["open s udp4", "sendto s 10.99.0.2:53 40"], 1, 4),
    ("udp4 connected", &["open s udp4", "connect s 10.99.0.2:53", "send s 40", "send s 40"], 2, 4),
    ("udp4 fragments", &["open s udp4", "fragment s", "sendto s 10.99.0.2:53 4000"], 3, 4),
    ("udp4 segmentation offload", &["open s udp4", "segment s 1000", "sendto s 10.99.0.2:53 5000"], 1, 4),
    ("udp6 sendto", &["open s udp6", "sendto s [fd99::2]:53 40"], 1, 6),
    ("udp6 connected", &["open s udp6", "connect s [fd99::2]:53", "send s 40"], 1, 6),
    ("udp6 fragments", &["open s udp6", "sendto s [fd99::2]:53 4000"], 3, 6),
    ("udp6 mapped", &["open s udp6", "sendto s [::ffff:10.99.0.2]:53 40"], 1, 4),
    ("udp6 mapped, connected", &["open s udp6", "connect s [::ffff:10.99.0.2]:53", "send s 40"], 1, 4),
    ("raw ICMP", &["open s icmp4", "sendto s 10.99.0.2:0 40 echo"], 1, 4),
];

/// What a program does with TCP, whose calls answer EINPROGRESS: a name, two commands, and the IP version.
const CONNECTS: &[(&str, &str, &str, u8)] = &[
    ("tcp4", "open s tcp4", "connect s 10.99.0.2:80", 4),
    ("tcp6", "open s tcp6", "connect s [fd99::2]:80", 6),
    ("tcp6 mapped", "open s tcp6", "connect s [::ffff:10.99.0.2]:80", 4),
    ("tcp4 fast open", "open s tcp4", "fastopen s 10.99.0.2:80 10", 4),
];

#[test]
fn every_packet_of_a_protected_program_goes_to_the_tun() {
    let mut world = usual_world("ways");
    world.wire();
    for (name, commands, packets, version) in WAYS {
        let mut program = world.start("strict");
        program.run(commands);
        let seen = world.drain();
        assert_eq!(seen.len(), *packets, "{name}: {seen:x?}");
        for packet in &seen {
            assert_eq!(packet.mark, stamp(STRICT), "{name}");
            assert_eq!(packet.version, version << 4, "{name}");
            assert_ne!(packet.cookie, 0, "{name}");
            assert_eq!(packet.cookie, seen[0].cookie, "{name}: one socket, one cookie");
        }
        if name.ends_with("offload") {
            assert_eq!((seen[0].gso_type, seen[0].gso_size), (5, 1000), "{name}");
        }
        assert_eq!(world.wire(), [] as [Vec<u8>; 0], "{name}: clear on the wire");
    }
    for (name, open, connect, version) in CONNECTS {
        let mut program = world.start("strict");
        program.run(&[open]);
        assert_eq!(
            program.ask("mark s"),
            format!("{:#x}", stamp(STRICT)),
            "{name}: stamped before its first packet"
        );
        assert_eq!(program.ask(connect), "EINPROGRESS", "{name}");
        let syn = world.seen_within(SOON).unwrap_or_else(|| panic!("{name}: no SYN on the TUN"));
        assert_eq!((syn.mark, syn.version), (stamp(STRICT), version << 4), "{name}");
        assert_eq!(packets::transport(&syn.packet).0, 6, "{name}");
        assert_eq!(world.wire(), [] as [Vec<u8>; 0], "{name}: clear on the wire");
        drop(program);
        world.drain();
    }
    assert!(world.counter("egress_redirected") >= 17);
    assert_eq!(world.counter("egress_redirected"), world.counter("tun_recorded"));
}

#[test]
fn others_are_left_alone() {
    let mut world = usual_world("others");
    world.wire();
    // A program that no policy names; a policed one to a trusted network, and to none.
    world.alice.sh("ip neigh replace 10.98.0.2 lladdr 02:00:00:00:00:0b dev up0
                    ip neigh replace 10.99.0.130 lladdr 02:00:00:00:00:0b dev up0
                    ip neigh replace fd99:0:0:0:2::1 lladdr 02:00:00:00:00:0b dev up0");
    for (name, to) in [
        ("unnamed", "10.99.0.2:9"),
        ("unnamed", "10.99.0.70:9"),
        ("strict", "10.99.0.130:9"),
        ("strict", "10.98.0.2:9"),
        ("weak", "10.99.0.2:9"),
    ] {
        if to == "10.99.0.70:9" {
            world.alice.sh("ip neigh replace 10.99.0.70 lladdr 02:00:00:00:00:0b dev up0");
        }
        let mut program = world.start(name);
        program.run(&["open s udp4", &format!("sendto s {to} 33")]);
        let wire = world.wire();
        assert_eq!(wire.len(), 1, "{name} to {to}");
        assert_eq!(wire[0].len(), 20 + 8 + 33);
        assert_eq!(world.seen(), None, "{name} to {to}: on the TUN");
        if name == "unnamed" {
            assert_eq!(program.ask("mark s"), "0x0", "a program without policy keeps its mark");
        }
    }
    let mut program = world.start("strict");
    program.run(&["open s udp6", "sendto s [fd99:0:0:0:2::1]:9 33"]);
    assert_eq!(world.wire().len(), 1);
    // The daemon's own sockets are never stamped, whatever the program.
    let mut daemon = world.start_in("strict", "daemon");
    daemon.run(&["open s udp4", "sendto s 10.99.0.2:4500 33"]);
    assert_eq!(daemon.ask("mark s"), "0x0");
    assert_eq!(world.wire().len(), 1);
    assert_eq!(world.seen(), None);
    assert_eq!(world.counter("egress_redirected"), 0);
}

#[test]
fn untrusted_peers_and_uncovered_ports_are_refused_with_eperm() {
    use sadb::spd::{AppPolicy, Class, Level, PortRange};
    use sockmon::Attempt;
    let mut world = usual_world("untrusted");
    world.wire();
    let cases = [
        ("open s udp4", "sendto s 10.99.0.70:7 9", Attempt::Send, "10.99.0.70:7"),
        ("open s udp6", "sendto s [fd99::1:0:0:7]:7 9", Attempt::Send, "[fd99::1:0:0:7]:7"),
        ("open s udp6", "sendto s [::ffff:10.99.0.70]:7 9", Attempt::Send, "10.99.0.70:7"),
        ("open s udp4", "connect s 10.99.0.70:7", Attempt::Connect, "10.99.0.70:7"),
        ("open s udp6", "connect s [fd99::1:0:0:7]:7", Attempt::Connect, "[fd99::1:0:0:7]:7"),
        ("open s udp6", "connect s [::ffff:10.99.0.70]:7", Attempt::Connect, "10.99.0.70:7"),
        ("open s tcp4", "connect s 10.99.0.70:7", Attempt::Connect, "10.99.0.70:7"),
        ("open s tcp6", "connect s [fd99::1:0:0:7]:7", Attempt::Connect, "[fd99::1:0:0:7]:7"),
        ("open s tcp6", "connect s [::ffff:10.99.0.70]:7", Attempt::Connect, "10.99.0.70:7"),
        ("open s tcp4", "fastopen s 10.99.0.70:7 5", Attempt::Connect, "10.99.0.70:7"),
    ];
    let mut program = world.start("strict");
    for (open, call, attempt, peer) in cases {
        program.run(&[open]);
        assert_eq!(program.ask(call), "EPERM", "{call}");
        let events = world.sockmon().events().unwrap();
        assert_eq!(events.len(), 1, "{call}: {events:?}");
        assert_eq!(
            (events[0].attempt, events[0].app, events[0].pid),
            (attempt, STRICT, program.pid()),
            "{call}"
        );
        assert_eq!(events[0].peer, peer.parse().unwrap(), "{call}");
        assert_eq!(events[0].comm, "strict");
        program.run(&["close s"]);
    }
    assert_eq!(world.counter("sendmsg_untrusted"), 3);
    assert_eq!(world.counter("connect_untrusted"), 7);

    // Protected, but no item covers port 25: clear would be a guess.
    let mut spd = usual();
    let item = item(PortRange::ANY, PortRange::one(80), wire::Services::ENCRYPTED, Level::Mandatory);
    spd.insert(STRICT, AppPolicy::new(vec![network("10.99.0.0/24", Class::Protected(0))], vec![vec![item]]));
    world.load(&spd, &[]);
    program.run(&["open s tcp4", "open u udp4"]);
    assert_eq!(program.ask("connect s 10.99.0.2:25"), "EPERM");
    assert_eq!(program.ask("sendto u 10.99.0.2:25 3"), "EPERM");
    program.run(&["sendto u 10.99.0.2:80 3"]);
    assert_eq!(program.ask("connect s 10.99.0.2:80"), "EINPROGRESS");
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
}

#[test]
fn a_source_route_is_no_way_around() {
    // On the wire the packet goes to a trusted host, which is to send it on to the protected one.
    let mut world = usual_world("source-route");
    world.alice.sh("ip neigh replace 10.99.0.130 lladdr 02:00:00:00:00:0b dev up0 nud permanent");
    world.wire();
    let mut program = world.start("strict");
    program.run(&["open s udp4", "route s 10.99.0.130", "sendto s 10.99.0.2:9 5"]);
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
    assert_eq!(world.counter("egress_source_route"), 1);
}

/// The destination that is seen at the device is that of a segment, not of the peer.
#[test]
fn a_route_that_wraps_is_no_way_around() {
    let mut world = usual_world("wrapped");
    world.alice.sh("ip route replace 10.99.0.2/32 encap seg6 mode encap.red segs fd98::9 dev up0
                    ip route replace fd99::2/128 encap seg6 mode encap.red segs fd98::9 dev up0
                    ip route replace fd98::9/128 dev up0
                    ip neigh replace fd98::9 lladdr 02:00:00:00:00:0b dev up0");
    for (socket, peer) in [("udp4", "10.99.0.2:53"), ("udp6", "[fd99::2]:53")] {
        world.wire();
        let mut other = world.start("unnamed");
        other.run(&[&format!("open s {socket}"), &format!("sendto s {peer} 40")]);
        assert_eq!(world.wire().len(), 1, "{peer}: of a program that policy does not name");
        let before = world.counter("egress_source_route");
        let mut program = world.start("strict");
        program.run(&[&format!("open s {socket}")]);
        program.ask(&format!("sendto s {peer} 40"));
        assert_eq!(world.wire(), [] as [Vec<u8>; 0], "{peer}");
        assert_eq!(world.counter("egress_source_route"), before + 1, "{peer}");
    }
}

/// A raw socket that brings its own header: the type that it is sent as says one version, and its first octet the other one, which
/// would have its destination at another place.
#[test]
fn a_header_of_another_version_than_its_type_does_not_leave() {
    let hex = |octets: &[u8]| octets.iter().map(|octet| format!("{octet:02x}")).collect::<String>();
    // To 10.99.0.2; as IPv6 it would be for 2001:db8:ffff::1, of no network.
    let mut as_six =
        [&[0x65, 0, 0, 0, 0, 0, 59, 64, 0, 59, 0, 0, 10, 99, 0, 1, 10, 99, 0, 2][..], &[0; 40]].concat();
    as_six[24..40].copy_from_slice(&[0x20, 1, 0xd, 0xb8, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    // To fd99::2; as IPv4 it would be for 203.0.113.9.
    let mut as_four = [&[0x45, 0, 0, 60, 0, 20, 59, 64, 64, 59, 0, 0][..], &[0; 48]].concat();
    as_four[12..20].copy_from_slice(&[192, 0, 2, 1, 203, 0, 113, 9]);
    as_four[24..40].copy_from_slice(&[0xfd, 0x99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    let ways = [
        ("s", format!("sendhex s 10.99.0.2:0 {}", hex(&as_six))),
        ("t", format!("sendhex t [fd99::2]:0 {}", hex(&as_four))),
    ];
    for (name, guards) in [("version", false), ("version-guard", true)] {
        let mut world = World::new(name);
        world.attach();
        let mut spd = usual();
        if guards {
            let networks =
                vec![network("10.99.0.0/24", Class::Untrusted), network("fd99::/64", Class::Untrusted)];
            spd.guard = AppPolicy::new(networks, Vec::new());
        }
        world.load(&spd, &usual_orders());
        world.alice.sh("ip neigh replace 10.99.0.2 lladdr 02:00:00:00:00:0b dev up0
                        ip neigh replace fd99::2 lladdr 02:00:00:00:00:0b dev up0");
        world.wire();
        let mut program = world.start(if guards { "unnamed" } else { "strict" });
        program.run(&["open s raw4", "open t raw6"]);
        let counter = if guards { "egress_guard" } else { "egress_malformed" };
        for (done, (socket, way)) in ways.iter().enumerate() {
            program.ask(way);
            assert_eq!(world.wire(), [] as [Vec<u8>; 0], "{socket} {name}");
            assert_eq!(world.counter(counter), done as u64 + 1, "{socket} {name}");
        }
        assert_eq!(world.drain(), []);
    }
}

#[test]
fn the_packet_mark_is_not_what_decides() {
    // Without the guard of SO_MARK a program can wipe its mark, as a firewall rule could.
    let mut world = World::new("wiped");
    world.attach_without("set_option");
    world.load(&usual(), &usual_orders());
    world.wire();
    let mut program = world.start("strict");
    program.run(&["open s udp4", "setmark s 0", "sendto s 10.99.0.2:53 40"]);
    assert_eq!(program.ask("mark s"), "0x0");
    assert_eq!(world.seen_within(SOON).expect("on the TUN").mark, stamp(STRICT));
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
}

/// Finding 9, as whoever has CAP_NET_RAW alone: SO_MARK as a control message has no hook.
#[test]
fn a_mark_beside_a_datagram_is_worth_nothing() {
    let mut world = usual_world("beside");
    world.wire();
    let mut stranger = world.start("unnamed");
    stranger.run(&["open s udp4", "open t udp4", "open p packet0", "device t rvl0", "stranger raw"]);
    // STRICT's stamp; an answer under protection; both.
    for mark in ["10007", "83000000", "83010007", "3010000"] {
        stranger.run(&[&format!("sendmark s 10.99.0.2:53 40 {mark}")]);
        assert_eq!(world.wire().len(), 1, "{mark}: as nobody's");
        assert_eq!(world.drain(), [], "{mark}: by the uplink");
        let before = world.counter("tun_unstamped");
        stranger.ask(&format!("sendmark t 10.99.0.2:53 40 {mark}"));
        assert_eq!(world.drain(), [], "{mark}: by the TUN itself");
        assert_eq!(world.counter("tun_unstamped"), before + 1, "{mark}");
    }
    // A program with a policy takes no other one's name either, and keeps its own.
    let mut program = world.start("strict");
    program.run(&["open s udp4", "stranger raw", "sendmark s 10.99.0.2:53 40 10008"]);
    assert_eq!(world.seen_within(SOON).expect("on the TUN").mark, stamp(STRICT));
    program.run(&["sendmark s 10.99.0.2:53 40 0"]);
    assert_eq!(world.seen_within(SOON).expect("on the TUN").mark, stamp(STRICT));
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
}

/// Who answers by the device that the question came by sends by the TUN: that is where protected questions come from.
#[test]
fn what_a_program_sends_by_the_tun_itself_is_protected_or_does_not_leave() {
    let mut world = usual_world("bytun");
    world.wire();
    let mut program = world.start("strict");
    program.run(&["open s udp4", "device s rvl0", "sendto s 10.99.0.2:53 40"]);
    assert_eq!(world.seen_within(SOON).expect("on the TUN").mark, stamp(STRICT));
    let sums = world.traffic(STRICT);
    assert_eq!((sums.out_encrypted.packets, sums.out_clear.packets, sums.out_refused.packets), (1, 0, 0));
    // With another application's mark, or to whom nothing may be sent.
    let before = world.counter("tun_unstamped");
    program.ask("stranger raw");
    program.ask("sendmark s 10.99.0.2:53 40 10008");
    assert_eq!((world.drain(), world.counter("tun_unstamped")), (Vec::new(), before + 1));
    assert_eq!(program.ask("sendto s 10.99.0.70:53 40"), "EPERM");
    // A socket without an application gets nothing through.
    let mut nobody = world.start("unnamed");
    nobody.run(&["open s udp4", "device s rvl0"]);
    nobody.ask("sendto s 10.99.0.2:53 40");
    assert_eq!(world.drain(), []);
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
}

#[test]
fn a_program_cannot_change_the_stamp() {
    let mut world = usual_world("setmark");
    let mut program = world.start("strict");
    program.run(&["open s udp4"]);
    for mark in ["0", "1", "80000000", "10008"] {
        assert_eq!(program.ask(&format!("setmark s {mark}")), "EPERM", "{mark}");
    }
    // Other bits around the same stamp are the program's own.
    program.run(&["setmark s 110007"]);
    assert_eq!(program.ask("mark s"), "0x110007");
    // A program without policy may have any mark that is not ours.
    let mut unnamed = world.start("unnamed");
    unnamed.run(&["open s udp4", "setmark s 7", "setmark s ca6c", "setmark s 80000"]);
    assert_eq!(unnamed.ask("setmark s 10007"), "EPERM");
    assert_eq!(unnamed.ask("setmark s 80000000"), "EPERM");
    assert_eq!(world.counter("setsockopt_mark"), 6);
    let events = world.sockmon().events().unwrap();
    assert!(events.iter().all(|e| e.attempt == sockmon::Attempt::SetMark), "{events:?}");
}

#[test]
fn a_device_nobody_guards_carries_nothing_protected() {
    let mut world = usual_world("guard");
    world.alice.sh(
        "ip link add new0 type veth peer name new1; ip link set new1 up; ip link set new0 up
         ip addr add 10.99.0.200/32 dev new0; ip route add 10.99.0.20/32 dev new0; ip route add 10.99.0.140/32 dev new0
         for a in 20 140; do ip neigh replace 10.99.0.$a lladdr 02:00:00:00:00:77 dev new0 nud permanent; done",
    );
    let own = ["10.99.0.1/32", "10.99.0.200/32"].map(prefix);
    world.monitor(move |monitor| monitor.set_locals(&own).unwrap());
    let mut program = world.start("strict");
    program.run(&["open s udp4"]);
    assert_eq!(program.ask("sendto s 10.99.0.20:9 5"), "EPERM");
    assert_eq!(world.counter("egress_unguarded"), 1);
    program.run(&["sendto s 10.99.0.140:9 5"]);
    assert_eq!(world.seen(), None);

    let (old, new) = (world.uplink, world.alice.ifindex("new0"));
    world.monitor(move |m| m.set_uplinks(&[old, new]).unwrap());
    program.run(&["sendto s 10.99.0.20:9 5"]);
    assert_eq!(world.seen_within(SOON).expect("guarded now").mark, stamp(STRICT));
    world.monitor(move |m| m.set_uplinks(&[old]).unwrap());
    assert_eq!(program.ask("sendto s 10.99.0.20:9 5"), "EPERM");
    assert_eq!(world.monitor(|m| m.health()), []);
}

#[test]
fn another_network_namespace_is_not_guarded() {
    let world = usual_world("elsewhere");
    let path = world.executable("strict");
    let procs = world.cgroup.join("app/cgroup.procs");
    let mut program = world.bob.run(move || program::Program::start(&path, &procs));
    program.run(&["open s udp4"]);
    // bob's own end: his device index may well be that of alice's uplink.
    assert_eq!(program.ask("sendto s 10.99.0.1:9 5"), "EPERM");
    assert_eq!(program.ask("mark s"), "0x0", "nobody acts on marks there");
}

/// Run commands with one hook missing: the last answer, packets clear on the wire, packets on the TUN.
fn without(hook: &str, name: &str, commands: &[&str]) -> (String, usize, usize) {
    let mut world = World::new(name);
    world.attach_without(hook);
    world.load(&usual(), &usual_orders());
    world.alice.sh("ip neigh replace 10.99.0.70 lladdr 02:00:00:00:00:0b dev up0 nud permanent");
    world.wire();
    let mut program = world.start("strict");
    let answer = commands.iter().map(|command| program.ask(command)).last().unwrap();
    (answer, world.wire().len(), world.drain().len())
}

/// The mutation check: each hook is there for a reason that one of these shows.
#[test]
fn without_a_hook_something_leaks() {
    let udp = ["open s udp4", "sendto s 10.99.0.2:53 40"];
    let raw = ["open s icmp4", "sendto s 10.99.0.2:0 40 echo"];
    let ok = |wire, tun| ("ok".to_owned(), wire, tun);
    assert_eq!(without("", "leak-none", &udp), ok(0, 1), "the control");
    assert_eq!(without("uplink_egress", "leak-egress", &udp), ok(1, 0));
    assert_eq!(without("sock_create", "leak-create", &raw), ok(0, 1), "the guard stamps it");
    assert_eq!(without("sock_create", "leak-create-udp", &udp), ok(0, 1), "sendmsg stamps it again");
    // Without these the call succeeds; the uplink still refuses to let the packet out.
    let send = ["open s udp4", "sendto s 10.99.0.70:7 9"];
    let connect = ["open s udp4", "connect s 10.99.0.70:7"];
    let send6 = ["open s udp6", "sendto s [fd99::1:0:0:7]:7 9"];
    let connect6 = ["open s udp6", "connect s [fd99::1:0:0:7]:7"];
    assert_eq!(without("sendmsg4", "leak-sendmsg4", &send), ok(0, 0));
    assert_eq!(without("connect4", "leak-connect4", &connect), ok(0, 0));
    assert_eq!(without("sendmsg6", "leak-sendmsg6", &send6).0, "ok");
    assert_eq!(without("connect6", "leak-connect6", &connect6), ok(0, 0));
    let mark = ["open s udp4", "setmark s 0"];
    assert_eq!(without("set_option", "leak-setmark", &mark), ok(0, 0));
    // No record, so the daemon reads nothing it would take.
    let mut world = World::new("leak-record");
    world.attach_without("tun_egress");
    world.load(&usual(), &usual_orders());
    world.start("strict").run(&udp);
    assert_eq!(world.counter("tun_recorded"), 0);
    assert_eq!(world.counter("egress_redirected"), 1);
}

#[test]
fn without_the_guard_a_new_device_leaks() {
    let send = |name: &str, omit: &str| {
        let mut world = World::new(name);
        world.attach_without(omit);
        world.load(&usual(), &usual_orders());
        world.alice.sh("ip link add new0 type veth peer name new1; ip link set new1 up; ip link set new0 up
             ip addr add 10.99.0.200/32 dev new0; ip route add 10.99.0.20/32 dev new0
             ip neigh replace 10.99.0.20 lladdr 02:00:00:00:00:77 dev new0 nud permanent");
        let mut program = world.start("strict");
        program.run(&["open s udp4"]);
        program.ask("sendto s 10.99.0.20:9 5")
    };
    assert_eq!(send("guard-with", ""), "EPERM");
    assert_eq!(send("guard-without", "guard"), "ok");
}

#[test]
fn a_group_that_nobody_serves_is_refused_to_the_sender() {
    let mut world = World::new("group");
    world.attach();
    let networks = |class| {
        vec![
            network("10.99.0.0/24", class),
            network("239.0.0.0/8", class),
            network("fd99::/64", class),
            network("ff15::/16", class),
        ]
    };
    let mut spd = Spd::new(1);
    spd.insert(
        STRICT,
        AppPolicy::new(networks(Class::Protected(0)), vec![vec![everything(Level::Mandatory)]]),
    );
    spd.insert(OTHER, AppPolicy::new(networks(Class::Protected(0)), vec![vec![everything(Level::Optional)]]));
    spd.insert(WEAK, AppPolicy::new(networks(Class::Trusted), Vec::new()));
    world.load(&spd, &[]);
    world.alice.sh("ip route add 239.0.0.0/8 dev up0; ip -6 route add ff15::/16 dev up0 table local");
    world.wire();
    let mut program = world.start("strict");
    program.run(&["open s udp4", "open t udp6", "open c udp4", "connect c 239.1.2.3:9", "open r raw4"]);
    // Bound to what it is and connected or not, and by a raw socket: nothing waits for an association that no one makes.
    for command in ["sendto s 239.1.2.3:9 5", "sendto t [ff15::1]:9 5", "send c 5"] {
        assert_eq!(program.ask(command), "EPERM", "{command}");
    }
    let sums = world.traffic(STRICT);
    assert_eq!(sums.reasons.into_iter().collect::<Vec<_>>(), [("egress_group", 3)]);
    assert_eq!((sums.out_refused.packets, sums.out_encrypted.packets), (3, 0));
    assert_eq!(world.drain().len(), 0, "nothing for the engine to hold");
    let told = world.sockmon().events().unwrap();
    let event = told.iter().find(|event| event.reason == "egress_group").expect("it is told of");
    assert_eq!((event.app, event.peer.to_string().as_str()), (STRICT, "239.1.2.3:9"));
    // A host that is no group waits as before.
    program.run(&["sendto s 10.99.0.2:9 5"]);
    assert!(world.seen_within(SOON).is_some());
    // Optional goes to the engine, which knows what becomes of it; trusted goes out.
    let mut other = world.start("other");
    other.run(&["open s udp4", "sendto s 239.1.2.3:9 5"]);
    assert!(world.seen_within(SOON).is_some());
    let mut weak = world.start("weak");
    weak.run(&["open s udp4", "sendto s 239.1.2.3:9 5"]);
    assert_eq!(world.wire_within(SOON / 10).len(), 1);
    // With an association for one group, and for it alone.
    world.sockmon().set_live_sas(&[serving("239.1.2.3/32")]).unwrap();
    program.run(&["sendto s 239.1.2.3:9 5"]);
    assert!(world.seen_within(SOON).is_some());
    assert_eq!(program.ask("sendto s 239.1.2.4:9 5"), "EPERM");
}

/// A raw socket of TCP's protocol number is none of TCP's: what asks whose subflow a socket is must not read behind it. It hears and sends
/// as any raw socket, whether or not it has a stamp.
#[test]
fn a_raw_socket_of_protocol_6_is_no_subflow() {
    let world = usual_world("raw-tcp");
    let (mut nobody, mut strict) = (world.start("unnamed"), world.start("strict"));
    nobody.run(&["open r rawtcp4", "open l tcp4", "bind l 10.99.0.1:8080", "listen l"]);
    strict.run(&["open r rawtcp4", "connect r 10.99.0.2:0"]);
    let mut peer = world.start_in_bob("peer");
    peer.run(&["open c tcp4"]);
    assert_eq!(peer.ask("connect c 10.99.0.1:8080"), "EINPROGRESS");
    // IPv4 and TCP headers of the SYN: 20 and 40 octets.
    assert_eq!(nobody.ask("recv r 5000"), "60");
    assert_eq!(strict.ask("recv r 60"), "ETIMEDOUT", "it has no proof");
    world.wire();
    nobody.run(&["sendto r 10.99.0.2:0 40"]);
    assert_eq!(world.wire().iter().filter(|packet| packet.len() == 60).count(), 1);
    strict.run(&["send r 40"]);
    let seen = world.seen_within(SOON).expect("on the TUN");
    assert_eq!((seen.mark, seen.packet.len()), (stamp(STRICT), 60));
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
}
