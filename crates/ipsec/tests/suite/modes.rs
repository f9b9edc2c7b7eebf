//! BEET mode, transport mode with headers in front, header fields across tunnels, padding and dummies.

use crate::auth;
use crate::support;

use auth::*;
use crypto::SuiteId;
use ipsec::ecn;
use sadb::sa::{DontFragment, Dscp, Encapsulation, HopLimit, SaProtocol, Tfc};
use sadb::{Mode, SaConfig};
use std::net::IpAddr;
use support::*;
use wire::ip::Headers;
use wire::{DropReason, Prefix, Time, protocol};

const GCM: SuiteId = SuiteId::AES_128_GCM;
const UPPER: &[u8] = &[0x9c, 0x40, 0, 53, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];

/// Inner addresses of BEET mode, and outer ones of the other family or another network.
fn beet(protocol: SaProtocol, suite: SuiteId, inner_v6: bool, outer_v6: bool) -> SaConfig {
    let mut config = bare_config(protocol, Mode::Beet, suite, outer_v6);
    let (alice, bob) = hosts(inner_v6);
    config.selectors.local = Prefix::host(alice);
    config.selectors.remote = Prefix::host(bob);
    let (local, remote): (IpAddr, IpAddr) = if outer_v6 {
        (ip("2001:db8:1::1"), ip("2001:db8:1::2"))
    } else {
        (ip("198.51.100.1"), ip("198.51.100.2"))
    };
    (config.endpoints.local, config.endpoints.remote) = (local, remote);
    config
}

/// What comes out where the outer header is of the other family: it has no place for the packet's identification or
/// flow label.
fn without_own_fields(packet: &[u8], outer_v6: bool) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if (packet[0] >> 4 == 6) == outer_v6 {
        return packet;
    }
    if packet[0] >> 4 == 4 {
        let mut view = wire::ipv4::Ipv4::new_checked(&mut packet[..]).unwrap();
        assert!(view.checksum_ok());
        view.set_id(0);
        view.fill_checksum();
    } else {
        (packet[1], packet[2], packet[3]) = (packet[1] & 0xf0, 0, 0);
    }
    packet
}

#[test]
fn beet_in_every_mix_of_families_and_residue() {
    let protocols = [(SaProtocol::Esp, esp_suites()), (SaProtocol::Ah, ah_suites())];
    for (protocol, suites) in protocols {
        for suite in suites {
            for (inner_v6, outer_v6) in [(false, false), (true, true), (true, false), (false, true)] {
                for udp in [false, true] {
                    let mut config = beet(protocol, suite, inner_v6, outer_v6);
                    if udp && protocol == SaProtocol::Esp {
                        config.options.encapsulation = Encapsulation::Udp;
                    }
                    let (mut out, mut inb) = pair_of(&config);
                    for len in 0..36 {
                        let packet = alice_to_bob(inner_v6, 0xb8, len);
                        let outer = seal(&mut out, &packet);
                        let headers = Headers::parse(&outer).unwrap();
                        assert_eq!(
                            (headers.src, headers.dst),
                            (config.endpoints.local, config.endpoints.remote)
                        );
                        // The lifetime and type of service go on.
                        assert_eq!((headers.ttl, headers.tos), (63, 0xb8));
                        assert!(outer.len() <= packet.len() + ipsec::overhead(&config));
                        let inner = open(&mut inb, &outer).unwrap();
                        assert_eq!(
                            inner,
                            without_own_fields(&packet, outer_v6),
                            "{suite} {inner_v6} {outer_v6} {len}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn beet_carries_options_behind_its_pseudo_header() {
    for outer_v6 in [false, true] {
        for options in (1..=10).map(|words| vec![1u8; words * 4]) {
            // NULL encryption is not at hand; AH shows what travels.
            let (mut out, mut inb) = pair_of(&beet(SaProtocol::Ah, sha256(), false, outer_v6));
            let packet = v4_with_options(&options, UPPER);
            let outer = seal(&mut out, &packet);
            let at = if outer_v6 { 40 } else { 20 };
            let pseudo = at + if outer_v6 { 32 } else { 28 };
            assert_eq!(outer[at], protocol::BEET_PSEUDO);
            let padding = 4 - (options.len() & 4);
            let whole = 4 + padding + options.len();
            assert_eq!(outer[pseudo..pseudo + 4], [17, (whole / 8 - 1) as u8, padding as u8, 0]);
            assert_eq!(whole % 8, 0);
            let inner = open(&mut inb, &outer).unwrap();
            assert_eq!(inner, without_own_fields(&packet, outer_v6));
        }
    }
    let (mut out, mut inb) = pair_of(&beet(SaProtocol::Esp, GCM, true, true));
    let packet = v6_with_headers(&[(protocol::HOP_BY_HOP, vec![0, 0, 1, 4, 0, 0, 0, 0])], UPPER);
    assert_eq!(open(&mut inb, &seal(&mut out, &packet)).unwrap(), packet);
}

#[test]
fn beet_refuses_by_name() {
    let (mut out, _) = pair_of(&beet(SaProtocol::Esp, GCM, false, false));
    let (alice, _) = hosts(false);
    let mut refused = |packet: &[u8], want| assert_eq!(try_seal(&mut out, packet).unwrap_err(), want);
    refused(&ip_packet(alice, ip("192.0.2.77"), 17, 0, true, UPPER), DropReason::BeetAddress);
    refused(&alice_to_bob(true, 0, 4), DropReason::BeetAddress);
    let mut fragment = alice_to_bob(false, 0, 20);
    fragment[6] = 0x20;
    refused(&fragment, DropReason::Fragment);
    refused(&v4_with_options(&[7, 9, 4, 0], UPPER), DropReason::BadOption);

    // What a peer with the key may write into a pseudo header. AH in tunnel mode signs the octets as they are here.
    let config = beet(SaProtocol::Ah, sha256(), false, false);
    let table: [(&[u8], DropReason); 9] = [
        (&[17, 0, 0, 0], DropReason::BeetHeader),
        (&[17, 0, 4, 0, 1, 1, 1, 1], DropReason::BeetHeader),
        (&[17, 0, 2, 0, 1, 1, 1, 1], DropReason::BeetHeader),
        (&[17, 9, 0, 0, 1, 1, 1, 1], DropReason::BeetHeader),
        (&[94, 0, 0, 0, 1, 1, 1, 1], DropReason::BeetHeader),
        (&[17, 0, 0, 0, 7, 9, 4, 0], DropReason::BeetHeader),
        (&[17, 0, 0, 0, 7, 0, 4, 0], DropReason::BeetHeader),
        (&[17], DropReason::BeetHeader),
        (&[17, 255, 0, 0, 1, 1, 1, 1], DropReason::BeetHeader),
    ];
    for (pseudo, want) in table {
        assert_eq!(open_transport_as_beet(&config, protocol::BEET_PSEUDO, pseudo), Err(want), "{pseudo:?}");
    }
    for number in [4, 41, 44] {
        let got = open_transport_as_beet(&config, number, UPPER);
        assert_eq!(got, Err(DropReason::BeetNextHeader), "{number}");
    }
    let good = [&[17, 0, 0, 0, 148, 4, 0, 0], UPPER].concat();
    assert!(open_transport_as_beet(&config, protocol::BEET_PSEUDO, &good).is_ok());
}

/// Transport and BEET look the same on the wire: a transport sender writes any next header and payload.
fn open_transport_as_beet(config: &SaConfig, number: u8, payload: &[u8]) -> Result<Vec<u8>, DropReason> {
    let mut transport = config.clone();
    transport.mode = Mode::Transport;
    transport.selectors = sadb::Selectors::ANY;
    let (mut out, _) = pair_of(&transport);
    let (_, mut inb) = pair_of(config);
    let ends = config.endpoints;
    // The number is put in behind `read`, which refuses fragments.
    let packet = ip_packet(ends.local, ends.remote, number, 0, true, payload);
    open(&mut inb, &seal(&mut out, &packet))
}

#[test]
fn transport_keeps_options_and_extension_headers_in_front() {
    let hbh = (protocol::HOP_BY_HOP, vec![0, 0, 0x1e, 4, 1, 2, 3, 4]);
    let dst = (protocol::DESTINATION, vec![0, 0, 0x1e, 4, 5, 6, 7, 8]);
    let mut route = vec![0, 2, 0, 0, 0, 0, 0, 0];
    route.extend([0x20; 16]);
    let route = (protocol::ROUTING, route);
    let packets = [
        v4_with_options(&[148, 4, 0, 0], UPPER),
        v4_with_options(&[1; 40], UPPER),
        v6_with_headers(std::slice::from_ref(&hbh), UPPER),
        v6_with_headers(std::slice::from_ref(&dst), UPPER),
        v6_with_headers(&[hbh, dst.clone(), route, dst], UPPER),
    ];
    for suite in esp_suites() {
        for packet in &packets {
            let v6 = packet[0] >> 4 == 6;
            let config = bare_config(SaProtocol::Esp, Mode::Transport, suite, v6);
            let (mut out, mut inb) = pair_of(&config);
            let outer = seal(&mut out, packet);
            let headers = Headers::parse(&outer).unwrap();
            let own = ipsec::own_header(packet);
            assert_eq!((headers.protocol, headers.header_len), (protocol::ESP, own));
            assert_eq!(open(&mut inb, &outer).unwrap(), *packet);
            // Over UDP nothing can stay in front.
            let (mut udp, _) = pair_of(&outbound_config(Mode::Transport, suite, v6));
            let got = try_seal(&mut udp, packet);
            if own > if v6 { 40 } else { 20 } {
                assert_eq!(got.unwrap_err(), DropReason::TransportOptions);
            } else {
                assert!(got.is_ok());
            }
        }
    }
}

#[test]
fn header_fields_go_out_by_policy() {
    let mut config = outbound_config(Mode::Tunnel, GCM, false);
    let fields = |config: &SaConfig, tos: u8, df: bool, may_fragment: bool| {
        let (mut out, _) = pair_of(config);
        let (alice, bob) = hosts(false);
        let mut packet = scheduled_out(&ip_packet(alice, bob, 17, tos, df, UPPER));
        packet.meta.may_fragment = may_fragment;
        let outer = ipsec::encap(&mut out, packet, &mut pool()).unwrap();
        let headers = Headers::parse(outer.bytes()).unwrap();
        assert_eq!((outer.meta.tos, outer.meta.may_fragment), (headers.tos, !headers.dont_fragment));
        (headers.tos, headers.ttl, headers.dont_fragment)
    };
    for ecn in 0..4 {
        assert_eq!(fields(&config, 0xb8 | ecn, true, false), (0xb8 | ecn, 64, true));
    }
    config.options.headers.ecn = false;
    config.options.headers.dscp = Dscp::Set(10);
    config.options.headers.hop_limit = HopLimit::Copy;
    for ecn in 0..4 {
        assert_eq!(fields(&config, 0xb8 | ecn, true, false), (10 << 2, 63, true));
    }
    let mut map = [0; 64];
    map[46] = 34;
    config.options.headers.dscp = Dscp::Map(Box::new(map));
    assert_eq!(fields(&config, 0xb9, true, false).0, 34 << 2);
    assert_eq!(fields(&config, 0x20, true, false).0, 0);

    let mut df = |policy, inner, may_fragment| {
        config.options.headers.df = policy;
        fields(&config, 0, inner, may_fragment).2
    };
    assert!(df(DontFragment::Copy, true, false) && !df(DontFragment::Copy, false, false));
    assert!(!df(DontFragment::Copy, true, true));
    assert!(df(DontFragment::Set, false, false) && df(DontFragment::Set, true, false));
    assert!(!df(DontFragment::Clear, true, false));
    // Nobody may fragment it and it does not fit.
    config.options.headers.df = DontFragment::Set;
    let (mut out, _) = pair_of(&config);
    let mut packet = scheduled_out(&alice_to_bob(false, 0, 1600));
    packet.meta.may_fragment = true;
    let verdict = ipsec::encap(&mut out, packet, &mut pool());
    assert!(matches!(verdict, Err(DropReason::TooBig)));
    assert_eq!(out.next_sequence(), 1);
}

#[test]
fn header_fields_come_in_by_policy_and_odd_ones_are_counted() {
    for (dscp_inward, want) in [(false, 0xb8), (true, 0x28)] {
        let mut config = bare_config(SaProtocol::Ah, Mode::Tunnel, sha256(), false);
        config.options.headers.dscp_inward = dscp_inward;
        let (mut out, mut inb) = pair_of(&config);
        for inner in 0..4u8 {
            for outer in 0..4u8 {
                let mut sealed = seal(&mut out, &alice_to_bob(false, 0xb8 | inner, 9));
                // AH leaves the type of service to the path.
                sealed[1] = 0x28 | outer;
                match (open(&mut inb, &sealed), ecn::decap(inner, outer)) {
                    (Ok(packet), Ok(ecn)) => {
                        let headers = Headers::parse(&packet).unwrap();
                        assert_eq!(headers.tos, want | ecn);
                        assert!(wire::ip::checksum_ok(&packet, &headers));
                    }
                    (got, want) => assert_eq!(got.unwrap_err(), want.unwrap_err()),
                }
            }
        }
        // Figure 4 of RFC 6040: four combinations "(!!!)", one "(!)".
        assert_eq!((inb.counters.ecn_dangerous, inb.counters.ecn_unused), (4, 1));
    }
}

/// Seal in a buffer that has room for padding, as those of a pool have.
fn roomy(sa: &mut sadb::OutboundSa, packet: &[u8]) -> Vec<u8> {
    let packet =
        wire::Packet::from_host(wire::Buf::from_slice(packet, HEADROOM, 2000), wire::Meta::default());
    let packet = packet.advance::<wire::stage::Selected>(&Placed).advance(&Placed);
    ipsec::encap(sa, packet, &mut pool()).unwrap().bytes().to_vec()
}

#[test]
fn padding_hides_lengths_and_goes() {
    for suite in esp_suites() {
        for v6 in [false, true] {
            let mut config = outbound_config(Mode::Tunnel, suite, v6);
            config.options.tfc = Tfc::Full;
            let (mut out, mut inb) = pair_of(&config);
            let mut lengths = std::collections::BTreeSet::new();
            for len in (0..1300).step_by(61) {
                let packet = alice_to_bob(v6, 0, len);
                let outer = roomy(&mut out, &packet);
                lengths.insert(outer.len());
                assert_eq!(open(&mut inb, &outer).unwrap(), packet);
            }
            assert_eq!(lengths.len(), 1, "{lengths:?}");
            let longest = *lengths.first().unwrap();
            assert!(longest <= 1500 && longest > 1500 - usize::from(out.shape().align), "{longest}");

            config.options.tfc = Tfc::Multiple(256);
            let (mut out, mut inb) = pair_of(&config);
            for len in (0..1400).step_by(37) {
                let packet = alice_to_bob(v6, 0, len);
                let outer = roomy(&mut out, &packet);
                assert!(outer.len() <= 1500.max(packet.len() + ipsec::overhead(&config)));
                assert_eq!(open(&mut inb, &outer).unwrap(), packet);
            }
            let length = |len: usize, out: &mut sadb::OutboundSa| roomy(out, &alice_to_bob(v6, 0, len)).len();
            assert_eq!(length(1, &mut out), length(150, &mut out));
        }
    }
}

#[test]
fn a_dummy_is_sent_and_dropped() {
    for suite in esp_suites() {
        for v6 in [false, true] {
            let (mut out, mut inb) = pair_of(&outbound_config(Mode::Tunnel, suite, v6));
            for len in [0, 1, 2, 3, 100, 1400] {
                let mut pool = pool();
                let packet = scheduled_empty(&mut pool, Time(5));
                let dummy = ipsec::dummy(&mut out, packet, &vec![0x5a; len], &mut pool);
                let dummy = dummy.unwrap();
                assert_eq!(open(&mut inb, dummy.bytes()), Err(DropReason::EspDummy));
                // As long as a real one.
                assert!(dummy.bytes().len() - len <= ipsec::overhead(out.config()));
            }
            assert_eq!((out.counters.packets, out.counters.bytes), (6, 0));
        }
    }
    let (mut out, _) = pair_of(&ah_config(Mode::Tunnel, sha256(), false));
    let mut pool = pool();
    let packet = scheduled_empty(&mut pool, Time(5));
    let verdict = ipsec::dummy(&mut out, packet, &[1], &mut pool);
    assert!(matches!(verdict, Err(DropReason::WrongProtocol)));
}
