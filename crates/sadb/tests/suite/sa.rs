//! Tests of associations: what is refused at the door, sequence numbers, what is handed over.

use crate::common;

use common::{config, flow, inbound, ip, outbound, prefix, registry};
use crypto::{CryptoError, Registry, Secret, SuiteId};
use sadb::sa::{Dscp, Encapsulation, SaOptions, SaProtocol, Tfc};
use sadb::spd::PortRange;
use sadb::{Direction, InboundSa, Mode, OutboundSa, SaConfig, SadError, Selectors, Spi};
use wire::{AppId, DropReason, Time};

type Change = fn(&mut SaConfig);

fn chain(protocol: SaProtocol) -> SaOptions {
    SaOptions { protocol, encapsulation: Encapsulation::None, ..SaOptions::default() }
}

fn compression() -> SaOptions {
    chain(SaProtocol::IpComp)
}

fn ah() -> SaOptions {
    chain(SaProtocol::Ah)
}

fn no_key() -> Secret {
    Secret::new(Vec::new())
}

#[test]
fn a_configuration_that_contradicts_itself_is_refused_by_name() {
    let cases: &[(&str, Change, Change)] = &[
        // (what, change, change that makes it good again)
        ("ReservedSpi", |c| c.spi = Spi(0), |c| c.spi = Spi(256)),
        ("ReservedSpi", |c| c.spi = Spi(255), |c| c.spi = Spi(u32::MAX)),
        ("KeymatLength", |c| c.keymat = Secret::new(vec![1; 16]), |c| c.keymat = Secret::new(vec![1; 20])),
        ("KeymatLength", |c| c.keymat = Secret::new(vec![1; 36]), |c| c.suite = SuiteId::AES_256_GCM),
        ("KeymatLength", |c| c.keymat = Secret::new(vec![]), |c| c.keymat = Secret::new(vec![1; 20])),
        ("ReplayWindowSize", |c| c.replay_window = 32, |c| c.replay_window = 64),
        ("ReplayWindowSize", |c| c.replay_window = 1000, |c| c.replay_window = 65536),
        (
            "MixedFamilies",
            |c| c.endpoints.local = ip("2001:db8::1"),
            |c| c.endpoints.remote = ip("2001:db8::2"),
        ),
        ("NotUnicast", |c| c.endpoints.remote = ip("0.0.0.0"), |c| c.endpoints.remote = ip("127.0.0.1")),
        ("NotUnicast", |c| c.endpoints.remote = ip("224.0.0.5"), |c| c.endpoints.remote = ip("192.0.2.5")),
        (
            "NotUnicast",
            |c| c.endpoints.remote = ip("255.255.255.255"),
            |c| c.endpoints.remote = ip("192.0.2.5"),
        ),
        (
            "NotUnicast",
            |c| (c.endpoints.local, c.endpoints.remote) = (ip("2001:db8::1"), ip("::ffff:192.0.2.1")),
            |c| c.endpoints.remote = ip("2001:db8::2"),
        ),
        ("SameEndpoint", |c| c.endpoints.remote = c.endpoints.local, |c| c.endpoints.remote_port = 4501),
        (
            "ReplayWindowSize",
            |c| (c.options.extended_sequence, c.replay_window) = (true, 0),
            |c| c.replay_window = 64,
        ),
        (
            "Cpi",
            |c| (c.options, c.spi) = (compression(), Spi(0x1_0000)),
            |c| (c.spi, c.keymat) = (Spi(256), no_key()),
        ),
        // The CPIs that RFC 3173 section 3.3 gives to algorithms and those that it reserves, from first to last.
        ("Cpi", |c| (c.options, c.spi, c.keymat) = (compression(), Spi(0), no_key()), |c| c.spi = Spi(256)),
        (
            "Cpi",
            |c| (c.options, c.spi, c.keymat) = (compression(), Spi(63), no_key()),
            |c| c.spi = Spi(61_439),
        ),
        ("Cpi", |c| (c.options, c.spi, c.keymat) = (compression(), Spi(64), no_key()), |c| c.spi = Spi(256)),
        (
            "Cpi",
            |c| (c.options, c.spi, c.keymat) = (compression(), Spi(1), no_key()),
            |c| c.spi = Spi::DEFLATE,
        ),
        (
            "Cpi",
            |c| (c.options, c.spi, c.keymat) = (compression(), Spi(3), no_key()),
            |c| c.spi = Spi::DEFLATE,
        ),
        (
            "Cpi",
            |c| (c.options, c.spi, c.keymat) = (compression(), Spi(255), no_key()),
            |c| c.spi = Spi(0xffff),
        ),
        (
            "AhEncrypts",
            |c| c.options = ah(),
            |c| (c.suite, c.keymat) = ("sha256".parse().unwrap(), Secret::new(vec![1; 32])),
        ),
        (
            "UdpWithout",
            |c| (c.options, c.options.encapsulation) = (compression(), Encapsulation::Udp),
            |c| (c.options, c.keymat) = (compression(), no_key()),
        ),
        (
            "UdpWithout",
            |c| {
                c.options = SaOptions { encapsulation: Encapsulation::Udp, ..ah() };
                (c.suite, c.keymat) = ("sha256".parse().unwrap(), Secret::new(vec![1; 32]));
            },
            |c| c.options = ah(),
        ),
        (
            "IpIpMode",
            |c| (c.options, c.mode, c.keymat) = (chain(SaProtocol::IpIp), Mode::Transport, no_key()),
            |c| c.mode = Mode::Tunnel,
        ),
        ("TfcMode", |c| (c.options.tfc, c.mode) = (Tfc::Full, Mode::Transport), |c| c.mode = Mode::Tunnel),
        ("Dscp", |c| c.options.headers.dscp = Dscp::Set(64), |c| c.options.headers.dscp = Dscp::Set(63)),
        (
            "Dscp",
            |c| c.options.headers.dscp = Dscp::Map(Box::new([64; 64])),
            |c| c.options.headers.dscp = Dscp::Copy,
        ),
        ("OwnNext", |c| c.options.next = Some(c.spi), |c| c.options.next = Some(Spi(1))),
        (
            "BeetSelector",
            |c| c.mode = Mode::Beet,
            |c| (c.selectors.local, c.selectors.remote) = (prefix("10.0.0.1/32"), prefix("10.0.0.2/32")),
        ),
        ("PortZero", |c| c.endpoints.local_port = 0, |c| c.endpoints.local_port = 1),
        ("PathMtu", |c| c.path_mtu = 575, |c| c.path_mtu = 576),
        (
            "BoundToNoApplication",
            |c| c.selectors.app = Some(AppId::NONE),
            |c| c.selectors.app = Some(AppId(1)),
        ),
        (
            "TypeInRemotePorts",
            |c| {
                (c.selectors.protocol, c.selectors.remote_ports) =
                    (Some(135), PortRange { first: 0, last: 0 })
            },
            |c| {
                (c.selectors.remote_ports, c.selectors.local_ports) =
                    (PortRange::ANY, PortRange { first: 0, last: 0 })
            },
        ),
        (
            "NoMobilityType",
            |c| {
                (c.selectors.protocol, c.selectors.local_ports) =
                    (Some(135), PortRange { first: 1281, last: 1535 })
            },
            |c| c.selectors.local_ports.last = 1536,
        ),
        (
            "EmptyPortRange",
            |c| c.selectors.local_ports = PortRange { first: 2, last: 1 },
            |c| c.selectors.local_ports = PortRange { first: 1, last: 1 },
        ),
        (
            "TransportSelector",
            |c| (c.mode, c.selectors.remote) = (Mode::Transport, prefix("192.0.2.0/24")),
            |c| c.mode = Mode::Tunnel,
        ),
        (
            "TransportSelector",
            |c| (c.mode, c.selectors.local) = (Mode::Transport, prefix("192.0.2.0/24")),
            |c| c.selectors.local = prefix("198.51.100.0/24"),
        ),
    ];
    for direction in [Direction::Inbound, Direction::Outbound] {
        for (name, spoil, mend) in cases {
            let mut config = config(direction, 0x1000);
            spoil(&mut config);
            let error = config.check().unwrap_err();
            assert!(format!("{error:?}").starts_with(name), "{name}: {error:?}");
            let refused = match direction {
                Direction::Inbound => InboundSa::new(config.clone(), &registry()).err(),
                Direction::Outbound => OutboundSa::new(config.clone(), &registry()).err(),
            };
            assert_eq!(refused, Some(error));
            mend(&mut config);
            assert_eq!(config.check(), Ok(()), "{name} mended");
        }
    }
}

#[test]
fn only_an_inbound_peer_may_have_any_port_and_v6_paths_carry_1280() {
    let mut config = config(Direction::Outbound, 0x1000);
    config.endpoints.remote_port = 0;
    assert_eq!(config.check(), Err(SadError::PortZero));
    config.direction = Direction::Inbound;
    assert_eq!(config.check(), Ok(()));
    (config.endpoints.local, config.endpoints.remote) = (ip("2001:db8::1"), ip("2001:db8::2"));
    config.path_mtu = 1279;
    assert_eq!(config.check(), Err(SadError::PathMtu { got: 1279, least: 1280 }));
}

/// The fault and its remedy as a user reads them.
fn in_full(error: &SadError) -> String {
    error.remedy().map_or(error.to_string(), |remedy| format!("{error}; {remedy}"))
}

#[test]
fn every_error_says_what_to_do() {
    let words = [
        "choose", "give", "leave", "delete", "use", "generate", "swap", "shows", "restart", "add", "ask",
        "name", "needs", "make", "replace",
    ];
    for error in [
        SadError::ReservedSpi(Spi(3)),
        SadError::DuplicateSpi(Spi(300)),
        SadError::UnknownSpi(Spi(300)),
        SadError::KeymatLength { suite: SuiteId::AES_128_GCM, want: 20, got: 16 },
        SadError::KeyReused,
        SadError::KeyBookFull(1),
        SadError::TooMany(1),
        SadError::Direction { spi: Spi(300), got: Direction::Inbound },
        SadError::MixedFamilies { local: ip("::1"), remote: ip("192.0.2.1") },
        SadError::NotUnicast(ip("::")),
        SadError::SameEndpoint(ip("192.0.2.1")),
        SadError::PortZero,
        SadError::PathMtu { got: 1, least: 576 },
        SadError::ReplayWindowSize(1),
        SadError::BoundToNoApplication,
        SadError::EmptyPortRange { first: 2, last: 1 },
        SadError::TransportSelector { selector: prefix("192.0.2.0/24"), endpoint: ip("::1") },
        SadError::Cpi(Spi(3)),
        SadError::AhEncrypts(SuiteId::AES_128_GCM),
        SadError::UdpWithout(SaProtocol::Ah),
        SadError::IpIpMode(Mode::Transport),
        SadError::TfcMode,
        SadError::Dscp(64),
        SadError::OwnNext(Spi(300)),
        SadError::BeetSelector { local: prefix("192.0.2.0/24"), remote: prefix("192.0.2.1/32") },
        SadError::ReplayState { spi: Spi(300) },
        SadError::SequenceState { spi: Spi(300) },
        SadError::Keepalive,
        SadError::DummyMode,
        SadError::DummyRate(1001),
        SadError::FollowPeer,
        SadError::ClassWithoutKey(SaProtocol::IpIp),
        SadError::Rival {
            spi: Spi(300),
            peer: "192.0.2.1:4500".parse().unwrap(),
            remote: prefix("192.0.2.0/24"),
        },
        SadError::WeakKey(SuiteId::AES_128_GCM),
        SadError::MixedSelectors { local: prefix("192.0.2.0/24"), remote: prefix("2001:db8::/32") },
        SadError::PortsWithout(1),
        SadError::TypeInRemotePorts,
        SadError::NoMobilityType(1),
        SadError::Crypto(crypto::CryptoError::Legacy { suite: SuiteId::AES_128_GCM }),
    ] {
        let text = in_full(&error);
        let lower = text.to_lowercase();
        assert!(words.iter().any(|word| lower.contains(word)), "{text}");
        // The fault stands alone, and no room of this level knows commands and options.
        assert!(
            !error.to_string().contains("; ") && !text.contains("--") && !text.contains("ravelin "),
            "{text}"
        );
    }
    assert_eq!(
        in_full(&SadError::KeymatLength { suite: SuiteId::AES_128_GCM, want: 20, got: 16 }),
        "keying material for aes128gcm is 20 octets (16 of cipher key, then 4 of salt), this is 16; give 20 octets as 40 hexadecimal digits"
    );
}

#[test]
fn an_association_for_the_other_direction_or_an_unknown_suite_is_refused() {
    let (inward, outward) = (config(Direction::Inbound, 0x1000), config(Direction::Outbound, 0x1000));
    assert!(matches!(
        InboundSa::new(outward, &registry()),
        Err(SadError::Direction { got: Direction::Outbound, .. })
    ));
    assert!(matches!(
        OutboundSa::new(inward.clone(), &registry()),
        Err(SadError::Direction { got: Direction::Inbound, .. })
    ));
    let nobody = InboundSa::new(inward, &Registry::new());
    assert_eq!(nobody.err(), Some(SadError::Crypto(CryptoError::NoProvider(SuiteId::AES_128_GCM))));
}

#[test]
fn sequence_numbers_start_at_one_and_end_for_ever() {
    let mut sa = outbound(config(Direction::Outbound, 0x1000));
    assert_eq!((sa.next_packet(Time(1), 0), sa.next_packet(Time(1), 0)), (Ok(1), Ok(2)));

    let mut state = sa.export();
    state.next_sequence = u64::from(u32::MAX);
    let mut sa = OutboundSa::import(state, &registry()).unwrap();
    assert_eq!(sa.next_packet(Time(1), 0), Ok(u64::from(u32::MAX)));
    for _ in 0..3 {
        assert_eq!(sa.next_packet(Time(1), 0), Err(DropReason::SequenceExhausted));
        assert_eq!(sa.next_sequence(), 1 << 32);
    }
    // Exhausted stays exhausted in the next daemon.
    let mut sa = OutboundSa::import(sa.export(), &registry()).unwrap();
    assert_eq!(sa.next_packet(Time(1), 0), Err(DropReason::SequenceExhausted));
}

#[test]
fn extended_sequence_numbers_go_on_behind_32_bits_and_end_for_ever_too() {
    let mut config = config(Direction::Outbound, 0x1000);
    config.options.extended_sequence = true;
    let mut state = outbound(config).export();
    state.next_sequence = u64::from(u32::MAX);
    let mut sa = OutboundSa::import(state, &registry()).unwrap();
    assert_eq!(
        (sa.next_packet(Time(1), 0), sa.next_packet(Time(1), 0)),
        (Ok(0xffff_ffff), Ok(0x1_0000_0000))
    );
    let mut state = sa.export();
    state.next_sequence = u64::MAX - 1;
    let mut sa = OutboundSa::import(state, &registry()).unwrap();
    assert_eq!(sa.next_packet(Time(1), 0), Ok(u64::MAX - 1));
    assert_eq!(sa.next_packet(Time(1), 0), Err(DropReason::SequenceExhausted));
    let mut sa = OutboundSa::import(sa.export(), &registry()).unwrap();
    assert_eq!(sa.next_packet(Time(1), 0), Err(DropReason::SequenceExhausted));
}

#[test]
fn the_upper_half_of_a_number_counts_only_where_it_is_agreed() {
    let mut config = config(Direction::Inbound, 0x1000);
    config.options.extended_sequence = true;
    let mut sa = InboundSa::new(config, &registry()).unwrap();
    sa.replay.commit(0x1_0000_0005).unwrap();
    assert_eq!(sa.whole_sequence(7), 0x1_0000_0007);
    assert_eq!(sa.whole_sequence(0xffff_fff0), 0xffff_fff0);
    let again = InboundSa::import(sa.export(), &registry()).unwrap();
    assert_eq!(again.whole_sequence(7), 0x1_0000_0007);
    assert_eq!(inbound(0x1000).whole_sequence(7), 7);
}

#[test]
fn a_replay_window_is_resized_live() {
    let mut sa = inbound(0x1000);
    sa.replay.commit(70).unwrap();
    sa.resize_replay(64).unwrap();
    assert_eq!(sa.config().replay_window, 64);
    assert_eq!(
        (sa.replay.check(70), sa.replay.check(5)),
        (Err(DropReason::Replayed), Err(DropReason::ReplayTooOld))
    );
    assert_eq!(sa.resize_replay(65), Err(SadError::ReplayWindowSize(65)));
    sa.resize_replay(0).unwrap();
    assert_eq!(sa.replay.check(70), Ok(()));
}

#[test]
fn an_impossible_sequence_number_or_window_is_not_taken_over() {
    let state = outbound(config(Direction::Outbound, 0x1000)).export();
    for next_sequence in [0, (1 << 32) + 1, u64::MAX] {
        let error =
            OutboundSa::import(sadb::sa::OutboundState { next_sequence, ..state.clone() }, &registry());
        assert_eq!(error.err(), Some(SadError::SequenceState { spi: Spi(0x1000) }), "{next_sequence}");
    }
    let mut state = inbound(0x1000).export();
    state.replay.top = 7;
    assert_eq!(InboundSa::import(state, &registry()).err(), Some(SadError::ReplayState { spi: Spi(0x1000) }));
    let mut high = inbound(0x1000);
    high.replay.commit(1 << 32).unwrap();
    assert_eq!(
        InboundSa::import(high.export(), &registry()).err(),
        Some(SadError::ReplayState { spi: Spi(0x1000) })
    );
    let mut state = inbound(0x1000).export();
    state.config.replay_window = 64;
    assert_eq!(InboundSa::import(state, &registry()).err(), Some(SadError::ReplayState { spi: Spi(0x1000) }));
}

#[test]
fn what_is_taken_over_goes_on() {
    let mut sa = outbound(config(Direction::Outbound, 0x1000));
    for _ in 0..5 {
        sa.next_packet(Time(1), 0).unwrap();
    }
    sa.counters.carried(Time(9), 100);
    let mut next = OutboundSa::import(sa.export(), &registry()).unwrap();
    assert_eq!(next.next_packet(Time(1), 0), Ok(6));
    assert_eq!((next.counters.packets, next.counters.bytes, next.counters.last_used), (1, 100, Time(9)));

    let mut sa = inbound(0x1000);
    sa.replay.commit(70).unwrap();
    sa.counters.carried(Time(8), 50);
    let next = InboundSa::import(sa.export(), &registry()).unwrap();
    assert_eq!(next.replay.check(70), Err(DropReason::Replayed));
    assert_eq!(next.replay.check(69), Ok(()));
    assert_eq!((next.counters.packets, next.counters.bytes, next.counters.last_used), (1, 50, Time(8)));
}

#[test]
fn counters_keep_reasons_apart() {
    let mut sa = inbound(0x1000);
    sa.counters.dropped(DropReason::Replayed);
    sa.counters.dropped(DropReason::Replayed);
    sa.counters.dropped(DropReason::AuthFailed);
    assert_eq!(sa.counters.drops_for(DropReason::Replayed), 2);
    assert_eq!(sa.counters.drops_for(DropReason::ReplayTooOld), 0);
    let drops: Vec<_> = sa.counters.drops().collect();
    assert_eq!(drops, [(DropReason::Replayed, 2), (DropReason::AuthFailed, 1)]);
}

#[test]
fn the_peer_is_known_by_address_and_port() {
    let sa = inbound(0x1000);
    let (peer, me, other) = (ip("203.0.113.1"), ip("198.51.100.1"), ip("203.0.113.2"));
    assert!(sa.is_peer(peer, me, Some(4500)));
    assert!(sa.is_peer(peer, me, None), "ESP without UDP has no port");
    assert!(!sa.is_peer(peer, me, Some(4501)));
    assert!(!sa.is_peer(other, me, Some(4500)));
    assert!(!sa.is_peer(peer, other, Some(4500)));
    let mut config = config(Direction::Inbound, 0x1000);
    config.endpoints.remote_port = 0;
    assert!(InboundSa::new(config, &registry()).unwrap().is_peer(peer, me, Some(61_000)));
}

#[test]
fn an_inbound_association_admits_only_its_selectors() {
    let mut config = config(Direction::Inbound, 0x1000);
    config.selectors.local = prefix("10.1.0.0/16");
    config.selectors.remote = prefix("10.2.0.0/16");
    config.selectors.protocol = Some(6);
    config.selectors.remote_ports = PortRange::one(443);
    let sa = InboundSa::new(config.clone(), &registry()).unwrap();
    assert_eq!(sa.admits(&flow("10.1.2.3", "10.2.2.3", 6, 9, 443)), Ok(()));
    for outside in [
        flow("10.3.2.3", "10.2.2.3", 6, 9, 443),
        flow("10.1.2.3", "10.1.2.3", 6, 9, 443),
        flow("10.1.2.3", "10.2.2.3", 17, 9, 443),
        flow("10.1.2.3", "10.2.2.3", 6, 443, 9),
        flow("2001:db8::1", "2001:db8::2", 6, 9, 443),
    ] {
        assert_eq!(sa.admits(&outside), Err(DropReason::SelectorMismatch), "{outside}");
    }
    // In transport mode the endpoints are the selectors.
    config.mode = Mode::Transport;
    (config.selectors.local, config.selectors.remote) = (prefix("any"), prefix("any"));
    let sa = InboundSa::new(config, &registry()).unwrap();
    assert_eq!(sa.admits(&flow("198.51.100.1", "203.0.113.1", 6, 9, 443)), Ok(()));
    assert_eq!(sa.admits(&flow("198.51.100.1", "203.0.113.2", 6, 9, 443)), Err(DropReason::SelectorMismatch));
}

#[test]
fn no_debug_output_holds_a_key() {
    let config = config(Direction::Inbound, 0x1000);
    let sa = InboundSa::new(config.clone(), &registry()).unwrap();
    for text in [format!("{config:?}"), format!("{sa:?}"), format!("{:?}", sa.export())] {
        assert!(!text.contains("keymat: [") && !text.contains("Secret(["), "{text}");
    }
    assert!(format!("{config:?}").contains("Secret(20 octets)"));
}

#[test]
fn associations_meet_where_some_flow_is_in_both() {
    let of = |protocol, first, last| Selectors {
        protocol,
        local_ports: PortRange { first, last },
        ..Selectors::ANY
    };
    let icmp_echo = of(Some(1), 2048, 2048);
    for (other, meets) in [
        (of(None, 0, 65535), true),
        // Ports without a protocol are those of TCP and its like.
        (of(None, 0, 4000), false),
        (of(Some(1), 0, 4000), true),
        (of(Some(6), 0, 4000), false),
    ] {
        assert_eq!((icmp_echo.meets(&other), other.meets(&icmp_echo)), (meets, meets), "{other:?}");
    }
    assert!(
        of(None, 0, 4000).meets(&of(Some(6), 443, 443)) && !of(None, 0, 4000).meets(&of(Some(47), 0, 65535))
    );
}
