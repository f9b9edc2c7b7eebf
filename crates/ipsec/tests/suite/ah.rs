//! AH: what is signed is verified, what may change on the way may, and nothing else (RFC 4302).

use crate::auth;
use crate::support;

use auth::*;
use sadb::Mode;
use sadb::sa::SaProtocol;
use support::*;
use wire::ip::Headers;
use wire::{DropReason, protocol};

const UPPER: &[u8] = &[0x9c, 0x40, 0, 53, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];

/// Hop-by-hop options with one option that may change on the way and one that may not.
fn hop_by_hop() -> (u8, Vec<u8>) {
    (protocol::HOP_BY_HOP, vec![0, 1, 0x3e, 2, 0xaa, 0xbb, 0x1e, 4, 1, 2, 3, 4, 1, 2, 0, 0])
}

fn destination() -> (u8, Vec<u8>) {
    (protocol::DESTINATION, vec![0, 0, 0x1e, 2, 0xcc, 0xdd, 0, 0])
}

/// A routing header of type 0 with `left` of two addresses left.
fn routing(kind: u8, left: u8) -> (u8, Vec<u8>) {
    let mut octets = vec![0, 4, kind, left, 0, 0, 0, 0];
    for host in [0xc1u8, 0xc2] {
        octets.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    (protocol::ROUTING, octets)
}

const ROUTER_ALERT: [u8; 4] = [148, 4, 0, 0];
const TIMESTAMP: [u8; 8] = [68, 8, 5, 0, 1, 2, 3, 4];

fn packets() -> Vec<Vec<u8>> {
    vec![
        alice_to_bob(false, 0xb9, 20),
        alice_to_bob(true, 0xb9, 20),
        v4_with_options(&ROUTER_ALERT, UPPER),
        v4_with_options(&[&TIMESTAMP[..], &ROUTER_ALERT, &[1, 1, 0, 0]].concat(), UPPER),
        v6_with_headers(&[hop_by_hop()], UPPER),
        v6_with_headers(&[destination()], UPPER),
        v6_with_headers(&[hop_by_hop(), destination(), routing(0, 0), destination()], UPPER),
    ]
}

#[test]
fn what_is_signed_is_verified_in_every_mode_suite_and_family() {
    for suite in ah_suites() {
        for mode in MODES {
            for v6 in [false, true] {
                for extended in [false, true] {
                    let mut config = ah_config(mode, suite, v6);
                    config.options.extended_sequence = extended;
                    let (mut out, mut inb) = pair_of(&config);
                    for packet in packets() {
                        if mode == Mode::Transport && (packet[0] >> 4 == 6) != v6 {
                            continue;
                        }
                        let outer = seal(&mut out, &packet);
                        assert!(outer.len() <= packet.len() + ipsec::overhead(&config));
                        assert_eq!(open(&mut inb, &outer).unwrap(), packet, "{suite} {mode} {v6}");
                        assert_eq!(open(&mut inb, &outer), Err(DropReason::Replayed));
                    }
                }
            }
        }
    }
    assert!(ah_suites().len() >= 5);
}

#[test]
fn every_residue() {
    for v6 in [false, true] {
        let (mut out, mut inb) = pair_of(&ah_config(Mode::Transport, sha256(), v6));
        for len in 0..70 {
            let packet = alice_to_bob(v6, 0, len);
            let outer = seal(&mut out, &packet);
            // Section 2.6: a multiple of 32 bits in IPv4, of 64 in IPv6.
            assert_eq!(outer.len() - packet.len(), if v6 { 32 } else { 28 });
            assert_eq!(open(&mut inb, &outer).unwrap(), packet);
        }
    }
}

#[test]
fn it_stands_where_section_3_1_1_shows() {
    let order = |packet: &[u8]| {
        let (mut at, mut next, mut seen) = (40, packet[6], vec![]);
        while at < packet.len() && next != protocol::UDP {
            seen.push(next);
            let unit = if next == protocol::AH { 4 } else { 8 };
            let len = (usize::from(packet[at + 1]) + if next == protocol::AH { 2 } else { 1 }) * unit;
            (next, at) = (packet[at], at + len);
        }
        seen
    };
    let (mut out, _) = pair_of(&ah_config(Mode::Transport, sha256(), true));
    let all = [hop_by_hop(), destination(), routing(0, 0), destination()];
    assert_eq!(order(&seal(&mut out, &v6_with_headers(&all, UPPER))), [0, 60, 43, 51, 60]);
    assert_eq!(order(&seal(&mut out, &v6_with_headers(&all[..1], UPPER))), [0, 51]);
    assert_eq!(order(&seal(&mut out, &v6_with_headers(&[destination()], UPPER))), [51, 60]);
    let (mut out, _) = pair_of(&ah_config(Mode::Transport, sha256(), false));
    let outer = seal(&mut out, &v4_with_options(&ROUTER_ALERT, UPPER));
    assert_eq!((outer[0], outer[9], outer[24], outer[25]), (0x46, 51, 17, 5));
}

/// Which bits of an outer packet may change on the way, by octet.
fn mutable(outer: &[u8]) -> Vec<u8> {
    let mut mask = vec![0; outer.len()];
    if outer[0] >> 4 == 4 {
        // Type of service, flags and offset, time to live, checksum.
        for at in [1, 6, 7, 8, 10, 11] {
            mask[at] = 0xff;
        }
        let end = usize::from(outer[0] & 15) * 4;
        let mut at = 20;
        while at < end && outer[at] != 0 {
            let len = if outer[at] == 1 { 1 } else { usize::from(outer[at + 1]) };
            if outer[at] == TIMESTAMP[0] {
                // As long as type and length stay, anything may change.
                mask[at + 2..at + len].fill(0xff);
            }
            at += len;
        }
    } else {
        mask[..4].copy_from_slice(&[0x0f, 0xff, 0xff, 0xff]);
        mask[7] = 0xff;
        if outer[6] == protocol::HOP_BY_HOP {
            // The data of the option 0x3e.
            mask[44..46].fill(0xff);
        }
    }
    mask
}

#[test]
fn mutable_bits_may_change_and_no_other() {
    for mode in MODES {
        for packet in packets() {
            let v6 = packet[0] >> 4 == 6;
            let (mut out, inb) = pair_of(&ah_config(mode, sha256(), v6));
            let outer = seal(&mut out, &packet);
            let mask = mutable(&outer);
            let state = inb.export();
            let mut genuine = 0;
            for at in 0..outer.len() {
                for bit in 0..8 {
                    let mut changed = outer.clone();
                    changed[at] ^= 1 << bit;
                    // A fresh window: acceptance of one must not refuse the next.
                    let mut inb = sadb::InboundSa::import(state.clone(), registry()).unwrap();
                    let got = open(&mut inb, &changed);
                    if outer[0] >> 4 == 4 && at == 20 && outer[20] == TIMESTAMP[0] {
                        // The whole option is zeroed, so its type may become another that is zeroed.
                        assert!(got.is_ok(), "{:02x}", changed[at]);
                        continue;
                    }
                    if mask[at] & 1 << bit != 0 {
                        // A fragment never gets that far.
                        if !v6 && (at == 6 || at == 7) && (at, bit) != (6, 6) && (at, bit) != (6, 7) {
                            assert!(got.is_err());
                        } else {
                            match got {
                                Ok(_) => genuine += 1,
                                // Congestion that the inner transport cannot be told of (tunnel mode).
                                Err(reason) => {
                                    assert_eq!((reason, mode), (DropReason::EcnCongestion, Mode::Tunnel));
                                }
                            }
                        }
                    } else {
                        assert!(got.is_err(), "{mode} octet {at} bit {bit}: {outer:02x?}");
                    }
                }
            }
            assert!(genuine >= 30, "{genuine}");
        }
    }
}

#[test]
fn a_routing_header_is_signed_as_it_arrives() {
    let mut config = ah_config(Mode::Transport, sha256(), true);
    // Alice sends to C1 and C2 on the way to... the packet's list ends with Bob.
    let (_, bob) = hosts(true);
    let std::net::IpAddr::V6(bob6) = bob else { panic!() };
    let (number, mut octets) = routing(0, 2);
    octets[24..40].copy_from_slice(&bob6.octets());
    let mut packet = v6_with_headers(&[(number, octets)], UPPER);
    let first_hop: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xc0];
    packet[24..40].copy_from_slice(&first_hop);
    config.endpoints.remote = bob;
    let (mut out, mut inb) = pair_of(&config);
    let outer = seal(&mut out, &packet);
    assert_eq!(open(&mut inb, &outer), Err(DropReason::RoutingUnfinished));
    // Each hop swaps the destination with the next address (RFC 2460 section 4.4).
    let mut arrived = outer.clone();
    for hop in 0..2 {
        let (place, mut next, mut now) = (48 + hop * 16, [0; 16], [0; 16]);
        next.copy_from_slice(&arrived[place..place + 16]);
        now.copy_from_slice(&arrived[24..40]);
        arrived[24..40].copy_from_slice(&next);
        arrived[place..place + 16].copy_from_slice(&now);
        arrived[43] -= 1;
    }
    arrived[7] -= 2;
    let inner = open(&mut inb, &arrived).unwrap();
    assert_eq!(Headers::parse(&inner).unwrap().dst, bob);
    // Of another type nobody knows how it arrives.
    for kind in [1, 3, 4] {
        let packet = v6_with_headers(&[routing(kind, 0)], UPPER);
        assert_eq!(try_seal(&mut out, &packet).unwrap_err(), DropReason::RoutingHeader);
    }
    // A source route of IPv4: the destination is the last address, the option itself is zeroed.
    let (mut out, mut inb) = pair_of(&ah_config(Mode::Transport, sha256(), false));
    let mut packet = v4_with_options(&[131, 7, 4, 192, 0, 2, 11, 0], UPPER);
    packet[16..20].copy_from_slice(&[192, 0, 2, 99]);
    let mut outer = seal(&mut out, &packet);
    assert_eq!(open(&mut inb, &outer), Err(DropReason::RoutingUnfinished));
    outer[16..20].copy_from_slice(&[192, 0, 2, 11]);
    outer[22..27].copy_from_slice(&[8, 192, 0, 2, 99]);
    assert!(open(&mut inb, &outer).is_ok());
}

#[test]
fn what_contradicts_itself_has_a_name() {
    let (mut out, mut inb) = pair_of(&ah_config(Mode::Transport, sha256(), false));
    for options in [[148, 5, 0, 0], [148, 1, 0, 0], [148, 0, 0, 0], [1, 1, 1, 7]] {
        let packet = v4_with_options(&options, UPPER);
        assert_eq!(try_seal(&mut out, &packet).unwrap_err(), DropReason::BadOption, "{options:?}");
    }
    let good = seal(&mut out, &v4_with_options(&ROUTER_ALERT, UPPER));
    let mut table = vec![];
    let mut changed = |at: usize, value: u8, want: DropReason| {
        let mut bytes = good.clone();
        bytes[at] = value;
        table.push((bytes, want));
    };
    // The length field of AH, one more, one less, far too long; an option on the way; sequence number zero.
    changed(25, 6, DropReason::AhLength);
    changed(25, 4, DropReason::AhLength);
    changed(25, 200, DropReason::AhTooShort);
    changed(25, 0, DropReason::AhTooShort);
    changed(21, 9, DropReason::BadOption);
    changed(35, 0, DropReason::SequenceZero);
    changed(40, 0, DropReason::AuthFailed);
    changed(6, 0x20, DropReason::Fragment);
    for (bytes, want) in table {
        assert_eq!(open(&mut inb, &bytes), Err(want));
    }
    assert!(open(&mut inb, &good).is_ok());
    let mut short = good[..30].to_vec();
    wire::options::put_header_len(&mut short, 4, 30);
    assert_eq!(open(&mut inb, &short), Err(DropReason::AhTooShort));

    // More extension headers than are authenticated.
    let (mut out, _) = pair_of(&ah_config(Mode::Transport, sha256(), true));
    let mut long = vec![0u8; 480];
    long[1] = 59;
    let packet = v6_with_headers(&[(protocol::HOP_BY_HOP, long)], UPPER);
    assert_eq!(try_seal(&mut out, &packet).unwrap_err(), DropReason::AhHeaders);
    // A fragment is not AH's.
    let fragment = v6_with_headers(&[(protocol::FRAGMENT, vec![0, 0, 0, 1, 0, 0, 0, 1])], UPPER);
    assert_eq!(try_seal(&mut out, &fragment).unwrap_err(), DropReason::Fragment);
}

#[test]
fn protocols_are_not_taken_for_each_other() {
    let (mut ah, mut ah_in) = pair_of(&ah_config(Mode::Tunnel, sha256(), false));
    let esp = bare_config(SaProtocol::Esp, Mode::Tunnel, crypto::SuiteId::AES_128_GCM, false);
    let (mut esp, mut esp_in) = pair_of(&esp);
    let packet = alice_to_bob(false, 0, 40);
    assert_eq!(open(&mut esp_in, &seal(&mut ah, &packet)), Err(DropReason::WrongProtocol));
    assert_eq!(open(&mut ah_in, &seal(&mut esp, &packet)), Err(DropReason::WrongProtocol));
}

#[test]
fn the_upper_half_of_the_sequence_number_is_signed() {
    let mut config = ah_config(Mode::Transport, sha256(), false);
    config.options.extended_sequence = true;
    let (out, inb) = pair_of(&config);
    let mut state = out.export();
    state.next_sequence = 0x1_0000_0005;
    let mut out = sadb::OutboundSa::import(state, registry()).unwrap();
    let outer = seal(&mut out, &alice_to_bob(false, 0, 9));
    let state = inb.export();
    let at = |top: u64| {
        let mut inb = sadb::InboundSa::import(state.clone(), registry()).unwrap();
        inb.replay.commit(top).unwrap();
        inb
    };
    assert!(open(&mut at(7), &outer).is_err());
    assert!(open(&mut at(0xffff_fff0), &outer).is_ok());
    assert!(open(&mut at(0x1_0000_0001), &outer).is_ok());
    assert!(open(&mut at(0x2_0000_0001), &outer).is_err());
}
