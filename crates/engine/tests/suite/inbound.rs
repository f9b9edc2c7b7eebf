//! Tests of what may reach the host: peers, selectors, nesting, fragments, marks.

use crate::support;

use crypto::SuiteId;
use sadb::spd::PortRange;
use sadb::{InboundSa, Mode, OutboundSa, SaConfig, Selectors, Spi};
use support::*;
use wire::ip::Headers;
use wire::ipv4::Ipv4;
use wire::tcp::Flags;
use wire::{AppId, DropReason, Prefix, protocol, record};

fn tunnel() -> SaConfig {
    outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false)
}

/// Another association between the same hosts.
fn second(selectors: Selectors) -> SaConfig {
    SaConfig { spi: Spi(0x7000), keymat: keymat(SuiteId::AES_128_GCM, 2), selectors, ..tunnel() }
}

/// Alice's sending half without her engine: neither policy nor selectors nor reassembly hold her back.
fn anything(config: &SaConfig) -> OutboundSa {
    pair(config).0
}

fn sealed(alice: &mut OutboundSa, packet: &[u8]) -> Vec<u8> {
    let outer = ipsec::encap(alice, scheduled_out(packet), &mut pool()).unwrap();
    outer.bytes().to_vec()
}

#[test]
fn the_mark_says_for_whom_and_how() {
    let proven = record::PROOF | record::AUTHENTICATED | record::ENCRYPTED;
    for (app, want) in [(None, proven), (Some(AppId(7)), proven | 7), (Some(AppId(0xffff)), proven | 0xffff)]
    {
        let config = second(Selectors { app, ..Selectors::ANY });
        let (mut alice, mut bob) = (anything(&config), Receiver::new(&[config]));
        let (packet, mark) = bob.handle(&sealed(&mut alice, &alice_to_bob(false, 0, 9))).unwrap();
        assert_eq!((mark, packet.meta.app, packet.meta.spi), (want, app.unwrap_or_default(), 0x7000));
    }
}

#[test]
fn strangers_and_wrong_names() {
    let (mut alice, mut bob) = (anything(&tunnel()), Receiver::new(&[tunnel()]));
    let good = sealed(&mut alice, &alice_to_bob(false, 0, 9));
    let with = |edit: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        edit(&mut bytes);
        bytes
    };
    assert_eq!(bob.refuse(&with(&|b| b[31] ^= 1)), DropReason::UnknownSpi);
    assert_eq!(bob.refuse(&with(&|b| b[28..32].copy_from_slice(&[0, 0, 0, 1]))), DropReason::ReservedSpi);
    // Source and destination of the outer header.
    for octet in [15, 19] {
        let moved = with(&|b| {
            b[octet] ^= 1;
            Ipv4::new_checked(&mut b[..]).unwrap().fill_checksum();
        });
        assert_eq!(bob.refuse(&moved), DropReason::WrongPeer);
        assert_eq!(bob.refuse(&with(&|b| b[octet] ^= 1)), DropReason::BadChecksum);
    }
    assert_eq!(bob.refuse(&with(&|b| b[22] ^= 1)), DropReason::NotEsp);
    assert_eq!(bob.refuse(&with(&|b| b[32..36].copy_from_slice(&[0; 4]))), DropReason::SequenceZero);
    assert_eq!(bob.refuse(&with(&|b| b[60] ^= 1)), DropReason::AuthFailed);
    let sa = bob.engine.sad().get(Spi(SPI)).unwrap();
    assert_eq!(
        (sa.counters.drops_for(DropReason::WrongPeer), sa.counters.drops_for(DropReason::AuthFailed)),
        (2, 1)
    );
    assert_eq!(sa.counters.packets, 0);
    // A NAT may change the peer's port.
    assert!(bob.handle(&with(&|b| b[20] ^= 1)).is_ok());
    assert_eq!(bob.refuse(&good), DropReason::Replayed);
    let last = *bob.engine.stats().last_drops().last().unwrap();
    assert_eq!((last.reason, last.spi, last.sequence), (DropReason::Replayed, SPI, 1));
}

#[test]
fn bare_esp_and_esp_in_udp_are_the_same_association() {
    for mode in MODES {
        for v6 in [false, true] {
            let config = outbound_config(mode, SuiteId::CHACHA20_POLY1305, v6);
            let (mut alice, mut bob) = (anything(&config), Receiver::new(std::slice::from_ref(&config)));
            let packet = alice_to_bob(v6, 0, 50);
            let in_udp = sealed(&mut alice, &packet);
            let esp = &in_udp[if v6 { 48 } else { 28 }..];
            let (from, to) = hosts(v6);
            let bare = ip_packet(from, to, protocol::ESP, 0, true, esp);
            let (inner, _) = bob.handle(&bare).unwrap();
            let headers = Headers::parse(inner.bytes()).unwrap();
            assert_eq!(inner.bytes()[headers.header_len..], packet[headers.header_len..]);
            assert_eq!(bob.refuse(&in_udp), DropReason::Replayed);
        }
    }
}

#[test]
fn old_numbers_are_refused() {
    let config = SaConfig { replay_window: 64, ..tunnel() };
    let (mut alice, mut bob) = (anything(&config), Receiver::new(&[config]));
    let packet = alice_to_bob(false, 0, 9);
    let sent: Vec<_> = (0..66).map(|_| sealed(&mut alice, &packet)).collect();
    assert!(bob.handle(&sent[64]).is_ok());
    assert_eq!(bob.refuse(&sent[0]), DropReason::ReplayTooOld);
    assert!(bob.handle(&sent[1]).is_ok());
    assert!(bob.handle(&sent[65]).is_ok());
    assert_eq!(bob.refuse(&sent[1]), DropReason::ReplayTooOld);
    assert!(bob.handle(&sent[2]).is_ok());
    assert_eq!(bob.refuse(&sent[2]), DropReason::Replayed);
}

#[test]
fn selectors_hold_after_decryption() {
    let (alice, bob) = hosts(false);
    let host = |addr: &str| Prefix::host(ip(addr));
    // From Alice's side: what her packets may look like.
    let cases = [
        Selectors { protocol: Some(protocol::TCP), ..Selectors::ANY },
        Selectors { remote_ports: PortRange::one(54), ..Selectors::ANY },
        Selectors { local_ports: PortRange { first: 1, last: 39999 }, ..Selectors::ANY },
        Selectors { local: host("192.0.2.77"), ..Selectors::ANY },
        Selectors { remote: host("192.0.2.77"), ..Selectors::ANY },
        Selectors { local: Prefix::new(ip("2001:db8::"), 32).unwrap(), ..Selectors::ANY },
    ];
    for selectors in cases {
        let config = second(selectors);
        let (mut sender, mut receiver) = (anything(&config), Receiver::new(&[config]));
        let outer = sealed(&mut sender, &alice_to_bob(false, 0, 9));
        let dropped = receiver.handle(&outer).unwrap_err();
        assert_eq!(dropped.reason, DropReason::SelectorMismatch, "{selectors:?}");
        assert_eq!(dropped.flow.unwrap().to_string(), "192.0.2.11:53 -> 192.0.2.10:40000/udp");
        // It was authentic, so its number is spent.
        assert_eq!(receiver.refuse(&outer), DropReason::Replayed);
    }
    let config = second(Selectors {
        protocol: Some(protocol::TCP),
        local: Prefix::host(alice),
        remote: Prefix::host(bob),
        remote_ports: PortRange::one(443),
        ..Selectors::ANY
    });
    let (mut sender, mut receiver) = (anything(&config), Receiver::new(&[config]));
    let packet = tcp_packet((alice, 5), (bob, 443), 1, Flags::ACK, true, b"fits");
    assert_eq!(receiver.handle(&sealed(&mut sender, &packet)).unwrap().0.bytes(), packet);
}

#[test]
fn esp_in_udp_inside_esp_for_this_host_is_not_opened() {
    let (mut alice, mut bob) = (anything(&tunnel()), Receiver::new(&[tunnel()]));
    let (from, to) = hosts(false);
    let once = sealed(&mut alice, &alice_to_bob(false, 0, 9));
    let twice = sealed(&mut alice, &once);
    assert_eq!(bob.refuse(&twice), DropReason::EncapsulatedInside);
    // Bare, it is a bundle.
    let bare = ip_packet(from, to, protocol::ESP, 0, true, &once[28..]);
    assert_eq!(bob.handle(&sealed(&mut alice, &bare)).unwrap().0.bytes(), alice_to_bob(false, 0, 9));
    // Also when it comes in pieces.
    let pieces = fragment(&twice, 3, 64);
    let (last, first) = pieces.split_last().unwrap();
    for piece in first {
        assert_eq!(bob.refuse(&sealed(&mut alice, piece)), DropReason::FragmentHeld);
    }
    assert_eq!(bob.refuse(&sealed(&mut alice, last)), DropReason::EncapsulatedInside);
    // For another host it is that host's affair.
    let elsewhere = ip_packet(from, ip("192.0.2.200"), protocol::ESP, 0, true, &once[28..]);
    assert!(bob.handle(&sealed(&mut alice, &elsewhere)).is_ok());
}

#[test]
fn fragments_of_two_associations_never_meet() {
    let narrow = second(Selectors { protocol: Some(protocol::UDP), ..Selectors::ANY });
    let (mut one, mut two) = (anything(&tunnel()), anything(&narrow));
    let mut bob = Receiver::new(&[tunnel(), narrow]);
    let (from, to) = hosts(false);
    let whole = udp_packet((from, 1), (to, 2), 0, false, &[5; 1000]);
    let pieces = fragment(&whole, 42, 512);
    assert_eq!(bob.refuse(&sealed(&mut one, &pieces[0])), DropReason::FragmentHeld);
    assert_eq!(bob.refuse(&sealed(&mut two, &pieces[1])), DropReason::FragmentHeld);
    let (joined, _) = bob.handle(&sealed(&mut one, &pieces[1])).unwrap();
    assert_eq!(Headers::parse(joined.bytes()).unwrap().total_len, whole.len());
    bob.engine.expire(wire::Time::from_secs(200));
    assert_eq!(bob.engine.stats().drops_for(DropReason::FragmentTimeout), 1);
}

#[test]
fn fragments_from_outside_the_selectors_are_not_kept() {
    let config = second(Selectors { local: Prefix::host(ip("192.0.2.77")), ..Selectors::ANY });
    let (mut alice, mut bob) = (anything(&config), Receiver::new(&[config]));
    let (from, to) = hosts(false);
    let pieces = fragment(&udp_packet((from, 1), (to, 2), 0, false, &[5; 1000]), 42, 512);
    assert_eq!(bob.refuse(&sealed(&mut alice, &pieces[0])), DropReason::SelectorMismatch);
}

#[test]
fn keepalives_are_counted_and_not_remembered() {
    let mut bob = Receiver::new(&[tunnel()]);
    let (alice, to) = hosts(false);
    assert_eq!(bob.refuse(&udp_packet((alice, 4500), (to, PORT), 0, true, &[0xff])), DropReason::Keepalive);
    assert_eq!(bob.engine.stats().drops_for(DropReason::Keepalive), 1);
    assert_eq!(bob.engine.stats().last_drops().count(), 0);
}

#[test]
fn an_association_handed_over_goes_on_with_its_window() {
    let registry = registry();
    let (mut alice, mut bob) = (anything(&tunnel()), Receiver::new(&[tunnel()]));
    let packet = alice_to_bob(false, 0, 9);
    let sent: Vec<_> = (0..3).map(|_| sealed(&mut alice, &packet)).collect();
    assert!(bob.handle(&sent[0]).is_ok() && bob.handle(&sent[2]).is_ok());
    let mut heir = Receiver::new(&[]);
    for state in bob.engine.export() {
        heir.engine.add_sa(InboundSa::import(state, registry).unwrap()).unwrap();
    }
    assert_eq!(heir.refuse(&sent[0]), DropReason::Replayed);
    assert_eq!(heir.refuse(&sent[2]), DropReason::Replayed);
    assert!(heir.handle(&sent[1]).is_ok());
    assert!(heir.engine.remove_sa(Spi(SPI)).is_ok());
    assert_eq!(heir.refuse(&sent[1]), DropReason::UnknownSpi);
}
