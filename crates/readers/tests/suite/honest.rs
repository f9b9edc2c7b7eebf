//! Honest senders and receivers over a bad network: nothing of theirs is dropped or changed, and everything arrives.

use proptest::prelude::*;
use readers::packet::{Draft, Scene, Segment};
use scrub::{Arrival, Config, Outcome, Profile, Rule, Scrubber, Side};
use std::collections::BTreeSet;
use std::time::Duration;
use wire::tcp::Flags;
use wire::{Buf, Gso, Time};

const MSS: u32 = 100;
/// Ticks without progress after which the sender sends again; longer than a packet can be under way.
const TIMEOUT: u64 = 40;
const LAST_TICK: u64 = 60_000;

/// The behaviour of the network and the hosts.
#[derive(Clone, Copy, Debug)]
struct Weather {
    scene: Scene,
    octets: u32,
    /// The number of packets in 256 that are lost in front of the scrubber and behind it, and the number that are
    /// doubled.
    loss: [u8; 2],
    doubled: u8,
    /// The greatest number of ticks that a packet takes in front of the scrubber.
    delay: u64,
    /// The number of octets that the receiver keeps, and of ticks between two reads of its application.
    buffer: u32,
    pace: u64,
    seed: u64,
}

struct Network {
    weather: Weather,
    scrubber: Scrubber,
    tick: u64,
    seed: u64,
    /// The packets under way: when they arrive, from which side, whether they have passed the scrubber.
    flying: Vec<(u64, Side, bool, Vec<u8>)>,
    /// The highest acknowledgment of the inside host that passed.
    acked: u32,
    /// The latest timestamp of the outside host at what the inside host waits for (TS.Recent of RFC 7323 section 4.3).
    recent: u32,
    packet: Vec<u8>,
}

impl Network {
    fn random(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 16) % below.max(1)
    }

    fn send(&mut self, draft: &Draft<'_>) {
        draft.write(&self.weather.scene, &mut self.packet);
        let doubled = !draft.flags.contains(Flags::SYN) && self.random(256) < u64::from(self.weather.doubled);
        let copies = 1 + u64::from(doubled);
        for _ in 0..copies {
            let when = match draft.sender {
                Side::Outside => self.tick + 1 + self.random(self.weather.delay),
                Side::Inside => self.tick + 1,
            };
            self.flying.push((when, draft.sender, false, self.packet.clone()));
        }
    }

    /// Packets that arrive at a host at this tick.
    fn arrivals(&mut self) -> Vec<(Side, Vec<u8>)> {
        let mut arrived = Vec::new();
        while let Some(at) = self.flying.iter().position(|(when, ..)| *when <= self.tick) {
            let (_, from, passed, packet) = self.flying.remove(at);
            // In front of the scrubber is the outside.
            let link = usize::from(passed == (from == Side::Outside));
            if self.random(256) < u64::from(self.weather.loss[link]) {
                continue;
            }
            if passed {
                arrived.push((from, packet));
            } else {
                let Some(clean) = self.scrub(from, &packet) else { continue };
                let takes = if from == Side::Inside { 1 + self.random(self.weather.delay) } else { 1 };
                self.flying.push((self.tick + takes, from, true, clean));
            }
        }
        arrived
    }

    /// Pass a packet through the scrubber. Returns what comes out. Nothing does of a segment that was overtaken by a
    /// later one at the same place: its receiver would discard it, too (RFC 7323 section 5.3).
    fn scrub(&mut self, from: Side, packet: &[u8]) -> Option<Vec<u8>> {
        let mut buf = Buf::from_slice(packet, 64, 64);
        let now = Time::from_secs(1) + Duration::from_millis(self.tick);
        let verdict =
            self.scrubber.process(now, Arrival { from, link: 0, realm: 0 }, &mut buf, &mut Gso::default());
        let before = Segment::parse(packet).expect("a segment");
        let stamp = before.timestamp.filter(|_| from == Side::Outside);
        if stamp.is_some_and(|stamp| (stamp.wrapping_sub(self.recent) as i32) < 0) {
            assert_eq!(
                verdict.outcome,
                Outcome::Drop(Rule::OptionTimestamps),
                "tick {}: {before:?}",
                self.tick
            );
            return None;
        }
        if let Some(stamp) = stamp
            && (before.has(Flags::SYN) || (self.acked.wrapping_sub(before.seq) as i32) >= 0)
        {
            self.recent = stamp;
        }
        assert_eq!(
            verdict.outcome,
            Outcome::Forward,
            "tick {}: {from:?} {before:?} met {:?}",
            self.tick,
            verdict.met
        );
        if from == Side::Inside && before.has(Flags::ACK) && (before.ack.wrapping_sub(self.acked) as i32) > 0
        {
            self.acked = before.ack;
        }
        // What the inside has acknowledged is not let through again (rule Q.9).
        let old = from == Side::Outside && (before.seq.wrapping_sub(self.acked) as i32) < 0;
        if !old || before.has(Flags::SYN) {
            assert_eq!(
                buf.as_slice(),
                packet,
                "tick {}: {from:?} {before:?} met {:?}",
                self.tick,
                verdict.met
            );
        }
        assert!(self.scrubber.poll_emitted().is_none(), "tick {}: the scrubber says something", self.tick);
        Some(buf.as_slice().to_vec())
    }
}

/// The octet of the stream at a place.
fn octet(place: u32) -> u8 {
    (place.wrapping_mul(167) >> 3) as u8
}

struct Sender {
    una: u32,
    nxt: u32,
    window: u32,
    moved: u64,
    shift: u8,
    size: u32,
}

impl Sender {
    /// Send what fits the window, send again in other pieces what was not acknowledged for long, and ask a closed
    /// window.
    fn work(&mut self, net: &mut Network, end: u32) {
        while self.nxt < end && self.nxt < (self.una + self.window).min(self.una + 6 * MSS) {
            if self.nxt == self.una {
                // The timer starts with what is sent first (RFC 6298 section 5.1).
                self.moved = net.tick;
            }
            let room = (self.una + self.window - self.nxt).min(end - self.nxt).min(MSS);
            self.data(net, self.nxt, room, end);
            self.nxt += room;
        }
        if net.tick - self.moved > TIMEOUT && self.una <= end {
            self.moved = net.tick;
            self.size = 37 + (self.size + 21) % 64;
            if self.window == 0 && self.una < end {
                // A probe of one octet, or a keepalive: both are honest.
                if net.random(2) == 0 {
                    self.data(net, self.una, 1, end)
                } else {
                    self.keepalive(net)
                }
                self.nxt = self.nxt.max(self.una);
            } else if self.nxt > self.una || self.una == end {
                self.data(net, self.una, (self.nxt - self.una).min(self.size), end);
            } else {
                self.keepalive(net);
            }
        }
    }

    fn data(&self, net: &mut Network, place: u32, len: u32, end: u32) {
        let payload: Vec<u8> = (place..place + len).map(octet).collect();
        let mut draft = draft(net, place);
        draft.payload = &payload;
        if place + len == end {
            draft.flags = draft.flags | Flags::FIN;
        }
        net.send(&draft);
    }

    fn keepalive(&self, net: &mut Network) {
        let draft = draft(net, self.una.wrapping_sub(1));
        net.send(&draft);
    }
}

/// A segment of the outside host.
fn draft(net: &Network, place: u32) -> Draft<'static> {
    let scene = net.weather.scene;
    let seq = scene.isn.wrapping_add(1).wrapping_add(place);
    let mut draft = Draft::plain(Side::Outside, seq, scene.inside_isn.wrapping_add(1), Flags::ACK);
    draft.timestamps = scene.timestamps.then_some((1_000 + net.tick as u32, 1));
    draft
}

#[derive(Default)]
struct Receiver {
    there: BTreeSet<u32>,
    next: u32,
    read: u32,
    /// The right edge of the window that it has offered.
    edge: u32,
    end: Option<u32>,
    /// The last timestamp that came.
    stamp: u32,
}

impl Receiver {
    fn take(&mut self, net: &Network, segment: &Segment<'_>) {
        let start = segment.seq.wrapping_sub(net.weather.scene.isn).wrapping_sub(1) as i32;
        for (at, value) in segment.payload.iter().enumerate() {
            let place = start + at as i32;
            if place >= self.next as i32 && (place as u32) < self.edge {
                assert_eq!(*value, octet(place as u32), "octet {place}");
                self.there.insert(place as u32);
            }
        }
        while self.there.remove(&self.next) {
            self.next += 1;
        }
        self.stamp = segment.timestamp.unwrap_or(self.stamp);
        if segment.has(Flags::FIN) {
            self.end = Some((start + segment.payload.len() as i32) as u32);
        }
    }

    fn acknowledge(&mut self, net: &mut Network, flags: Flags) {
        let scene = net.weather.scene;
        let fin = u32::from(self.end == Some(self.next));
        let ack = scene.isn.wrapping_add(1).wrapping_add(self.next + fin);
        let shift = if scene.scale.contains(&None) { 0 } else { scene.scale[1].unwrap_or(0) };
        let mut draft = Draft::plain(Side::Inside, scene.inside_isn.wrapping_add(1), ack, flags);
        // The right edge never moves back: what the scale cannot say is rounded up.
        let edge = self.edge.max(self.read + net.weather.buffer);
        draft.window = (edge - self.next).div_ceil(1 << shift) as u16;
        self.edge = self.next + (u32::from(draft.window) << shift);
        draft.timestamps = scene.timestamps.then_some((net.tick as u32, self.stamp));
        net.send(&draft);
    }
}

/// Play a whole transfer. Returns the ticks that it took.
fn transfer(weather: Weather, profile: Profile) -> u64 {
    let scrubber = Scrubber::new(Config::new(profile), [3; 16]);
    let acked = weather.scene.isn;
    let mut net = Network {
        weather,
        scrubber,
        tick: 0,
        seed: weather.seed | 1,
        flying: Vec::new(),
        acked,
        recent: 0,
        packet: Vec::new(),
    };
    let scene = weather.scene;
    let first = scene.isn.wrapping_add(1);
    let shift = if scene.scale.contains(&None) { 0 } else { scene.scale[1].unwrap_or(0) };
    let mut sender = Sender { una: 0, nxt: 0, window: 0, moved: 0, shift, size: 37 };
    let mut receiver = Receiver { edge: weather.buffer, ..Receiver::default() };
    let (mut answered, mut open) = (false, false);
    while net.tick < LAST_TICK {
        if !open && net.tick.is_multiple_of(TIMEOUT) {
            let mut syn = Draft::plain(Side::Outside, scene.isn, 0, Flags::SYN);
            (syn.scale, syn.timestamps) =
                (scene.scale[0], scene.timestamps.then_some((1_000 + net.tick as u32, 0)));
            net.send(&syn);
        }
        for (from, packet) in net.arrivals() {
            let segment = Segment::parse(&packet).expect("a segment");
            match from {
                Side::Outside if segment.has(Flags::SYN) => {
                    let mut answer =
                        Draft::plain(Side::Inside, scene.inside_isn, first, Flags::SYN | Flags::ACK);
                    answer.window = weather.buffer as u16;
                    answer.scale = scene.scale[0].and(scene.scale[1]);
                    answer.timestamps = scene.timestamps.then_some((1, 1_000));
                    answered = true;
                    net.send(&answer);
                }
                Side::Outside if answered => {
                    receiver.take(&net, &segment);
                    receiver.acknowledge(&mut net, Flags::ACK);
                }
                Side::Outside => {}
                Side::Inside => {
                    let acked = segment.ack.wrapping_sub(first);
                    let shift = if segment.has(Flags::SYN) { 0 } else { sender.shift };
                    if segment.has(Flags::SYN) && open {
                        let draft = draft(&net, sender.nxt);
                        net.send(&draft);
                        continue;
                    }
                    open = true;
                    if acked > sender.una {
                        (sender.una, sender.moved) = (acked, net.tick);
                        sender.nxt = sender.nxt.max(acked.min(weather.octets));
                    }
                    if acked >= sender.una {
                        sender.window = u32::from(segment.window) << shift;
                    }
                    if acked > weather.octets {
                        assert_eq!(receiver.next, weather.octets);
                        return net.tick;
                    }
                }
            }
        }
        if open {
            sender.work(&mut net, weather.octets);
        }
        net.tick += 1;
        if net.tick.is_multiple_of(weather.pace) && receiver.read < receiver.next {
            let full = receiver.edge <= receiver.next;
            receiver.read = receiver.next;
            if full {
                receiver.acknowledge(&mut net, Flags::ACK);
            }
        }
    }
    panic!("not done after {} ticks: {} of {} octets", net.tick, receiver.next, weather.octets);
}

fn weather() -> impl Strategy<Value = Weather> {
    let isn = prop_oneof![(0_u32..3_000).prop_map(|back| u32::MAX - back), any::<u32>()];
    let scales = (prop::option::of(0_u8..4), prop::option::of(0_u8..4));
    let scene = (any::<bool>(), isn, any::<u32>(), any::<bool>(), scales);
    let net = ([0_u8..40, 0_u8..40], 0_u8..40, 1_u64..8);
    let hosts = (1_u32..4_000, prop_oneof![Just(60_000_u32), 200_u32..900], 1_u64..60);
    (scene, net, hosts, any::<u64>()).prop_map(
        |(scene, (loss, doubled, delay), (octets, buffer, pace), seed)| {
            let (v6, isn, inside_isn, timestamps, (outside, inside)) = scene;
            let scene =
                Scene { v6, isn, inside_isn, timestamps, scale: [outside, inside], ..Scene::default() };
            Weather { scene, octets, loss, doubled, delay, buffer, pace, seed }
        },
    )
}

proptest! {
    #[test]
    fn an_honest_transfer_passes_as_it_is(weather in weather()) {
        for profile in [Profile::Minimal, Profile::Standard] {
            transfer(weather, profile);
        }
    }
}
