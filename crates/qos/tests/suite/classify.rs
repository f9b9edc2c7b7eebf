//! The classifier against the definition of its rules, and each field by itself.

use proptest::prelude::*;
use qos::behaviour::{Classifier, Condition, Field, Rule, SettingsError, Target};
use qos::{AggregateId, Colour, Direction, HeaderKind, Meta, UnitMask, Verdict};
use wire::AppId;

use crate::common::{at, leaves_dropped_alone, packet, run};

fn rule(conditions: &[Condition], aggregate: u8) -> Rule {
    Rule { conditions: conditions.to_vec(), target: Target::Aggregate(AggregateId(aggregate)) }
}

fn find(rules: &[Rule], meta: &Meta) -> Option<Target> {
    Classifier::new(rules).unwrap().find(meta)
}

/// A packet in which every field has a number of its own.
fn full() -> Meta {
    Meta {
        spi: 0xdead_beef,
        association: 12,
        key: 13,
        user: 14,
        flow: 15,
        mark: 16,
        app: AppId(17),
        suite: 18,
        peer: 21,
        source: 22,
        destination: 23,
        protocol: 24,
        ports: [25, 26],
        index: 19,
        aggregate: AggregateId(20),
        header: HeaderKind::Ike,
        direction: Direction::Inbound,
        colour: Colour::Red,
        dscp: [46, 34],
        ecn: 2,
        units: UnitMask(1),
        ..packet(100)
    }
}

#[test]
fn every_field_can_be_matched() {
    let numbers =
        [0xdead_beef, 12, 13, 14, 15, 16, 17, 18, 21, 22, 23, 24, 25, 26, 19, 20, 4, 1, 2, 46, 34, 2];
    for (field, number) in Field::EACH.into_iter().zip(numbers) {
        assert_eq!(field.value(&full()), number, "{field:?}");
        assert!(find(&[rule(&[field.is(number)], 1)], &full()).is_some(), "{field:?}");
        assert!(find(&[rule(&[field.is(number - 1)], 1)], &full()).is_none(), "{field:?}");
        assert!(find(&[rule(&[field.is(number + 1)], 1)], &full()).is_none(), "{field:?}");
        assert!(find(&[rule(&[field.within(0..=u32::MAX)], 1)], &full()).is_some(), "{field:?}");
    }
}

#[test]
fn the_first_rule_that_matches_counts() {
    let rules = [
        rule(&[Field::Header.is(HeaderKind::Ike as u32)], 1),
        rule(&[Field::InnerDscp.is(46), Field::InnerDscp.is(40), Field::Direction.is(0)], 2),
        rule(&[Field::Spi.within(0x100..=0x1ff)], 3),
        Rule { conditions: vec![], target: Target::Outlet(7) },
        rule(&[Field::Spi.is(5)], 9),
    ];
    let to = |meta| find(&rules, &meta);
    let aggregate = |number| Some(Target::Aggregate(AggregateId(number)));
    assert_eq!(to(Meta { header: HeaderKind::Ike, dscp: [0, 46], ..packet(1) }), aggregate(1));
    assert_eq!(to(Meta { dscp: [0, 40], spi: 0x100, ..packet(1) }), aggregate(2));
    let inbound = Meta { dscp: [0, 40], direction: Direction::Inbound, ..packet(1) };
    assert_eq!(to(Meta { spi: 0x1ff, ..inbound }), aggregate(3));
    assert_eq!(to(Meta { spi: 0x200, ..inbound }), Some(Target::Outlet(7)));
    assert_eq!(to(Meta { spi: 5, ..inbound }), Some(Target::Outlet(7)));
}

#[test]
fn targets_are_carried_out() {
    let rules = [
        rule(&[Field::Spi.is(1)], 6),
        Rule { conditions: vec![Field::Spi.is(2)], target: Target::Outlet(3) },
    ];
    let mut classifier = Classifier::new(&rules).unwrap();
    let mut of = |spi| {
        let entry = run(&mut classifier, &at(0), Meta { spi, ..packet(1) });
        (entry.meta.aggregate.0, entry.verdict)
    };
    assert_eq!(of(1), (6, Verdict::Pass));
    assert_eq!(of(2), (0, Verdict::To(3)));
    assert_eq!(of(3), (0, Verdict::Pass), "what no rule matches passes as it is");
    leaves_dropped_alone(&mut Classifier::new(&[rule(&[], 1)]).unwrap());
}

#[test]
fn marks_match_under_a_mask() {
    let rules = [
        rule(&[Condition::Mark { value: 0x10, mask: 0xf0 }, Condition::Mark { value: 0x20, mask: 0xf0 }], 1),
        rule(&[Field::Mark.is(0x31)], 2),
        rule(&[], 3),
    ];
    let of = |mark| find(&rules, &Meta { mark, ..packet(1) });
    let aggregate = |number| Some(Target::Aggregate(AggregateId(number)));
    assert_eq!([0x1f, 0x120, 0x31, 0x30].map(of), [1, 1, 2, 3].map(aggregate));
}

#[test]
fn without_an_outer_dscp_the_spi_still_gives_the_class() {
    let rules =
        [rule(&[Field::OuterDscp.is(46), Field::Association.is(1)], 1), rule(&[Field::Spi.is(77)], 1)];
    let bleached = Meta { spi: 77, association: 1, dscp: [0, 0], ..packet(1) };
    assert_eq!(find(&rules, &bleached), Some(Target::Aggregate(AggregateId(1))));
    // A DSCP of another association is worth nothing.
    assert_eq!(find(&rules, &Meta { dscp: [46, 0], association: 2, ..packet(1) }), None);
}

#[test]
fn lists_of_more_than_64_rules_keep_their_order() {
    let rules: Vec<Rule> =
        (0..200).map(|number| rule(&[Field::Spi.within(number..=1000)], number as u8)).collect();
    for spi in [0, 63, 64, 65, 128, 199, 1000] {
        assert_eq!(find(&rules, &Meta { spi, ..packet(1) }), Some(Target::Aggregate(AggregateId(0))));
    }
    let rules: Vec<Rule> = (0..200).map(|number| rule(&[Field::Spi.is(number)], number as u8)).collect();
    for spi in [0, 63, 64, 65, 128, 199] {
        assert_eq!(find(&rules, &Meta { spi, ..packet(1) }), Some(Target::Aggregate(AggregateId(spi as u8))));
    }
    assert_eq!(find(&rules, &Meta { spi: 200, ..packet(1) }), None);
    assert_eq!(find(&[], &packet(1)), None);
}

#[test]
fn rules_that_contradict_themselves_are_refused() {
    let backwards = Condition::Within { field: Field::Spi, first: 2, last: 1 };
    assert_eq!(Classifier::new(&[rule(&[backwards], 1)]).unwrap_err(), SettingsError::Backwards);
    let mixed = rule(&[Field::Mark.is(1), Condition::Mark { value: 1, mask: 1 }], 1);
    assert_eq!(Classifier::new(&[mixed]).unwrap_err(), SettingsError::MixedMark);
}

/// A condition over few numbers, so that rules overlap, and over the ends of the number space.
fn condition() -> impl Strategy<Value = Condition> {
    let number = prop_oneof![8 => 0_u32..20, 1 => Just(u32::MAX), 1 => Just(u32::MAX - 1)];
    let within = (0..Field::EACH.len(), number.clone(), number).prop_filter_map(
        "the mark is by mask",
        |(field, one, two)| {
            let field = Field::EACH[field];
            (field != Field::Mark).then(|| field.within(one.min(two)..=one.max(two)))
        },
    );
    let mark = (0_u32..8, 0_u32..8).prop_map(|(value, mask)| Condition::Mark { value, mask });
    prop_oneof![5 => within, 1 => mark]
}

fn meta() -> impl Strategy<Value = Meta> {
    let number = || prop_oneof![8 => 0_u32..20, 1 => Just(u32::MAX), 1 => Just(u32::MAX - 1)];
    (prop::array::uniform6(number()), prop::array::uniform8(0_u8..20)).prop_map(|(wide, narrow)| Meta {
        spi: wide[0],
        association: wide[1],
        key: wide[2] as u16,
        user: wide[3],
        flow: wide[4],
        mark: wide[5],
        app: AppId(narrow[0].into()),
        suite: narrow[1].into(),
        index: narrow[2],
        aggregate: AggregateId(narrow[3]),
        header: [HeaderKind::Esp, HeaderKind::Ike, HeaderKind::Clear][usize::from(narrow[4] % 3)],
        direction: if narrow[4] > 10 { Direction::Inbound } else { Direction::Outbound },
        colour: crate::common::colour(narrow[5]),
        dscp: [narrow[6], narrow[7]],
        ecn: narrow[5] & 3,
        ..packet(100)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_classifier_answers_as_the_rules_one_by_one(
        rules in prop::collection::vec((prop::collection::vec(condition(), 0..4), any::<u8>()), 0..130),
        metas in prop::collection::vec(meta(), 1..40),
    ) {
        let rules: Vec<Rule> = rules.iter().map(|(conditions, target)| rule(conditions, *target)).collect();
        let classifier = Classifier::new(&rules).unwrap();
        for meta in metas {
            let first = rules.iter().find(|rule| rule.matches(&meta)).map(|rule| rule.target);
            prop_assert_eq!(classifier.find(&meta), first);
        }
    }
}
