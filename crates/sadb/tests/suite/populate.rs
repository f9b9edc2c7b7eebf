//! Tests of populate from packet: the example of RFC 4301 section 4.4.1 and every row of the tables of section 4.4.2.2.

use crate::world;

use proptest::prelude::*;
use sadb::Rule;
use sadb::rules::{Action, Direction, Protection, RuleKey, Template};
use sadb::selector::{PacketKey, SelectorError, TrafficSelector, Unavailable, field};
use sadb::spd::Level;
use wire::{AppId, Services};
use world::{packet, selector_of};

fn protect(selectors: Vec<TrafficSelector>) -> Rule {
    let protection = Protection {
        bundle: vec![Template::ANY],
        services: Services::ENCRYPTED,
        level: Level::Mandatory,
        suite: None,
    };
    let mut rule = Rule::new(RuleKey(1), Direction::Out, TrafficSelector::ANY, Action::Protect(protection));
    rule.selectors = selectors;
    rule.checked().unwrap()
}

fn rule(text: &str) -> Rule {
    protect(vec![text.parse().unwrap()])
}

fn to(remote: &str) -> PacketKey {
    PacketKey::new("10.1.2.3".parse().unwrap(), remote.parse().unwrap())
}

/// The selectors of the association for this packet, as text; `discard` where the packet is discarded.
fn made(text: &str, packet: PacketKey) -> String {
    match rule(text).instantiate(&packet) {
        Ok(selectors) => selectors.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or "),
        Err(_) => "discard".to_owned(),
    }
}

#[test]
fn the_example_of_4_4_1() {
    let packet = to("192.0.2.3");
    assert_eq!(made("remote 192.0.2.1-192.0.2.10 pfp", packet), "remote 192.0.2.3");
    assert_eq!(made("remote 192.0.2.1-192.0.2.10", packet), "remote 192.0.2.1-192.0.2.10");
    // "If the SPD entry above had a value of ANY".
    assert_eq!(made("remote pfp", packet), "remote 192.0.2.3");
    assert_eq!(made("any", packet), "any");
    // "To prohibit sharing of an SA, even among packets that match the same SPD entry".
    let (unique, shared) = (rule("remote 192.0.2.1-192.0.2.10 pfp"), rule("remote 192.0.2.1-192.0.2.10"));
    assert_ne!(unique.share(&to("192.0.2.3")), unique.share(&to("192.0.2.4")));
    assert_eq!(unique.share(&to("192.0.2.3")), unique.share(&to("192.0.2.3").protocol(6).ports(1, 2)));
    assert_eq!(shared.share(&to("192.0.2.3")), shared.share(&to("192.0.2.4")));
}

#[test]
fn the_table_of_addresses_and_protocol() {
    let known = to("192.0.2.3").protocol(6);
    let hidden = to("192.0.2.3");
    for (text, want, want_hidden) in [
        (
            "local 10.0.0.0/8,172.16.0.0/12",
            "local 10.0.0.0/8,172.16.0.0/12",
            "local 10.0.0.0/8,172.16.0.0/12",
        ),
        ("local 10.0.0.0/8 pfp", "local 10.1.2.3", "local 10.1.2.3"),
        ("local pfp", "local 10.1.2.3", "local 10.1.2.3"),
        ("proto tcp", "proto tcp", "-"),
        ("any", "any", "any"),
        ("proto opaque", "-", "proto opaque"),
        ("proto tcp,udp pfp", "proto tcp", "-"),
        ("proto pfp", "proto tcp", "discard"),
    ] {
        // A dash: the packet does not match, so the rule is not the one that is asked.
        for (packet, want) in [(known, want), (hidden, want_hidden)] {
            if want == "-" {
                assert!(!rule(text).matches(&packet), "{text}");
            } else {
                assert!(rule(text).matches(&packet), "{text}");
                assert_eq!(made(text, packet), want, "{text}");
            }
        }
    }
}

#[test]
fn the_tables_of_ports_types_and_codes() {
    let base = to("192.0.2.3");
    let (tcp, mobility, icmp) = (base.protocol(6), base.protocol(135), base.protocol(1));
    for (text, whole, want, fragment, want_fragment) in [
        ("proto tcp local-port 1000-2000", tcp.ports(1500, 80), "proto tcp local-port 1000-2000", tcp, "-"),
        ("proto tcp", tcp.ports(1500, 80), "proto tcp", tcp, "proto tcp"),
        ("proto tcp port opaque", tcp.ports(1500, 80), "-", tcp, "proto tcp port opaque"),
        ("proto tcp local-port 1000-2000 pfp", tcp.ports(1500, 80), "proto tcp local-port 1500", tcp, "-"),
        ("proto tcp local-port pfp", tcp.ports(1500, 80), "proto tcp local-port 1500", tcp, "discard"),
        ("proto tcp remote-port 80-90 pfp", tcp.ports(1500, 80), "proto tcp remote-port 80", tcp, "-"),
        ("proto tcp remote-port pfp", tcp.ports(1500, 80), "proto tcp remote-port 80", tcp, "discard"),
        ("proto mh type 1-5", mobility.mobility(3), "proto mh type 1-5", mobility, "-"),
        ("proto mh type 1-5 pfp", mobility.mobility(3), "proto mh type 3", mobility, "-"),
        ("proto mh type pfp", mobility.mobility(3), "proto mh type 3", mobility, "discard"),
        ("proto mh type opaque", mobility.mobility(3), "-", mobility, "proto mh type opaque"),
        ("proto icmp type 3 code 0-5", icmp.icmp(3, 4), "proto icmp type 3 code 0-5", icmp, "-"),
        ("proto icmp type 3", icmp.icmp(3, 4), "proto icmp type 3", icmp, "-"),
        ("proto icmp", icmp.icmp(3, 4), "proto icmp", icmp, "proto icmp"),
        ("proto icmp type opaque", icmp.icmp(3, 4), "-", icmp, "proto icmp type opaque"),
        ("proto icmp type 3 code 0-5 pfp", icmp.icmp(3, 4), "proto icmp type 3 code 4", icmp, "-"),
        ("proto icmp type 3 pfp", icmp.icmp(3, 4), "proto icmp type 3 code 4", icmp, "-"),
        ("proto icmp type pfp", icmp.icmp(3, 4), "proto icmp type 3 code 4", icmp, "discard"),
    ] {
        for (packet, want) in [(whole, want), (fragment, want_fragment)] {
            if want == "-" {
                assert!(!rule(text).matches(&packet), "{text}");
            } else {
                assert!(rule(text).matches(&packet), "{text}");
                assert_eq!(made(text, packet), want, "{text}");
            }
        }
    }
}

/// Note ***: "Use of PFP=1 with an OPAQUE value is an error".
#[test]
fn opaque_is_never_populated() {
    let error = "local-port opaque pfp".parse::<TrafficSelector>().unwrap_err();
    assert_eq!(error, SelectorError::PopulateOpaque(&field::LOCAL_PORT));
}

/// "Local Port, or ICMP message type/code or Mobility Header type (depending on the next layer protocol)".
#[test]
fn one_flag_serves_whatever_stands_for_the_port() {
    let base = to("192.0.2.3");
    assert_eq!(made("port pfp", base.protocol(17).ports(53, 54)), "local-port 53 remote-port 54");
    assert_eq!(made("port pfp", base.protocol(1).icmp(8, 0)), "icmp-type 8 code 0");
    assert_eq!(made("local-port pfp", base.protocol(1).icmp(8, 0)), "icmp-type 8 code 0");
    assert_eq!(made("local-port pfp", base.protocol(17).ports(53, 54)), "local-port 53");
    assert_eq!(rule("port pfp").instantiate(&base), Err(Unavailable(&field::REMOTE_PORT)));
    assert_eq!(made("app pfp uid pfp", base.app(AppId(3)).uid(7)), "app 3 uid 7");
    assert_eq!(made("app pfp", base), "discard");
}

#[test]
fn a_flag_holds_across_selector_sets_and_never_widens_one() {
    let sets = [
        "remote 192.0.2.1-192.0.2.10 pfp proto tcp",
        "remote 192.0.2.3-192.0.2.5 proto udp",
        "remote 10.0.0.1",
    ];
    let rule = protect(sets.iter().map(|text| text.parse().unwrap()).collect());
    let texts = |packet: &PacketKey| {
        rule.instantiate(packet).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        texts(&to("192.0.2.3").protocol(6)),
        ["remote 192.0.2.3 proto tcp", "remote 192.0.2.3 proto udp"]
    );
    assert_eq!(texts(&to("192.0.2.9").protocol(6)), ["remote 192.0.2.9 proto tcp"]);
    assert_eq!(texts(&to("10.0.0.1")), ["remote 10.0.0.1"]);
}

/// A case that the property below found: the flag of the port put the packet's type in the place of the type that a set
/// asks for.
#[test]
fn what_stands_in_for_the_port_never_widens_a_set() {
    let mut rule = protect(vec![
        "local-port 0-15 pfp icmp-type 3".parse().unwrap(),
        "local-port 0-15 pfp".parse().unwrap(),
    ]);
    rule = rule.checked().unwrap();
    let packet = to("192.0.2.3").ports(8, 9).icmp(5, 0);
    let made = rule.instantiate(&packet).unwrap();
    assert!(
        made.iter().all(|selector| !selector.matches(&to("192.0.2.3").ports(9, 9).icmp(5, 0))),
        "{made:?}"
    );
    assert_eq!(made.len(), 1, "{made:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn an_association_carries_its_packet_and_nothing_the_rule_does_not(
        selectors in prop::collection::vec(selector_of(field::STANDARD.to_vec(), true), 1..3),
        packets in prop::collection::vec(packet(), 30),
    ) {
        let mut rule = rule("any");
        rule.selectors = selectors;
        let Ok(rule) = rule.checked() else { return Ok(()) };
        let inside: Vec<_> = packets.iter().filter(|packet| rule.matches(packet)).collect();
        for packet in &inside {
            let (made, share) = (rule.instantiate(packet), rule.share(packet));
            prop_assert_eq!(made.is_ok(), share.is_ok());
            let Ok(made) = made else { continue };
            prop_assert!(made.iter().any(|selector| selector.matches(packet)));
            prop_assert!(made.iter().all(|selector| selector.terms().iter().all(|term| !term.populates())));
            for other in &packets {
                if made.iter().any(|selector| selector.matches(other)) {
                    prop_assert!(rule.matches(other), "{:?} widens {:?}", made, rule.selectors);
                }
            }
            // Two packets share an association exactly if each asks for the same.
            for other in &inside {
                let same = rule.instantiate(other).as_ref() == Ok(&made);
                prop_assert_eq!(same, rule.share(other) == share);
            }
        }
    }
}
