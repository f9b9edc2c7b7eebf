//! DualPI2 against RFC 9332 appendix A: coupling, controller, ramp, overload, scheduler, and the two queues together.

use proptest::prelude::*;
use qos::dequeue::{Branch, DualPi2, DualPi2Settings, DualQueue};
use qos::{Admit, Amount, Backlog, Cause, Dequeue, Enqueue, Leave, Limit, Meta, Store};
use wire::Time;

use crate::common::{MS, SECOND, at, packet};

fn controller() -> DualPi2 {
    DualPi2::new(DualPi2Settings::default()).unwrap()
}

/// A packet with this ECN field that came at this time.
fn of(ecn: u8, arrived: u64) -> Meta {
    Meta { ecn, arrived: Time(arrived), ..packet(1000) }
}

/// A controller whose classic queue has waited longer than the target until `p'` is at least this much.
fn driven(base: f64) -> (DualPi2, u64) {
    let mut controller = controller();
    let mut now = SECOND;
    controller.update(Time(now), None, None);
    while controller.base() < base {
        now += controller.update_every();
        controller.update(Time(now), None, Some(&of(0, now - 16 * MS)));
    }
    (controller, now)
}

#[test]
fn parameters_are_those_of_figure_2() {
    let controller = controller();
    assert_eq!(controller.update_every(), 15 * MS, "min(target, RTT_max / 3)");
    assert_eq!(controller.overload(), 0.25, "p_Cmax = min(1 / k^2, 1)");
    let far = DualPi2::new(DualPi2Settings { rtt_max: 30 * MS, coupling: 0.5, ..DualPi2Settings::default() })
        .unwrap();
    assert_eq!(far.update_every(), 10 * MS);
    assert_eq!(far.overload(), 1.0);
}

#[test]
fn classic_is_squared_and_low_latency_is_coupled() {
    for base in [0.01, 0.1, 0.3, 0.45] {
        let (controller, _) = driven(base);
        let base = controller.base();
        assert_eq!(controller.classic(), base * base);
        assert_eq!(controller.coupled(), 2.0 * base);
        // Equation (1) of section 2.1: p_C = (p_CL / k)^2.
        assert!((controller.classic() - (controller.coupled() / 2.0).powi(2)).abs() < 1e-15);
    }
    let (controller, _) = driven(0.6);
    assert_eq!(controller.coupled(), 1.0);
}

#[test]
fn the_controller_is_figure_8() {
    let mut controller = controller();
    let (alpha, beta) = (0.1 * 0.015 / 0.01, 0.3 / 0.1);
    let (mut base, mut previous) = (0.0_f64, 0.0);
    let mut now = 15 * SECOND;
    controller.update(Time(now), None, None);
    for step in 0..1000_u64 {
        now += 15 * MS;
        let (classic, low) = (step * 7 % 41 * MS, step * 5 % 23 * MS);
        let (classic_head, low_head) = (of(0, now - classic), of(1, now - low));
        controller.update(Time(now), Some(&low_head), Some(&classic_head));
        // Between two updates nothing changes.
        controller.update(Time(now + 15 * MS - 1), None, None);
        let current = classic.max(low) as f64 / 1e9;
        base = (base + alpha * (current - 0.015) + beta * (current - previous)).clamp(0.0, 1.0);
        previous = current;
        assert!((controller.base() - base).abs() < 1e-9, "step {step}: {} not {base}", controller.base());
    }
    assert!(base > 0.0);
}

#[test]
fn updates_that_nobody_called_for_are_made_up_for() {
    let (mut late, now) = driven(0.2);
    let mut timely = late;
    let head = of(0, now);
    for step in 1..=10 {
        timely.update(Time(now + step * 15 * MS), None, None);
    }
    late.update(Time(now + 150 * MS), None, None);
    assert!((late.base() - timely.base()).abs() < 1e-12);
    late.update(Time(u64::MAX), None, Some(&head));
    assert_eq!(late.base(), 1.0);
    late.update(Time(0), None, None);
}

#[test]
fn the_ramp_is_figure_5() {
    let controller = controller();
    let at = |us: u64| controller.ramp(us * 1000);
    assert_eq!([0, 800, 900, 1000, 1100, 1200, 9999].map(at), [0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.0]);
    let step = DualPi2::new(DualPi2Settings { ramp_range: 0, ..DualPi2Settings::default() }).unwrap();
    assert_eq!([799_999, 800_000].map(|ns| step.ramp(ns)), [0.0, 1.0]);
}

#[test]
fn marks_and_drops_are_spread_with_their_likelihood() {
    let (mut controller, now) = driven(0.3);
    let (classic, coupled) = (controller.classic(), controller.coupled());
    let mut count = |branch, meta: Meta, leave| {
        let mut places = Vec::new();
        for place in 0..10_000 {
            match controller.decide(branch, &meta, 1, Time(now)) {
                Leave::Give => {}
                other => {
                    assert_eq!(other, leave);
                    places.push(place);
                }
            }
        }
        // Neighbours are as far apart as the likelihood says, but for one packet.
        let gaps: Vec<i32> = places.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().max().unwrap() - gaps.iter().min().unwrap() <= 1);
        places.len() as f64 / 10_000.0
    };
    assert!((count(Branch::Classic, of(0, now), Leave::Drop(Cause::Aqm)) - classic).abs() < 2e-4);
    assert!((count(Branch::Classic, of(2, now), Leave::Mark) - classic).abs() < 2e-4);
    assert!((count(Branch::Low, of(1, now), Leave::Mark) - coupled).abs() < 2e-4);
}

#[test]
fn the_low_latency_queue_is_marked_by_the_greater_of_two() {
    let mut controller = controller();
    // Without a classic queue, the ramp alone: one half.
    let waited = of(1, SECOND - MS);
    let marks = |controller: &mut DualPi2, packets| {
        let decide = |_| controller.decide(Branch::Low, &waited, packets, Time(SECOND)) == Leave::Mark;
        (0..1000).map(decide).filter(|mark| *mark).count()
    };
    assert!((499..=500).contains(&marks(&mut controller, 2)));
    assert_eq!(marks(&mut controller, 1), 0, "a queue of one packet is not marked by the ramp");
    // The coupled probability alone, with the ramp at rest.
    let (mut controller, now) = driven(0.45);
    let fresh = of(1, now);
    let share =
        (0..1000).filter(|_| controller.decide(Branch::Low, &fresh, 9, Time(now)) == Leave::Mark).count();
    assert!((share as f64 / 1000.0 - controller.coupled()).abs() < 0.002);
}

#[test]
fn overload_drops_what_could_be_marked() {
    // p_C >= p_Cmax: ECN is not heeded any more, in both queues.
    let (mut controller, now) = driven(0.5);
    assert!(controller.classic() >= controller.overload());
    let mut share = |branch, ecn, leave| {
        let decide = |_| controller.decide(branch, &of(ecn, now), 9, Time(now)) == leave;
        (0..10_000).map(decide).filter(|is| *is).count() as f64 / 10_000.0
    };
    let drop = Leave::Drop(Cause::Aqm);
    assert!((share(Branch::Classic, 2, drop) - 0.25).abs() < 0.02);
    assert_eq!(share(Branch::Classic, 2, Leave::Mark), 0.0);
    assert!(share(Branch::Low, 1, drop) > 0.2);
    assert!(share(Branch::Low, 1, Leave::Mark) > 0.5);
}

#[test]
fn the_ecn_field_chooses_the_queue() {
    assert_eq!(
        [0, 1, 2, 3].map(|ecn| Branch::of(&of(ecn, 0))),
        [Branch::Classic, Branch::Low, Branch::Classic, Branch::Low]
    );
}

/// Two queues with this many packets in each.
fn queues(low: u32, classic: u32) -> DualQueue<u32> {
    let mut queue = DualQueue::new(controller(), 1000);
    (0..low).for_each(|item| queue.put(item, of(1, 0)));
    (0..classic).for_each(|item| queue.put(1000 + item, of(0, 0)));
    queue
}

#[test]
fn the_classic_queue_gets_its_share_while_both_have_packets() {
    let mut queue = queues(500, 500);
    let items: Vec<u32> = (0..160).map(|_| queue.get().unwrap().0).collect();
    assert_eq!(items.iter().filter(|item| **item >= 1000).count(), 10, "one of 16");
    // Each queue is in order.
    let (classic, low): (Vec<u32>, Vec<u32>) = items.iter().partition(|item| **item >= 1000);
    assert!(classic.is_sorted() && low.is_sorted());
    assert_eq!(queue.amount().packets, 840);
}

#[test]
fn a_queue_that_is_alone_gets_everything_and_owes_nothing() {
    let mut queue = queues(3, 0);
    assert_eq!([(); 4].map(|()| queue.get().map(|(item, _)| item)), [Some(0), Some(1), Some(2), None]);
    (0..100).for_each(|item| queue.put(item, of(0, 0)));
    assert!((0..90).all(|_| queue.get().is_some()));
    queue.put(7, of(1, 0));
    assert_eq!(queue.turn(), Some(Branch::Low));
    // What either queue got while it was alone is not made up for.
    (0..100).for_each(|item| queue.put(item, of(1, 0)));
    let classic = (0..32).filter(|_| queue.get().is_some_and(|(_, meta)| meta.ecn == 0)).count();
    assert_eq!(classic, 2);
    // Two queues that were empty begin anew, with the low latency queue.
    let mut queue = queues(1, 1);
    assert_eq!([(); 2].map(|()| queue.get().map(|(item, _)| item)), [Some(0), Some(1000)]);
    queue.put(2, of(0, 0));
    queue.put(3, of(1, 0));
    assert_eq!(queue.turn(), Some(Branch::Low));
    let mut queue = queues(100, 0);
    assert!((0..90).all(|_| queue.get().is_some()));
    queue.put(7, of(0, 0));
    assert_eq!(queue.turn(), Some(Branch::Low));
}

#[test]
fn a_packet_that_is_put_back_is_next_again() {
    let mut queue = queues(100, 100);
    let mut twin = queues(100, 100);
    for _ in 0..150 {
        let peeked = *queue.peek().unwrap();
        let (item, meta) = queue.get().unwrap();
        assert_eq!(peeked, meta);
        queue.put_back(item, meta);
        assert_eq!(queue.get().unwrap().0, item);
        assert_eq!(twin.get().unwrap().0, item, "the balance is as if it had never left");
    }
}

#[test]
fn a_packet_of_a_flow_can_be_taken_out() {
    let mut queue = queues(2, 2);
    queue.put(77, Meta { flow: 5, ..of(0, 0) });
    assert_eq!(queue.get_of(5).map(|(item, _)| item), Some(77));
    assert_eq!(queue.get_of(5).map(|(item, _)| item), None);
    assert_eq!(queue.amount(), Amount { packets: 4, octets: 4000, ns: 400_000 });
}

#[test]
fn room_and_limit_bound_both_queues_together() {
    let mut queue = DualQueue::new(controller(), 3);
    let none = Backlog { now: Amount::default(), limit: Limit::NONE };
    for item in 0..3 {
        let meta = of(item as u8, 0);
        assert_eq!(queue.admit(&meta, &none, &at(0)), Admit::Take);
        queue.put(item, meta);
    }
    assert_eq!(queue.admit(&of(0, 0), &none, &at(0)), Admit::Refuse(Cause::QueueFull));
    let mut queue: DualQueue<u32> = DualQueue::new(controller(), 100);
    let full = Backlog { now: queues(2, 2).amount(), limit: Limit { octets: 4999, ..Limit::NONE } };
    assert_eq!(queue.admit(&of(0, 0), &full, &at(0)), Admit::Refuse(Cause::QueueFull));
}

/// Serve one packet a millisecond for a while, as many come as told; the waiting time of the last one that left.
fn serve(queue: &mut DualQueue<u32>, seconds: u64, ecn: u8, mut arrivals: impl FnMut(Leave) -> u32) -> u64 {
    let mut waited = 0;
    let mut last = Leave::Give;
    for now in (SECOND..(1 + seconds) * SECOND).step_by(MS as usize) {
        for item in 0..arrivals(last) {
            let backlog = Backlog { now: queue.amount(), limit: Limit::NONE };
            if queue.admit(&of(ecn, now), &backlog, &at(now)) == Admit::Take {
                queue.put(item, of(ecn, now));
            }
        }
        while let Some(head) = queue.peek().copied() {
            let backlog = Backlog { now: queue.amount(), limit: Limit::NONE };
            last = queue.decide(&head, &backlog, &at(now));
            queue.get();
            if !matches!(last, Leave::Drop(_)) {
                waited = now - head.arrived.0;
                break;
            }
        }
    }
    waited
}

#[test]
fn the_classic_queue_settles_at_its_target() {
    // Senders that send 1.5 packets for each that leaves and heed nothing: the drop share must become one third.
    let mut queue = DualQueue::new(controller(), 1000);
    let mut number = 0;
    let waited = serve(&mut queue, 60, 0, |_| {
        number += 1;
        1 + number % 2
    });
    assert!(waited.abs_diff(15 * MS) <= 3 * MS, "{waited}");
    assert!((queue.controller().classic() - 1.0 / 3.0).abs() < 0.05, "{}", queue.controller().classic());
}

#[test]
fn an_overloaded_low_latency_queue_is_held_to_the_classic_target() {
    // Appendix A.2: "the Base AQM will keep the L queue to the Classic target (default 15 ms) by shedding L packets".
    let mut queue = DualQueue::new(controller(), 1000);
    let waited = serve(&mut queue, 60, 1, |_| 2);
    assert!(waited.abs_diff(15 * MS) <= 3 * MS, "{waited}");
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let default = DualPi2Settings::default();
    for settings in [
        DualPi2Settings { target: 0, ..default },
        DualPi2Settings { rtt_max: 2, ..default },
        DualPi2Settings { coupling: 0.0, ..default },
        DualPi2Settings { coupling: f64::NAN, ..default },
        DualPi2Settings { classic_share: 1, ..default },
    ] {
        assert!(DualPi2::new(settings).is_err(), "{settings:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_time_panics_and_nothing_is_lost(
        calls in prop::collection::vec((any::<u64>(), any::<u64>(), 0_u8..4, 0_u8..4), 1..100),
    ) {
        let mut queue = DualQueue::new(controller(), 50);
        let (mut queued, mut left) = (0_u32, 0);
        for (now, octets, ecn, call) in calls {
            let meta = Meta { amount: Amount { packets: 1, octets, ns: octets }, ..of(ecn, now) };
            let backlog = Backlog { now: queue.amount(), limit: Limit::NONE };
            if call < 3 && queue.admit(&meta, &backlog, &at(now)) == Admit::Take {
                queue.put(queued, meta);
                queued += 1;
            } else if let Some(head) = queue.peek().copied() {
                queue.decide(&head, &backlog, &at(now));
                prop_assert_eq!(queue.get().map(|(_, meta)| meta), Some(head));
                left += 1;
            }
            prop_assert_eq!(queue.amount().packets, u64::from(queued - left));
        }
    }
}
