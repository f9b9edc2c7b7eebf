//! Tests of the hand-over: what is written is read back, and nothing else is.

use crate::common;

use common::{near_addr, near_ports, near_selectors, registry};
use crypto::{Secret, SuiteId, Suites};
use proptest::prelude::*;
use sadb::handover::{HandOver, HandOverError};
use sadb::sa::{
    DontFragment, Dscp, Fragmentation, HeaderPolicy, HopLimit, InboundState, KeyClass, LifeState, Lifetime,
    Limits, OutboundState, Padding, SaOptions,
};
use sadb::{Direction, Endpoints, InboundSa, Mode, OutboundSa, ReplayWindow, SaConfig, Spi};
use wire::{AggregateId, ScrubId, Time};

fn any_limits() -> impl Strategy<Value = Limits> {
    any::<[u64; 4]>().prop_map(|[bytes, packets, seconds, seconds_used]| Limits {
        bytes,
        packets,
        seconds,
        seconds_used,
    })
}

fn any_headers() -> impl Strategy<Value = HeaderPolicy> {
    let dscp = prop_oneof![
        Just(Dscp::Copy),
        (0u8..64).prop_map(Dscp::Set),
        any::<u8>().prop_map(|n| Dscp::Map(Box::new(std::array::from_fn(|i| (n ^ i as u8) & 63)))),
    ];
    let df = prop::sample::select(vec![DontFragment::Copy, DontFragment::Set, DontFragment::Clear]);
    let hop_limit = prop_oneof![Just(HopLimit::Copy), any::<u8>().prop_map(HopLimit::Set)];
    (dscp, any::<[bool; 3]>(), df, hop_limit).prop_map(|(dscp, [dscp_inward, ecn, before], df, hop_limit)| {
        let fragment = if before { Fragmentation::Before } else { Fragmentation::After };
        HeaderPolicy { dscp, dscp_inward, ecn, df, hop_limit, fragment }
    })
}

/// Options that go with ESP in UDP.
fn any_options() -> impl Strategy<Value = SaOptions> {
    let class =
        prop::sample::select(vec![KeyClass::Spi, KeyClass::SpiDestination, KeyClass::SpiDestinationSource]);
    let peer = (any::<u16>(), any::<u16>(), any::<bool>());
    let classes = (class, 0u8..64);
    (any::<bool>(), any_limits(), any_limits(), any_headers(), prop::option::of(1u32..256), classes, peer)
        .prop_map(
            |(extended_sequence, soft, hard, headers, next, classes, (keepalive, dummy, follow_peer))| {
                let (class, aggregate) = (classes.0, AggregateId(classes.1));
                SaOptions {
                    aggregate,
                    keepalive,
                    dummy,
                    follow_peer,
                    extended_sequence,
                    lifetime: Lifetime { soft, hard },
                    headers,
                    next: next.map(Spi),
                    class,
                    padding: if follow_peer { Padding::Blocks } else { Padding::Least },
                    ..SaOptions::default()
                }
            },
        )
}

/// The first use and the stage of an association's life.
fn any_life() -> impl Strategy<Value = (Option<Time>, LifeState)> {
    let states = vec![LifeState::Mature, LifeState::Dying, LifeState::Dead];
    (prop::option::of(any::<u64>().prop_map(Time)), prop::sample::select(states))
}

fn any_config(direction: Direction) -> impl Strategy<Value = SaConfig> {
    let names = (
        256u32..,
        any::<bool>(),
        prop::sample::select(SuiteId::all().filter(|s| !s.is_legacy()).collect::<Vec<_>>()),
        any::<u8>(),
    );
    let options = any_options();
    let ends = (near_addr(), near_addr(), any::<u16>(), any::<u16>(), near_ports());
    (names, ends, near_selectors(), 6u32..10, any::<u16>(), options).prop_map(
        move |(
            (spi, transport, suite, key),
            (local, remote, local_port, remote_port, ports),
            selectors,
            window,
            mtu,
            options,
        )| {
            SaConfig {
                spi: Spi(spi),
                direction,
                mode: if transport { Mode::Transport } else { Mode::Tunnel },
                suite,
                keymat: Secret::new(vec![key; suite.keymat_len()]),
                endpoints: Endpoints { local, remote, local_port, remote_port },
                selectors: sadb::Selectors { local_ports: ports, ..selectors },
                replay_window: 1 << window,
                path_mtu: mtu,
                options,
            }
        },
    )
}

/// The configuration changed so that it does not contradict itself.
fn sane(mut config: SaConfig) -> SaConfig {
    config.endpoints.local = "192.0.2.1".parse().unwrap();
    if config.endpoints.remote.is_ipv6() {
        config.endpoints.local = "2001:db8::ffff".parse().unwrap();
    }
    config.endpoints.local_port |= 1;
    config.endpoints.remote_port |= 1;
    config.path_mtu |= 1280;
    // Each option where it may be: the octets are the same for all.
    let options = &mut config.options;
    if config.direction == Direction::Inbound {
        (options.keepalive, options.dummy) = (0, 0);
    }
    options.dummy = if options.next.is_some() { 0 } else { options.dummy % 1001 };
    if options.dummy > 0 {
        config.mode = Mode::Tunnel;
    }
    options.follow_peer &= options.class == KeyClass::Spi;
    if config.check().is_err() {
        config.mode = Mode::Tunnel;
    }
    assert_eq!(config.check(), Ok(()));
    config
}

fn any_inbound() -> impl Strategy<Value = InboundState> {
    let seen = prop::collection::vec(1..2000u64, 0..40);
    (any_config(Direction::Inbound), seen, any::<[u64; 3]>(), any_life()).prop_map(
        |(config, seen, [packets, bytes, at], (first_used, life))| {
            let mut replay = ReplayWindow::new(config.replay_window).unwrap();
            for sequence in seen {
                let _ = replay.commit(sequence);
            }
            InboundState {
                config,
                replay: replay.export(),
                packets,
                bytes,
                last_used: Time(at),
                added: Time(at / 2),
                first_used,
                life,
            }
        },
    )
}

fn any_outbound() -> impl Strategy<Value = OutboundState> {
    (any_config(Direction::Outbound), 1..=1u64 << 32, any::<[u64; 3]>(), any_life()).prop_map(
        |(config, next_sequence, [packets, bytes, at], (first_used, life))| OutboundState {
            config,
            next_sequence,
            packets,
            bytes,
            last_used: Time(at),
            added: Time(at / 2),
            first_used,
            life,
        },
    )
}

fn any_hand_over() -> impl Strategy<Value = HandOver> {
    let lists = (
        prop::collection::vec(any::<u8>(), 0..40),
        prop::collection::vec(any::<[u8; 32]>(), 0..5),
        prop::collection::vec(any_inbound(), 0..4),
        prop::collection::vec(any_outbound(), 0..4),
    );
    lists.prop_map(|(key, used_keys, inbound, outbound)| HandOver {
        fingerprint_key: Secret::new(key),
        used_keys,
        inbound,
        outbound,
        rules: b"rules".to_vec(),
        scrubbed: vec![(ScrubId(3), b"known".to_vec()), (ScrubId(4), vec![])],
    })
}

/// A sealed hand-over: a true length and CRC over whatever the body says.
fn sealed(body: &[u8]) -> Vec<u8> {
    sealed_as(7, body)
}

/// A sealed hand-over in this version of the form.
fn sealed_as(version: u8, body: &[u8]) -> Vec<u8> {
    let mut octets = [&b"RVLNHAND\0\0\0"[..], &[version]].concat();
    octets.extend((body.len() as u64 + 28).to_be_bytes());
    octets.extend(body);
    let crc = octets.iter().fold(!0u64, |crc, octet| {
        (0..8).fold(crc ^ u64::from(*octet), |crc, _| (crc >> 1) ^ ((crc & 1) * 0xc96c_5795_d787_0f42))
    });
    octets.extend((!crc).to_be_bytes());
    octets
}

#[test]
fn an_empty_house_hands_over() {
    let empty = HandOver {
        fingerprint_key: Secret::new(vec![]),
        used_keys: vec![],
        inbound: vec![],
        outbound: vec![],
        rules: vec![],
        scrubbed: vec![],
    };
    let octets = empty.to_bytes();
    assert_eq!(octets.expose(), sealed(&[0; 22]));
    assert_eq!(HandOver::from_bytes(octets.expose(), &Suites::standard()), Ok(empty));
}

#[test]
fn each_kind_of_damage_has_its_name() {
    let good = sealed(&[0; 22]);
    let with = |at: usize, octet: u8| {
        let mut octets = good.clone();
        octets[at] = octet;
        HandOver::from_bytes(&octets, &Suites::standard())
    };
    assert_eq!(HandOver::from_bytes(b"", &Suites::standard()), Err(HandOverError::NotOurs));
    assert_eq!(HandOver::from_bytes(b"RVLNHAN", &Suites::standard()), Err(HandOverError::NotOurs));
    assert_eq!(with(0, b'r'), Err(HandOverError::NotOurs));
    for got in [3, 5, 8] {
        assert_eq!(with(11, got), Err(HandOverError::Version { got: got.into() }));
    }
    assert_eq!(with(19, 51), Err(HandOverError::Length { said: 51, got: 50 }));
    assert_eq!(with(20, 1), Err(HandOverError::Checksum));
    assert_eq!(with(49, !good[49]), Err(HandOverError::Checksum));
    assert_eq!(
        HandOver::from_bytes(&good[..49], &Suites::standard()),
        Err(HandOverError::Length { said: 50, got: 49 })
    );
    // True checksums over nonsense.
    assert_eq!(
        HandOver::from_bytes(&sealed(&[]), &Suites::standard()),
        Err(HandOverError::Field("fingerprint key"))
    );
    assert_eq!(
        HandOver::from_bytes(&sealed(&[0, 5, 1, 2]), &Suites::standard()),
        Err(HandOverError::Field("fingerprint key"))
    );
    assert_eq!(
        HandOver::from_bytes(&sealed(&[0; 23]), &Suites::standard()),
        Err(HandOverError::Field("octets behind the scrubbers"))
    );
    let huge = [0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(
        HandOver::from_bytes(&sealed(&huge), &Suites::standard()),
        Err(HandOverError::Field("used keys"))
    );
    let many = [0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 0, 0, 0];
    assert_eq!(
        HandOver::from_bytes(&sealed(&many), &Suites::standard()),
        Err(HandOverError::Field("inbound associations"))
    );
    let one = [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 4];
    assert_eq!(HandOver::from_bytes(&sealed(&one), &Suites::standard()), Err(HandOverError::Field("mode")));
    let short = [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2];
    assert_eq!(
        HandOver::from_bytes(&sealed(&short), &Suites::standard()),
        Err(HandOverError::Field("suite"))
    );
    let sideways = [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 3, 2];
    assert_eq!(
        HandOver::from_bytes(&sealed(&sideways), &Suites::standard()),
        Err(HandOverError::Field("direction"))
    );
}

#[test]
fn an_absent_selector_that_has_a_value_is_refused() {
    let state = HandOver {
        fingerprint_key: Secret::new(vec![]),
        used_keys: vec![],
        inbound: vec![common::inbound(0x1000).export()],
        outbound: vec![],
        rules: vec![],
        scrubbed: vec![],
    };
    let octets = state.to_bytes();
    // In front: lists 10, SPI and two kinds 6, suite 11, key 22, endpoints 14, prefixes 34.
    let at = 10 + 6 + 11 + 22 + 14 + 34;
    let with = |offset: usize, octet: u8| {
        let mut body = octets.expose()[20..octets.len() - 8].to_vec();
        body[at + offset] = octet;
        HandOver::from_bytes(&sealed(&body), &Suites::standard())
    };
    assert_eq!(with(0, 0), Ok(state.clone()), "no protocol");
    assert_eq!(with(0, 1).unwrap().inbound[0].config.selectors.protocol, Some(0));
    assert_eq!(with(0, 2), Err(HandOverError::Field("protocol")));
    assert_eq!(with(1, 6), Err(HandOverError::Field("protocol")));
    assert_eq!(with(2, 2), Err(HandOverError::Field("application")));
    assert_eq!(with(4, 1), Err(HandOverError::Field("application")));
}

#[test]
fn the_version_before_is_read_with_the_default_class() {
    let of_class = |class: u8| {
        let mut outbound = common::outbound(common::config(Direction::Outbound, 0x1000)).export();
        outbound.config.options.aggregate = AggregateId(class);
        HandOver {
            fingerprint_key: Secret::new(vec![]),
            used_keys: vec![],
            inbound: vec![],
            outbound: vec![outbound],
            rules: vec![],
            scrubbed: vec![],
        }
    };
    let read = |octets: &[u8]| HandOver::from_bytes(octets, &Suites::standard());
    let octets = of_class(5).to_bytes();
    assert_eq!(read(octets.expose()), Ok(of_class(5)));
    let body = &octets.expose()[20..octets.len() - 8];
    // Behind the class: number 8, use 24, life 18, and two empty lists of 4 each.
    let at = body.len() - (8 + 24 + 18 + 8) - 1;
    assert_eq!(body[at], 5);
    let before = [&body[..at], &body[at + 1..]].concat();
    assert_eq!(read(&sealed_as(6, &before)), Ok(of_class(0)));
    // Each version has its own number of octets.
    assert!(read(&sealed_as(7, &before)).is_err() && read(&sealed_as(6, body)).is_err());
    for (class, is_read) in [(0, true), (63, true), (64, false), (255, false)] {
        let mut other = body.to_vec();
        other[at] = class;
        let got = read(&sealed(&other));
        assert_eq!(got.is_ok(), is_read, "{class}");
        if !is_read {
            assert_eq!(got, Err(HandOverError::Field("class")));
        }
    }
}

#[test]
fn every_error_says_what_to_do() {
    for error in [
        HandOverError::NotOurs,
        HandOverError::Version { got: 8 },
        HandOverError::Length { said: 1, got: 2 },
        HandOverError::Checksum,
        HandOverError::Field("mode"),
    ] {
        assert!(error.to_string().contains("start without --take-over"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_is_written_is_read_back(state in any_hand_over()) {
        let octets = state.to_bytes();
        prop_assert_eq!(HandOver::from_bytes(octets.expose(), &Suites::standard()), Ok(state));
    }

    #[test]
    fn associations_survive_the_whole_way(inbound in any_inbound(), outbound in any_outbound()) {
        let (inbound, outbound) = (InboundState { config: sane(inbound.config), ..inbound }, OutboundState { config: sane(outbound.config), ..outbound });
        let ours = InboundSa::import(inbound, &registry()).unwrap();
        let theirs = OutboundSa::import(outbound, &registry()).unwrap();
        let state = HandOver {
            fingerprint_key: Secret::new(vec![1; 32]),
            used_keys: vec![],
            inbound: vec![ours.export()],
            outbound: vec![theirs.export()],
            rules: b"rules".to_vec(),
            scrubbed: vec![],
        };
        let mut read = HandOver::from_bytes(state.to_bytes().expose(), &Suites::standard()).unwrap();
        let ours_again = InboundSa::import(read.inbound.remove(0), &registry()).unwrap();
        let theirs_again = OutboundSa::import(read.outbound.remove(0), &registry()).unwrap();
        prop_assert_eq!(ours_again.export(), ours.export());
        prop_assert_eq!(theirs_again.export(), theirs.export());
    }

    #[test]
    fn cut_off_anywhere_it_is_refused(state in any_hand_over(), at in any::<prop::sample::Index>()) {
        let octets = state.to_bytes();
        let cut = at.index(octets.len());
        prop_assert!(HandOver::from_bytes(&octets.expose()[..cut], &Suites::standard()).is_err());
    }

    #[test]
    fn any_changed_octet_is_noticed(state in any_hand_over(), at in any::<prop::sample::Index>(), change in 1u8..) {
        let mut octets = state.to_bytes().expose().to_vec();
        let at = at.index(octets.len());
        octets[at] ^= change;
        prop_assert!(HandOver::from_bytes(&octets, &Suites::standard()).is_err());
    }

    #[test]
    fn nonsense_under_a_true_checksum_never_panics_and_reads_as_written(
        state in any_hand_over(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        noise in prop::collection::vec(any::<u8>(), 0..60),
        keep in any::<prop::sample::Index>(),
    ) {
        let octets = state.to_bytes();
        let mut body = octets.expose()[20..octets.len() - 8].to_vec();
        for (at, octet) in changes {
            let at = at.index(body.len());
            body[at] = octet;
        }
        body.truncate(keep.index(2 * body.len()));
        if keep.index(3) == 0 {
            body.extend(noise);
        }
        let octets = sealed(&body);
        // There is one way to write a state: what can be read at all is what would be written.
        if let Ok(read) = HandOver::from_bytes(&octets, &Suites::standard()) {
            let written = read.to_bytes();
            prop_assert_eq!(written.expose(), octets);
        }
    }
}
