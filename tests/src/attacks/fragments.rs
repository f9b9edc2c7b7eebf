//! F: fragments of IPv4.

use super::cases::{Case, Want};
use super::kit::{ACK, RST, client};
use super::packet::{DF, MF, V4, icmp, v4};
use super::stage::Stage;
use std::time::Duration;

/// What an honest datagram says. No two of its sixteen-bit words are the same.
pub(super) const TRUTH: &[u8; 56] = b"aAbBcCdDeEfFgGhHiIjJkKlLmMnNoOpPqQrRsStTuUvVwWxXyYzZ0011";
/// Sent behind what must not pass, so that it is seen that the rest still does.
pub(super) const AFTER: &[u8] = b"after";

/// Other octets with the same sum in every eight of them, so that no checksum tells what was put together of both.
pub(super) fn twisted(data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    data[8..].chunks_exact_mut(8).for_each(|eight| eight.rotate_left(2));
    data
}

impl V4 {
    fn twisted(&self, turns: u8) -> V4 {
        let mut other = self.clone();
        (0..turns).for_each(|_| other.data = twisted(&other.data));
        other
    }

    fn pieces(&self, size: usize) -> Vec<Vec<u8>> {
        let len = self.data.len();
        (0..len).step_by(size).map(|from| self.piece(from, (from + size).min(len))).collect()
    }
}

/// Pieces of [`TRUTH`]: from, to, and how often the octets are turned.
fn pieces(stage: &mut Stage<'_>, id: u16, all: &[(usize, usize, u8)]) {
    let packet = truth(stage, id);
    for (from, to, turns) in all {
        stage.outside(&packet.twisted(*turns).piece(*from, *to));
    }
}

fn truth(stage: &Stage<'_>, id: u16) -> V4 {
    stage.datagram(TRUTH).with(|p| p.id += id)
}

fn after(stage: &mut Stage<'_>) {
    let packet = stage.datagram(AFTER).with(|p| p.id += 60);
    stage.outside(&packet.bytes());
}

/// [`TRUTH`] whose pieces were turned: what a datagram of `pieces` says.
fn said(all: &[(usize, usize, u8)]) -> Vec<u8> {
    let whole = [&[0; 8][..], TRUTH].concat();
    let mut data = whole.clone();
    for (from, to, turns) in all {
        let mut other = whole.clone();
        (0..*turns).for_each(|_| other = twisted(&other));
        data[*from..*to].copy_from_slice(&other[*from..*to]);
    }
    data[8..].to_vec()
}

/// Contradictions: none of it passes, and the next datagram does.
fn refused(name: &'static str, text: &'static str, script: fn(&mut Stage<'_>)) -> Case {
    Case::new(name, text, Want::datagrams(&[AFTER]), script)
}

fn whole(name: &'static str, text: &'static str, script: fn(&mut Stage<'_>)) -> Case {
    Case::new(name, text, Want::datagrams(&[TRUTH, AFTER]), script)
}

#[rustfmt::skip]
pub(super) fn cases() -> Vec<Case> {
    vec![
        whole("F01", "fragments of 8 octets in order", |s| {
            truth(s, 0).pieces(8).iter().for_each(|piece| s.outside(piece));
            after(s);
        }),
        whole("F02", "fragments in reverse order", |s| {
            truth(s, 0).pieces(8).iter().rev().for_each(|piece| s.outside(piece));
            after(s);
        }),
        whole("F03", "fragments in any order, one twice", |s| {
            let pieces = truth(s, 0).pieces(8);
            (0..8).for_each(|at| s.outside(&pieces[at * 5 % 8]));
            s.outside(&pieces[3]);
            after(s);
        }),
        refused("F04", "the same place again with other octets", |s| {
            pieces(s, 0, &[(0, 32, 0), (8, 32, 0), (8, 32, 1), (32, 64, 0)]);
            after(s);
        }),
        refused("F05", "the same place again, the true octets last", |s| {
            pieces(s, 0, &[(0, 32, 1), (0, 32, 0), (32, 64, 0)]);
            pieces(s, 1, &[(32, 64, 1), (32, 64, 0), (0, 32, 0)]);
            after(s);
        }),
        refused("F06", "overlap on the left", |s| {
            pieces(s, 0, &[(16, 48, 0), (8, 24, 1), (0, 16, 0), (48, 64, 0)]);
            after(s);
        }),
        refused("F07", "overlap on the right", |s| {
            pieces(s, 0, &[(8, 24, 0), (16, 48, 1), (0, 8, 0), (48, 64, 0)]);
            after(s);
        }),
        refused("F08", "one fragment inside another", |s| {
            pieces(s, 0, &[(8, 48, 0), (16, 24, 1), (0, 8, 0), (48, 64, 0)]);
            pieces(s, 1, &[(16, 24, 0), (8, 48, 1), (0, 8, 0), (48, 64, 0)]);
            after(s);
        }),
        refused("F09", "three fragments in overlapping relations", |s| {
            pieces(s, 0, &[(0, 32, 0), (16, 48, 1), (40, 64, 2)]);
            pieces(s, 1, &[(0, 40, 0), (32, 64, 1), (16, 48, 2)]);
            pieces(s, 2, &[(32, 64, 0), (8, 40, 1), (0, 16, 2)]);
            pieces(s, 3, &[(0, 24, 0), (32, 64, 1), (16, 40, 2)]);
            after(s);
        }),
        refused("F10", "the pattern of Shankar and Paxson", |s| {
            pieces(s, 0, &[(0, 24, 0), (32, 48, 0), (48, 64, 1), (8, 40, 2)]);
            after(s);
        }),
        refused("F11", "the pattern of Novak", |s| {
            pieces(s, 0, &[(0, 24, 0), (32, 40, 0), (24, 48, 1), (48, 64, 0)]);
            after(s);
        }),
        refused("F12", "teardrop: the last one ends inside of the first", |s| {
            let packet = truth(s, 0);
            s.outside(&packet.piece(0, 40));
            let last = packet.clone().with(|p| (p.flags, p.data) = (3, packet.data[24..32].to_vec()));
            s.outside(&last.bytes());
            after(s);
        }),
        refused("F13", "ping of death: longer than the longest packet", |s| {
            let echo = v4(1, &icmp(8, 0, 1, TRUTH)).with(|p| p.src = truth(s, 0).src);
            s.outside(&echo.clone().with(|p| p.flags = MF).bytes());
            s.outside(&echo.with(|p| (p.flags, p.data) = (8189, vec![0; 1400])).bytes());
            after(s);
        }),
        Case::new("F14", "a first fragment of 8 octets of TCP", Want::stream(b">good"), |s| {
            s.open();
            let tiny = s.carried(&client(0, b"tiny"));
            [(0, 8), (8, 24)].iter().for_each(|(from, to)| s.outside(&tiny.piece(*from, *to)));
            s.send(&client(0, b"good"));
        }),
        Case::new("F15", "a second fragment over the flags of TCP", Want::stream(b">truth"), |s| {
            s.open();
            let one = s.carried(&client(0, b"data in four and forty octets of a segment").flags(ACK));
            let other = s.carried(&client(0, b"data in four and forty octets of a segment").flags(RST));
            s.outside(&one.piece(0, 40));
            s.outside(&other.piece(8, 62));
            s.send(&client(0, b"truth"));
        }),
        refused("F16", "the last one never comes", |s| {
            truth(s, 0).pieces(24)[..2].iter().for_each(|piece| s.outside(piece));
            s.wait(Duration::from_secs(31));
            after(s);
        }),
        Case::new("F17", "other octets after the time for fragments", Want::Datagrams(vec![
            said(&[(8, 32, 2), (32, 64, 1)]), AFTER.to_vec(),
        ]), |s| {
            pieces(s, 0, &[(0, 32, 0)]);
            s.wait(Duration::from_secs(31));
            pieces(s, 0, &[(32, 64, 1), (0, 32, 2)]);
            after(s);
        }),
        refused("F18", "fragments that may not be fragmented", |s| {
            let packet = truth(s, 0).with(|p| p.flags = DF);
            for (from, to, flags) in [(0, 32, DF | MF), (32, 64, DF | 4)] {
                let data = packet.data[from..to].to_vec();
                s.outside(&packet.clone().with(|p| (p.flags, p.data) = (flags, data)).bytes());
            }
            after(s);
        }),
        refused("F19", "a fragment whose length is no multiple of 8", |s| {
            let packet = truth(s, 0);
            s.outside(&packet.clone().with(|p| (p.flags, p.data) = (MF, packet.data[..37].to_vec())).bytes());
            s.outside(&packet.piece(32, 64));
            after(s);
        }),
        Case::new("F20", "identifications used again, in a flood", Want::Datagrams(vec![
            TRUTH.to_vec(), said(&[(8, 64, 1)]), AFTER.to_vec(),
        ]), |s| {
            (1..40).for_each(|id| pieces(s, id, &[(0, 32, 0)]));
            pieces(s, 0, &[(0, 32, 0), (32, 64, 0), (0, 32, 1), (32, 64, 1)]);
            after(s);
        }),
        whole("F21", "fragments with different headers", |s| {
            let packet = truth(s, 0);
            s.outside(&packet.clone().with(|p| (p.ttl, p.options) = (9, vec![1, 1, 1, 0])).piece(0, 32));
            s.outside(&packet.clone().with(|p| p.protocol = 132).twisted(1).piece(32, 64));
            s.outside(&packet.with(|p| p.ttl = 200).piece(32, 64));
            after(s);
        }),
        whole("F22", "a fragment of another link between", |s| {
            pieces(s, 0, &[(0, 32, 0)]);
            s.link = 7;
            pieces(s, 0, &[(32, 64, 1)]);
            s.link = 0;
            pieces(s, 0, &[(32, 64, 0)]);
            after(s);
        }),
    ]
}
