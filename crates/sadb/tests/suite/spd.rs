//! The policy database is compared with a reading of the rule that does nothing clever.

use crate::common;

use common::{flow, near_addr, near_flow, near_ports, near_prefix, prefix};
use proptest::prelude::*;
use sadb::spd::{
    Action, AppPolicy, Class, DecisionReason, Item, Level, Network, PortRange, RuleId, Spd, Terms,
};
use wire::{AggregateId, AppId, Flow, Services};

fn item() -> impl Strategy<Value = Item> {
    // No services: never protected.
    let services = prop::sample::select(vec![Services::AUTHENTICATED, Services::ENCRYPTED, Services::NONE]);
    let level = prop::sample::select(vec![Level::Mandatory, Level::Optional, Level::AcceptOnly]);
    let protocol = prop::option::of(prop::sample::select(vec![1u8, 6, 17, 50, 58]));
    (protocol, near_ports(), near_ports(), services, level, 1u32..1000).prop_map(
        |(protocol, local, remote, services, level, rule)| Item {
            protocol,
            ..Item::new(local, remote, services, level, RuleId(rule))
        },
    )
}

fn network() -> impl Strategy<Value = Network> {
    // An index of 3 and more names no protection.
    let class =
        prop_oneof![Just(Class::Trusted), Just(Class::Untrusted), (0usize..5).prop_map(Class::Protected)];
    (near_prefix(), class, 1u32..1000).prop_map(|(prefix, class, rule)| Network {
        prefix,
        class,
        rule: RuleId(rule),
    })
}

type Source = (Vec<Network>, Vec<Vec<Item>>);

fn source() -> impl Strategy<Value = Source> {
    (prop::collection::vec(network(), 0..12), prop::collection::vec(prop::collection::vec(item(), 0..4), 3))
}

/// The decision by reading every network in the order of the file, where a longer prefix wins, and of equals the first.
/// Then every item is read in order.
fn by_hand((networks, protections): &Source, flow: &Flow) -> (Action, RuleId, RuleId, DecisionReason) {
    let mut best: Option<&Network> = None;
    for network in networks {
        if network.prefix.contains(flow.remote) && best.is_none_or(|b| network.prefix.len() > b.prefix.len())
        {
            best = Some(network);
        }
    }
    let Some(network) = best else {
        return (Action::Bypass, RuleId::NONE, RuleId::NONE, DecisionReason::NoNetwork);
    };
    let items = match network.class {
        Class::Trusted => return (Action::Bypass, network.rule, RuleId::NONE, DecisionReason::Trusted),
        Class::Untrusted => return (Action::Discard, network.rule, RuleId::NONE, DecisionReason::Untrusted),
        Class::Protected(index) => match protections.get(index) {
            Some(items) => items,
            None => return (Action::Discard, network.rule, RuleId::NONE, DecisionReason::Untrusted),
        },
    };
    for item in items {
        let icmp = [1, 58];
        let protocol = match item.protocol {
            None => true,
            Some(own) if icmp.contains(&own) => icmp.contains(&flow.protocol),
            Some(own) => own == flow.protocol,
        };
        let ports = if icmp.contains(&flow.protocol) { (0, 0) } else { (flow.local_port, flow.remote_port) };
        let local = item.local.first <= ports.0 && ports.0 <= item.local.last;
        let remote = item.remote.first <= ports.1 && ports.1 <= item.remote.last;
        if protocol && local && remote {
            let action = match item.services {
                Services::NONE => Action::Bypass,
                services => Action::Protect { services, level: item.level },
            };
            return (action, network.rule, item.rule, DecisionReason::Item);
        }
    }
    (Action::Discard, network.rule, RuleId::NONE, DecisionReason::NoItem)
}

proptest! {
    #[test]
    fn decides_like_a_linear_reading(source in source(), flows in prop::collection::vec(near_flow(), 1..40)) {
        let policy = AppPolicy::new(source.0.clone(), source.1.clone());
        let mut spd = Spd::new(1);
        spd.insert(AppId(3), policy.clone());
        for flow in flows {
            let (action, network, item, why) = by_hand(&source, &flow);
            let decision = policy.decide(&flow);
            prop_assert_eq!((decision.action, decision.network, decision.item, decision.why), (action, network, item, why));
            if let Some(item) = source.1.iter().flatten().find(|i| why == DecisionReason::Item && i.rule == decision.item) {
                prop_assert!(decision.terms == Terms::of(item.level) || source.1.iter().flatten().filter(|i| i.rule == item.rule).count() > 1);
            }
            prop_assert_eq!(decision.rule(), if item == RuleId::NONE { network } else { item });
            prop_assert_eq!(spd.decide(AppId(3), &flow), decision);
        }
    }

    #[test]
    fn no_application_feels_the_policy_of_another(
        mine in source(),
        other in source(),
        flow in near_flow(),
        apps in (1u16..50, 1u16..50),
    ) {
        prop_assume!(apps.0 != apps.1);
        let mut alone = Spd::new(1);
        alone.insert(AppId(apps.0), AppPolicy::new(mine.0.clone(), mine.1.clone()));
        let mut both = Spd::new(1);
        both.insert(AppId(apps.1), AppPolicy::new(other.0, other.1));
        both.insert(AppId(apps.0), AppPolicy::new(mine.0, mine.1));
        prop_assert_eq!(both.decide(AppId(apps.0), &flow), alone.decide(AppId(apps.0), &flow));
        prop_assert_eq!(both.decide(AppId(99), &flow).why, DecisionReason::NoApplication);
        prop_assert_eq!(both.apps().count(), 2);
    }

    #[test]
    fn the_network_found_is_the_one_that_decides(source in source(), remote in near_addr()) {
        let policy = AppPolicy::new(source.0, source.1);
        let longest = policy.networks().iter().filter(|n| n.prefix.contains(remote)).map(|n| n.prefix.len()).max();
        prop_assert_eq!(policy.network(remote).map(|n| n.prefix.len()), longest);
    }
}

#[test]
fn application_zero_has_no_policy() {
    let mut spd = Spd::new(1);
    let discard = Network { prefix: prefix("any"), class: Class::Untrusted, rule: RuleId(1) };
    spd.insert(AppId::NONE, AppPolicy::new(vec![discard], vec![]));
    let decision = spd.decide(AppId::NONE, &flow("10.0.0.1", "10.0.0.2", 6, 1, 2));
    assert_eq!((decision.action, decision.why), (Action::Bypass, DecisionReason::NoApplication));
    assert_eq!(spd.apps().count(), 0);
}

#[test]
fn ports_include_both_ends() {
    let range = PortRange { first: 10, last: 12 };
    assert_eq!([9, 10, 12, 13].map(|port| range.contains(port)), [false, true, true, false]);
    assert!(PortRange::ANY.contains(0) && PortRange::ANY.contains(65535));
}

#[test]
fn a_decision_has_the_class_of_its_item_and_terms_of_two_classes_differ() {
    use std::hash::{DefaultHasher, Hash, Hasher};

    let level = Level::Mandatory;
    let item = |ports, class, rule| {
        let terms = Terms::of(level).classed(AggregateId(class));
        Item { terms, ..Item::new(PortRange::ANY, ports, Services::ENCRYPTED, level, RuleId(rule)) }
    };
    let items = vec![item(PortRange::one(53), 8, 2), item(PortRange::ANY, 63, 3)];
    let network = Network { prefix: prefix("192.0.2.0/24"), class: Class::Protected(0), rule: RuleId(1) };
    let policy = AppPolicy::new(vec![network], vec![items]);
    for (remote, port, class) in [("192.0.2.1", 53, 8), ("192.0.2.1", 54, 63), ("198.51.100.1", 53, 0)] {
        let decision = policy.decide(&flow("192.0.2.9", remote, 17, 40_000, port));
        assert_eq!(decision.terms.class, AggregateId(class), "{remote} {port}");
    }
    // Tables of the kernel half are shared by the digest of the terms, so a class must be in it.
    let digest = |class| {
        let mut hasher = DefaultHasher::new();
        Terms::of(level).classed(AggregateId(class)).hash(&mut hasher);
        hasher.finish()
    };
    assert!(digest(0) == digest(0) && digest(0) != digest(8) && digest(8) != digest(63));
    for level in [Level::Mandatory, Level::Optional, Level::AcceptOnly] {
        assert_eq!(Terms::of(level).class, AggregateId::DEFAULT);
    }
}
