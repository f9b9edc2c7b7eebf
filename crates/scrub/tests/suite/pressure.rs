//! Tests of pressure level 2: only hashes are kept of data in order.

use crate::kit;

use kit::{World, client, server};
use scrub::{Config, Outcome, Profile};

fn hashing() -> World {
    let mut config = Config::new(Profile::Standard);
    config.store.hashes_from = 0;
    World::established_with(config, &[], &[])
}

#[test]
fn a_copy_passes_and_another_text_does_not() {
    let mut world = hashing();
    world.pass(&client(0, b"attack")).unchanged();
    world.pass(&client(0, b"benign")).dropped_by("Q.8");
    world.pass(&client(0, b"attack")).unchanged();
    world.pass(&client(6, b" at dawn")).unchanged();
    world.pass(&client(0, b"attack at dawn")).unchanged();
    // What is the same in front goes on; the first text that differs ends it.
    world.pass(&client(0, b"attack at noon")).passed_with(&["Q.8"]).carries(0, b"attack");
    world.pass(&server(0, b"").ack(14)).unchanged();
    assert_eq!(world.scrubber.connections().stored(), 0);
    world.pass(&client(14, b"!")).unchanged();
}

#[test]
fn a_copy_of_a_part_cannot_be_compared_and_asks_the_receiver() {
    let mut world = hashing();
    world.pass(&client(0, b"attack")).unchanged();
    world.pass(&client(0, b"att")).passed_with(&["Q.8"]).carries(-1, b"");
    world.pass(&client(3, b"ack")).passed_with(&["Q.8"]).carries(-1, b"");
    // The whole of it and more: what is new goes on.
    world.pass(&client(0, b"attack now")).unchanged();
    // A part was acknowledged: the rest cannot be compared any more, and is not let through.
    world.pass(&server(0, b"").ack(3)).unchanged();
    assert_eq!(world.pass(&client(3, b"ACK now")).data, b"");
    world.pass(&server(0, b"").ack(10)).unchanged();
    world.pass(&client(10, b"more")).unchanged();
}

#[test]
fn what_lies_behind_a_hole_is_kept_as_octets() {
    let mut world = hashing();
    world.pass(&client(5, b"root\n")).unchanged();
    world.pass(&client(0, b"USER user\n")).passed_with(&["Q.8"]).carries(0, b"USER root\n");
    // What filled the hole has a hash, what was behind it octets.
    world.pass(&client(0, b"user root\n")).dropped_by("Q.8");
    world.pass(&client(5, b"user\n")).passed_with(&["Q.8"]).carries(5, b"root\n");
}

#[test]
fn a_hash_takes_forty_octets_however_long_the_segment_is() {
    let mut world = hashing();
    for at in 0..60 {
        world.pass(&client(at * 1000, &[b'x'; 1000])).unchanged();
    }
    assert_eq!(world.scrubber.connections().stored(), 60 * 40);
}

/// Hashes are kept from 5/8 of the budget on; what was there before stays as it is.
#[test]
fn hashes_are_kept_when_memory_is_short() {
    let mut config = Config::new(Profile::Standard);
    config.store.memory = 256 << 10;
    let mut world = World::established_with(config, &[], &[]);
    let mut passed = 0;
    while world.pass(&client(passed * 60, &[passed as u8; 60])).outcome == Outcome::Forward && passed < 1000 {
        passed += 1;
    }
    assert_eq!(passed, 1000, "a window of 60,000 octets fits in any case");
    world.pass(&client(0, &[9; 60])).passed_with(&["Q.8"]).carries(0, &[0; 60]);
    for port in 2000..2400 {
        let ours = |s: &mut kit::Seg| s.ports = (port, 80);
        world.pass(&client(-1, b"").flags(kit::SYN).with(ours));
        world.pass(&server(-1, b"").flags(kit::SYN_ACK).with(|s| s.ports = (80, port)));
        world.pass(&client(0, &[b'x'; 1400]).with(ours)).unchanged();
    }
    let stored = world.scrubber.connections().stored();
    assert!(stored > 160 << 10 && stored < 192 << 10, "{stored}");
    world.pass(&client(0, &[b'y'; 1400]).with(|s| s.ports = (2399, 80))).dropped_by("Q.8");
    world.pass(&client(0, &[b'x'; 1400]).with(|s| s.ports = (2399, 80))).unchanged();
}
