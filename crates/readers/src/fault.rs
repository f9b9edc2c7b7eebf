//! Faults that a scrubber could have, put around one that has none. The proof must find each.

use crate::middlebox::{Middlebox, Packets};
use crate::packet::{SERVICE, Scene, Segment};
use scrub::Side;
use wire::checksum;
use wire::ip::Headers;
use wire::tcp::{Flags, Tcp};

/// A fault that a scrubber could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Data that the inside has not acknowledged are forgotten.
    EvictUnacknowledged,
    /// An acknowledgment counts, whoever sent it.
    TrustAnyAck,
    /// A segment whose data were rewritten keeps its checksum.
    ForgetChecksum,
    /// A segment that has to be cut is cut at the wrong end.
    TrimWrongEdge,
    /// Window scales are not seen.
    IgnoreWindowScale,
    /// Data behind a hole pass without being recorded.
    ForwardUnrecorded,
}

impl Fault {
    /// All faults that there are.
    pub const ALL: [Fault; 6] = [
        Fault::EvictUnacknowledged,
        Fault::TrustAnyAck,
        Fault::ForgetChecksum,
        Fault::TrimWrongEdge,
        Fault::IgnoreWindowScale,
        Fault::ForwardUnrecorded,
    ];

    /// The word for the fault in commands and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Fault::EvictUnacknowledged => "evict-unacknowledged",
            Fault::TrustAnyAck => "trust-any-ack",
            Fault::ForgetChecksum => "forget-checksum",
            Fault::TrimWrongEdge => "trim-wrong-edge",
            Fault::IgnoreWindowScale => "ignore-window-scale",
            Fault::ForwardUnrecorded => "forward-unrecorded",
        }
    }
}

/// A scrubber in the middle with a fault.
#[derive(Debug)]
pub struct FaultyMiddlebox<M> {
    inner: M,
    fault: Fault,
    scene: Scene,
    handshake: Vec<(Side, Vec<u8>)>,
    isn: u32,
    /// Whether each octet of the stream went on.
    covered: Vec<bool>,
    passed: Packets,
}

impl<M: Middlebox> FaultyMiddlebox<M> {
    /// The middle `inner` with this fault.
    pub fn new(inner: M, fault: Fault) -> FaultyMiddlebox<M> {
        let (handshake, passed) = (Vec::new(), Packets::default());
        FaultyMiddlebox {
            inner,
            fault,
            scene: Scene::default(),
            handshake,
            isn: 0,
            covered: Vec::new(),
            passed,
        }
    }

    fn place(&self, seq: u32) -> i32 {
        seq.wrapping_sub(self.isn).wrapping_sub(1) as i32
    }

    fn cover(&mut self, packet: &[u8]) {
        let Some(segment) = Segment::parse(packet) else { return };
        let start = self.place(segment.seq);
        for place in start..start + segment.payload.len() as i32 {
            if let Some(covered) = usize::try_from(place).ok().and_then(|place| self.covered.get_mut(place)) {
                *covered = true;
            }
        }
    }

    /// The packet that goes on for `from_inner`, which the sound scrubber made of `original`.
    fn tamper(&self, original: &[u8], from_inner: &[u8]) -> Vec<u8> {
        let mut packet = from_inner.to_vec();
        let (Some(before), Some(after)) = (Segment::parse(original), Segment::parse(from_inner)) else {
            return packet;
        };
        let Ok(headers) = Headers::parse(from_inner) else { return packet };
        let len = after.payload.len();
        let data = headers.total_len - len;
        match self.fault {
            Fault::ForgetChecksum if before.payload.len() == len && before.payload != after.payload => {
                let old = Headers::parse(original)
                    .map(|h| Tcp::new_checked(h.upper(original)).map(|v| v.checksum()));
                if let (Ok(Ok(old)), Ok(mut view)) =
                    (old, Tcp::new_checked(&mut packet[headers.header_len..]))
                {
                    view.set_checksum(old);
                }
            }
            Fault::TrimWrongEdge if len > 0 && len < before.payload.len() => {
                let from = if after.seq == before.seq { before.payload.len() - len } else { 0 };
                packet[data..].copy_from_slice(&before.payload[from..from + len]);
                checksum::complete_transport(&mut packet, &headers).expect("a segment");
            }
            _ => {}
        }
        packet
    }
}

/// The packet without its window scale option.
fn unscaled(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let headers = Headers::parse(&packet).expect("a packet of our own");
    let at = packet.windows(2).skip(headers.header_len + 20).position(|pair| pair == [3, 3]);
    if let Some(at) = at {
        let at = at + headers.header_len + 20;
        packet[at..at + 3].fill(1);
        checksum::complete_transport(&mut packet, &headers).expect("a segment");
    }
    packet
}

impl<M: Middlebox> Middlebox for FaultyMiddlebox<M> {
    fn begin(&mut self, scene: &mut Scene) {
        self.inner.begin(scene);
        self.scene = *scene;
        self.isn = scene.isn;
        self.handshake.clear();
        self.covered = vec![false; 64];
    }

    fn pass(&mut self, from: Side, packet: &[u8], inside: &mut Packets) {
        let Some(segment) = Segment::parse(packet) else { return self.inner.pass(from, packet, inside) };
        let spoofed = Headers::parse(packet).is_ok_and(|headers| {
            Tcp::new_checked(headers.upper(packet)).is_ok_and(|view| view.src_port() == SERVICE)
        });
        let syn = segment.has(Flags::SYN);
        match self.fault {
            Fault::TrustAnyAck if from == Side::Outside && spoofed => {
                self.inner.pass(Side::Inside, packet, &mut self.passed);
                self.passed.clear();
                return;
            }
            Fault::IgnoreWindowScale if syn => {
                self.passed.clear();
                self.inner.pass(from, &unscaled(packet), &mut self.passed);
                if !self.passed.is_empty() {
                    inside.push(from, packet);
                }
                return;
            }
            Fault::ForwardUnrecorded if from == Side::Outside && !segment.payload.is_empty() && !syn => {
                let known = self.covered.iter().take_while(|covered| **covered).count() as i32;
                if self.place(segment.seq) > known {
                    return inside.push(from, packet);
                }
            }
            Fault::EvictUnacknowledged => {
                if self.handshake.len() < 3 {
                    self.handshake.push((from, packet.to_vec()));
                } else if from == Side::Outside && !segment.payload.is_empty() {
                    // Another one takes over, which has seen the handshake only.
                    let mut scene = self.scene;
                    self.inner.begin(&mut scene);
                    for (from, packet) in &self.handshake {
                        self.inner.pass(*from, &ported(packet, *from, &scene), &mut self.passed);
                    }
                    self.passed.clear();
                    return self.inner.pass(from, &ported(packet, from, &scene), inside);
                }
            }
            _ => {}
        }
        self.passed.clear();
        let mut passed = std::mem::take(&mut self.passed);
        self.inner.pass(from, packet, &mut passed);
        for (side, forwarded) in passed.iter() {
            inside.push(side, &self.tamper(packet, forwarded));
            self.cover(forwarded);
        }
        self.passed = passed;
    }
}

/// The packet as one of the connection of `scene`.
fn ported(packet: &[u8], from: Side, scene: &Scene) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let headers = Headers::parse(&packet).expect("a packet of our own");
    let sound = checksum::verify_transport(&packet, &headers) == Some(true);
    let at = headers.header_len + if from == Side::Outside { 0 } else { 2 };
    packet[at..at + 2].copy_from_slice(&scene.port.to_be_bytes());
    if sound {
        checksum::complete_transport(&mut packet, &headers).expect("a segment");
    }
    packet
}
