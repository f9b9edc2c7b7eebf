//! The judgement: the streams that all readers deliver of the same packets, for every subset that is lost on the way to
//! each.

use crate::alike;
use crate::middlebox::Packets;
use crate::packet::Segment;
use crate::stack::{Fin, NAMED, Reset, Stack};
use crate::stream::Stream;
use scrub::Side;
use std::collections::HashMap;

/// The number of octets of a stream in the small world, with room behind.
pub const CAP: usize = 8;

/// A reader in the small world.
pub type SmallReader = Stream<CAP, 6>;

/// The largest number of verdicts that one judge remembers.
const MOST_KNOWN: usize = 1 << 22;

/// A stream of the small world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text {
    octets: [u8; CAP],
    len: u8,
}

impl Text {
    /// The stream that a reader delivers.
    pub fn of(reader: &SmallReader) -> Text {
        let mut text = Text::default();
        for octet in reader.delivered() {
            text.octets[usize::from(text.len)] = octet;
            text.len += 1;
        }
        text
    }

    /// The octets of the stream.
    pub fn octets(&self) -> &[u8] {
        &self.octets[..usize::from(self.len)]
    }

    fn starts(&self, other: &Text) -> bool {
        other.octets().starts_with(self.octets())
    }
}

/// One reader with the packets that were lost on the way to it, and what it delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The index of the reader among the judge's stacks.
    pub stack: usize,
    /// The packets that were lost: bit `n` for the `n`th packet from outside.
    pub lost: u32,
    /// The stream that it delivers.
    pub text: Text,
}

/// The verdict on one case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Whether there are two readings neither of which is a prefix of the other.
    pub forked: bool,
    /// Whether two readers that lose nothing deliver different streams, or do not agree that the stream is over.
    pub unequal: bool,
    /// Whether a reader that loses nothing, and ends at any RST or FIN, ends before the others.
    pub hasty: bool,
}

/// All readers, and the verdicts of before.
#[derive(Debug)]
pub struct Judge {
    stacks: Vec<Stack>,
    known: HashMap<u128, Verdict>,
    states: Vec<SmallReader>,
    distinct: usize,
}

impl Judge {
    /// A judge with these readers.
    pub fn new(stacks: Vec<Stack>) -> Judge {
        Judge { stacks, known: HashMap::new(), states: Vec::new(), distinct: 0 }
    }

    /// The readers of the judge.
    pub fn stacks(&self) -> &[Stack] {
        &self.stacks
    }

    /// The number of different sequences of packets that were judged.
    pub fn distinct(&self) -> usize {
        self.distinct
    }

    /// Judge the packets that passed.
    pub fn judge(&mut self, isn: u32, packets: &Packets) -> Verdict {
        let segments = segments(packets);
        let key = key(isn, &segments);
        if let Some(verdict) = self.known.get(&key) {
            return *verdict;
        }
        let [unequal, hasty] = self.ends(&segments);
        let verdict = Verdict { forked: self.is_forked(&segments), unequal, hasty };
        if self.known.len() == MOST_KNOWN {
            self.known.clear();
        }
        self.known.insert(key, verdict);
        self.distinct += 1;
        verdict
    }

    fn is_forked(&mut self, segments: &[(Side, Segment<'_>)]) -> bool {
        let mut longest = Text::default();
        for stack in &alike::told_apart(&self.stacks, segments) {
            explore(stack, segments, &mut self.states);
            for state in &self.states {
                let text = Text::of(state);
                if longest.starts(&text) {
                    longest = text;
                } else if !text.starts(&longest) {
                    return true;
                }
            }
        }
        false
    }

    /// Whether readers that lose nothing end differently. The first answer is for those that wait for what stands
    /// before a FIN and look at the number of a RST, the second for all of them.
    fn ends(&self, segments: &[(Side, Segment<'_>)]) -> [bool; 2] {
        let (mut orderly, mut all) = (Vec::new(), Vec::new());
        for stack in alike::told_apart(&self.stacks, segments) {
            let end = read(&stack, segments, 0);
            let end = (Text::of(&end), end.is_over());
            if stack.fin == Fin::Queued && stack.reset != Reset::Any {
                orderly.push(end);
            }
            all.push(end);
        }
        [orderly, all].map(|ends| ends.iter().any(|end| Some(end) != ends.first()))
    }

    /// All streams that a host may deliver, over all losses; sorted, each once.
    pub fn streams(&mut self, packets: &Packets) -> Vec<Text> {
        explore(&NAMED[0], &segments(packets), &mut self.states);
        let mut texts: Vec<Text> = self.states.iter().map(Text::of).collect();
        texts.sort_unstable();
        texts.dedup();
        texts
    }

    /// The stream that a host delivers where nothing is lost.
    pub fn whole(&self, packets: &Packets) -> Text {
        Text::of(&read(&NAMED[0], &segments(packets), 0))
    }

    /// The stream that each reader delivers where nothing is lost, and whether it is over then.
    pub fn wholes(&self, packets: &Packets) -> Vec<(Text, bool)> {
        let segments = segments(packets);
        let ends = self.stacks.iter().map(|stack| read(stack, &segments, 0));
        ends.map(|end| (Text::of(&end), end.is_over())).collect()
    }

    /// Two readings that contradict each other, with as little lost as possible.
    pub fn fork(&self, packets: &Packets) -> Option<[Reading; 2]> {
        let segments = segments(packets);
        let count = segments.iter().filter(|(side, _)| *side == Side::Outside).count();
        let mut losses: Vec<u32> = (0..1 << count.min(16)).collect();
        losses.sort_by_key(|lost| lost.count_ones());
        let mut kept: Vec<Reading> = Vec::new();
        for lost in losses {
            for (stack, knobs) in self.stacks.iter().enumerate() {
                let text = Text::of(&read(knobs, &segments, lost));
                let reading = Reading { stack, lost, text };
                if let Some(other) = kept.iter().find(|k| !k.text.starts(&text) && !text.starts(&k.text)) {
                    return Some([*other, reading]);
                }
                if kept.iter().all(|other| other.text != text) {
                    kept.push(reading);
                }
            }
        }
        None
    }
}

fn segments(packets: &Packets) -> Vec<(Side, Segment<'_>)> {
    packets.iter().filter_map(|(side, packet)| Some((side, Segment::parse(packet)?))).collect()
}

/// The reader in the state after these packets without those in `lost`.
fn read(stack: &Stack, segments: &[(Side, Segment<'_>)], lost: u32) -> SmallReader {
    let mut reader = SmallReader::default();
    let mut count = 0;
    for (side, segment) in segments {
        match side {
            Side::Inside => reader.inside(segment),
            Side::Outside => {
                if lost >> count & 1 == 0 {
                    reader.outside(stack, segment);
                }
                count += 1;
            }
        }
    }
    reader
}

/// Every state that a reader may end in, over all losses.
fn explore(stack: &Stack, segments: &[(Side, Segment<'_>)], states: &mut Vec<SmallReader>) {
    states.clear();
    states.push(SmallReader::default());
    for (side, segment) in segments {
        for at in 0..states.len() {
            match side {
                Side::Inside => states[at].inside(segment),
                Side::Outside => {
                    let mut took = states[at];
                    took.outside(stack, segment);
                    if !states.contains(&took) {
                        states.push(took);
                    }
                }
            }
        }
    }
}

/// The key of packets; packets that no reader can tell apart have the same one (FNV-1a over words, 128 bits). A segment
/// of the inside counts only as far as it moves its window inside of the small world, or its next number.
fn key(isn: u32, segments: &[(Side, Segment<'_>)]) -> u128 {
    let mut key = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    let mut mix = |word: u64| {
        key = (key ^ u128::from(word)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        // The prime has few bits: let the high half reach the low one.
        key ^= key >> 67;
    };
    let mut said = None;
    for (side, segment) in segments {
        let marks = u64::from(segment.sound) << 1 | u64::from(segment.md5);
        let scale = segment.scale.map_or(0xff, u64::from);
        match side {
            Side::Outside => {
                mix(u64::from(segment.seq) << 32 | u64::from(segment.ack));
                mix(u64::from(segment.flags.0) << 48
                    | u64::from(segment.urgent) << 32
                    | u64::from(segment.ttl) << 24
                    | marks << 16
                    | scale << 8
                    | segment.payload.len() as u64);
                mix(segment.timestamp.map_or(0, |stamp| 1 << 32 | u64::from(stamp)));
                for chunk in segment.payload.chunks(8) {
                    mix(chunk.iter().fold(0, |word, octet| word << 8 | u64::from(*octet)));
                }
            }
            Side::Inside => {
                let place = segment.ack.wrapping_add(u32::from(segment.window)).wrapping_sub(isn) as i32;
                let beyond = place > CAP as i32 + 1;
                let after = segment.seq.wrapping_add(segment.payload.len() as u32);
                let now = (after, segment.flags, scale, (!beyond).then_some((segment.ack, segment.window)));
                if said != Some(now) {
                    said = Some(now);
                    let (ack, window) = now.3.unwrap_or_default();
                    mix(u64::from(after) << 32
                        | u64::from(segment.flags.0) << 16
                        | scale << 8
                        | u64::from(beyond));
                    mix(u64::from(ack) << 16 | u64::from(window));
                }
            }
        }
    }
    key
}
