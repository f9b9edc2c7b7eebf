//! Beside the way packets are missed: what a capture lacks ends no connection, and nothing becomes readable in two ways by it.

use crate::kit::{ACK, FIN, SYN, SYN_ACK, World, client, server};
use scrub::{Config, Outcome, Profile, Rule};

fn beside() -> Config {
    let mut config = Config::new(Profile::Standard);
    config.protect = scrub::Protect::Both;
    config.may_miss = true;
    config
}

fn believed(world: &World) -> u64 {
    world.scrubber.counters().of(Rule::Acknowledgment).observed
}

#[test]
fn an_acknowledgment_over_a_hole_moves_the_window() {
    let mut world = World::established_with(beside(), &[], &[]);
    world.pass(&server(0, &[1; 100]).ack(0)).unchanged();
    world.pass(&client(0, b"").ack(100)).unchanged();
    assert_eq!(believed(&world), 0);
    // 100 to 200 were not seen.
    world.pass(&server(200, &[3; 100])).unchanged();
    world.pass(&client(0, b"").ack(300)).unchanged();
    assert_eq!(believed(&world), 1, "and it is counted");
    world.pass(&server(300, &[4; 100])).unchanged();
    world.pass(&client(0, b"").ack(400)).unchanged();
    assert_eq!(believed(&world), 1);
    // Whoever says later what was in the hole says it to nobody: it was acknowledged.
    assert_eq!(world.pass(&server(100, &[9; 100])).passed_with(&["Q.9"]).data, b"");
    // In line everything passes here, and such an acknowledgment is a lie.
    let mut line = Config::new(Profile::Standard);
    line.protect = scrub::Protect::Both;
    let mut world = World::established_with(line, &[], &[]);
    world.pass(&server(200, &[3; 100])).unchanged();
    world.pass(&client(0, b"").ack(300)).dropped_by("Q.7");
}

#[test]
fn no_acknowledgment_goes_behind_the_window() {
    let mut world = World::established_with(beside(), &[], &[]);
    world.pass(&client(0, b"").ack(60_000)).unchanged();
    world.pass(&client(0, b"").ack(300_000)).dropped_by("Q.7");
}

#[test]
fn what_this_scrubber_ended_ends_no_connection() {
    let mut world = World::established_with(beside(), &[], &[]);
    world.pass(&server(0, b"spoilt").with(|s| s.bad_checksum = true)).dropped_by("T.2");
    world.pass(&client(0, b"question").ack(6)).carries(0, b"question");
    world.pass(&server(6, b"answer").ack(8)).unchanged();
    world.pass(&client(8, b"").ack(12).flags(FIN)).unchanged();
    world.pass(&server(12, b"").ack(9).flags(FIN)).unchanged();
}

#[test]
fn the_third_segment_of_a_handshake_may_be_missing() {
    let mut world = World::new(beside());
    world.pass(&client(-1, b"").flags(SYN)).unchanged();
    world.pass(&server(-1, b"").flags(SYN_ACK)).unchanged();
    world.pass(&client(0, b"hello").ack(20)).carries(0, b"hello");
    world.pass(&server(20, b"next").ack(5)).unchanged();
}

/// Data of a SYN are cut off (rule T.7), and the server took them.
#[test]
fn an_accepted_fast_open_goes_on_without_the_data_of_its_syn() {
    let mut world = World::new(beside());
    assert_eq!(world.pass(&client(-1, b"GET / HTTP/1.0\r\n\r\n").flags(SYN)).data, b"");
    world.pass(&server(-1, b"").flags(SYN_ACK).ack(18)).unchanged();
    world.pass(&client(18, b"").ack(0)).unchanged();
    world.pass(&server(0, b"HTTP/1.0 200 OK\r\n\r\n").ack(18)).unchanged();
    world.pass(&client(18, b"").ack(19)).unchanged();
}

/// Who saw the hole and who did not read the same where both read: copies stay copies behind it.
#[test]
fn copies_behind_a_hole_are_compared() {
    let mut world = World::established_with(beside(), &[], &[]);
    world.pass(&server(100, b"truth")).unchanged();
    assert_eq!(world.pass(&server(100, b"chaff")).passed_with(&["Q.8"]).data, b"truth");
    world.pass(&client(0, b"").ack(100)).unchanged();
    assert_eq!(world.pass(&server(100, b"chaff")).passed_with(&["Q.8"]).data, b"truth");
    world.pass(&client(0, b"").ack(105).flags(ACK)).unchanged();
}

/// RFC 7323 has no test of what is echoed, and the segment it echoes need not have passed here.
#[test]
fn an_echo_of_an_unseen_timestamp_passes() {
    let mut world = World::stamped();
    world.pass(&client(0, b"one").stamps(110, 501)).unchanged();
    world.pass(&server(0, b"two").ack(3).stamps(510, 112)).unchanged();
    let out = world.pass(&client(3, b"old").stamps(90, 510));
    assert_eq!(out.outcome, Outcome::Drop(Rule::OptionTimestamps), "an older clock is another matter");
}
