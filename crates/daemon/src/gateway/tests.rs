//! Spans against the rules themselves: what passes without the engine is what every packet of the peer would be told.

use api::{SpdAdd, SpdDirection, Verdict};
use proptest::prelude::*;
use sadb::PacketKey;
use wire::addr;

use super::first::rules_of;
use super::*;
use documents::rules::SpdRules;

fn request(selector: &str, action: Verdict, direction: SpdDirection) -> SpdAdd {
    SpdAdd {
        name: None,
        place: None,
        direction,
        selectors: vec![selector.to_owned()],
        action,
        service: None,
        level: None,
        bundle: Vec::new(),
        suite: None,
        scrub: None,
        class: None,
    }
}

fn book(rules: &[(&str, Verdict)]) -> SpdRules {
    let mut book = SpdRules::default();
    for (selector, action) in rules {
        book.add(&request(selector, *action, SpdDirection::Both)).unwrap();
    }
    book
}

/// What the kernel half looks up: out, in.
fn passes(spans: &[Span], peer: &str) -> (bool, bool) {
    let peer = peer.parse().unwrap();
    let longest = spans.iter().filter(|s| s.peers.contains(peer)).max_by_key(|s| s.peers.len());
    longest.map_or((false, false), |span| (span.bypass_out, span.bypass_in))
}

#[test]
fn a_site_with_a_protected_neighbour_and_the_rest_of_the_world() {
    let book = book(&[
        ("local 10.1.0.0/16 remote 10.2.0.0/16 proto tcp remote-port 80", Verdict::Protect),
        ("remote 10.2.3.0/24", Verdict::Bypass),
        ("remote 192.0.2.0/24", Verdict::Discard),
        ("any", Verdict::Bypass),
    ]);
    let spans = spans(&book.in_order());
    assert_eq!(passes(&spans, "198.51.100.1"), (true, true));
    assert_eq!(passes(&spans, "2001:db8::1"), (true, true));
    // Some packets are protected: the engine looks at all.
    assert_eq!(passes(&spans, "10.2.0.1"), (false, false));
    assert_eq!(passes(&spans, "10.2.3.1"), (false, false));
    assert_eq!(passes(&spans, "192.0.2.7"), (false, false));
    assert_eq!(spans.len(), 3, "{spans:?}");
}

#[test]
fn what_is_scrubbed_comes_by_the_engine() {
    let mut book = SpdRules::default();
    let scrubbed = request("remote 198.51.100.0/24", Verdict::Bypass, SpdDirection::Both);
    book.add(&SpdAdd { scrub: Some("standard".to_owned()), ..scrubbed }).unwrap();
    book.add(&request("any", Verdict::Bypass, SpdDirection::Both)).unwrap();
    let spans = spans(&book.in_order());
    assert_eq!(passes(&spans, "198.51.100.1"), (false, false));
    assert_eq!(passes(&spans, "192.0.2.1"), (true, true));
}

#[test]
fn without_rules_nothing_passes_unless_the_rest_does() {
    let mut book = SpdRules::default();
    assert!(spans(&book.in_order()).is_empty() && book.snapshot().is_none());
    book.set_bypass_the_rest(true);
    assert_eq!(passes(&spans(&book.in_order()), "192.0.2.1"), (true, true));
    assert!(book.snapshot().unwrap().has_rules_for(Direction::In));
    assert!(book.list(&documents::rules::RuleCounts::default()).is_empty());
    // A rule that bypasses only a part leaves the rest to those behind it.
    book.add(&request("proto udp", Verdict::Bypass, SpdDirection::In)).unwrap();
    assert_eq!(passes(&spans(&book.in_order()), "192.0.2.1"), (true, true));
    book.add(&request("proto icmp", Verdict::Discard, SpdDirection::Out)).unwrap();
    assert_eq!(passes(&spans(&book.in_order()), "192.0.2.1"), (false, true));
}

#[test]
fn a_file_holds_rules_and_no_keys() {
    let text = "spdadd 10.1.0.0/16 10.2.0.0/16 any -P out discard;\n";
    assert_eq!(
        rules_of(text, &crypto::Suites::standard(), &Default::default()).unwrap().documents().len(),
        1
    );
    let line = r#"{"rule":{"direction":"both","selectors":["any"],"action":"bypass"}}"#;
    assert_eq!(
        rules_of(line, &crypto::Suites::standard(), &Default::default()).unwrap().documents().len(),
        1
    );
    let (at, text) = rules_of(
        "spdflush;\nadd 10.0.0.1 10.0.0.2 esp 0x1001 -E null \"\" -A null;\n",
        &crypto::Suites::standard(),
        &Default::default(),
    )
    .unwrap_err();
    assert_eq!(at, 2, "{text}");
    let same = format!("{line}\n{}", line.replace("bypass", "bypas"));
    assert_eq!(rules_of(&same, &crypto::Suites::standard(), &Default::default()).unwrap_err().0, 2);
}

fn prefixes() -> impl Strategy<Value = String> {
    prop_oneof![
        (0u8..4, 0u8..4, 8u8..=32).prop_map(|(a, b, len)| format!("remote 10.{a}.{b}.0/{len}")),
        (0u8..4).prop_map(|a| format!("remote 10.{a}.0.0-10.{a}.2.255")),
        Just("any".to_owned()),
    ]
}

fn rules() -> impl Strategy<Value = Vec<(String, Verdict, SpdDirection)>> {
    let more = prop_oneof![Just(""), Just(" proto tcp"), Just(" proto udp remote-port 53")];
    let action = prop_oneof![Just(Verdict::Bypass), Just(Verdict::Discard), Just(Verdict::Protect)];
    let way = prop_oneof![Just(SpdDirection::Both), Just(SpdDirection::In), Just(SpdDirection::Out)];
    let rule = (prefixes(), more, action, way).prop_map(|(peers, more, action, way)| {
        let peers = if peers == "any" && !more.is_empty() { String::new() } else { peers };
        (format!("{peers}{more}").trim().to_owned(), action, way)
    });
    prop::collection::vec(rule, 0..8)
}

proptest! {
    /// A packet passes only if the first rule that matches it bypasses it, and what all packets of a peer get is found.
    #[test]
    fn spans_say_what_the_rules_say(rules in rules(), a in 0u8..4, b in 0u8..4, c in 0u8..3) {
        let mut book = SpdRules::default();
        for (selector, action, way) in &rules {
            book.add(&request(selector, *action, *way)).unwrap();
        }
        let spans = spans(&book.in_order());
        let peer = format!("10.{a}.{b}.{c}");
        let passes = passes(&spans, &peer);
        let snapshot = book.snapshot();
        let local = addr::from_bits(addr::to_bits("10.9.0.1".parse().unwrap()));
        let key = PacketKey::new(local, peer.parse().unwrap());
        let packets = [
            key.protocol(6).ports(9, 80),
            key.protocol(17).ports(9, 53),
            key.protocol(17).ports(9, 54),
            key.protocol(1).icmp(8, 0),
        ];
        for (way, passes) in [(Direction::Out, passes.0), (Direction::In, passes.1)] {
            let bypassed = |packet: &PacketKey| {
                let rule = snapshot.as_ref().and_then(|snapshot| snapshot.lookup(way, packet));
                rule.is_some_and(|rule| rule.action == Action::Bypass)
            };
            if passes {
                prop_assert!(packets.iter().all(bypassed), "{spans:?}");
            }
        }
    }
}
