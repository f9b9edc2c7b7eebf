//! The inbound half with a graph: who is opened first, what never waits, and what becomes of forgers.

use crate::support;

use crypto::SuiteId;
use engine::{Delivery, InboundGraph, InboundOutcome};
use proptest::prelude::*;
use qos::Direction;
use qos::graph::{House, check, compile, preset};
use qos::node::Wake;
use sadb::{InboundSa, Mode, SaConfig, Spi};
use support::*;
use wire::ip::Headers;
use wire::{Buf, Burst, DropReason, Meta, OuterHeader, Packet, Time};

/// Expedited forwarding and best effort, expedited first.
const TWO: &str = r#"
discipline = "strict"
stages = [1, 3, 5]
guard = "100%"

[class.ef]
match = [{ dscp = ["EF"] }]
priority = true
limit = { packets = 1000 }
unpoliced = true

[class.be]
match = "rest"
limit = { packets = 600 }
"#;

pub const EF: u8 = 46 << 2;

/// The suites of the tests, by the numbers that the graphs here have for them. A packet costs 1 us.
fn house() -> House {
    let line = qos::graph::house::Line { base_ns: 1000, ps_per_octet: 0 };
    let costs = crate::queued::suites().into_iter().flat_map(|suite| {
        [Direction::Outbound, Direction::Inbound].map(|direction| qos::graph::house::SuiteCost {
            suite: suite.to_string(),
            direction,
            line,
        })
    });
    House {
        known_suites: crate::queued::suites().iter().map(ToString::to_string).collect(),
        costs: costs.collect(),
        ..House::default()
    }
}

fn of(description: &qos::graph::Description) -> Box<InboundGraph> {
    let compiled =
        compile(description, &house(), Direction::Inbound, 7).unwrap_or_else(|faults| panic!("{faults:#?}"));
    let suites = crate::queued::suites().into_iter().zip(0..).collect();
    Box::new(InboundGraph::new(compiled, suites, 11).unwrap())
}

/// A graph of this text for the inbound half, whose turns are short: 4 us are committed at most.
pub fn graph(text: &str) -> Box<InboundGraph> {
    with(text, crate::queued::INLINE)
}

/// A graph of this text and these units.
pub fn with(text: &str, units: &str) -> Box<InboundGraph> {
    let description = check(&format!("{text}\n{units}"), &house());
    of(&description.unwrap_or_else(|faults| panic!("{faults:#?}")))
}

/// Two classes, and these units.
pub fn with_units(units: &str) -> Box<InboundGraph> {
    with(TWO, units)
}

/// One class, whose queue is never full.
pub const EVERY: &str = "[class.every]\nmatch = \"rest\"\nlimit = { packets = 1000000 }\n";

/// Install a graph, or none.
pub fn set(bob: &mut Receiver, graph: Option<Box<InboundGraph>>) -> Delivery {
    let (mut out, mut delivery) = (Vec::new(), Delivery::new());
    bob.engine.set_graph(NOW, graph, &mut bob.pool, &mut out, &mut delivery);
    assert!(out.is_empty());
    delivery
}

/// One round of look-ups and one turn. Returns whether there was anything to do.
pub fn turn(bob: &mut Receiver, now: Time, delivery: &mut Delivery) -> bool {
    let (Receiver { engine, pool }, mut out) = (bob, Vec::new());
    engine.look_up(now, 1000, pool, &mut out, delivery);
    let any = engine.turn(now, pool, &mut out, delivery);
    // A unit that answers later answers at once here.
    while let Some(mut work) = engine.take_work() {
        work.compute();
        work.set_spent(work.expected());
        engine.answer(now, work, pool, &mut out, delivery);
    }
    while engine.step(now, pool, &mut out, delivery) {
        engine.settle(now + std::time::Duration::from_nanos(100));
    }
    // A turn takes as long as it is expected to, or the graph would learn that packets cost nothing.
    let wake = engine.settle(if any { now + std::time::Duration::from_micros(1) } else { now });
    assert!(out.is_empty());
    any || matches!(wake, Wake::At(time) if time <= now)
}

/// Look up and take turns until nothing waits.
pub fn work(bob: &mut Receiver, now: Time, delivery: &mut Delivery) {
    for _ in 0..100_000 {
        if !turn(bob, now, delivery) {
            return;
        }
    }
    panic!("it never ends");
}

fn gcm() -> SaConfig {
    let mut config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    config.replay_window = 1024;
    config
}

/// The sealed packet of a datagram with this type of service, which holds `len` octets of it.
pub fn sealed(alice: &mut Sender, tos: u8, len: usize) -> Vec<u8> {
    let (here, there) = hosts(false);
    let packet = stamped(APP, &udp_packet((here, 40000), (there, 53), tos, true, &vec![tos; len]));
    let packets = alice.send(packet);
    assert_eq!(Headers::parse(packets[0].bytes()).unwrap().tos, tos);
    packets[0].bytes().to_vec()
}

pub fn ends() -> (Sender, Receiver) {
    (Sender::new(mandatory(), &[gcm()]), Receiver::new(&[gcm()]))
}

pub fn receive(bob: &mut Receiver, bytes: &[u8]) -> Delivery {
    let (mut out, mut delivery) = (Vec::new(), Delivery::new());
    bob.engine.receive(NOW, raw(bytes), &mut bob.pool, &mut out, &mut delivery);
    assert!(out.is_empty());
    delivery
}

/// Datagrams as one burst, all of one length but the last.
pub fn burst(bob: &mut Receiver, packets: &[Vec<u8>]) -> Delivery {
    let (mut out, mut delivery) = (Vec::new(), Delivery::new());
    let headers = Headers::parse(&packets[0]).unwrap();
    let header = OuterHeader {
        src: headers.src,
        dst: headers.dst,
        src_port: PORT,
        dst_port: PORT,
        tos: headers.tos,
        ttl: headers.ttl,
        may_fragment: false,
    };
    let datagrams: Vec<u8> = packets.iter().flat_map(|packet| packet[28..].to_vec()).collect();
    let mut buf = bob.pool.take();
    buf.push_back(datagrams.len()).unwrap().copy_from_slice(&datagrams);
    let joined = Burst::raw(buf, header, packets[0].len() - 28, NOW).unwrap();
    bob.engine.receive_burst(NOW, joined, &mut bob.pool, &mut out, &mut delivery);
    assert!(out.is_empty());
    delivery
}

/// The types of service of the packets for the host, in their order.
pub fn tos(delivery: &Delivery) -> Vec<u8> {
    delivery.packets().map(|(bytes, _)| Headers::parse(bytes).unwrap().tos).collect()
}

pub fn drops(bob: &Receiver) -> Vec<(DropReason, u64)> {
    bob.engine.stats().drops().collect()
}

/// The packets of a class that came to hook 1a.
pub fn counted(bob: &Receiver, class: &str) -> u64 {
    let graph = bob.engine.graph().unwrap().graph();
    let id = graph.aggregates().find(class).unwrap();
    graph.counts().of(qos::graph::description::HookPoint::In1a, id).come
}

#[test]
fn an_expedited_packet_is_opened_before_those_that_wait() {
    let (mut alice, mut bob) = ends();
    set(&mut bob, Some(graph(TWO)));
    let packets: Vec<_> = (0..500).map(|_| sealed(&mut alice, 0, 1000)).collect();
    for packet in &packets {
        assert!(receive(&mut bob, packet).is_empty());
    }
    let mut first = Delivery::new();
    turn(&mut bob, NOW, &mut first);
    assert!(!first.is_empty() && first.len() < 20, "{}", first.len());
    let expedited = sealed(&mut alice, EF, 100);
    receive(&mut bob, &expedited);
    let mut second = Delivery::new();
    turn(&mut bob, NOW, &mut second);
    assert_eq!(tos(&second)[0], EF, "it is opened before what waits");
    let mut rest = Delivery::new();
    work(&mut bob, NOW, &mut rest);
    assert_eq!(first.len() + second.len() + rest.len(), 501);
    // It took a number behind those of 497 that were opened after it: the window is wide enough, so none was lost.
    assert_eq!(drops(&bob), []);
    assert!(bob.engine.graph().unwrap().graph().conserved());
}

#[test]
fn what_names_no_association_ends_in_front_of_the_queues() {
    let (mut alice, mut bob) = ends();
    set(&mut bob, Some(graph(TWO)));
    let good = sealed(&mut alice, EF, 100);
    let (mut unknown, mut stranger, mut keepalive, mut ike) =
        (good.clone(), good.clone(), good[..29].to_vec(), good.clone());
    unknown[28..32].copy_from_slice(&[9, 8, 7, 6]);
    ike[28..32].fill(0);
    keepalive[28] = 0xff;
    for packet in [&mut unknown, &mut stranger, &mut keepalive, &mut ike] {
        let len = packet.len() as u16;
        packet[2..4].copy_from_slice(&len.to_be_bytes());
        packet[24..26].copy_from_slice(&(len - 20).to_be_bytes());
        packet[26..28].fill(0);
    }
    stranger[15] ^= 1;
    for packet in [&mut unknown, &mut stranger, &mut keepalive, &mut ike] {
        wire::ipv4::Ipv4::new_checked(packet.as_mut_slice()).unwrap().fill_checksum();
        receive(&mut bob, packet);
    }
    // And in bursts.
    burst(&mut bob, &[unknown.clone(), unknown.clone()]);
    assert_eq!(bob.engine.graph().unwrap().waiting().0, 0);
    assert_eq!(counted(&bob, "ef") + counted(&bob, "be"), 0);
    let want = [
        (DropReason::UnknownSpi, 3),
        (DropReason::WrongPeer, 1),
        (DropReason::Keepalive, 1),
        (DropReason::IkeUnsupported, 1),
    ];
    let got = drops(&bob);
    assert!(want.iter().all(|drop| got.contains(drop)) && got.len() == 4, "{got:?}");
}

#[test]
fn a_burst_of_several_associations_is_taken_apart() {
    let mut voice = gcm();
    voice.spi = Spi(SPI + 1);
    voice.keymat = keymat(voice.suite, 9);
    let mut alice = Sender::new(mandatory(), &[gcm()]);
    let mut other = Sender::new(mandatory(), &[voice.clone()]);
    let mut bob = Receiver::new(&[gcm()]);
    let mut theirs = mirror(&voice);
    set(&mut bob, Some(graph(TWO)));
    let class = bob.engine.graph().unwrap().graph().aggregates().find("ef").unwrap();
    theirs.options.aggregate = class;
    bob.engine.add_sa(InboundSa::new(theirs, registry()).unwrap()).unwrap();
    let mut joined = Vec::new();
    for _ in 0..4 {
        joined.push(sealed(&mut alice, 0, 500));
        joined.push(sealed(&mut alice, 0, 500));
        joined.push(sealed(&mut other, 0, 500));
        let mut unknown = sealed(&mut alice, 0, 500);
        unknown[28..32].copy_from_slice(&[9, 8, 7, 6]);
        joined.push(unknown);
    }
    burst(&mut bob, &joined);
    // Its own class counts for an association that has one, whatever the outer header says.
    assert_eq!((counted(&bob, "be"), counted(&bob, "ef")), (8, 4));
    assert_eq!(drops(&bob), [(DropReason::UnknownSpi, 4)]);
    let (mut delivery, mut first) = (Delivery::new(), Delivery::new());
    turn(&mut bob, NOW, &mut first);
    work(&mut bob, NOW, &mut delivery);
    assert_eq!(first.len() + delivery.len(), 12);
    let done = |spi| bob.engine.sad().get(Spi(spi)).unwrap().counters.packets;
    assert_eq!((done(SPI), done(SPI + 1)), (8, 4));
}

#[test]
fn a_burst_is_cut_where_the_turn_ends_and_its_order_is_kept() {
    let (mut alice, mut bob) = ends();
    set(&mut bob, Some(graph(TWO)));
    let joined: Vec<_> = (0..40).map(|_| sealed(&mut alice, 0, 1000)).collect();
    burst(&mut bob, &joined);
    let mut first = Delivery::new();
    turn(&mut bob, NOW, &mut first);
    assert!((1..20).contains(&first.len()), "{} in a turn", first.len());
    let expedited = sealed(&mut alice, EF, 100);
    receive(&mut bob, &expedited);
    let mut second = Delivery::new();
    turn(&mut bob, NOW, &mut second);
    assert_eq!(tos(&second)[0], EF);
    work(&mut bob, NOW, &mut second);
    assert_eq!(first.len() + second.len(), 41);
    assert_eq!(drops(&bob), []);
    assert!(bob.engine.graph().unwrap().graph().conserved());
}

#[test]
fn forgers_are_demoted_until_a_packet_of_theirs_is_authentic() {
    let (mut alice, mut bob) = ends();
    set(&mut bob, Some(graph(TWO)));
    let good = sealed(&mut alice, EF, 200);
    let forged = || {
        let mut bytes = good.clone();
        *bytes.last_mut().unwrap() ^= 1;
        bytes
    };
    let mut delivery = Delivery::new();
    // A failure costs 1 us, and the budget is 2 ms.
    let mut sent = 0;
    while counted(&bob, "be") == 0 {
        receive(&mut bob, &forged());
        work(&mut bob, NOW, &mut delivery);
        sent += 1;
        assert!(sent < 100_000, "never demoted");
    }
    assert!(sent > 100, "{sent}: not at the first failure");
    let before = counted(&bob, "ef");
    receive(&mut bob, &forged());
    work(&mut bob, NOW, &mut delivery);
    assert_eq!(counted(&bob, "ef"), before, "its mark is not listened to");
    // The association's genuine peer is heard, if late, and has its class again.
    receive(&mut bob, &good);
    work(&mut bob, NOW, &mut delivery);
    assert_eq!((tos(&delivery), counted(&bob, "ef")), (vec![EF], before));
    receive(&mut bob, &sealed(&mut alice, EF, 200));
    assert_eq!(counted(&bob, "ef"), before + 1);
    assert!(bob.engine.stats().drops_for(DropReason::AuthFailed) > 100);
}

#[test]
fn what_waits_is_decided_about_by_what_holds_when_it_is_opened() {
    for looked_up in [false, true] {
        let (mut alice, mut bob) = ends();
        set(&mut bob, Some(graph(TWO)));
        let packets: Vec<_> = (0..3).map(|_| sealed(&mut alice, 0, 300)).collect();
        receive(&mut bob, &packets[0]);
        burst(&mut bob, &packets[1..]);
        let (mut out, mut delivery) = (Vec::new(), Delivery::new());
        if looked_up {
            bob.engine.look_up(NOW, 10, &mut bob.pool, &mut out, &mut delivery);
        }
        // The association goes, and one that only looks alike comes.
        bob.engine.remove_sa(Spi(SPI)).unwrap();
        if looked_up {
            let mut other = mirror(&gcm());
            other.keymat = keymat(other.suite, 9);
            bob.engine.add_sa(InboundSa::new(other, registry()).unwrap()).unwrap();
        }
        work(&mut bob, NOW, &mut delivery);
        assert!(delivery.is_empty());
        let reason = if looked_up { DropReason::AuthFailed } else { DropReason::UnknownSpi };
        assert_eq!(drops(&bob), [(reason, 3)]);
        assert!(bob.engine.graph().unwrap().graph().conserved());
        assert_eq!(bob.engine.graph().unwrap().waiting().0, 0);
    }
}

#[test]
fn a_class_that_is_full_loses_its_own_packets_alone() {
    let (mut alice, mut bob) = ends();
    set(&mut bob, Some(graph(TWO)));
    let be: Vec<_> = (0..700).map(|_| sealed(&mut alice, 0, 50)).collect();
    for packet in &be {
        receive(&mut bob, packet);
    }
    receive(&mut bob, &sealed(&mut alice, EF, 50));
    assert_eq!(drops(&bob), [(DropReason::QueueFull, 100)]);
    let last = *bob.engine.stats().last_drops().last().unwrap();
    assert_eq!((last.spi, last.sequence), (SPI, 700), "the drop tells which packet it was");
    let mut delivery = Delivery::new();
    work(&mut bob, NOW, &mut delivery);
    assert_eq!(delivery.len(), 601);
    // A burst counts as its datagrams.
    let more: Vec<_> = (0..40).map(|_| sealed(&mut alice, 0, 50)).collect();
    for joined in more.chunks(20) {
        burst(&mut bob, joined);
    }
    assert_eq!(counted(&bob, "be"), 740);
}

#[test]
fn more_long_bursts_than_there_are_large_places_are_taken_apart_and_not_lost() {
    let (mut alice, mut bob) = ends();
    set(&mut bob, Some(graph(TWO)));
    let mut sent = 0;
    for _ in 0..70 {
        let joined: Vec<_> = (0..4).map(|_| sealed(&mut alice, 0, 1000)).collect();
        sent += joined.len();
        burst(&mut bob, &joined);
    }
    assert_eq!(bob.engine.graph().unwrap().waiting().0, 64 + 6 * 4);
    let mut delivery = Delivery::new();
    work(&mut bob, NOW, &mut delivery);
    assert_eq!((delivery.len(), drops(&bob)), (sent, vec![]));
}

#[test]
fn an_exchange_keeps_packets_by_queue_and_leaving_the_graph_opens_them() {
    let (mut alice, mut bob) = ends();
    set(&mut bob, Some(graph(TWO)));
    for n in 0..100 {
        let packet = sealed(&mut alice, if n % 10 == 0 { EF } else { 0 }, 200);
        receive(&mut bob, &packet);
    }
    let (mut out, mut delivery) = (Vec::new(), Delivery::new());
    bob.engine.look_up(NOW, 50, &mut bob.pool, &mut out, &mut delivery);
    let mut count = set(&mut bob, Some(of(&preset("voice").unwrap()))).len();
    turn(&mut bob, NOW, &mut delivery);
    count += set(&mut bob, Some(graph(TWO))).len();
    assert!(bob.engine.graph().unwrap().graph().conserved());
    count += delivery.len() + set(&mut bob, None).len();
    assert!(bob.engine.graph().is_none());
    assert_eq!((count, drops(&bob)), (100, vec![]));
    // And without a graph packets are opened at once.
    assert!(bob.handle(&sealed(&mut alice, 0, 10)).is_ok());
}

#[test]
fn what_waited_comes_with_a_copy_for_those_who_capture() {
    let (mut alice, mut bob) = ends();
    set(&mut bob, Some(graph(TWO)));
    bob.engine.copy_packets(true);
    let packets: Vec<_> = (0..3).map(|_| sealed(&mut alice, 0, 300)).collect();
    let (mut out, mut delivery) = (Vec::new(), Delivery::new());
    let Receiver { engine, pool } = &mut bob;
    engine.receive(NOW, raw(&packets[0]), pool, &mut out, &mut delivery);
    engine.receive(NOW, raw(&packets[1]), pool, &mut out, &mut delivery);
    assert!(engine.take_copies().is_empty() && out.is_empty(), "they wait");
    // A second time, and one of nobody.
    engine.receive(NOW, raw(&packets[1]), pool, &mut out, &mut delivery);
    let mut unknown = packets[2].clone();
    unknown[28..32].copy_from_slice(&[9, 8, 7, 6]);
    unknown[26..28].fill(0);
    engine.receive(NOW, raw(&unknown), pool, &mut out, &mut delivery);
    let copies = engine.take_copies();
    assert!(copies.len() == 1 && copies[0].octets == unknown && out.len() == 1, "{copies:?}");
    out.clear();
    engine.look_up(NOW, 10, pool, &mut out, &mut delivery);
    engine.turn(NOW, pool, &mut out, &mut delivery);
    let copies = engine.take_copies();
    let from: Vec<_> = copies.iter().map(|copy| copy.from).collect();
    assert_eq!(from, [0, 1, 2]);
    assert_eq!(copies[2].octets, packets[1]);
    assert!(matches!(out[2], InboundOutcome::Drop(dropped) if dropped.reason == DropReason::Replayed));
    assert!(delivery.is_empty());
}

#[test]
fn an_outbound_graph_is_refused() {
    let compiled = compile(&preset("fifo").unwrap(), &house(), Direction::Outbound, 7).unwrap();
    assert_eq!(InboundGraph::new(compiled, Vec::new(), 1).err(), Some(engine::GraphError::Direction));
}

#[test]
fn congestion_that_a_queue_marks_reaches_the_inner_header() {
    let text = "[class.every]\nmatch = \"rest\"\nlimit = { packets = 1000 }\n\
                aqm = { kind = \"codel\", target = \"5ms\", interval = \"100ms\", ecn = true }\n";
    for singly in [true, false] {
        let (mut alice, mut bob) = ends();
        set(&mut bob, Some(graph(text)));
        // ECT(0).
        let packets: Vec<_> = (0..200).map(|_| sealed(&mut alice, 2, 100)).collect();
        for packet in &packets {
            let at_once = if singly {
                receive(&mut bob, packet)
            } else {
                burst(&mut bob, std::slice::from_ref(packet))
            };
            assert!(at_once.is_empty());
        }
        let mut delivery = Delivery::new();
        for round in 0..60 {
            turn(&mut bob, NOW + std::time::Duration::from_millis(50 * round), &mut delivery);
        }
        let marked = tos(&delivery).iter().filter(|tos| **tos & 3 == 3).count();
        assert!((1..delivery.len()).contains(&marked), "{marked} of {}", delivery.len());
        assert_eq!(drops(&bob), [], "what can be told is not dropped");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Extended numbers stay whole at the end of their low half, and no reordering between two classes of one
    /// association costs a packet, as long as the window is as wide as the queues together.
    #[test]
    fn reordering_between_classes_costs_no_packet_within_the_window(
        extended in any::<bool>(),
        below in 0..300_u64,
        classes in prop::collection::vec(any::<bool>(), 1..300),
        pace in 1..60_usize,
    ) {
        let mut config = gcm();
        config.options.extended_sequence = extended;
        let (mut alice, mut bob) = (Sender::new(mandatory(), &[]), Receiver::new(&[]));
        let top = if extended { u64::from(u32::MAX) - below } else { 0 };
        let state = sadb::sa::OutboundState {
            config: config.clone(), next_sequence: top + 1, packets: 0, bytes: 0, last_used: NOW, added: NOW,
            first_used: None, life: sadb::sa::LifeState::Mature,
        };
        alice.engine.add_sa(sadb::OutboundSa::import(state, registry()).unwrap()).unwrap();
        let mut theirs = InboundSa::new(mirror(&config), registry()).unwrap();
        if top > 0 {
            theirs.replay.commit(top).unwrap();
        }
        bob.engine.add_sa(theirs).unwrap();
        set(&mut bob, Some(graph(TWO)));
        let mut delivery = Delivery::new();
        for (at, expedited) in classes.iter().enumerate() {
            let packet = sealed(&mut alice, if *expedited { EF } else { 0 }, 40);
            receive(&mut bob, &packet);
            if at % pace == 0 {
                turn(&mut bob, NOW, &mut delivery);
            }
        }
        work(&mut bob, NOW, &mut delivery);
        prop_assert_eq!(drops(&bob), []);
        prop_assert_eq!(delivery.len(), classes.len());
        let last = bob.engine.sad().get(Spi(SPI)).unwrap().replay.top();
        prop_assert_eq!(last, top + classes.len() as u64);
    }
}

/// A graph keeps a packet in its buffer or a cell; all come back.
#[test]
fn memory_does_not_grow_with_what_passes() {
    let (mut alice, mut bob) = ends();
    set(&mut bob, Some(graph(TWO)));
    let mut delivery = Delivery::new();
    let mut after = 0;
    for round in 0..20 {
        for _ in 0..50 {
            let (packet, meta) = (sealed(&mut alice, 0, 900), Meta::default());
            let mut buf: Buf = bob.pool.take();
            buf.push_back(packet.len()).unwrap().copy_from_slice(&packet);
            let mut out = Vec::new();
            bob.engine.receive(NOW, Packet::raw(buf, meta), &mut bob.pool, &mut out, &mut delivery);
        }
        work(&mut bob, NOW, &mut delivery);
        delivery.clear(&mut bob.pool);
        if round == 0 {
            after = bob.pool.allocated();
        }
        assert_eq!(bob.pool.free_cells(), 4096 + 512 + 1024);
    }
    assert_eq!(bob.pool.allocated(), after);
}
