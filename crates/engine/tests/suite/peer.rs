//! Tests of a peer that moves, what keeps it reachable, and what hides that it is silent.

use crate::support;

use crypto::SuiteId;
use engine::{Event, Outcome, PeerMoved};
use sadb::sa::{OutboundState, SaOptions, Tfc};
use sadb::{InboundSa, Mode, OutboundSa, SaConfig, Spi};
use std::net::IpAddr;
use std::time::Duration;
use support::*;
use wire::ip::Headers;
use wire::udp::Udp;
use wire::{Buf, Burst, DropReason, OuterHeader, Time, stage};

fn following(mode: Mode) -> SaConfig {
    let one = outbound_config(mode, SuiteId::AES_128_GCM, false);
    SaConfig { options: SaOptions { follow_peer: true, ..SaOptions::default() }, ..one }
}

/// The packet as a NAT sends it on.
fn from(outer: &[u8], src: &str, port: u16) -> Vec<u8> {
    let mut bytes = outer.to_vec();
    let IpAddr::V4(src) = ip(src) else { panic!("IPv4") };
    bytes[12..16].copy_from_slice(&src.octets());
    bytes[20..22].copy_from_slice(&port.to_be_bytes());
    wire::ipv4::Ipv4::new_checked(&mut bytes[..]).unwrap().fill_checksum();
    bytes
}

fn moved(bob: &mut Receiver) -> Option<PeerMoved> {
    match bob.engine.poll_event()? {
        Event::PeerMoved(moved) => Some(moved),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_authentic_new_packet_moves_the_peer_and_nothing_else_does() {
    let config = following(Mode::Tunnel);
    let (mut alice, mut bob) = (
        Sender::new(mandatory(), std::slice::from_ref(&config)),
        Receiver::new(std::slice::from_ref(&config)),
    );
    let packets: Vec<Vec<u8>> = (0..8).map(|_| alice.out(false, 100)).collect();
    bob.handle(&packets[1]).unwrap();
    assert_eq!(moved(&mut bob), None, "it comes from where it should");

    // Forged: the ICV is wrong.
    let mut forged = from(&packets[2], "203.0.113.9", 777);
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(bob.refuse(&forged), DropReason::AuthFailed);
    // Sent again by somebody else.
    assert_eq!(bob.refuse(&from(&packets[1], "203.0.113.9", 777)), DropReason::Replayed);
    // Authentic, and from where no host is.
    for nobody in ["224.0.0.1", "255.255.255.255", "0.0.0.0", "192.0.2.11"] {
        assert_eq!(bob.refuse(&from(&packets[7], nobody, 777)), DropReason::WrongPeer, "{nobody}");
    }
    // Authentic, but older than what was seen: it may have been held back.
    bob.handle(&from(&packets[0], "203.0.113.9", 777)).unwrap();
    assert_eq!(moved(&mut bob), None);

    bob.handle(&from(&packets[2], "203.0.113.9", 20_000)).unwrap();
    let told = moved(&mut bob).expect("it moved");
    assert_eq!((told.old, told.new), ((hosts(false).0, 4500), (ip("203.0.113.9"), 20_000)));
    assert!(told.follow);
    // Once for each place.
    bob.handle(&from(&packets[3], "203.0.113.9", 20_000)).unwrap();
    assert_eq!(moved(&mut bob), None);
    bob.handle(&from(&packets[4], "203.0.113.9", 20_001)).unwrap();
    assert_eq!(moved(&mut bob).map(|moved| (moved.old.1, moved.new.1)), Some((20_000, 20_001)));
    // And back.
    bob.handle(&packets[5]).unwrap();
    assert_eq!(moved(&mut bob).map(|moved| moved.new), Some((hosts(false).0, 4500)));
    // A successor knows the place.
    bob.handle(&from(&packets[6], "203.0.113.9", 30_000)).unwrap();
    let ends = bob.engine.export()[0].config.endpoints;
    assert_eq!((ends.remote, ends.remote_port), (ip("203.0.113.9"), 30_000));
}

#[test]
fn the_outbound_half_of_the_pair_follows() {
    let config = following(Mode::Tunnel);
    let (mut alice, mut bob) = (
        Sender::new(mandatory(), std::slice::from_ref(&config)),
        Receiver::new(std::slice::from_ref(&config)),
    );
    // Bob's way back, one of another peer, and one that does not follow.
    let back = |spi: u32, edit: fn(&mut SaConfig)| {
        let mut back =
            SaConfig { spi: sadb::Spi(spi), direction: sadb::Direction::Outbound, ..mirror(&config) };
        back.keymat = keymat(back.suite, spi as u8);
        edit(&mut back);
        OutboundSa::new(back, registry()).unwrap()
    };
    let mut engine = Sender::new(mandatory(), &[]).engine;
    engine.add_sa(back(0x2001, |_| ())).unwrap();
    engine.add_sa(back(0x2002, |c| c.endpoints.remote_port = 9)).unwrap();
    engine.add_sa(back(0x2003, |c| c.options.follow_peer = false)).unwrap();
    engine.add_sa(back(0x2004, |c| c.selectors.protocol = Some(6))).unwrap();
    let first = alice.out(false, 100);
    bob.handle(&from(&first, "203.0.113.9", 20_000)).unwrap();
    let told = moved(&mut bob).unwrap();
    assert_eq!(engine.follow(&told), 1);
    let place = |engine: &engine::Outbound, spi: u32| {
        let (_, sa) = engine.sad().list().find(|(_, sa)| sa.spi().0 == spi).unwrap();
        (sa.config().endpoints.remote, sa.config().endpoints.remote_port)
    };
    assert_eq!(place(&engine, 0x2001), (ip("203.0.113.9"), 20_000));
    for spi in [0x2002, 0x2003, 0x2004] {
        assert_eq!(place(&engine, spi).0, hosts(false).0);
    }
    assert_eq!(engine.follow(&told), 0, "once is enough");
    let exported: Vec<OutboundState> = engine.export();
    assert!(exported.iter().any(|state| state.config.endpoints.remote_port == 20_000));
    // One that must not be followed is not.
    assert_eq!(engine.follow(&PeerMoved { follow: false, old: told.new, new: told.old, ..told }), 0);
    // It goes by its new place from now on: under the old one there is none, and another may come.
    let (old, new) = (hosts(false).0, ip("203.0.113.9"));
    assert!(engine.sad().named(Spi(0x2001), old).is_none() && engine.sad().named(Spi(0x2001), new).is_some());
    engine.add_sa(back(0x2001, |c| c.keymat = keymat(c.suite, 77))).unwrap();
    assert!(engine.remove_sa(Spi(0x2001), new).is_ok() && engine.remove_sa(Spi(0x2001), new).is_err());
}

#[test]
fn a_move_is_told_again_until_the_outbound_half_was_told() {
    let config = following(Mode::Tunnel);
    let (mut alice, mut bob) = (
        Sender::new(mandatory(), std::slice::from_ref(&config)),
        Receiver::new(std::slice::from_ref(&config)),
    );
    let mut back =
        SaConfig { spi: sadb::Spi(0x2001), direction: sadb::Direction::Outbound, ..mirror(&config) };
    back.keymat = keymat(back.suite, 1);
    let mut engine = Sender::new(mandatory(), &[]).engine;
    engine.add_sa(OutboundSa::new(back, registry()).unwrap()).unwrap();
    let place = |engine: &engine::Outbound| {
        let (_, sa) = engine.sad().list().next().unwrap();
        (sa.config().endpoints.remote, sa.config().endpoints.remote_port)
    };
    let second = |bob: &mut Receiver| bob.engine.expire(NOW);
    // The first move gets lost, so the second does not find the outbound half where it looks for it.
    let (first, next, last) = (alice.out(false, 100), alice.out(false, 100), alice.out(false, 100));
    bob.handle(&from(&first, "203.0.113.9", 1)).unwrap();
    assert!(moved(&mut bob).is_some());
    bob.handle(&from(&next, "203.0.113.9", 2)).unwrap();
    let told = moved(&mut bob).unwrap();
    assert_eq!(engine.follow(&told), 0);
    bob.engine.followed(&told);
    second(&mut bob);
    assert_eq!(moved(&mut bob), None, "the answer may be on its way");
    second(&mut bob);
    let told = moved(&mut bob).expect("told again");
    assert_eq!((told.old, told.new), ((hosts(false).0, 4500), (ip("203.0.113.9"), 2)));
    assert_eq!((engine.follow(&told), place(&engine)), (1, (ip("203.0.113.9"), 2)));
    bob.engine.followed(&told);
    // And then no more.
    for _ in 0..5 {
        second(&mut bob);
    }
    assert_eq!(moved(&mut bob), None);
    // The last of all moves gets lost: nothing else would ever say it.
    bob.handle(&from(&last, "203.0.113.7", 3)).unwrap();
    assert!(moved(&mut bob).is_some());
    for turn in 0..4 {
        second(&mut bob);
        assert_eq!(moved(&mut bob).map(|told| told.new.1), (turn % 2 == 1).then_some(3), "{turn}");
    }
    // Without the option nothing follows, and nothing is told again.
    let config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    let (mut alice, mut bob) = (
        Sender::new(mandatory(), std::slice::from_ref(&config)),
        Receiver::new(std::slice::from_ref(&config)),
    );
    bob.handle(&alice.out(false, 100)).unwrap();
    bob.handle(&from(&alice.out(false, 100), "192.0.2.10", 777)).unwrap();
    assert!(moved(&mut bob).is_some());
    for _ in 0..5 {
        second(&mut bob);
    }
    assert_eq!(moved(&mut bob), None);
}

#[test]
fn without_the_option_a_port_is_told_and_an_address_is_refused() {
    let config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    let (mut alice, mut bob) = (
        Sender::new(mandatory(), std::slice::from_ref(&config)),
        Receiver::new(std::slice::from_ref(&config)),
    );
    let (first, second, third) = (alice.out(false, 100), alice.out(false, 100), alice.out(false, 100));
    assert_eq!(bob.refuse(&from(&first, "203.0.113.9", 4500)), DropReason::WrongPeer);
    bob.handle(&first).unwrap();
    bob.handle(&from(&second, "192.0.2.10", 777)).unwrap();
    let told = moved(&mut bob).unwrap();
    assert_eq!((told.new.1, told.follow), (777, false));
    assert_eq!(bob.engine.export()[0].config.endpoints.remote_port, 4500);
    bob.handle(&from(&third, "192.0.2.10", 777)).unwrap();
    assert_eq!(moved(&mut bob), None);
}

#[test]
fn in_transport_mode_only_the_port_moves() {
    let config = following(Mode::Transport);
    let (mut alice, mut bob) = (
        Sender::new(mandatory(), std::slice::from_ref(&config)),
        Receiver::new(std::slice::from_ref(&config)),
    );
    let (first, second) = (alice.out(false, 100), alice.out(false, 100));
    assert_eq!(bob.refuse(&from(&first, "203.0.113.9", 4500)), DropReason::WrongPeer);
    bob.handle(&from(&second, "192.0.2.10", 777)).unwrap();
    assert_eq!(moved(&mut bob).map(|moved| moved.new), Some((hosts(false).0, 777)));
}

#[test]
fn a_burst_from_another_place_moves_the_peer_too() {
    let config = following(Mode::Tunnel);
    let (mut alice, mut bob) = (
        Sender::new(mandatory(), std::slice::from_ref(&config)),
        Receiver::new(std::slice::from_ref(&config)),
    );
    let mut delivered = 0;
    for (src, port, told) in [("203.0.113.9", 5, true), ("203.0.113.9", 5, false), ("203.0.113.8", 5, true)] {
        let datagrams: Vec<u8> = (0..4).flat_map(|_| alice.out(false, 100)[28..].to_vec()).collect();
        let stride = datagrams.len() / 4;
        let header = OuterHeader {
            src: ip(src),
            dst: hosts(false).1,
            src_port: port,
            dst_port: PORT,
            tos: 0,
            ttl: 64,
            may_fragment: false,
        };
        let mut buf = Buf::with_capacity(65536, HEADROOM);
        buf.push_back(datagrams.len()).unwrap().copy_from_slice(&datagrams);
        let burst: Burst<stage::Raw> = Burst::raw(buf, header, stride, NOW).unwrap();
        let mut delivery = engine::Delivery::new();
        bob.engine.handle_burst(NOW, burst, &mut bob.pool, &mut delivery);
        delivered += delivery.len();
        delivery.clear(&mut bob.pool);
        assert_eq!(moved(&mut bob).is_some(), told);
    }
    assert_eq!(delivered, 12);
}

fn beating(options: SaOptions) -> (Sender, SaConfig) {
    let config = SaConfig { options, ..outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false) };
    (Sender::new(mandatory(), std::slice::from_ref(&config)), config)
}

/// The packets that leave by themselves within these milliseconds, when the engine is called as it asks, and the number
/// of calls.
fn listen(alice: &mut Sender, from: u64, to: u64) -> (Vec<Vec<u8>>, usize) {
    let at = |ms: u64| Time(NOW.0 + ms * 1_000_000);
    let (mut out, mut now, mut turns) = (Vec::new(), at(from), 0);
    while now < at(to) {
        alice.engine.handle_timeout(now, &mut alice.pool, &mut out);
        turns += 1;
        let (next, _) = alice.engine.poll_timeout().expect("an association has a timer");
        assert!(next > now, "no busy loop");
        now = next;
    }
    let packets = out.into_iter().map(|outcome| match outcome {
        Outcome::Send(packet) => packet.bytes().to_vec(),
        other => panic!("{other:?}"),
    });
    (packets.collect(), turns)
}

#[test]
fn a_keepalive_leaves_after_silence_only() {
    let (mut alice, config) = beating(SaOptions { keepalive: 20, ..SaOptions::default() });
    assert!(listen(&mut alice, 0, 19_999).0.is_empty());
    let (sent, turns) = listen(&mut alice, 20_000, 39_000);
    assert_eq!((sent.len(), turns), (1, 1));
    let headers = Headers::parse(&sent[0]).unwrap();
    assert_eq!((headers.src, headers.dst), (config.endpoints.local, config.endpoints.remote));
    let udp = Udp::new_checked(headers.upper(&sent[0])).unwrap();
    assert_eq!((udp.src_port(), udp.dst_port(), udp.payload()), (4500, 4500, &[0xff][..]));
    // Something leaves 10 s later: silence starts anew.
    let bytes = alice_to_bob(false, 0, 100);
    let out = alice.handle_at(NOW + Duration::from_secs(30), stamped(APP, &bytes));
    assert_eq!(out.len(), 1);
    assert!(listen(&mut alice, 39_000, 49_900).0.is_empty());
    assert_eq!(listen(&mut alice, 49_900, 60_000).0.len(), 1);
    let (_, sa) = alice.engine.sad().list().next().unwrap();
    assert_eq!((sa.counters.keepalives, sa.counters.packets), (2, 1));
    // The receiver drops it and says nothing.
    let mut receiver = Receiver::new(&[SaConfig { options: SaOptions::default(), ..config }]);
    assert_eq!(receiver.refuse(&sent[0]), DropReason::Keepalive);
}

#[test]
fn dummies_fill_silence_at_their_rate_and_are_dropped() {
    for (tfc, suite) in [(Tfc::None, 0), (Tfc::Full, 1), (Tfc::Multiple(256), 2)] {
        let (mut alice, config) = beating(SaOptions { dummy: 10, tfc, ..SaOptions::default() });
        let mut bob =
            Receiver::new(&[SaConfig { options: SaOptions { tfc, ..SaOptions::default() }, ..config }]);
        let (sent, turns) = listen(&mut alice, 0, 2050);
        assert_eq!(sent.len(), 20, "{suite}");
        assert!(turns <= 21);
        let mut lengths = std::collections::BTreeSet::new();
        for outer in &sent {
            assert!(outer.len() <= 1500);
            lengths.insert(outer.len());
            assert_eq!(bob.refuse(outer), DropReason::EspDummy);
        }
        assert_eq!(lengths.len() == 1, tfc == Tfc::Full);
        assert_eq!(bob.engine.stats().drops_for(DropReason::EspDummy), 20);
        let (_, sa) = alice.engine.sad().list().next().unwrap();
        assert_eq!((sa.counters.dummies, sa.counters.packets, sa.counters.bytes), (20, 20, 0));
    }
}

#[test]
fn where_packets_leave_there_are_no_dummies() {
    let (mut alice, _) = beating(SaOptions { dummy: 10, ..SaOptions::default() });
    listen(&mut alice, 0, 50);
    let bytes = alice_to_bob(false, 0, 100);
    let mut dummies = 0;
    for turn in 0..10u64 {
        let now = 60 + turn * 100;
        alice.handle_at(Time(NOW.0 + now * 1_000_000), stamped(APP, &bytes));
        dummies += listen(&mut alice, now, now + 90).0.len();
    }
    assert_eq!(dummies, 0);
}

#[test]
fn a_thread_that_slept_sends_no_burst() {
    let (mut alice, _) = beating(SaOptions { dummy: 100, keepalive: 1, ..SaOptions::default() });
    listen(&mut alice, 0, 100);
    assert!(listen(&mut alice, 60_000, 60_009).0.len() <= 2);
}

#[test]
fn associations_that_are_gone_beat_no_more() {
    let (mut alice, config) = beating(SaOptions { dummy: 100, ..SaOptions::default() });
    alice.engine.remove_sa(config.spi, config.endpoints.remote).unwrap();
    let mut out = Vec::new();
    alice.engine.handle_timeout(NOW, &mut alice.pool, &mut out);
    assert!(out.is_empty() && alice.engine.poll_timeout().is_none());
}

#[test]
fn a_successor_beats_as_the_one_before_did() {
    let (mut alice, config) = beating(SaOptions { dummy: 10, keepalive: 20, ..SaOptions::default() });
    assert_eq!(listen(&mut alice, 0, 1050).0.len(), 10);
    let (old, remote) = (config.spi, config.endpoints.remote);
    let mut next = SaConfig { spi: sadb::Spi(0x7777), ..config };
    next.keymat = keymat(next.suite, 99);
    let mut bob = Receiver::new(std::slice::from_ref(&SaConfig {
        options: SaOptions::default(),
        keymat: keymat(next.suite, 99),
        ..next.clone()
    }));
    alice.engine.replace_sa(old, remote, OutboundSa::new(next, registry()).unwrap()).unwrap();
    let (sent, _) = listen(&mut alice, 1050, 2150);
    assert_eq!(sent.len(), 10);
    for outer in &sent {
        assert_eq!(bob.refuse(outer), DropReason::EspDummy);
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let registry = registry();
    type Edit = fn(&mut SaConfig);
    let cases: [(Edit, &str); 6] = [
        (|c| c.options.dummy = 1001, "too many"),
        (|c| (c.options.dummy, c.mode) = (5, Mode::Transport), "tunnel mode"),
        (|c| (c.options.dummy, c.options.next) = (5, Some(sadb::Spi(999))), "not followed"),
        (
            |c| (c.options.keepalive, c.options.encapsulation) = (5, sadb::sa::Encapsulation::None),
            "keepalive",
        ),
        (
            |c| (c.options.follow_peer, c.options.encapsulation) = (true, sadb::sa::Encapsulation::None),
            "followed",
        ),
        (|c| (c.options.follow_peer, c.replay_window) = (true, 0), "replay window"),
    ];
    for (at, (edit, text)) in cases.into_iter().enumerate() {
        let mut config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
        edit(&mut config);
        let refused = if at == 5 {
            InboundSa::new(mirror(&config), registry).unwrap_err().to_string()
        } else {
            OutboundSa::new(config, registry).unwrap_err().to_string()
        };
        assert!(refused.contains(text), "{refused}");
    }
}
