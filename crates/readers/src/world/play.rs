//! The playing of one case, packet by packet, through the middle.

use super::{Ack, Case, OddEvent, Oddity, Window};
use crate::middlebox::{Middlebox, Packets};
use crate::packet::{Draft, Scene, Segment};
use scrub::Side;
use wire::tcp::Flags;

/// The outside host's clock at its SYN.
const CLOCK: u32 = 5_000;
const STREAM: usize = 8;

/// A player of cases, with what it needs for that.
#[derive(Debug, Default)]
pub struct Player {
    scene: Scene,
    packet: Vec<u8>,
    /// The number of packets that were given to the middle.
    pub packets: u64,
    /// Whether packets are of IPv6 instead of IPv4.
    pub v6: bool,
}

impl Player {
    /// Play the case: `view` then holds what reaches the inside, together with what the inside says. `false`: the
    /// inside could not have sent its acknowledgment, since it had not got what it acknowledges; there is no such case.
    pub fn play(&mut self, case: &Case, middle: &mut impl Middlebox, view: &mut Packets) -> bool {
        view.clear();
        self.scene = Scene { v6: self.v6, ..Scene::default() };
        self.scene.timestamps = matches!(case.odd, OddEvent::On(Oddity::OldTimestamp, _));
        (self.scene.window, self.scene.scale) = match case.window {
            Window::Wide => (8_192, [None, None]),
            Window::Narrow(octets) => (octets, [Some(2), None]),
            Window::Scaled(octets) => (octets / 2, [Some(0), Some(1)]),
        };
        middle.begin(&mut self.scene);
        self.handshake(case, middle, view);
        for segment in 0..=case.spans().len() {
            self.own(case, segment as i32, middle, view);
            match case.ack {
                Ack::Inside(octets, behind) if behind == segment => {
                    if usize::from(octets) > self.arrived(view) {
                        return false;
                    }
                    self.acknowledge(octets, Side::Inside, middle, view);
                }
                Ack::Spoofed(octets, behind) if behind == segment => {
                    self.acknowledge(octets, Side::Outside, middle, view);
                }
                _ => {}
            }
            if let Some(span) = case.spans().get(segment) {
                let mut payload = [0; STREAM];
                let len = usize::from(span.1 - span.0);
                for (octet, place) in payload.iter_mut().zip(span.0..span.1) {
                    *octet = case.octet(segment, place);
                }
                let mut draft = self.draft(i32::from(span.0), CLOCK + 1 + segment as u32);
                draft.payload = &payload[..len];
                if let OddEvent::On(fault, at) = case.odd
                    && at == segment
                {
                    spoil(&mut draft, fault);
                }
                self.give(Side::Outside, &draft, middle, view);
            }
        }
        true
    }

    /// The initial sequence number of the outside host.
    pub fn isn(&self) -> u32 {
        self.scene.isn
    }

    fn handshake(&mut self, case: &Case, middle: &mut impl Middlebox, view: &mut Packets) {
        let scene = self.scene;
        let stamps = |sender: Side, value| match (scene.timestamps, sender) {
            (false, _) => None,
            (true, Side::Outside) => Some((value, 0)),
            (true, Side::Inside) => Some((value, CLOCK)),
        };
        let mut draft = Draft::plain(Side::Outside, scene.isn, 0, Flags::SYN);
        (draft.scale, draft.timestamps) = (scene.scale[0], stamps(Side::Outside, CLOCK));
        self.give(Side::Outside, &draft, middle, view);
        self.own(case, -2, middle, view);
        let first = scene.isn.wrapping_add(1);
        let mut draft = Draft::plain(Side::Inside, scene.inside_isn, first, Flags::SYN | Flags::ACK);
        (draft.scale, draft.timestamps) = (scene.scale[1], stamps(Side::Inside, 1));
        // A window in a SYN is never scaled; a narrow one is said behind the handshake.
        draft.window = if case.window == Window::Wide { scene.window } else { 1 };
        self.give(Side::Inside, &draft, middle, view);
        self.own(case, -1, middle, view);
        let draft = self.draft(0, CLOCK);
        self.give(Side::Outside, &draft, middle, view);
        if case.window != Window::Wide {
            self.acknowledge(0, Side::Inside, middle, view);
        }
    }

    /// Send the odd segment without data, if its place is here.
    fn own(&mut self, case: &Case, gap: i32, middle: &mut impl Middlebox, view: &mut Packets) {
        if let OddEvent::Own(fault, at, place) = case.odd
            && at == gap
        {
            let mut draft = self.draft(place, CLOCK);
            if fault == Oddity::Syn {
                (draft.ack, draft.flags, draft.scale) = (0, Flags(0), self.scene.scale[0]);
            }
            spoil(&mut draft, fault);
            self.give(Side::Outside, &draft, middle, view);
        }
    }

    fn acknowledge(&mut self, octets: u16, from: Side, middle: &mut impl Middlebox, view: &mut Packets) {
        let ack = self.scene.isn.wrapping_add(1).wrapping_add(u32::from(octets));
        let mut draft = Draft::plain(Side::Inside, self.scene.inside_isn + 1, ack, Flags::ACK);
        draft.window = self.scene.window;
        draft.timestamps = self.scene.timestamps.then_some((2, CLOCK));
        self.give(from, &draft, middle, view);
    }

    /// A segment of the outside host without data.
    fn draft(&self, place: i32, clock: u32) -> Draft<'static> {
        let seq = self.scene.isn.wrapping_add(1).wrapping_add(place as u32);
        let mut draft = Draft::plain(Side::Outside, seq, self.scene.inside_isn + 1, Flags::ACK);
        draft.timestamps = self.scene.timestamps.then_some((clock, 1));
        draft
    }

    fn give(&mut self, from: Side, draft: &Draft<'_>, middle: &mut impl Middlebox, view: &mut Packets) {
        self.packets += 1;
        draft.write(&self.scene, &mut self.packet);
        match from {
            // Those inside see what the inside host says as it says it.
            Side::Inside => {
                view.push(Side::Inside, &self.packet);
                middle.pass(from, &self.packet, view);
            }
            // Nobody is there to pass it on as the inside host's: no reader takes it for the outside host's.
            Side::Outside if draft.sender == Side::Inside => {
                let before = view.len();
                middle.pass(from, &self.packet, view);
                view.truncate(before);
            }
            Side::Outside => middle.pass(from, &self.packet, view),
        }
    }

    /// The number of octets in order that a host has got.
    fn arrived(&self, view: &Packets) -> usize {
        let mut there = [false; STREAM];
        for (side, packet) in view.iter() {
            let Some(segment) = Segment::parse(packet).filter(|_| side == Side::Outside) else { continue };
            if !segment.sound || segment.flags.without(Flags::PSH | Flags::FIN | Flags::URG) != Flags::ACK {
                continue;
            }
            let start = segment.seq.wrapping_sub(self.scene.isn).wrapping_sub(1) as i32;
            for place in start..start + segment.payload.len() as i32 {
                if let Some(place) = usize::try_from(place).ok().and_then(|place| there.get_mut(place)) {
                    *place = true;
                }
            }
        }
        there.iter().take_while(|there| **there).count()
    }
}

/// Make a segment odd.
fn spoil(draft: &mut Draft<'_>, fault: Oddity) {
    match fault {
        Oddity::Syn => draft.flags = draft.flags | Flags::SYN,
        Oddity::Fin => draft.flags = draft.flags | Flags::FIN,
        Oddity::Rst => draft.flags = draft.flags | Flags::RST,
        Oddity::Urg(pointer) => (draft.flags, draft.urgent) = (draft.flags | Flags::URG, pointer),
        Oddity::NoAck => draft.flags = Flags::PSH,
        Oddity::Checksum => draft.spoilt = true,
        Oddity::OldTimestamp => draft.timestamps = Some((CLOCK - 1_000, 1)),
        Oddity::BadAck => draft.ack = draft.ack.wrapping_add(1_000),
        Oddity::LowTtl => draft.ttl = 2,
        Oddity::Md5 => draft.md5 = true,
        Oddity::Signed => draft.signed = true,
    }
}
