//! The scrubber against the catalogue of what is sent to a stack to read otherwise than a monitor: TCP, part O (order,
//! overlap, memory), and bounds.

use crate::kit;

use crate::catalogue_tcp::state;
use kit::{ACK, RST, SYN, SYN_ACK, World, client, server};
use scrub::{Config, Outcome, Profile, Side};
use std::time::Duration;
use wire::tcp::Flags;

/// Figure 1 of the paper: a hole is filled with other octets than those behind it.
#[test]
fn o01_hole_filled_with_other_octets() {
    let mut world = World::established();
    world.pass(&client(5, b"root\n")).unchanged();
    world.pass(&client(0, b"USER user\n")).passed_with(&["Q.8"]).carries(0, b"USER root\n");
}

#[test]
fn o01_hole_where_memory_is_short() {
    let mut config = Config::new(Profile::Standard);
    config.store.memory = 100;
    let mut world = World::established_with(config, &[], &[]);
    world.pass(&client(0, b"USER ")).unchanged();
    world.pass(&client(10, b"root\n")).dropped_by("Q.10");
    world.pass(&client(5, b"user ")).unchanged();
}

#[test]
fn o02_exact_overlap() {
    let mut world = World::established();
    world.pass(&client(4, b"BBBB")).unchanged();
    world.pass(&client(4, b"bbbb")).passed_with(&["Q.8"]).carries(4, b"BBBB");
    world.pass(&client(4, b"BBBB")).unchanged();
}

#[test]
fn o03_partial_overlaps() {
    let mut world = World::established();
    world.pass(&client(4, b"BBBB")).unchanged();
    world.pass(&client(2, b"aaaa")).passed_with(&["Q.8"]).carries(2, b"aaBB");
    world.pass(&client(6, b"cccc")).passed_with(&["Q.8"]).carries(6, b"BBcc");
    world.pass(&client(0, b"dddddddddddd")).passed_with(&["Q.8"]).carries(0, b"ddaaBBBBccdd");
    world.pass(&client(5, b"ee")).passed_with(&["Q.8"]).carries(5, b"BB");
}

#[test]
fn o05_segments_of_one_octet() {
    let mut world = World::established();
    for (at, octet) in (0..2000).zip(b'a'..=b'z') {
        world.pass(&client(at, &[octet])).unchanged();
    }
}

#[test]
fn o06_reverse_order() {
    let mut world = World::established();
    for at in (0..20).rev() {
        world.pass(&client(at * 3, b"xyz")).unchanged();
    }
    world.pass(&server(0, b"").ack(60)).unchanged();
    assert_eq!(world.scrubber.connections().stored(), 0);
}

#[test]
fn o08_retransmission_behind_the_acknowledgment() {
    let mut world = World::established();
    world.pass(&client(0, b"data")).unchanged();
    world.pass(&server(0, b"").ack(4)).unchanged();
    let out = world.pass(&client(0, b"evil"));
    out.passed_with(&["Q.9"]).carries(3, b"");
    assert_eq!(out.flags, ACK);
}

#[test]
fn o09_forged_acknowledgment() {
    let mut world = World::established();
    world.pass(&client(0, b"data")).unchanged();
    world.pass(&server(0, b"").ack(5)).dropped_by("Q.7");
    world.pass(&client(10, b"island")).unchanged();
    world.pass(&server(0, b"").ack(16)).dropped_by("Q.7");
    world.pass(&client(0, b"evil")).passed_with(&["Q.8"]).carries(0, b"data");
}

#[test]
fn o10_lost_acknowledgment() {
    let mut world = World::established();
    world.pass(&client(0, b"data")).unchanged();
    world.pass(&server(0, b"").ack(4)).unchanged();
    // It was lost outside. What reaches the server is something that it must acknowledge again.
    world.pass(&client(0, b"data")).passed_with(&["Q.9"]).carries(3, b"");
    world.pass(&server(0, b"").ack(4)).unchanged();
}

#[test]
fn o11_closed_window() {
    let mut world = World::established();
    world.pass(&client(0, b"data")).unchanged();
    world.pass(&server(0, b"").ack(4).window(1)).passed_with(&["Q.6"]);
    // A host without memory may say so.
    world.pass(&server(0, b"").ack(4).window(0)).unchanged();
    let mut world = World::standard();
    world.pass(&client(-1, b"").flags(SYN)).unchanged();
    world.pass(&server(-1, b"").flags(SYN_ACK).window(4)).unchanged();
    world.pass(&client(0, b"data")).unchanged();
    world.pass(&server(0, b"").ack(4).window(0)).unchanged();
    world.pass(&client(4, b"?")).unchanged();
    world.pass(&client(4, b"!!!!")).passed_with(&["Q.5", "Q.8"]).carries(4, b"?");
    world.pass(&client(3, b"")).unchanged();
}

#[test]
fn o12_window_that_shrinks() {
    let mut world = World::established();
    let out = world.pass(&server(0, b"").window(10));
    out.passed_with(&["Q.6"]);
    assert_eq!(out.window, 65535);
}

#[test]
fn o14_urgent_octet() {
    let mut world = World::established();
    let urgent = |at| client(0, b"ROOxT").flags(ACK | Flags::URG).with(|s| s.urgent = at);
    for at in [1, 4, 5, 6, 60000] {
        let out = world.pass(&urgent(at));
        out.passed_with(&["T.6"]).carries(0, b"ROOxT");
        assert_eq!((out.flags, out.urgent), (ACK, 0));
    }
}

#[test]
fn o15_urgent_pointer_without_flag() {
    let mut world = World::established();
    let out = world.pass(&client(0, b"data").with(|s| s.urgent = 2));
    assert_eq!((out.passed_with(&["T.6"]).flags, out.urgent), (ACK, 0));
}

#[test]
fn o16_two_answers() {
    // The receiver is inside, the two answers come from outside.
    let mut config = Config::new(Profile::Standard);
    config.protect = scrub::Protect::Both;
    let mut world = World::established_with(config, &[], &[]);
    world.pass(&client(0, b"GET /")).unchanged();
    world.pass(&server(0, b"302 evil").ack(5)).unchanged();
    world.pass(&server(0, b"200 good").ack(5)).passed_with(&["Q.8"]).carries(0, b"302 evil");
}

#[test]
fn o17_sack_blocks_of_nothing() {
    let asked = [4, 2, 1, 1];
    let mut world = World::established_with(Config::new(Profile::Standard), &asked, &asked);
    world.pass(&server(0, b"answer")).unchanged();
    let block = |left: i64, right: i64| {
        let at = |number: i64| world.isn[1].wrapping_add(1).wrapping_add(number as u32).to_be_bytes();
        [&[1, 1, 5, 10][..], &at(left), &at(right)].concat()
    };
    let (never, empty, fine) = (block(3, 60), block(3, 3), block(3, 6));
    for wrong in [never, empty] {
        let out = world.pass(&client(0, b"").options(&wrong));
        assert!(out.passed_with(&["O.4"]).options.is_empty(), "{:?}", out.options);
    }
    world.pass(&client(0, b"").options(&fine)).unchanged();
    // Without agreement there are none.
    let mut world = World::established();
    world.pass(&server(0, b"answer")).unchanged();
    world.pass(&client(0, b"").options(&fine)).passed_with(&["O.4"]);
}

#[test]
fn o18_keep_alive_with_an_octet() {
    let mut world = World::established();
    world.pass(&client(0, b"data")).unchanged();
    world.pass(&server(0, b"").ack(4)).unchanged();
    world.pass(&client(3, b"?")).passed_with(&["Q.9"]).carries(3, b"");
}

#[test]
fn o20_other_octets_after_a_loss_behind() {
    // Whether a segment arrives behind us is nothing that the scrubber knows: until it is acknowledged it stays in store.
    let mut world = World::established();
    world.pass(&client(0, b"lost")).unchanged();
    world.wait(Duration::from_secs(60));
    world.pass(&client(0, b"evil")).passed_with(&["Q.8"]).carries(0, b"lost");
}

#[test]
fn o21_holes_of_many_connections() {
    let mut config = Config::new(Profile::Standard);
    config.store.memory = 64 << 10;
    let mut world = World::new(config);
    let mut dropped = 0;
    for port in 1000..3000 {
        let ours = |s: &mut kit::Seg| s.ports = (port, 80);
        world.pass(&client(-1, b"").flags(SYN).with(ours));
        world.pass(&server(-1, b"").flags(SYN_ACK).with(|s| s.ports = (80, port)));
        let out = world.pass(&client(100, &[b'x'; 1000]).with(ours));
        dropped += usize::from(out.outcome != Outcome::Forward);
        assert!(world.scrubber.connections().stored() <= 64 << 10);
    }
    assert!(dropped > 1900, "{dropped}");
    // Data in order still have room.
    world.pass(&client(-1, b"").flags(SYN).with(|s| s.ports = (9, 80))).unchanged();
    world.pass(&server(-1, b"").flags(SYN_ACK).with(|s| s.ports = (80, 9))).unchanged();
    world.pass(&client(0, b"in order").with(|s| s.ports = (9, 80))).unchanged();
}

#[test]
fn o22_acknowledgments_in_small_steps() {
    let mut world = World::established();
    world.pass(&client(0, &[b'x'; 1000])).unchanged();
    for ack in 1..=1000 {
        world.pass(&server(0, b"").ack(ack)).unchanged();
    }
    world.pass(&server(0, b"").ack(1001)).dropped_by("Q.7");
}

#[test]
fn pieces_of_a_connection_are_bounded() {
    let mut world = World::established();
    let mut refused = 0;
    for at in 0..400 {
        let out = world.pass(&client(10 + at * 3, b"x"));
        refused += usize::from(out.outcome != Outcome::Forward);
    }
    assert_eq!(refused, 400 - 256);
    // What the receiver waits for is never one too many.
    world.pass(&client(0, b"0123456789")).unchanged();
}

#[test]
fn sources_have_a_quota_of_half_open_connections() {
    let mut config = Config::new(Profile::Standard);
    config.flows.half_open_per_source = 10;
    let mut world = World::new(config);
    for port in 1000..1010 {
        world.pass(&client(-1, b"").flags(SYN).with(|s| s.ports = (port, 80))).unchanged();
    }
    world.pass(&client(-1, b"").flags(SYN).with(|s| s.ports = (2000, 80))).dropped_by("Q.16");
    world.wait(Duration::from_secs(31));
    assert_eq!(world.scrubber.connections().half_open(), 0);
    world.pass(&client(-1, b"").flags(SYN).with(|s| s.ports = (2000, 80))).unchanged();
}

#[test]
fn a_handshake_that_takes_too_long_is_reset() {
    let mut world = World::standard();
    world.pass(&client(-1, b"").flags(SYN)).unchanged();
    world.pass(&server(-1, b"").flags(SYN_ACK)).unchanged();
    world.wait(Duration::from_secs(31));
    let own = world.own();
    let told: Vec<_> = own.iter().map(|(to, out)| (*to, out.flags, out.seq, out.ack)).collect();
    assert_eq!(told, [(Side::Inside, RST | ACK, 0, 0)]);
    assert_eq!(state(&world), None);
}

#[test]
fn a_segment_that_routers_send_round_does_not_live_for_ever() {
    let mut world = World::established();
    for segment in [client(-1, b"").flags(SYN), client(0, b"data")] {
        let bytes = segment.packet(world.isn);
        let out = world.pass_bytes(Side::Inside, &bytes);
        assert!(matches!(out.outcome, Outcome::Drop(_)), "{out:?}");
    }
    world.pass(&client(0, b"data")).unchanged();
}
