//! Readers that some packets cannot tell apart. One of them is asked for all.
//!
//! A reader looks at a knob only when a packet shows it what the knob is about: without an URG flag it does not matter
//! where urgent octets go. Where all copies of each octet agree, it does not matter whose copy wins, nor when the
//! stream is examined. Each knob is set to one value if nothing in the packets can turn on it; readers that are then
//! equal are asked once (docs/design/0023).

use crate::overlap::Overlap;
use crate::packet::Segment;
use crate::stack::{Fin, Reset, Stack, Syn, Urgent};
use scrub::Side;
use std::collections::HashMap;
use wire::tcp::Flags;

/// The things that packets show, which turn knobs on.
#[derive(Clone, Copy, Debug, Default)]
struct PacketTraits {
    unsound: bool,
    md5: bool,
    reset: bool,
    fin: bool,
    /// Whether there is a SYN beside the first one, or one with data.
    syn: bool,
    urgent: bool,
    no_ack: bool,
    odd_ack: bool,
    old: bool,
    low_ttl: bool,
    /// Whether something lies outside of the first window.
    beyond: bool,
    /// Whether two copies of one octet differ.
    contradiction: bool,
}

/// The greatest time to live that some reader does not see.
const FAR: u8 = 3;

impl PacketTraits {
    fn by(segments: &[(Side, Segment<'_>)]) -> PacketTraits {
        let mut shown = PacketTraits::default();
        let (mut isn, mut stamp, mut sent, mut edge) = (None, None, None, None);
        let mut octets = HashMap::new();
        for (side, segment) in segments {
            if *side == Side::Inside {
                let after = segment.seq.wrapping_add(segment.payload.len() as u32);
                let after = after.wrapping_add(u32::from(segment.has(Flags::SYN)));
                shown.odd_ack |= sent.is_some_and(|sent| sent != after);
                sent = sent.or(Some(after));
                edge = edge.or(Some(segment.ack.wrapping_add(u32::from(segment.window))));
                continue;
            }
            let first = *isn.get_or_insert(segment.seq);
            shown.unsound |= !segment.sound;
            shown.md5 |= segment.md5;
            shown.reset |= segment.has(Flags::RST);
            shown.fin |= segment.has(Flags::FIN);
            shown.urgent |= segment.has(Flags::URG);
            shown.low_ttl |= segment.ttl <= FAR;
            shown.old |= segment.timestamp != stamp && stamp.is_some() && segment.timestamp < stamp;
            stamp = segment.timestamp.or(stamp);
            if segment.has(Flags::SYN) {
                shown.syn |= segment.seq != first
                    || sent.is_some()
                    || !segment.payload.is_empty()
                    || segment.has(Flags::ACK);
                continue;
            }
            shown.no_ack |= !segment.has(Flags::ACK);
            shown.odd_ack |= sent.is_some_and(|sent| sent != segment.ack);
            let end = segment.seq.wrapping_add(segment.payload.len() as u32);
            let before = (segment.seq.wrapping_sub(first) as i32) < 1;
            shown.beyond |= before || edge.is_none_or(|edge| (end.wrapping_sub(edge) as i32) > 0);
            for (at, octet) in segment.payload.iter().enumerate() {
                let place = segment.seq.wrapping_add(at as u32);
                shown.contradiction |= *octets.entry(place).or_insert(*octet) != *octet;
            }
        }
        shown.contradiction |= shown.syn;
        shown
    }

    /// The reader with every knob that nothing turns on at its first value.
    fn plainest(&self, stack: &Stack) -> Stack {
        let mut plain = *stack;
        plain.name = "";
        let pick = |shown: bool, mine: bool| if shown { mine } else { true };
        plain.checksum = pick(self.unsound, plain.checksum);
        plain.md5 = pick(self.md5, plain.md5);
        plain.needs_ack = pick(self.no_ack, plain.needs_ack);
        plain.checks_ack = pick(self.odd_ack, plain.checks_ack);
        plain.paws = pick(self.old, plain.paws);
        plain.window = pick(self.beyond || self.reset || self.fin, plain.window);
        plain.last_syn = pick(self.syn, plain.last_syn);
        plain.syn_data = pick(self.syn, plain.syn_data);
        if !self.reset {
            plain.reset = Reset::Exact;
        }
        if !self.syn {
            plain.syn = Syn::Challenge;
        }
        if !self.urgent {
            plain.urgent = Urgent::InBand;
        }
        if !self.fin {
            plain.fin = Fin::Queued;
        }
        if !self.low_ttl {
            plain.hops = 0;
        }
        if !self.contradiction && !self.urgent {
            (plain.overlap, plain.late) = (Overlap::FIRST, false);
        }
        plain
    }
}

/// The readers that the packets tell apart; each of `stacks` reads what one of them reads.
pub fn told_apart(stacks: &[Stack], segments: &[(Side, Segment<'_>)]) -> Vec<Stack> {
    let shown = PacketTraits::by(segments);
    let mut apart: Vec<Stack> = Vec::new();
    for stack in stacks {
        let plain = shown.plainest(stack);
        if !apart.contains(&plain) {
            apart.push(plain);
        }
    }
    apart
}
