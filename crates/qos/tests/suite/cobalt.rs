//! COBALT: the control law of CoDel with a count that fades, and the probability of BLUE.

use qos::dequeue::{Cobalt, CodelSettings, step};
use qos::{Amount, Backlog, Cause, Context, Dequeue, Leave, Limit, Meta};
use wire::Time;

use crate::common::{Event, Fifo, MS, SECOND, packet};

const SETTINGS: CodelSettings =
    CodelSettings { target: 5 * MS, interval: 100 * MS, max_packet: 1500, ecn: true };

const DROP: Leave = Leave::Drop(Cause::Aqm);

fn cobalt() -> Cobalt {
    Cobalt::new(SETTINGS).unwrap()
}

fn decide(cobalt: &mut Cobalt, now: u64, waited: u64, ecn: u8, random: u64) -> Leave {
    let head = Meta { arrived: Time(now - waited), ecn, ..packet(1000) };
    let backlog = Backlog { now: Amount { packets: 100, octets: 100_000, ns: 0 }, ..Backlog::default() };
    cobalt.decide(&head, &backlog, &Context { now: Time(now), random })
}

/// Ask each 0.1 ms with packets that waited long, until this count.
fn until(cobalt: &mut Cobalt, now: &mut u64, count: u32) {
    while cobalt.count() < count {
        *now += MS / 10;
        decide(cobalt, *now, 20 * MS, 0, u64::MAX);
    }
}

#[test]
fn drops_fall_at_the_times_of_the_control_law() {
    let mut cobalt = cobalt();
    let mut times = Vec::new();
    let mut now = SECOND;
    while times.len() < 50 {
        if decide(&mut cobalt, now, 20 * MS, 0, u64::MAX) == DROP {
            times.push(now);
        }
        now += 1000;
    }
    // The first drop is an interval after the target was exceeded; the count is 2 then.
    let mut expected = SECOND + 100 * MS;
    for (count, time) in (2..).zip(times) {
        assert_eq!(time, expected.next_multiple_of(1000), "count {count}");
        expected += step(100 * MS, count);
    }
}

#[test]
fn marks_take_the_place_of_drops_of_the_control_law_and_not_of_blue() {
    let mut cobalt = cobalt();
    let marks =
        (SECOND..3 * SECOND).step_by(100_000).map(|now| decide(&mut cobalt, now, 20 * MS, 1, u64::MAX));
    let marks: Vec<Leave> = marks.collect();
    assert!(marks.contains(&Leave::Mark) && !marks.contains(&DROP));
    // BLUE drops them with its probability, and also where all draws share the random bits of one call.
    for step in 0..64 {
        cobalt.queue_full(Time(4 * SECOND + step * 6 * MS));
    }
    assert_eq!(cobalt.probability(), 1 << 30);
    let drops = (0..10_000).filter(|_| decide(&mut cobalt, 5 * SECOND, 0, 1, 7) == DROP).count();
    assert!(drops.abs_diff(2500) < 175, "{drops}");
}

#[test]
fn the_last_packet_of_a_queue_leaves_whatever_the_probability_is() {
    let mut cobalt = cobalt();
    for step in 0..257 {
        cobalt.queue_full(Time(SECOND + step * 6 * MS));
    }
    assert_eq!(cobalt.probability(), u32::MAX);
    let head = Meta { arrived: Time(2 * SECOND), ..packet(1000) };
    let context = Context { now: Time(4 * SECOND), random: 7 };
    let mut decide = |packets| {
        let backlog =
            Backlog { now: Amount { packets, octets: 1000 * packets, ns: 0 }, ..Backlog::default() };
        cobalt.decide(&head, &backlog, &context)
    };
    assert_eq!([decide(3), decide(2), decide(1)], [DROP, DROP, Leave::Give]);
}

#[test]
fn the_count_fades_when_the_queue_is_short() {
    let mut cobalt = cobalt();
    let mut now = SECOND;
    until(&mut cobalt, &mut now, 20);
    // It is not forgotten with the first packet below the target.
    decide(&mut cobalt, now, 0, 0, u64::MAX);
    assert!(cobalt.count() >= 19);
    // It falls at the instants of the control law: 20 instants take 2 * sqrt(20) intervals, near 0.9 s.
    let mut counts = Vec::new();
    for time in (now..now + SECOND).step_by(10 * MS as usize) {
        assert_eq!(decide(&mut cobalt, time, 0, 0, u64::MAX), Leave::Give);
        counts.push(cobalt.count());
    }
    assert!(counts.is_sorted_by(|one, next| one >= next && one - next <= 1), "{counts:?}");
    assert!((1..=10).contains(&counts[50]), "{counts:?}");
    assert_eq!(counts[counts.len() - 1], 0);
}

#[test]
fn blue_rises_when_the_queue_is_full_and_falls_when_it_is_empty_once_a_target() {
    let mut cobalt = cobalt();
    for number in 0..100 {
        cobalt.queue_full(Time(SECOND + number * MS));
    }
    // The times 0, 6, 12, ... 96 ms.
    assert_eq!(cobalt.probability(), 17 << 24);
    for number in 0..100 {
        cobalt.queue_empty(Time(2 * SECOND + number * MS));
    }
    assert_eq!(cobalt.probability(), (17 << 24) - (17 << 20));
    for number in 0..100_000 {
        cobalt.queue_empty(Time(3 * SECOND + number * 6 * MS));
    }
    assert_eq!(cobalt.probability(), 0);
    for number in 0..1000 {
        cobalt.queue_full(Time(10_000 * SECOND + number * 6 * MS));
    }
    assert_eq!(cobalt.probability(), u32::MAX);
}

#[test]
fn a_flood_that_heeds_nothing_is_held_by_blue_where_codel_alone_is_not() {
    // One packet a millisecond leaves, four come, and the queue has room for 100.
    fn blocked<D: Dequeue>(dequeue: D) -> (usize, Fifo<D>) {
        let mut queue = Fifo::new(dequeue);
        queue.limit = Limit { packets: 100, ..Limit::NONE };
        let mut blocked = 0;
        for now in (SECOND..31 * SECOND).step_by(MS as usize) {
            for _ in 0..4 {
                let fits = queue.fits(&packet(1000));
                if fits {
                    queue.put(now, packet(1000));
                }
                blocked += usize::from(!fits && now > 21 * SECOND);
            }
            queue.take(now);
        }
        (blocked, queue)
    }
    let (of_cobalt, queue) = blocked(cobalt());
    assert!(queue.dequeue.probability() > 1 << 30, "{}", queue.dequeue.probability());
    let (of_codel, _) = blocked(qos::dequeue::Codel::new(SETTINGS).unwrap());
    // In the last ten seconds.
    assert!(of_cobalt * 4 < of_codel, "{of_cobalt} refused by a full queue, with CoDel alone {of_codel}");
}

#[test]
fn a_calm_queue_drops_nothing() {
    let mut queue = Fifo::new(cobalt());
    for now in (SECOND..10 * SECOND).step_by(MS as usize) {
        queue.put(now, packet(1000));
        queue.put(now, packet(1000));
        for _ in 0..2 {
            assert_eq!(queue.take(now + MS), [Event::Gave(now)]);
        }
    }
}

#[test]
fn a_queue_of_one_packet_drops_nothing() {
    let mut cobalt = cobalt();
    let backlog = Backlog { now: Amount { packets: 2, octets: 2500, ns: 0 }, ..Backlog::default() };
    for now in (SECOND..5 * SECOND).step_by(MS as usize) {
        let head = Meta { arrived: Time(now - 50 * MS), ..packet(1000) };
        assert_eq!(
            cobalt.decide(&head, &backlog, &Context { now: Time(now), random: u64::MAX }),
            Leave::Give
        );
    }
}

#[test]
fn instants_that_were_late_are_not_made_up_for_by_a_run() {
    for (ecn, signal) in [(0, DROP), (1, Leave::Mark)] {
        let mut cobalt = cobalt();
        let mut now = SECOND;
        until(&mut cobalt, &mut now, 10);
        // Nothing was asked for in one second, in which 30 instants of the control law fell.
        now += SECOND;
        let leaves = (0..10).map(|step| decide(&mut cobalt, now + step * MS, 20 * MS, ecn, u64::MAX));
        assert_eq!(leaves.filter(|leave| *leave == signal).count(), 1);
        assert_eq!(cobalt.count(), 10, "a law that cannot be followed is not tightened");
        assert_eq!(cobalt.drop_next(), Time(now + step(100 * MS, 10)));
    }
}

#[test]
fn an_empty_queue_ends_the_drop_state_and_lowers_the_probability() {
    let mut cobalt = cobalt();
    let mut now = SECOND;
    until(&mut cobalt, &mut now, 10);
    cobalt.queue_empty(Time(now));
    now += MS;
    decide(&mut cobalt, now, 20 * MS, 0, u64::MAX);
    assert_eq!(cobalt.drop_next(), Time(now + step(100 * MS, 10)), "the drop state is entered anew");

    cobalt.queue_full(Time(now));
    let before = cobalt.probability();
    let mut queue = Fifo::new(cobalt);
    for step in 1..=60 {
        queue.put(now + step * 6 * MS, packet(1000));
        queue.take(now + step * 6 * MS);
    }
    // The packet that leaves an empty queue behind lowers it by 1/4096.
    assert_eq!(queue.dequeue.probability(), before.saturating_sub(60 << 20));
}

#[test]
fn a_long_silence_is_made_up_for_at_once() {
    let mut cobalt = cobalt();
    let mut now = SECOND;
    until(&mut cobalt, &mut now, 5000);
    // 64 instants are made up for one by one, and the rest by the sum of the control law.
    decide(&mut cobalt, now + 2 * SECOND, 0, 0, u64::MAX);
    let left = f64::from(cobalt.count()).sqrt();
    let expected = 5000_f64.sqrt() - 10.0;
    assert!((left - expected).abs() < 2.0, "{left}, not {expected}");
    assert!(cobalt.drop_next().0 > now + 2 * SECOND);
    decide(&mut cobalt, now + 3_000_000 * SECOND, 0, 0, u64::MAX);
    assert_eq!(cobalt.count(), 0);
}

#[test]
fn extreme_times_do_not_panic() {
    let mut cobalt = Cobalt::new(CodelSettings { interval: u64::MAX, target: 1, ..SETTINGS }).unwrap();
    for now in [u64::MAX, 0, 1, u64::MAX] {
        let head = Meta { arrived: Time(u64::MAX - 5), ..packet(u64::MAX) };
        cobalt.decide(&head, &Backlog::default(), &Context { now: Time(now), random: 0 });
        cobalt.queue_full(Time(now));
        cobalt.queue_empty(Time(now));
    }
    assert!(Cobalt::new(CodelSettings { interval: 0, ..SETTINGS }).is_err());
}
