//! The cost model follows what is measured, and the limit that tunes itself follows the unit.

use proptest::prelude::*;
use qos::Direction;
use qos::cost::{CostModel, Line, Work};
use qos::unit::{AggregateSet, Dql, SuiteSet, UnitId};
use qos::{AggregateId, Amount};
use wire::Time;

use crate::queueing::amount;

const LINE: Line = Line { base_ns: 400, ns_per_1024: 1000, batch_saves_ns: 300 };

fn work(unit: u8, suite: u16) -> Work {
    Work { unit: UnitId(unit), suite, direction: Direction::Outbound, joining: 0 }
}

const LONG: Amount = Amount { packets: 1, octets: 1400, ns: 0 };
const SHORT: Amount = Amount { packets: 1, octets: 64, ns: 0 };

#[test]
fn a_cost_begins_at_its_line() {
    let mut model = CostModel::new(2, 3, LINE);
    assert_eq!(model.ns(&work(0, 0), &LONG), 400 + 1367);
    // Ten pieces in a batch: nine save.
    assert_eq!(model.ns(&Work { joining: 9, ..work(0, 0) }, &amount(10, 10_240, 0)), 4000 + 10_000 - 2700);
    assert_eq!(model.ns(&Work { joining: 9, ..work(0, 0) }, &amount(1, 0, 0)), 100);
    let slow = Line { base_ns: 4000, ns_per_1024: 56_000, batch_saves_ns: 0 };
    model.set(UnitId(1), 2, Direction::Outbound, slow);
    assert_eq!(model.ns(&work(1, 2), &LONG), 4000 + 76_562);
    // Suites and units beyond the table cost as the last ones.
    assert_eq!(model.ns(&work(9, 9), &LONG), 4000 + 76_562);
    // Another unit, another suite, the other direction are as before.
    let inbound = Work { direction: Direction::Inbound, ..work(1, 2) };
    for other in [work(0, 2), work(1, 1), inbound] {
        assert_eq!(model.ns(&other, &LONG), 1767);
    }
    assert_eq!(CostModel::new(1, 1, Line::default()).ns(&work(0, 0), &Amount::default()), 1);
}

#[test]
fn a_cost_follows_a_unit_that_becomes_half_or_twice_as_fast() {
    let mut model = CostModel::new(1, 1, LINE);
    for speed in [2.0, 0.5, 1.0, 8.0, 0.1] {
        let spent = (1767.0 * speed) as u64;
        (0..300).for_each(|_| model.learn(&work(0, 0), &LONG, spent));
        let cost = model.ns(&work(0, 0), &LONG) as f64;
        assert!((cost / spent as f64 - 1.0).abs() < 0.01, "{cost} for {spent}");
    }
    // What is learned of long packets says nothing of short ones, nor of other work.
    assert_eq!(model.ns(&work(0, 0), &SHORT), 462);
    assert_eq!(model.ns(&Work { direction: Direction::Inbound, ..work(0, 0) }, &LONG), 1767);
}

#[test]
fn an_outlier_moves_a_cost_by_a_thirty_second_part() {
    let mut model = CostModel::new(1, 1, LINE);
    model.learn(&work(0, 0), &LONG, 4_000_000);
    assert_eq!(model.ns(&work(0, 0), &LONG), 1767 + 1767 / 32);
    let mut model = CostModel::new(1, 1, LINE);
    model.learn(&work(0, 0), &LONG, 0);
    assert!(model.ns(&work(0, 0), &LONG) > 1500);
}

#[test]
fn turns_in_which_the_thread_was_stopped_make_no_packet_dear() {
    for (stopped, most) in [(5, 1.15), (3, 1.3), (2, 1.5)] {
        let mut model = CostModel::new(1, 1, LINE);
        let mut highest: f64 = 0.0;
        for turn in 0..10_000 {
            let spent = if turn % stopped == 0 { 20_000_000 } else { 1767 };
            model.learn(&work(0, 0), &LONG, spent);
            highest = highest.max(model.ns(&work(0, 0), &LONG) as f64 / 1767.0);
        }
        assert!(highest < most, "{highest:.2} of the cost with one stopped turn of {stopped}");
    }
}

#[test]
fn the_average_has_the_weight_of_one_eighth_for_less_and_of_a_thirty_second_part_for_more() {
    let mut model = CostModel::new(1, 1, Line { base_ns: 100_000, ns_per_1024: 0, batch_saves_ns: 0 });
    let mut expected = 100_000.0;
    for spent in [200_000.0, 150_000.0, 80_000.0, 120_000.0] {
        model.learn(&work(0, 0), &LONG, spent as u64);
        expected += (spent - expected) / if spent > expected { 32.0 } else { 8.0 };
        let cost = model.ns(&work(0, 0), &LONG) as f64;
        assert!((cost - expected).abs() < 20.0, "{cost} for {expected}");
    }
}

#[test]
fn a_cost_reaches_what_is_measured_to_the_last_bits() {
    let mut model = CostModel::new(1, 1, Line { base_ns: 1_000_000, ns_per_1024: 0, batch_saves_ns: 0 });
    for spent in [1_500_000, 700_000] {
        (0..600).for_each(|_| model.learn(&work(0, 0), &LONG, spent));
        let cost = model.ns(&work(0, 0), &LONG);
        assert!(cost.abs_diff(spent) <= 32, "{cost} for {spent}");
    }
}

/// Rounds in which the unit gets as much as the limit allows, and does `speed` in a round. The answer is the limit.
fn rounds(dql: &mut Dql, speed: u64, start: u64, count: u64) -> u64 {
    let mut queued = 0;
    for round in start..start + count {
        let room = dql.limit().saturating_sub(queued);
        dql.give(room);
        dql.hold_back(1000);
        queued += room;
        let done = queued.min(speed);
        queued -= done;
        dql.answer(done, Time(round * 1_000_000));
    }
    dql.limit()
}

#[test]
fn a_limit_that_lets_the_unit_run_dry_grows_and_one_with_slack_falls() {
    let mut dql = Dql::new(1_000, 1_000_000);
    assert_eq!(dql.limit(), 1_000);
    let limit = rounds(&mut dql, 50_000, 0, 400);
    assert!((50_000..=110_000).contains(&limit), "{limit}");
    // The unit is ten times slower: the slack is seen for a hold time, and is taken off.
    let limit = rounds(&mut dql, 5_000, 1000, 90);
    assert!(limit >= 50_000, "{limit} before the hold time");
    let limit = rounds(&mut dql, 5_000, 1090, 300);
    assert!((5_000..=12_000).contains(&limit), "{limit}");
}

#[test]
fn a_limit_does_not_grow_for_a_unit_that_had_nothing_to_wait_for() {
    let mut dql = Dql::new(1_000, 1_000_000);
    for round in 0..100 {
        dql.give(500);
        dql.answer(500, Time(round));
    }
    assert_eq!(dql.limit(), 1_000);
    dql.give(500);
    dql.take_back(200);
    dql.hold_back(300);
    dql.answer(300, Time(100));
    assert!(dql.limit() > 1_000);
}

proptest! {
    #[test]
    fn a_limit_stays_between_its_ends(
        rounds in prop::collection::vec((0..5000u64, 0..5000u64, 0..6000u64), 1..100),
    ) {
        let mut dql = Dql::new(700, 9_000);
        for (number, (given, held, answered)) in rounds.into_iter().enumerate() {
            dql.give(given);
            dql.hold_back(held);
            dql.answer(answered, Time(number as u64 * 30_000_000));
            prop_assert!((700..=9_000).contains(&dql.limit()));
        }
    }

    #[test]
    fn sets_have_what_they_were_made_of(numbers in prop::collection::btree_set(0..300u16, 0..40)) {
        let suites: SuiteSet = numbers.iter().copied().collect();
        let aggregates: AggregateSet = numbers.iter().map(|number| AggregateId(*number as u8)).collect();
        for number in 0..300 {
            prop_assert_eq!(suites.has(number), numbers.contains(&number));
        }
        for number in 0..=255 {
            let is_in = numbers.iter().any(|other| *other as u8 == number) && number < 64;
            prop_assert_eq!(aggregates.has(AggregateId(number)), is_in);
        }
    }
}
