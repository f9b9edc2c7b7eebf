//! What the kernel half counts for each application, against what was on the wire and what was refused. Needs root.

use crate::common;

use common::*;
use sadb::spd::{AppPolicy, Class, Level, PortRange, Spd};
use sockmon::{Amount, AppTraffic, Attempt};
use wire::Services;

fn amount(packets: u64, octets: u64) -> Amount {
    Amount { packets, octets }
}

#[test]
fn what_leaves_in_clear_is_counted_as_it_leaves() {
    let mut world = usual_world("clearsum");
    world.wire();
    let mut program = world.start("weak");
    program.run(&["open s udp4", "open t udp6", "fragment s"]);
    program.run(&["sendto s 10.99.0.2:9 100", "sendto s 10.99.0.2:9 4000", "sendto t [fd99::2]:9 7"]);
    // One super-packet, cut by nobody here: five datagrams.
    program.run(&["open u udp4", "segment u 1000", "sendto u 10.99.0.2:9 5000"]);
    let wire = world.wire_within(SOON / 10);
    let whole: u64 = wire.iter().map(|packet| packet.len() as u64).sum();
    assert_eq!(wire.len(), 1 + 3 + 1 + 1);
    let sums = world.traffic(WEAK);
    // The headers of four more datagrams.
    assert_eq!(sums.out_clear, amount(1 + 3 + 1 + 5, whole + 4 * 28));
    assert_eq!(sums, AppTraffic { out_clear: sums.out_clear, ..AppTraffic::default() });
    // Nobody else's, and nothing between two sockets of this host.
    let mut unnamed = world.start("unnamed");
    unnamed.run(&["open s udp4", "sendto s 10.99.0.2:9 100"]);
    program.run(&["open v udp4", "bind v 127.0.0.1:7009", "sendto s 127.0.0.1:7009 50"]);
    assert_eq!(world.sockmon().traffic().unwrap().len(), 1);
    assert_eq!(world.traffic(WEAK), sums);
}

#[test]
fn what_is_handed_over_is_no_clear_traffic() {
    let mut world = usual_world("handedsum");
    let mut program = world.start("strict");
    program.run(&["open s udp4", "sendto s 10.99.0.2:9 100", "sendto s 10.99.0.2:9 100"]);
    assert_eq!(world.drain().len(), 2);
    let sums = world.traffic(STRICT);
    assert_eq!(sums, AppTraffic { out_encrypted: amount(2, 256), ..AppTraffic::default() });
}

#[test]
fn fragments_are_asked_for_like_their_first() {
    let mut world = World::new("askedfrag");
    world.attach();
    let at = |port, services| item(PortRange::ANY, PortRange::one(port), services, Level::Mandatory);
    let items = vec![at(53, Services::ENCRYPTED), at(54, Services::AUTHENTICATED)];
    let networks =
        vec![network("10.99.0.0/24", Class::Protected(0)), network("fd99::/64", Class::Protected(0))];
    let mut spd = Spd::new(1);
    spd.insert(STRICT, AppPolicy::new(networks, vec![items]));
    world.load(&spd, &[]);
    let mut program = world.start("strict");
    program.run(&["open s udp4", "open t udp6", "fragment s"]);
    // A second datagram between the same ends: one is not taken for the other.
    program.run(&["sendto s 10.99.0.2:53 4000", "sendto s 10.99.0.2:54 4000", "sendto t [fd99::2]:53 4000"]);
    let seen = world.drain();
    assert_eq!(seen.len(), 9);
    let sums = world.traffic(STRICT);
    assert_eq!((sums.out_encrypted.packets, sums.out_authenticated.packets), (6, 3), "{sums:?}");
    assert_eq!(
        sums,
        AppTraffic {
            out_encrypted: sums.out_encrypted,
            out_authenticated: sums.out_authenticated,
            ..AppTraffic::default()
        }
    );
}

#[test]
fn refusals_are_counted_by_reason_whether_or_not_they_are_told() {
    let mut world = usual_world("refusals");
    let mut program = world.start("strict");
    program.run(&["open s udp4"]);
    // More than the queue of events holds, and nobody reads.
    const TIMES: u64 = 6000;
    for _ in 0..TIMES {
        assert_eq!(program.ask("sendto s 10.99.0.65:9 5"), "EPERM");
    }
    let sums = world.traffic(STRICT);
    assert_eq!(sums.reasons.into_iter().collect::<Vec<_>>(), [("sendmsg_untrusted", TIMES)]);
    assert_eq!(sums.out_refused, amount(TIMES, 0));
    // Nor does that hide what others are refused meanwhile.
    let mut other = world.start("other");
    other.run(&["open s udp4"]);
    assert_eq!(other.ask("sendto s 10.99.0.65:9 5"), "EPERM");
    let told = world.sockmon().events().unwrap();
    assert_eq!(told.iter().filter(|event| event.app == OTHER).count(), 1, "{}", told.len());
    assert_eq!(
        (told.len() as u64 - 1 + world.counter("events_left_out"), world.counter("events_lost")),
        (TIMES, 0)
    );
    assert!((32..TIMES).contains(&(told.len() as u64)), "{}", told.len());
    assert_eq!(world.traffic(OTHER).reasons.into_iter().collect::<Vec<_>>(), [("sendmsg_untrusted", 1)]);
}

#[test]
fn a_packet_that_is_refused_is_told_with_its_peer() {
    let mut world = usual_world("toldpacket");
    let mut program = world.start("strict");
    program.run(&["open s udp4", "bind s 10.99.0.1:7001"]);
    let mut bob = world.start_in_bob("unnamed");
    bob.run(&["open s udp4", "bind s 10.99.0.2:5000"]);
    // A flood: each is counted, few are told.
    for _ in 0..50 {
        bob.run(&["sendto s 10.99.0.1:7001 20"]);
    }
    let sums = world.traffic(STRICT);
    assert_eq!(sums.reasons.get("ingress_no_proof"), Some(&50));
    assert_eq!(sums.in_refused, amount(50, 50 * 48));
    let events = world.sockmon().events().unwrap();
    assert!((1..50).contains(&events.len()), "{}", events.len());
    let event = &events[0];
    assert_eq!((event.attempt, event.reason, event.app), (Attempt::PacketIn, "ingress_no_proof", STRICT));
    assert_eq!((event.peer.to_string().as_str(), event.protocol, event.pid), ("10.99.0.2:5000", 17, 0));
}
