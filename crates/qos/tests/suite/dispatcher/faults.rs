//! Units that answer wrongly, hang or leave.

use qos::node::{Offered, Wake};
use qos::unit::{HANG, Kind, UnitFault, UnitId};
use qos::{Amount, Cause};
use wire::Time;

use super::{A, B, Bench, classes, meta, spec};

#[test]
fn answers_that_are_wrong_are_named_and_counted_once() {
    let mut bench = Bench::new([spec(Kind::Worker), spec(Kind::Worker)]);
    (0..3).for_each(|n| {
        let _ = bench.offer(n, meta(1, 1, 80));
    });
    let [(_, _, first), (_, _, second), (_, _, third)] = bench.all()[..] else { panic!("three jobs") };
    assert_eq!(bench.done(second, A), Err(UnitFault::Disordered));
    assert_eq!(bench.dispatcher.committed(A).ns, 160);
    assert_eq!(bench.done(second, A), Err(UnitFault::Twice));
    assert_eq!(bench.done(first, B), Err(UnitFault::Unknown));
    assert_eq!(bench.done(first, UnitId(9)), Err(UnitFault::Unknown));
    assert_eq!(bench.done(first, A), Ok(()));
    assert_eq!(bench.done(first, A), Err(UnitFault::Twice));
    assert_eq!(bench.done(second, A), Err(UnitFault::Twice));
    bench.now = HANG;
    assert_eq!(bench.done(third, A), Err(UnitFault::Late));
    assert_eq!(bench.dispatcher.committed(A), Amount::default());
    assert_eq!(bench.dispatcher.overdue(Time(bench.now)), None);
    // A job of another dispatcher is unknown.
    let mut other = Bench::new([spec(Kind::Worker)]);
    assert_eq!(other.done(third, A), Err(UnitFault::Unknown));
}

#[test]
fn a_unit_that_hangs_is_found_in_time_and_its_work_is_moved() {
    let mut bench = Bench::new([spec(Kind::Worker), spec(Kind::Worker)]);
    bench.now = 1000;
    (0..6).for_each(|n| {
        let _ = bench.offer(n, meta(1, 1, 80));
    });
    let given = bench.all();
    assert_eq!(given.len(), 3);
    assert_eq!(bench.dispatcher.overdue(Time(1000 + HANG - 1)), None);
    bench.now += HANG;
    assert_eq!(bench.wake(), Wake::At(Time(bench.now)));
    assert_eq!(bench.dispatcher.overdue(Time(bench.now)), Some(A));
    assert_eq!(bench.dispatcher.overdue(Time(bench.now)), None);
    assert_eq!(bench.done(given[0].2, A), Err(UnitFault::Late));
    let mut back = Vec::new();
    assert_eq!(bench.dispatcher.detach(A, &mut back).unwrap().in_flight, 2);
    assert_eq!(back.iter().map(|(item, _)| *item).collect::<Vec<_>>(), [3, 4, 5]);
    back.into_iter().for_each(|(item, meta)| {
        let _ = bench.offer(item, meta);
    });
    // Two older ones are still in flight, so the other unit waits for their fate.
    assert_eq!(bench.items(), []);
    let mut lost = Vec::new();
    bench.dispatcher.give_up(A, &mut lost);
    assert_eq!(lost, [given[1].2, given[2].2]);
    assert_eq!(
        bench.all().iter().map(|(item, unit, _)| (*item, *unit)).collect::<Vec<_>>(),
        [(3, B), (4, B), (5, B)]
    );
    assert_eq!(bench.done(given[1].2, A), Err(UnitFault::Late));
    // The place is free for another unit, whose jobs have numbers of their own.
    assert_eq!(bench.dispatcher.attach(spec(Kind::Worker), classes()), Some(A));
    bench.offer(7, meta(9, 1, 10));
    let (_, unit, job) = bench.all()[0];
    assert_eq!(bench.done(given[2].2, A), Err(UnitFault::Late));
    assert_eq!((unit, bench.done(job, A)), (A, Ok(())));
}

#[test]
fn a_unit_is_detached_without_loss_and_without_disorder() {
    let mut bench = Bench::new([spec(Kind::Worker), spec(Kind::Worker)]);
    (0..5).for_each(|n| {
        let _ = bench.offer(n, meta(1, 1, 80));
    });
    bench.offer(20, meta(2, 1, 80));
    let given = bench.all();
    let mut back = Vec::new();
    assert_eq!(bench.dispatcher.detach(A, &mut back).unwrap().in_flight, 3);
    assert_eq!(back.len(), 2);
    back.into_iter().for_each(|(item, meta)| {
        let _ = bench.offer(item, meta);
    });
    let older: Vec<_> = given.iter().filter(|(_, unit, _)| *unit == A).collect();
    for (_, unit, job) in older {
        assert_eq!(bench.items(), []);
        bench.done(*job, *unit).unwrap();
    }
    assert_eq!(bench.items(), [3, 4]);
    // Nothing is in flight there any more, so it is gone.
    assert_eq!(bench.dispatcher.detach(A, &mut Vec::new()), None);
    let mut back = Vec::new();
    bench.dispatcher.detach(B, &mut back);
    assert_eq!(bench.offer(9, meta(1, 1, 1)), Offered::Ended);
    assert_eq!(bench.ended.pop().unwrap().cause, Cause::NoUnit);
}
