//! All the attackers of a small world: every sequence of segments on a short stream, with one odd flag or header and
//! one acknowledgment, in every place. Cases have numbers, and a number says everything about its case.

pub mod fragments;
mod play;

pub use play::Player;

use crate::overlap::Span;
use std::fmt;

/// The largest number of segments in a case.
pub const SEGMENTS: usize = 4;

/// The oddity of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oddity {
    /// The SYN flag is set.
    Syn,
    /// The FIN flag is set.
    Fin,
    /// The RST flag is set.
    Rst,
    /// The URG flag is set, with this pointer.
    Urg(u16),
    /// The ACK flag is not set.
    NoAck,
    /// The checksum is wrong.
    Checksum,
    /// The timestamp is older than the connection.
    OldTimestamp,
    /// The segment acknowledges what the inside never sent.
    BadAck,
    /// The packet dies before it reaches a host.
    LowTtl,
    /// The segment has an MD5 option that nobody agreed on.
    Md5,
    /// The segment is behind an authentication header, past which some read.
    Signed,
}

/// The oddities of a segment with data.
const ON: [Oddity; 12] = [
    Oddity::Syn,
    Oddity::Fin,
    Oddity::Rst,
    Oddity::Urg(1),
    Oddity::Urg(2),
    Oddity::NoAck,
    Oddity::Checksum,
    Oddity::OldTimestamp,
    Oddity::BadAck,
    Oddity::LowTtl,
    Oddity::Md5,
    Oddity::Signed,
];
/// The oddities that come as a segment without data.
const OWN: [Oddity; 4] = [Oddity::Syn, Oddity::Fin, Oddity::Rst, Oddity::Urg(1)];
/// The number of gaps in the handshake: behind the SYN, behind the SYN-ACK.
const EARLY: usize = 2;

/// The one odd event of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OddEvent {
    /// There is no odd event.
    Nothing,
    /// The segment of this number is odd.
    On(Oddity, usize),
    /// A segment of its own comes at a place of the stream (the last number; -1: the SYN's), before the segment of the
    /// first number; -2 and -1 are in the handshake.
    Own(Oddity, i32, i32),
}

/// The one acknowledgment of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    /// There is no acknowledgment.
    Nothing,
    /// The inside host acknowledges that many octets, behind that many segments.
    Inside(u16, usize),
    /// A packet with the inside host's addresses, from outside, says the same.
    Spoofed(u16, usize),
}

/// The window of the inside host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The window holds all octets.
    Wide,
    /// The window holds this many octets; the outside host offered to scale, the inside host did not.
    Narrow(u16),
    /// The window holds this many octets, which the field has halved.
    Scaled(u16),
}

/// The content of the segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// No two segments have an octet in common.
    Different,
    /// The segments are pieces of one stream.
    Honest,
}

/// One attack of the small world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    spans: [Span; SEGMENTS],
    count: usize,
    /// The odd event of the attack.
    pub odd: OddEvent,
    /// The acknowledgment in the attack.
    pub ack: Ack,
    /// The window of the inside host.
    pub window: Window,
    /// The content of the segments.
    pub content: Content,
}

impl Case {
    /// The segments, in the order in which they are sent.
    pub fn spans(&self) -> &[Span] {
        &self.spans[..self.count]
    }

    /// The octet of a segment at a place.
    pub fn octet(&self, segment: usize, place: u16) -> u8 {
        let segment = if self.content == Content::Honest { 0 } else { segment };
        b'0' + segment as u8 * 8 + place as u8
    }

    /// The cases with less than this one: without a segment, or without an event.
    pub fn smaller(&self) -> Vec<Case> {
        let mut all = Vec::new();
        if self.odd != OddEvent::Nothing {
            all.push(Case { odd: OddEvent::Nothing, ..*self });
        }
        if self.ack != Ack::Nothing {
            all.push(Case { ack: Ack::Nothing, ..*self });
        }
        for out in 0..self.count {
            let mut less = *self;
            less.spans.copy_within(out + 1.., out);
            less.count -= 1;
            let back = |at: usize| at - usize::from(at > out);
            less.ack = match self.ack {
                Ack::Inside(octets, at) => Ack::Inside(octets, back(at)),
                Ack::Spoofed(octets, at) => Ack::Spoofed(octets, back(at)),
                Ack::Nothing => Ack::Nothing,
            };
            less.odd = match self.odd {
                OddEvent::On(_, at) if at == out => continue,
                OddEvent::On(fault, at) => OddEvent::On(fault, back(at)),
                OddEvent::Own(fault, gap, place) => {
                    OddEvent::Own(fault, if gap > out as i32 { gap - 1 } else { gap }, place)
                }
                OddEvent::Nothing => OddEvent::Nothing,
            };
            all.push(less);
        }
        all
    }
}

/// A part of the small world: streams of one length.
#[derive(Clone, Debug)]
pub struct World {
    /// A word for reports.
    pub name: &'static str,
    octets: u16,
    segments: usize,
    windows: Vec<Window>,
    content: Content,
    odds: bool,
    spans: Vec<Span>,
}

impl World {
    fn new(
        name: &'static str,
        octets: u16,
        segments: usize,
        windows: &[Window],
        content: Content,
        odds: bool,
    ) -> World {
        let spans = (0..octets).flat_map(|from| (from + 1..=octets).map(move |to| (from, to))).collect();
        World { name, octets, segments, windows: windows.to_vec(), content, odds, spans }
    }

    /// The worlds of the issue, and those with narrow windows and with honest senders.
    pub fn all() -> Vec<World> {
        let narrow =
            [Window::Narrow(1), Window::Narrow(2), Window::Narrow(3), Window::Scaled(2), Window::Scaled(4)];
        let mixed =
            [Window::Wide, Window::Narrow(2), Window::Narrow(3), Window::Scaled(2), Window::Scaled(4)];
        vec![
            World::new("four", 4, 4, &[Window::Wide], Content::Different, true),
            World::new("six", 6, 3, &[Window::Wide], Content::Different, true),
            World::new("windows", 4, 3, &narrow, Content::Different, true),
            World::new("honest-four", 4, 4, &mixed, Content::Honest, false),
            World::new("honest-six", 6, 3, &mixed, Content::Honest, false),
        ]
    }

    /// The content of the segments in this world.
    pub fn content(&self) -> Content {
        self.content
    }

    /// The number of odd events for cases of `count` segments.
    fn odds(&self, count: usize) -> u64 {
        if !self.odds {
            return 1;
        }
        (1 + ON.len() * count + OWN.len() * (count + 1 + EARLY) * self.places()) as u64
    }

    /// The number of places of a segment without data: the SYN's, each octet's, behind them, and one further on.
    fn places(&self) -> usize {
        usize::from(self.octets) + 3
    }

    fn acks(&self, count: usize) -> u64 {
        1 + 2 * u64::from(self.octets) * count as u64
    }

    /// The number of cases with `count` segments.
    fn of(&self, count: usize) -> u64 {
        (self.spans.len() as u64).pow(count as u32)
            * self.windows.len() as u64
            * self.odds(count)
            * self.acks(count)
    }

    /// The number of cases in the world.
    pub fn cases(&self) -> u64 {
        (1..=self.segments).map(|count| self.of(count)).sum()
    }

    /// The case of that number, counted from zero.
    pub fn case(&self, number: u64) -> Option<Case> {
        let mut rest = number;
        let count = (1..=self.segments).find(|count| {
            let here = rest < self.of(*count);
            if !here {
                rest -= self.of(*count);
            }
            here
        })?;
        let mut digit = |base: u64| {
            let value = rest % base;
            rest /= base;
            value as usize
        };
        let ack = self.ack(count, digit(self.acks(count)));
        let odd = self.odd(count, digit(self.odds(count)));
        let window = self.windows[digit(self.windows.len() as u64)];
        let mut spans = [(0, 0); SEGMENTS];
        for span in &mut spans[..count] {
            *span = self.spans[digit(self.spans.len() as u64)];
        }
        Some(Case { spans, count, odd, ack, window, content: self.content })
    }

    fn ack(&self, count: usize, value: usize) -> Ack {
        let Some(value) = value.checked_sub(1) else { return Ack::Nothing };
        let octets = (value % usize::from(self.octets)) as u16 + 1;
        let value = value / usize::from(self.octets);
        let behind = value % count + 1;
        if value / count == 0 { Ack::Inside(octets, behind) } else { Ack::Spoofed(octets, behind) }
    }

    fn odd(&self, count: usize, value: usize) -> OddEvent {
        let Some(value) = value.checked_sub(1) else { return OddEvent::Nothing };
        if value < ON.len() * count {
            return OddEvent::On(ON[value % ON.len()], value / ON.len());
        }
        let value = value - ON.len() * count;
        let (fault, value) = (OWN[value % OWN.len()], value / OWN.len());
        let gap = (value % (count + 1 + EARLY)) as i32 - EARLY as i32;
        let place = match value / (count + 1 + EARLY) {
            // Far from the stream, still inside of a wide window.
            last if last == self.places() - 1 => 1_000,
            place => place as i32 - 1,
        };
        OddEvent::Own(fault, gap, place)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segments")?;
        for (index, (from, to)) in self.spans().iter().enumerate() {
            let octets: String = (*from..*to).map(|place| char::from(self.octet(index, place))).collect();
            write!(f, " {from}..{to} \"{octets}\"")?;
        }
        write!(f, "; odd: {:?}; acknowledgment: {:?}; window: {:?}", self.odd, self.ack, self.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_cases_and_every_case_has_one() {
        let world = World::new("tiny", 2, 2, &[Window::Wide, Window::Narrow(1)], Content::Different, true);
        let all: Vec<Case> = (0..).map_while(|number| world.case(number)).collect();
        assert_eq!(all.len() as u64, world.cases());
        // Three spans on two octets; 12 on each segment, 4 of their own in each of the gaps and five places.
        let of = |n: u64| 3_u64.pow(n as u32) * 2 * (1 + 12 * n + 4 * (n + 3) * 5) * (1 + 2 * 2 * n);
        assert_eq!(world.cases(), of(1) + of(2));
        for (at, case) in all.iter().enumerate() {
            // Neighbours share all but the last digits: only near ones could be equal.
            assert!(all[at + 1..].iter().take(600).all(|other| other != case), "{case} comes twice");
        }
    }
}
