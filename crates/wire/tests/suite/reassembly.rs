//! Reassembly: right orders, wrong pieces, limits.

use crate::common;

use common::{V4, fragment_of, ip, ip_with, raw_fragment, tcp, udp};
use proptest::prelude::*;
use std::time::Duration;
use wire::ip::Headers;
use wire::reassembly::Limits;
use wire::{DropReason, Pool, Reassembled, Reassembler, Time, WireError, checksum, protocol};

fn pool() -> Pool {
    Pool::new(2048, 100, 4)
}

fn push_at(
    r: &mut Reassembler,
    now: Time,
    context: u32,
    bytes: &[u8],
) -> Result<Option<Vec<u8>>, DropReason> {
    let headers = Headers::parse(bytes).unwrap();
    match r.push(now, context, bytes, &headers, &mut pool()) {
        Reassembled::Incomplete => Ok(None),
        Reassembled::Complete(buf) => {
            assert_eq!(buf.headroom(), 100);
            assert!(buf.tailroom() >= 64);
            Ok(Some(buf.as_slice().to_vec()))
        }
        Reassembled::Rejected(reason) => Err(reason),
    }
}

fn push(r: &mut Reassembler, bytes: &[u8]) -> Result<Option<Vec<u8>>, DropReason> {
    push_at(r, Time(0), 0, bytes)
}

/// A whole UDP packet (without DF, identification `id`) and its payload.
fn whole(v6: bool, id: u32, len: usize) -> (Vec<u8>, Vec<u8>) {
    let payload = udp(&(0..len).map(|i| (i % 251) as u8).collect::<Vec<_>>());
    (ip_with(v6, protocol::UDP, &payload, |repr| repr.id = id as u16), payload)
}

#[test]
fn two_pieces_in_either_order() {
    for v6 in [false, true] {
        let (packet, payload) = whole(v6, 7, 3000);
        let first = fragment_of(v6, 7, protocol::UDP, &payload, 0, 1480);
        let last = fragment_of(v6, 7, protocol::UDP, &payload, 1480, payload.len());
        for order in [[&first, &last], [&last, &first]] {
            let mut r = Reassembler::default();
            assert_eq!(push(&mut r, order[0]), Ok(None));
            assert_eq!((r.len(), r.memory() > 0), (1, true));
            assert_eq!(push(&mut r, order[1]), Ok(Some(packet.clone())));
            assert_eq!((r.len(), r.memory(), r.take_lost().total()), (0, 0, 0));
        }
    }
}

#[test]
fn what_does_not_belong_together_does_not_mix() {
    let (_, payload) = whole(false, 7, 100);
    let first = fragment_of(false, 7, protocol::UDP, &payload, 0, 48);
    let last = fragment_of(false, 7, protocol::UDP, &payload, 48, payload.len());
    let mut r = Reassembler::default();
    assert_eq!(push(&mut r, &first), Ok(None));
    // Another context, identification, protocol (IPv4), address.
    assert_eq!(push_at(&mut r, Time(0), 1, &last), Ok(None));
    assert_eq!(push(&mut r, &fragment_of(false, 8, protocol::UDP, &payload, 48, payload.len())), Ok(None));
    assert_eq!(push(&mut r, &fragment_of(false, 7, protocol::TCP, &payload, 48, payload.len())), Ok(None));
    let mut elsewhere = last.clone();
    elsewhere[19] ^= 1;
    assert_eq!(push(&mut r, &elsewhere), Ok(None));
    assert_eq!(r.len(), 5);
    assert!(push(&mut r, &last).unwrap().is_some());
    // In IPv6 only the first fragment's next header counts (RFC 8200 section 4.5).
    let (packet, payload) = whole(true, 7, 100);
    assert_eq!(push(&mut r, &fragment_of(true, 7, protocol::TCP, &payload, 48, payload.len())), Ok(None));
    assert_eq!(push(&mut r, &fragment_of(true, 7, protocol::UDP, &payload, 0, 48)), Ok(Some(packet)));
}

#[test]
fn an_overlap_ends_the_whole_set() {
    for v6 in [false, true] {
        let (packet, payload) = whole(v6, 7, 100);
        let piece = |from, to| fragment_of(v6, 7, protocol::UDP, &payload, from, to);
        // What overlaps with 24..48: its head, its tail, all of it, a part inside, the same with other octets.
        let mut other = piece(24, 48);
        *other.last_mut().unwrap() ^= 1;
        for wrong in [piece(16, 32), piece(40, 56), piece(16, 56), piece(32, 40), piece(24, 40), other] {
            let mut r = Reassembler::default();
            assert_eq!(push(&mut r, &piece(24, 48)), Ok(None));
            assert_eq!(push(&mut r, &wrong), Err(DropReason::FragmentOverlap));
            assert_eq!(r.take_lost().total(), 1);
            // "Including those not yet received" (RFC 5722 section 4).
            for later in [piece(0, 24), piece(24, 48), piece(48, 108)] {
                assert_eq!(push(&mut r, &later), Err(DropReason::Fragment));
            }
            // When its time is over, the identification may be used again.
            let later = Time::from_secs(61);
            assert_eq!(push_at(&mut r, later, 0, &piece(0, 48)), Ok(None));
            assert_eq!(push_at(&mut r, later, 0, &piece(48, 108)), Ok(Some(packet.clone())));
        }
    }
}

#[test]
fn an_exact_copy_is_ignored() {
    let (packet, payload) = whole(true, 7, 100);
    let first = fragment_of(true, 7, protocol::UDP, &payload, 0, 48);
    let last = fragment_of(true, 7, protocol::UDP, &payload, 96, payload.len());
    let mut r = Reassembler::default();
    for piece in [&first, &first, &last, &last] {
        assert_eq!(push(&mut r, piece), Ok(None));
    }
    assert_eq!(push(&mut r, &fragment_of(true, 7, protocol::UDP, &payload, 48, 96)), Ok(Some(packet)));
}

#[test]
fn ends_must_agree() {
    let data = [1; 64];
    let piece = |offset, len, more| raw_fragment(false, 7, protocol::UDP, &data[..len], offset, more, 0);
    let cases = [
        // Two different ends; data behind the end; the end before data that are there; "more" up to the end.
        [piece(64, 8, false), piece(96, 8, false)],
        [piece(64, 8, false), piece(72, 8, true)],
        [piece(96, 8, true), piece(64, 8, false)],
        [piece(64, 8, false), piece(64, 8, true)],
        [piece(64, 8, true), piece(64, 8, false)],
    ];
    for (index, [first, second]) in cases.iter().enumerate() {
        let mut r = Reassembler::default();
        assert_eq!(push(&mut r, first), Ok(None));
        // The last case is a copy in all but the flag: the packet cannot end where more follows.
        assert_eq!(push(&mut r, second), Err(DropReason::FragmentEnd), "case {index}");
    }
}

#[test]
fn pieces_wrong_in_themselves_are_rejected_and_leave_no_trace() {
    let mut r = Reassembler::default();
    for v6 in [false, true] {
        let overhead = if v6 { 0 } else { 20 };
        let room = (65535 - overhead) / 8 * 8;
        let bad = [
            (raw_fragment(v6, 7, 17, &[0; 12], 0, true, 0), DropReason::FragmentAlignment),
            (raw_fragment(v6, 7, 17, &[], 0, true, 0), DropReason::FragmentEmpty),
            (raw_fragment(v6, 7, 17, &[], 8, false, 0), DropReason::FragmentEmpty),
            (raw_fragment(v6, 7, 17, &[0; 8], room, false, 0), DropReason::FragmentTooLong),
            (raw_fragment(v6, 7, 17, &[0; 16], room - 8, true, 0), DropReason::FragmentTooLong),
        ];
        for (index, (piece, want)) in bad.iter().enumerate() {
            assert_eq!(push(&mut r, piece), Err(*want), "v6 {v6}, case {index}");
        }
    }
    assert!(r.is_empty());
    // Not a fragment at all.
    assert_eq!(push(&mut r, &ip(false, 17, &udp(&[]))), Err(DropReason::Fragment));
}

#[test]
fn a_first_fragment_in_ipv6_holds_the_whole_chain() {
    // RFC 7112: the upper layer's header must be in it.
    let segment = tcp(1, 2, 0, &[1; 12], &[0; 100]);
    let mut r = Reassembler::default();
    for len in [8, 16, 24] {
        let tiny = fragment_of(true, 1, protocol::TCP, &segment, 0, len);
        assert_eq!(push(&mut r, &tiny), Err(DropReason::FragmentHeader), "{len} octets");
    }
    assert_eq!(push(&mut r, &fragment_of(true, 1, protocol::TCP, &segment, 0, 32)), Ok(None));
    // A chain that runs over the end is refused before.
    let mut extension = vec![protocol::UDP, 1];
    extension.resize(16, 0);
    extension.extend(udp(&[0; 100]));
    let cut = fragment_of(true, 2, protocol::DESTINATION, &extension, 0, 8);
    assert_eq!(Headers::parse(&cut), Err(WireError::Truncated));
}

#[test]
fn the_unfragmentable_part_is_kept() {
    // Hop-by-hop (PadN) | fragment | destination options (PadN) | UDP.
    let hop = [protocol::FRAGMENT, 0, 1, 4, 0, 0, 0, 0];
    let mut fragmentable = vec![protocol::UDP, 0, 1, 4, 0, 0, 0, 0];
    fragmentable.extend(udp(&[9; 200]));
    let piece = |from: usize, to: usize| {
        let more = u16::from(to < fragmentable.len());
        let mut upper = hop.to_vec();
        upper.extend([protocol::DESTINATION, 0]);
        upper.extend((from as u16 | more).to_be_bytes());
        upper.extend(77_u32.to_be_bytes());
        upper.extend(&fragmentable[from..to]);
        ip(true, protocol::HOP_BY_HOP, &upper)
    };
    let first = piece(0, 104);
    let headers = Headers::parse(&first).unwrap();
    assert_eq!((headers.protocol, headers.header_len), (protocol::UDP, 40 + 8 + 8 + 8));
    assert_eq!(headers.fragment.unwrap().unfragmentable_len, 48);
    let second = piece(104, fragmentable.len());
    assert_eq!(Headers::parse(&second).unwrap().protocol, protocol::DESTINATION);

    let mut r = Reassembler::default();
    assert_eq!(push(&mut r, &second), Ok(None));
    let packet = push(&mut r, &first).unwrap().unwrap();
    let mut expected_upper = hop.to_vec();
    expected_upper[0] = protocol::DESTINATION;
    expected_upper.extend(&fragmentable);
    assert_eq!(packet, ip(true, protocol::HOP_BY_HOP, &expected_upper));
    let headers = Headers::parse(&packet).unwrap();
    assert_eq!((headers.protocol, headers.fragment, headers.has_options), (protocol::UDP, None, true));
}

#[test]
fn ipv4_options_come_from_the_first_fragment() {
    let options = [0x94, 4, 0, 0]; // Router alert.
    let payload = udp(&[5; 92]);
    let with_options = |offset: u16, more: bool, data: &[u8], options: &[u8]| {
        let mut bytes = ip(false, protocol::UDP, data);
        bytes.splice(20..20, options.iter().copied());
        bytes[0] = 0x45 + (options.len() / 4) as u8;
        let len = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        bytes[6..8].copy_from_slice(&((offset / 8) | if more { 0x6000 } else { 0x4000 }).to_be_bytes());
        wire::ipv4::Ipv4::new_checked(&mut bytes[..]).unwrap().fill_checksum();
        bytes
    };
    let mut r = Reassembler::default();
    assert_eq!(push(&mut r, &with_options(48, false, &payload[48..], &[])), Ok(None));
    let packet = push(&mut r, &with_options(0, true, &payload[..48], &options)).unwrap().unwrap();
    let headers = Headers::parse(&packet).unwrap();
    assert_eq!((headers.header_len, headers.total_len), (24, 24 + 100));
    // The fragments forbade to be cut; the packet does not.
    assert!(!headers.dont_fragment && headers.fragment.is_none() && wire::ip::checksum_ok(&packet, &headers));
    assert_eq!(packet[20..24], options);
    assert_eq!(headers.upper(&packet), payload);
}

#[test]
fn an_atomic_fragment_stands_alone() {
    // RFC 6946: also when others of the same identification are under way.
    let (packet, payload) = whole(true, 7, 100);
    let mut r = Reassembler::default();
    assert_eq!(push(&mut r, &fragment_of(true, 7, protocol::UDP, &payload, 0, 48)), Ok(None));
    let atomic = raw_fragment(true, 7, protocol::UDP, &payload, 0, false, 3);
    let mut marked = packet.clone();
    wire::ipv6::Ipv6::new_checked(&mut marked[..]).unwrap().set_traffic_class(3);
    assert_eq!(push(&mut r, &atomic), Ok(Some(marked)));
    assert_eq!(r.len(), 1);
    assert_eq!(push(&mut r, &fragment_of(true, 7, protocol::UDP, &payload, 48, 108)), Ok(Some(packet)));
    // An empty one is a packet without anything.
    assert_eq!(
        push(&mut r, &raw_fragment(true, 9, protocol::NO_NEXT, &[], 0, false, 0)),
        Ok(Some(ip(true, protocol::NO_NEXT, &[])))
    );
}

#[test]
fn congestion_is_not_forgotten() {
    // (ECN of both pieces, ECN of the packet), RFC 3168 section 5.3.
    let cases = [
        (0, 0, Some(0)),
        (1, 1, Some(1)),
        (2, 3, Some(3)),
        (3, 1, Some(3)),
        (3, 3, Some(3)),
        (0, 3, None),
        (3, 0, None),
        (2, 1, Some(2)),
    ];
    for v6 in [false, true] {
        for (first, second, expected) in cases {
            let mut r = Reassembler::default();
            let data = udp(&[0; 8]);
            assert_eq!(push(&mut r, &raw_fragment(v6, 1, 17, &data[..8], 0, true, 0xb8 | first)), Ok(None));
            let result = push(&mut r, &raw_fragment(v6, 1, 17, &data[8..], 8, false, 0xb8 | second));
            match expected {
                Some(ecn) => {
                    let packet = result.unwrap().unwrap();
                    let headers = Headers::parse(&packet).unwrap();
                    assert_eq!(headers.tos, 0xb8 | ecn, "{first} {second}");
                    assert!(wire::ip::checksum_ok(&packet, &headers));
                }
                None => {
                    assert_eq!(result, Err(DropReason::FragmentEcn), "{first} {second}");
                    assert_eq!(r.take_lost().total(), 1);
                }
            }
            assert!(r.is_empty());
        }
    }
}

#[test]
fn time_runs_out() {
    let (_, payload) = whole(false, 7, 100);
    let first = fragment_of(false, 7, protocol::UDP, &payload, 0, 48);
    let last = fragment_of(false, 7, protocol::UDP, &payload, 48, payload.len());
    let mut r = Reassembler::default();
    assert_eq!(r.deadline(), None);
    assert_eq!(push_at(&mut r, Time::from_secs(100), 0, &first), Ok(None));
    assert_eq!(r.deadline(), Some(Time::from_secs(160)));
    r.expire(Time(160_000_000_000 - 1));
    assert_eq!((r.len(), r.take_lost().total()), (1, 0));
    assert_eq!(push_at(&mut r, Time::from_secs(160), 0, &last), Ok(None));
    assert_eq!((r.len(), r.take_lost().total(), r.take_lost().total()), (1, 1, 0));
    r.expire(Time::from_secs(220));
    assert_eq!((r.is_empty(), r.memory(), r.take_lost().total()), (true, 0, 1));
}

#[test]
fn the_oldest_makes_room() {
    let limits = Limits { datagrams: 3, memory: 1 << 20, timeout: Duration::from_secs(15) };
    let mut r = Reassembler::new(limits);
    let (packet, payload) = whole(false, 2, 100);
    for id in 1..=4 {
        assert_eq!(push(&mut r, &fragment_of(false, id, 17, &payload, 0, 48)), Ok(None));
    }
    assert_eq!((r.len(), r.take_lost().total()), (3, 1));
    assert_eq!(push(&mut r, &fragment_of(false, 2, 17, &payload, 48, payload.len())), Ok(Some(packet)));
    // The first is gone: its end completes nothing.
    assert_eq!(push(&mut r, &fragment_of(false, 1, 17, &payload, 48, payload.len())), Ok(None));

    let mut none = Reassembler::new(Limits { datagrams: 0, ..limits });
    assert_eq!(push(&mut none, &fragment_of(false, 1, 17, &payload, 0, 48)), Err(DropReason::FragmentLimit));
}

#[test]
fn who_floods_loses_its_own() {
    let from = |host: u8, id: u16, offset: usize, more: bool| {
        let mut bytes = raw_fragment(false, u32::from(id), 253, &[7; 64], offset, more, 0);
        bytes[15] = host;
        bytes
    };
    let limits = Limits { datagrams: 16, memory: 64 << 10, timeout: Duration::from_secs(15) };
    let mut r = Reassembler::sharing(limits, 4);
    assert_eq!(push(&mut r, &from(1, 0, 0, true)), Ok(None));
    for id in 0..100 {
        assert_eq!(push(&mut r, &from(2, id, 0, true)), Ok(None));
    }
    assert_eq!((r.len(), r.take_lost().limit), (5, 96));
    // The same for octets: one far away takes room for all in front of it.
    for id in 0..4 {
        assert_eq!(push(&mut r, &from(2, 200 + id, 8000, true)), Ok(None));
        assert!(r.memory() <= limits.memory / 4 + 256);
    }
    assert!(push(&mut r, &from(1, 0, 64, false)).is_ok_and(|whole| whole.is_some()));
    // Where nobody shares, the oldest goes.
    let mut r = Reassembler::new(limits);
    assert_eq!(push(&mut r, &from(1, 0, 0, true)), Ok(None));
    for id in 0..16 {
        assert_eq!(push(&mut r, &from(2, id, 0, true)), Ok(None));
    }
    assert_eq!(push(&mut r, &from(1, 0, 64, false)), Ok(None));
}

#[test]
fn fragments_agree_on_what_they_start_with_where_sources_share() {
    let (_, payload) = whole(true, 7, 3000);
    let first = fragment_of(true, 7, protocol::UDP, &payload, 0, 1480);
    let last = fragment_of(true, 7, protocol::TCP, &payload, 1480, payload.len());
    let mut r = Reassembler::sharing(Limits::default(), 4);
    assert_eq!(push(&mut r, &first), Ok(None));
    assert_eq!(push(&mut r, &last), Err(DropReason::FragmentHeader));
    assert_eq!(push(&mut r, &first), Err(DropReason::Fragment));
}

#[test]
fn memory_is_bounded() {
    let limits = Limits { datagrams: 64, memory: 200_000, timeout: Duration::from_secs(15) };
    let mut r = Reassembler::new(limits);
    // The dearest fragments: a few octets at the far end.
    for id in 0..1000 {
        assert_eq!(push(&mut r, &raw_fragment(false, id, 17, &[0; 8], 65_000, true, 0)), Ok(None));
        assert!(r.memory() <= limits.memory, "{} octets", r.memory());
    }
    assert_eq!((r.len(), r.take_lost().total()), (3, 997));
    // One packet that alone is too much ends itself.
    let mut small = Reassembler::new(Limits { memory: 1000, ..limits });
    assert_eq!(push(&mut small, &raw_fragment(false, 1, 17, &[0; 8], 0, true, 0)), Ok(None));
    let far = raw_fragment(false, 1, 17, &[0; 8], 4096, true, 0);
    assert_eq!(push(&mut small, &far), Err(DropReason::FragmentLimit));
    assert_eq!((small.is_empty(), small.take_lost().total()), (true, 1));
    // Neither do crumbs pile up.
    let mut crumbs = Reassembler::default();
    let results: Vec<_> = (0..1500)
        .map(|i| push(&mut crumbs, &raw_fragment(false, 1, 17, &[0; 8], 16 * (i + 1), true, 0)))
        .collect();
    assert_eq!(results.iter().position(Result::is_err), Some(1366));
    assert_eq!(results[1366], Err(DropReason::FragmentLimit));
    assert_eq!(results[1367], Err(DropReason::Fragment));
    assert!(crumbs.memory() < 1000);
}

#[test]
fn the_longest_packet_there_is() {
    for v6 in [false, true] {
        let (packet, payload) = whole(v6, 1, if v6 { 65527 } else { 65507 });
        assert_eq!(packet.len(), if v6 { 65575 } else { 65535 });
        let mut r = Reassembler::default();
        let mut done = None;
        for from in (0..payload.len()).step_by(1448) {
            let to = (from + 1448).min(payload.len());
            done = push(&mut r, &fragment_of(v6, 1, protocol::UDP, &payload, from, to)).unwrap();
        }
        assert_eq!(done, Some(packet));
    }
}

/// Cuts of `len` octets at multiples of eight, and an order to push them in.
fn cuts(max: usize) -> impl Strategy<Value = (Vec<u8>, Vec<(usize, usize)>)> {
    (prop::collection::vec(any::<u8>(), 40..max), prop::collection::btree_set(3_usize..max / 8, 0..12))
        .prop_map(|(payload, at)| {
            let mut edges = vec![0];
            edges.extend(at.into_iter().map(|a| a * 8).filter(|a| *a < payload.len()));
            edges.push(payload.len());
            let pieces = edges.windows(2).map(|w| (w[0], w[1])).collect();
            (payload, pieces)
        })
        .prop_flat_map(|(payload, pieces): (_, Vec<_>)| (Just(payload), Just(pieces).prop_shuffle()))
}

proptest! {
    #[test]
    fn any_order_gives_the_original(v6: bool, id: u16, (payload, order) in cuts(4000), copies in any::<u8>()) {
        prop_assume!(order.len() > 1);
        let id = u32::from(id);
        let original = ip_with(v6, protocol::DCCP, &payload, |repr| repr.id = id as u16);
        let mut r = Reassembler::default();
        let (last, rest) = order.split_last().unwrap();
        for (index, (from, to)) in rest.iter().enumerate() {
            let piece = fragment_of(v6, id, protocol::DCCP, &payload, *from, *to);
            for _ in 0..=(copies >> (index % 8) & 1) {
                prop_assert_eq!(push(&mut r, &piece), Ok(None));
            }
        }
        let done = push(&mut r, &fragment_of(v6, id, protocol::DCCP, &payload, last.0, last.1));
        prop_assert_eq!(done, Ok(Some(original)));
        prop_assert!(r.is_empty());
        prop_assert_eq!(r.take_lost().total(), 0);
    }

    #[test]
    fn several_at_once_do_not_disturb_each_other(
        sets in prop::collection::vec((any::<bool>(), cuts(600)), 1..10), order in any::<prop::sample::Index>(),
    ) {
        let mut pushes = Vec::new();
        for (id, (v6, (payload, pieces))) in sets.iter().enumerate().filter(|(_, s)| s.1.1.len() > 1) {
            for (from, to) in pieces {
                pushes.push((id, fragment_of(*v6, id as u32, protocol::DCCP, payload, *from, *to)));
            }
        }
        let turn = order.index(pushes.len().max(1));
        pushes.rotate_left(turn);
        let mut r = Reassembler::default();
        let mut done = 0;
        for (id, piece) in &pushes {
            if let Some(packet) = push(&mut r, piece).unwrap() {
                let (v6, (payload, _)) = &sets[*id];
                prop_assert_eq!(packet, ip_with(*v6, protocol::DCCP, payload, |repr| repr.id = *id as u16));
                done += 1;
            }
        }
        prop_assert_eq!(done, sets.iter().filter(|s| s.1.1.len() > 1).count());
    }

    #[test]
    fn hostile_pieces_stay_within_limits(
        pieces in prop::collection::vec((any::<bool>(), 0_u32..6, 0_usize..8191, 0_usize..2000, any::<bool>(), 0_u8..4, 0_u64..3), 0..80),
        memory in 500_usize..300_000,
    ) {
        let limits = Limits { datagrams: 4, memory, timeout: Duration::from_secs(15) };
        let mut r = Reassembler::new(limits);
        let (mut held, mut lost, mut now) = (0_u64, 0, Time(0));
        for (v6, id, offset, len, more, tos, wait) in pieces {
            now = now + Duration::from_secs(wait);
            let piece = raw_fragment(v6, id, 17, &vec![id as u8; len], offset * 8, more, tos);
            let Ok(headers) = Headers::parse(&piece) else { continue };
            if headers.fragment.is_none() {
                continue;
            }
            match r.push(now, 0, &piece, &headers, &mut pool()) {
                Reassembled::Incomplete => held += 1,
                Reassembled::Complete(buf) => {
                    let own = Headers::parse(buf.as_slice()).unwrap();
                    prop_assert_eq!((own.total_len, own.fragment), (buf.len(), None));
                }
                Reassembled::Rejected(reason) => {
                    prop_assert!(reason.name().starts_with("fragment") && reason != DropReason::FragmentHeld);
                }
            }
            lost += r.take_lost().total();
            prop_assert!(lost <= held);
            prop_assert!(r.len() <= 4 && r.memory() <= memory);
        }
        r.expire(Time(u64::MAX));
        prop_assert!(r.is_empty());
    }
}

#[test]
fn a_reassembled_datagram_has_a_right_checksum() {
    // The transport checksum covers the whole packet; it is verified across the seam.
    let mut packet = ip(false, protocol::UDP, &udp(&[0x5a; 2000]));
    let headers = Headers::parse(&packet).unwrap();
    checksum::complete_transport(&mut packet, &headers).unwrap();
    let payload = headers.upper(&packet).to_vec();
    let mut r = Reassembler::default();
    push(&mut r, &fragment_of(false, 3, 17, &payload, 1000, payload.len())).unwrap();
    let done = push(&mut r, &fragment_of(false, 3, 17, &payload, 0, 1000)).unwrap().unwrap();
    let headers = Headers::parse(&done).unwrap();
    assert_eq!(headers.src, std::net::IpAddr::V4(V4.0));
    assert_eq!(checksum::verify_transport(&done, &headers), Some(true));
}
