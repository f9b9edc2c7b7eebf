//! Bundles in a graph: a packet goes back to the queues between two members, ahead of new work and with the next
//! member's association, and both halves lose and repeat nothing (paper 002 section III.A).

use crate::behind::every_hook_and;
use crate::bundle::{bundles, chain, esp, receiver, sender};
use crate::inbound_queued;
use crate::queued;
use crate::support;

use engine::{Delivery, InboundOutcome, Outcome};
use qos::graph::description::HookPoint;
use sadb::{Mode, SaConfig};
use support::*;
use wire::{DropReason, Services};

/// The units of the tests: each kind, and two of which one does what the other leaves.
const UNITS: [&str; 4] = [queued::INLINE, queued::WORKER, queued::SLICED, "[unit.a]\nkind = \"inline\"\n"];

fn alice(members: &[SaConfig], services: Services, units: &str, every_hook: bool) -> Sender {
    let mut alice = sender(members, services);
    alice.engine = alice.engine.gathering();
    let graph = if every_hook { every_hook_and(units).0 } else { queued::one_queue_and(units) };
    queued::set(&mut alice, Some(graph));
    alice
}

fn bob(members: &[SaConfig], units: &str, every_hook: bool) -> Receiver {
    let mut bob = receiver(members);
    let graph = match every_hook {
        true => every_hook_and(units).1,
        false => inbound_queued::with(inbound_queued::EVERY, units),
    };
    inbound_queued::set(&mut bob, Some(graph));
    bob
}

/// Let so many packets come.
fn fill(alice: &mut Sender, count: u8) {
    for n in 0..count {
        assert!(queued::receive(alice, stamped(APP, &packet(n))).is_empty());
    }
}

/// The packets on the wire, in their order.
fn sent(out: &[Outcome]) -> Vec<Vec<u8>> {
    let octets = |outcome: &Outcome| match outcome {
        Outcome::Send(packet) => packet.bytes().to_vec(),
        outcome => panic!("{outcome:?}"),
    };
    out.iter().map(octets).collect()
}

fn packet(n: u8) -> Vec<u8> {
    udp_packet((hosts(false).0, 1), (hosts(false).1, 2), 0, true, &[n; 700])
}

/// The packets that came to the host, in their order.
fn delivered(delivery: &Delivery) -> Vec<Vec<u8>> {
    delivery.packets().map(|(bytes, _)| bytes.to_vec()).collect()
}

fn keyed(members: &[SaConfig]) -> u64 {
    members.iter().filter(|member| member.options.protocol.is_keyed()).count() as u64
}

#[test]
fn a_packet_goes_by_the_queues_once_for_each_member_with_a_key() {
    for (name, members, services) in bundles() {
        let members = chain(members);
        for (units, every_hook) in UNITS.iter().flat_map(|units| [(units, false), (units, true)]) {
            let about = format!("{name}, {units}, every hook: {every_hook}");
            let (mut alice, mut bob) =
                (alice(&members, services, units, every_hook), bob(&members, units, every_hook));
            for n in 0..20 {
                assert!(queued::receive(&mut alice, stamped(APP, &packet(n))).is_empty(), "{about}");
            }
            let mut out = Vec::new();
            queued::work(&mut alice, NOW, &mut out);
            let outer = sent(&out);
            assert_eq!(outer.len(), 20, "{about}: {out:?}");
            let graph = alice.engine.graph().unwrap();
            assert!(graph.graph().conserved() && graph.waiting().0 == 0, "{about}");
            let id = graph.graph().aggregates().find("every").unwrap();
            let tally = graph.graph().counts().of(HookPoint::In5a, id);
            assert_eq!(tally.come, 20 * keyed(&members), "{about}");
            // Each member took its numbers in the order in which packets came.
            for (_, sa) in alice.engine.sad().list() {
                assert_eq!(sa.counters.packets, 20, "{about}");
            }
            let mut delivery = Delivery::new();
            for bytes in &outer {
                inbound_queued::receive(&mut bob, bytes);
            }
            inbound_queued::work(&mut bob, NOW, &mut delivery);
            assert_eq!(delivered(&delivery), (0..20).map(packet).collect::<Vec<_>>(), "{about}");
            let graph = bob.engine.graph().unwrap();
            assert!(graph.graph().conserved() && graph.waiting().0 == 0, "{about}");
            let id = graph.graph().aggregates().find("every").unwrap();
            let tally = graph.graph().counts().of(HookPoint::In5a, id);
            assert_eq!(tally.come, 20 * keyed(&members), "{about}");
        }
    }
}

#[test]
fn what_a_member_has_sealed_goes_ahead_of_new_packets() {
    let members = chain(vec![esp(Mode::Transport), esp(Mode::Transport)]);
    let mut alice = alice(&members, Services::ENCRYPTED, queued::INLINE, false);
    fill(&mut alice, 200);
    let mut out = Vec::new();
    while out.len() < 200 {
        let before = out.len();
        out.extend(queued::turn(&mut alice));
        assert!(out.len() > before, "nothing leaves");
        // A turn does so many jobs, and half of them are second members: no packet is begun before those are done.
        let begun = alice.engine.sad().list().map(|(_, sa)| sa.counters.packets).max().unwrap();
        assert!(begun - out.len() as u64 <= 1, "{begun} begun, {} have left", out.len());
    }
    assert!(alice.engine.graph().unwrap().graph().conserved());
}

#[test]
fn packets_keep_their_classes_between_members_where_one_turn_gives_a_unit_both() {
    let members = chain(vec![esp(Mode::Transport), esp(Mode::Transport)]);
    for units in [queued::INLINE, queued::WORKER, queued::SLICED] {
        let mut alice = sender(&members, Services::ENCRYPTED);
        alice.engine = alice.engine.gathering();
        let text =
            format!("[class.ef]\nmatch = [{{ dscp = [\"EF\"] }}]\n[class.be]\nmatch = \"rest\"\n{units}");
        queued::set(&mut alice, Some(queued::graph(&text)));
        for n in 0..20 {
            let tos = if n % 2 == 0 { queued::EF } else { 0 };
            let bytes = udp_packet((hosts(false).0, 1), (hosts(false).1, 2), tos, true, &[n; 700]);
            assert!(queued::receive(&mut alice, stamped(APP, &bytes)).is_empty());
        }
        let mut out = Vec::new();
        queued::work(&mut alice, NOW, &mut out);
        let graph = alice.engine.graph().unwrap();
        assert!(graph.graph().conserved());
        for name in ["ef", "be"] {
            let class = graph.graph().aggregates().find(name).unwrap();
            let come = |at| graph.graph().counts().of(at, class).come;
            // Ten packets, each once for each member.
            assert_eq!([come(HookPoint::In3a), come(HookPoint::In5a)], [20, 20], "{units}, {name}");
            let left = out.iter().filter(|outcome| match outcome {
                Outcome::Send(packet) => packet.meta.aggregate == class,
                outcome => panic!("{outcome:?}"),
            });
            assert_eq!(left.count(), 10, "{units}, {name}");
        }
    }
}

#[test]
fn a_member_that_is_removed_meanwhile_ends_what_is_between() {
    let members = chain(vec![esp(Mode::Transport), esp(Mode::Transport)]);
    let mut alice = alice(&members, Services::ENCRYPTED, queued::WORKER, false);
    fill(&mut alice, 200);
    let mut out = queued::turn(&mut alice);
    while let Some(mut work) = alice.engine.take_work() {
        work.compute();
        alice.engine.answer(NOW, work, &mut alice.pool, &mut out);
    }
    let between = alice.engine.sad().list().map(|(_, sa)| sa.counters.packets).max().unwrap();
    assert!(between > 0 && out.is_empty(), "nothing is between two members");
    alice.engine.remove_sa(members[1].spi, members[1].endpoints.remote).unwrap();
    queued::work(&mut alice, NOW, &mut out);
    let reasons = queued::reasons(&out);
    let missing = reasons.iter().filter(|reason| **reason == DropReason::ChainMissing).count() as u64;
    assert!(missing >= between, "{missing} of {between}");
    assert_eq!(queued::left(&out).len() as u64 + reasons.len() as u64, 200);
    let graph = alice.engine.graph().unwrap();
    assert!(graph.graph().conserved() && graph.waiting().0 == 0);
}

#[test]
fn what_is_between_two_members_outlives_an_exchange_and_leaving_the_graph() {
    let members = chain(vec![esp(Mode::Tunnel), esp(Mode::Tunnel)]);
    for every_hook in [false, true] {
        let mut alice = alice(&members, Services::ENCRYPTED, queued::INLINE, every_hook);
        let mut bob = bob(&members, queued::INLINE, every_hook);
        fill(&mut alice, 200);
        let mut out = queued::turn(&mut alice);
        out.extend(queued::set(&mut alice, Some(every_hook_and(queued::WORKER).0)));
        out.extend(queued::turn(&mut alice));
        out.extend(queued::set(&mut alice, Some(queued::one_queue_and(queued::INLINE))));
        out.extend(queued::turn(&mut alice));
        out.extend(queued::set(&mut alice, None));
        // A worker's unanswered work is lost when its unit goes, and says so.
        let lost = queued::reasons(&out).len();
        let packets: Vec<Outcome> =
            out.into_iter().filter(|outcome| matches!(outcome, Outcome::Send(_))).collect();
        let outer = sent(&packets);
        assert_eq!(outer.len() + lost, 200);
        let mut delivery = Delivery::new();
        for bytes in &outer {
            inbound_queued::receive(&mut bob, bytes);
        }
        inbound_queued::turn(&mut bob, NOW, &mut delivery);
        let rest = inbound_queued::set(&mut bob, None);
        let got = delivered(&delivery).len() + delivered(&rest).len();
        assert_eq!(got, outer.len());
    }
}

#[test]
fn a_capture_shows_the_packet_once_with_what_became_of_it_behind_the_last_member() {
    let members = chain(vec![esp(Mode::Transport), esp(Mode::Transport)]);
    for every_hook in [false, true] {
        let mut alice = alice(&members, Services::ENCRYPTED, queued::INLINE, every_hook);
        let mut bob = bob(&members, queued::INLINE, every_hook);
        alice.engine.copy_packets(true);
        bob.engine.copy_packets(true);
        fill(&mut alice, 10);
        let mut out = Vec::new();
        queued::work(&mut alice, NOW, &mut out);
        let copies = alice.engine.take_copies();
        assert_eq!(copies.len(), 10, "every hook: {every_hook}");
        for (n, copy) in copies.iter().enumerate() {
            assert_eq!((copy.octets.as_slice(), copy.from), (packet(n as u8).as_slice(), n));
        }
        let (mut inner, mut delivery) = (Vec::new(), Delivery::new());
        for bytes in &sent(&out) {
            bob.engine.receive(NOW, raw(bytes), &mut bob.pool, &mut inner, &mut delivery);
        }
        for _ in 0..1000 {
            bob.engine.look_up(NOW, 1000, &mut bob.pool, &mut inner, &mut delivery);
            bob.engine.turn(NOW, &mut bob.pool, &mut inner, &mut delivery);
            bob.engine.settle(NOW);
        }
        let copies = bob.engine.take_copies();
        assert_eq!(copies.len(), 10, "every hook: {every_hook}");
        let outcomes = inner.iter().filter(|outcome| matches!(outcome, InboundOutcome::Deliver(..))).count();
        assert_eq!(outcomes, 10);
        for (copy, outer) in copies.iter().zip(sent(&out)) {
            assert_eq!(copy.octets, outer);
        }
    }
}

/// A graph whose packets meet a limit behind cryptography, and are held by a shaper there.
const LIMITED_BEHIND: &str = "[class.every]\nmatch = \"rest\"\n\
    [[hook]]\nat = \"1a\"\nchain = [{ kind = \"classify\", by = \"rules\" }]\n\
    [[hook]]\nat = \"2a\"\nchain = [{ kind = \"limit\", class = \"every\", most = 4 }]\n\
    [queue.slow]\nclasses = [\"every\"]\nlimit = { packets = 100 }\n\
    shape = { rate = \"8kbit\", burst = \"1500B\" }\n[[hook]]\nat = \"2b\"\nfrom = \"slow\"\n";

#[test]
fn a_limit_behind_cryptography_counts_a_packet_of_a_bundle_once() {
    let members = chain(vec![esp(Mode::Transport), esp(Mode::Transport)]);
    for units in [queued::INLINE, queued::WORKER, queued::SLICED] {
        let mut alice = sender(&members, Services::ENCRYPTED);
        alice.engine = alice.engine.gathering();
        queued::set(&mut alice, Some(queued::graph(&format!("{LIMITED_BEHIND}\n{units}"))));
        let mut bob = receiver(&members);
        inbound_queued::set(&mut bob, Some(inbound_queued::with(LIMITED_BEHIND, units)));
        let mut plain = sender(&members, Services::ENCRYPTED);
        let (mut out, mut delivery) = (Vec::new(), Delivery::new());
        for n in 0..20 {
            queued::receive(&mut alice, stamped(APP, &packet(n)));
            queued::work(&mut alice, NOW, &mut out);
            inbound_queued::receive(&mut bob, plain.send(stamped(APP, &packet(n)))[0].bytes());
            inbound_queued::work(&mut bob, NOW, &mut delivery);
        }
        // The shaper lets a burst pass, four are held, and the others end.
        assert_eq!(alice.engine.graph().unwrap().waiting().0, 4, "{units}");
        assert_eq!(queued::left(&out).len() + 4 + queued::reasons(&out).len(), 20, "{units}");
        assert_eq!(bob.engine.graph().unwrap().waiting().0, 4, "{units}");
        assert!(delivery.len() < 16, "{units}");
    }
}

#[test]
fn what_came_in_a_bare_tunnel_waits_and_passes_the_queues_behind_cryptography() {
    let (alice, bob_at) = hosts(false);
    let inner = esp(Mode::Transport);
    let tunnel = crate::bundle::ipip();
    for units in [queued::INLINE, queued::WORKER, queued::SLICED] {
        let mut plain = sender(std::slice::from_ref(&inner), Services::ENCRYPTED);
        let mut bob = receiver(&[inner.clone(), tunnel.clone()]);
        bob.engine.take_tunnels_from([alice].into());
        bob.engine.set_rules(crate::bundle::for_all_in(sadb::rules::Action::Bypass));
        inbound_queued::set(&mut bob, Some(every_hook_and(units).1));
        let sealed = plain.send(stamped(APP, &packet(1))).remove(0);
        let bare = ip_packet(alice, bob_at, wire::protocol::IPV4, 0, true, sealed.bytes());
        let mut delivery = inbound_queued::receive(&mut bob, &bare);
        let drops = inbound_queued::drops(&bob);
        assert_eq!((delivery.len(), bob.engine.graph().unwrap().waiting().0), (0, 1), "{units}, {drops:?}");
        inbound_queued::work(&mut bob, NOW, &mut delivery);
        assert_eq!(delivered(&delivery), [packet(1)], "{units}");
        let graph = bob.engine.graph().unwrap().graph();
        let id = graph.aggregates().find("every").unwrap();
        for at in [HookPoint::In3a, HookPoint::In5a, HookPoint::In4a, HookPoint::In2a] {
            assert_eq!(graph.counts().of(at, id).come, 1, "{units}, {at:?}");
        }
        assert!(graph.conserved());
    }
}
