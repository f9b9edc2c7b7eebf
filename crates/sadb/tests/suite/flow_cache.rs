//! The flow cache in front of a table of rules, in the cases in which caches of others went wrong: an answer that
//! outlives a removal, a rule that comes back, a stale entry overwritten, two flows in one place.

use crate::world;

use proptest::prelude::*;
use sadb::rules::{Direction, Place, Radix, RuleKey, Slot};
use sadb::selector::{PacketKey, TrafficSelector};
use sadb::{FlowCache, Rule, RuleTable};
use world::{discard, packet, selector};

/// A table, and the cache of one data thread.
struct Cached {
    table: RuleTable<Radix>,
    cache: FlowCache<Option<Slot>, PacketKey>,
    misses: usize,
}

impl Cached {
    fn new(sets: usize) -> Cached {
        Cached { table: RuleTable::new(1), cache: FlowCache::new(sets, 2), misses: 0 }
    }

    fn ask(&mut self, packet: &PacketKey) -> Option<u32> {
        let snapshot = self.table.snapshot();
        let epoch = snapshot.epoch();
        let slot = self.cache.get(epoch, packet).unwrap_or_else(|| {
            self.misses += 1;
            let slot = snapshot.find(Direction::Out, packet);
            self.cache.put(epoch, packet, slot);
            slot
        });
        slot.and_then(|slot| snapshot.rule(slot)).map(|rule| rule.key.0)
    }

    fn add(&mut self, key: u32, text: &str) {
        self.table.add(Place::First, discard(key, Direction::Out, text.parse().unwrap())).unwrap();
    }
}

fn to(remote: &str) -> PacketKey {
    PacketKey::new("192.0.2.1".parse().unwrap(), remote.parse().unwrap()).protocol(6).ports(1, 2)
}

#[test]
fn an_answer_ends_with_the_rules_it_was_given_by() {
    let mut cached = Cached::new(64);
    let packet = to("198.51.100.1");
    assert_eq!(cached.ask(&packet), None);
    assert_eq!(cached.ask(&packet), None);
    assert_eq!(cached.misses, 1, "that no rule matches is remembered too");
    // Add: what was remembered as unmatched is asked anew.
    cached.add(1, "remote 198.51.100.0/24");
    assert_eq!((cached.ask(&packet), cached.ask(&packet), cached.misses), (Some(1), Some(1), 2));
    // A rule in front of it takes over.
    cached.add(2, "remote 198.51.100.1");
    assert_eq!((cached.ask(&packet), cached.misses), (Some(2), 3));
    // Remove: the general rule again, and no rule that is gone.
    cached.table.remove(RuleKey(2)).unwrap();
    assert_eq!(cached.ask(&packet), Some(1));
    cached.table.remove(RuleKey(1)).unwrap();
    assert_eq!(cached.ask(&packet), None);
    // Add again: the slot is the same, the answer is not taken from before.
    cached.add(3, "remote 198.51.100.0/24");
    assert_eq!((cached.ask(&packet), cached.misses), (Some(3), 6));
}

#[test]
fn a_slot_that_comes_to_hold_another_rule_answers_for_no_old_flow() {
    let mut cached = Cached::new(64);
    cached.add(1, "remote 198.51.100.1");
    assert_eq!(cached.ask(&to("198.51.100.1")), Some(1));
    cached.table.remove(RuleKey(1)).unwrap();
    cached.add(2, "remote 198.51.100.2");
    assert_eq!(cached.ask(&to("198.51.100.1")), None);
    assert_eq!(cached.ask(&to("198.51.100.2")), Some(2));
}

#[test]
fn flows_that_meet_in_one_set_keep_their_own_answers() {
    // One set of four ways, six flows: each pushes another out, and none takes another's answer.
    let mut cached = Cached::new(1);
    for n in 1..=6 {
        cached.add(n, &format!("remote 198.51.100.{n}"));
    }
    for _ in 0..5 {
        for n in 1..=6 {
            assert_eq!(cached.ask(&to(&format!("198.51.100.{n}"))), Some(n));
        }
    }
    // Stale ones are overwritten first: four flows of a new epoch stay beside each other.
    cached.add(7, "remote 203.0.113.0/24");
    cached.misses = 0;
    for _ in 0..5 {
        (1..=4).for_each(|n| assert_eq!(cached.ask(&to(&format!("198.51.100.{n}"))), Some(n)));
    }
    assert_eq!(cached.misses, 4);
}

#[test]
fn a_packet_that_differs_in_any_field_is_another() {
    let mut cache = FlowCache::<u32, PacketKey>::new(16, 3);
    let packet = to("198.51.100.1");
    cache.put(1, &packet, 7);
    assert_eq!(cache.get(1, &packet), Some(7));
    for other in [
        packet.uid(0),
        packet.mark(1),
        packet.interface(1),
        packet.dscp(1),
        packet.app(wire::AppId(1)),
        packet.mobility(0),
        packet.icmp(0, 0),
        packet.ports(1, 3),
        packet.without(&sadb::selector::field::LOCAL_PORT),
        to("198.51.100.2"),
    ] {
        assert_eq!(cache.get(1, &other), None, "{other:?}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(usize, TrafficSelector),
    Remove(usize),
    Ask(usize),
}

proptest! {
    #[test]
    fn with_the_cache_or_without_the_answer_is_the_same(
        steps in prop::collection::vec(prop_oneof![
            2 => (any::<usize>(), selector()).prop_map(|(at, selector)| Step::Add(at, selector)),
            1 => any::<usize>().prop_map(Step::Remove),
            8 => (0usize..12).prop_map(Step::Ask),
        ], 1..200),
        packets in prop::collection::vec(packet(), 12),
    ) {
        let mut cached = Cached::new(2);
        let mut truth: Vec<Rule> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Add(at, selector) => {
                    let at = at % (truth.len() + 1);
                    let rule = discard(number as u32, Direction::Out, selector);
                    cached.table.add(Place::At(at), rule.clone()).unwrap();
                    truth.insert(at, rule);
                }
                Step::Remove(at) if !truth.is_empty() => {
                    let rule = truth.remove(at % truth.len());
                    cached.table.remove(rule.key).unwrap();
                }
                Step::Remove(_) => {}
                Step::Ask(index) => {
                    let packet = &packets[index];
                    let want = truth.iter().find(|rule| rule.matches(packet)).map(|rule| rule.key.0);
                    prop_assert_eq!(cached.ask(packet), want);
                }
            }
        }
    }
}
