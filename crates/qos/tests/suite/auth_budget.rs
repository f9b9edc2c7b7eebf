//! The budget for failed authentication: demotion of a pair, and back by the first authentic packet.

use qos::behaviour::{AuthBudget, Demotion, SettingsError};
use qos::{AggregateId, Cause, Colour, Meta, Verdict};

use crate::common::{at, leaves_dropped_alone, packet, run};

fn of(association: u32, user: u32) -> Meta {
    Meta { association, user, aggregate: AggregateId(1), ..packet(1000) }
}

#[test]
fn a_pair_is_demoted_beyond_its_budget_until_it_authenticates() {
    let mut budget = AuthBudget::new(1000, Demotion::Aggregate(AggregateId(7)), 64, 1).unwrap();
    let aggregate = |budget: &mut AuthBudget, meta| run(budget, &at(0), meta).meta.aggregate.0;
    assert!(!budget.charge(1, 2, 400));
    assert!(!budget.charge(1, 2, 600), "the budget itself is within the budget");
    assert_eq!(aggregate(&mut budget, of(1, 2)), 1);
    assert!(budget.charge(1, 2, 1));
    assert_eq!(aggregate(&mut budget, of(1, 2)), 7);
    // Another source or another association does not pay for it.
    assert_eq!(aggregate(&mut budget, of(1, 3)), 1);
    assert_eq!(aggregate(&mut budget, of(2, 2)), 1);
    assert_eq!(aggregate(&mut budget, of(2, 1)), 1);
    budget.authentic(1, 3);
    assert_eq!(aggregate(&mut budget, of(1, 2)), 7);
    budget.authentic(1, 2);
    assert_eq!(aggregate(&mut budget, of(1, 2)), 1);
    assert!(!budget.charge(1, 2, 1000), "its budget is whole again");
    leaves_dropped_alone(&mut budget);
}

#[test]
fn a_pair_can_be_recoloured_or_dropped() {
    let mut recolour = AuthBudget::new(0, Demotion::Recolour(Colour::Yellow), 1, 1).unwrap();
    recolour.charge(1, 2, 1);
    assert_eq!(run(&mut recolour, &at(0), of(1, 2)).meta.colour, Colour::Yellow);
    let red = Meta { colour: Colour::Red, ..of(1, 2) };
    assert_eq!(run(&mut recolour, &at(0), red).meta.colour, Colour::Red);

    let mut drop = AuthBudget::new(0, Demotion::Drop, 1, 1).unwrap();
    drop.charge(1, 2, u64::MAX);
    drop.charge(1, 2, u64::MAX);
    assert_eq!(run(&mut drop, &at(0), of(1, 2)).verdict, Verdict::Drop(Cause::AuthBudget));
    drop.forgive(1, 2);
    assert_eq!(run(&mut drop, &at(0), of(1, 2)).verdict, Verdict::Pass);
}

#[test]
fn many_sources_reach_the_budget_together() {
    let mut budget = AuthBudget::new(1_000_000, Demotion::Drop, 256, 1).unwrap();
    let demoted = (0..1_000_000).filter(|source| budget.charge(1, *source, 1000)).count();
    // A million sources that fail once each have 1 ms each to spend, and are 1 s together. 256 places of 1 ms are 256 ms.
    assert!(demoted > 700_000, "{demoted}");
    // A source that never failed is not charged for them.
    assert!(!budget.is_demoted(1, 2_000_000));
    assert!(!budget.is_demoted(2, 999_999));
}

#[test]
fn one_heavy_source_is_not_forgotten_for_many_light_ones() {
    let mut budget = AuthBudget::new(1_000_000_000, Demotion::Drop, 64, 1).unwrap();
    assert!(budget.charge(1, 5, 2_000_000_000));
    for source in 100..10_000 {
        budget.charge(1, source, 1);
    }
    assert!(budget.is_demoted(1, 5));
}

#[test]
fn a_new_pair_takes_the_place_that_an_authentic_one_left() {
    let mut budget = AuthBudget::new(10, Demotion::Drop, 8, 1).unwrap();
    (0..8).for_each(|source| assert!(budget.charge(1, source, 20 + u64::from(source))));
    budget.authentic(1, 7);
    assert!(!budget.charge(1, 8, 1), "it starts with a whole budget");
    assert!((0..7).all(|source| budget.is_demoted(1, source)));
    // With all places taken, the next one takes over what the lightest of them spent.
    assert!(!budget.charge(1, 9, 1));
    assert!((0..7).all(|source| budget.is_demoted(1, source)));
}

#[test]
fn the_ends_of_the_number_space_are_pairs_like_others() {
    let mut budget = AuthBudget::new(10, Demotion::Drop, 8, 1).unwrap();
    for (association, source) in [(0, 0), (u32::MAX, 0), (0, u32::MAX), (u32::MAX, u32::MAX)] {
        assert!(!budget.is_demoted(association, source));
        assert!(budget.charge(association, source, 11));
        assert!(budget.is_demoted(association, source));
        budget.authentic(association, source);
        assert!(!budget.is_demoted(association, source));
    }
}

#[test]
fn a_table_for_nobody_is_refused() {
    assert_eq!(AuthBudget::new(1, Demotion::Drop, 0, 1).unwrap_err(), SettingsError::NoRoom);
}
