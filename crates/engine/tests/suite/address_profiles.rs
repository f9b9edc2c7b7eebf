//! Profiles of users that are addresses: far ends in both directions, and inner sources of what is sent.

use crate::{inbound_queued, queued, support};

use std::net::IpAddr;

use crypto::SuiteId;
use engine::{Delivery, Outcome};
use qos::graph::Graph;
use qos::graph::description::HookPoint;
use sadb::{Mode, SaConfig, Spi};
use support::*;
use wire::{DropReason, Packet, Prefix, stage};

/// A graph in which the users of one class are told apart by a word, and those of a prefix have a profile.
fn graph_by(by: &str, prefix: &str, profile: &str) -> String {
    // Inner sources of what is received are hidden.
    let direction = if by == "source" { "direction = \"out\"\n" } else { "" };
    let received = "[class.received]\nmatch = \"rest\"\ndirection = \"in\"\n";
    format!(
        "[class.rest]\nmatch = \"rest\"\n{direction}fair = \"{by}\"\n\
         profiles = [{{ name = \"named\", users = [\"{prefix}\"], {profile} }}]\n\
         [class.gold]\nmatch = \"named\"\n{}",
        if by == "source" { received } else { "" }
    )
}

const GOLD: &str = "class = \"gold\"";
const LIMIT: &str = "limit = { rate = \"8kbit\", burst = \"1600B\" }";

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A prefix of the near hosts, a host behind a second far end, and that far end.
fn places(v6: bool) -> (&'static str, IpAddr, IpAddr) {
    match v6 {
        false => ("192.0.2.0/24", address("203.0.113.9"), address("198.51.100.20")),
        true => ("2001:db8::/48", address("2001:db8:f::9"), address("2001:db8:e::1")),
    }
}

/// Two associations of one host with two far ends, each for one destination.
fn two_far_ends(v6: bool) -> [SaConfig; 2] {
    let (_, behind, far) = places(v6);
    let mut near = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, v6);
    near.selectors.remote = Prefix::host(hosts(v6).1);
    let mut other = near.clone();
    other.spi = Spi(near.spi.0 + 1);
    other.keymat = keymat(SuiteId::AES_128_GCM, 2);
    other.selectors.remote = Prefix::host(behind);
    other.endpoints.remote = far;
    [near, other]
}

fn datagram(from: IpAddr, to: IpAddr) -> Packet<stage::Inner> {
    stamped(APP, &udp_packet((from, 40000), (to, 53), 0, true, &[7; 1000]))
}

/// The packets of a class that came to hook 5a.
fn came<T: 'static>(graph: &Graph<T>, class: &str) -> u64 {
    graph.counts().of(HookPoint::In5a, graph.aggregates().find(class).unwrap()).come
}

/// Send a datagram through a graph, and work until nothing waits.
fn send(alice: &mut Sender, from: IpAddr, to: IpAddr) -> Vec<Outcome> {
    let mut out = queued::receive(alice, datagram(from, to));
    queued::work(alice, NOW, &mut out);
    out
}

#[test]
fn a_far_end_has_the_profile_of_its_prefix_from_its_first_packet_on() {
    for v6 in [false, true] {
        let ((here, there), (prefix, behind, _)) = (hosts(v6), places(v6));
        let text = graph_by("peer", prefix, GOLD);
        let mut alice = queued::sender(mandatory(), &two_far_ends(v6), &text);
        for to in [there, there, behind, there, behind] {
            assert_eq!(queued::left(&send(&mut alice, here, to)).len(), 1);
        }
        let graph = alice.engine.graph().unwrap().graph();
        assert_eq!((came(graph, "gold"), came(graph, "rest")), (3, 2));
        assert!(graph.conserved());
    }
}

#[test]
fn a_far_end_is_one_user_whoever_sends_to_it() {
    let ((here, there), (_, behind, _)) = (hosts(false), places(false));
    let text = graph_by("peer", "0.0.0.0/0", LIMIT);
    let mut alice = queued::sender(mandatory(), &two_far_ends(false), &text);
    let neighbour = address("192.0.2.77");
    let reasons = [(here, there), (neighbour, there), (neighbour, behind), (here, behind)]
        .map(|(from, to)| queued::reasons(&send(&mut alice, from, to)));
    // Each far end may be sent one packet at once.
    let policed = vec![DropReason::Policed];
    assert_eq!(reasons, [vec![], policed.clone(), vec![], policed]);
}

#[test]
fn what_is_received_has_the_profile_of_its_far_end() {
    for (prefix, gold) in [("192.0.2.10", 3), ("192.0.2.0/28", 3), ("192.0.2.11", 0)] {
        let (mut alice, mut bob) = inbound_queued::ends();
        inbound_queued::set(&mut bob, Some(inbound_queued::graph(&graph_by("peer", prefix, GOLD))));
        let mut host = Delivery::new();
        for _ in 0..3 {
            let packet = inbound_queued::sealed(&mut alice, 0, 100);
            inbound_queued::receive(&mut bob, &packet);
            inbound_queued::work(&mut bob, NOW, &mut host);
        }
        let graph = bob.engine.graph().unwrap().graph();
        assert_eq!((came(graph, "gold"), came(graph, "rest")), (gold, 3 - gold), "{prefix}");
        assert_eq!(host.len(), 3, "{prefix}");
    }
    let (mut alice, mut bob) = inbound_queued::ends();
    inbound_queued::set(&mut bob, Some(inbound_queued::graph(&graph_by("peer", "192.0.2.10", LIMIT))));
    for _ in 0..3 {
        let packet = inbound_queued::sealed(&mut alice, 0, 1000);
        inbound_queued::receive(&mut bob, &packet);
        inbound_queued::work(&mut bob, NOW, &mut Delivery::new());
    }
    assert_eq!(inbound_queued::drops(&bob), [(DropReason::Policed, 2)]);
}

#[test]
fn an_inner_source_has_the_profile_of_its_prefix() {
    for v6 in [false, true] {
        let (here, there) = hosts(v6);
        let neighbour = address(if v6 { "2001:db8:5::77" } else { "192.0.2.77" });
        for (prefix, gold) in [(format!("{here}"), 3), (format!("{neighbour}"), 1), (format!("{there}"), 0)] {
            let text = graph_by("source", &prefix, GOLD);
            let mut alice = queued::sender(mandatory(), &two_far_ends(v6), &text);
            for from in [here, neighbour, here, here] {
                assert_eq!(queued::left(&send(&mut alice, from, there)).len(), 1);
            }
            let graph = alice.engine.graph().unwrap().graph();
            assert_eq!((came(graph, "gold"), came(graph, "rest")), (gold, 4 - gold), "{prefix}");
        }
    }
}

#[test]
fn a_packet_that_waits_over_an_exchange_has_the_profile_of_the_new_graph() {
    let (here, there) = hosts(false);
    // Users are told apart behind the look-up here, where what waited in front of it comes by.
    let text = |by: &str, prefix: &str| {
        format!(
            "[class.rest]\nmatch = \"rest\"\n[class.gold]\nmatch = \"named\"\n\
             [[hook]]\nat = \"1a\"\nchain = [\"classify\"]\n\
             [[hook]]\nat = \"3a\"\ndirection = \"out\"\nchain = [{{ kind = \"users\", class = \"rest\", by = \"{by}\", \
             profiles = [{{ name = \"named\", users = [{prefix}], class = \"gold\" }}] }}]\n\
             [unit.inline]\nkind = \"inline\"\n"
        )
    };
    for (by, own) in [("source", here), ("peer", there)] {
        // The interval of the address has another number in each of them.
        let before = text(by, "\"10.0.0.0/8\", \"203.0.113.0/24\"");
        let after = text(by, &format!("\"10.0.0.0/8\", \"{own}\""));
        let mut alice = queued::sender(mandatory(), &two_far_ends(false), &before);
        assert!(queued::receive(&mut alice, datagram(here, there)).is_empty());
        let mut out = queued::set(&mut alice, Some(queued::graph(&after)));
        queued::work(&mut alice, NOW, &mut out);
        assert_eq!((queued::left(&out).len(), queued::reasons(&out)), (1, vec![]), "{by}");
        let graph = alice.engine.graph().unwrap().graph();
        assert_eq!((came(graph, "gold"), came(graph, "rest")), (1, 0), "{by}");
    }
}
