//! Shapers: what leaves is within rate and burst, whatever comes, and waits no longer than it must.

use proptest::prelude::*;
use qos::behaviour::shape::{Pacer, ShapeSettings};
use qos::behaviour::{SettingsError, Shape};
use qos::dequeue::{Give, Shaped};
use qos::{Amount, Backlog, Behaviour, Cause, Context, Dequeue, Leave, Meta, Verdict};
use wire::Time;

use crate::common::{MS, SECOND, at, leaves_dropped_alone, packet, run};

const SETTINGS: ShapeSettings = ShapeSettings { rate: 1_000_000, burst: 0, overhead: 0, limit_ns: SECOND };

/// A queue that gives whatever is next, at a rate.
fn shaped(settings: ShapeSettings) -> Shaped {
    Shaped::new(Pacer::new(settings).unwrap(), Box::new(Give))
}

/// The times at which packets leave that all wait from time 0.
fn departures(settings: ShapeSettings, sizes: &[u64]) -> Vec<u64> {
    let mut shaped = shaped(settings);
    let mut now = 0;
    let mut times = Vec::new();
    for size in sizes {
        let head = Meta { arrived: Time(now), ..packet(*size) };
        loop {
            match shaped.decide(&head, &Backlog::default(), &at(now)) {
                Leave::Give => break times.push(now),
                Leave::Wait(until) => now = until.0,
                other => panic!("{other:?}"),
            }
        }
    }
    times
}

#[test]
fn without_a_burst_packets_are_spaced_by_their_own_time() {
    assert_eq!(departures(SETTINGS, &[1000, 500, 1000, 1]), [0, MS, MS * 3 / 2, MS * 5 / 2]);
}

#[test]
fn a_burst_leaves_at_once_and_then_the_rate() {
    let settings = ShapeSettings { burst: 2000, ..SETTINGS };
    assert_eq!(departures(settings, &[1000; 5]), [0, 0, 0, MS, 2 * MS]);
}

#[test]
fn the_overhead_of_the_link_counts_for_each_piece() {
    let pacer = Pacer::new(ShapeSettings { overhead: 38, ..SETTINGS }).unwrap();
    let pieces = Meta { amount: Amount { packets: 45, octets: 64_000, ns: 0 }, ..Meta::default() };
    assert_eq!(pacer.size(&packet(962)), 1000);
    assert_eq!(pacer.size(&pieces), 64_000 + 45 * 38);
    let settings = ShapeSettings { overhead: 38, ..SETTINGS };
    assert_eq!(departures(settings, &[962, 962]), [0, MS]);
}

#[test]
fn parts_of_nanoseconds_are_not_lost() {
    // 3 octets a second: a packet of one octet takes a third of a second.
    let settings = ShapeSettings { rate: 3, limit_ns: u64::MAX, ..SETTINGS };
    assert_eq!(departures(settings, &[1; 4]), [0, 333_333_333, 666_666_666, SECOND]);
}

#[test]
fn the_behaviour_passes_and_tells_when_the_next_one_is_due() {
    let mut shape = Shape::new(ShapeSettings { limit_ns: 2 * MS, ..SETTINGS }).unwrap();
    assert_eq!(shape.eligible_at(), None);
    assert_eq!(run(&mut shape, &at(5 * MS), packet(1000)).verdict, Verdict::Pass);
    assert_eq!(shape.eligible_at(), Some(Time(6 * MS)));
    let mut batch = [crate::common::entry(packet(1000)); 4];
    shape.run(&mut batch, &at(5 * MS));
    let out = Verdict::Drop(Cause::ShapedOut);
    assert_eq!(batch.map(|entry| entry.verdict), [Verdict::Pass, Verdict::Pass, out, out]);
    assert_eq!(shape.eligible_at(), Some(Time(8 * MS)));
    leaves_dropped_alone(&mut shape);
}

#[test]
fn a_rate_of_nothing_is_refused() {
    assert_eq!(Pacer::new(ShapeSettings { rate: 0, ..SETTINGS }).unwrap_err(), SettingsError::NoRate);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_time_holds_rate_and_burst_and_one_packet(
        rate in 1_000_u64..10_000_000,
        burst in 0_u64..20_000,
        sizes in prop::collection::vec(20_u64..9_000, 2..60),
    ) {
        let settings = ShapeSettings { rate, burst, overhead: 24, limit_ns: u64::MAX };
        let times = departures(settings, &sizes);
        for from in 0..times.len() {
            let mut octets = 0;
            for to in from..times.len() {
                // What left before `to`, from `from` on, was sent at the rate, beside the burst.
                let allowed = u128::from(times[to] - times[from] + 1) * u128::from(rate) / u128::from(SECOND);
                prop_assert!(u128::from(octets) <= allowed + u128::from(burst) + 1);
                octets += sizes[to] + 24;
            }
        }
        // The shaper is no slower than it must be: everything waits from the start.
        let before: u64 = sizes[..sizes.len() - 1].iter().map(|size| size + 24).sum();
        let needed = u128::from(before.saturating_sub(burst)) * u128::from(SECOND) / u128::from(rate);
        prop_assert!(u128::from(times[times.len() - 1]) <= needed + 1);
    }

    #[test]
    fn no_number_panics(
        rate in 1_u64..,
        burst: u64,
        overhead: u32,
        packets in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 1..30),
    ) {
        let settings = ShapeSettings { rate, burst, overhead, limit_ns: u64::MAX };
        let (mut shaped, mut shape) = (shaped(settings), Shape::new(settings).unwrap());
        for (now, packets, octets) in packets {
            let meta = Meta { amount: Amount { packets, octets, ns: 0 }, ..Meta::default() };
            let context = Context { now: Time(now), random: 0 };
            shaped.decide(&meta, &Backlog::default(), &context);
            run(&mut shape, &context, meta);
            shape.eligible_at();
        }
    }
}
