//! Long traces of an attacker who tries everything at once, with all readers behind, each with its own losses.

use crate::middlebox::{Middlebox, Packets};
use crate::packet::{Draft, Scene, Segment};
use crate::stack::{self, NAMED, Stack};
use crate::stream::Stream;
use scrub::Side;
use wire::tcp::Flags;

/// The number of octets in a long stream.
pub const CAP: usize = 1_024;

type LongReader = Stream<CAP, 128>;

/// The greatest number of octets in one segment.
const SEGMENT: usize = 128;

/// One step of a trace.
#[derive(Clone, Debug)]
pub enum Step {
    /// A segment of the outside host.
    Data {
        /// The place in the stream where it starts.
        place: i32,
        /// The number of octets.
        len: usize,
        /// The number of the story that it tells, of several.
        story: u8,
        /// The oddities of the segment.
        odd: SegmentOddities,
    },
    /// The last packet comes again.
    Again,
    /// The inside host acknowledges all that it has in order, with this window field.
    Ack(u16),
    /// The inside host sends this many octets.
    Say(usize),
    /// A packet with the inside host's addresses comes from outside and acknowledges this many octets.
    Spoof(u16),
}

/// The oddities of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentOddities {
    /// The flags beside ACK.
    pub flags: u16,
    /// Whether ACK is missing.
    pub no_ack: bool,
    /// The number that is added to the acknowledgment.
    pub ack: i32,
    /// The urgent pointer of the segment.
    pub urgent: u16,
    /// Whether the checksum is wrong.
    pub spoilt: bool,
    /// The time to live; zero stands for 64.
    pub ttl: u8,
    /// The number that is added to the timestamp.
    pub clock: i32,
    /// Whether there is an MD5 option.
    pub md5: bool,
    /// Whether there is a window scale option where none belongs.
    pub scale: bool,
}

/// One reader with its losses.
struct Reader {
    stack: Stack,
    stream: LongReader,
    /// The number of packets in 256 that are lost.
    loss: u8,
    seed: u64,
}

impl Reader {
    fn loses(&mut self) -> bool {
        // Xorshift (Marsaglia 2003).
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 32) as u8 >= self.loss
    }
}

/// A trace through one middle, before all readers: each is there three times, with different losses and once without.
pub struct Replay<M> {
    middle: M,
    scene: Scene,
    readers: Vec<Reader>,
    host: LongReader,
    packet: Vec<u8>,
    view: Packets,
    /// The next sequence number of the inside host.
    sent: u32,
    clock: u32,
    /// The number of packets that reached the inside.
    pub passed: usize,
}

impl<M: Middlebox> Replay<M> {
    /// A replay of a connection that has been opened.
    pub fn open(mut middle: M, mut scene: Scene, seed: u64) -> Replay<M> {
        middle.begin(&mut scene);
        let mut readers = Vec::new();
        for (index, stack) in stack::all().into_iter().enumerate() {
            for loss in [0, 20, 90] {
                let seed = (seed ^ (index as u64) << 8 ^ u64::from(loss)) | 1;
                readers.push(Reader { stack, stream: LongReader::default(), loss, seed });
            }
        }
        let (packet, view) = (Vec::new(), Packets::default());
        let sent = scene.inside_isn;
        let mut replay = Replay {
            middle,
            scene,
            readers,
            host: LongReader::default(),
            packet,
            view,
            sent,
            clock: 1_000,
            passed: 0,
        };
        replay.handshake();
        replay
    }

    fn handshake(&mut self) {
        let scene = self.scene;
        let mut draft = Draft::plain(Side::Outside, scene.isn, 0, Flags::SYN);
        (draft.scale, draft.timestamps) = (scene.scale[0], scene.timestamps.then_some((self.clock, 0)));
        self.give(Side::Outside, &draft);
        let first = scene.isn.wrapping_add(1);
        let mut draft = Draft::plain(Side::Inside, self.sent, first, Flags::SYN | Flags::ACK);
        (draft.scale, draft.timestamps) = (scene.scale[1], scene.timestamps.then_some((1, self.clock)));
        draft.window = scene.window;
        self.give(Side::Inside, &draft);
        self.sent = self.sent.wrapping_add(1);
        let draft = self.draft(0);
        self.give(Side::Outside, &draft);
    }

    /// A segment of the outside host without data.
    fn draft(&self, place: i32) -> Draft<'static> {
        let seq = self.scene.isn.wrapping_add(1).wrapping_add(place as u32);
        let mut draft = Draft::plain(Side::Outside, seq, self.sent, Flags::ACK);
        draft.timestamps = self.scene.timestamps.then_some((self.clock, 1));
        draft
    }

    fn give(&mut self, from: Side, draft: &Draft<'_>) {
        draft.write(&self.scene, &mut self.packet);
        self.pass(from, draft.sender);
    }

    fn pass(&mut self, from: Side, sender: Side) {
        self.view.clear();
        self.middle.pass(from, &self.packet, &mut self.view);
        if from != sender {
            // Nobody takes it for a segment of the outside host.
            return;
        }
        if from == Side::Inside {
            let Some(segment) = Segment::parse(&self.packet) else { return };
            self.host.inside(&segment);
            self.readers.iter_mut().for_each(|reader| reader.stream.inside(&segment));
        }
        self.passed += self.view.len();
        for (_, packet) in self.view.iter() {
            let Some(segment) = Segment::parse(packet) else { continue };
            self.host.outside(&NAMED[0], &segment);
            for reader in &mut self.readers {
                if reader.loses() {
                    reader.stream.outside(&reader.stack, &segment);
                }
            }
        }
    }

    /// Play one step of the trace.
    pub fn step(&mut self, step: &Step) {
        match step {
            Step::Data { place, len, story, odd } => self.data(*place, *len, *story, *odd),
            Step::Again => {
                let sender = if self.is_inside() { Side::Inside } else { Side::Outside };
                self.pass(sender, sender);
            }
            Step::Ack(window) => {
                let draft = self.said(self.host.in_order() as u32, *window);
                self.give(Side::Inside, &draft);
            }
            Step::Say(len) => {
                let payload = [b'~'; SEGMENT];
                let mut draft = self.said(self.host.in_order() as u32, self.scene.window);
                draft.payload = &payload[..(*len).min(SEGMENT)];
                self.give(Side::Inside, &draft);
                self.sent = self.sent.wrapping_add(draft.payload.len() as u32);
            }
            Step::Spoof(octets) => {
                let draft = self.said(u32::from(*octets), self.scene.window);
                self.give(Side::Outside, &draft);
            }
        }
    }

    fn is_inside(&self) -> bool {
        Segment::parse(&self.packet).is_some_and(|segment| segment.payload.first() == Some(&b'~'))
            || Segment::parse(&self.packet).is_some_and(|segment| segment.seq == self.sent)
    }

    fn said(&self, octets: u32, window: u16) -> Draft<'static> {
        let ack = self.scene.isn.wrapping_add(1).wrapping_add(octets);
        let mut draft = Draft::plain(Side::Inside, self.sent, ack, Flags::ACK);
        draft.window = window;
        draft.timestamps = self.scene.timestamps.then_some((1, self.clock));
        draft
    }

    fn data(&mut self, place: i32, len: usize, story: u8, odd: SegmentOddities) {
        self.clock += 1;
        let mut payload = [0; SEGMENT];
        let len = len.min(SEGMENT);
        for (at, octet) in payload.iter_mut().enumerate() {
            *octet = (place as u8).wrapping_add(at as u8).wrapping_mul(31) ^ story.wrapping_mul(77);
        }
        let mut draft = self.draft(place);
        draft.payload = &payload[..len];
        draft.flags = if odd.no_ack { Flags(odd.flags) } else { Flags(odd.flags) | Flags::ACK };
        draft.ack = draft.ack.wrapping_add(odd.ack as u32);
        (draft.urgent, draft.spoilt, draft.md5) = (odd.urgent, odd.spoilt, odd.md5);
        draft.ttl = if odd.ttl == 0 { 64 } else { odd.ttl };
        draft.timestamps = draft.timestamps.map(|(value, echo)| (value.wrapping_add(odd.clock as u32), echo));
        draft.scale = odd.scale.then_some(9);
        self.give(Side::Outside, &draft);
    }

    /// Two readers whose streams contradict each other, by name, with what they read.
    pub fn contradiction(&self) -> Option<[(&'static str, Vec<u8>); 2]> {
        let streams = self
            .readers
            .iter()
            .map(|reader| (reader.stack.name, reader.stream.delivered().collect::<Vec<u8>>()));
        let mut longest = ("", Vec::new());
        for (name, stream) in streams {
            if stream.starts_with(&longest.1) {
                longest = (name, stream);
            } else if !longest.1.starts_with(&stream) {
                return Some([longest, (name, stream)]);
            }
        }
        None
    }

    /// The number of octets that a host has in order.
    pub fn in_order(&self) -> usize {
        self.host.in_order()
    }
}
