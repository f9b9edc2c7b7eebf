//! Limits and marks that follow the speed of the unit.

use std::collections::VecDeque;

use qos::Limit;
use qos::dispatcher::{Dispatcher, JobId, Pace};
use qos::enqueue::TailDrop;
use qos::node::Ended;
use qos::store::Fifo;
use qos::unit::{Kind, Mark, UnitSpec};
use wire::Time;

use super::{A, Bench, meta, octets, spec};
use crate::queueing::{at, queue};

/// The packets that a queue of 10,000 ns takes, for a unit that needs so many nanoseconds for a packet of 100 octets.
fn accepted(dispatcher: &mut Dispatcher<u32>, ended: &mut Vec<Ended<u32>>, spent: u64) -> u64 {
    // The cost model learns from so many packets what one costs now.
    for _ in 0..400 {
        let _ = dispatcher.offer(0, meta(1, 1, 100), &at(0), ended);
        while let Some(given) = dispatcher.next(&at(0), ended) {
            dispatcher.done(A, given.job, spent, Time(0)).unwrap();
        }
    }
    (0..2000).for_each(|n| {
        let _ = dispatcher.offer(n, meta(1, 1, 100), &at(0), ended);
    });
    let waiting = dispatcher.waiting(A).packets;
    while let Some(given) = dispatcher.next(&at(0), ended) {
        dispatcher.done(A, given.job, spent, Time(0)).unwrap();
    }
    waiting
}

#[test]
fn a_limit_in_nanoseconds_takes_as_much_as_the_unit_can_do_at_its_speed() {
    let mut dispatcher = Dispatcher::new(octets(), Pace::Pull, 5);
    let limit = Limit { ns: 10_000, ..Limit::NONE };
    let node = queue(TailDrop, Fifo::with_capacity(256), limit);
    dispatcher.attach(spec(Kind::Inline), node).unwrap();
    let mut ended = Vec::new();
    assert_eq!(accepted(&mut dispatcher, &mut ended, 100), 100);
    assert_eq!(accepted(&mut dispatcher, &mut ended, 200), 50);
    assert!((195..=200).contains(&accepted(&mut dispatcher, &mut ended, 50)));
}

/// A worker that needs what its packets cost, and a dispatcher that looks every so many nanoseconds.
fn tuned(reaction: u64, speed: u64) -> (u64, f64) {
    let auto = UnitSpec { low: Mark::Auto, high: Mark::Auto, most_committed: 200_000, ..spec(Kind::Worker) };
    let mut bench = Bench::new([auto]);
    let mut ring: VecDeque<(JobId, u64)> = VecDeque::new();
    let (mut busy, mut free_at, mut item) = (0, 0, 0);
    for turn in 0..400_000_000 / reaction {
        bench.now = turn * reaction;
        while bench.dispatcher.waiting(A).packets < 300 {
            bench.offer(item, meta(item, 1, 1000));
            item += 1;
        }
        while let Some(&(job, ends)) = ring.front().filter(|(_, ends)| *ends <= bench.now) {
            bench.dispatcher.done(A, job, speed, Time(ends.max(bench.now))).unwrap();
            ring.pop_front();
        }
        while let Some(given) = bench.next() {
            free_at = bench.now.max(free_at) + speed;
            busy += speed;
            ring.push_back((given.job, free_at));
        }
    }
    (bench.dispatcher.marks(A).unwrap().1, busy as f64 / 400_000_000.0)
}

#[test]
fn marks_tune_themselves_to_the_time_the_dispatcher_needs_to_come_back() {
    for reaction in [5_000, 20_000, 50_000] {
        let (limit, load) = tuned(reaction, 1_000);
        assert!(load > 0.97, "reaction {reaction}: busy {load}, limit {limit}");
        assert!(limit >= reaction && limit <= 4 * reaction + 10_000, "reaction {reaction}: limit {limit}");
    }
}
