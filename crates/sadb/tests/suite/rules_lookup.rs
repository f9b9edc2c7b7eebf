//! Every classifier is compared with the reading of the rules in order.

use crate::world;

use proptest::prelude::*;
use sadb::rules::{
    Action, Classifier, Direction, Linear, Place, Protection, Radix, RuleKey, Template, TupleSpace,
};
use sadb::selector::{Condition, FIRST_FREE_BIT, Field, Form, PacketKey, TrafficSelector, field};
use sadb::spd::Level;
use sadb::{Rule, RuleTable};
use wire::{Services, protocol};
use world::{discard, packet, packet_of, selector, selector_of};

/// A table of each kind, changed together.
struct Three {
    linear: RuleTable<Linear>,
    radix: RuleTable<Radix>,
    tuples: RuleTable<TupleSpace>,
    truth: Vec<Rule>,
}

impl Three {
    fn new(seed: u64) -> Three {
        Three {
            linear: RuleTable::new(seed),
            radix: RuleTable::new(seed),
            tuples: RuleTable::new(seed),
            truth: Vec::new(),
        }
    }

    fn add(&mut self, at: usize, rule: Rule) {
        let at = at % (self.truth.len() + 1);
        self.linear.add(Place::At(at), rule.clone()).unwrap();
        self.radix.add(Place::At(at), rule.clone()).unwrap();
        self.tuples.add(Place::At(at), rule.clone()).unwrap();
        self.truth.insert(at, rule);
    }

    fn remove(&mut self, at: usize) {
        if self.truth.is_empty() {
            return;
        }
        let rule = self.truth.remove(at % self.truth.len());
        assert_eq!(self.linear.remove(rule.key).unwrap(), rule);
        assert_eq!(self.radix.remove(rule.key).unwrap(), rule);
        assert_eq!(self.tuples.remove(rule.key).unwrap(), rule);
    }

    /// Check that all three answer as the list of rules does.
    fn check(&self, packet: &PacketKey) {
        for direction in [Direction::In, Direction::Out] {
            let want = self.truth.iter().find(|rule| rule.is_for(direction) && rule.matches(packet));
            let want = want.map(|rule| rule.key);
            let key = |rule: Option<&Rule>| rule.map(|rule| rule.key);
            assert_eq!(key(self.linear.snapshot().lookup(direction, packet)), want, "linear, {packet:?}");
            assert_eq!(key(self.radix.snapshot().lookup(direction, packet)), want, "radix, {packet:?}");
            assert_eq!(key(self.tuples.snapshot().lookup(direction, packet)), want, "tuples, {packet:?}");
        }
    }
}

#[derive(Clone, Debug)]
enum Change {
    Add(usize, Direction, Vec<TrafficSelector>),
    Remove(usize),
}

fn changes(
    selector: impl Strategy<Value = TrafficSelector>,
    most: usize,
) -> impl Strategy<Value = Vec<Change>> {
    let direction = prop::sample::select(vec![Direction::In, Direction::Out, Direction::Both]);
    let add = (any::<usize>(), direction, prop::collection::vec(selector, 1..3));
    let change = prop_oneof![
        3 => add.prop_map(|(at, direction, selectors)| Change::Add(at, direction, selectors)),
        1 => any::<usize>().prop_map(Change::Remove),
    ];
    prop::collection::vec(change, 1..most)
}

fn follow(changes: Vec<Change>, packets: &[PacketKey], seed: u64) {
    let mut three = Three::new(seed);
    for (number, change) in changes.into_iter().enumerate() {
        match change {
            Change::Add(at, direction, selectors) => {
                let mut rule = discard(number as u32, direction, TrafficSelector::ANY);
                rule.selectors = selectors;
                three.add(at, rule);
            }
            Change::Remove(at) => three.remove(at),
        }
        packets.iter().for_each(|packet| three.check(packet));
    }
    // To the last rule and beyond.
    while !three.truth.is_empty() {
        three.remove(number_of(&packets[0], three.truth.len()));
        packets.iter().for_each(|packet| three.check(packet));
    }
}

fn number_of(packet: &PacketKey, below: usize) -> usize {
    packet.get(&field::REMOTE).map_or(0, |bits| bits as usize % below)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn all_three_agree_under_change(
        changes in changes(selector(), 40),
        packets in prop::collection::vec(packet(), 1..20),
        seed in any::<u64>(),
    ) {
        follow(changes, &packets, seed);
    }

    #[test]
    fn all_three_agree_where_rules_are_dense(
        changes in changes(selector_of(vec![&field::REMOTE, &field::LOCAL_PORT], false), 80),
        packets in prop::collection::vec(packet_of(vec![&field::REMOTE, &field::LOCAL_PORT]), 1..20),
        seed in any::<u64>(),
    ) {
        follow(changes, &packets, seed);
    }
}

/// The random worlds above are about something: many of their rules match and many do not, and it often matters which
/// of several matching rules comes first.
#[test]
fn the_random_world_meets() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut none, mut one, mut several) = (0, 0, 0);
    for _ in 0..400 {
        let rules = prop::collection::vec(selector(), 10).new_tree(&mut runner).unwrap().current();
        let packet = packet().new_tree(&mut runner).unwrap().current();
        match rules.iter().filter(|rule| rule.matches(&packet)).count() {
            0 => none += 1,
            1 => one += 1,
            _ => several += 1,
        }
    }
    assert!(
        none > 20 && one > 20 && several > 20,
        "{none} packets match no rule, {one} one, {several} several"
    );
}

/// All cases of two fields of two bits, one of which a packet may lack, with every condition that is a range on each:
/// every table of two rules, in both orders, and every packet; then the same after one of the two is removed.
#[test]
fn a_small_world_whole() {
    static FIRST: Field = Field::always("first", FIRST_FREE_BIT, 2, Form::Number);
    static SECOND: Field = Field::optional("second", FIRST_FREE_BIT + 2, 2, Form::Number);
    let spans = || (0u8..4).flat_map(|first| (first..4).map(move |last| Condition::range(first, last)));
    let mut selectors = Vec::new();
    for first in spans() {
        for second in spans().chain([Condition::Any, Condition::Opaque]) {
            selectors.push(
                TrafficSelector::ANY.with(&FIRST, first.clone()).unwrap().with(&SECOND, second).unwrap(),
            );
        }
    }
    let packets: Vec<PacketKey> = (0u8..4)
        .map(|first| PacketKey::EMPTY.with(&FIRST, u128::from(first)))
        .flat_map(|key| {
            [key].into_iter().chain((0u8..4).map(move |second| key.with(&SECOND, u128::from(second))))
        })
        .collect();
    assert_eq!((selectors.len(), packets.len()), (120, 20));
    for one in &selectors {
        for other in &selectors {
            let mut three = Three::new(1);
            three.add(0, discard(1, Direction::Out, one.clone()));
            three.add(1, discard(2, Direction::Out, other.clone()));
            packets.iter().for_each(|packet| three.check(packet));
            three.remove(0);
            packets.iter().for_each(|packet| three.check(packet));
        }
    }
}

fn chain(key: u32, spi: u32, selector: &str) -> Rule {
    let protection = Protection {
        bundle: vec![Template::of_spi(sadb::Spi(0x1000 + spi))],
        services: Services::ENCRYPTED,
        level: Level::Mandatory,
        suite: None,
    };
    Rule::new(RuleKey(key), Direction::Out, selector.parse().unwrap(), Action::Protect(protection))
}

/// Paper 001 section 2.1: a general policy between two hosts, overridden for ICMP, for TCP, and for one TCP flow. The
/// paper's tree answers with the most specific; RFC 4301 orders the rules, so the order says the same.
fn four_rules<C: Classifier>() {
    let mut table = RuleTable::<C>::new(7);
    let hosts = "local 192.0.2.1 remote 198.51.100.2";
    table.add(Place::Last, chain(1, 1, hosts)).unwrap();
    table.add(Place::First, chain(2, 2, &format!("{hosts} proto icmp"))).unwrap();
    table.add(Place::Before(RuleKey(1)), chain(3, 3, &format!("{hosts} proto tcp"))).unwrap();
    let flow = format!("{hosts} proto tcp local-port 1000 remote-port 2000");
    table.add(Place::Before(RuleKey(3)), chain(4, 4, &flow)).unwrap();

    let asks = |table: &RuleTable<C>, packet: PacketKey| {
        let snapshot = table.snapshot();
        match &snapshot.lookup(Direction::Out, &packet)?.action {
            Action::Protect(protection) => protection.bundle[0].spi.map(|spi| spi.0 - 0x1000),
            _ => None,
        }
    };
    let ip = |text: &str| text.parse().unwrap();
    let between = PacketKey::new(ip("192.0.2.1"), ip("198.51.100.2"));
    let tcp = between.protocol(protocol::TCP);
    assert_eq!(asks(&table, between.protocol(protocol::UDP).ports(1000, 2000)), Some(1));
    assert_eq!(asks(&table, between.protocol(protocol::ICMP).icmp(8, 0)), Some(2));
    assert_eq!(asks(&table, tcp.ports(1000, 2001)), Some(3));
    assert_eq!(asks(&table, tcp.ports(1000, 2000)), Some(4));
    // A fragment of that flow has no ports: the rule for TCP.
    assert_eq!(asks(&table, tcp), Some(3));
    let elsewhere = PacketKey::new(ip("192.0.2.1"), ip("198.51.100.3")).protocol(protocol::TCP);
    assert_eq!(asks(&table, elsewhere.ports(1000, 2000)), None);

    // The fall backs, one after the other.
    for (removed, next) in [(4, Some(3)), (3, Some(1)), (1, None)] {
        table.remove(RuleKey(removed)).unwrap();
        assert_eq!(asks(&table, tcp.ports(1000, 2000)), next);
    }
    // The order is the truth: a general rule in front hides the special one behind it.
    table.add(Place::First, chain(1, 1, hosts)).unwrap();
    assert_eq!(asks(&table, between.protocol(protocol::ICMP).icmp(8, 0)), Some(1));
}

#[test]
fn the_four_rules_of_paper_001_read_in_order() {
    four_rules::<Linear>();
}

#[test]
fn the_four_rules_of_paper_001_in_the_radix_tree() {
    four_rules::<Radix>();
}

#[test]
fn the_four_rules_of_paper_001_in_tuple_space() {
    four_rules::<TupleSpace>();
}

/// A classifier with a field that only this test knows. "New test fields can be added in this scheme, without modifying
/// the lookup code" (paper 001 section 2.1).
fn with_a_new_field<C: Classifier>() {
    static VLAN: Field = Field::optional("vlan", FIRST_FREE_BIT, 12, Form::Number);
    let words: Vec<&'static Field> = field::STANDARD.into_iter().chain([&VLAN]).collect();
    let parse = |text: &str| TrafficSelector::parse(text, &words).unwrap();
    let mut table = RuleTable::<C>::new(3);
    for (key, text) in [
        (1, "remote 198.51.100.0/24 vlan 100-199"),
        (2, "vlan opaque proto tcp"),
        (3, "vlan 0x800/0x800"),
        (4, "remote 198.51.100.0/24"),
    ] {
        let selector = parse(text);
        assert_eq!(parse(&selector.to_string()), selector);
        table.add(Place::Last, discard(key, Direction::Both, selector)).unwrap();
    }
    let snapshot = table.snapshot();
    let answer = |packet: PacketKey| snapshot.lookup(Direction::Out, &packet).map(|rule| rule.key.0);
    let ip = |text: &str| text.parse().unwrap();
    let packet = PacketKey::new(ip("192.0.2.1"), ip("198.51.100.2")).protocol(6);
    assert_eq!(answer(packet.with(&VLAN, 100)), Some(1));
    assert_eq!(answer(packet.with(&VLAN, 199)), Some(1));
    assert_eq!(answer(packet.with(&VLAN, 200)), Some(4));
    assert_eq!(answer(packet), Some(2));
    assert_eq!(answer(packet.with(&VLAN, 0x801)), Some(3));
    assert_eq!(answer(packet.protocol(17)), Some(4));
}

#[test]
fn a_field_is_added_without_a_change_of_the_lookup() {
    with_a_new_field::<Linear>();
    with_a_new_field::<Radix>();
    with_a_new_field::<TupleSpace>();
}

#[test]
fn lists_too_long_for_patterns_are_still_exact() {
    // Thirty single ports, every other one: more than a selector's patterns.
    let ports: Vec<String> = (0..30).map(|n| (1000 + 2 * n).to_string()).collect();
    let text =
        format!("remote 10.0.0.1-10.0.0.254,10.9.0.3 remote-port {} local-port 1-65534", ports.join(","));
    let mut three = Three::new(5);
    three.add(0, discard(1, Direction::Out, text.parse().unwrap()));
    for host in ["10.0.0.0", "10.0.0.1", "10.0.0.254", "10.0.0.255", "10.9.0.3", "10.9.0.2"] {
        for port in 995..1065 {
            let key = PacketKey::new("192.0.2.1".parse().unwrap(), host.parse().unwrap()).protocol(6);
            three.check(&key);
            [0, 1, 65534, 65535].into_iter().for_each(|local| three.check(&key.ports(local, port)));
        }
    }
}
