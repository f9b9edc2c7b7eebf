//! Connections that another program accepts than the one that listens: socket activation, inetd. The first process that sends on one
//! decides whose it is. Needs root.

use crate::common;

use common::*;
use packets::*;
use policy::{Executables, Selector, Subjects};
use program::Program;
use std::path::{Path, PathBuf};
use wire::AppId;

pub fn any() -> Selector {
    Selector { executables: Executables::Any, from: None, group: None, users: None }
}

pub fn program(path: &Path) -> Selector {
    Selector::program(path.to_str().unwrap())
}

/// A world whose policy speaks for a service, and for its listener's program or for whatever else there is.
pub fn world(name: &str, listener: impl FnOnce(&Path) -> Vec<(Selector, AppId)>) -> (World, PathBuf) {
    world_without(name, None, listener)
}

/// A world as [`world`] makes it, without one program of the kernel half.
pub fn world_without(
    name: &str,
    omitted: Option<&str>,
    listener: impl FnOnce(&Path) -> Vec<(Selector, AppId)>,
) -> (World, PathBuf) {
    let mut world = World::new(name);
    world.attach_with(|options| options.omit.extend(omitted.map(String::from)));
    let (service, activator) = (world.executable("service"), world.executable("activator"));
    let mut subjects = listener(&activator);
    subjects.push((program(&service), STRICT));
    world.sockmon().load_policy(&usual(), &Subjects::new(subjects), &usual_orders()).unwrap();
    (world, service)
}

/// An unprivileged activator that has accepted a connection of bob's.
pub fn connected(world: &World, port: u16) -> (Program, Program) {
    let mut activator = world.start("activator");
    activator.run(&["uid 65534", "open l tcp4", &format!("bind l 10.99.0.1:{port}"), "listen l"]);
    let mut peer = world.start_in_bob("peer");
    peer.run(&["open c tcp4"]);
    assert_eq!(peer.ask(&format!("connect c 10.99.0.1:{port}")), "EINPROGRESS");
    activator.run(&["accept l a 5000"]);
    (activator, peer)
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

pub fn in_clear(world: &World, port: u16) -> usize {
    world.wire().iter().filter(|packet| carries(packet, port)).count()
}

/// The next packet with data on the TUN.
pub fn redirected(world: &World, port: u16) -> u32 {
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

/// Nobody acknowledges it, and when it is sent again no process has the socket any more.
#[test]
fn the_end_of_a_connection_that_a_service_only_closes_is_sent_again() {
    let (world, service) = world("activated-closed", |_| Vec::new());
    let (mut program, _peer) = activated(&world, &service, 8080, true);
    world.wire();
    world.drain();
    program.run(&["close a"]);
    for _ in 0..2 {
        assert_eq!(redirected(&world, 8080), stamp(STRICT));
    }
    assert_eq!(in_clear(&world, 8080), 0);
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

fn closed(packet: Vec<u8>) -> Vec<u8> {
    let mut packet = packet;
    // A window of all ones or all zeros is the same to the checksum.
    packet[34..36].fill(0);
    packet
}

/// A connection from an address without a host to an activator whose peer has closed its window; the sequence number that comes next.
fn with_closed_window(world: &World, port: u16) -> (Program, u32) {
    let mut activator = world.start("activator");
    activator.run(&["uid 65534", "open l tcp4", &format!("bind l 10.99.0.1:{port}"), "listen l"]);
    world.wire();
    world.bob_sends(&tcp((NOBODY, 5000), (ALICE, port), 100, 0, SYN));
    let answer = world.wire_within(SOON.min(NEVER)).into_iter().find(|p| transport(p).1.destination == 5000);
    let (sequence, ..) = tcp_numbers(&answer.expect("a SYN-ACK"));
    world.bob_sends(&closed(tcp((NOBODY, 5000), (ALICE, port), 101, sequence + 1, ACK)));
    activator.run(&["accept l a 5000"]);
    (activator, sequence + 1)
}

/// A peer that closes its window has the kernel send later, when no process is there that could be asked.
#[test]
fn data_that_a_closed_window_held_back_is_its_writers() {
    let (mut world, service) = world("activated-window", |_| Vec::new());
    let (mut activator, sequence) = with_closed_window(&world, 8080);
    // Who has the socket last, and closes it, is the activator.
    activator.run(&["descend"]);
    assert_eq!(activator.ask(&format!("exec {}", service.display())), "ready");
    activator.run(&["send a 5"]);
    assert_eq!(in_clear(&world, 8080), 0);
    world.bob_sends(&tcp((NOBODY, 5000), (ALICE, 8080), 101, sequence, ACK));
    assert_eq!(redirected(&world, 8080), stamp(STRICT));
    drop(activator);
    assert_eq!(in_clear(&world, 8080), 0);
    assert_eq!((world.counter("connections_claimed"), world.counter("egress_unclaimed")), (1, 0));
}

/// The writer is known before its call is over, and before anything of what it writes can leave.
#[test]
fn data_leaves_as_its_writers_while_that_waits_for_room() {
    if !shows_writes() {
        println!("skipped: this kernel shows who writes when the call is over (before Linux 6.16)");
        return;
    }
    let (world, service) = world("activated-room", |_| Vec::new());
    let (mut activator, sequence) = with_closed_window(&world, 8080);
    assert_eq!(activator.ask(&format!("exec {}", service.display())), "ready");
    // More than there is room for: the call is not over before the peer has taken most of it.
    activator.begin("send a 50000000");
    let deadline = std::time::Instant::now() + SOON;
    while !(waits_to_send(&world, 8080) && is_asleep(activator.pid())) {
        assert!(std::time::Instant::now() < deadline, "nothing is written");
    }
    world.bob_sends(&tcp((NOBODY, 5000), (ALICE, 8080), 101, sequence, ACK));
    let mark = std::iter::from_fn(|| world.seen_within(SOON)).find(|seen| carries(&seen.packet, 8080));
    // Its call does not end by itself: nobody acknowledges.
    activator.kill();
    assert_eq!(mark.expect("on the TUN").mark, stamp(STRICT));
    assert_eq!(in_clear(&world, 8080), 0);
}

fn shows_writes() -> bool {
    let hook = b"\0btf_trace_tcp_sendmsg_locked\0";
    let types = std::fs::read("/sys/kernel/btf/vmlinux").unwrap();
    types.windows(hook.len()).any(|name| name == hook)
}

/// Whether a connection of this local port has something in its queue.
fn waits_to_send(world: &World, port: u16) -> bool {
    let list = world.alice.run(|| std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap());
    let local = format!(":{port:04X}");
    // Number, local and remote address, state, queues.
    let fields = list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields.filter(|f| f[1].ends_with(&local)).any(|f| !f[4].starts_with("00000000:"))
}

fn is_asleep(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" S"))
}

/// Kernels that show who writes before the data is in the queue, and those that show it behind the call.
const KERNELS: [Option<&str>; 2] = [None, Some("stream_write")];

/// A supervisor that keeps its descriptor until its child has ended sends what the child has left in the queue.
#[test]
fn what_a_service_leaves_in_the_queue_is_not_its_supervisors() {
    for (number, omitted) in KERNELS.into_iter().enumerate() {
        for (weak, port) in [(false, 8080), (true, 8081)] {
            let name = format!("act-left{number}-{weak}");
            let listener = |_: &Path| if weak { vec![(any(), WEAK)] } else { Vec::new() };
            let (mut world, service) = world_without(&name, omitted, listener);
            let (mut activator, _peer) = connected(&world, port);
            world.wire();
            activator.run(&["descend"]);
            assert_eq!(activator.ask(&format!("exec {}", service.display())), "ready");
            activator.run(&["more a 5"]);
            world.drain();
            drop(activator);
            assert_eq!(redirected(&world, port), stamp(STRICT), "{name}");
            assert_eq!(in_clear(&world, port), 0, "{name}");
            assert_eq!(world.counter("connections_claimed"), 1, "{name}");
        }
    }
}

/// What a worker of the kernel sends when the last descriptor goes is whose it was; nobody's goes in clear as it did.
#[test]
fn what_a_worker_of_the_kernel_closes_is_its_writers() {
    for (number, omitted) in KERNELS.into_iter().enumerate() {
        let (mut world, service) = world_without(&format!("act-worker{number}"), omitted, |_| Vec::new());
        world.wire();
        let (mut activator, _peer) = connected(&world, 8080);
        assert_eq!(activator.ask(&format!("exec {}", service.display())), "ready");
        activator.run(&["more a 5", "knot a"]);
        assert_eq!(redirected(&world, 8080), stamp(STRICT));
        assert_eq!((in_clear(&world, 8080), world.counter("egress_unclaimed")), (0, 0));
        let (mut nobody, mut peer) = connected(&world, 8081);
        nobody.run(&["more a 5", "knot a"]);
        assert_eq!(peer.ask("recv c 5000"), "5");
    }
}

/// Where no note says who has written, nobody who only sends it on decides: neither a worker of the kernel nor who closes the socket later.
#[test]
fn data_whose_writer_is_not_known_does_not_leave() {
    let mut world = World::new("activated-unknown");
    world.attach_with(|options| options.omit.extend(["stream_write", "stream_written"].map(String::from)));
    let service = world.executable("service");
    world
        .sockmon()
        .load_policy(&usual(), &Subjects::new(vec![(program(&service), STRICT)]), &usual_orders())
        .unwrap();
    world.wire();
    let (mut activator, _peer) = connected(&world, 8080);
    assert_eq!(activator.ask(&format!("exec {}", service.display())), "ready");
    activator.run(&["more a 5", "knot a"]);
    let deadline = std::time::Instant::now() + SOON * 12;
    while world.counter("egress_unclaimed") == 0 {
        assert!(
            std::time::Instant::now() < deadline,
            "the kernel has closed nothing; in clear: {}",
            in_clear(&world, 8080)
        );
    }
    assert_eq!(in_clear(&world, 8080), 0);
    drop(activator);
    // A closed window: the kernel tries and is refused, and from then on the supervisor that closes does not decide.
    let (mut activator, sequence) = with_closed_window(&world, 8081);
    let before = world.counter("egress_unclaimed");
    activator.run(&["descend"]);
    assert_eq!(activator.ask(&format!("exec {}", service.display())), "ready");
    activator.run(&["send a 5"]);
    world.bob_sends(&tcp((NOBODY, 5000), (ALICE, 8081), 101, sequence, ACK));
    let deadline = std::time::Instant::now() + SOON * 12;
    while world.counter("egress_unclaimed") == before {
        assert!(std::time::Instant::now() < deadline, "the kernel never sent what it held");
    }
    drop(activator);
    assert_eq!(in_clear(&world, 8081), 0);
}
