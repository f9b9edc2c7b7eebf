//! Queues behind cryptography (hooks 4 and 2 of paper 002): what a unit has finished waits, is dropped, marked and shaped
//! there, in both directions.

use crate::inbound_queued::{self, burst, sealed};
use crate::queued;
use crate::support::*;

use engine::{Delivery, InboundOutcome, Outcome};
use qos::graph::description::HookPoint;
use wire::DropReason;

/// A FIFO at every hook, as in Figure 1 of the paper.
const EVERY_HOOK: &str = r#"
[class.every]
match = "rest"

[[hook]]
at = "1b"
from = "incoming-main"

[[hook]]
at = "3b"
from = "incoming-crypto"

[[hook]]
at = "4b"
from = "outgoing-crypto"

[[hook]]
at = "2b"
from = "outgoing-main"

[queue.incoming-main]
classes = ["every"]
limit = { packets = 1000000 }

[queue.incoming-crypto]
classes = ["every"]
limit = { packets = 1000000 }

[queue.outgoing-crypto]
classes = ["every"]
limit = { packets = 1000000 }

[queue.outgoing-main]
classes = ["every"]
limit = { packets = 1000000 }
"#;

/// A graph of two classes whose packets meet this component in front of the outgoing main queue.
fn at_2a(chain: &str) -> String {
    at("2a", chain)
}

/// A graph of two classes whose packets meet this component behind the outgoing main queue.
fn at_2b(chain: &str) -> String {
    at("2b", chain)
}

fn at(hook: &str, chain: &str) -> String {
    format!(
        "[class.ef]\nmatch = [{{ dscp = [\"EF\"] }}]\n[class.be]\nmatch = \"rest\"\n\
         [[hook]]\nat = \"1a\"\nchain = [{{ kind = \"classify\", by = \"rules\" }}]\n\
         [[hook]]\nat = \"{hook}\"\nchain = [{chain}]\n"
    )
}

/// A graph with one inline unit.
fn with_unit(graph: &str) -> String {
    format!("{graph}\n[unit.inline]\nkind = \"inline\"\n")
}

/// Graphs with a FIFO at every hook, outbound and inbound.
pub fn every_hook() -> (Box<engine::OutboundGraph>, Box<engine::InboundGraph>) {
    (queued::graph(&with_unit(EVERY_HOOK)), inbound_queued::graph(EVERY_HOOK))
}

/// The same, with these units.
pub fn every_hook_and(units: &str) -> (Box<engine::OutboundGraph>, Box<engine::InboundGraph>) {
    let outbound = queued::graph(&format!("{EVERY_HOOK}\n{units}"));
    (outbound, inbound_queued::with(EVERY_HOOK, units))
}

/// The packets of a class that came to a point, and those that left it.
fn counted(graph: &qos::graph::Graph<engine::Ticket>, at: HookPoint, class: &str) -> (u64, u64) {
    let id = graph.aggregates().find(class).unwrap();
    let tally = graph.counts().of(at, id);
    (tally.come, tally.gone)
}

#[test]
fn a_policer_behind_cryptography_drops_what_is_sealed_and_each_loss_counts_once() {
    let police = "{ kind = \"police\", class = \"be\", rate = \"1kbit\", burst = \"3000B\" }";
    let mut alice = queued::sender(mandatory(), &[queued::gcm()], &with_unit(&at_2a(police)));
    for n in 0..30 {
        queued::receive(&mut alice, queued::datagram(if n % 3 == 0 { queued::EF } else { 0 }, 1000));
    }
    let mut out = Vec::new();
    queued::work(&mut alice, NOW, &mut out);
    let sent = queued::left(&out);
    assert_eq!(sent.iter().filter(|(tos, _)| *tos == queued::EF).count(), 10);
    let others = sent.len() - 10;
    // Packets of one class may be in one burst, which passes whole or not at all.
    assert!(others < 20, "{sent:?}");
    assert_eq!(queued::reasons(&out), vec![DropReason::Policed; 20 - others]);
    let graph = alice.engine.graph().unwrap();
    assert!(graph.graph().conserved());
    assert_eq!(graph.waiting().0, 0);
    assert_eq!(counted(graph.graph(), HookPoint::In2a, "ef"), (10, 10));
}

#[test]
fn what_is_shaped_behind_cryptography_leaves_in_its_time_and_outlives_an_exchange() {
    let shape = "{ kind = \"shape\", rate = \"8Mbit\", burst = \"2000B\" }";
    let mut alice = queued::sender(mandatory(), &[queued::gcm()], &with_unit(&at_2b(shape)));
    let mut out = Vec::new();
    let mut now = NOW;
    for _ in 0..10 {
        queued::receive(&mut alice, queued::datagram(0, 1000));
        out.extend(queued::turn(&mut alice));
    }
    let first = queued::left(&out).len();
    assert!((1..10).contains(&first), "{first} of ten");
    for _ in 0..4 {
        now = now + std::time::Duration::from_millis(1);
        queued::work(&mut alice, now, &mut out);
    }
    let then = queued::left(&out).len();
    assert!((first + 1..10).contains(&then), "{then} behind {first}");
    // What is sealed has its number: another graph sends it.
    out.extend(queued::set(&mut alice, Some(every_hook().0)));
    queued::work(&mut alice, now, &mut out);
    let sent = queued::left(&out);
    assert_eq!(sent.iter().map(|(_, sequence)| *sequence).collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
    assert_eq!(queued::reasons(&out), []);
    assert!(alice.engine.graph().unwrap().graph().conserved());
}

#[test]
fn without_a_graph_what_waits_behind_cryptography_is_sent() {
    let shape = "{ kind = \"shape\", rate = \"8kbit\", burst = \"1600B\" }";
    let mut alice = queued::sender(mandatory(), &[queued::gcm()], &with_unit(&at_2b(shape)));
    let mut out = Vec::new();
    for _ in 0..5 {
        queued::receive(&mut alice, queued::datagram(0, 1000));
        out.extend(queued::turn(&mut alice));
    }
    assert!(queued::left(&out).len() < 5);
    out.extend(queued::set(&mut alice, None));
    assert_eq!(queued::left(&out).len(), 5);
}

#[test]
fn clear_packets_pass_the_outgoing_main_queue_alone() {
    let mut alice = queued::sender(sadb::spd::Spd::new(1), &[], &with_unit(EVERY_HOOK));
    for _ in 0..7 {
        queued::receive(&mut alice, queued::datagram(0, 100));
    }
    let mut out = Vec::new();
    queued::work(&mut alice, NOW, &mut out);
    let clear = out.iter().filter(|outcome| matches!(outcome, Outcome::Clear(_))).count();
    let graph = alice.engine.graph().unwrap().graph();
    assert_eq!((clear, counted(graph, HookPoint::In2a, "every")), (7, (7, 7)), "{out:?}");
    assert_eq!(counted(graph, HookPoint::In4a, "every"), (0, 0));
    assert!(graph.conserved());
}

#[test]
fn colours_of_one_class_are_told_apart_behind_cryptography() {
    // The meter has room for three packets; those beyond it are red.
    let text = "[class.be]\nmatch = \"rest\"\n\
                [[hook]]\nat = \"1a\"\nchain = [{ kind = \"classify\", by = \"rules\" }, \
                { kind = \"srtcm\", class = \"be\", cir = \"1kbit\", cbs = \"3500B\", ebs = \"0B\" }]\n\
                [[hook]]\nat = \"2a\"\n\
                chain = [{ kind = \"mark\", class = \"be\", dscp = [\"AF11\", \"AF12\", \"AF13\"] }]\n";
    let mut alice = queued::sender(mandatory(), &[queued::gcm()], &with_unit(text));
    for _ in 0..9 {
        queued::receive(&mut alice, queued::datagram(0, 1000));
    }
    let mut out = Vec::new();
    queued::work(&mut alice, NOW, &mut out);
    let sent: Vec<u8> = queued::left(&out).iter().map(|(tos, _)| tos >> 2).collect();
    assert_eq!(sent, [10, 10, 10, 14, 14, 14, 14, 14, 14]);
}

#[test]
fn a_marker_in_front_of_cryptography_writes_the_headers_that_it_names() {
    // The outer header is a copy of the inner one where nothing else is said.
    for (at, header, expected) in [
        ("1a", ", header = \"inner\"", [10, 10]),
        ("3a", ", header = \"inner\"", [10, 10]),
        ("3a", ", header = \"both\"", [10, 10]),
        ("3a", "", [10, 0]),
        ("2a", "", [10, 0]),
    ] {
        let mark = format!("{{ kind = \"mark\", class = \"be\", dscp = \"AF11\"{header} }}");
        let text = match at {
            "1a" => format!(
                "[class.be]\nmatch = \"rest\"\n[[hook]]\nat = \"1a\"\nchain = [{{ kind = \"classify\" }}, {mark}]\n"
            ),
            at => self::at(at, &mark),
        };
        let mut alice = queued::sender(mandatory(), &[queued::gcm()], &with_unit(&text));
        queued::receive(&mut alice, queued::datagram(0, 1000));
        let mut out = Vec::new();
        queued::work(&mut alice, NOW, &mut out);
        let mut bob = Receiver::new(&[queued::gcm()]);
        let outer = match &out[..] {
            [Outcome::Burst(burst)] => {
                let datagram = burst.datagrams().next().unwrap();
                let ends = (burst.header.src, burst.header.dst);
                udp_packet((ends.0, PORT), (ends.1, PORT), burst.header.tos, true, datagram)
            }
            [Outcome::Send(packet)] => packet.bytes().to_vec(),
            out => panic!("{out:?}"),
        };
        let outer_dscp = wire::ip::tos(&outer).unwrap() >> 2;
        let (inner, _) = bob.handle(&outer).unwrap();
        assert_eq!([outer_dscp, wire::ip::tos(inner.bytes()).unwrap() >> 2], expected, "{at}{header}");
    }
}

#[test]
fn a_limit_behind_cryptography_counts_what_came_there_and_nothing_else() {
    let limit = "{ kind = \"limit\", class = \"be\", most = 4 }";
    let held = at_2a(limit)
        + "[queue.slow]\nclasses = [\"ef\", \"be\"]\nlimit = { packets = 100 }\n\
               shape = { rate = \"8kbit\", burst = \"1500B\" }\n[[hook]]\nat = \"2b\"\nfrom = \"slow\"\n";
    let (mut alice, mut bob) = inbound_queued::ends();
    inbound_queued::set(&mut bob, Some(inbound_queued::graph(&held)));
    let mut delivery = Delivery::new();
    let packets: Vec<_> = (0..16).map(|_| sealed(&mut alice, 0, 500)).collect();
    inbound_queued::receive(&mut bob, &packets[0]);
    inbound_queued::work(&mut bob, NOW, &mut delivery);
    // Repeated ones authenticate, and end in front of 4a.
    for _ in 0..20 {
        inbound_queued::receive(&mut bob, &packets[0]);
        inbound_queued::work(&mut bob, NOW, &mut delivery);
    }
    for packet in &packets[1..] {
        inbound_queued::receive(&mut bob, packet);
        inbound_queued::work(&mut bob, NOW, &mut delivery);
    }
    // The shaper lets a burst pass, four are held, and the others end.
    let drops = inbound_queued::drops(&bob);
    let ended = drops.iter().filter(|(reason, _)| *reason != DropReason::Replayed).map(|(_, count)| count);
    assert_eq!(bob.engine.graph().unwrap().waiting().0, 4, "{drops:?}");
    assert_eq!(delivery.len() as u64 + 4 + ended.sum::<u64>(), 16, "{drops:?}");
    assert!(bob.engine.graph().unwrap().graph().conserved());
}

#[test]
fn a_mark_that_another_header_has_already_is_written_all_the_same() {
    // The outer header says 0, as the marker does; the inner one says EF.
    let mark = "{ kind = \"mark\", class = \"be\", dscp = \"BE\" }";
    let mut config = queued::gcm();
    config.options.headers.dscp = sadb::sa::Dscp::Set(0);
    let (mut alice, mut bob) = (Sender::new(mandatory(), &[config.clone()]), Receiver::new(&[config]));
    inbound_queued::set(&mut bob, Some(inbound_queued::graph(&at_2a(mark))));
    let (from, to) = hosts(false);
    let packet = stamped(APP, &udp_packet((from, 40000), (to, 53), queued::EF, true, &[1; 100]));
    let packets = alice.send(packet);
    let mut delivery = Delivery::new();
    inbound_queued::receive(&mut bob, packets[0].bytes());
    inbound_queued::work(&mut bob, NOW, &mut delivery);
    assert_eq!(inbound_queued::tos(&delivery), [0]);
}

#[test]
fn copies_come_with_the_outcomes_that_waited() {
    let mut alice = queued::sender(mandatory(), &[queued::gcm()], &with_unit(EVERY_HOOK));
    alice.engine.copy_packets(true);
    for len in [100, 200, 300] {
        queued::receive(&mut alice, queued::datagram(0, len));
    }
    let mut out = Vec::new();
    queued::work(&mut alice, NOW, &mut out);
    let copies = alice.engine.take_copies();
    assert_eq!(out.len(), 3);
    assert_eq!(copies.iter().map(|copy| copy.from).collect::<Vec<_>>(), [0, 1, 2]);
    let lengths: Vec<_> = copies.iter().map(|copy| copy.octets.len()).collect();
    assert!(lengths.is_sorted_by(|one, next| one < next), "{lengths:?}");
}

#[test]
fn an_opened_packet_is_policed_in_front_of_the_host() {
    let police = "{ kind = \"police\", class = \"be\", rate = \"1kbit\", burst = \"2500B\" }";
    let (mut alice, mut bob) = inbound_queued::ends();
    inbound_queued::set(&mut bob, Some(inbound_queued::graph(&at_2a(police))));
    let mut delivery = Delivery::new();
    for n in 0..9 {
        let tos = if n % 3 == 0 { inbound_queued::EF } else { 0 };
        inbound_queued::receive(&mut bob, &sealed(&mut alice, tos, 1000));
        inbound_queued::work(&mut bob, NOW, &mut delivery);
    }
    let tos = inbound_queued::tos(&delivery);
    let urgent = tos.iter().filter(|tos| **tos == inbound_queued::EF).count();
    let others = tos.len() - urgent;
    assert_eq!((urgent, others), (3, 2), "{tos:?}");
    assert_eq!(inbound_queued::drops(&bob), [(DropReason::Policed, 4)]);
    assert!(bob.engine.graph().unwrap().graph().conserved());
}

#[test]
fn a_marker_writes_the_outer_header_wherever_it_stands() {
    for (hook, gathers) in [("1a", true), ("1a", false), ("2a", true), ("2a", false)] {
        let mark = "{ kind = \"mark\", class = \"be\", dscp = \"AF11\" }";
        let text = match hook {
            "2a" => at_2a(mark),
            _ => at_2a("").replace("by = \"rules\" }", &format!("by = \"rules\" }}, {mark}")),
        };
        let mut alice = Sender::new(mandatory(), &[queued::gcm()]);
        if gathers {
            alice.engine = alice.engine.gathering();
        }
        queued::set(&mut alice, Some(queued::graph(&with_unit(&text))));
        for n in 0..6 {
            queued::receive(&mut alice, queued::datagram(if n % 3 == 0 { queued::EF } else { 0 }, 300));
        }
        let mut out = Vec::new();
        queued::work(&mut alice, NOW, &mut out);
        let mut tos: Vec<u8> = queued::left(&out).iter().map(|(tos, _)| *tos).collect();
        tos.sort_unstable();
        assert_eq!(tos, [40, 40, 40, 40, queued::EF, queued::EF], "at {hook}");
        // The inner header is what it was.
        let mut bob = Receiver::new(&[queued::gcm()]);
        for outcome in &out {
            let Outcome::Send(packet) = outcome else { continue };
            let (inner, _) = bob.handle(packet.bytes()).unwrap();
            let tos = wire::ip::Headers::parse(inner.bytes()).unwrap().tos;
            assert!(tos == 0 || tos == queued::EF, "at {hook}: {tos}");
        }
    }
}

#[test]
fn a_mark_in_front_of_the_host_stands_in_the_inner_header() {
    let (mut alice, mut bob) = inbound_queued::ends();
    let mark = "{ kind = \"mark\", class = \"be\", dscp = \"AF11\" }";
    inbound_queued::set(&mut bob, Some(inbound_queued::graph(&at_2a(mark))));
    let packets: Vec<_> = (0..4).map(|_| sealed(&mut alice, 2, 300)).collect();
    let mut delivery = burst(&mut bob, &packets);
    inbound_queued::receive(&mut bob, &sealed(&mut alice, inbound_queued::EF, 300));
    inbound_queued::work(&mut bob, NOW, &mut delivery);
    let mut tos = inbound_queued::tos(&delivery);
    tos.sort_unstable();
    // The congestion field stays what it was.
    assert_eq!(tos, [10 << 2 | 2, 10 << 2 | 2, 10 << 2 | 2, 10 << 2 | 2, inbound_queued::EF]);
    for (bytes, _) in delivery.packets() {
        let headers = wire::ip::Headers::parse(bytes).unwrap();
        assert!(wire::ip::checksum_ok(bytes, &headers));
    }
}

#[test]
fn inbound_copies_come_with_the_outcomes_that_waited() {
    let (mut alice, mut bob) = inbound_queued::ends();
    inbound_queued::set(&mut bob, Some(every_hook().1));
    bob.engine.copy_packets(true);
    let packets: Vec<_> = (0..3).map(|_| sealed(&mut alice, 0, 300)).collect();
    let (mut out, mut delivery) = (Vec::new(), Delivery::new());
    let Receiver { engine, pool } = &mut bob;
    for packet in [&packets[0], &packets[1], &packets[1], &packets[2]] {
        engine.receive(NOW, raw(packet), pool, &mut out, &mut delivery);
    }
    for _ in 0..20 {
        engine.look_up(NOW, 10, pool, &mut out, &mut delivery);
        engine.turn(NOW, pool, &mut out, &mut delivery);
        engine.settle(NOW);
    }
    let copies = engine.take_copies();
    let is_drop = |at: &usize| matches!(out[*at], InboundOutcome::Drop(_));
    assert_eq!(copies.iter().map(|copy| copy.from).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!((0..4).filter(is_drop).count(), 1);
    let dropped = (0..4).find(is_drop).unwrap();
    assert_eq!(copies[dropped].octets, packets[1]);
    assert!(delivery.is_empty());
}

#[test]
fn an_inbound_shaper_loses_nothing() {
    let shape = "{ kind = \"shape\", rate = \"8Mbit\", burst = \"2000B\" }";
    let (mut alice, mut bob) = inbound_queued::ends();
    inbound_queued::set(&mut bob, Some(inbound_queued::graph(&at_2b(shape))));
    let mut delivery = Delivery::new();
    for _ in 0..10 {
        inbound_queued::receive(&mut bob, &sealed(&mut alice, 0, 1000));
        inbound_queued::turn(&mut bob, NOW, &mut delivery);
    }
    let first = delivery.len();
    assert!((1..10).contains(&first), "{first} of ten");
    for milliseconds in 1..=20 {
        let now = NOW + std::time::Duration::from_millis(milliseconds);
        inbound_queued::work(&mut bob, now, &mut delivery);
    }
    assert_eq!(delivery.len(), 10);
    assert!(bob.engine.graph().unwrap().graph().conserved());
}

#[test]
fn a_policer_charges_a_flow_that_goes_in_clear_no_cipher() {
    let police = "{ kind = \"classify\", by = \"rules\" }, \
                  { kind = \"police\", class = \"be\", rate = \"1%\", burst = \"1ms\" }";
    let graph = format!("[class.be]\nmatch = \"rest\"\n[[hook]]\nat = \"1a\"\nchain = [{police}]\n");
    let mut alice = queued::sender(sadb::spd::Spd::new(1), &[], &with_unit(&graph));
    let mut out = Vec::new();
    for _ in 0..300 {
        out.extend(queued::receive(&mut alice, queued::datagram(0, 100)));
        queued::work(&mut alice, NOW, &mut out);
    }
    let clear = out.iter().filter(|outcome| matches!(outcome, Outcome::Clear(_))).count();
    // The first packet of the flow is charged 1 us, as every packet before something is learned, the others 4 us each.
    assert_eq!(clear, 250);
    assert_eq!(queued::reasons(&out), vec![DropReason::Policed; 50]);
}
