//! Reserved flows in both halves: packets within the rate have the class of the reservation, those beyond it the class
//! that they would have had, and none is dropped for it.

use crate::inbound_queued;
use crate::queued::{self, TWO};
use crate::support;

use crypto::SuiteId;
use engine::{Delivery, Outcome};
use qos::graph::Graph;
use qos::graph::description::HookPoint;
use qos::reservation::{Flow, FlowCounts, FlowTerms, Scope};
use sadb::{Mode, SaConfig};
use support::*;
use wire::{Packet, stage};

const KEY: [u8; 16] = [7; 16];
const PORT_OF_CALLS: u16 = 53;

fn gcm() -> SaConfig {
    let mut config = outbound_config(Mode::Tunnel, SuiteId::AES_128_GCM, false);
    config.replay_window = 1024;
    config
}

fn datagram(port: u16, len: usize) -> Packet<stage::Inner> {
    let (alice, bob) = hosts(false);
    stamped(APP, &udp_packet((alice, 40000), (bob, port), 0, true, &vec![1; len]))
}

/// The packets of a class that came to a hook.
fn come<T: 'static>(graph: &Graph<T>, at: HookPoint, class: &str) -> u64 {
    graph.aggregates().find(class).map_or(0, |id| graph.counts().of(at, id).come)
}

fn terms(class: &str, burst: u64) -> FlowTerms {
    let class = qos::graph::Aggregates::default().find(class).unwrap();
    FlowTerms { class, rate: 8_000, burst, least: 100 }
}

fn alice() -> Sender {
    let mut alice = Sender::new(mandatory(), &[gcm()]);
    alice.engine = alice.engine.gathering();
    alice.engine.set_graph(NOW, Some(queued::graph(TWO)), &mut alice.pool, &mut Vec::new());
    alice
}

fn receive(alice: &mut Sender, packet: Packet<stage::Inner>, out: &mut Vec<Outcome>) {
    alice.engine.receive(NOW, packet, &mut alice.pool, out);
}

#[test]
fn outbound_a_flow_by_ports_has_its_class_as_far_as_its_rate_goes() {
    let mut alice = alice();
    let (_, bob) = hosts(false);
    let scope = Scope::Ports { source: 0, destination: PORT_OF_CALLS, dscp: Some(0) };
    let flow = Flow { destination: bob, protocol: 17, scope };
    // Ten packets of 128 octets.
    assert!(alice.engine.reserve(KEY, 16, &flow, terms("ef", 1280)));
    let mut out = Vec::new();
    for port in [PORT_OF_CALLS, PORT_OF_CALLS + 1] {
        (0..15).for_each(|_| receive(&mut alice, datagram(port, 100), &mut out));
    }
    queued::work(&mut alice, NOW, &mut out);
    let graph = alice.engine.graph().unwrap();
    for at in [HookPoint::In1a, HookPoint::In3a, HookPoint::In5a] {
        assert_eq!((come(graph.graph(), at, "ef"), come(graph.graph(), at, "be")), (10, 20), "{at:?}");
    }
    assert_eq!(graph.reserved_counts(&[flow]), [FlowCounts { within: 10, beyond: 5 }]);
    assert!(graph.graph().conserved());
    assert_eq!(alice.engine.stats().drops().count(), 0);
    // An exchange of graphs keeps it, with its bucket, which is empty.
    alice.engine.set_graph(NOW, Some(queued::graph(TWO)), &mut alice.pool, &mut out);
    receive(&mut alice, datagram(PORT_OF_CALLS, 100), &mut out);
    let counts = alice.engine.graph().unwrap().reserved_counts(&[flow]);
    assert_eq!(counts, [FlowCounts { within: 10, beyond: 6 }]);
    // In a graph without the class the flow is as any other.
    let one = queued::one_queue();
    alice.engine.set_graph(NOW, Some(one), &mut alice.pool, &mut out);
    receive(&mut alice, datagram(PORT_OF_CALLS, 100), &mut out);
    assert_eq!(alice.engine.graph().unwrap().reserved_counts(&[flow]), counts);
    // At its end nothing is known of it.
    alice.engine.end_reservation(&flow);
    assert_eq!(alice.engine.graph().unwrap().reserved_counts(&[flow]), [FlowCounts::default()]);
    queued::work(&mut alice, NOW, &mut out);
    assert_eq!(alice.engine.stats().drops().count(), 0);
}

#[test]
fn outbound_a_flow_by_spi_has_its_class_behind_the_look_up_and_in_front_of_it_once_it_is_remembered() {
    let mut alice = alice();
    let scope = Scope::Spi { spi: SPI, virtual_port: 8192 };
    let flow = Flow { destination: gcm().endpoints.remote, protocol: 50, scope };
    assert!(alice.engine.reserve(KEY, 16, &flow, terms("ef", 10_000)));
    let mut out = Vec::new();
    // Nothing is remembered of its flow yet: it waits for its look-up as any other.
    receive(&mut alice, datagram(9, 100), &mut out);
    queued::work(&mut alice, NOW, &mut out);
    let class = |alice: &Sender, at| {
        let graph = alice.engine.graph().unwrap().graph();
        (come(graph, at, "ef"), come(graph, at, "be"))
    };
    assert_eq!((class(&alice, HookPoint::In1a), class(&alice, HookPoint::In3a)), ((0, 1), (1, 0)));
    receive(&mut alice, datagram(9, 100), &mut out);
    queued::work(&mut alice, NOW, &mut out);
    assert_eq!((class(&alice, HookPoint::In1a), class(&alice, HookPoint::In5a)), ((1, 1), (2, 0)));
    // Each was charged once.
    let counts = alice.engine.graph().unwrap().reserved_counts(&[flow]);
    assert_eq!(counts, [FlowCounts { within: 2, beyond: 0 }]);
    // The SPI of another destination is another flow.
    alice.engine.end_reservation(&flow);
    let elsewhere = Flow { destination: gcm().endpoints.local, ..flow };
    assert!(alice.engine.reserve(KEY, 16, &elsewhere, terms("ef", 10_000)));
    receive(&mut alice, datagram(9, 100), &mut out);
    queued::work(&mut alice, NOW, &mut out);
    assert_eq!(class(&alice, HookPoint::In5a), (2, 1));
    assert!(alice.engine.graph().unwrap().graph().conserved());
}

#[test]
fn inbound_a_flow_by_spi_has_its_class_and_a_burst_is_parted_where_its_rate_ends() {
    let mut alice = Sender::new(mandatory(), &[gcm()]);
    let mut bob = Receiver::new(&[gcm()]);
    inbound_queued::set(&mut bob, Some(inbound_queued::graph(TWO)));
    let scope = Scope::Spi { spi: SPI, virtual_port: 8192 };
    let flow = Flow { destination: gcm().endpoints.remote, protocol: 50, scope };
    let packets: Vec<Vec<u8>> = (0..10).map(|_| inbound_queued::sealed(&mut alice, 0, 500)).collect();
    // Datagrams in a burst are the payload of UDP: four of them fit, and a fifth does not.
    let each = packets[0].len() as u64 - 28;
    assert!(bob.engine.reserve(KEY, 16, &flow, terms("ef", 4 * each + 99)));
    inbound_queued::burst(&mut bob, &packets[..9]);
    inbound_queued::receive(&mut bob, &packets[9]);
    let counted = |bob: &Receiver, class| inbound_queued::counted(bob, class);
    assert_eq!((counted(&bob, "ef"), counted(&bob, "be")), (4, 6));
    let mut delivery = Delivery::new();
    inbound_queued::work(&mut bob, NOW, &mut delivery);
    assert_eq!(delivery.len(), 10);
    let graph = bob.engine.graph().unwrap();
    assert_eq!(graph.reserved_counts(&[flow]), [FlowCounts { within: 4, beyond: 6 }]);
    assert!(graph.graph().conserved());
    assert_eq!(bob.engine.stats().drops().count(), 0);
    // Packets of another SPI are none of its flow.
    bob.engine.end_reservation(&flow);
    let other = Flow { scope: Scope::Spi { spi: SPI + 1, virtual_port: 8192 }, ..flow };
    assert!(bob.engine.reserve(KEY, 16, &other, terms("ef", 10_000)));
    let more = inbound_queued::sealed(&mut alice, 0, 500);
    inbound_queued::receive(&mut bob, &more);
    assert_eq!((counted(&bob, "ef"), counted(&bob, "be")), (4, 7));
}

#[test]
fn without_a_graph_nothing_is_reserved() {
    let mut alice = Sender::new(mandatory(), &[gcm()]);
    let flow = Flow {
        destination: hosts(false).1,
        protocol: 17,
        scope: Scope::Ports { source: 0, destination: 9, dscp: None },
    };
    assert!(!alice.engine.reserve(KEY, 16, &flow, terms("ef", 10_000)));
}
