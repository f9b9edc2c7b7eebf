//! What is sealed is opened, and nothing else is.

use crate::support;

use crypto::SuiteId;
use ipsec::Outer;
use proptest::prelude::*;
use sadb::{InboundSa, Mode, OutboundSa, SaConfig};
use support::*;
use wire::ip::{self, Headers};
use wire::ipv4::Ipv4;
use wire::udp::Udp;
use wire::{Buf, DropReason, Meta, Packet, Services, protocol, stage};

fn sealed(sa: &mut OutboundSa, packet: &[u8]) -> Packet<stage::Outer> {
    match ipsec::encap(sa, scheduled_out(packet), &mut pool()) {
        Ok(outer) => outer,
        other => panic!("{other:?}"),
    }
}

fn opened(sa: &mut InboundSa, outer: &[u8]) -> Result<Packet<stage::Inner>, DropReason> {
    let headers = Headers::parse(outer)?;
    let found = Outer::find(outer, &headers, 4500)?;
    ipsec::decap(sa, scheduled_in(outer), &found, &mut pool())
}

/// Every mode, suite and family of the outer and the inner packet that can be.
fn everything() -> Vec<(SaConfig, bool)> {
    let mut all = Vec::new();
    for suite in SUITES {
        for mode in MODES {
            for outer_v6 in [false, true] {
                for inner_v6 in [false, true] {
                    if mode == Mode::Tunnel || outer_v6 == inner_v6 {
                        all.push((outbound_config(mode, suite, outer_v6), inner_v6));
                    }
                }
            }
        }
    }
    all
}

#[test]
fn every_mode_suite_family_and_residue() {
    for (config, inner_v6) in everything() {
        let (mut out, mut inb) = pair(&config);
        for len in (0..=20).chain([100, 1371, 1372, 1373, 1374, 8000]) {
            let packet = alice_to_bob(inner_v6, 0xb8, len);
            let outer = sealed(&mut out, &packet);
            check_outer(&outer, &config, packet.len());
            let mut inner = opened(&mut inb, outer.bytes()).unwrap();
            assert_eq!((inner.meta.spi, inner.meta.services), (SPI, Services::ENCRYPTED));
            if config.mode == Mode::Transport {
                // The header is made anew: identification and flow label are the outer packet's own affair.
                undo_header_freedom(inner.bytes_mut());
                let mut want = packet.clone();
                undo_header_freedom(&mut want);
                assert_eq!(inner.bytes(), want, "{config:?} {len}");
            } else {
                assert_eq!(inner.bytes(), packet, "{config:?} {len}");
            }
        }
        assert_eq!(out.counters.packets, inb.counters.packets);
        assert_eq!(out.counters.bytes, inb.counters.bytes);
    }
}

fn undo_header_freedom(packet: &mut [u8]) {
    if packet[0] >> 4 == 4 {
        let mut ip = Ipv4::new_checked(packet).unwrap();
        assert!(ip.checksum_ok());
        ip.set_id(0);
        ip.fill_checksum();
    } else {
        (packet[1], packet[2], packet[3]) = (packet[1] & 0xf0, 0, 0);
    }
}

/// Every field of the outer packet that others read.
fn check_outer(outer: &Packet<stage::Outer>, config: &SaConfig, inner_len: usize) {
    let bytes = outer.bytes();
    let headers = Headers::parse(bytes).unwrap();
    assert_eq!(headers.total_len, bytes.len());
    assert_eq!((headers.src, headers.dst), (config.endpoints.local, config.endpoints.remote));
    assert_eq!((headers.protocol, headers.tos, outer.meta.tos), (protocol::UDP, 0xb8, 0xb8));
    assert_eq!(headers.ttl, if config.mode == Mode::Tunnel { 64 } else { 63 });
    assert!(ip::checksum_ok(bytes, &headers));
    assert!(headers.dont_fragment);
    let udp = Udp::new_checked(headers.upper(bytes)).unwrap();
    assert_eq!((udp.src_port(), udp.dst_port(), udp.len()), (4500, 4500, headers.upper(bytes).len()));
    match wire::checksum::verify_transport(bytes, &headers) {
        Some(right) => assert!(right && headers.version == 6),
        None => assert_eq!((headers.version, udp.checksum()), (4, 0)),
    }
    assert_eq!(udp.payload().len() % 4, 0);
    assert!(bytes.len() - inner_len <= ipsec::overhead(config));
    assert!(bytes.len() > inner_len);
    assert_eq!((outer.meta.spi, outer.meta.services), (SPI, Services::ENCRYPTED));
    // SPI, sequence number, and the IV that equals it.
    let sequence = u32::try_from(outer.meta.sequence).unwrap();
    assert_eq!(udp.payload()[..4], SPI.to_be_bytes());
    assert_eq!(udp.payload()[4..8], sequence.to_be_bytes());
    assert_eq!(udp.payload()[8..16], u64::from(sequence).to_be_bytes());
}

#[test]
fn the_inner_mtu_is_exact() {
    for (mut config, inner_v6) in everything() {
        for path_mtu in [1280, 1281, 1282, 1283, 1400, 1500, 9000] {
            config.path_mtu = path_mtu;
            let mtu = ipsec::inner_mtu(&config);
            let (mut out, _) = pair(&config);
            let overhead = alice_to_bob(inner_v6, 0, 0).len();
            let fits = sealed(&mut out, &alice_to_bob(inner_v6, 0, mtu - overhead)).bytes().len();
            let next = sealed(&mut out, &alice_to_bob(inner_v6, 0, mtu - overhead + 1)).bytes().len();
            assert!(
                fits <= usize::from(path_mtu) && next > usize::from(path_mtu),
                "{config:?}: {fits} {next}"
            );
        }
    }
}

#[test]
fn the_outer_packet_may_be_fragmented_only_where_the_inner_may() {
    let (mut out, _) = pair(&outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false));
    for may_fragment in [false, true] {
        let mut packet = scheduled_out(&alice_to_bob(false, 0, 3000));
        packet.meta.may_fragment = may_fragment;
        let outer = ipsec::encap(&mut out, packet, &mut pool()).unwrap();
        assert_eq!(Headers::parse(outer.bytes()).unwrap().dont_fragment, !may_fragment);
    }
}

#[test]
fn without_room_there_is_a_name_and_no_number_is_taken() {
    for (config, inner_v6) in everything() {
        let (mut out, _) = pair(&config);
        let packet = alice_to_bob(inner_v6, 0, 5);
        for (head, tail) in [(0, 64), (15, 64), (128, 0), (128, 15)] {
            let buf = Buf::from_slice(&packet, head, tail);
            let packet =
                Packet::from_host(buf, Meta::default()).advance::<stage::Selected>(&Placed).advance(&Placed);
            let verdict = ipsec::encap(&mut out, packet, &mut pool());
            assert!(matches!(verdict, Err(DropReason::NoRoom)), "{head} {tail}");
        }
        assert_eq!(out.next_sequence(), 1);
        let buf = Buf::from_slice(&packet, ipsec::HEADROOM, ipsec::TAILROOM);
        let packet =
            Packet::from_host(buf, Meta::default()).advance::<stage::Selected>(&Placed).advance(&Placed);
        assert!(ipsec::encap(&mut out, packet, &mut pool()).is_ok());
    }
}

#[test]
fn a_packet_too_long_for_any_datagram() {
    for (config, inner_v6) in everything() {
        let (mut out, mut inb) = pair(&config);
        // The last length that fits and the first that does not.
        let longest = (0..=65535usize).rev().find(|len| outer_len(&config, *len, inner_v6) <= 65535).unwrap();
        let overhead = alice_to_bob(inner_v6, 0, 0).len();
        let packet = alice_to_bob(inner_v6, 0, longest - overhead);
        let outer = sealed(&mut out, &packet);
        assert!(opened(&mut inb, outer.bytes()).is_ok());
        if longest < 65535 {
            let packet = alice_to_bob(inner_v6, 0, longest + 1 - overhead);
            let verdict = ipsec::encap(&mut out, scheduled_out(&packet), &mut pool());
            assert!(matches!(verdict, Err(DropReason::TooLong)), "{config:?} {longest}");
        }
    }
}

/// What the length field of the outer IP header would have to say.
fn outer_len(config: &SaConfig, inner: usize, inner_v6: bool) -> usize {
    let own_header = match (config.mode, inner_v6) {
        (Mode::Tunnel, _) => 0,
        (Mode::Transport | Mode::Beet, false) => 20,
        (Mode::Transport | Mode::Beet, true) => 40,
    };
    let covered = if config.endpoints.remote.is_ipv4() { 20 } else { 0 };
    covered + 8 + 16 + (inner.saturating_sub(own_header) + 2).next_multiple_of(4) + 16
}

#[test]
fn after_the_last_number_nothing_is_sent() {
    let config = outbound_config(Mode::Tunnel, SuiteId::AES_256_GCM, false);
    let (out, mut inb) = pair(&config);
    let mut state = out.export();
    state.next_sequence = u64::from(u32::MAX);
    let mut out = OutboundSa::import(state, registry()).unwrap();
    let packet = alice_to_bob(false, 0, 64);
    let last = sealed(&mut out, &packet);
    assert_eq!(last.meta.sequence, u64::from(u32::MAX));
    assert!(opened(&mut inb, last.bytes()).is_ok());
    for _ in 0..3 {
        let verdict = ipsec::encap(&mut out, scheduled_out(&packet), &mut pool());
        assert!(matches!(verdict, Err(DropReason::SequenceExhausted)));
    }
}

#[test]
fn transport_mode_refuses_what_it_cannot_carry() {
    let (alice, bob) = hosts(false);
    let config = outbound_config(Mode::Transport, SuiteId::AES_128_GCM, false);
    let (mut out, _) = pair(&config);
    let mut refused = |packet: &[u8], want: DropReason| {
        let verdict = ipsec::encap(&mut out, scheduled_out(packet), &mut pool());
        assert!(matches!(verdict, Err(reason) if reason == want), "{want}: {verdict:?}");
    };
    let other = ip("192.0.2.77");
    refused(&udp_packet((other, 1), (bob, 2), 0, true, b"x"), DropReason::TransportAddress);
    refused(&udp_packet((alice, 1), (other, 2), 0, true, b"x"), DropReason::TransportAddress);
    // Four octets of options (no operation, end of list).
    let mut options = ip_packet(alice, bob, 17, 0, true, &[1, 1, 1, 0, 0, 1, 0, 2, 0, 8, 0, 0]);
    options[0] = 0x46;
    refused(&options, DropReason::TransportOptions);
    let mut fragment = udp_packet((alice, 1), (bob, 2), 0, false, b"12345678");
    fragment[6] |= 0x20;
    refused(&fragment, DropReason::Fragment);
    // Shorter than its buffer: the caller had to cut it.
    let mut trailing = udp_packet((alice, 1), (bob, 2), 0, false, b"12345678");
    trailing.push(0);
    refused(&trailing, DropReason::BadHeader);
    refused(&[0x75, 0, 0, 0], DropReason::BadVersion);
    refused(&[], DropReason::BadVersion);
    refused(&[0x45, 0, 0], DropReason::Truncated);

    let (alice, bob) = hosts(true);
    let config = outbound_config(Mode::Transport, SuiteId::AES_128_GCM, true);
    let (mut out, mut inb) = pair(&config);
    // Next header, length 0 (8 octets), PadN of 4.
    let extension = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
    let udp = &alice_to_bob(true, 0, 4)[40..];
    let chain = |first: u8, headers: &[[u8; 8]]| {
        ip_packet(alice, bob, first, 0, true, &[&headers.concat(), udp].concat())
    };
    for (packet, want) in [
        (chain(0, &[extension(17)]), DropReason::TransportOptions),
        (chain(43, &[extension(17)]), DropReason::TransportOptions),
        (chain(60, &[extension(43), extension(17)]), DropReason::TransportOptions),
        (chain(44, &[extension(17)]), DropReason::Fragment),
        (chain(60, &[extension(44), extension(17)]), DropReason::Fragment),
    ] {
        let verdict = ipsec::encap(&mut out, scheduled_out(&packet), &mut pool());
        assert!(matches!(verdict, Err(reason) if reason == want), "{want}: {verdict:?}");
    }
    // Destination options go inside ESP and come out where they were.
    let packet = chain(60, &[extension(17)]);
    let outer = sealed(&mut out, &packet);
    let inner = opened(&mut inb, outer.bytes()).unwrap();
    assert_eq!(inner.bytes()[40..], packet[40..]);
    assert_eq!(Headers::parse(inner.bytes()).unwrap().protocol, 17);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// A changed packet never gets through, whichever bit it is, and does not move the window. The outer header is not
    /// protected by ESP: a change there either ends the packet or leaves the inner one as it was.
    #[test]
    fn bit_flips(which in 0usize..64, len in 0usize..200, bit in any::<prop::sample::Index>()) {
        let all = everything();
        let (config, inner_v6) = &all[which % all.len()];
        let (mut out, mut inb) = pair(config);
        let packet = alice_to_bob(*inner_v6, 0, len);
        let good = sealed(&mut out, &packet);
        let mut forged = good.bytes().to_vec();
        let bit = bit.index(forged.len() * 8);
        forged[bit / 8] ^= 1 << (bit % 8);
        let esp_at = Headers::parse(good.bytes()).unwrap().header_len + 8;
        let verdict = opened(&mut inb, &forged);
        if bit / 8 >= esp_at {
            // A flip of the sequence number's high bits is still a forgery, not an advance of the window.
            prop_assert!(verdict.is_err());
            prop_assert_eq!(inb.replay.top(), 0);
            prop_assert!(opened(&mut inb, good.bytes()).is_ok());
        } else if let (Ok(inner), Mode::Tunnel) = (verdict, config.mode) {
            prop_assert_eq!(inner.bytes(), &packet[..]);
        }
    }

    /// Any bytes at all: a verdict, no panic.
    #[test]
    fn noise_is_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200), which in 0usize..64, spoof: bool) {
        let all = everything();
        let (_, mut inb) = pair(&all[which % all.len()].0);
        if spoof && bytes.len() > 40 {
            // Make it look like a UDP datagram with ESP inside, so that it gets further.
            let len = bytes.len() as u16;
            bytes[0] = 0x45;
            bytes[2..4].copy_from_slice(&len.to_be_bytes());
            bytes[6..8].copy_from_slice(&[0, 0]);
            bytes[9] = 17;
            bytes[22..24].copy_from_slice(&4500u16.to_be_bytes());
            bytes[24..26].copy_from_slice(&(len - 20).to_be_bytes());
        }
        prop_assert!(opened(&mut inb, &bytes).is_err());
    }
}
