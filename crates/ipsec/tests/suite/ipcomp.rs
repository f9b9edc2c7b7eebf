//! IPComp: shorter or as it was; bounded on the way back (RFC 3173).

use crate::auth;
use crate::support;

use auth::*;
use ipsec::Codec;
use ipsec::ipcomp::THRESHOLD;
use proptest::prelude::*;
use sadb::sa::SaProtocol;
use sadb::{Mode, OutboundSa, SaConfig};
use support::*;
use wire::ip::Headers;
use wire::{DropReason, protocol};

fn config(mode: Mode, v6: bool) -> SaConfig {
    bare_config(SaProtocol::IpComp, mode, sha256(), v6)
}

fn udp(v6: bool, payload: &[u8]) -> Vec<u8> {
    let (alice, bob) = hosts(v6);
    udp_packet((alice, 40000), (bob, 53), 0, true, payload)
}

/// Octets that nothing can make shorter.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn what_can_be_shorter_is_and_comes_back() {
    for mode in MODES {
        for v6 in [false, true] {
            let (mut out, mut inb) = pair_of(&config(mode, v6));
            for len in [100, 1000, 1400, 9000, 60000] {
                let packet = udp(v6, &b"the same again; ".repeat(len / 16 + 1)[..len]);
                let outer = seal(&mut out, &packet);
                let headers = Headers::parse(&outer).unwrap();
                assert_eq!(headers.protocol, protocol::IPCOMP);
                assert!(outer.len() < packet.len(), "{} {}", outer.len(), packet.len());
                assert!(wire::ip::checksum_ok(&outer, &headers));
                // Next header, flags, CPI (section 3.3).
                let number = if mode == Mode::Transport {
                    17
                } else if v6 {
                    41
                } else {
                    4
                };
                assert_eq!(headers.upper(&outer)[..4], [number, 0, 0x30, 0]);
                assert_eq!(open(&mut inb, &outer).unwrap(), packet);
            }
        }
    }
}

#[test]
fn what_cannot_be_shorter_leaves_as_it_is() {
    for v6 in [false, true] {
        for payload in [noise(1000), vec![0; THRESHOLD - 9]] {
            let packet = udp(v6, &payload);
            let (mut out, _) = pair_of(&config(Mode::Transport, v6));
            assert_eq!(seal(&mut out, &packet), packet);
        }
        // In tunnel mode the tunnel is still there.
        let (mut out, mut inb) = pair_of(&config(Mode::Tunnel, v6));
        let packet = udp(v6, &noise(1000));
        let outer = seal(&mut out, &packet);
        let headers = Headers::parse(&outer).unwrap();
        assert_eq!(headers.protocol, if v6 { 41 } else { 4 });
        assert_eq!(outer.len(), packet.len() + headers.header_len);
        assert_eq!(open(&mut inb, &outer).unwrap(), packet);
    }
}

#[test]
fn a_stream_of_noise_is_soon_left_alone() {
    let (mut out, _) = pair_of(&config(Mode::Transport, false));
    let mut codec = Codec::default();
    let mut sealed = |out: &mut OutboundSa, packet: &[u8]| {
        let verdict = ipsec::encap_member(out, scheduled_out(packet), 1500, &mut codec, &mut pool());
        verdict.unwrap().bytes().to_vec()
    };
    let (bad, good) = (udp(false, &noise(1000)), udp(false, &[7; 1000]));
    for _ in 0..20 {
        assert_eq!(sealed(&mut out, &bad), bad);
    }
    // What would get shorter now waits its turn, and not for ever.
    let first = (0..1000).find(|_| sealed(&mut out, &good) != good).unwrap();
    assert!((1..=32).contains(&first), "{first}");
    assert_ne!(sealed(&mut out, &good), good);
}

/// Open this payload behind an IPComp header.
fn opened(payload: &[u8], number: u8) -> Result<usize, DropReason> {
    let (alice, bob) = hosts(false);
    let (_, mut inb) = pair_of(&config(Mode::Transport, false));
    let packet = ip_packet(alice, bob, protocol::IPCOMP, 0, true, &[&[number, 0, 0x30, 0], payload].concat());
    open(&mut inb, &packet).map(|inner| inner.len() - 20)
}

fn deflated(plain: &[u8]) -> Vec<u8> {
    miniz_oxide::deflate::compress_to_vec(plain, 9)
}

#[test]
fn bombs_and_nonsense_have_names() {
    // The longest packet there is, of what compresses best.
    const LONGEST: usize = 65_535 - 20;
    assert_eq!(opened(&deflated(&[0; LONGEST]), 17), Ok(LONGEST));
    assert_eq!(opened(&deflated(&[0; LONGEST + 1]), 17), Err(DropReason::IpCompBomb));
    assert_eq!(opened(&deflated(&[0; 10_000_000]), 17), Err(DropReason::IpCompBomb));
    assert_eq!(opened(&deflated(&noise(300).repeat(120)), 17), Ok(36000));
    // Longer than any packet.
    let noisy: Vec<u8> = noise(400).repeat(170);
    assert_eq!(opened(&deflated(&noisy), 17), Err(DropReason::IpCompBomb));

    let good = deflated(&[9; 500]);
    assert_eq!(opened(&good, 17), Ok(500));
    assert_eq!(opened(&good[..good.len() - 1], 17), Err(DropReason::IpCompCorrupt));
    assert_eq!(opened(&[&good[..], &[0]].concat(), 17), Err(DropReason::IpCompCorrupt));
    assert_eq!(opened(&noise(100), 17), Err(DropReason::IpCompCorrupt));
    assert_eq!(opened(&deflated(&[]), 17), Err(DropReason::IpCompCorrupt));
    assert_eq!(opened(&[], 17), Err(DropReason::IpCompTooShort));
    for number in [0, 43, 44] {
        assert_eq!(opened(&good, number), Err(DropReason::IpCompNextHeader));
    }
    let (alice, bob) = hosts(false);
    let (_, mut inb) = pair_of(&config(Mode::Transport, false));
    let short = ip_packet(alice, bob, protocol::IPCOMP, 0, true, &[17, 0, 0x30]);
    assert_eq!(open(&mut inb, &short), Err(DropReason::IpCompTooShort));
}

/// Nobody sends what the peer takes for a bomb, and the longest packet is none: in tunnel mode all of it is payload.
#[test]
fn what_is_sent_is_taken() {
    for mode in MODES {
        for v6 in [false, true] {
            let (mut out, mut inb) = pair_of(&config(mode, v6));
            let header = if v6 { 40 } else { 20 };
            // Nothing gets shorter than zeros; up to the last octet of a length field.
            for total in [16_384, 30_000, 65_514, 65_515, 65_516, 65_535] {
                let packet = udp(v6, &vec![0; total - header - 8]);
                let outer = seal(&mut out, &packet);
                assert!(outer.len() < 1000, "{mode:?} {v6} {total}");
                assert_eq!(open(&mut inb, &outer).as_ref(), Ok(&packet), "{mode:?} {v6} {total}");
            }
        }
    }
}

#[test]
fn alone_it_is_nothing() {
    let (mut out, mut inb) = pair_of(&config(Mode::Transport, false));
    let verdict = ipsec::encap(&mut out, scheduled_out(&udp(false, &[7; 500])), &mut pool());
    assert!(matches!(verdict, Err(DropReason::WrongProtocol)));
    let outer = seal(&mut out, &udp(false, &[7; 500]));
    let headers = Headers::parse(&outer).unwrap();
    assert_eq!(ipsec::Outer::find(&outer, &headers, 4500).unwrap_err(), DropReason::Unkeyed);
    let found = ipsec::Outer::nested(&outer, &headers).unwrap();
    let verdict = ipsec::decap(&mut inb, scheduled_in(&outer), &found, &mut pool());
    assert!(matches!(verdict, Err(DropReason::Unkeyed)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn everything_comes_back(words in prop::collection::vec(0u8..4, 0..1500), v6: bool, tunnel: bool) {
        let mode = if tunnel { Mode::Tunnel } else { Mode::Transport };
        let (mut out, mut inb) = pair_of(&config(mode, v6));
        let packet = udp(v6, &words);
        let outer = seal(&mut out, &packet);
        if outer == packet {
            return Ok(());
        }
        prop_assert_eq!(open(&mut inb, &outer).unwrap(), packet);
    }

    #[test]
    fn nothing_foreign_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), number: u8) {
        let _ = opened(&bytes, number);
    }
}
