//! Tests of the text of selectors: there and back, and what is said of wrong words.

use crate::world;

use proptest::prelude::*;
use sadb::selector::{Condition, Ranges, SelectorError, TrafficSelector, field};
use world::{bits, selector, selector_of};

fn parse(text: &str) -> TrafficSelector {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error(text: &str) -> SelectorError {
    match text.parse::<TrafficSelector>() {
        Ok(selector) => panic!("{text} is {selector}"),
        Err(error) => error,
    }
}

#[test]
fn each_form_is_printed_as_it_is_written() {
    for text in [
        "any",
        "local 192.0.2.0/24 remote 198.51.100.1-198.51.100.9 proto tcp local-port 1000-2000 remote-port 80 \
         app 3 uid 0 dscp 46 mark 0x1/0xff dev 5",
        "local 0.0.0.0/0 remote 0.0.0.0/0",
        "local ::/0",
        "local 10.0.0.0/8,192.0.2.1,2001:db8::/32",
        "local ::1-2001:db8::9",
        "proto icmp type 8 code 0",
        "proto icmp type 8",
        "proto icmp type 3 code 0-5",
        "proto icmp type 3-5 code 1-2",
        "proto icmp type 3-5 code 9-2",
        "proto icmp type 0 type 3 code 1 type 8",
        "proto icmpv6 type 128-129 pfp",
        "proto icmp,icmpv6 type opaque",
        "proto mh type 5",
        "icmp-type 8 mh-type 5",
        "proto 89",
        "proto opaque",
        "proto tcp,udp,sctp",
        "port opaque",
        "port pfp",
        "proto tcp port pfp",
        "local-port pfp",
        "remote 192.0.2.1-192.0.2.10 pfp",
        "remote-port 0-65535",
        "app opaque uid 0x10/0x30",
        "mark 0x7-0x9,0x20",
    ] {
        assert_eq!(parse(text).to_string(), text);
    }
}

#[test]
fn other_ways_to_write_mean_the_same() {
    for (one, other) in [
        ("sport 1000-2000 dport 80", "local-port 1000-2000 remote-port 80"),
        ("remote-port 80,81,82-90", "remote-port 80-90"),
        ("remote any proto any", "any"),
        ("", "any"),
        ("  remote\t192.0.2.0/24 ", "remote 192.0.2.0/24"),
        ("remote 192.0.2.0-192.0.2.255", "remote 192.0.2.0/24"),
        ("remote 192.0.2.77/24", "remote 192.0.2.0/24"),
        ("remote 0.0.0.0/0,::/0", "any"),
        ("proto 6", "proto tcp"),
        ("proto icmp type any", "proto icmp"),
        ("mark 0x5", "mark 5"),
        ("mark 0x5/0xffffffff", "mark 5"),
        ("proto icmp type 3,8", "proto icmp type 3 type 8"),
        ("local-port opaque remote-port opaque icmp-type opaque mh-type opaque", "port opaque"),
    ] {
        assert_eq!(parse(one), parse(other), "{one} / {other}");
    }
}

#[test]
fn a_prefix_of_ipv6_says_nothing_of_ipv4() {
    let all = parse("remote ::/0");
    let low = (0, bits("0.0.0.0") - 1);
    let high = (bits("255.255.255.255") + 1, u128::MAX);
    assert_eq!(all.condition(&field::REMOTE), &Condition::In(Ranges::new([low, high])));
}

#[test]
fn a_wrong_word_is_named_with_what_is_allowed() {
    for (text, wrong, allowed) in [
        ("remot 192.0.2.1", "\"remot\"", "local, remote, proto"),
        ("remote", "\"remote\" needs a value", "192.0.2.0/24"),
        ("remote proto tcp", "\"proto\" cannot stand after \"remote\"", "addresses"),
        ("remote 192.0.2.0/33", "\"192.0.2.0/33\"", "prefixes"),
        ("remote 192.0.2.0/+4", "\"192.0.2.0/+4\"", "prefixes"),
        ("remote ::ffff:192.0.2.1", "\"::ffff:192.0.2.1\"", "addresses"),
        ("remote 192.0.2.1-2001:db8::1", "\"192.0.2.1-2001:db8::1\"", "ranges"),
        ("remote 192.0.2.9-192.0.2.1", "\"192.0.2.9-192.0.2.1\"", "lower end first"),
        ("remote 192.0.2.1,,192.0.2.2", "\"\" cannot stand", "addresses"),
        ("remote opaque", "remote is in every packet", "ports"),
        ("mark opaque", "mark is in every packet", "ports"),
        ("proto tpc", "\"tpc\" cannot stand after \"proto\"", "tcp, icmpv6"),
        ("proto 256", "\"256\"", "greatest is 255"),
        ("sport 65536", "\"65536\" cannot stand after \"sport\"", "greatest is 65535"),
        ("sport -1", "\"-1\"", "ports or ranges"),
        ("dport 80 dport 443", "\"dport\" stands there twice", "one list"),
        ("dport 80 remote-port 443", "\"remote-port\" stands there twice", "one list"),
        ("local-port opaque pfp", "local-port is opaque", "pfp"),
        ("port opaque dport 80", "\"dport\" stands there twice", "list"),
        ("dport 80 port opaque", "\"remote-port\" stands there twice", "list"),
        ("port 53", "\"53\" cannot stand after \"port\"", "local-port or remote-port"),
        ("port", "\"\" cannot stand after \"port\"", "opaque"),
        ("type 8", "\"type\" needs", "proto icmp"),
        ("proto tcp type 8", "\"type\" needs", "proto mh"),
        ("proto icmp code 8", "\"code\" needs an ICMP type", "type 3 code 0-5"),
        ("proto icmp type 8 code", "\"\" cannot stand after \"code\"", "0 to 255"),
        ("proto icmp type 8 code 256", "\"256\" cannot stand after \"code\"", "0 to 255"),
        ("proto icmp type 3,8 code 0", "\"0\" cannot stand after \"code\"", "after one type"),
        ("proto icmp type 3 code 5-1", "\"5-1\" after \"code\" is an empty range", "lower"),
        ("proto icmp type 256", "\"256\"", "greatest is 255"),
        ("proto icmp type opaque type 8", "\"type\" stands there twice", "list"),
        ("pfp", "\"pfp\" needs a field", "before it"),
        ("dscp 64", "\"64\"", "greatest is 63"),
        ("mark 0x100/0xff", "\"0x100/0xff\"", "mask"),
        ("mark 0x", "\"0x\"", "mark"),
        ("dev 2147483648", "\"2147483648\"", "greatest is 2147483647"),
        ("local 192.0.2.1 remote 2001:db8::1", "no address family in common", "one family"),
        ("any any", "\"any\" is not a selector field", "local"),
    ] {
        let said = error(text).to_string();
        assert!(said.contains(wrong) && said.contains(allowed), "{text}: {said}");
    }
}

/// Words that belong to the language, so that random texts get far.
fn word() -> impl Strategy<Value = String> {
    let known = "local remote proto local-port remote-port sport dport port icmp-type mh-type type code app uid dscp \
                 mark dev any opaque pfp tcp icmp mh 0 8 255 65535 0x1/0xff 3-5 5-3 1,2 192.0.2.0/24 ::/0 ::1-::9 \
                 10.0.0.1-10.0.0.9";
    let known: Vec<String> = known.split_whitespace().map(str::to_owned).collect();
    prop_oneof![12 => prop::sample::select(known), 1 => "\\PC{0,12}", 1 => "[0-9a-fx:./,-]{0,12}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn text_and_back(made in prop_oneof![selector(), selector_of(field::STANDARD.to_vec(), true)]) {
        let text = made.to_string();
        prop_assert_eq!(text.parse::<TrafficSelector>(), Ok(made), "{}", text);
    }

    #[test]
    fn no_text_panics_and_what_is_understood_prints_alike(words in prop::collection::vec(word(), 0..14)) {
        if let Ok(made) = words.join(" ").parse::<TrafficSelector>() {
            prop_assert_eq!(made.to_string().parse::<TrafficSelector>(), Ok(made));
        }
    }

    #[test]
    fn no_string_panics(text in "\\PC{0,60}") {
        let _ = text.parse::<TrafficSelector>();
    }
}
