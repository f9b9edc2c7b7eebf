//! Random conversations: mostly what honest ends would say, now and then anything.

use super::{ACK, FIN, SYN, SYN_ACK, Seg, client, server};
use proptest::prelude::*;
use wire::tcp::Flags;

#[derive(Clone, Debug)]
pub struct Step {
    pub from_client: bool,
    seq: i64,
    ack: i64,
    data: Vec<u8>,
    window: u16,
    stamps: Option<(u32, u32)>,
    flags: u8,
    tos: u8,
    pub wait: u64,
}

pub fn step() -> impl Strategy<Value = Step> {
    let data = prop_oneof![
        3 => prop::collection::vec(any::<u8>(), 0..40),
        1 => prop::collection::vec(any::<u8>(), 1000..5000),
    ];
    let numbers = (-3_i64..80, -3_i64..80);
    let rest =
        (prop_oneof![Just(65535_u16), 0_u16..200], prop::option::weighted(0.7, (95_u32..140, 495_u32..540)));
    let odd = (0_u8..40, prop_oneof![9 => Just(0_u8), 1 => 0_u8..4], 0_u64..40);
    (any::<bool>(), numbers, data, rest, odd).prop_map(
        |(from_client, (seq, ack), data, (window, stamps), (flags, tos, wait))| Step {
            from_client,
            seq,
            ack,
            data,
            window,
            stamps,
            flags,
            tos,
            wait,
        },
    )
}

/// The segment of a step. Most say what an honest end would: the next octets, everything acknowledged.
pub fn said(step: &Step, sent: [i64; 2], honest: bool) -> Seg {
    let (own, other) = if step.from_client { (sent[0], sent[1]) } else { (sent[1], sent[0]) };
    let (seq, ack) = if honest { (own, other) } else { (own - 40 + step.seq, other - 40 + step.ack) };
    let make = if step.from_client { client } else { server };
    let flags = match step.flags {
        0 => FIN,
        1 => Flags::RST,
        2 => SYN,
        3 => ACK | Flags::URG,
        4..12 => ACK | Flags::PSH,
        _ => ACK,
    };
    let segment = make(seq, &step.data).ack(ack).window(step.window).flags(flags).with(|s| s.tos = step.tos);
    match step.stamps {
        Some((value, echo)) if step.from_client => segment.stamps(value, echo),
        Some((value, echo)) => segment.stamps(echo, value),
        None => segment,
    }
}

/// The segments of the handshake, with timestamps or without.
pub fn opening(stamped: bool) -> Vec<Seg> {
    let plain = [client(-1, b"").flags(SYN), server(-1, b"").flags(SYN_ACK), client(0, b"")];
    let stamps = [(100, 0), (501, 100), (101, 501)];
    plain.into_iter().zip(stamps).map(|(s, (v, e))| if stamped { s.stamps(v, e) } else { s }).collect()
}

/// A whole conversation: the segments, and how long to wait after each.
pub fn conversation() -> impl Strategy<Value = Vec<(Seg, u64)>> {
    let steps = prop::collection::vec((step(), prop::bool::weighted(0.8)), 1..40);
    (steps, any::<bool>(), prop::bool::weighted(0.8)).prop_map(|(steps, stamped, opened)| {
        let mut all: Vec<_> =
            if opened { opening(stamped) } else { Vec::new() }.into_iter().map(|s| (s, 0)).collect();
        let mut sent = [0, 0];
        for (step, honest) in steps {
            let segment = said(&step, sent, honest);
            let side = usize::from(!step.from_client);
            sent[side] = sent[side].max(segment.seq + segment.data.len() as i64);
            all.push((segment, step.wait));
        }
        all
    })
}
