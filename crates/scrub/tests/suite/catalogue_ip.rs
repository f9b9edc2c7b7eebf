//! The cases of docs/scrub.md's catalogue that are about IP: fragments (F), IPv4 headers (H) and IPv6 (S), each
//! offline.
//!
//! Two results are not those of the list that the cases come from, on purpose: F14 is refused for its size (rule 4.12)
//! and not put together, and H04, a source route, ends the packet instead of losing the route, for the packet is not
//! for the address in its header.

use crate::packet;

use packet::{Bench, DF, MF, V4, V6, datagram4, datagram6, fragment_body, icmp, summed, v4, v6};
use scrub::{Outcome, Profile, Rule, Side};
use std::time::Duration;
use wire::ip::Headers;

/// Send pieces, of which all but the last must be held. Returns the result for the last one.
fn send(bench: &mut Bench, pieces: &[Vec<u8>]) -> packet::Out {
    let (last, others) = pieces.split_last().expect("pieces");
    for piece in others {
        bench.pass(piece).held();
    }
    bench.pass(last)
}

fn pieces4(packet: &V4, size: usize) -> Vec<Vec<u8>> {
    let len = packet.data.len();
    (0..len).step_by(size).map(|from| packet.piece(from, (from + size).min(len))).collect()
}

/// Two of the pieces contradict each other, so the set is refused, and so is a good copy of all until the time is over.
#[track_caller]
fn contradict(pieces: &[(usize, usize, u8)]) {
    let packet = datagram4(56);
    let mut bench = Bench::standard();
    let piece = |&(from, to, change): &(usize, usize, u8)| {
        let mut packet = packet.clone();
        packet.data[from..to].iter_mut().for_each(|octet| *octet ^= change);
        packet.piece(from, to)
    };
    let all: Vec<_> = pieces.iter().map(piece).collect();
    send(&mut bench, &all).dropped_by("4.10");
    for piece in pieces4(&packet, 32) {
        bench.pass(&piece).dropped_by("4.10");
    }
    bench.wait(Duration::from_secs(16));
    send(&mut bench, &pieces4(&packet, 32)).passed_with(&["4.9"]);
}

#[test]
fn f01_fragments_of_eight_octets_in_order() {
    let packet = datagram4(100);
    let out = send(&mut Bench::standard(), &pieces4(&packet, 8));
    out.passed_with(&["4.9"]);
    assert_eq!(out.bytes, packet.bytes());
}

#[test]
fn f02_reverse_order() {
    let packet = datagram4(100);
    let mut pieces = pieces4(&packet, 8);
    pieces.reverse();
    assert_eq!(send(&mut Bench::standard(), &pieces).passed_with(&["4.9"]).bytes, packet.bytes());
}

#[test]
fn f03_any_order_and_copies() {
    let packet = datagram4(100);
    let pieces = pieces4(&packet, 8);
    let mut order: Vec<_> = (0..pieces.len()).map(|at| pieces[at * 5 % pieces.len()].clone()).collect();
    order.insert(6, order[2].clone());
    assert_eq!(send(&mut Bench::standard(), &order).passed_with(&["4.9"]).bytes, packet.bytes());
}

#[test]
fn f04_other_octets_in_the_same_place() {
    contradict(&[(0, 32, 0), (0, 32, 1)]);
}

#[test]
fn f05_the_same_place_with_the_old_ones_last() {
    contradict(&[(0, 32, 1), (0, 32, 0)]);
    contradict(&[(32, 64, 1), (32, 64, 0)]);
}

#[test]
fn f06_overlap_on_the_left() {
    contradict(&[(16, 48, 0), (8, 24, 0)]);
    contradict(&[(16, 48, 0), (8, 24, 1)]);
}

#[test]
fn f07_overlap_on_the_right() {
    contradict(&[(8, 24, 0), (16, 48, 0)]);
    contradict(&[(8, 24, 0), (16, 48, 1)]);
}

#[test]
fn f08_one_inside_the_other() {
    contradict(&[(8, 48, 0), (16, 24, 1)]);
    contradict(&[(16, 24, 0), (8, 48, 1)]);
    contradict(&[(8, 48, 0), (8, 16, 0)]);
    contradict(&[(8, 48, 0), (40, 48, 0)]);
}

#[test]
fn f09_three_pieces_in_every_relation() {
    // All triples of ranges over five units: what passes was cut without overlap, and everything else ends.
    let packet = datagram4(32);
    let ranges = (0..5).flat_map(|from| (from + 1..=5).map(move |to| (from * 8, to * 8)));
    // A range that is all of it is no fragment.
    let ranges: Vec<_> = ranges.filter(|range| *range != (0, 40)).collect();
    let (mut passed, mut ended) = (0, 0);
    let overlap = |x: &(usize, usize), y: &(usize, usize)| x != y && x.0 < y.1 && y.0 < x.1;
    for a in &ranges {
        for b in &ranges {
            for c in &ranges {
                let mut bench = Bench::standard();
                let outs = [a, b, c].map(|(from, to)| bench.pass(&packet.piece(*from, *to)));
                let whole: Vec<_> = outs.iter().filter(|out| out.outcome == Outcome::Forward).collect();
                if overlap(a, b) {
                    assert!(whole.is_empty(), "{a:?} {b:?} {c:?}");
                    ended += 1;
                }
                assert!(whole.iter().all(|out| out.bytes == packet.bytes()));
                passed += whole.len();
            }
        }
    }
    assert!(passed > 50 && ended > 500, "{passed} {ended}");
}

#[test]
fn f10_the_pattern_of_shankar_and_paxson() {
    // Six fragments in units of eight: 0-2, 3-4, 5-6, 1-4, 5-6 again, 7-8, with other octets each.
    contradict(&[(0, 24, 0), (32, 48, 0), (48, 64, 1), (8, 40, 2)]);
}

#[test]
fn f11_the_pattern_of_novak() {
    contradict(&[(0, 24, 0), (32, 40, 0), (24, 48, 1)]);
}

#[test]
fn f12_teardrop() {
    // The second fragment ends inside the first.
    contradict(&[(0, 40, 0), (24, 32, 0)]);
}

#[test]
fn f13_ping_of_death() {
    let last = v4(1, &[0; 1400]).with(|p| p.flags = 8189).bytes();
    Bench::standard().pass(&last).dropped_by("4.8");
}

#[test]
fn f14_first_fragment_of_eight_octets() {
    let segment = v4(6, &[0; 40]);
    Bench::standard().pass(&segment.piece(0, 8)).dropped_by("4.12");
    let mut bench = Bench::with(|config| {
        config.set_mode(Rule::V4TinyFragment, scrub::Mode::Off).expect("it may be off");
    });
    // Put together, and then looked at as a whole: a data offset of zero.
    send(&mut bench, &pieces4(&segment, 8)).dropped_by("T.1");
}

#[test]
fn f15_second_fragment_over_the_flags() {
    let segment = v4(6, &[0x50; 64]);
    let mut bench = Bench::standard();
    bench.pass(&segment.piece(0, 40)).held();
    bench.pass(&segment.piece(8, 48)).dropped_by("4.12");
}

#[test]
fn f16_the_last_one_never_comes() {
    let mut bench = Bench::standard();
    let pieces = pieces4(&datagram4(100), 24);
    for piece in &pieces[..3] {
        bench.pass(piece).held();
    }
    assert!(bench.scrubber.poll_timeout().is_some());
    bench.wait(Duration::from_secs(16));
    assert_eq!(bench.scrubber.counters().of(Rule::V4FragmentLimit).dropped, 3);
    bench.pass(&pieces[4]).held();
}

#[test]
fn f17_other_octets_after_the_time() {
    let packet = datagram4(56);
    let mut other = packet.clone();
    other.data[40] ^= 1;
    let mut bench = Bench::standard();
    bench.pass(&packet.piece(0, 32)).held();
    bench.wait(Duration::from_secs(31));
    bench.pass(&other.piece(32, 64)).held();
    // Only one packet can come of it, and its checksum says that it is the wrong one.
    bench.pass(&packet.piece(0, 32)).dropped_by("U.1");
}

#[test]
fn f18_fragment_that_may_not_be_one() {
    let fragment = |flags| datagram4(16).with(|p| p.flags = flags).bytes();
    Bench::standard().pass(&fragment(DF | MF)).dropped_by("4.7");
    Bench::standard().pass(&fragment(DF | 3)).dropped_by("4.7");
}

#[test]
fn f19_length_that_is_no_multiple_of_eight() {
    let odd = v4(17, &[0; 13]).with(|p| p.flags = MF | 3).bytes();
    Bench::standard().pass(&odd).dropped_by("4.8");
    let empty = v4(17, &[]).with(|p| p.flags = 3).bytes();
    Bench::standard().pass(&empty).dropped_by("4.8");
}

#[test]
fn f20_flood_of_identifications_from_one_source() {
    let (packet, honest) = (datagram4(56), datagram4(56).with(|p| p.src = [192, 0, 2, 99]).summed());
    let mut bench = Bench::standard();
    bench.pass(&honest.piece(0, 32)).held();
    for id in 0..2000 {
        bench.pass(&packet.clone().with(|p| p.id = id).piece(0, 32)).held();
    }
    // The flood lost its own.
    bench.pass(&honest.piece(32, 64)).passed_with(&["4.9"]);
    bench.wait(Duration::from_secs(16));
    assert_eq!(bench.scrubber.counters().of(Rule::V4FragmentLimit).dropped, 2000);
}

#[test]
fn f21_fragments_with_different_headers() {
    let packet = datagram4(56);
    let mut bench = Bench::standard();
    bench
        .pass(&packet.clone().with(|p| (p.ttl, p.options) = (9, vec![1, 1, 1, 0])).piece(0, 32))
        .passed_or_held();
    // Another protocol is another packet.
    bench.pass(&packet.clone().with(|p| p.protocol = 132).piece(32, 64)).held();
    let out = bench.pass(&packet.clone().with(|p| p.ttl = 200).piece(32, 64));
    out.passed_with(&["4.9"]);
    assert_eq!(Headers::parse(&out.bytes).expect("a packet").ttl, 9);
    assert_eq!(out.bytes[20..], packet.data[..]);
}

impl packet::Out {
    #[track_caller]
    fn passed_or_held(&self) {
        assert!(matches!(self.outcome, Outcome::Hold | Outcome::Forward), "{self:?}");
    }
}

#[test]
fn f22_fragments_of_two_links() {
    let packet = datagram4(56);
    let mut bench = Bench::standard();
    bench.pass(&packet.piece(0, 32)).held();
    bench.link = 7;
    bench.pass(&packet.piece(32, 64)).held();
    bench.link = 0;
    bench.pass_from(Side::Inside, &packet.piece(32, 64)).held();
    bench.pass(&packet.piece(32, 64)).passed_with(&["4.9"]);
}

#[test]
fn h01_bad_header_checksum() {
    let mut bytes = datagram4(16).bytes();
    bytes[10] ^= 1;
    Bench::standard().pass(&bytes).dropped_by("4.15");
}

#[test]
fn h02_low_time_to_live() {
    let mut bench = Bench::standard();
    bench.pass(&datagram4(16).bytes()).passed_with(&[]);
    let out = bench.pass(&datagram4(16).with(|p| p.ttl = 2).bytes());
    assert_eq!(out.passed_with(&["4.14"]).bytes, datagram4(16).bytes());
}

#[test]
fn h03_bad_options() {
    for options in [[148, 0, 0, 0], [7, 40, 4, 0], [1, 1, 1, 148]] {
        let out = Bench::standard().pass(&datagram4(16).with(|p| p.options = options.to_vec()).bytes());
        assert_eq!(out.passed_with(&["4.16"]).bytes, datagram4(16).bytes());
    }
}

#[test]
fn h04_source_routes() {
    for kind in [131, 137] {
        let options = vec![kind, 7, 4, 10, 0, 0, 9, 0];
        Bench::standard().pass(&datagram4(16).with(|p| p.options = options).bytes()).dropped_by("4.16");
    }
}

#[test]
fn h05_total_length_longer_than_the_packet() {
    let bytes = datagram4(16).bytes();
    Bench::standard().pass(&bytes[..bytes.len() - 1]).dropped_by("4.2");
}

#[test]
fn h06_octets_behind_the_packet() {
    let bytes = datagram4(16).bytes();
    let out = Bench::standard().pass(&[bytes.clone(), vec![1, 2, 3]].concat());
    assert_eq!(out.passed_with(&["4.2"]).bytes, bytes);
}

#[test]
fn h07_reserved_flag() {
    let out = Bench::standard().pass(&datagram4(16).with(|p| p.flags = 0x8000).bytes());
    assert_eq!(out.passed_with(&["4.5"]).bytes, datagram4(16).bytes());
}

#[test]
fn h08_header_lengths() {
    for first in [0x40, 0x44] {
        let mut bytes = datagram4(16).bytes();
        bytes[0] = first;
        Bench::standard().pass(&bytes).dropped_by("4.1");
    }
    let mut bytes = v4(17, &[0; 12]).bytes();
    bytes[0] = 0x4f;
    Bench::standard().pass(&bytes).dropped_by("4.1");
}

#[test]
fn h09_wrong_version() {
    for first in [0x05, 0x55, 0xf5] {
        let mut bytes = datagram4(16).bytes();
        bytes[0] = first;
        Bench::standard().pass(&bytes).dropped_by("4.1");
    }
    Bench::standard().pass(&[]).dropped_by("4.1");
}

#[test]
fn h10_packet_that_dies_on_the_next_link() {
    let mut bench = Bench::with(|config| config.mtu = [1500, 1000]);
    bench.pass(&datagram4(1200).with(|p| p.flags = DF).bytes()).dropped_by("4.6");
    let own = bench.own();
    let (to, why, error) = own.first().expect("an answer");
    assert_eq!((own.len(), *to, *why), (1, Side::Outside, "4.6"));
    assert_eq!((error[20], error[21], &error[26..28]), (3, 4, [3, 232].as_slice()));
}

#[test]
fn h11_type_of_service() {
    let toggled = datagram4(16).with(|p| p.tos = 0xba).bytes();
    let out = Bench::profile(Profile::Strict).pass(&toggled);
    assert!(out.acted.contains(&"4.3"));
    assert_eq!(out.bytes[1], 2);
    Bench::standard().pass(&toggled).passed_with(&[]);
}

#[test]
fn h12_impossible_addresses() {
    for src in [[127, 0, 0, 1], [0, 0, 0, 0], [224, 0, 0, 1], [240, 0, 0, 1], [255, 255, 255, 255]] {
        Bench::standard().pass(&datagram4(16).with(|p| p.src = src).bytes()).dropped_by("4.13");
    }
    for dst in [[127, 0, 0, 1], [0, 0, 0, 1], [240, 0, 0, 1], [255, 255, 255, 255]] {
        Bench::standard().pass(&datagram4(16).with(|p| p.dst = dst).bytes()).dropped_by("4.13");
    }
}

#[test]
fn h13_unknown_protocol() {
    Bench::standard().pass(&v4(253, b"covert").bytes()).dropped_by("4.17");
    Bench::profile(Profile::Minimal).pass(&v4(253, b"covert").bytes()).passed_with(&[]);
}

#[test]
fn s01_malformed_fragments() {
    let packet = datagram6(56);
    let overlap = [packet.piece(9, 0, 32), packet.piece(9, 24, 64)];
    let mut bench = Bench::standard();
    send(&mut bench, &overlap).dropped_by("6.8");
    bench.pass(&packet.piece(9, 32, 64)).dropped_by("6.8");
    // Not a multiple of eight; behind the longest packet; empty; cut in the header.
    let with = |body: &[u8], data: &[u8]| v6(17, data).header(44, body).bytes();
    Bench::standard().pass(&with(&fragment_body(8, true, 9), &[0; 13])).dropped_by("6.9");
    Bench::standard().pass(&with(&fragment_body(65528, false, 9), &[0; 16])).dropped_by("6.9");
    Bench::standard().pass(&with(&fragment_body(8, false, 9), &[])).dropped_by("6.9");
    let mut short = with(&fragment_body(8, false, 9), &[]);
    short.truncate(44);
    short[5] = 4;
    Bench::standard().pass(&short).dropped_by("6.4");
}

#[test]
fn s02_atomic_fragment() {
    let packet = datagram6(56);
    let out = Bench::standard().pass(&packet.clone().header(44, &fragment_body(0, false, 9)).bytes());
    assert_eq!(out.passed_with(&["6.6"]).bytes, packet.bytes());
}

#[test]
fn s03_atomic_fragments_asked_for() {
    let mut bench = Bench::standard();
    let question = datagram6(1390).back().bytes();
    bench.reply(&question).passed_with(&[]);
    let error = summed(v6(58, &icmp(2, 0, 1000, &question)).bytes());
    bench.pass(&error).dropped_by("I.3");
}

#[test]
fn s04_two_fragment_headers() {
    let body = fragment_body(0, false, 9);
    let bytes = datagram6(16).header(44, &body).header(44, &body).bytes();
    Bench::standard().pass(&bytes).dropped_by("6.5");
}

#[test]
fn s05_routing_header_of_type_0() {
    for left in [0, 1] {
        let body = [[0, left, 0, 0, 0, 0].as_slice(), &packet::IN6].concat();
        Bench::standard().pass(&datagram6(16).header(43, &body).bytes()).dropped_by("6.3");
    }
}

#[test]
fn s06_hop_by_hop_options_not_first() {
    let bytes = datagram6(16).header(60, &[1, 4, 0, 0, 0, 0]).header(0, &[1, 4, 0, 0, 0, 0]).bytes();
    Bench::standard().pass(&bytes).dropped_by("6.4");
}

#[test]
fn s07_long_chain() {
    let bytes = datagram6(16).header(60, &[0; 270]).bytes();
    Bench::standard().pass(&bytes).dropped_by("6.4");
    let mut many = datagram6(16);
    for _ in 0..9 {
        many = many.header(60, &[1, 4, 0, 0, 0, 0]);
    }
    Bench::standard().pass(&many.bytes()).dropped_by("6.4");
}

#[test]
fn s08_covert_destination_options() {
    let packet = datagram6(16);
    let out = Bench::standard().pass(&packet.clone().header(60, &[0x1e, 4, 1, 2, 3, 4]).bytes());
    assert_eq!(out.passed_with(&["6.10"]).bytes, packet.bytes());
}

#[test]
fn s09_transport_header_in_the_second_fragment() {
    let packet = datagram6(56).with(|p| p.protocol = 6);
    Bench::standard().pass(&packet.piece(9, 0, 16)).dropped_by("6.7");
}

#[test]
fn s10_next_headers_differ() {
    let packet = datagram6(56);
    let mut bench = Bench::standard();
    bench.pass(&packet.piece(9, 0, 32)).held();
    bench.pass(&packet.clone().with(|p| p.protocol = 6).piece(9, 32, 64)).dropped_by("6.9");
    bench.pass(&packet.piece(9, 32, 64)).dropped_by("6.8");
}

#[test]
fn s11_data_behind_no_next_header() {
    let bytes = v6(59, b"covert").bytes();
    Bench::standard().pass(&bytes).dropped_by("4.17");
    let out = Bench::profile(Profile::Minimal).pass(&bytes);
    assert_eq!(out.passed_with(&["6.11"]).bytes, v6(59, b"").bytes());
}

#[test]
fn s12_mixed_up_headers() {
    let mut longer = datagram6(16).bytes();
    longer[5] += 1;
    Bench::standard().pass(&longer).dropped_by("6.1");
    let packet = datagram6(16);
    let behind = Bench::standard().pass(&[packet.bytes(), vec![7; 5]].concat());
    assert_eq!(behind.passed_with(&["6.1"]).bytes, packet.bytes());
    Bench::standard().pass(&packet.clone().with(|p| p.protocol = 253).bytes()).dropped_by("4.17");
    let mut bench = Bench::standard();
    bench.pass(&packet.bytes()).passed_with(&[]);
    let low = bench.pass(&packet.clone().with(|p| p.hops = 1).bytes());
    assert_eq!(low.passed_with(&["6.2"]).bytes, packet.bytes());
}

#[test]
fn s13_multicast_source() {
    let echo = |edit: fn(&mut V6)| summed(v6(58, &icmp(128, 0, 1, b"smurf")).with(edit).bytes());
    Bench::standard().pass(&echo(|p| p.src = [0xff; 16])).dropped_by("6.13");
    Bench::standard().pass(&echo(|p| p.dst[0] = 0xff)).dropped_by("I.1");
}

#[test]
fn s14_jumbo_payload() {
    let mut bytes = v6(17, &[0; 40]).header(0, &[0xc2, 4, 0, 1, 0, 0]).bytes();
    Bench::standard().pass(&bytes).dropped_by("6.1");
    bytes[4..6].fill(0);
    Bench::standard().pass(&bytes).dropped_by("6.1");
}

#[test]
fn s15_padding_with_content() {
    let packet = datagram6(16);
    for header in [0, 60] {
        let out = Bench::standard().pass(&packet.clone().header(header, &[1, 4, 9, 9, 9, 9]).bytes());
        assert_eq!(out.passed_with(&["6.10"]).bytes, packet.bytes());
    }
}
