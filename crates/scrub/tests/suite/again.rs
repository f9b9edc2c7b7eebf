//! Tests of packets that come again: SYNs with other options, ports after their connection.

use crate::kit::{FIN, RST, SYN, SYN_ACK, World, client, server};
use scrub::{Config, Outcome, Profile, Side};
use wire::tcp::Flags;

const MSS_1460: [u8; 4] = [2, 4, 5, 180];

#[test]
fn a_syn_that_comes_again_has_the_options_of_the_first() {
    let mut world = World::standard();
    let first = [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 100, 0, 0, 0, 0, 1, 3, 3, 7];
    let names = |out: &crate::kit::Out| {
        let mut names = out.options.clone();
        names.sort();
        names
    };
    let out = world.pass(&client(-1, b"").flags(SYN).options(&first));
    let wanted = names(out.unchanged());
    assert_eq!(wanted.len(), 4);
    // Another MSS, another scale; fewer options, as hosts do that believe a middlebox eats them; in another order.
    for other in [
        &[2, 4, 5, 0, 4, 2, 8, 10, 0, 0, 0, 100, 0, 0, 0, 0, 1, 3, 3, 7][..],
        &[2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 100, 0, 0, 0, 0, 1, 3, 3, 2],
        &MSS_1460,
        &[],
        &[2, 4, 5, 180, 1, 3, 3, 7],
    ] {
        let out = world.pass(&client(-1, b"").flags(SYN).options(other));
        assert_eq!(names(out.passed_with(&["Q.2"])), wanted, "{other:?}");
    }
    world.pass(&client(-1, b"").flags(SYN).options(&first)).unchanged();
    // Its time is its own.
    let later = [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 4, 0, 0, 0, 0, 0, 1, 3, 3, 7];
    world.pass(&client(-1, b"").flags(SYN).options(&later)).unchanged();
    world.pass(&client(0, b"").flags(SYN).options(&first)).dropped_by("Q.2");
}

#[test]
fn an_answer_that_comes_again_has_the_options_of_the_first_and_the_connection_opens() {
    let mut world = World::standard();
    world.pass(&client(-1, b"").flags(SYN).options(&MSS_1460)).unchanged();
    world.pass(&server(-1, b"").flags(SYN_ACK).options(&MSS_1460)).unchanged();
    let out = world.pass(&server(-1, b"").flags(SYN_ACK).options(&[2, 4, 5, 176]));
    assert_eq!(out.passed_with(&["Q.2"]).options, ["MaxSegment(1460)"]);
    world.pass(&client(0, b"")).unchanged();
    world.pass(&client(0, b"data")).unchanged();
}

/// An MSS that was lowered (rule O.2) counts as the same when it comes again.
#[test]
fn a_jumbo_syn_comes_again() {
    let mut world = World::standard();
    let jumbo = client(-1, b"").flags(SYN).options(&[2, 4, 35, 0]);
    for _ in 0..2 {
        assert_eq!(world.pass(&jumbo).passed_with(&["O.2"]).options, ["MaxSegment(1460)"]);
    }
}

#[test]
fn two_multipath_options_in_a_segment_are_none_too_many() {
    let mut config = Config::new(Profile::Standard);
    config.tcp_options = scrub::Octets::of(&[30]);
    let mut world = World::established_with(config, &[], &[]);
    let options = [30, 8, 0x40, 1, 10, 1, 2, 2, 30, 12, 0x20, 1, 1, 1, 1, 1, 0, 0, 0, 0];
    world.pass(&server(0, b"abc").options(&options)).unchanged();
    // Two of any other kind are.
    world
        .pass(&server(3, b"").options(&[8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 8, 10, 0, 0, 0, 2, 0, 0, 0, 0]))
        .dropped_by("O.1");
}

fn closed() -> World {
    let mut world = World::established();
    world.pass(&client(0, b"").flags(FIN)).unchanged();
    world.pass(&server(0, b"").flags(FIN).ack(1)).unchanged();
    world.pass(&client(1, b"").ack(1)).unchanged();
    world
}

/// A SYN above the last number may open the next connection in TIME-WAIT (RFC 9293 section 3.6.1).
#[test]
fn a_syn_above_the_last_number_opens_in_time_wait() {
    let mut world = closed();
    let mut old = world.isn;
    world.pass(&client(1998, b"").flags(SYN)).unchanged();
    world.isn = [old[0].wrapping_add(1999), 700_000];
    world.pass(&server(-1, b"").flags(SYN_ACK)).unchanged();
    world.pass(&client(0, b"")).unchanged();
    world.pass(&client(0, b"new")).unchanged();
    // What is late of the old connection is nothing of the new one.
    std::mem::swap(&mut world.isn, &mut old);
    for late in [client(0, b"").flags(FIN), server(0, b"").flags(FIN).ack(1), client(0, b"late")] {
        let out = world.pass(&late);
        assert!(out.outcome != Outcome::Forward || out.data.is_empty(), "{late:?}: {out:?}");
    }
    let mut world = closed();
    world.pass(&client(0, b"").flags(SYN)).dropped_by("Q.13");
}

#[test]
fn nobody_is_challenged_about_what_a_reset_has_ended() {
    for from_client in [true, false] {
        let mut world = World::established();
        let reset = if from_client { client(0, b"") } else { server(0, b"") };
        world.pass(&reset.flags(RST)).unchanged();
        for stray in [client(500, b"").flags(RST), server(500, b"").flags(RST), server(0, b"").flags(SYN)] {
            assert!(matches!(world.pass(&stray).outcome, Outcome::Drop(_)));
        }
        assert_eq!(world.own().len(), 0, "reset by the client: {from_client}");
    }
    // Refused: the answer to the SYN was a reset.
    let mut world = World::standard();
    world.pass(&client(-1, b"").flags(SYN)).unchanged();
    world
        .pass(&server(0, b"").flags(Flags(RST.0 | Flags::ACK.0)).with(|s| s.from = Side::Inside))
        .unchanged();
    assert!(matches!(world.pass(&client(7, b"").flags(RST)).outcome, Outcome::Drop(_)));
    assert_eq!(world.own().len(), 0);
}
