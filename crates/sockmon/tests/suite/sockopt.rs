//! The socket API (include/ravelin.h): a program asks for more than policy gives it, and its packets, in both directions,
//! have it from then on. Needs root.

use crate::common;

use common::packets::*;
use common::*;
use sadb::spd::{AppPolicy, Class, Level, PortRange, Spd};
use wire::{AppId, Services};

const PROOF: u32 = 0x8000_0000;
const AUTHENTICATED: u32 = 0x0100_0000;
const ENCRYPTED: u32 = 0x0200_0000;
const FULL: u32 = PROOF | AUTHENTICATED | ENCRYPTED;

/// Marks of sockets that asked for encryption: of an application, of a program without policy.
const STRICT_ASKS: u32 = 0x0301_0007;
const NOBODY_ASKS: u32 = 0x0301_0000;
/// In the record: the cookie says whose socket it is, where no application's policy decides.
const USER: u32 = 1 << 19;

const LEVEL: &str = "5396044";
/// `get s` with this: words of `struct ravelin_state`.
const STATE: &str = "5396044 2 40";

/// What the kernel says of a level that it does not know: IPv4 sockets have a word of their own for getsockopt.
const ABSENT: [&str; 2] = ["ENOPROTOOPT", "EOPNOTSUPP"];

fn state(program: &mut program::Program, socket: &str) -> Vec<u32> {
    let answer = program.ask(&format!("get {socket} {STATE}"));
    answer.split(' ').map(|word| word.parse().unwrap_or_else(|_| panic!("state: {answer}"))).collect()
}

/// What a program without policy does, over what, and the IP version.
const WAYS: &[(&str, &str, &str, u8)] = &[
    ("udp4", "open s udp4", "sendto s 10.99.0.2:53 40", 4),
    ("udp6", "open s udp6", "sendto s [fd99::2]:53 40", 6),
    ("udp6 mapped", "open s udp6", "sendto s [::ffff:10.99.0.2]:53 40", 4),
    ("raw ICMP", "open s icmp4", "sendto s 10.99.0.2:0 40 echo", 4),
    ("tcp4", "open s tcp4", "connect s 10.99.0.2:80", 4),
    ("tcp6", "open s tcp6", "connect s [fd99::2]:80", 6),
    ("tcp4 fast open", "open s tcp4", "fastopen s 10.99.0.2:80 10", 4),
];

#[test]
fn packets_of_a_socket_that_asks_go_to_the_tun() {
    let world = usual_world("ask");
    world.wire();
    for (name, open, call, version) in WAYS {
        let mut program = world.start("unnamed");
        // The control: clear.
        program.run(&[open]);
        program.ask(call);
        assert!(!world.wire().is_empty(), "{name}");
        assert_eq!(world.seen(), None, "{name}");
        program.run(&["close s", open, "require s 2"]);
        assert_eq!(program.ask("mark s"), format!("{NOBODY_ASKS:#x}"), "{name}");
        program.ask(call);
        let seen = world.seen_within(SOON).unwrap_or_else(|| panic!("{name}: nothing on the TUN"));
        assert_eq!((seen.mark, seen.version), (NOBODY_ASKS | USER, version << 4), "{name}");
        drop(program);
        world.drain();
        assert_eq!(world.wire(), [] as [Vec<u8>; 0], "{name}: clear on the wire");
    }
    // Connected before and after; of an application whose policy trusts the peer; less than encryption.
    let mut unnamed = world.start("unnamed");
    unnamed.run(&["open s udp4", "connect s 10.99.0.33:53", "send s 9"]);
    assert_eq!(world.wire().len(), 1);
    unnamed.run(&["require s 1", "send s 9"]);
    assert_eq!(world.seen_within(SOON).unwrap().mark, 0x0101_0000 | USER);
    let mut strict = world.start("strict");
    world.alice.sh(
        "for a in 10.99.0.130 10.98.0.2; do ip neigh replace $a lladdr 02:00:00:00:00:0b dev up0 nud permanent; done",
    );
    strict.run(&["open s udp4", "require s 3", "sendto s 10.99.0.130:9 9", "sendto s 10.98.0.2:9 9"]);
    for what in ["trusted", "no network"] {
        assert_eq!(world.seen_within(SOON).unwrap_or_else(|| panic!("{what}")).mark, STRICT_ASKS);
    }
    strict.run(&["sendto s 10.99.0.2:9 9"]);
    assert_eq!(world.seen_within(SOON).unwrap().mark, STRICT_ASKS, "protected anyway");
    assert_eq!(strict.ask("sendto s 10.99.0.70:9 9"), "EPERM", "what is refused stays so");
    // A firewall that wipes the mark changes nothing: storage decides.
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
}

#[test]
fn an_established_connection_changes_with_its_next_packet() {
    let mut world = usual_world("midway");
    let mut bob = world.start_in_bob("peer");
    bob.run(&["open l tcp4", "bind l 10.99.0.2:8000", "listen l"]);
    let mut program = world.start("unnamed");
    program.run(&["open s tcp4"]);
    assert_eq!(program.ask("connect s 10.99.0.2:8000"), "EINPROGRESS");
    bob.run(&["accept l c 5000"]);
    program.run(&["send s 10"]);
    assert_eq!(bob.ask("recv c 5000"), "10");
    world.wire();
    program.run(&["require s 3", "send s 20"]);
    let seen = world.seen_within(SOON).expect("on the TUN");
    assert_eq!((seen.mark, seen.packet.len()), (NOBODY_ASKS | USER, 52 + 20));
    // And what the peer goes on sending in clear is not taken.
    bob.run(&["send c 5"]);
    assert_eq!(program.ask("recv s 60"), "ETIMEDOUT");
    assert!(world.counter("ingress_no_proof") > 0);
    assert_eq!(world.wire().iter().filter(|p| p[12..16] == [10, 99, 0, 1]).count(), 0);
}

#[test]
fn a_listener_hands_its_demand_on() {
    let mut world = usual_world("inherit");
    let mut program = world.start("unnamed");
    program.run(&["open l tcp4", "bind l 10.99.0.1:8080", "listen l", "require l 3"]);
    world.wire();
    world.bob_sends(&tcp((BOB, 5000), (ALICE, 8080), 100, 0, SYN));
    assert_eq!((world.wire().len(), world.seen()), (0, None), "a clear SYN is not answered");
    assert_eq!(world.counter("ingress_no_proof"), 1);
    let (peer, here) = ((BOB, 5001), (ALICE, 8080));
    world.inject(FULL, &tcp(peer, here, 100, 0, SYN));
    let answer = world.seen_within(SOON).expect("SYN-ACK");
    assert_eq!((answer.mark, answer.packet[33]), (NOBODY_ASKS | USER, SYN | ACK));
    let mut sequence = tcp_numbers(&answer.packet).0 + 1;
    world.inject(FULL, &tcp(peer, here, 101, sequence, ACK));
    program.run(&["accept l c 5000"]);
    assert_eq!(program.ask("mark c"), format!("{NOBODY_ASKS:#x}"));
    assert_eq!(program.ask(&format!("get c {LEVEL} 1 4")), "3");
    let of_child = state(&mut program, "c");
    assert_eq!((of_child[2], of_child[6], of_child[8]), (3, 0, 0), "nothing has come for it yet");
    assert_eq!(state(&mut program, "l")[8], 2, "the SYN and the ACK came for the listener");
    program.run(&["send c 30"]);
    assert_eq!(world.seen_within(SOON).expect("data").mark, NOBODY_ASKS | USER);
    sequence += 30;
    world.inject(FULL, &tcp(peer, here, 101, sequence, ACK));
    program.run(&["send c 1"]);
    let of_child = state(&mut program, "c");
    assert_eq!((of_child[6], of_child[8]), (3, 1));
    sequence += 1;
    world.inject(FULL, &tcp(peer, here, 101, sequence, ACK));
    program.run(&["close c"]);
    // Behind TIME_WAIT there is only the mark: a clear segment is not answered in clear.
    world.seen_within(SOON).expect("FIN");
    world.drain();
    world.inject(FULL, &tcp(peer, here, 101, sequence + 1, ACK | 1));
    world.seen_within(SOON).expect("the last ACK");
    world.drain();
    world.wire();
    world.bob_sends(&tcp(peer, here, 101, sequence + 1, ACK | 1));
    let answer = world.seen_within(SOON).expect("an answer under protection");
    assert_eq!((answer.mark & !USER, answer.packet[33]), (NOBODY_ASKS, ACK));
    // Linux 6.12 answers by a socket of the kernel's, which is root's; 6.18 by none.
    assert!(answer.mark & USER == 0 || answer.cookie as u32 == 0, "{:#x}", answer.cookie);
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
}

/// Port 7003 is optional, 7004 has no item, 10.99.0.64/26 is untrusted, 10.99.0.128/26 trusted.
fn table() -> Spd {
    let at = |port, services, level| item(PortRange::one(port), PortRange::ANY, services, level);
    let items = vec![
        at(7001, Services::ENCRYPTED, Level::Mandatory),
        at(7002, Services::AUTHENTICATED, Level::Mandatory),
        at(7003, Services::ENCRYPTED, Level::Optional),
    ];
    let networks = vec![
        network("10.99.0.0/24", Class::Protected(0)),
        network("10.99.0.64/26", Class::Untrusted),
        network("10.99.0.128/26", Class::Trusted),
    ];
    let mut spd = Spd::new(1);
    spd.insert(STRICT, AppPolicy::new(networks, vec![items]));
    spd
}

#[test]
fn what_arrives_must_have_what_was_asked_for() {
    let mut world = World::new("asked-proof");
    world.attach();
    world.load(&table(), &[]);
    let mut strict = world.start("strict");
    let mut unnamed = world.start("unnamed");
    for (port, services) in [(7001, 3), (7002, 3), (7003, 1), (7004, 3)] {
        strict.run(&[&format!("open p{port} udp4"), &format!("bind p{port} 0.0.0.0:{port}")]);
        strict.run(&[&format!("require p{port} {services}")]);
    }
    for (port, services) in [(7005, 3), (7006, 1)] {
        unnamed.run(&[&format!("open p{port} udp4"), &format!("bind p{port} 10.99.0.1:{port}")]);
        unnamed.run(&[&format!("require p{port} {services}")]);
    }
    const CLEAR: u32 = 0;
    let cases: &[(u16, &str, u32, Option<&str>)] = &[
        // Without a policy.
        (7005, BOB, CLEAR, Some("ingress_no_proof")),
        (7005, BOB, PROOF | AUTHENTICATED, Some("ingress_services")),
        (7005, BOB, FULL | 7, Some("ingress_other_app")),
        (7005, BOB, FULL, None),
        (7006, BOB, CLEAR, Some("ingress_no_proof")),
        (7006, BOB, PROOF, Some("ingress_services")),
        (7006, BOB, PROOF | AUTHENTICATED, None),
        (7006, BOB, FULL, None),
        // Beyond policy: more services than it demands, trusted peers, optional protection.
        (7001, BOB, FULL, None),
        (7002, BOB, PROOF | AUTHENTICATED, Some("ingress_services")),
        (7002, BOB, FULL, None),
        (7001, "10.99.0.130", CLEAR, Some("ingress_no_proof")),
        (7001, "10.99.0.130", FULL, None),
        (7003, BOB, CLEAR, Some("ingress_no_proof")),
        (7003, BOB, PROOF | AUTHENTICATED, Some("ingress_services")),
        (7003, BOB, FULL, None),
        // Refused stays refused.
        (7001, "10.99.0.70", FULL, Some("ingress_untrusted")),
        (7004, BOB, FULL, Some("ingress_no_item")),
    ];
    for &(port, from, mark, refused) in cases {
        let case = format!("port {port} from {from} with {mark:#x}");
        let packet = udp((from, 5000), (ALICE, port), b"payload");
        let before = refused.map(|counter| world.counter(counter));
        let receiver = if port >= 7005 { &mut unnamed } else { &mut strict };
        match mark {
            CLEAR => world.bob_sends(&packet),
            mark => world.inject(mark, &packet),
        }
        match refused {
            None => assert_eq!(receiver.ask(&format!("recv p{port} 5000")), "7", "{case}"),
            Some(counter) => {
                assert_eq!(receiver.ask(&format!("recv p{port} 40")), "ETIMEDOUT", "{case}");
                assert_eq!(world.counter(counter), before.unwrap() + 1, "{case}: {counter}");
            }
        }
    }
    // What does not leave the host is not protected, and says so.
    assert_eq!(state(&mut unnamed, "p7005")[6], 3);
    let mut other = world.start("unnamed");
    other.run(&["open s udp4", "sendto s 10.99.0.1:7005 4"]);
    assert_eq!(unnamed.ask("recv p7005 5000"), "4");
    let now = state(&mut unnamed, "p7005");
    assert_eq!((now[6], now[8], now[9]), (0, 1, 0), "{now:?}");
    assert_eq!(state(&mut unnamed, "p7006")[8], 2);
}

#[test]
fn a_forged_icmp_error_does_not_reach_a_socket_that_asks() {
    let mut world = usual_world("asked-icmp");
    let mut program = world.start("unnamed");
    program.run(&["open s udp4", "bind s 10.99.0.1:7100", "connect s 10.99.0.2:7200"]);
    let quoted = udp((ALICE, 7100), (BOB, 7200), b"x");
    // The control: the error arrives at a socket that asked for nothing.
    world.bob_sends(&icmp_error(BOB, ALICE, 3, 3, 0, &quoted));
    assert_eq!(program.ask("recv s 1000"), "ECONNREFUSED");
    program.run(&["require s 1"]);
    world.bob_sends(&icmp_error(BOB, ALICE, 3, 3, 0, &quoted));
    assert_eq!(program.ask("recv s 60"), "ETIMEDOUT");
    assert_eq!(world.counter("icmp_protected"), 1);
}

/// RFC 4301 section 4.4.1: the administrator says whether applications may have it otherwise than policy says.
#[test]
fn the_administrator_may_say_no() {
    let mut world = usual_world("mayno");
    let mut unnamed = world.start("unnamed");
    unnamed.run(&["open s udp4", "require s 1"]);
    let supported = |program: &mut program::Program, socket: &str| {
        let answer = program.ask(&format!("get {socket} {LEVEL} 3 32"));
        answer.split(' ').nth(1).map(ToOwned::to_owned)
    };
    assert_eq!(supported(&mut unnamed, "s").as_deref(), Some("3"));
    world.attach_with(|options| options.no_requests = true);
    world.load(&usual(), &usual_orders());
    assert_eq!(supported(&mut unnamed, "s").as_deref(), Some("0"));
    // What was asked before stays, and no more comes.
    for (asked, answer) in [(1, "ok"), (2, "EACCES"), (4, "EINVAL"), (0, "EPERM")] {
        assert_eq!(unnamed.ask(&format!("require s {asked}")), answer, "{asked}");
    }
    assert_eq!(unnamed.ask(&format!("get s {LEVEL} 1 4")), "1");
    unnamed.run(&["open t udp4", "require t 0"]);
    assert_eq!(unnamed.ask("require t 1"), "EACCES");
    assert_eq!(unnamed.ask("mark t"), "0x0");
    assert_eq!(world.counter("sockopt_off"), 2);
    world.attach();
    world.load(&usual(), &usual_orders());
    unnamed.run(&["require t 1", "require s 2"]);
}

#[test]
fn a_demand_only_grows() {
    let mut world = usual_world("grows");
    let mut unnamed = world.start("unnamed");
    unnamed.run(&["open s udp4"]);
    assert_eq!(unnamed.ask(&format!("get s {LEVEL} 1 4")), "0");
    unnamed.run(&["require s 0"]);
    assert_eq!(unnamed.ask("mark s"), "0x0", "asking for nothing stamps nothing");
    for (asked, answer, then) in
        [(1, "ok", "1"), (1, "ok", "1"), (0, "EPERM", "1"), (2, "ok", "3"), (1, "EPERM", "3"), (3, "ok", "3")]
    {
        assert_eq!(unnamed.ask(&format!("require s {asked}")), answer, "{asked}");
        assert_eq!(unnamed.ask(&format!("get s {LEVEL} 1 4")), then, "{asked}");
    }
    for wrong in ["require s 4", "require s 7", "require s 2147483649", "require s 1 3", "require s 1 8"] {
        assert_eq!(unnamed.ask(wrong), "EINVAL", "{wrong}");
    }
    // The mark is guarded like that of an application.
    for (mark, answer) in [("0", "EPERM"), ("10000", "EPERM"), ("1010000", "EPERM"), ("3110000", "ok")] {
        assert_eq!(unnamed.ask(&format!("setmark s {mark}")), answer, "{mark}");
    }

    // Below what policy demands for the connected peer: mandatory encryption.
    let mut strict = world.start("strict");
    strict.run(&["open s udp4", "connect s 10.99.0.2:53"]);
    for (asked, answer) in [(0, "EPERM"), (1, "EPERM"), (3, "ok")] {
        assert_eq!(strict.ask(&format!("require s {asked}")), answer, "{asked}");
    }
    strict.run(&["open t tcp6"]);
    assert_eq!(strict.ask("connect t [fd99::2]:53"), "EINPROGRESS");
    assert_eq!(strict.ask("require t 1"), "EPERM");
    // Not connected: the policy of each peer comes on top.
    strict.run(&["open u udp4", "require u 1", "sendto u 10.99.0.2:53 4"]);
    let events: Vec<_> = world.sockmon().events().unwrap();
    let weaker: Vec<_> = events.iter().filter(|e| e.attempt == sockmon::Attempt::Require).collect();
    assert_eq!(weaker.len(), 5, "{events:?}");
    assert_eq!(weaker[2].peer, "10.99.0.2:53".parse().unwrap());
    assert_eq!(
        (weaker[2].app, weaker[2].comm.as_str(), weaker[2].reason),
        (STRICT, "strict", "sockopt_weaker")
    );
    assert_eq!(world.counter("sockopt_weaker"), 5);

    // A peer that policy refuses by now, whatever is asked for.
    let mut weak = world.start("weak");
    weak.run(&["open s udp4", "connect s 10.99.0.2:53", "require s 1"]);
    let mut spd = usual();
    spd.insert(WEAK, AppPolicy::new(vec![network("10.99.0.0/24", Class::Untrusted)], Vec::new()));
    world.load(&spd, &[]);
    assert_eq!(weak.ask("require s 3"), "EPERM");
    let now = state(&mut weak, "s");
    assert_eq!((now[1], now[2], now[4]), (9, 1, 2), "{now:?}");
}

/// Paper 001 section 2.5: processes get information about system defaults. Who sets them is the administrator, with a `default` block.
#[test]
fn the_default_of_the_policy_is_told_and_can_be_set() {
    let mut world = usual_world("sockopt-default");
    let mut unnamed = world.start("unnamed");
    unnamed.run(&["open s udp4", "open t tcp6"]);
    let told = |program: &mut program::Program, socket: &str| {
        let answer = program.ask(&format!("get {socket} {LEVEL} 3 32"));
        answer.split(' ').nth(2).map(ToOwned::to_owned)
    };
    let everybody =
        policy::Selector { executables: policy::Executables::Any, from: None, group: None, users: None };
    let subjects = policy::Subjects::new(vec![(everybody, WEAK)]);
    let protected = |v4: &str, v6: &str, services, level| {
        let networks = [v4, v6].map(|prefix| network(prefix, Class::Protected(0)));
        AppPolicy::new(networks.into(), vec![vec![item(PortRange::ANY, PortRange::ANY, services, level)]])
    };
    let (both, authentication) = (Services::ENCRYPTED, Services::AUTHENTICATED);
    for (v4, v6, services, level, want) in [
        ("0.0.0.0/0", "::/0", both, Level::Mandatory, "3"),
        ("0.0.0.0/0", "::/0", authentication, Level::Mandatory, "1"),
        ("0.0.0.0/0", "::/0", both, Level::Optional, "0"),
        ("10.99.0.0/24", "fd99::/64", both, Level::Mandatory, "0"),
    ] {
        let mut spd = usual();
        spd.insert(WEAK, protected(v4, v6, services, level));
        world.sockmon().load_policy(&spd, &subjects, &usual_orders()).unwrap();
        for socket in ["s", "t"] {
            assert_eq!(told(&mut unnamed, socket).as_deref(), Some(want), "{v4} {services:?} {level:?}");
        }
        // It is not only told: a program that nobody names has it.
        unnamed.run(&["open n udp4", "connect n 10.99.0.2:53"]);
        let state = state(&mut unnamed, "n");
        assert_eq!(
            (state[1], state[3]),
            (u32::from(WEAK.0), if services == both { 3 } else { 1 }),
            "{state:?}"
        );
        unnamed.run(&["close n"]);
    }
    world.load(&usual(), &usual_orders());
    assert_eq!(told(&mut unnamed, "s").as_deref(), Some("0"), "no block, no default");
}

#[test]
fn the_state_and_the_defaults_are_told() {
    let mut world = usual_world("told");
    let generation = world.sockmon().generation().unwrap();
    let tun = world.tun_ifindex;
    let mut unnamed = world.start("unnamed");
    unnamed.run(&["open s udp4", "open t tcp6"]);
    for socket in ["s", "t"] {
        assert_eq!(state(&mut unnamed, socket), [1, 0, 0, 0, 0, 0, 0, generation, 0, 0]);
        let defaults = unnamed.ask(&format!("get {socket} {LEVEL} 3 32"));
        assert_eq!(defaults, format!("1 3 0 1 {generation} {tun} 0 0"));
    }
    // A longer buffer gets no more, a shorter one nothing.
    assert_eq!(unnamed.ask(&format!("get s {LEVEL} 2 8000")).split(' ').count(), 10);
    for (name, len) in [(1, 3), (2, 39), (3, 31), (2, 0)] {
        assert_eq!(unnamed.ask(&format!("get s {LEVEL} {name} {len}")), "EINVAL", "{name}");
    }
    world.sockmon().set_enc(77).unwrap();
    assert!(unnamed.ask(&format!("get s {LEVEL} 3 32")).ends_with(" 77 0"));
    world.sockmon().set_enc(0).unwrap();

    let mut strict = world.start("strict");
    world.alice.sh("ip neigh replace 10.99.0.130 lladdr 02:00:00:00:00:0b dev up0 nud permanent");
    for (peer, class, demanded, level) in
        [("10.99.0.2:53", 3, 3, 1), ("10.99.0.130:53", 1, 0, 0), ("10.98.0.1:53", 0, 0, 0)]
    {
        strict.run(&["open s udp4", &format!("connect s {peer}")]);
        assert_eq!(state(&mut strict, "s"), [1, 7, 0, demanded, class, level, 0, generation, 0, 0], "{peer}");
    }
    strict.run(&["open s udp6", "connect s [::ffff:10.99.0.2]:53"]);
    assert_eq!(state(&mut strict, "s")[3..6], [3, 3, 1], "a mapped peer");

    // The list of sockets has it too.
    strict.run(&["require s 3"]);
    let sockets = world.monitor(|m| m.sockets()).unwrap();
    let found = sockets.iter().filter(|s| s.pid == strict.pid() && s.required == 3).count();
    assert_eq!(found, 1);
}

#[test]
fn where_there_is_no_such_option_the_answer_says_so() {
    let world = usual_world("absent");
    let absent = |program: &mut program::Program, open: &str| {
        program.run(&[open]);
        assert_eq!(program.ask("require s 1"), "ENOPROTOOPT", "{open}");
        for name in 1..=3 {
            let answer = program.ask(&format!("get s {LEVEL} {name} 64"));
            assert!(ABSENT.contains(&answer.as_str()), "{open}: {answer}");
        }
    };
    // The daemon's own, another network namespace, outside of the watched cgroup.
    absent(&mut world.start_in("unnamed", "daemon"), "open s udp4");
    let path = world.executable("unnamed");
    let procs = world.cgroup.join("app/cgroup.procs");
    absent(&mut world.bob.run(move || program::Program::start(&path, &procs)), "open s tcp4");
    absent(&mut world.start_in_bob("unnamed"), "open s udp6");
    let mut program = world.start("unnamed");
    program.run(&["open s udp4"]);
    // Other names, and names that can only be read.
    for name in [0, 2, 3, 4] {
        assert_eq!(program.ask(&format!("set s {LEVEL} {name} 4")), "ENOPROTOOPT", "{name}");
    }
    assert!(ABSENT.contains(&program.ask(&format!("get s {LEVEL} 4 64")).as_str()));
    program.run(&["open s unix4"]);
    assert_ne!(program.ask("require s 1"), "ok");
    assert_ne!(program.ask(&format!("get s {LEVEL} 2 64")), "ok");
}

#[test]
fn other_options_are_as_they_were() {
    let world = usual_world("sockopt-others");
    for name in ["unnamed", "strict"] {
        let mut program = world.start(name);
        program.run(&["open s tcp4", "open u udp6"]);
        // SO_REUSEADDR, SO_KEEPALIVE, TCP_NODELAY, IP_RECVERR, IPV6_V6ONLY; read back.
        for (socket, level, option) in [("s", 1, 2), ("s", 1, 9), ("s", 6, 1), ("s", 0, 11), ("u", 41, 26)] {
            program.run(&[&format!("set {socket} {level} {option} 4")]);
            let read = program.ask(&format!("get {socket} {level} {option} 4"));
            assert_eq!(read, "1", "{level} {option}");
        }
        // Longer than a page, both ways, and as long as the kernel makes it: TCP_INFO, IP_OPTIONS.
        let whole = program.ask("get s 6 11 8192").split(' ').count();
        assert!(whole > 50, "{whole}");
        assert_eq!(program.ask("get s 6 11 40").split(' ').count(), 10);
        program.run(&["set s 1 2 8192"]);
        assert_eq!(program.ask("get s 0 4 8192"), "");
        // The kernel's own errors.
        assert_eq!(program.ask("get s 6 9999 4"), "ENOPROTOOPT");
        assert_eq!(program.ask("set s 6 9999 4"), "ENOPROTOOPT");
        assert_eq!(program.ask("set s 6 1 1"), "EINVAL");
    }
}

#[test]
fn a_demand_outlives_what_happens_to_its_socket() {
    let mut world = usual_world("outlives");
    // exec gives it to a program with policy.
    let mut program = world.start("unnamed");
    program.run(&["open s udp4", "require s 3"]);
    let strict = world.executable("strict");
    assert_eq!(program.ask(&format!("exec {}", strict.display())), "ready");
    program.run(&["sendto s 10.99.0.2:9 9"]);
    assert_eq!(world.seen_within(SOON).unwrap().mark, STRICT_ASKS);
    assert_eq!(program.ask("mark s"), format!("{STRICT_ASKS:#x}"));

    // A policy that names its program only now; a daemon that starts anew.
    let mut late = world.start("late");
    late.run(&["open s udp4", "require s 1", "open t tcp4", "require t 1"]);
    assert_eq!(late.ask("connect t 10.99.0.2:80"), "EINPROGRESS");
    world.drain();
    let path = world.executable("late");
    let mut spd = usual();
    let trusting = AppPolicy::new(vec![network("10.99.0.0/24", Class::Trusted)], Vec::new());
    spd.insert(AppId(12), trusting);
    world.monitor(move |m| {
        m.load_policy(&spd, &programs(&[(AppId(12), path)]), &[]).unwrap();
        let adopted = m.adopt().unwrap();
        assert_eq!(adopted.unmarked, 0);
    });
    for socket in ["s", "t"] {
        assert_eq!(late.ask(&format!("mark {socket}")), "0x101000c", "{socket}");
        assert_eq!(late.ask(&format!("get {socket} {LEVEL} 1 4")), "1", "{socket}");
    }
    world.sockmon = None;
    world.attach();
    late.run(&["sendto s 10.99.0.2:9 9"]);
    let marks: Vec<u32> = world.drain().iter().map(|seen| seen.mark).collect();
    assert!(marks.contains(&0x0101_000c), "{marks:x?}");
    assert!(world.sockmon().set_uplinks(&[]).is_ok());
    assert_eq!(late.ask("sendto s 10.99.0.2:9 9"), "EPERM", "no device is guarded");
}

#[test]
fn a_device_nobody_guards_carries_nothing_of_a_socket_that_asks() {
    let mut world = usual_world("asked-guard");
    world.alice.sh("ip link add new0 type veth peer name new1; ip link set new1 up; ip link set new0 up
         ip addr add 10.99.0.200/32 dev new0; ip route add 10.99.0.20/32 dev new0
         ip neigh replace 10.99.0.20 lladdr 02:00:00:00:00:77 dev new0 nud permanent");
    world.monitor(|monitor| monitor.set_locals(&[prefix("10.99.0.200/32")]).unwrap());
    let mut program = world.start("unnamed");
    program.run(&["open s udp4", "sendto s 10.99.0.20:9 5", "require s 1"]);
    assert_eq!(program.ask("sendto s 10.99.0.20:9 5"), "EPERM");
    assert_eq!(world.counter("egress_unguarded"), 1);
}

/// The mutation check for the programs; docs/design/0005 has that for their branches.
#[test]
fn without_the_hooks_there_is_no_option() {
    for (hook, ask) in [("set_option", "require s 1"), ("get_option", "get s 5396044 1 4")] {
        let mut world = World::new(&format!("no-{hook}"));
        world.attach_without(hook);
        world.load(&usual(), &usual_orders());
        let mut program = world.start("unnamed");
        program.run(&["open s udp4"]);
        assert!(ABSENT.contains(&program.ask(ask).as_str()), "{hook}");
    }
}
