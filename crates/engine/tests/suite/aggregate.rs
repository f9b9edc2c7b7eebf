//! Tests of the class of outbound packets: the item or the rule that decides gives it, on every way to the wire.

use crate::support;

use crypto::SuiteId;
use engine::{HoldLimits, Outcome};
use sadb::rules::{Action, Direction, Place, Protection, Rule, RuleKey, RuleTable, Template};
use sadb::spd::{AppPolicy, Class, Item, Level, Network, PortRange, RuleId, Spd, Terms};
use sadb::{Mode, OutboundSa, SaConfig};
use std::sync::Arc;
use std::time::Duration;
use support::*;
use wire::{AggregateId, AppId, Packet, Prefix, Services, record, stage};

const VOICE: AggregateId = AggregateId(8);
const BULK: AggregateId = AggregateId(63);

/// A policy in which port 53 is in one class, port 80 in another, and the rest in none.
fn policy() -> Spd {
    policy_of(VOICE, BULK)
}

fn policy_of(first: AggregateId, second: AggregateId) -> Spd {
    let item = |ports, class, rule| {
        let level = Level::Mandatory;
        let terms = Terms::of(level).classed(class);
        Item { terms, ..Item::new(PortRange::ANY, ports, Services::ENCRYPTED, level, RuleId(rule)) }
    };
    let items = vec![
        item(PortRange::one(53), first, 2),
        item(PortRange::one(80), second, 3),
        item(PortRange::ANY, AggregateId::DEFAULT, 4),
    ];
    let network = Network { prefix: Prefix::ANY, class: Class::Protected(0), rule: RuleId(1) };
    let mut spd = Spd::new(1);
    spd.insert(APP, AppPolicy::new(vec![network], vec![items]));
    spd
}

fn config() -> SaConfig {
    SaConfig { path_mtu: 9000, ..outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false) }
}

fn datagram(port: u16, len: usize) -> Vec<u8> {
    let (alice, bob) = hosts(false);
    udp_packet((alice, 40_000), (bob, port), 0, true, &vec![7; len])
}

fn to(port: u16, len: usize) -> Packet<stage::Inner> {
    stamped(APP, &datagram(port, len))
}

fn class_of(outcomes: &[Outcome]) -> AggregateId {
    match outcomes {
        [Outcome::Send(packet)] => packet.meta.aggregate,
        [Outcome::Clear(packet)] => packet.meta.aggregate,
        other => panic!("{other:?}"),
    }
}

const WANT: [(u16, AggregateId); 3] = [(53, VOICE), (80, BULK), (443, AggregateId::DEFAULT)];

#[test]
fn the_item_that_decides_gives_the_class_also_where_its_decision_is_remembered() {
    // The second packet of a flow finds the route, and where packets are gathered a large one takes the fast path.
    for gathers in [false, true] {
        let mut alice = Sender::new(policy(), &[config()]);
        if gathers {
            alice.engine = alice.engine.gathering();
        }
        for (port, class) in WANT {
            for round in 0..3 {
                assert_eq!(class_of(&alice.handle(to(port, 3000))), class, "{gathers} {port} {round}");
            }
        }
    }
}

#[test]
fn a_packet_that_waited_has_the_class_of_the_policy_by_which_it_leaves() {
    let mut alice = Sender::new(policy(), &[]);
    let age = Duration::from_secs(10);
    alice.engine.set_hold(Some(HoldLimits {
        acquires: 4,
        each: 3,
        packets: 4,
        age,
        ..HoldLimits::default()
    }));
    assert!(matches!(alice.handle(to(53, 20))[..], [Outcome::Held(_)]));
    alice.engine.add_sa(OutboundSa::new(config(), registry()).unwrap().starting(NOW)).unwrap();
    let mut out = Vec::new();
    alice.engine.release(NOW, &mut alice.pool, &mut out);
    assert_eq!(class_of(&out), VOICE);
    // The packet came while one policy was in force, and leaves by another.
    let mut alice = Sender::new(policy(), &[]);
    alice.engine.set_hold(Some(HoldLimits {
        acquires: 4,
        each: 3,
        packets: 4,
        age,
        ..HoldLimits::default()
    }));
    assert!(matches!(alice.handle(to(53, 20))[..], [Outcome::Held(_)]));
    alice.engine.set_policy(Arc::new(policy_of(BULK, VOICE)));
    alice.engine.add_sa(OutboundSa::new(config(), registry()).unwrap().starting(NOW)).unwrap();
    let mut out = Vec::new();
    alice.engine.release(NOW, &mut alice.pool, &mut out);
    assert_eq!(class_of(&out), BULK);
}

#[test]
fn a_socket_that_asks_for_more_stays_in_its_class() {
    let mut alice = Sender::new(policy(), &[config()]);
    for (port, class) in WANT {
        let mut packet = to(port, 20);
        packet.meta.mark |= record::ENCRYPTED;
        assert_eq!(class_of(&alice.handle(packet)), class, "{port}");
    }
}

#[test]
fn the_rule_that_decides_gives_the_class() {
    let protect = Action::Protect(Protection {
        bundle: vec![Template::ANY],
        services: Services::ENCRYPTED,
        level: Level::Mandatory,
        suite: None,
    });
    let rules = [
        ("proto udp remote-port 53", protect.clone(), VOICE),
        ("proto udp remote-port 80", Action::Bypass, BULK),
        ("any", protect, AggregateId::DEFAULT),
    ];
    let mut table: RuleTable = RuleTable::new(0);
    for (number, (selector, action, class)) in (1..).zip(rules) {
        let rule = Rule::new(RuleKey(number), Direction::Out, selector.parse().unwrap(), action);
        table.add(Place::Last, Rule { class, ..rule }).unwrap();
    }
    let mut alice = Sender::new(policy(), &[config()]);
    alice.engine.set_rules(Some(table.snapshot()));
    for (port, class) in WANT {
        for round in 0..2 {
            let other = class_of(&alice.handle(from_host(&datagram(port, 20))));
            assert_eq!(other, class, "{port} {round}");
        }
    }
    // The policy of an application goes before the rules, whose class has no part in it.
    let mut swapped = policy();
    swapped.insert(AppId(9), AppPolicy::default());
    let mut alice = Sender::new(swapped, &[config()]);
    alice.engine.set_rules(Some(table.snapshot()));
    let packet = stamped(AppId(9), &datagram(53, 20));
    assert_eq!(class_of(&alice.handle(packet)), AggregateId::DEFAULT);
}
