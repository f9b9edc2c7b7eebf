//! The rule of paper 003 in its plainest form. The proof is tried on it, and a scrubber may be compared with it.
//!
//! Every octet is recorded before it is forwarded. A later copy is rewritten to the first one. Data that the inside
//! acknowledged are forgotten and never let through again. Everything else that two readers could read in two ways is
//! dropped.

use crate::middlebox::{Middlebox, Packets};
use crate::packet::{Draft, SERVICE, Scene, Segment};
use scrub::Side;
use wire::ip::Headers;
use wire::tcp::{Flags, Tcp};

const STORE: i32 = 64;

/// A scrubber for one connection of at most 64 octets.
#[derive(Debug, Default)]
pub struct Reference {
    scene: Scene,
    isn: Option<u32>,
    /// The next sequence number of the inside host.
    sent: Option<u32>,
    scales: [Option<u8>; 2],
    open: bool,
    over: bool,
    /// Three places in the stream: the end of what the inside has acknowledged, the end of its window, and the FIN.
    una: i32,
    edge: i32,
    fin: Option<i32>,
    recent: Option<u32>,
    store: Vec<Option<u8>>,
    out: Vec<u8>,
}

impl Reference {
    fn place(&self, seq: u32) -> i32 {
        seq.wrapping_sub(self.isn.unwrap_or(0)).wrapping_sub(1) as i32
    }

    /// The place before which all octets are recorded.
    fn contiguous(&self) -> i32 {
        self.store.iter().take_while(|octet| octet.is_some()).count() as i32
    }

    fn inside(&mut self, segment: &Segment<'_>) {
        let syn = segment.has(Flags::SYN);
        if syn {
            self.sent = Some(segment.seq.wrapping_add(1));
            self.scales[1] = segment.scale;
        }
        let acked = self.place(segment.ack);
        if segment.has(Flags::ACK) && acked <= self.contiguous() + 1 {
            self.una = self.una.max(acked);
            let shift = match self.scales {
                [Some(_), Some(inside)] if !syn => inside,
                _ => 0,
            };
            self.edge = self.edge.max(acked + (i32::from(segment.window) << shift));
        }
    }

    /// The segment that goes on for a segment from outside.
    fn outside<'a>(&mut self, segment: &Segment<'a>, store: &'a mut Vec<u8>) -> Option<Draft<'a>> {
        if !segment.sound || segment.md5 || self.over {
            return None;
        }
        let mut draft = Draft {
            sender: Side::Outside,
            seq: segment.seq,
            ack: segment.ack,
            flags: segment.flags.without(Flags::URG),
            window: segment.window,
            urgent: 0,
            ttl: 64,
            timestamps: segment.timestamp.map(|value| (value, 0)),
            scale: segment.scale,
            md5: false,
            signed: false,
            spoilt: false,
            payload: &[],
        };
        if segment.has(Flags::SYN) {
            let first = self.isn.is_none_or(|isn| isn == segment.seq && !self.open);
            if !first || segment.flags.intersects(Flags::ACK | Flags::RST | Flags::FIN) {
                return None;
            }
            self.isn = Some(segment.seq);
            self.scales[0] = segment.scale;
            self.recent = segment.timestamp;
            return Some(draft);
        }
        let sent = self.sent?;
        let old = |recent| segment.timestamp.is_some_and(|now| (now.wrapping_sub(recent) as i32) < 0);
        if !segment.has(Flags::ACK) || segment.ack != sent || self.recent.is_some_and(old) {
            return None;
        }
        self.open = true;
        let start = self.place(segment.seq);
        let contiguous = self.contiguous();
        if segment.has(Flags::RST) {
            self.over = start == contiguous && self.una == contiguous;
            return self.over.then_some(draft);
        }
        let end = start + segment.payload.len() as i32;
        let (from, to) = (start.max(self.una), end.min(self.edge).min(self.fin.unwrap_or(STORE)).min(STORE));
        if start > self.edge {
            return None;
        }
        draft.scale = None;
        if from < to {
            for at in from..to {
                let octet = self.store[at as usize].get_or_insert(segment.payload[(at - start) as usize]);
                store.push(*octet);
            }
            draft.seq = segment.seq.wrapping_add((from - start) as u32);
        }
        if segment.has(Flags::FIN) {
            let known = self.store.iter().rposition(Option::is_some).map_or(0, |last| last as i32 + 1);
            if end == self.contiguous() && end == known && self.fin.is_none_or(|fin| fin == end) {
                self.fin = Some(end);
            } else {
                draft.flags = draft.flags.without(Flags::FIN);
            }
        }
        draft.payload = store;
        Some(draft)
    }
}

impl Middlebox for Reference {
    fn begin(&mut self, scene: &mut Scene) {
        *self = Reference { scene: *scene, store: vec![None; STORE as usize], ..Reference::default() };
    }

    fn pass(&mut self, from: Side, packet: &[u8], inside: &mut Packets) {
        let (Some(segment), Ok(headers)) = (Segment::parse(packet), Headers::parse(packet)) else { return };
        let sender = Tcp::new_checked(headers.upper(packet)).map(|view| view.src_port());
        match from {
            Side::Inside => self.inside(&segment),
            // It claims to come from inside.
            Side::Outside if sender == Ok(SERVICE) => {}
            Side::Outside => {
                let mut store = Vec::new();
                if let Some(draft) = self.outside(&segment, &mut store) {
                    let (scene, mut out) = (self.scene, std::mem::take(&mut self.out));
                    draft.write(&scene, &mut out);
                    inside.push(from, &out);
                    self.out = out;
                }
            }
        }
    }
}
