//! Coalesced packets: what joins, what does not, and that cutting a coalesced packet gives its packets back.

use crate::common;

use common::{V4, V6, ip_with, tcp, udp};
use proptest::prelude::*;
use wire::coalesce::{Checks, OPEN, try_append};
use wire::coalesced::{MAX_HEADER, MAX_PACKETS};
use wire::ip::Headers;
use wire::segment::segments;
use wire::{Buf, Coalesced, Coalescer, GsoKind, checksum, ipv4, protocol};

const ACK: u16 = 0x010;
const PSH: u16 = 0x008;
const FIN: u16 = 0x001;
/// Two no-operations and timestamps.
const STAMPS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 9];

fn finish(mut packet: Vec<u8>) -> Vec<u8> {
    let headers = Headers::parse(&packet).unwrap();
    checksum::complete_transport(&mut packet, &headers).unwrap();
    packet
}

/// A whole packet, DF set, id `id`.
fn whole(v6: bool, id: u16, protocol: u8, upper: &[u8]) -> Vec<u8> {
    finish(ip_with(v6, protocol, upper, |repr| (repr.id, repr.df) = (id, true)))
}

fn segment(v6: bool, id: u16, seq: u32, flags: u16, payload: &[u8]) -> Vec<u8> {
    whole(v6, id, protocol::TCP, &tcp(seq, flags, 0, &STAMPS, payload))
}

fn datagram(v6: bool, payload: &[u8]) -> Vec<u8> {
    whole(v6, 0, protocol::UDP, &udp(payload))
}

fn joins(first: &[u8], second: &[u8]) -> bool {
    try_append(&mut Coalesced::begin(first, 1), second, 1)
}

/// Cut the coalesced packet's super-packet again.
fn expand(coalesced: &Coalesced<'_>) -> Vec<Vec<u8>> {
    let mut whole = Buf::with_capacity(70_000, 0);
    let gso = coalesced.copy_into(&mut whole).unwrap();
    assert_eq!(whole.len(), coalesced.len());
    let headers = Headers::parse(whole.as_slice()).unwrap();
    assert!(wire::ip::checksum_ok(whole.as_slice(), &headers));
    let mut pieces = segments(whole.as_slice(), &headers, &gso, 65_535).unwrap();
    let mut out = Vec::new();
    while let Some(len) = pieces.next_len() {
        let mut slot = vec![0xaa; len + 3];
        assert_eq!(pieces.next_slice(&mut slot), Some(Ok(len)));
        assert_eq!(slot[len..], [0xaa; 3], "nothing is written behind the segment");
        slot.truncate(len);
        out.push(slot);
    }
    out
}

#[test]
fn a_run_of_segments_is_one_train() {
    for v6 in [false, true] {
        let packets: Vec<_> =
            (0..5).map(|i| segment(v6, i, 1000 + 100 * u32::from(i), ACK, &[i as u8; 100])).collect();
        let last = segment(v6, 5, 1500, ACK | PSH | FIN, &[9; 40]);
        let mut coalesced = Coalesced::begin(&packets[0], 7);
        assert!(!coalesced.is_closed() && coalesced.header(&mut [0; MAX_HEADER]).is_none());
        assert!(packets[1..].iter().chain([&last]).all(|packet| try_append(&mut coalesced, packet, 7)));
        assert!(coalesced.is_closed(), "PSH, FIN and a shorter payload end it");
        assert_eq!(expand(&coalesced), [&packets[..], std::slice::from_ref(&last)].concat());
        assert_eq!(coalesced.packets().len(), 6);
        assert_eq!(coalesced.payloads().map(<[u8]>::len).sum::<usize>(), 540);
        let (len, gso) = coalesced.header(&mut [0; MAX_HEADER]).unwrap();
        assert_eq!((len, gso.kind, gso.size), (if v6 { 72 } else { 52 }, GsoKind::Tcp, 100));
        assert_eq!(usize::from(gso.checksum_start), len - 32);
    }
}

#[test]
fn datagrams_of_one_size_are_one_train() {
    for v6 in [false, true] {
        let packets = [datagram(v6, &[1; 300]), datagram(v6, &[2; 300]), datagram(v6, &[3; 299])];
        let mut coalesced = Coalesced::begin(&packets[0], 7);
        assert!(try_append(&mut coalesced, &packets[1], 7) && !coalesced.is_closed());
        assert!(try_append(&mut coalesced, &packets[2], 7) && coalesced.is_closed());
        let got = expand(&coalesced);
        // Cut again, IPv4 identifications count on from the first: with DF they mean nothing (RFC 6864).
        let upper = |p: &Vec<u8>| p[if v6 { 40 } else { 20 }..].to_vec();
        assert_eq!(got.iter().map(upper).collect::<Vec<_>>(), packets.iter().map(upper).collect::<Vec<_>>());
        assert!(!joins(&packets[2], &packets[1]), "a longer one does not follow a shorter one");
    }
}

/// Every octet of the headers, changed by itself: only those that a coalesced packet gives back may differ.
#[test]
fn any_other_difference_in_a_header_keeps_apart() {
    for v6 in [false, true] {
        let (ip_len, first) = if v6 {
            (40, segment(v6, 1, 1000, ACK, &[1; 64]))
        } else {
            (20, segment(v6, 1, 1000, ACK, &[1; 64]))
        };
        let second = segment(v6, 2, 1064, ACK, &[2; 64]);
        assert!(joins(&first, &second));
        for at in 0..ip_len + 32 {
            for bit in 0..8 {
                let mut wrong = second.clone();
                wrong[at] ^= 1 << bit;
                if !v6 && at < 20 && !matches!(at, 10 | 11) {
                    // The header's own sum is not what is tested.
                    wrong[10..12].fill(0);
                    let sum = checksum::ip_checksum(&wrong[..20]);
                    wrong[10..12].copy_from_slice(&sum.to_be_bytes());
                }
                let (identification, sum) =
                    (!v6 && matches!(at, 4 | 5), matches!(at - ip_len.min(at), 16 | 17) && at >= ip_len);
                // FIN, PSH.
                let end = at == ip_len + 13 && matches!(bit, 0 | 3);
                assert_eq!(
                    joins(&first, &wrong),
                    identification || sum || end,
                    "v6 {v6}, octet {at}, bit {bit}"
                );
            }
        }
    }
}

#[test]
fn what_goes_alone() {
    let first = segment(false, 1, 1000, ACK, &[1; 64]);
    let good = segment(false, 2, 1064, ACK, &[2; 64]);
    for flags in [0x002, 0x004, 0x020, 0x080] {
        let with = segment(false, 1, 1000, ACK | flags, &[1; 64]);
        let next = segment(false, 2, 1064, ACK | flags, &[2; 64]);
        assert!(!joins(&with, &next), "flags {flags:x} in both");
    }
    assert!(!joins(&segment(false, 1, 1000, 0, &[1; 64]), &segment(false, 2, 1064, 0, &[1; 64])), "no ACK");
    for end in [PSH, FIN] {
        assert!(!joins(&segment(false, 1, 1000, ACK | end, &[1; 64]), &good), "PSH or FIN ended it");
    }
    assert!(!joins(&first, &segment(false, 2, 1065, ACK, &[2; 64])), "a hole");
    assert!(!joins(&first, &segment(false, 2, 1063, ACK, &[2; 64])), "an overlap");
    assert!(!joins(&first, &first), "a duplicate");
    assert!(!joins(&first, &segment(false, 2, 1064, ACK, &[2; 65])), "longer");
    assert!(!joins(&first, &segment(false, 2, 1064, ACK, &[])), "an acknowledgement alone");
    assert!(!joins(&segment(false, 2, 1000, ACK, &[]), &first), "an acknowledgement first");
    assert!(!try_append(&mut Coalesced::begin(&first, 1), &good, 2), "another mark");
    let with = |edit: fn(&mut ipv4::Ipv4Repr), seq| {
        finish(ip_with(false, protocol::TCP, &tcp(seq, ACK, 0, &STAMPS, &[1; 64]), |repr| {
            (repr.id, repr.df) = (1, true);
            edit(repr);
        }))
    };
    assert!(!joins(&with(|r| r.df = false, 1000), &with(|r| r.df = false, 1064)), "no DF");
    assert!(
        !joins(&with(|r| r.tos = 2, 1000), &with(|r| r.tos = 3, 1064)),
        "congestion experienced, and not"
    );
    assert!(joins(&with(|r| r.tos = 3, 1000), &with(|r| r.tos = 3, 1064)));
    // Lengths that lie, a wrong header sum, an extension header, a datagram without checksum.
    let mut tail = good.clone();
    tail.push(0);
    assert!(!joins(&first, &tail) && !joins(&first, &good[..good.len() - 1]) && !joins(&first, &[]));
    let mut sum = good.clone();
    sum[10] ^= 1;
    assert!(!joins(&first, &sum));
    let options = |p: u32| {
        let upper = [&[6, 0, 1, 4, 0, 0, 0, 0][..], &tcp(p, ACK, 0, &[], &[1; 64])].concat();
        common::ip(true, 60, &upper)
    };
    assert!(!joins(&options(1000), &options(1064)));
    let bare = |payload: &[u8]| ip_with(false, protocol::UDP, &udp(payload), |repr| repr.df = true);
    assert!(!joins(&bare(&[1; 64]), &bare(&[2; 64])));
    // Cut short at every length: no panic, no coalesced packet.
    for len in 0..good.len() {
        assert!(!joins(&first, &good[..len]) && !joins(&good[..len], &first));
    }
}

#[test]
fn a_train_has_an_end() {
    let packets: Vec<_> = (0..70_u32).map(|i| segment(false, i as u16, i * 10, ACK, &[1; 10])).collect();
    let mut coalesced = Coalesced::begin(&packets[0], 0);
    let taken = packets[1..].iter().take_while(|packet| try_append(&mut coalesced, packet, 0)).count();
    assert_eq!((taken + 1, coalesced.is_closed()), (MAX_PACKETS, true));
    let packets: Vec<_> = (0..70_u32).map(|i| segment(false, i as u16, i * 1348, ACK, &[1; 1348])).collect();
    let mut coalesced = Coalesced::begin(&packets[0], 0);
    let taken = packets[1..].iter().take_while(|packet| try_append(&mut coalesced, packet, 0)).count();
    assert_eq!((taken + 1, coalesced.is_closed()), ((65_535 - 52) / 1348, true));
    assert!(coalesced.len() <= 65_535);
    assert_eq!(expand(&coalesced), packets[..taken + 1]);
}

fn run(checks: Checks, packets: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
    let mut out: Vec<Vec<Vec<u8>>> = Vec::new();
    let mut deliver = |coalesced: &Coalesced<'_>| {
        out.push(coalesced.packets().iter().map(|packet| packet.to_vec()).collect())
    };
    let mut coalescer = Coalescer::new(checks);
    for packet in packets {
        coalescer.push(packet, 3, &mut deliver);
    }
    coalescer.flush(&mut deliver);
    coalescer.flush(&mut deliver);
    out
}

#[test]
fn flows_may_alternate_and_a_stranger_waits_for_nobody() {
    let (a, b) =
        (|i: u32| segment(false, 0, i * 50, ACK, &[1; 50]), |i: u32| segment(true, 0, i * 60, ACK, &[2; 60]));
    let coalesced = run(Checks::Trust, &[a(0), b(0), a(1), b(1), a(2)]);
    assert_eq!(coalesced, [vec![a(0), a(1), a(2)], vec![b(0), b(1)]]);
    // An acknowledgement of flow a comes behind what was before it, and before what follows.
    let ack = segment(false, 0, 100, ACK, &[]);
    let coalesced = run(Checks::Trust, &[a(0), a(1), ack.clone(), a(2), a(3)]);
    assert_eq!(coalesced, [vec![a(0), a(1)], vec![ack], vec![a(2), a(3)]]);
    // What cannot be told apart goes behind everything.
    let other = finish(ip_with(false, protocol::ICMP, &[8, 0, 0, 0, 0, 1, 0, 1], |_| {}));
    let coalesced = run(Checks::Trust, &[a(0), b(0), other.clone(), a(1)]);
    assert_eq!(coalesced, [vec![a(0)], vec![b(0)], vec![other], vec![a(1)]]);
}

#[test]
fn more_flows_than_places() {
    let flow = |port: u16, seq: u32| {
        let mut packet = segment(false, 0, seq, ACK, &[1; 50]);
        packet[20..22].copy_from_slice(&port.to_be_bytes());
        packet
    };
    let count = OPEN as u16 + 5;
    let packets: Vec<_> =
        (0..3).flat_map(|i| (0..count).map(move |port| (port, i * 50))).map(|(p, s)| flow(p, s)).collect();
    let out: Vec<_> = run(Checks::Trust, &packets).into_iter().flatten().collect();
    assert_eq!(out.len(), packets.len());
    for port in 0..count {
        let of = |list: &[Vec<u8>]| {
            list.iter().filter(|p| p[20..22] == port.to_be_bytes()).cloned().collect::<Vec<_>>()
        };
        assert_eq!(of(&out), of(&packets), "port {port}: all of them, in order");
    }
}

#[test]
fn a_wrong_checksum_goes_alone_if_it_is_looked_at() {
    let mut packets: Vec<_> = (0..3).map(|i| segment(false, 0, i * 50, ACK, &[1; 50])).collect();
    packets[1][60] ^= 1;
    let sizes = |checks| run(checks, &packets).iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(sizes(Checks::Trust), [3]);
    assert_eq!(sizes(Checks::Verify), [1, 1, 1]);
}

#[derive(Clone, Debug)]
struct Step {
    flow: u8,
    len: usize,
    flags: u16,
    jump: bool,
    tos: u8,
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![5 => Just(200usize), 2 => 0..200usize, 1 => 200..400usize];
    let flags = prop_oneof![8 => Just(ACK), 1 => Just(ACK | PSH), 1 => Just(ACK | FIN), 1 => Just(ACK | 0x80), 1 => Just(0x12)];
    (0..4u8, len, flags, prop::bool::weighted(0.05), prop_oneof![9 => Just(2u8), 1 => Just(3u8)])
        .prop_map(|(flow, len, flags, jump, tos)| Step { flow, len, flags, jump, tos })
}

proptest! {
    /// Whatever comes in, every packet goes out once, and each flow stays in order. Cutting each coalesced packet gives back its
    /// packets octet for octet.
    #[test]
    fn cutting_a_train_gives_back_its_packets(steps in proptest::collection::vec(step(), 0..120)) {
        let (mut seqs, mut ids) = ([100u32, u32::MAX - 500, 7, 7], [0u16, 65_530, 9, 9]);
        let mut packets = Vec::new();
        for (n, s) in steps.iter().enumerate() {
            let f = usize::from(s.flow);
            let payload: Vec<u8> = (0..s.len).map(|i| (i * 7 + n) as u8).collect();
            let v6 = s.flow == 1;
            if s.jump {
                seqs[f] = seqs[f].wrapping_add(1);
            }
            let mut upper = if s.flow == 3 { udp(&payload) } else { tcp(seqs[f], s.flags, 0, &STAMPS, &payload) };
            upper[0] = s.flow;
            let mut packet = ip_with(v6, if s.flow == 3 { 17 } else { 6 }, &upper, |repr| {
                (repr.id, repr.df, repr.tos) = (ids[f], true, s.tos);
            });
            if v6 {
                packet[1] = s.tos << 4 | packet[1] & 15;
            }
            packets.push(finish(packet));
            seqs[f] = seqs[f].wrapping_add(s.len as u32);
            ids[f] = ids[f].wrapping_add(1);
        }
        let mut out: Vec<Vec<u8>> = Vec::new();
        let mut deliver = |coalesced: &Coalesced<'_>| {
            let pieces = expand(coalesced);
            if coalesced.packets().len() > 1 {
                // Identifications count on only if nothing of the flow went between; they mean nothing.
                for (piece, packet) in pieces.iter().zip(coalesced.packets()) {
                    let mut piece = piece.clone();
                    if piece[0] >> 4 == 4 {
                        piece[4..6].copy_from_slice(&packet[4..6]);
                        piece[10..12].copy_from_slice(&packet[10..12]);
                    }
                    assert_eq!(&piece[..], *packet);
                }
            } else {
                assert_eq!(&pieces[..], coalesced.packets());
            }
            assert_eq!(pieces.len(), coalesced.packets().len());
            out.extend(coalesced.packets().iter().map(|packet| packet.to_vec()));
        };
        let mut coalescer = Coalescer::new(Checks::Verify);
        for packet in &packets {
            coalescer.push(packet, 0, &mut deliver);
        }
        coalescer.flush(&mut deliver);
        prop_assert_eq!(out.len(), packets.len());
        let port = |p: &[u8]| p[if p[0] >> 4 == 4 { 20 } else { 40 }];
        for flow in 0..4 {
            let of = |list: &[Vec<u8>]| list.iter().filter(|p| port(p) == flow).cloned().collect::<Vec<_>>();
            prop_assert_eq!(of(&out), of(&packets));
        }
    }

    #[test]
    fn any_octets_are_survived(a in proptest::collection::vec(any::<u8>(), 0..120), b in proptest::collection::vec(any::<u8>(), 0..120)) {
        let mut coalesced = Coalesced::begin(&a, 0);
        try_append(&mut coalesced, &b, 0);
        let _ = coalesced.header(&mut [0; MAX_HEADER]);
        let _ = (V4, V6);
    }
}
