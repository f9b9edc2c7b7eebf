//! The middle: what stands between the attacker and the readers.

use crate::packet::Scene;
use scrub::{Arrival, Config, Outcome, Scrubber, Side};
use std::time::Duration;
use wire::{Buf, Gso, Time};

/// Packets in order, each with the side that it came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packets {
    bytes: Vec<u8>,
    ends: Vec<(Side, usize)>,
}

impl Packets {
    /// Add a packet behind the others.
    pub fn push(&mut self, from: Side, packet: &[u8]) {
        self.bytes.extend_from_slice(packet);
        self.ends.push((from, self.bytes.len()));
    }

    /// Remove all packets that are held.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Keep the first `len` packets.
    pub fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.bytes.truncate(self.ends.last().map_or(0, |(_, end)| *end));
    }

    /// The packets in order, each with its side.
    pub fn iter(&self) -> impl Iterator<Item = (Side, &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |(side, end)| {
            let packet = &self.bytes[start..*end];
            start = *end;
            (*side, packet)
        })
    }

    /// The number of packets.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no packets.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

/// A scrubber, or what is tried in its place.
pub trait Middlebox {
    /// Begin a connection that has nothing to do with those before. The middle may choose the outside host's port.
    fn begin(&mut self, scene: &mut Scene);

    /// Pass one packet that came from a side. Packets that reach the inside for it are added to `inside`.
    fn pass(&mut self, from: Side, packet: &[u8], inside: &mut Packets);
}

impl<M: Middlebox + ?Sized> Middlebox for Box<M> {
    fn begin(&mut self, scene: &mut Scene) {
        (**self).begin(scene);
    }

    fn pass(&mut self, from: Side, packet: &[u8], inside: &mut Packets) {
        (**self).pass(from, packet, inside);
    }
}

/// The middle with nobody in it: every packet passes as it is.
#[derive(Debug)]
pub struct NoMiddlebox;

impl Middlebox for NoMiddlebox {
    fn begin(&mut self, _scene: &mut Scene) {}

    fn pass(&mut self, from: Side, packet: &[u8], inside: &mut Packets) {
        if from == Side::Outside {
            inside.push(from, packet);
        }
    }
}

/// The number of connections after which a new scrubber takes over, so that its tables stay small.
const CONNECTIONS: u16 = 1_024;
const CAPACITY: usize = 4_096;
const HEADROOM: usize = 128;

/// The middle with the scrubber in it.
#[derive(Debug)]
pub struct Scrubbed {
    config: Config,
    scrubber: Scrubber,
    buf: Buf,
    begun: u16,
    now: Time,
}

impl Scrubbed {
    /// The middle with a scrubber of this configuration.
    pub fn new(config: Config) -> Scrubbed {
        let scrubber = Scrubber::new(config.clone(), [7; 16]);
        let buf = Buf::with_capacity(CAPACITY, HEADROOM);
        Scrubbed { config, scrubber, buf, begun: 0, now: Time::from_secs(1) }
    }

    /// The scrubber in the middle.
    pub fn scrubber(&self) -> &Scrubber {
        &self.scrubber
    }

    /// The scrubber in the middle, to be exchanged for another.
    pub fn scrubber_mut(&mut self) -> &mut Scrubber {
        &mut self.scrubber
    }

    /// The time of the last packet.
    pub fn now(&self) -> Time {
        self.now
    }
}

impl Middlebox for Scrubbed {
    fn begin(&mut self, scene: &mut Scene) {
        self.begun += 1;
        if self.begun == CONNECTIONS {
            self.begun = 0;
            self.scrubber = Scrubber::new(self.config.clone(), [7; 16]);
        }
        scene.port = 20_000 + self.begun;
    }

    fn pass(&mut self, from: Side, packet: &[u8], inside: &mut Packets) {
        self.now = self.now + Duration::from_micros(10);
        if packet.len() + 2 * HEADROOM > CAPACITY {
            self.buf = Buf::from_slice(packet, HEADROOM, HEADROOM);
        } else {
            self.buf.reset(HEADROOM);
            self.buf.push_back(packet.len()).expect("room").copy_from_slice(packet);
        }
        let arrival = Arrival { from, link: 0, realm: 0 };
        let verdict = self.scrubber.process(self.now, arrival, &mut self.buf, &mut Gso::default());
        if verdict.outcome == Outcome::Forward && from == Side::Outside {
            inside.push(from, self.buf.as_slice());
        }
        while let Some(emitted) = self.scrubber.poll_emitted() {
            if emitted.to == Side::Inside {
                inside.push(Side::Outside, emitted.buf.as_slice());
            }
        }
    }
}
