//! Connections that another program accepts than the one that listens: socket activation, inetd. The first process that sends on one
//! decides whose it is. Needs root.

use crate::common;

use common::*;
use packets::*;
use policy::{Executables, Selector, Subjects};
use program::Program;
use std::path::{Path, PathBuf};
use wire::AppId;

fn any() -> Selector {
    Selector { executables: Executables::Any, from: None, group: None, users: None }
}

fn program(path: &Path) -> Selector {
    Selector::program(path.to_str().unwrap())
}

/// A world whose policy speaks for a service, and for its listener's program or for whatever else there is.
fn world(name: &str, listener: impl FnOnce(&Path) -> Vec<(Selector, AppId)>) -> (World, PathBuf) {
    let mut world = World::new(name);
    world.attach();
    let (service, activator) = (world.executable("service"), world.executable("activator"));
    let mut subjects = listener(&activator);
    subjects.push((program(&service), STRICT));
    world.sockmon().load_policy(&usual(), &Subjects::new(subjects), &usual_orders()).unwrap();
    (world, service)
}

/// An unprivileged activator with a connection of bob's, accepted before or after it becomes the service.
fn activated(world: &World, service: &Path, port: u16, before: bool) -> (Program, Program) {
    let mut activator = world.start("activator");
    activator.run(&["uid 65534", "open l tcp4", &format!("bind l 10.99.0.1:{port}"), "listen l"]);
    let mut peer = world.start_in_bob("peer");
    peer.run(&["open c tcp4"]);
    assert_eq!(peer.ask(&format!("connect c 10.99.0.1:{port}")), "EINPROGRESS");
    if before {
        activator.run(&["accept l a 5000"]);
    }
    assert_eq!(activator.ask(&format!("exec {}", service.display())), "ready");
    if !before {
        activator.run(&["accept l a 5000"]);
    }
    (activator, peer)
}

/// Whether a packet of this port has data, or is an end.
fn carries(packet: &[u8], port: u16) -> bool {
    transport(packet).1.source == port
        && (packet.len() > 20 + usize::from(packet[32] >> 4) * 4 || packet[33] & 1 != 0)
}

fn in_clear(world: &World, port: u16) -> usize {
    world.wire().iter().filter(|packet| carries(packet, port)).count()
}

/// The next packet with data on the TUN.
fn redirected(world: &World, port: u16) -> u32 {
    let mut seen = std::iter::from_fn(|| world.seen_within(SOON));
    seen.find(|seen| carries(&seen.packet, port)).expect("on the TUN").mark
}

/// With `default` every listener has an application. The service has the stricter policy.
#[test]
fn a_service_behind_a_listener_of_default_has_its_connections() {
    let (mut world, service) = world("activated-default", |_| vec![(any(), WEAK)]);
    world.wire();
    for (port, before) in [(8080, false), (8081, true)] {
        let (mut program, _peer) = activated(&world, &service, port, before);
        program.run(&["send a 5"]);
        assert_eq!(redirected(&world, port), stamp(STRICT));
        program.run(&["close a"]);
        assert_eq!(in_clear(&world, port), 0);
        world.drain();
    }
    assert_eq!(world.counter("connections_claimed"), 2);
}

/// Where neither policy is stricter, as of a socket of UDP.
#[test]
fn a_service_whose_policy_does_not_compare_with_its_listeners_is_refused() {
    let (mut world, service) = world("activated-other", |activator| vec![(program(activator), OTHER)]);
    world.wire();
    // Bob has no keys: the handshake is let in as if it had been protected.
    let proof = 0x8300_0000;
    let mut activator = world.start("activator");
    activator.run(&["uid 65534", "open l tcp4", "bind l 10.99.0.1:8080", "listen l"]);
    world.inject(proof, &tcp((BOB, 5000), (ALICE, 8080), 100, 0, SYN));
    let answer = world.seen_within(SOON).expect("a SYN-ACK on the TUN");
    let (sequence, ..) = tcp_numbers(&answer.packet);
    world.inject(proof, &tcp((BOB, 5000), (ALICE, 8080), 101, sequence + 1, ACK));
    activator.run(&["accept l a 5000"]);
    assert_eq!(activator.ask(&format!("exec {}", service.display())), "ready");
    activator.run(&["send a 5"]);
    assert!(world.counter("handover_incomparable") > 0);
    assert!(world.drain().iter().all(|seen| !carries(&seen.packet, 8080)));
    assert_eq!(in_clear(&world, 8080), 0);
}

/// Who only held the connection for the service has not used it, though the kernel acknowledged in its hands.
#[test]
fn an_acknowledgment_in_the_hands_of_the_activator_decides_nothing() {
    let (mut world, service) = world("activated-ack", |_| Vec::new());
    let mut activator = world.start("activator");
    activator.run(&["uid 65534", "open l tcp4", "bind l 10.99.0.1:8080", "listen l"]);
    let mut peer = world.start_in_bob("peer");
    peer.run(&["open c tcp4"]);
    assert_eq!(peer.ask("connect c 10.99.0.1:8080"), "EINPROGRESS");
    activator.run(&["accept l a 5000"]);
    // Until the window is full. What is read then opens it, in the reader's hands.
    let full = loop {
        match peer.ask("send c 60000") {
            answer if answer == "ok" => {}
            answer => break answer,
        }
    };
    assert_eq!(full, "errno 11", "EAGAIN");
    activator.ask("collect a 200000");
    assert_eq!(in_clear(&world, 8080), 0);
    assert_eq!(activator.ask(&format!("exec {}", service.display())), "ready");
    activator.run(&["send a 5"]);
    assert_eq!(redirected(&world, 8080), stamp(STRICT));
    assert_eq!(in_clear(&world, 8080), 0);
    assert_eq!(world.counter("connections_claimed"), 1);
}

/// A peer that closes its window has the kernel send later, when no process is there that could be asked.
#[test]
fn data_that_a_closed_window_held_back_does_not_leave_as_nobodys() {
    let closed = |packet: Vec<u8>| {
        let mut packet = packet;
        // A window of all ones or all zeros is the same to the checksum.
        packet[34..36].fill(0);
        packet
    };
    let (mut world, service) = world("activated-window", |_| Vec::new());
    let mut activator = world.start("activator");
    activator.run(&["uid 65534", "open l tcp4", "bind l 10.99.0.1:8080", "listen l"]);
    world.wire();
    world.bob_sends(&tcp((NOBODY, 5000), (ALICE, 8080), 100, 0, SYN));
    let answer = world.wire_within(SOON.min(NEVER)).into_iter().find(|p| transport(p).1.destination == 5000);
    let (sequence, ..) = tcp_numbers(&answer.expect("a SYN-ACK"));
    world.bob_sends(&closed(tcp((NOBODY, 5000), (ALICE, 8080), 101, sequence + 1, ACK)));
    activator.run(&["accept l a 5000"]);
    assert_eq!(activator.ask(&format!("exec {}", service.display())), "ready");
    activator.run(&["send a 5"]);
    assert_eq!(in_clear(&world, 8080), 0);
    world.bob_sends(&tcp((NOBODY, 5000), (ALICE, 8080), 101, sequence + 1, ACK));
    let deadline = std::time::Instant::now() + SOON;
    while world.counter("egress_unclaimed") == 0 {
        assert_eq!(in_clear(&world, 8080), 0);
        assert!(std::time::Instant::now() < deadline, "the kernel never sent what it held");
    }
    // The next time the service sends says whose it is.
    activator.run(&["send a 5"]);
    assert_eq!(redirected(&world, 8080), stamp(STRICT));
    assert_eq!(in_clear(&world, 8080), 0);
}
