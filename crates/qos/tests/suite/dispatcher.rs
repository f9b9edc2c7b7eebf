//! The dispatcher: marks, order, capability, faults of units, and what pushing costs.

mod faults;
mod random;
mod tuning;

use std::collections::VecDeque;

use qos::cost::{CostModel, Line};
use qos::discipline::{Guard, RoundRobin, StrictPriority};
use qos::dispatcher::{Assignment, Dispatcher, JobId, Pace, UNITS};
use qos::node::{Ended, Node, Offered, Wake};
use qos::unit::{HANG, Kind, MOST_AWAY, Mark, UnitFault, UnitId, UnitSpec};
use qos::{AggregateId, Amount, Cause, Limit, Measure, Meta, UnitMask};
use wire::Time;

use crate::queueing::{ByAggregate, amount, at, fifo, packet};

const A: UnitId = UnitId(0);
const B: UnitId = UnitId(1);

/// One nanosecond for an octet, on every unit.
fn octets() -> CostModel {
    CostModel::new(UNITS as u8, 4, Line { base_ns: 0, ns_per_1024: 1024, batch_saves_ns: 0 })
}

fn spec(kind: Kind) -> UnitSpec {
    UnitSpec {
        name: "unit".into(),
        kind,
        suites: (0..4).collect(),
        reserved: None,
        expedited: [AggregateId(0)].into_iter().collect(),
        low: Mark::Fixed(100),
        high: Mark::Fixed(250),
        most_committed: 1000,
    }
}

/// Aggregate 0 before aggregates 1 and 2.
fn classes() -> Node<u32> {
    let strict = StrictPriority::new(Measure::Nanoseconds, vec![Guard::NONE]);
    Node::tree(vec![Box::new(ByAggregate)], Box::new(strict), vec![fifo(5000), fifo(5000), fifo(5000)])
}

fn meta(association: u32, aggregate: u8, octets: u64) -> Meta {
    Meta {
        association,
        aggregate: AggregateId(aggregate),
        units: UnitMask(0xf),
        ..packet(association, octets, 0)
    }
}

struct Bench {
    dispatcher: Dispatcher<u32>,
    ended: Vec<Ended<u32>>,
    now: u64,
    /// What each job costs, which is what its unit will have spent.
    costs: Vec<(JobId, u64)>,
}

impl Bench {
    fn new(units: impl IntoIterator<Item = UnitSpec>) -> Bench {
        Bench::with(octets(), Pace::Pull, units)
    }

    fn with(cost: CostModel, pace: Pace, units: impl IntoIterator<Item = UnitSpec>) -> Bench {
        let mut dispatcher = Dispatcher::new(cost, pace, 5);
        for (number, unit) in units.into_iter().enumerate() {
            assert_eq!(dispatcher.attach(unit, classes()), Some(UnitId(number as u8)));
        }
        Bench { dispatcher, ended: Vec::new(), now: 0, costs: Vec::new() }
    }

    fn offer(&mut self, item: u32, meta: Meta) -> Offered {
        self.dispatcher.offer(item, meta, &at(self.now), &mut self.ended)
    }

    fn next(&mut self) -> Option<Assignment<u32>> {
        let given = self.dispatcher.next(&at(self.now), &mut self.ended)?;
        self.costs.push((given.job, given.budget.ns));
        Some(given)
    }

    fn between(&mut self, unit: UnitId) -> Option<Assignment<u32>> {
        let given = self.dispatcher.between(unit, &at(self.now), &mut self.ended)?;
        self.costs.push((given.job, given.budget.ns));
        Some(given)
    }

    /// Every assignment that can be had now: the item, the unit and the job.
    fn all(&mut self) -> Vec<(u32, UnitId, JobId)> {
        std::iter::from_fn(|| self.next()).map(|given| (given.item, given.unit, given.job)).collect()
    }

    fn items(&mut self) -> Vec<u32> {
        self.all().into_iter().map(|(item, ..)| item).collect()
    }

    fn done(&mut self, job: JobId, unit: UnitId) -> Result<(), UnitFault> {
        let spent = self.costs.iter().find(|(known, _)| *known == job).map_or(100, |(_, ns)| *ns);
        self.dispatcher.done(unit, job, spent, Time(self.now))
    }

    fn wake(&mut self) -> Wake {
        self.dispatcher.wake(&at(self.now))
    }
}

#[test]
fn a_unit_gets_work_up_to_its_high_mark_once_it_falls_to_its_low_one() {
    let mut bench = Bench::new([spec(Kind::Worker)]);
    assert_eq!(bench.wake(), Wake::Packet);
    (0..10).for_each(|n| {
        let _ = bench.offer(n, meta(1, 1, 80));
    });
    assert_eq!(bench.wake(), Wake::At(Time(0)));
    let first = bench.all();
    // 3 * 80 = 240 of 250; what is left waits.
    assert_eq!(first.len(), 3);
    assert_eq!((bench.dispatcher.committed(A).ns, bench.dispatcher.waiting(A).ns), (240, 560));
    assert_eq!(bench.wake(), Wake::At(Time(HANG)));
    // 160 committed is above the low mark.
    bench.done(first[0].2, A).unwrap();
    assert_eq!(bench.items(), []);
    bench.done(first[1].2, A).unwrap();
    assert_eq!(bench.items(), [3, 4]);
    assert_eq!(bench.dispatcher.committed(A).ns, 240);
}

#[test]
fn a_packet_above_the_high_mark_goes_to_a_unit_without_work_and_alone() {
    let mut bench = Bench::new([spec(Kind::Worker)]);
    bench.offer(0, meta(1, 1, 900));
    bench.offer(1, meta(1, 1, 10));
    let given = bench.all();
    assert_eq!(given.len(), 1);
    bench.done(given[0].2, A).unwrap();
    assert_eq!(bench.items(), [1]);
}

#[test]
fn a_head_that_does_not_fit_is_not_asked_for_again_before_an_answer() {
    let mut bench = Bench::new([spec(Kind::Worker)]);
    bench.offer(0, meta(1, 1, 90));
    bench.offer(1, meta(1, 1, 200));
    assert_eq!(bench.items(), [0]);
    // 90 is below the low mark, but 290 would be above the high one.
    assert_eq!(bench.wake(), Wake::At(Time(HANG)));
}

#[test]
fn a_pulled_packet_waits_for_what_is_committed_and_a_pushed_one_for_all_before_it() {
    let wait = |pace| {
        let mut bench = Bench::with(octets(), pace, [spec(Kind::Worker)]);
        (0..100).for_each(|n| {
            let _ = bench.offer(n, meta(1, 1, 80));
        });
        let mut ring: VecDeque<_> = bench.all().into();
        bench.offer(1000, meta(2, 0, 80));
        ring.extend(bench.all());
        let mut before = 0;
        while let Some((item, unit, job)) = ring.pop_front() {
            if item == 1000 {
                break;
            }
            bench.done(job, unit).unwrap();
            ring.extend(bench.all());
            before += 1;
        }
        before
    };
    assert_eq!(wait(Pace::Pull), 3);
    assert_eq!(wait(Pace::Push(Limit::NONE)), 100);
}

#[test]
fn a_pushing_dispatcher_ends_what_the_ring_of_the_unit_cannot_hold() {
    let limit = Limit { packets: 4, ..Limit::NONE };
    let mut bench = Bench::with(octets(), Pace::Push(limit), [spec(Kind::Inline)]);
    let offered: Vec<_> = (0..6).map(|n| bench.offer(n, meta(1, n as u8 % 2, 10))).collect();
    assert_eq!(offered[4..], [Offered::Ended; 2]);
    assert!(bench.ended.iter().all(|end| end.cause == Cause::QueueFull && end.item >= 4));
    assert_eq!(bench.all().len(), 4);
    assert_eq!(bench.offer(9, meta(1, 1, 10)), Offered::Ended);
}

#[test]
fn a_packet_goes_to_the_unit_that_finishes_it_first() {
    let mut cost = octets();
    for suite in 0..4 {
        let line = Line { base_ns: 0, ns_per_1024: 2048, batch_saves_ns: 0 };
        cost.set(B, suite, Default::default(), line);
    }
    let mut bench = Bench::with(cost, Pace::Pull, [spec(Kind::Worker), spec(Kind::Worker)]);
    // A needs 100 for each, B 200: A finishes the first and the second by 200 and the fourth by 300.
    (0..6).for_each(|n| {
        let _ = bench.offer(n, meta(n, 1, 100));
    });
    assert_eq!((bench.dispatcher.waiting(A).packets, bench.dispatcher.waiting(B).packets), (4, 2));
    assert_eq!(bench.dispatcher.waiting(B).ns, 400);
}

#[test]
fn capability_and_reservation_decide_who_may_serve() {
    let limited = UnitSpec { suites: [1].into_iter().collect(), ..spec(Kind::Worker) };
    let reserved = UnitSpec { reserved: Some([AggregateId(0)].into_iter().collect()), ..spec(Kind::Inline) };
    let mut bench = Bench::new([limited, reserved]);
    assert_eq!(bench.dispatcher.capable(1, AggregateId(0)), UnitMask(0b11));
    assert_eq!(bench.dispatcher.capable(1, AggregateId(1)), UnitMask(0b01));
    assert_eq!(bench.dispatcher.capable(0, AggregateId(0)), UnitMask(0b10));
    assert!(bench.dispatcher.capable(0, AggregateId(1)).is_empty());
    assert_eq!(bench.offer(1, meta(1, 1, 10)), Offered::Ended);
    assert_eq!(bench.offer(2, Meta { suite: 1, units: UnitMask(0b10), ..meta(1, 1, 10) }), Offered::Ended);
    assert!(bench.ended.iter().all(|end| end.cause == Cause::NoUnit));
    assert_eq!(bench.offer(3, meta(1, 0, 10)), Offered::Queued);
    assert_eq!(bench.all()[0].1, B);
}

#[test]
fn an_association_stays_with_its_unit_until_nothing_of_it_is_left_there() {
    let mut bench = Bench::new([spec(Kind::Worker), spec(Kind::Worker)]);
    (0..20).for_each(|n| {
        let _ = bench.offer(n, meta(1, 1, 100));
    });
    assert_eq!(bench.dispatcher.waiting(B), Amount::default());
    // Another association, and another aggregate of the same one, take the other unit.
    bench.offer(20, meta(2, 1, 100));
    bench.offer(21, meta(1, 0, 100));
    assert_eq!(bench.dispatcher.waiting(B).packets, 2);
    let mut flying: VecDeque<_> = bench.all().into();
    while let Some((_, unit, job)) = flying.pop_front() {
        bench.done(job, unit).unwrap();
        flying.extend(bench.all());
    }
    // It is free now, and goes where there is less to do.
    bench.offer(30, meta(3, 1, 100));
    bench.offer(31, meta(1, 1, 100));
    assert_eq!((bench.dispatcher.waiting(A).packets, bench.dispatcher.waiting(B).packets), (1, 1));
}

#[test]
fn packets_that_end_bind_nothing() {
    let mut dispatcher = Dispatcher::new(octets(), Pace::Pull, 5);
    (0..2).for_each(|_| assert!(dispatcher.attach(spec(Kind::Worker), fifo(2)).is_some()));
    let mut ended = Vec::new();
    (0..6u32).for_each(|n| {
        let _ = dispatcher.offer(n, meta(1, 1, 50), &at(0), &mut ended);
    });
    assert_eq!(ended.len(), 4);
    let given: Vec<_> = std::iter::from_fn(|| dispatcher.next(&at(0), &mut ended)).collect();
    given.into_iter().for_each(|given| dispatcher.done(A, given.job, 50, Time(0)).unwrap());
    let _ = dispatcher.offer(7, meta(2, 1, 50), &at(0), &mut ended);
    let _ = dispatcher.offer(8, meta(1, 1, 50), &at(0), &mut ended);
    assert_eq!((dispatcher.waiting(A).packets, dispatcher.waiting(B).packets), (1, 1));
}

/// The octets of a super-packet of so many pieces of 100.
fn super_packet(aggregate: u8, pieces: u64) -> Meta {
    Meta { amount: amount(pieces, pieces * 100, 0), ..meta(1, aggregate, 0) }
}

#[test]
fn a_super_packet_is_cut_to_the_budget_and_its_rest_is_next_again() {
    let mut bench = Bench::new([spec(Kind::Worker)]);
    bench.offer(7, super_packet(1, 44));
    bench.offer(8, meta(1, 1, 100));
    let mut pieces = Vec::new();
    let mut order = Vec::new();
    for turn in 0..100 {
        if turn == 3 {
            bench.offer(9, meta(2, 0, 100));
        }
        while let Some(given) = bench.next() {
            order.push(given.item);
            pieces.push((given.budget.packets, given.job));
            if given.budget.packets < given.meta.amount.packets {
                let mut rest = given.meta;
                rest.amount -= given.budget;
                bench.dispatcher.rest(given.job, given.item, rest, &at(0));
            }
            assert!(bench.dispatcher.committed(A).ns <= 250);
        }
        let Some((_, job)) = pieces.get(turn) else { break };
        bench.done(*job, A).unwrap();
    }
    assert_eq!(pieces.iter().map(|(count, _)| count).sum::<u64>(), 44 + 2);
    assert_eq!(order.iter().position(|item| *item == 9), Some(3), "{order:?}");
    assert_eq!(order.last(), Some(&8));
    assert_eq!(bench.dispatcher.committed(A), Amount::default());
    assert_eq!(bench.dispatcher.waiting(A), Amount::default());
}

#[test]
fn expedited_packets_get_in_between_the_steps_of_a_sliced_unit() {
    let mut bench = Bench::new([spec(Kind::Sliced { step: 10 })]);
    bench.offer(0, meta(1, 1, 200));
    bench.offer(1, meta(1, 2, 200));
    let slow = bench.next().unwrap();
    let between = |bench: &mut Bench| bench.between(A);
    // Aggregate 2 is not expedited.
    assert!(between(&mut bench).is_none());
    bench.offer(2, meta(2, 0, 100));
    bench.offer(3, meta(2, 0, 100));
    let first = between(&mut bench).unwrap();
    assert_eq!(first.item, 2);
    // One at a time; the next one comes when it is answered, before the slow one.
    assert!(between(&mut bench).is_none());
    assert_eq!(bench.done(first.job, A), Ok(()));
    let second = between(&mut bench).unwrap();
    assert_eq!(second.item, 3);
    assert_eq!(bench.done(second.job, A), Ok(()));
    assert_eq!(bench.done(slow.job, A), Ok(()));
    assert_eq!(bench.items(), [1]);
    assert!(between(&mut Bench::new([spec(Kind::Inline)])).is_none());
}

#[test]
fn expedited_packets_of_a_sliced_unit_wait_for_its_steps_and_not_for_each_other() {
    let mut bench = Bench::new([spec(Kind::Sliced { step: 10 })]);
    (0..3).for_each(|n| {
        let _ = bench.offer(n, meta(2, 0, 100));
    });
    let (first, second) = (bench.next().unwrap(), bench.next().unwrap());
    assert_eq!((first.item, second.item), (0, 1), "nothing else is in flight");
    bench.offer(3, meta(1, 1, 100));
    for job in [first.job, second.job] {
        assert_eq!(bench.done(job, A), Ok(()));
    }
    let third = bench.next().unwrap();
    let slow = bench.next().unwrap();
    assert_eq!((third.item, slow.item), (2, 3));
    bench.offer(4, meta(2, 0, 100));
    assert!(bench.next().is_none(), "it waits for a step of the other class");
    assert_eq!(bench.between(A).unwrap().item, 4);
}

/// The thread that asks is the one that works: while it does not, nobody is late.
#[test]
fn a_sliced_unit_does_not_hang() {
    let mut bench = Bench::new([spec(Kind::Sliced { step: 10 })]);
    bench.offer(0, meta(1, 1, 200));
    bench.next().unwrap();
    assert_eq!(bench.dispatcher.overdue(Time(10 * HANG)), None);
}

#[test]
fn a_device_has_no_more_jobs_than_its_depth() {
    let mut bench = Bench::new([spec(Kind::Async { depth: 2 })]);
    (0..5).for_each(|n| {
        let _ = bench.offer(n, meta(1, 1, 10));
    });
    let given = bench.all();
    assert_eq!(given.len(), 2);
    bench.done(given[0].2, A).unwrap();
    assert_eq!(bench.items(), [2]);
}

#[test]
fn a_thread_has_no_more_jobs_than_memory_is_meant_for() {
    let spec = UnitSpec { high: Mark::Fixed(u64::MAX), most_committed: u64::MAX, ..spec(Kind::Worker) };
    let mut bench = Bench::new([spec]);
    (0..MOST_AWAY as u32 + 5).for_each(|n| {
        let _ = bench.offer(n, meta(1, 1, 10));
    });
    let given = bench.all();
    assert_eq!(given.len(), MOST_AWAY);
    bench.done(given[0].2, A).unwrap();
    assert_eq!(bench.items(), [MOST_AWAY as u32]);
}

#[test]
fn packets_that_join_a_batch_cost_less() {
    let line = Line { base_ns: 100, ns_per_1024: 0, batch_saves_ns: 80 };
    let cost = CostModel::new(1, 4, line);
    let mut bench = Bench::with(cost, Pace::Pull, [spec(Kind::Batch { most: 4 })]);
    (0..20).for_each(|n| {
        let _ = bench.offer(n, meta(1, 1, 10));
    });
    // 100 + 3 * 20 for each batch of four; 250 hold one of these and 90, which is no second batch.
    assert_eq!(bench.all().len(), 4);
    assert_eq!(bench.dispatcher.committed(A).ns, 160);
}

#[test]
fn units_that_want_work_get_it_in_turn() {
    let mut bench = Bench::new([spec(Kind::Inline), spec(Kind::Worker)]);
    (0..40).for_each(|n| {
        let _ = bench.offer(n, meta(n, 1, 10));
    });
    let mut units = Vec::new();
    for _ in 0..8 {
        let given = bench.next().unwrap();
        units.push(given.unit);
        if given.unit == A {
            bench.done(given.job, A).unwrap();
        }
    }
    assert_eq!(units, [A, B, A, B, A, B, A, B]);
}

#[test]
fn there_are_no_more_units_than_a_mask_can_name() {
    let mut bench = Bench::new((0..UNITS).map(|_| spec(Kind::Worker)));
    assert_eq!(bench.dispatcher.attach(spec(Kind::Worker), classes()), None);
    assert!(bench.dispatcher.queues_mut(A).is_some_and(|node| node.is_empty()));
    assert_eq!(bench.dispatcher.marks(UnitId(3)), Some((100, 250)));
    assert_eq!(Bench::new([]).wake(), Wake::Never);
}

#[test]
fn a_unit_may_have_any_node_at_its_hook() {
    let mut dispatcher = Dispatcher::new(octets(), Pace::Pull, 1);
    let node =
        Node::tree(vec![Box::new(ByAggregate)], Box::new(RoundRobin::default()), vec![fifo(2), fifo(2)]);
    dispatcher.attach(spec(Kind::Worker), node);
    let mut ended = Vec::new();
    (0..8u32).for_each(|n| {
        let _ = dispatcher.offer(n, meta(1, n as u8 / 4, 10), &at(0), &mut ended);
    });
    assert_eq!(ended.iter().map(|end| end.item).collect::<Vec<_>>(), [2, 3, 6, 7]);
    let order: Vec<_> = std::iter::from_fn(|| dispatcher.next(&at(0), &mut ended)).map(|a| a.item).collect();
    assert_eq!(order, [0, 4, 1, 5]);
    assert_eq!(dispatcher.waiting(A), Amount::default());
}
