//! Connections that came in and on which nobody has written: who calls on one, holds it when policy is loaded, or leaves it no room for a
//! note, does not decide whose it is (docs/design/0012, activated programs). Needs root.

use crate::activated::{any, connected, in_clear, program as subject, redirected, world, world_without};
use crate::common;

use common::*;
use policy::Subjects;
use program::Program;
use std::path::Path;

/// A program that becomes another one, with its sockets.
fn becomes(program: &mut Program, path: &Path) {
    assert_eq!(program.ask(&format!("exec {}", path.display())), "ready");
}

/// `bind` fails on a connection, but the hook has seen it.
#[test]
fn who_only_calls_on_a_connection_does_not_have_it() {
    let (mut world, service) = world("unwritten-call", |_| Vec::new());
    let weak = world.executable("weak");
    let subjects = Subjects::new(vec![(subject(&service), STRICT), (subject(&weak), WEAK)]);
    world.sockmon().load_policy(&usual(), &subjects, &usual_orders()).unwrap();
    world.wire();
    let (mut program, _peer) = connected(&world, 8080);
    becomes(&mut program, &weak);
    assert_eq!(program.ask("bind a 10.99.0.1:8099"), "EINVAL");
    becomes(&mut program, &service);
    program.run(&["send a 5"]);
    assert_eq!(redirected(&world, 8080), stamp(STRICT));
    assert_eq!((in_clear(&world, 8080), world.counter("connections_claimed")), (0, 1));
    // And who has called is held to its policy as long as nobody stricter writes.
    let (mut program, mut peer) = connected(&world, 8081);
    becomes(&mut program, &weak);
    assert_eq!(program.ask("bind a 10.99.0.1:8099"), "EINVAL");
    program.run(&["send a 5"]);
    assert_eq!(peer.ask("recv c 5000"), "5", "in clear, as WEAK may");
    // What is sent again of the first one is there, too.
    assert!(world.drain().iter().all(|seen| packets::transport(&seen.packet).1.source != 8081));
}

/// At the load, and at the next one: a program that only waits holds it.
#[test]
fn who_only_holds_a_connection_at_a_load_does_not_have_it() {
    let (mut world, service) = world("unwritten-load", |_| Vec::new());
    let weak = world.executable("weak");
    world.wire();
    let (mut program, _peer) = connected(&world, 8080);
    becomes(&mut program, &weak);
    for _ in 0..2 {
        let subjects = Subjects::new(vec![(subject(&service), STRICT), (subject(&weak), WEAK)]);
        world.sockmon().load_policy(&usual(), &subjects, &usual_orders()).unwrap();
        world.monitor(|m| m.adopt().unwrap());
    }
    becomes(&mut program, &service);
    program.run(&["send a 5"]);
    assert_eq!(redirected(&world, 8080), stamp(STRICT));
    assert_eq!((in_clear(&world, 8080), world.counter("connections_claimed")), (0, 1));
}

/// A connection that is older than the programs and has not been accepted, at a listener of nobody's and at one of WEAK's.
#[test]
fn what_waits_at_a_listener_when_the_programs_come_is_its_first_writers() {
    for named in [false, true] {
        let mut world = World::new(&format!("unwritten-queue-{named}"));
        let (service, weak) = (world.executable("service"), world.executable("weak"));
        let mut program = world.start("activator");
        program.run(&["uid 65534", "open l tcp4", "bind l 10.99.0.1:8080", "listen l"]);
        let mut peer = world.start_in_bob("peer");
        peer.run(&["open c tcp4"]);
        assert_eq!(peer.ask("connect c 10.99.0.1:8080"), "EINPROGRESS");
        if named {
            becomes(&mut program, &weak);
        }
        world.attach();
        let subjects = Subjects::new(vec![(subject(&service), STRICT), (subject(&weak), WEAK)]);
        world.sockmon().load_policy(&usual(), &subjects, &usual_orders()).unwrap();
        world.monitor(|m| m.adopt().unwrap());
        world.wire();
        program.run(&["accept l a 5000"]);
        becomes(&mut program, &service);
        program.run(&["send a 5"]);
        assert_eq!(redirected(&world, 8080), stamp(STRICT), "{named}");
        assert_eq!(in_clear(&world, 8080), 0, "{named}");
    }
}

/// A filter for the listener `l`, for which each of its connections is charged. Anybody may attach one, but for kernels that have used up
/// what they compile for users (`bpf_jit_limit`), so it is root here, who becomes nobody.
fn burdened(program: &mut Program) {
    burden(program, "l");
    program.run(&["uid 65534"]);
}

fn burden(program: &mut Program, socket: &str) {
    let answer = program.ask(&format!("burden {socket}"));
    let instructions: u32 = answer.parse().unwrap_or_else(|_| panic!("{answer}"));
    assert!(instructions > 100, "{instructions}");
}

#[test]
fn a_connection_without_room_for_a_note_sends_nothing() {
    let (mut world, service) = world("unwritten-room", |_| Vec::new());
    world.wire();
    // Room that comes back (SO_DETACH_FILTER) changes nothing, nor does the stamp of a request for services.
    let room = "set a 1 27 4";
    let changes: [(u16, &[&str]); 3] = [(8080, &[]), (8081, &[room]), (8082, &[room, "require a 3"])];
    for (port, changes) in changes {
        let mut program = world.start("activator");
        program.run(&["open l tcp4", &format!("bind l 10.99.0.1:{port}"), "listen l"]);
        burdened(&mut program);
        let mut peer = world.start_in_bob("peer");
        peer.run(&["open c tcp4"]);
        assert_eq!(peer.ask(&format!("connect c 10.99.0.1:{port}")), "EINPROGRESS");
        let before = world.counter("stamp_failed");
        program.run(&["accept l a 5000"]);
        assert!(before > 0, "there was no room");
        program.run(changes);
        becomes(&mut program, &service);
        program.ask("send a 5");
        assert_eq!(in_clear(&world, port), 0, "{port}");
        assert!(world.counter("egress_unclaimed") > 0);
        assert_eq!(world.drain(), [], "{port}");
    }
}

/// With `default` the listener has an application, and its connections are accepted with room for its stamp or not at all.
#[test]
fn a_filter_on_a_listener_with_an_application_opens_nothing() {
    let (world, service) = world("unwritten-named", |_| vec![(any(), WEAK)]);
    world.wire();
    let mut program = world.start("activator");
    program.run(&["open l tcp4", "bind l 10.99.0.1:8080", "listen l"]);
    burdened(&mut program);
    let mut peer = world.start_in_bob("peer");
    peer.run(&["open c tcp4"]);
    peer.ask("connect c 10.99.0.1:8080");
    if program.ask("accept l a 500") == "ok" {
        becomes(&mut program, &service);
        program.ask("send a 5");
        assert!(world.drain().iter().all(|seen| seen.mark == stamp(STRICT) || seen.mark == stamp(WEAK)));
    }
    assert_eq!(in_clear(&world, 8080), 0);
}

/// Who writes takes the room first: the note of who that was has its place from the moment when the connection came, also where writes are
/// noted when they are over, and in front of whoever makes room again and writes behind it.
#[test]
fn a_writer_who_leaves_no_room_is_noted_all_the_same() {
    for (number, omitted) in [None, Some("stream_write")].into_iter().enumerate() {
        let name = format!("unwritten-burden{number}");
        let (world, service) = world_without(&name, omitted, |_| vec![(any(), WEAK)]);
        let weak = world.executable("weakling");
        for (port, by_another) in [(8080, false), (8081, true)] {
            let mut program = world.start("activator");
            program.run(&["open l tcp4", &format!("bind l 10.99.0.1:{port}"), "listen l"]);
            let mut peer = world.start_in_bob("peer");
            peer.run(&["open c tcp4"]);
            assert_eq!(peer.ask(&format!("connect c 10.99.0.1:{port}")), "EINPROGRESS");
            program.run(&["accept l a 5000"]);
            world.wire();
            if !by_another {
                program.run(&["descend"]);
            }
            becomes(&mut program, &service);
            burden(&mut program, "a");
            program.run(&["uid 65534", "more a 5"]);
            if by_another {
                becomes(&mut program, &weak);
                program.run(&["set a 1 27 4"]);
                program.ask("send a 2");
            }
            drop(program);
            assert_eq!(redirected(&world, port), stamp(STRICT), "{name} {port}");
            assert_eq!(in_clear(&world, port), 0, "{name} {port}");
            world.drain();
        }
    }
}
