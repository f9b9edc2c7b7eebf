//! Segments that take the short way get what the long way gives them. Without rule T.2 nothing takes the short way, and where all
//! checksums are right the rule has nothing to say.

mod kit;

use kit::{ACK, FIN, SYN, SYN_ACK, Seg, World, client, server};
use proptest::prelude::*;
use scrub::{Config, Midstream, Mode, Profile, Protect, Rule};
use std::time::Duration;
use wire::tcp::Flags;

#[derive(Clone, Debug)]
struct Step {
    from_client: bool,
    seq: i64,
    ack: i64,
    data: Vec<u8>,
    window: u16,
    stamps: Option<(u32, u32)>,
    flags: u8,
    tos: u8,
    wait: u64,
}

fn step() -> impl Strategy<Value = Step> {
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

/// Most segments say what an honest end would: the next octets, everything acknowledged.
fn said(step: &Step, sent: [i64; 2], honest: bool) -> Seg {
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

proptest! {
    #[test]
    fn the_short_way_gives_what_the_long_way_gives(
        steps in prop::collection::vec((step(), prop::bool::weighted(0.8)), 1..40),
        stamped in any::<bool>(),
        both in any::<bool>(),
        pick_up in any::<bool>(),
    ) {
        let worlds = [Mode::On, Mode::Off].map(|mode| {
            let mut config = Config::new(Profile::Standard);
            config.set_mode(Rule::TcpChecksum, mode).expect("it may be off");
            config.protect = if both { Protect::Both } else { Protect::Inside };
            config.midstream = if pick_up { Midstream::PickUp } else { Midstream::Drop };
            World::new(config)
        });
        let [mut short, mut long] = worlds;
        let mut sent = [0, 0];
        let mut opening = vec![
            client(-1, b"").flags(SYN),
            server(-1, b"").flags(SYN_ACK),
            client(0, b""),
        ];
        if stamped {
            opening = opening.into_iter().zip([(100, 0), (501, 100), (101, 501)]).map(|(s, (v, e))| s.stamps(v, e)).collect();
        }
        if pick_up {
            opening.clear();
        }
        for segment in opening {
            prop_assert_eq!(short.pass(&segment), long.pass(&segment));
        }
        for (step, honest) in steps {
            let segment = said(&step, sent, honest);
            let side = usize::from(!step.from_client);
            sent[side] = sent[side].max(segment.seq + segment.data.len() as i64);
            prop_assert_eq!(short.pass(&segment), long.pass(&segment));
            prop_assert_eq!(short.own(), long.own());
            let (a, b) = (short.scrubber.connections(), long.scrubber.connections());
            prop_assert_eq!((a.len(), a.half_open()), (b.len(), b.half_open()));
            // What is recorded in other pieces may take other chunks; nothing is left on either way.
            prop_assert_eq!(a.stored() == 0, b.stored() == 0);
            short.wait(Duration::from_secs(step.wait));
            long.wait(Duration::from_secs(step.wait));
        }
    }
}
