//! CoDel against RFC 8289: the control law to the nanosecond, the state machine, and the pseudocode on random traffic.

use std::collections::VecDeque;

use proptest::prelude::*;
use qos::behaviour::SettingsError;
use qos::dequeue::{Codel, CodelSettings, step};
use qos::{Amount, Backlog, Cause, Dequeue, Leave, Meta};
use wire::Time;

use crate::common::{Event, Fifo, MS, SECOND, at, packet};

const SETTINGS: CodelSettings =
    CodelSettings { target: 5 * MS, interval: 100 * MS, max_packet: 1500, ecn: true };

fn codel() -> Codel {
    Codel::new(SETTINGS).unwrap()
}

/// What is said of a packet that waited this long, with a long queue behind it.
fn decide(codel: &mut Codel, now: u64, waited: u64, ecn: u8) -> Leave {
    let head = Meta { arrived: Time(now - waited), ecn, ..packet(1000) };
    let backlog = Backlog { now: Amount { packets: 100, octets: 100_000, ns: 0 }, ..Backlog::default() };
    codel.decide(&head, &backlog, &at(now))
}

/// The greatest whole number `x` with `x * sqrt(count) <= interval`, found by bisection in whole numbers.
fn exact(interval: u64, count: u32) -> u64 {
    let (mut low, mut high) = (0_u128, u128::from(interval) + 1);
    while high - low > 1 {
        let middle = (low + high) / 2;
        let fits = middle * middle <= u128::from(interval) * u128::from(interval) / u128::from(count);
        if fits { low = middle } else { high = middle }
    }
    low as u64
}

#[test]
fn the_control_law_is_exact() {
    assert_eq!(
        [1, 4, 9, 16, 100].map(|count| step(100 * MS, count)),
        [100_000_000, 50_000_000, 33_333_333, 25_000_000, 10_000_000]
    );
    assert_eq!(step(100 * MS, 2), 70_710_678);
    for count in (1..10_000).chain([1 << 20, u32::MAX - 1, u32::MAX]) {
        for interval in [1, 3, 20 * MS, 100 * MS, SECOND, 1 << 52, (1 << 53) + 1] {
            assert_eq!(step(interval, count), exact(interval, count), "{interval} / sqrt({count})");
        }
    }
}

#[test]
fn drops_fall_at_the_times_of_the_control_law() {
    // A queue that never gets shorter than the target is asked each microsecond.
    let mut codel = codel();
    let mut times = Vec::new();
    let mut now = SECOND;
    while times.len() < 200 {
        if decide(&mut codel, now, 20 * MS, 0) == Leave::Drop(Cause::Aqm) {
            times.push(now);
        }
        now += 1000;
    }
    // The target is exceeded from one second on, for an interval: the first drop. t(n) = t(n-1) + interval / sqrt(n-1):
    // the count is 1 as the second one is scheduled.
    let mut expected = SECOND + 100 * MS;
    for (number, time) in (1..).zip(times) {
        let round = expected.next_multiple_of(1000);
        assert_eq!(time, round, "drop {number}");
        expected += exact(100 * MS, number);
    }
}

#[test]
fn marks_fall_at_the_same_times_as_drops() {
    let (mut drops, mut marks) = (codel(), codel());
    for now in (SECOND..4 * SECOND).step_by(100_000) {
        let dropped = decide(&mut drops, now, 20 * MS, 0);
        let marked = decide(&mut marks, now, 20 * MS, 1);
        assert_eq!(dropped == Leave::Drop(Cause::Aqm), marked == Leave::Mark, "{now}");
        assert!(!matches!(marked, Leave::Drop(_)));
    }
    let mut deaf = Codel::new(CodelSettings { ecn: false, ..SETTINGS }).unwrap();
    assert!(
        (SECOND..2 * SECOND)
            .step_by(100_000)
            .any(|now| { decide(&mut deaf, now, 20 * MS, 3) == Leave::Drop(Cause::Aqm) })
    );
}

#[test]
fn a_short_excess_drops_nothing() {
    let mut codel = codel();
    assert_eq!(decide(&mut codel, SECOND, 5 * MS, 0), Leave::Give);
    assert_eq!(decide(&mut codel, SECOND + 99 * MS, 5 * MS, 0), Leave::Give);
    // One packet below the target, and the interval begins anew.
    assert_eq!(decide(&mut codel, SECOND + 100 * MS - 1, 5 * MS - 1, 0), Leave::Give);
    assert_eq!(decide(&mut codel, SECOND + 100 * MS, 5 * MS, 0), Leave::Give);
    assert_eq!(decide(&mut codel, SECOND + 200 * MS - 1, 5 * MS, 0), Leave::Give);
    assert_eq!(decide(&mut codel, SECOND + 200 * MS, 5 * MS, 0), Leave::Drop(Cause::Aqm));
    assert!(codel.is_dropping());
}

#[test]
fn a_queue_of_one_packet_drops_nothing() {
    let head = packet(1000);
    for (octets, leave) in [(2500, Leave::Give), (2501, Leave::Drop(Cause::Aqm))] {
        let mut codel = codel();
        let backlog = Backlog { now: Amount { packets: 3, octets, ns: 0 }, ..Backlog::default() };
        codel.decide(&head, &backlog, &at(SECOND));
        assert_eq!(codel.decide(&head, &backlog, &at(2 * SECOND)), leave);
    }
}

#[test]
fn the_drop_state_ends_with_the_first_packet_below_the_target() {
    let mut codel = codel();
    decide(&mut codel, SECOND, 20 * MS, 0);
    assert_eq!(decide(&mut codel, SECOND + 100 * MS, 20 * MS, 0), Leave::Drop(Cause::Aqm));
    assert_eq!(decide(&mut codel, SECOND + 100 * MS, 20 * MS, 0), Leave::Give, "the one behind it leaves");
    assert!(codel.is_dropping());
    assert_eq!(codel.drop_next(), Time(SECOND + 200 * MS));
    assert_eq!(decide(&mut codel, SECOND + 150 * MS, MS, 0), Leave::Give);
    assert!(!codel.is_dropping());
    assert_eq!(decide(&mut codel, SECOND + 201 * MS, 20 * MS, 0), Leave::Give);
}

#[test]
fn the_rate_is_taken_up_again_soon_after_and_not_later() {
    let count_after = |pause: u64| {
        let mut codel = codel();
        let mut now = SECOND;
        // The first drop counts as 1, and nine more in the drop state make it 10.
        while codel.count() < 10 {
            decide(&mut codel, now, 20 * MS, 0);
            now += MS / 10;
        }
        decide(&mut codel, now, 20 * MS, 0);
        let next = codel.drop_next().0;
        assert_eq!(decide(&mut codel, now, 0, 0), Leave::Give);
        decide(&mut codel, next + pause - 100 * MS, 20 * MS, 0);
        assert_eq!(decide(&mut codel, next + pause, 20 * MS, 0), Leave::Drop(Cause::Aqm));
        codel.count()
    };
    // "delta = count_ - lastcount_", if less than 16 intervals have passed.
    assert_eq!(count_after(200 * MS), 9);
    assert_eq!(count_after(16 * 100 * MS - 1), 9);
    assert_eq!(count_after(16 * 100 * MS), 1);
}

#[test]
fn extreme_times_do_not_panic() {
    let mut codel = Codel::new(CodelSettings { interval: u64::MAX, target: 1, ..SETTINGS }).unwrap();
    let head = Meta { arrived: Time(u64::MAX), ..packet(u64::MAX) };
    for now in [u64::MAX, 0, 1, u64::MAX] {
        codel.decide(&head, &Backlog::default(), &at(now));
    }
    let mut codel = crate::codel::codel();
    for now in [SECOND, 2 * SECOND, 3 * SECOND, u64::MAX, u64::MAX, 5] {
        let backlog = Backlog { now: Amount { packets: 9, octets: 9000, ns: 0 }, ..Backlog::default() };
        codel.decide(&packet(1000), &backlog, &at(now));
    }
    let zero = CodelSettings { target: 0, ..SETTINGS };
    assert_eq!(Codel::new(zero).unwrap_err(), SettingsError::NoInterval);
}

#[test]
fn drops_are_spread_and_no_run_empties_the_queue() {
    // Ten milliseconds of packets come at once and go on coming as fast as they leave: one packet a millisecond.
    let mut queue = Fifo::new(codel());
    (0..10).for_each(|_| queue.put(SECOND, packet(1000)));
    let mut run = 0;
    for now in (SECOND + MS..10 * SECOND).step_by(MS as usize) {
        queue.put(now, packet(1000));
        let dropped = queue.take(now).iter().filter(|event| matches!(event, Event::Dropped(_))).count();
        run = run.max(dropped);
    }
    assert_eq!(run, 1);
    assert!(queue.len() <= 6, "the standing queue is gone: {}", queue.len());
}

/// RFC 8289 sections 5.2 to 5.6, transcribed, over a queue of its own.
struct Pseudocode {
    packets: VecDeque<Meta>,
    bytes: u64,
    first_above_time: u64,
    drop_next: u64,
    count: u32,
    lastcount: u32,
    dropping: bool,
    events: Vec<Event>,
}

impl Pseudocode {
    fn dodequeue(&mut self, now: u64) -> (Option<Meta>, bool) {
        let Some(packet) = self.packets.pop_front() else {
            self.first_above_time = 0;
            return (None, false);
        };
        self.bytes -= packet.amount.octets;
        let mut ok_to_drop = false;
        let sojourn_time = now - packet.arrived.0;
        if sojourn_time < SETTINGS.target || self.bytes <= SETTINGS.max_packet {
            self.first_above_time = 0;
        } else if self.first_above_time == 0 {
            self.first_above_time = now + SETTINGS.interval;
        } else if now >= self.first_above_time {
            ok_to_drop = true;
        }
        (Some(packet), ok_to_drop)
    }

    fn control_law(t: u64, count: u32) -> u64 {
        t + exact(SETTINGS.interval, count)
    }

    fn drop(&mut self, packet: Option<Meta>) {
        self.events.push(Event::Dropped(packet.unwrap().arrived.0));
    }

    fn dequeue(&mut self, now: u64) {
        let mut r = self.dodequeue(now);
        if self.dropping {
            if !r.1 {
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                self.drop(r.0);
                self.count += 1;
                r = self.dodequeue(now);
                if !r.1 {
                    self.dropping = false;
                } else {
                    self.drop_next = Self::control_law(self.drop_next, self.count);
                }
            }
        } else if r.1 {
            self.drop(r.0);
            r = self.dodequeue(now);
            self.dropping = true;
            let delta = self.count - self.lastcount;
            self.count = 1;
            if delta > 1 && (now as i64 - self.drop_next as i64) < 16 * SETTINGS.interval as i64 {
                self.count = delta;
            }
            self.drop_next = Self::control_law(now, self.count);
            self.lastcount = self.count;
        }
        self.events.extend(r.0.map(|packet| Event::Gave(packet.arrived.0)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_component_is_the_pseudocode(
        phases in prop::collection::vec((1_u64..4000, 0_u64..3000, 20_u64..1500, 50_u64..400), 1..8),
    ) {
        let mut queue = Fifo::new(codel());
        let mut pseudocode = Pseudocode {
            packets: VecDeque::new(),
            bytes: 0,
            first_above_time: 0,
            drop_next: 0,
            count: 0,
            lastcount: 0,
            dropping: false,
            events: Vec::new(),
        };
        let mut events = Vec::new();
        let mut now = SECOND;
        // In each phase, packets of one size come with one gap and leave with another, in microseconds.
        for (gap_in, gap_out, size, steps) in phases {
            let mut next = [now + gap_in * 1000, now + gap_out * 1000];
            for _ in 0..steps {
                now = next[0].min(next[1]);
                if next[0] <= next[1] {
                    let meta = packet(size);
                    queue.put(now, meta);
                    pseudocode.packets.push_back(Meta { arrived: Time(now), ..meta });
                    pseudocode.bytes += size;
                    next[0] += gap_in * 1000;
                } else {
                    events.extend(queue.take(now));
                    pseudocode.dequeue(now);
                    next[1] += gap_out.max(1) * 1000;
                }
            }
        }
        prop_assert_eq!(events, pseudocode.events);
    }
}
