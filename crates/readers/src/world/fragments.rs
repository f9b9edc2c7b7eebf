//! The small world of fragments: every sequence of fragments of a short packet, each of which may say that it is the
//! last one.

use crate::datagram::{POLICIES, Reassembly};
use crate::middlebox::{Middlebox, Packets};
use crate::overlap::Span;
use crate::packet::Scene;
use crate::prove::Tally;
use scrub::Side;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::ipv4::{Ipv4, Ipv4Repr};
use wire::ipv6::Ipv6Repr;
use wire::{ipv4, ipv6, protocol};

/// One fragment: where it lies, in units, and whether more follow.
pub type Piece = (Span, bool);

/// A part of the small world: packets of one length.
#[derive(Clone, Debug)]
pub struct World {
    /// A word for reports.
    pub name: &'static str,
    fragments: u32,
    /// The number of octets in a unit, a multiple of 8.
    unit: usize,
    v6: bool,
    pieces: Vec<Piece>,
}

impl World {
    fn new(name: &'static str, units: u16, fragments: u32, unit: usize, v6: bool) -> World {
        let spans = (0..units).flat_map(|from| (from + 1..=units).map(move |to| (from, to)));
        let pieces = spans.flat_map(|span| [(span, true), (span, false)]).collect();
        World { name, fragments, unit, v6, pieces }
    }

    /// The worlds of the issue, over both versions; `unit` octets are one unit.
    pub fn all(unit: usize) -> Vec<World> {
        vec![
            World::new("four units, IPv4", 4, 4, unit, false),
            World::new("six units, IPv4", 6, 3, unit, false),
            World::new("four units, IPv6", 4, 4, unit, true),
            World::new("six units, IPv6", 6, 3, unit, true),
        ]
    }

    /// The number of cases in the world.
    pub fn cases(&self) -> u64 {
        (1..=self.fragments).map(|count| (self.pieces.len() as u64).pow(count)).sum()
    }

    /// The fragments of a case, in the order in which they are sent.
    pub fn case(&self, number: u64) -> Vec<Piece> {
        let mut rest = number;
        let base = self.pieces.len() as u64;
        let mut case = Vec::new();
        for count in 1..=self.fragments {
            if rest < base.pow(count) {
                for _ in 0..count {
                    case.push(self.pieces[(rest % base) as usize]);
                    rest /= base;
                }
                break;
            }
            rest -= base.pow(count);
        }
        case
    }

    /// A fragment as a packet. No two have an octet in common.
    fn packet(&self, id: u16, index: usize, ((from, to), more): Piece) -> Vec<u8> {
        let payload_len = usize::from(to - from) * self.unit;
        let offset = (usize::from(from) * self.unit / 8) as u16;
        let mut packet = Vec::new();
        if self.v6 {
            let repr = Ipv6Repr {
                src: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
                dst: Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2),
                next_header: protocol::FRAGMENT,
                hop_limit: 64,
                traffic_class: 0,
                flow_label: 0,
                payload_len: 8 + payload_len,
            };
            packet.resize(ipv6::HEADER_LEN, 0);
            ipv6::emit(&mut packet, &repr).expect("it fits");
            packet.extend([protocol::ESP, 0]);
            packet.extend((offset << 3 | u16::from(more)).to_be_bytes());
            packet.extend(u32::from(id).to_be_bytes());
        } else {
            let repr = Ipv4Repr {
                src: Ipv4Addr::new(198, 51, 100, 1),
                dst: Ipv4Addr::new(192, 0, 2, 2),
                protocol: protocol::ESP,
                ttl: 64,
                tos: 0,
                id,
                df: false,
                payload_len,
            };
            packet.resize(ipv4::HEADER_LEN + payload_len, 0);
            ipv4::emit(&mut packet, &repr).expect("it fits");
            packet[6..8].copy_from_slice(&(offset | u16::from(more) << 13).to_be_bytes());
            Ipv4::new_checked(&mut packet[..]).expect("a packet of our own").fill_checksum();
            packet.truncate(ipv4::HEADER_LEN);
        }
        for unit in from..to {
            packet.extend(std::iter::repeat_n(b'0' + index as u8 * 8 + unit as u8, self.unit));
        }
        packet
    }

    /// Play a case: the packets that pass are in `view`. Returns the number of packets that were sent.
    fn play(&self, case: &[Piece], middle: &mut impl Middlebox, view: &mut Packets) -> u64 {
        view.clear();
        let mut scene = Scene { v6: self.v6, ..Scene::default() };
        middle.begin(&mut scene);
        for (index, piece) in case.iter().enumerate() {
            middle.pass(Side::Outside, &self.packet(scene.port, index, *piece), view);
        }
        case.len() as u64
    }
}

/// Whether the fragments are those of one packet, each once, in any order.
fn is_honest(case: &[Piece]) -> bool {
    let mut pieces = case.to_vec();
    pieces.sort_unstable();
    let adjacent = pieces.windows(2).all(|pair| pair[0].0.1 == pair[1].0.0);
    let ends = pieces.iter().enumerate().all(|(at, (_, more))| *more != (at + 1 == pieces.len()));
    adjacent && ends && pieces.first().is_some_and(|(span, _)| span.0 == 0)
}

/// Whether `first` does not deliver one packet where nothing is lost.
fn is_kept(view: &Packets) -> bool {
    let mut reader = Reassembly::default();
    view.iter().for_each(|(_, packet)| reader.take(&POLICIES[0], packet));
    reader.delivered.len() != 1
}

/// A reading that contradicts what all readers deliver of all packets, over all losses: its packets are not a part, in
/// order, of those that `first` delivers without loss. It is the name of that reader, what was lost, and what it read.
fn contradiction(view: &Packets) -> Option<(&'static str, u32, Vec<Vec<u8>>)> {
    let read = |policy, lost: u32| {
        let mut reader = Reassembly::default();
        for (at, (_, packet)) in view.iter().enumerate() {
            if lost >> at & 1 == 0 {
                reader.take(policy, packet);
            }
        }
        reader.delivered
    };
    let all = read(&POLICIES[0], 0);
    for policy in &POLICIES {
        for lost in 0..1_u32 << view.len().min(12) {
            let some = read(policy, lost);
            let mut rest = all.iter();
            let part = some.iter().all(|packet| rest.any(|other| other == packet));
            if !part || lost == 0 && some != all {
                return Some((policy.name, lost, some));
            }
        }
    }
    None
}

/// Play every `stride`th case from `start` on. Returns what was found, and the first contradiction in words.
pub fn run<M: Middlebox>(middle: &mut M, world: &World, start: u64, stride: u64) -> (Tally, Option<String>) {
    let (mut tally, mut said, mut view) = (Tally::default(), None, Packets::default());
    let mut number = start;
    while number < world.cases() {
        let case = world.case(number);
        tally.packets += world.play(&case, middle, &mut view);
        tally.cases += 1;
        if is_honest(&case) && is_kept(&view) {
            tally.opaque += 1;
            tally.first[2] = tally.first[2].or(Some(number));
            said.get_or_insert_with(|| {
                format!("{}, case {number}: {case:?} is kept from readers", world.name)
            });
        }
        if let Some((name, lost, read)) = contradiction(&view) {
            tally.forked += 1;
            tally.first[0] = tally.first[0].or(Some(number));
            said.get_or_insert_with(|| {
                let mut text =
                    format!("{}, case {number}: {case:?}, {} packets passed;\n", world.name, view.len());
                let packets: Vec<_> =
                    read.iter().map(|packet| String::from_utf8_lossy(packet).into_owned()).collect();
                write!(text, "`{name}` without packets {lost:#b} reads {packets:?}")
                    .expect("a String takes every write");
                text
            });
        }
        number += stride;
    }
    (tally, said)
}
