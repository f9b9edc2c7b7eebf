//! Tests of the ordered table: places, numbers, snapshots, and what a rule may be.

use crate::world;

use proptest::prelude::*;
use sadb::rules::{Action, Direction, Name, Place, Protection, RuleError, RuleKey, Template};
use sadb::selector::{PacketKey, SelectorError, TrafficSelector, field};
use sadb::spd::Level;
use sadb::{Rule, RuleTable, Spi};
use wire::{AggregateId, Services};
use world::discard;

fn any_rule(key: u32) -> Rule {
    discard(key, Direction::Both, TrafficSelector::ANY)
}

fn keys(table: &RuleTable) -> Vec<u32> {
    table.list().map(|rule| rule.key.0).collect()
}

fn protect(selector: &str) -> Rule {
    let protection = Protection {
        bundle: vec![Template::ANY],
        services: Services::ENCRYPTED,
        level: Level::Mandatory,
        suite: None,
    };
    Rule::new(RuleKey(1), Direction::Out, selector.parse().unwrap(), Action::Protect(protection))
}

#[test]
fn rules_go_where_they_are_put() {
    let mut table = RuleTable::new(1);
    table.add(Place::Last, any_rule(1)).unwrap();
    table.add(Place::Last, any_rule(2)).unwrap();
    table.add(Place::First, any_rule(3)).unwrap();
    table.add(Place::Before(RuleKey(2)), any_rule(4)).unwrap();
    table.add(Place::After(RuleKey(3)), any_rule(5)).unwrap();
    table.add(Place::At(1), any_rule(6)).unwrap();
    table.add(Place::At(99), any_rule(7)).unwrap();
    assert_eq!(keys(&table), [3, 6, 5, 1, 4, 2, 7]);
    assert_eq!(table.position(RuleKey(4)), Some(4));
    assert_eq!(table.get(RuleKey(4)), Some(&any_rule(4)));
    table.remove(RuleKey(3)).unwrap();
    assert_eq!(keys(&table), [6, 5, 1, 4, 2, 7]);
    assert_eq!(table.add(Place::First, any_rule(5)), Err(RuleError::Duplicate(RuleKey(5))));
    assert_eq!(table.add(Place::After(RuleKey(3)), any_rule(8)), Err(RuleError::Unknown(RuleKey(3))));
    assert_eq!(table.remove(RuleKey(3)), Err(RuleError::Unknown(RuleKey(3))));
    assert_eq!(keys(&table), [6, 5, 1, 4, 2, 7], "what is refused changes nothing");
}

#[test]
fn there_is_always_room_between_two_rules() {
    // Each goes right after the first, so the room between halves each time: ranks must be spread anew.
    let mut table = RuleTable::new(1);
    table.add(Place::Last, any_rule(0)).unwrap();
    for key in 1..200 {
        table.add(Place::After(RuleKey(0)), any_rule(key)).unwrap();
        let first = table.snapshot().lookup(Direction::In, &PacketKey::EMPTY).map(|rule| rule.key);
        assert_eq!(first, Some(RuleKey(0)));
    }
    assert_eq!(keys(&table), std::iter::once(0).chain((1..200).rev()).collect::<Vec<_>>());
    for key in std::iter::once(0).chain((1..200).rev()) {
        let first = table.snapshot().lookup(Direction::In, &PacketKey::EMPTY).map(|rule| rule.key);
        assert_eq!(first, Some(RuleKey(key)));
        table.remove(RuleKey(key)).unwrap();
    }
    assert!(table.is_empty());
}

#[test]
fn a_snapshot_stays_as_it_is_and_every_change_has_an_epoch() {
    let mut table = RuleTable::<sadb::rules::Radix>::new(1);
    let mut epochs = vec![table.snapshot().epoch()];
    table.add(Place::Last, any_rule(1)).unwrap();
    epochs.push(table.snapshot().epoch());
    let old = table.snapshot();
    table.add(Place::First, any_rule(2)).unwrap();
    epochs.push(table.snapshot().epoch());
    let first =
        |table: &RuleTable| table.snapshot().lookup(Direction::Out, &PacketKey::EMPTY).map(|rule| rule.key.0);
    assert_eq!(old.lookup(Direction::Out, &PacketKey::EMPTY).map(|rule| rule.key.0), Some(1));
    assert_eq!(first(&table), Some(2));
    table.remove(RuleKey(2)).unwrap();
    epochs.push(table.snapshot().epoch());
    table.clear();
    epochs.push(table.snapshot().epoch());
    assert_eq!(first(&table), None);
    assert!(epochs.windows(2).all(|pair| pair[0] < pair[1]), "{epochs:?}");
}

#[test]
fn what_a_rule_may_not_be() {
    let refused = |rule: Rule| rule.checked().unwrap_err();
    let mut none = any_rule(1);
    none.selectors.clear();
    assert_eq!(refused(none), RuleError::NoSelector);
    assert_eq!(
        refused(discard(1, Direction::Out, "remote pfp".parse().unwrap())),
        RuleError::PopulateNothing
    );
    let mut rule = protect("remote pfp");
    rule.selectors.push("remote 10.0.0.1 proto opaque".parse().unwrap());
    assert!(rule.clone().checked().is_ok());
    rule.selectors.push("proto pfp".parse().unwrap());
    assert_eq!(refused(rule), RuleError::PopulateOpaque(&field::PROTOCOL));
    let mut rule = protect("any");
    rule.action = Action::Protect(Protection {
        bundle: vec![],
        services: Services::ENCRYPTED,
        level: Level::Mandatory,
        suite: None,
    });
    assert_eq!(refused(rule.clone()), RuleError::NoTemplate);
    rule.action = Action::Protect(Protection {
        bundle: vec![Template::ANY],
        services: Services::NONE,
        level: Level::Optional,
        suite: None,
    });
    assert_eq!(refused(rule.clone()), RuleError::NoService);
    // What nothing can satisfy.
    for (bundle, error) in [
        (&["0xff"][..], RuleError::ReservedSpi(Spi(255))),
        (&["esp", "0"], RuleError::ReservedSpi(Spi(0))),
        (
            &["esp/tunnel/192.0.2.1-::1"],
            RuleError::MixedEnds("192.0.2.1".parse().unwrap(), "::1".parse().unwrap()),
        ),
        (&["esp", "ah", "any", "any", "any"], RuleError::LongBundle(5)),
    ] {
        let bundle = bundle.iter().map(|text| text.parse().unwrap()).collect();
        let (services, level) = (Services::ENCRYPTED, Level::Mandatory);
        rule.action = Action::Protect(Protection { bundle, services, level, suite: None });
        assert_eq!(refused(rule.clone()), error);
    }
    let bundle = ["0x100", "esp", "esp/tunnel/192.0.2.1-any", "any"].map(|text| text.parse().unwrap());
    let (services, level) = (Services::ENCRYPTED, Level::Mandatory);
    rule.action = Action::Protect(Protection { bundle: bundle.to_vec(), services, level, suite: None });
    rule.checked().unwrap();
}

#[test]
fn a_peer_without_an_address_is_found_by_name() {
    let mut table = RuleTable::<sadb::rules::Radix>::new(1);
    let name = Name::Email("mozart@foo.example.com".to_owned());
    let mut rule = any_rule(2);
    rule.names = vec![Name::Fqdn("foo.example.com".to_owned()), name.clone()];
    table.add(Place::Last, any_rule(1)).unwrap();
    table.add(Place::Last, rule).unwrap();
    assert_eq!(table.by_name(&name).map(|rule| rule.key), Some(RuleKey(2)));
    assert_eq!(table.by_name(&Name::KeyId(vec![1])), None);

    // Its address, once known, takes the place of the rule's.
    let rule = protect("local 10.0.0.0/8 remote 0.0.0.0/0 proto tcp");
    let bound = rule.for_peer("192.0.2.7".parse().unwrap()).unwrap();
    assert_eq!(bound.selectors[0].to_string(), "local 10.0.0.0/8 remote 192.0.2.7 proto tcp");
    assert_eq!((bound.key, &bound.action), (rule.key, &rule.action));
    assert_eq!(rule.for_peer("2001:db8::7".parse().unwrap()), Err(SelectorError::MixedFamilies));
}

proptest! {
    #[test]
    fn the_list_is_what_a_plain_list_would_be(changes in prop::collection::vec((any::<bool>(), 0usize..30), 1..200)) {
        let mut table = RuleTable::<sadb::rules::Radix>::new(1);
        let mut plain: Vec<u32> = Vec::new();
        for (number, (add, at)) in changes.into_iter().enumerate() {
            if add || plain.is_empty() {
                let at = at.min(plain.len());
                table.add(Place::At(at), any_rule(number as u32)).unwrap();
                plain.insert(at, number as u32);
            } else {
                let key = plain.remove(at % plain.len());
                table.remove(RuleKey(key)).unwrap();
            }
            prop_assert_eq!(keys(&table), plain.clone());
            let found = table.snapshot().lookup(Direction::In, &PacketKey::EMPTY).map(|rule| rule.key.0);
            prop_assert_eq!(found, plain.first().copied());
        }
    }
}

#[test]
fn a_rule_keeps_its_class_on_every_way() {
    let class = AggregateId(8);
    let rule = Rule { class, ..protect("remote 192.0.2.0/24 pfp") };
    assert_eq!(protect("any").class, AggregateId::DEFAULT);
    assert_eq!(rule.clone().checked().unwrap().class, class);
    assert_eq!(rule.for_peer("198.51.100.1".parse().unwrap()).unwrap().class, class);
    let mut table: RuleTable = RuleTable::new(1);
    table.add(Place::Last, rule).unwrap();
    assert_eq!(table.get(RuleKey(1)).unwrap().class, class);
    assert_eq!(table.snapshot().iter().map(|(_, rule)| rule.class).collect::<Vec<_>>(), [class]);
}
