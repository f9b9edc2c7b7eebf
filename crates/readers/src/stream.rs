//! One reader of one connection: segments enter, the stream leaves (RFC 9293 section 3.10, as far as the outside half
//! goes).
//!
//! A reader is a value without pointers, so that the proof can keep hundreds of them side by side. It holds `CAP`
//! octets of stream and `PIECES` pieces that wait behind a hole; what does not fit is not taken.

use crate::overlap::Span;
use crate::packet::Segment;
use crate::stack::{Fin, Reset, Stack, Syn, Urgent};
use wire::tcp::Flags;

const PRESENT: u8 = 1;
const TAKEN_OUT: u8 = 2;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// No SYN has come yet.
    #[default]
    Listen,
    /// A SYN has come.
    Half,
    Open,
    /// A FIN or RST has come, and nothing counts any more.
    Over,
}

/// The state of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream<const CAP: usize, const PIECES: usize> {
    phase: Phase,
    isn: u32,
    /// The next sequence number of the inside host, once it has answered.
    sent: Option<u32>,
    /// The scales that the outside host and the inside host offered.
    scales: [Option<u8>; 2],
    /// The right edge of the window, as a sequence number.
    edge: Option<u32>,
    recent: Option<u32>,
    /// The place before which all octets are there.
    next: u16,
    /// The place where a FIN says that the stream ends.
    end: Option<u16>,
    octets: [u8; CAP],
    marks: [u8; CAP],
    pieces: [Span; PIECES],
    waiting: u16,
}

impl<const CAP: usize, const PIECES: usize> Default for Stream<CAP, PIECES> {
    fn default() -> Self {
        Stream {
            phase: Phase::Listen,
            isn: 0,
            sent: None,
            scales: [None; 2],
            edge: None,
            recent: None,
            next: 0,
            end: None,
            octets: [0; CAP],
            marks: [0; CAP],
            pieces: [(0, 0); PIECES],
            waiting: 0,
        }
    }
}

impl<const CAP: usize, const PIECES: usize> Stream<CAP, PIECES> {
    /// Whether nothing was read and no connection is known.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Listen
    }

    /// Whether a FIN or RST ended the stream.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// The number of octets in order.
    pub fn in_order(&self) -> usize {
        usize::from(self.next)
    }

    /// The stream that is delivered.
    pub fn delivered(&self) -> impl Iterator<Item = u8> {
        let ready = self.octets.iter().zip(&self.marks).take(self.in_order());
        ready.filter(|(_, mark)| **mark & TAKEN_OUT == 0).map(|(octet, _)| *octet)
    }

    /// Take in a segment of the inside host.
    pub fn inside(&mut self, segment: &Segment<'_>) {
        let syn = segment.has(Flags::SYN);
        let after = segment.seq.wrapping_add(segment.payload.len() as u32).wrapping_add(u32::from(syn));
        if self.sent.is_none_or(|sent| (after.wrapping_sub(sent) as i32) > 0) {
            self.sent = Some(after);
        }
        if syn {
            self.scales[1] = segment.scale;
        }
        if segment.has(Flags::ACK) {
            let shift = match self.scales {
                [Some(_), Some(inside)] if !syn => inside,
                _ => 0,
            };
            let edge = segment.ack.wrapping_add(u32::from(segment.window) << shift);
            if self.edge.is_none_or(|old| (edge.wrapping_sub(old) as i32) > 0) {
                self.edge = Some(edge);
            }
        }
    }

    /// Take in a segment of the outside host.
    pub fn outside(&mut self, stack: &Stack, segment: &Segment<'_>) {
        if stack.checksum && !segment.sound || segment.ttl <= stack.hops || stack.md5 && segment.md5 {
            return;
        }
        match self.phase {
            Phase::Listen => self.listen(stack, segment),
            Phase::Half => self.half(stack, segment),
            Phase::Open => self.open(stack, segment),
            Phase::Over => {}
        }
    }

    fn listen(&mut self, stack: &Stack, segment: &Segment<'_>) {
        if !segment.has(Flags::SYN) || segment.flags.intersects(Flags::ACK | Flags::RST) {
            return;
        }
        self.phase = Phase::Half;
        self.isn = segment.seq;
        self.recent = segment.timestamp;
        self.scales[0] = segment.scale;
        if stack.syn_data {
            self.data(stack, 0, segment);
            self.advance(stack);
        }
    }

    fn half(&mut self, stack: &Stack, segment: &Segment<'_>) {
        if segment.has(Flags::RST) {
            if stack.reset != Reset::Exact || self.place(segment.seq) == 0 {
                *self = Stream {
                    sent: self.sent,
                    edge: self.edge,
                    scales: [None, self.scales[1]],
                    ..Stream::default()
                };
            }
        } else if segment.has(Flags::SYN) {
            if stack.last_syn && segment.seq != self.isn && !segment.has(Flags::ACK) {
                *self = Stream {
                    sent: self.sent,
                    edge: self.edge,
                    scales: [None, self.scales[1]],
                    ..Stream::default()
                };
                self.listen(stack, segment);
            }
        } else if self.is_acceptable(stack, segment) {
            self.phase = Phase::Open;
            self.open(stack, segment);
        }
    }

    /// Whether the rules about ACK let the segment count.
    fn is_acceptable(&self, stack: &Stack, segment: &Segment<'_>) -> bool {
        if !segment.has(Flags::ACK) {
            return !stack.needs_ack;
        }
        let ahead = self.sent.map_or(1, |sent| segment.ack.wrapping_sub(sent) as i32);
        !stack.checks_ack || ahead <= 0 && ahead > -(1 << 20) && (self.phase == Phase::Open || ahead == 0)
    }

    fn open(&mut self, stack: &Stack, segment: &Segment<'_>) {
        let mut start = self.place(segment.seq);
        let next = i32::from(self.next);
        let edge = self.edge.map_or(CAP as i32, |edge| self.place(edge));
        if segment.has(Flags::RST) {
            let ends = match stack.reset {
                Reset::Exact => start == next,
                Reset::Window => start >= next && start <= edge.max(next),
                Reset::Behind => start >= next,
                Reset::Any => true,
            };
            if ends {
                self.phase = Phase::Over;
            }
            return;
        }
        if segment.has(Flags::SYN) {
            match stack.syn {
                Syn::Challenge => return,
                Syn::Reset => {
                    if start >= next && start <= edge {
                        self.phase = Phase::Over;
                    }
                    return;
                }
                Syn::Ignore => start += 1,
                Syn::Restart => {
                    if segment.has(Flags::ACK) {
                        return;
                    }
                    self.isn = segment.seq.wrapping_sub(u32::from(self.next));
                    self.forget_waiting();
                    start = next;
                }
            }
        }
        if !self.is_acceptable(stack, segment) || self.is_old(stack, segment) {
            return;
        }
        let end = start + segment.payload.len() as i32;
        if stack.window && (start > edge || end < next || start == edge && !segment.payload.is_empty()) {
            return;
        }
        self.data(stack, start, segment);
        self.advance(stack);
        if segment.has(Flags::FIN) {
            self.fin(stack, end, edge);
        }
        if let Some(end) = self.end
            && self.next >= end
        {
            self.phase = Phase::Over;
        }
        if start <= next && segment.timestamp.is_some() {
            self.recent = segment.timestamp;
        }
    }

    /// Whether the segment is older than the last one by its timestamp (PAWS).
    fn is_old(&self, stack: &Stack, segment: &Segment<'_>) -> bool {
        match (self.recent, segment.timestamp) {
            (Some(recent), Some(now)) => stack.paws && (now.wrapping_sub(recent) as i32) < 0,
            _ => false,
        }
    }

    fn fin(&mut self, stack: &Stack, at: i32, edge: i32) {
        let next = i32::from(self.next);
        match stack.fin {
            Fin::Any => self.phase = Phase::Over,
            Fin::InOrder if at != next => {}
            Fin::Queued if at < next || at > CAP as i32 || stack.window && at > edge => {}
            Fin::InOrder | Fin::Queued => self.end = self.end.or(Some(at as u16)),
        }
    }

    /// Take what fits and is new of the octets that start at `start`.
    fn data(&mut self, stack: &Stack, start: i32, segment: &Segment<'_>) {
        let edge = match self.edge {
            Some(edge) if stack.window => self.place(edge),
            _ => CAP as i32,
        };
        let left = if stack.late { 0 } else { i32::from(self.next) };
        let right = edge.min(CAP as i32).min(self.end.map_or(CAP as i32, i32::from));
        let end = start.saturating_add(segment.payload.len() as i32);
        let (from, to) = (start.max(left), end.min(right));
        if from >= to || usize::from(self.waiting) == PIECES {
            return;
        }
        let urgent = match stack.urgent {
            _ if !segment.has(Flags::URG) || segment.urgent == 0 => None,
            Urgent::InBand => None,
            Urgent::Before => Some(start + i32::from(segment.urgent) - 1),
            Urgent::At => Some(start + i32::from(segment.urgent)),
        };
        let piece = (from as u16, to as u16);
        let (octets, marks) = (&mut self.octets, &mut self.marks);
        stack.overlap.lay(&self.pieces[..usize::from(self.waiting)], piece, |at| {
            let offset = (i32::from(at) - start) as usize;
            octets[usize::from(at)] = segment.payload[offset];
            marks[usize::from(at)] =
                if urgent == Some(i32::from(at)) { PRESENT | TAKEN_OUT } else { PRESENT };
        });
        self.pieces[usize::from(self.waiting)] = piece;
        self.waiting += 1;
    }

    /// Deliver the octets that are in order.
    fn advance(&mut self, stack: &Stack) {
        let last = self.end.map_or(CAP, usize::from);
        while usize::from(self.next) < last && self.marks[usize::from(self.next)] & PRESENT != 0 {
            self.next += 1;
        }
        if !stack.late {
            let mut kept = 0;
            for at in 0..usize::from(self.waiting) {
                if self.pieces[at].1 > self.next {
                    self.pieces[kept] = self.pieces[at];
                    kept += 1;
                }
            }
            self.pieces[kept..usize::from(self.waiting)].fill((0, 0));
            self.waiting = kept as u16;
        }
    }

    fn forget_waiting(&mut self) {
        let next = usize::from(self.next);
        self.pieces[..usize::from(self.waiting)].fill((0, 0));
        self.waiting = 0;
        self.octets[next..].fill(0);
        self.marks[next..].fill(0);
    }

    /// The place in the stream of a sequence number.
    fn place(&self, seq: u32) -> i32 {
        seq.wrapping_sub(self.isn).wrapping_sub(1) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Draft, Scene};
    use crate::stack;
    use scrub::Side;

    const SYN_ACK: Flags = Flags(0x012);
    const URG_ACK: Flags = Flags(0x030);

    type Reader = Stream<64, 24>;

    struct Wire {
        scene: Scene,
        packet: Vec<u8>,
    }

    impl Wire {
        fn give(&mut self, readers: &mut [(Stack, Reader)], draft: Draft<'_>) {
            draft.write(&self.scene, &mut self.packet);
            let segment = Segment::parse(&self.packet).expect("a segment");
            for (stack, reader) in readers {
                match draft.sender {
                    Side::Outside => reader.outside(stack, &segment),
                    Side::Inside => reader.inside(&segment),
                }
            }
        }

        /// The draft of a segment at a place of the stream.
        fn at<'a>(&self, place: u32, payload: &'a [u8]) -> Draft<'a> {
            let seq = self.scene.isn.wrapping_add(1).wrapping_add(place);
            Draft { payload, ..Draft::plain(Side::Outside, seq, self.scene.inside_isn + 1, Flags::ACK) }
        }
    }

    fn opened() -> (Wire, Vec<(Stack, Reader)>) {
        let scene = Scene::default();
        let mut readers: Vec<_> = stack::all().into_iter().map(|stack| (stack, Reader::default())).collect();
        let mut wire = Wire { scene, packet: Vec::new() };
        wire.give(&mut readers, Draft::plain(Side::Outside, scene.isn, 0, Flags::SYN));
        let first = scene.isn.wrapping_add(1);
        wire.give(&mut readers, Draft::plain(Side::Inside, scene.inside_isn, first, Flags::SYN | Flags::ACK));
        wire.give(&mut readers, Draft::plain(Side::Outside, first, scene.inside_isn + 1, Flags::ACK));
        (wire, readers)
    }

    fn read(readers: &[(Stack, Reader)], name: &str) -> String {
        let (_, reader) =
            readers.iter().find(|(stack, _)| stack.name == name).expect("a reader of that name");
        reader.delivered().map(char::from).collect()
    }

    #[test]
    fn the_figure_of_paper_003() {
        // Figure 1: a hole, then the hole filled and what is behind it said again in another way.
        let (mut wire, mut readers) = opened();
        for draft in [wire.at(0, b"USER "), wire.at(6, b"oot"), wire.at(5, b"nice")] {
            wire.give(&mut readers, draft);
        }
        assert_eq!(read(&readers, "first"), "USER noot");
        assert_eq!(read(&readers, "last"), "USER nice");
        assert_eq!(read(&readers, "bsd"), "USER nice");
    }

    #[test]
    fn the_pattern_of_novak_behind_a_hole() {
        // Novak and Sturges 2007, as the unit tests of a passive reader have it.
        let pieces: [(u32, u32); 17] = [
            (0, 3),
            (4, 2),
            (6, 3),
            (10, 1),
            (13, 2),
            (15, 3),
            (18, 2),
            (20, 2),
            (22, 1),
            (1, 4),
            (6, 3),
            (9, 3),
            (12, 3),
            (16, 1),
            (19, 1),
            (20, 1),
            (22, 2),
        ];
        let (mut wire, mut readers) = opened();
        for (index, (place, len)) in pieces.into_iter().enumerate() {
            let payload = vec![b'A' + index as u8; len as usize];
            let draft = wire.at(place + 1, &payload);
            wire.give(&mut readers, draft);
        }
        let draft = wire.at(0, b"0");
        wire.give(&mut readers, draft);
        for (name, stream) in [
            ("bsd", "0AAAJJBCCCLLLMMMFFFGGHHIQ"),
            ("vista", "0AAAJBBCCCLDLMEEFFFGGHHIQ"),
            ("linux", "0AAAJJBCCCLLLMMMFFFGGHHQQ"),
            ("old-linux", "0AAAJJBKKKLLLMMMFFFGGHHQQ"),
            ("solaris", "0AJJJBBKKKLLLMMMFFFGGHHQQ"),
            ("last", "0AJJJJBKKKLLLMMMFNFGOPHQQ"),
        ] {
            assert_eq!(read(&readers, name), stream, "{name}");
        }
    }

    #[test]
    fn each_knob_tells_two_readers_apart() {
        // Two segments; the second one is odd. Who delivers it, who does not, and what the two read.
        type KnobCase = (&'static str, fn(&mut Draft<'_>), [&'static str; 2], [&'static str; 2]);
        let table: [KnobCase; 8] = [
            ("checksum", |d| d.spoilt = true, ["first, no checksum", "abcd"], ["first", "ab"]),
            ("ack flag", |d| d.flags = Flags::PSH, ["first, without ACK", "abcd"], ["first", "ab"]),
            ("ack field", |d| d.ack += 9, ["first, any ACK", "abcd"], ["first", "ab"]),
            ("hops", |d| d.ttl = 2, ["first, near, FIN in order", "abcd"], ["first", "ab"]),
            ("md5", |d| d.md5 = true, ["first, no PAWS, no MD5", "abcd"], ["first", "ab"]),
            (
                "syn",
                |d| (d.flags, d.seq) = (SYN_ACK, d.seq.wrapping_sub(1)),
                ["macos", "abcd"],
                ["first", "ab"],
            ),
            ("urgent", |d| (d.flags, d.urgent) = (URG_ACK, 1), ["first, urgent at", "abc"], ["first", "abd"]),
            ("in band", |d| (d.flags, d.urgent) = (URG_ACK, 1), ["vista", "abcd"], ["first", "abd"]),
        ];
        for (what, change, [one, stream], [other, expected]) in table {
            let (mut wire, mut readers) = opened();
            let draft = wire.at(0, b"ab");
            wire.give(&mut readers, draft);
            let mut draft = wire.at(2, b"cd");
            change(&mut draft);
            wire.give(&mut readers, draft);
            assert_eq!(read(&readers, one), stream, "{what}: {one}");
            assert_eq!(read(&readers, other), expected, "{what}: {other}");
        }
    }

    #[test]
    fn resets_syns_and_fins_end_streams_where_the_stack_says() {
        let table: [(Flags, i32, &[&str], &[&str]); 5] = [
            (Flags::RST, 0, &["first", "bsd", "hpux11", "first, any RST"], &[]),
            (Flags::RST, 1, &["bsd", "hpux11", "first, any RST"], &["first", "windows"]),
            (Flags::RST, -1, &["first, any RST"], &["first", "bsd", "hpux11"]),
            (Flags::SYN, 1, &["bsd", "last"], &["first", "linux", "macos"]),
            (Flags::FIN, 1, &["first, any FIN"], &["first", "first, near, FIN in order"]),
        ];
        for (flags, offset, over, open) in table {
            let (mut wire, mut readers) = opened();
            let draft = wire.at(0, b"ab");
            wire.give(&mut readers, draft);
            let odd = wire.at((2 + offset) as u32, b"");
            wire.give(&mut readers, Draft { flags: flags | Flags::ACK, ..odd });
            let draft = wire.at(2, b"cd");
            wire.give(&mut readers, draft);
            for name in over {
                assert_eq!(read(&readers, name), "ab", "{flags:?} {offset} {name}");
            }
            for name in open {
                let stream = read(&readers, name);
                // A FIN that waits for one octet cuts behind it.
                let expected = if flags == Flags::FIN && *name == "first" { "abc" } else { "abcd" };
                assert_eq!(stream, expected, "{flags:?} {offset} {name}");
            }
        }
    }
}
