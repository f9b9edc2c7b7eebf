//! The budget for failed authentication: demotion of a pair, and back by the first authentic packet, or by the rate.

use proptest::prelude::*;
use qos::behaviour::{AuthBudget, Demotion, SettingsError};
use qos::graph::{Graph, compile};
use qos::{AggregateId, Cause, Colour, Direction, Meta, Verdict};
use wire::Time;

use crate::common::{MS, SECOND, at, leaves_dropped_alone, packet, run};
use crate::running::{US, described, house};

fn of(association: u32, user: u32) -> Meta {
    Meta { association, user, aggregate: AggregateId(1), ..packet(1000) }
}

#[test]
fn a_pair_is_demoted_beyond_its_budget_until_it_authenticates() {
    let mut budget = AuthBudget::new(0, 1000, Demotion::Aggregate(AggregateId(7)), 64, 1).unwrap();
    let aggregate = |budget: &mut AuthBudget, meta| run(budget, &at(0), meta).meta.aggregate.0;
    assert!(!budget.charge(1, 2, 400, Time(0)));
    assert!(!budget.charge(1, 2, 600, Time(0)), "the budget itself is within the budget");
    assert_eq!(aggregate(&mut budget, of(1, 2)), 1);
    assert!(budget.charge(1, 2, 1, Time(0)));
    assert_eq!(aggregate(&mut budget, of(1, 2)), 7);
    // Another source or another association does not pay for it.
    assert_eq!(aggregate(&mut budget, of(1, 3)), 1);
    assert_eq!(aggregate(&mut budget, of(2, 2)), 1);
    assert_eq!(aggregate(&mut budget, of(2, 1)), 1);
    budget.authentic(1, 3);
    assert_eq!(aggregate(&mut budget, of(1, 2)), 7);
    budget.authentic(1, 2);
    assert_eq!(aggregate(&mut budget, of(1, 2)), 1);
    assert!(!budget.charge(1, 2, 1000, Time(0)), "its budget is whole again");
    leaves_dropped_alone(&mut budget);
}

#[test]
fn a_pair_can_be_recoloured_or_dropped() {
    let mut recolour = AuthBudget::new(0, 0, Demotion::Recolour(Colour::Yellow), 1, 1).unwrap();
    recolour.charge(1, 2, 1, Time(0));
    assert_eq!(run(&mut recolour, &at(0), of(1, 2)).meta.colour, Colour::Yellow);
    let red = Meta { colour: Colour::Red, ..of(1, 2) };
    assert_eq!(run(&mut recolour, &at(0), red).meta.colour, Colour::Red);

    let mut drop = AuthBudget::new(0, 0, Demotion::Drop, 1, 1).unwrap();
    drop.charge(1, 2, u64::MAX, Time(0));
    drop.charge(1, 2, u64::MAX, Time(0));
    assert_eq!(run(&mut drop, &at(0), of(1, 2)).verdict, Verdict::Drop(Cause::AuthBudget));
    drop.forgive(1, 2);
    assert_eq!(run(&mut drop, &at(0), of(1, 2)).verdict, Verdict::Pass);
}

#[test]
fn many_sources_reach_the_budget_together() {
    let mut budget = AuthBudget::new(0, 1_000_000, Demotion::Drop, 256, 1).unwrap();
    let demoted = (0..1_000_000).filter(|source| budget.charge(1, *source, 1000, Time(0))).count();
    // A million sources that fail once each have 1 ms each to spend, and are 1 s together. 256 places of 1 ms are 256 ms.
    assert!(demoted > 700_000, "{demoted}");
    // A source that never failed is not charged for them.
    assert!(!budget.is_demoted(1, 2_000_000, Time(0)));
    assert!(!budget.is_demoted(2, 999_999, Time(0)));
}

#[test]
fn one_heavy_source_is_not_forgotten_for_many_light_ones() {
    let mut budget = AuthBudget::new(0, 1_000_000_000, Demotion::Drop, 64, 1).unwrap();
    assert!(budget.charge(1, 5, 2_000_000_000, Time(0)));
    for source in 100..10_000 {
        budget.charge(1, source, 1, Time(0));
    }
    assert!(budget.is_demoted(1, 5, Time(0)));
}

#[test]
fn a_new_pair_takes_the_place_that_an_authentic_one_left() {
    let mut budget = AuthBudget::new(0, 10, Demotion::Drop, 8, 1).unwrap();
    (0..8).for_each(|source| assert!(budget.charge(1, source, 20 + u64::from(source), Time(0))));
    budget.authentic(1, 7);
    assert!(!budget.charge(1, 8, 1, Time(0)), "it starts with a whole budget");
    assert!((0..7).all(|source| budget.is_demoted(1, source, Time(0))));
    // With all places taken, the next one takes over what the lightest of them spent.
    assert!(!budget.charge(1, 9, 1, Time(0)));
    assert!((0..7).all(|source| budget.is_demoted(1, source, Time(0))));
}

#[test]
fn the_ends_of_the_number_space_are_pairs_like_others() {
    let mut budget = AuthBudget::new(0, 10, Demotion::Drop, 8, 1).unwrap();
    for (association, source) in [(0, 0), (u32::MAX, 0), (0, u32::MAX), (u32::MAX, u32::MAX)] {
        assert!(!budget.is_demoted(association, source, Time(0)));
        assert!(budget.charge(association, source, 11, Time(0)));
        assert!(budget.is_demoted(association, source, Time(0)));
        budget.authentic(association, source);
        assert!(!budget.is_demoted(association, source, Time(0)));
    }
}

#[test]
fn a_table_for_nobody_is_refused() {
    assert_eq!(AuthBudget::new(0, 1, Demotion::Drop, 0, 1).unwrap_err(), SettingsError::NoRoom);
}

#[test]
fn a_budget_is_refilled_by_its_rate_up_to_its_burst() {
    // 5 % of a processor, and 10 ms at once.
    let mut budget = AuthBudget::new(50 * MS, 10 * MS, Demotion::Drop, 64, 1).unwrap();
    let start = 3 * SECOND;
    assert!(!budget.charge(1, 2, 10 * MS, Time(start)));
    assert!(budget.charge(1, 2, MS, Time(start)));
    // 1 ms comes back in 20 ms.
    assert!(budget.is_demoted(1, 2, Time(start + 20 * MS - 1)));
    assert!(!budget.is_demoted(1, 2, Time(start + 20 * MS)));
    assert_eq!(run(&mut budget, &at(start + 19 * MS), of(1, 2)).verdict, Verdict::Drop(Cause::AuthBudget));
    assert_eq!(run(&mut budget, &at(start + 20 * MS), of(1, 2)).verdict, Verdict::Pass);
    // What was full stays what it was: the burst is never more than the burst.
    assert!(!budget.charge(1, 2, 10 * MS, Time(start + 100 * SECOND)));
    assert!(budget.charge(1, 2, 1, Time(start + 100 * SECOND)));
    // An authentic packet makes it whole at once.
    budget.authentic(1, 2);
    assert!(!budget.charge(1, 2, 10 * MS, Time(start + 100 * SECOND)));
    // A clock that goes back gives nothing back.
    assert!(budget.charge(1, 2, 1, Time(start)));
}

#[test]
fn a_pair_owes_no_more_than_a_burst() {
    let mut budget = AuthBudget::new(50 * MS, 10 * MS, Demotion::Drop, 64, 1).unwrap();
    for _ in 0..1_000 {
        budget.charge(1, 2, 2 * MS, Time(0));
    }
    assert!(budget.is_demoted(1, 2, Time(200 * MS - 1)));
    assert!(!budget.is_demoted(1, 2, Time(200 * MS)));
}

#[test]
fn a_place_is_taken_from_the_pair_that_has_spent_least_by_now() {
    let mut budget = AuthBudget::new(SECOND, 10 * MS, Demotion::Drop, 8, 1).unwrap();
    // The first has spent most at its time, and has it back when the others fail.
    budget.charge(1, 0, 20 * MS, Time(0));
    (1..8).for_each(|source| assert!(budget.charge(1, source, 15 * MS, Time(30 * MS))));
    assert!(!budget.charge(1, 8, 10 * MS, Time(30 * MS)), "it took over nothing");
    assert!((1..8).all(|source| budget.is_demoted(1, source, Time(30 * MS))));
}

proptest! {
    /// In any time, failures that are not demoted cost no more than the burst, the rate and the failure that exceeds it.
    #[test]
    fn what_is_not_demoted_keeps_to_burst_and_rate(
        rate in 0..SECOND, burst in 0..20 * MS, gaps in prop::collection::vec((0..40 * MS, 1..5 * MS), 1..200),
    ) {
        let mut budget = AuthBudget::new(rate, burst, Demotion::Drop, 8, 1).unwrap();
        let (mut now, mut cost) = (0_u64, 0_u64);
        for (gap, ns) in gaps {
            now += gap;
            if !budget.is_demoted(1, 2, Time(now)) {
                cost += ns;
                budget.charge(1, 2, ns, Time(now));
            }
            let back = (u128::from(rate) * u128::from(now) / u128::from(SECOND)) as u64;
            prop_assert!(cost <= burst + back + 5 * MS, "{} in {}", cost, now);
        }
    }
}

#[test]
fn a_graph_gives_its_budgets_the_rate_that_is_written() {
    let text = include_str!("../data/broken/auth-budget-outbound.toml");
    let description = described(&text.replace("direction = \"out\"", "direction = \"in\""), &house(US));
    let mut graph: Graph<u64> = compile(&description, &house(US), Direction::Inbound, 7).unwrap();
    // 5 % of a processor, and 1 ms at once.
    assert!(!graph.charge_failed(1, 2, MS, Time(SECOND)));
    assert!(graph.charge_failed(1, 2, 1, Time(SECOND)));
    assert!(graph.charge_failed(1, 2, 1, Time(SECOND)));
    assert!(!graph.charge_failed(1, 2, MS / 2 - 2, Time(SECOND + 10 * MS)));
    assert!(graph.charge_failed(1, 2, 1, Time(SECOND + 10 * MS)));
    graph.authentic(1, 2);
    assert!(!graph.charge_failed(1, 2, MS, Time(SECOND + 10 * MS)));
}
