//! Transport mode through a NAT: checksums over addresses that the NAT changed come out right (RFC 3948 section 3.1.2).

use crate::auth;
use crate::support;

use auth::*;
use crypto::SuiteId;
use sadb::sa::NatChecksum;
use sadb::{InboundSa, Mode, OutboundSa, SaConfig};
use support::*;
use wire::ip::Headers;
use wire::ipv4::Ipv4;
use wire::{checksum, protocol};

/// What the receiver knows its peer by.
const NAT: [u8; 4] = [203, 0, 113, 77];

fn behind_nat() -> (OutboundSa, InboundSa) {
    let config = outbound_config(Mode::Transport, SuiteId::AES_128_GCM, false);
    let (out, _) = pair(&config);
    let seen = SaConfig { endpoints: sadb::Endpoints { local: NAT.into(), ..config.endpoints }, ..config };
    (out, InboundSa::new(mirror(&seen), registry()).unwrap())
}

/// The outer packet as the NAT hands it on: with the NAT's address for its source.
fn translated(mut outer: Vec<u8>) -> Vec<u8> {
    outer[12..16].copy_from_slice(&NAT);
    Ipv4::new_checked(&mut outer[..]).unwrap().fill_checksum();
    outer
}

fn segment(seq: u32, len: usize) -> Vec<u8> {
    let (alice, bob) = hosts(false);
    let mut tcp =
        [&[0x9c, 0x40, 0, 80], &seq.to_be_bytes()[..], &[0; 4], &[0x50, 0x10, 1, 0, 0, 0, 0, 0]].concat();
    tcp.extend((0..len).map(|i| (i * 11) as u8));
    let mut packet = ip_packet(alice, bob, protocol::TCP, 0, true, &tcp);
    let headers = Headers::parse(&packet).unwrap();
    checksum::complete_transport(&mut packet, &headers).unwrap();
    packet
}

fn is_right(packet: &[u8]) -> Option<bool> {
    checksum::verify_transport(packet, &Headers::parse(packet).unwrap())
}

#[test]
fn checksums_come_out_right() {
    let (mut out, mut inb) = behind_nat();
    for number in 0..20 {
        let packet = if number % 3 == 2 {
            alice_to_bob(false, 0, number)
        } else {
            segment(number as u32 * 77, number * 50)
        };
        let inner = open(&mut inb, &translated(seal(&mut out, &packet))).unwrap();
        assert_eq!(is_right(&inner), Some(true), "{number}");
        // Nothing but the address and the checksums over it differs.
        let mut want = translated(packet);
        let headers = Headers::parse(&want).unwrap();
        checksum::complete_transport(&mut want, &headers).unwrap();
        assert_eq!(inner, want, "{number}");
    }
    assert!(matches!(inb.nat, NatChecksum::Wrong(_)));
    // What was wrong before it was sealed is still wrong.
    let mut packet = segment(9, 100);
    packet[60] ^= 1;
    assert_eq!(is_right(&open(&mut inb, &translated(seal(&mut out, &packet))).unwrap()), Some(false));
    // A datagram without a checksum has none afterwards.
    let mut packet = alice_to_bob(false, 0, 40);
    packet[26..28].fill(0);
    assert_eq!(open(&mut inb, &translated(seal(&mut out, &packet))).unwrap()[26..28], [0, 0]);
}

#[test]
fn without_a_nat_nothing_is_touched() {
    let (mut out, mut inb) = pair(&outbound_config(Mode::Transport, SuiteId::AES_128_GCM, false));
    let packet = segment(1, 100);
    assert_eq!(open(&mut inb, &seal(&mut out, &packet)).unwrap(), packet);
    assert_eq!(inb.nat, NatChecksum::Right);
    let mut wrong = segment(2, 100);
    wrong[70] ^= 4;
    assert_eq!(open(&mut inb, &seal(&mut out, &wrong)).unwrap(), wrong);
}

/// Two packets that are wrong alike (a segment that was captured before its checksum was made, and sent again) look
/// like a NAT; those behind them, which are right, are not touched all the same.
#[test]
fn two_packets_that_are_wrong_alike_spoil_no_other() {
    let (mut out, mut inb) = pair(&outbound_config(Mode::Transport, SuiteId::AES_128_GCM, false));
    let mut wrong = segment(2, 100);
    wrong[70] ^= 4;
    for _ in 0..2 {
        assert_eq!(is_right(&open(&mut inb, &seal(&mut out, &wrong)).unwrap()), Some(true));
    }
    assert!(matches!(inb.nat, NatChecksum::Wrong(_)));
    for seq in 0..3 {
        let packet = segment(seq, 100);
        assert_eq!(open(&mut inb, &seal(&mut out, &packet)).unwrap(), packet);
    }
    // Wrong by another difference: as it was.
    wrong[71] ^= 1;
    assert_eq!(open(&mut inb, &seal(&mut out, &wrong)).unwrap(), wrong);
}

/// A first packet that was wrong by itself does not decide about those behind it.
#[test]
fn one_wrong_packet_proves_no_nat() {
    let (mut out, mut inb) = pair(&outbound_config(Mode::Transport, SuiteId::AES_128_GCM, false));
    let mut wrong = segment(2, 100);
    wrong[70] ^= 4;
    assert!(open(&mut inb, &seal(&mut out, &wrong)).is_ok());
    for seq in 0..3 {
        let packet = segment(seq, 100);
        assert_eq!(open(&mut inb, &seal(&mut out, &packet)).unwrap(), packet);
    }
    assert_eq!(inb.nat, NatChecksum::Right);
}
