//! Tests of networks that have the same addresses: what belongs to one is nothing to the other.

use crate::kit;

use kit::{RST, SYN, SYN_ACK, World, client, server};
use scrub::{Config, Feed, Profile, Saved, Side};
use std::time::Duration;

fn config() -> Config {
    let mut config = Config::new(Profile::Standard);
    config.feed = Feed::Octets;
    config
}

/// A world with an established connection in realm 7.
fn seven() -> World {
    let mut world = World::new(config());
    world.realm = 7;
    for segment in [client(-1, b"").flags(SYN), server(-1, b"").flags(SYN_ACK), client(0, b"")] {
        world.pass(&segment).unchanged();
    }
    world.pass(&client(0, b"seven")).unchanged();
    world
}

#[test]
fn connections_of_two_realms_never_mix() {
    let mut world = seven();
    world.realm = 8;
    world.pass(&client(0, b"EIGHT")).dropped_by("Q.14");
    world.pass(&client(0, b"").flags(RST)).dropped_by("Q.14");
    world.pass(&client(-1, b"").flags(SYN)).unchanged();
    world.pass(&server(-1, b"").flags(SYN_ACK)).unchanged();
    world.pass(&client(0, b"")).unchanged();
    world.pass(&client(0, b"EIGHT")).unchanged();
    assert_eq!(world.scrubber.connections().len(), 2);
    world.realm = 7;
    world.pass(&client(0, b"SEVEN")).passed_with(&["Q.8"]).carries(0, b"seven");
}

#[test]
fn who_takes_over_keeps_them_apart() {
    let mut world = seven();
    let mut octets = Vec::new();
    world.scrubber.save(world.now, &mut octets);
    let mut next = World::new(config());
    next.scrubber.restore(next.now, &Saved::check(&octets).expect("what was saved"), |_| true);
    next.pass(&client(0, b"other")).dropped_by("Q.14");
    next.realm = 7;
    next.pass(&client(0, b"other")).carries(0, b"seven");
    // A standby forgets the right one, too.
    world.pass(&client(5, b"").flags(RST)).unchanged();
    world.wait(Duration::from_secs(500));
    let now = world.now;
    while let Some(record) = world.scrubber.poll_news(now) {
        next.scrubber.apply(next.now, &record);
    }
    assert_eq!(next.scrubber.connections().len(), 0);
}

#[test]
fn what_the_scrubber_says_belongs_to_the_realm_of_the_connection() {
    let mut world = seven();
    world.realm = 0;
    world.wait(Duration::from_secs(3 * 3600));
    let mut sides = Vec::new();
    while let Some(own) = world.scrubber.poll_emitted() {
        assert_eq!(own.realm, 7);
        sides.push(own.to);
    }
    assert_eq!(sides, [Side::Outside, Side::Inside]);
}
