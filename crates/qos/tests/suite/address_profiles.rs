//! Profiles of users that are addresses, by prefix: far ends, and inner sources.

use std::net::IpAddr;

use qos::graph::description::HookPoint;
use qos::graph::{check, compile, print, read};
use qos::{Cause, Direction, Meta};

use crate::profiles::{SECOND, Sender, house, near, points, served_as};
use crate::running::{Works, graph};

/// The time that senders get, of which one of eight has some thousand packets.
const TIME: u64 = SECOND / 4;

/// A graph whose users are told apart by an address of packets that are sent.
fn fair(by: &str, profiles: &str) -> String {
    format!(
        "[class.rest]\nmatch = \"rest\"\ndirection = \"out\"\nlimit = {{ packets = 300, time = \"20ms\" }}\n\
         fair = \"{by}\"\nprofiles = [{profiles}]\n\
         [class.received]\nmatch = \"rest\"\ndirection = \"in\"\n"
    )
}

/// The packet of a sender from an inner source, or to a far end, with this address. The number of the sender stands for
/// the hash of it.
fn meta(works: &Works, by: &str, sender: Sender, address: &str) -> Meta {
    let addresses = works.graph.addresses();
    let address: IpAddr = address.parse().unwrap();
    let number = u32::from(sender.app);
    match by {
        "peer" => Meta { peer: addresses.peers.number(address), peer_hash: number, user: 1, ..sender.meta() },
        _ => Meta { source: addresses.sources.number(address), user: number, ..sender.meta() },
    }
}

const GOLD_AND_SILVER: &str = "{ name = \"gold\", users = [\"192.0.2.0/24\", \"2001:db8:1::/48\"], weight = 4 }, \
    { name = \"silver\", users = [\"198.51.100.7\", \"2001:db8::/32\"], weight = 2 }";

#[test]
fn weights_of_one_two_and_four_by_prefix_give_shares_of_one_two_and_four() {
    let users = [
        ("203.0.113.9", 1),
        ("198.51.100.8", 1),
        ("198.51.100.7", 2),
        // Two users of one prefix have the weight each.
        ("192.0.2.7", 4),
        ("192.0.2.200", 4),
        ("2001:db9::1", 1),
        ("2001:db8:2::1", 2),
        // The longest prefix counts.
        ("2001:db8:1::1", 4),
    ];
    let all: u64 = users.iter().map(|(_, weight)| weight).sum();
    for by in ["peer", "source"] {
        let mut works = Works::new(graph(&fair(by, GOLD_AND_SILVER), &house()));
        let senders: Vec<Sender> =
            (1..).zip(users).map(|(app, _)| Sender::flood(app, 200 * u64::from(app % 4 + 1))).collect();
        let metas: Vec<Meta> = senders
            .iter()
            .zip(users)
            .map(|(sender, (address, _))| meta(&works, by, *sender, address))
            .collect();
        let served = served_as(&mut works, &senders, TIME, |sender| metas[usize::from(sender.app) - 1]);
        for (app, (address, weight)) in (1..).zip(users) {
            assert!(near(served[&app], TIME * weight / all, 3), "{by} {address}: {served:?}");
        }
        assert!(works.ended.iter().all(|ended| ended.cause == Cause::QueueFull));
    }
}

#[test]
fn a_user_outside_of_every_prefix_has_the_profile_of_everybody() {
    let profiles =
        "{ name = \"lab\", users = [\"192.0.2.0/24\"], weight = 3 }, { name = \"others\", weight = 2 }";
    for by in ["peer", "source"] {
        let text = fair(by, profiles);
        let description = check(&text, &house()).unwrap();
        assert_eq!(read(&print(&description)).as_ref(), Ok(&description));
        let mut works = Works::new(graph(&text, &house()));
        let sender = Sender::flood(1, 100);
        let packets = ["192.0.2.1", "192.0.3.1", "::1"].map(|address| meta(&works, by, sender, address));
        for (ticket, packet) in (0..).zip(packets) {
            works.offer(ticket, packet);
        }
        // Its address is not known.
        works.offer(3, Meta { peer_hash: 0, user: 1, ..sender.meta() });
        works.drain();
        let mut left: Vec<(u64, u16)> =
            works.left.iter().map(|(ticket, meta)| (*ticket, meta.weight.get())).collect();
        left.sort_unstable();
        // A far end that is not known is nobody, and an inner source that no prefix has is everybody.
        let unknown = if by == "peer" { 1 } else { 2 };
        assert_eq!(left, [(0, 3), (1, 2), (2, 2), (3, unknown)], "{by}");
    }
}

#[test]
fn a_limit_of_a_prefix_is_one_of_each_address_in_it() {
    let limit = "limit = { rate = \"10%\", burst = \"500us\" }";
    for by in ["peer", "source"] {
        let text = fair(by, &format!("{{ name = \"lab\", users = [\"192.0.2.0/24\"], {limit} }}"));
        let mut works = Works::new(graph(&text, &house()));
        let senders = [1, 2, 3].map(|app| Sender::flood(app, 100));
        let addresses = ["192.0.2.1", "192.0.2.2", "203.0.113.1"];
        let metas: Vec<Meta> = senders
            .iter()
            .zip(addresses)
            .map(|(sender, address)| meta(&works, by, *sender, address))
            .collect();
        let served = served_as(&mut works, &senders, TIME, |sender| metas[usize::from(sender.app) - 1]);
        for (app, share) in [(1, 10), (2, 10), (3, 80)] {
            assert!(near(served[&app], TIME * share / 100, 4), "{by}: {served:?}");
        }
    }
}

#[test]
fn profiles_of_far_ends_stand_behind_the_look_up_and_those_of_sources_in_front() {
    let at = |by: &str| points(&check(&fair(by, GOLD_AND_SILVER), &house()).unwrap());
    assert_eq!(at("peer"), [HookPoint::In3a]);
    assert_eq!(at("source"), [HookPoint::In1a]);
    // Without profiles users are told apart by the queue alone.
    assert_eq!(points(&check(&fair("peer", ""), &house()).unwrap()), [HookPoint::In1a]);
}

#[test]
fn what_waits_has_the_numbers_of_the_new_graph_behind_an_exchange() {
    let text = |by: &str, users: &str| {
        format!("stages = [1, 3, 5]\n{}", fair(by, &format!("{{ name = \"a\", users = [{users}] }}")))
    };
    for by in ["peer", "source"] {
        let mut works = Works::new(graph(&text(by, "\"192.0.2.0/24\""), &house()));
        let packet = meta(&works, by, Sender::flood(1, 100), "192.0.2.7");
        works.offer(1, packet);
        let after = text(by, "\"10.0.0.0/8\", \"192.0.2.0/24\"");
        let after = compile(&check(&after, &house()).unwrap(), &house(), Direction::Outbound, 7).unwrap();
        let before = std::mem::replace(&mut works.graph, after);
        let mut back = Vec::new();
        works.graph.adopt(before, &mut back);
        assert!(back.is_empty());
        works.drain();
        let [(1, left)] = works.left[..] else { panic!("{:?}", works.left) };
        let now = meta(&works, by, Sender::flood(1, 100), "192.0.2.7");
        assert_eq!((left.peer, left.source), (now.peer, now.source), "{by}");
        assert_ne!((left.peer, left.source), (packet.peer, packet.source), "{by}");
    }
}
