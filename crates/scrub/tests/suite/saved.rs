//! Tests that one scrubber goes on with what another knew.

use crate::kit;

use kit::traces::conversation;
use kit::{FIN, SYN, SYN_ACK, World, client, server};
use proptest::prelude::*;
use scrub::{
    Arrival, Config, Feed, Mode, Profile, Protect, Record, RestoreCounts, Rule, Saved, SavedError, Scrubber,
    Side, State,
};
use std::time::Duration;
use wire::{Buf, Gso, Time};

fn saved(world: &World) -> Vec<u8> {
    let mut octets = Vec::new();
    world.scrubber.save(world.now, &mut octets);
    octets
}

/// The conversation of `world` with another scrubber, whose clock started at another time.
fn successor(world: &World, config: Config, clock: Time) -> (World, RestoreCounts) {
    let octets = saved(world);
    let mut next = World::new(config);
    (next.now, next.isn) = (clock, world.isn);
    let restored = next.scrubber.restore(clock, &Saved::check(&octets).expect("what was saved"), |_| true);
    (next, restored)
}

fn standard() -> Config {
    Config::new(Profile::Standard)
}

#[test]
fn what_nobody_has_acknowledged_is_known_to_the_successor() {
    let mut world = World::established();
    world.pass(&client(0, b"attack")).unchanged();
    world.pass(&client(10, b"tail")).unchanged();
    let (mut next, restored) = successor(&world, standard(), Time::from_secs(5));
    assert_eq!(restored, RestoreCounts { connections: 1, sessions: 0, lost: 0 });
    assert_eq!(next.scrubber.connections().stored(), world.scrubber.connections().stored());
    next.pass(&client(0, b"benign")).passed_with(&["Q.8"]).carries(0, b"attack");
    next.pass(&client(6, b"....TAIL")).passed_with(&["Q.8"]).carries(6, b"....tail");
    next.pass(&server(0, b"").ack(14)).unchanged();
    assert_eq!(next.scrubber.connections().stored(), 0);
    next.pass(&client(14, b"more")).unchanged();
}

#[test]
fn rules_have_done_what_they_did() {
    let mut world = World::established();
    world.pass(&client(0, b"attack"));
    world.pass(&client(0, b"benign"));
    world.pass(&client(0, b"").flags(SYN)).dropped_by("Q.13");
    let (next, _) = successor(&world, standard(), world.now);
    for rule in [Rule::FirstWins, Rule::SynInside] {
        let (was, is) = (world.scrubber.counters().of(rule), next.scrubber.counters().of(rule));
        assert!(is == was && is.dropped + is.changed == 1);
    }
    assert_eq!(next.scrubber.counters().packets, world.scrubber.counters().packets);
    assert_eq!(next.scrubber.counters().forwarded, world.scrubber.counters().forwarded);
}

#[test]
fn a_handshake_goes_on_and_so_does_its_time() {
    let mut world = World::standard();
    world.pass(&client(-1, b"").flags(SYN)).unchanged();
    world.wait(Duration::from_secs(20));
    let (mut next, _) = successor(&world, standard(), Time::from_secs(7));
    assert_eq!(next.scrubber.connections().half_open(), 1);
    let mut late = successor(&world, standard(), Time::from_secs(7)).0;
    late.wait(Duration::from_secs(11));
    assert_eq!(late.scrubber.connections().len(), 0, "thirty seconds are over");
    next.pass(&server(-1, b"").flags(SYN_ACK)).unchanged();
    next.pass(&client(0, b"")).unchanged();
    assert_eq!(next.scrubber.connections().half_open(), 0);
}

#[test]
fn what_there_is_no_room_for_is_lost_and_counted() {
    let mut world = World::established();
    world.pass(&client(0, &[7; 1000])).unchanged();
    let mut narrow = standard();
    narrow.store.memory = 500;
    let (next, restored) = successor(&world, narrow, world.now);
    assert_eq!(restored, RestoreCounts { connections: 0, sessions: 0, lost: 1 });
    assert_eq!((next.scrubber.connections().len(), next.scrubber.connections().stored()), (0, 0));
    let mut none = standard();
    none.flows.established = 0;
    assert_eq!(successor(&world, none, world.now).1.lost, 1);
}

#[test]
fn who_begins_to_protect_the_other_half_does_not_know_its_octets() {
    let mut world = World::established();
    world.pass(&server(0, b"answer")).unchanged();
    let mut both = standard();
    both.protect = Protect::Both;
    let (mut next, _) = successor(&world, both, world.now);
    // The receiver is asked how far it is.
    let out = next.pass(&server(0, b"ANSWER"));
    out.passed_with(&["Q.8"]).carries(-1, b"");
    next.pass(&server(0, b"ANSWER and more")).passed_with(&["Q.8"]).carries(-1, b"");
    next.pass(&client(0, b"").ack(6)).unchanged();
    next.pass(&server(6, b" and more")).unchanged();
}

fn feeding(feed: Feed) -> Config {
    let mut config = standard();
    config.feed = feed;
    config
}

/// A world whose scrubber tells of its connections.
fn told(feed: Feed) -> World {
    World::established_with(feeding(feed), &[], &[])
}

fn news(world: &mut World) -> Vec<Record> {
    let now = world.now;
    std::iter::from_fn(|| world.scrubber.poll_news(now)).collect()
}

#[test]
fn a_standby_hears_of_what_changes_once() {
    let mut world = told(Feed::Positions);
    assert_eq!(news(&mut world).len(), 1);
    assert!(news(&mut world).is_empty());
    for place in 0..100 {
        world.pass(&client(place, b"x")).unchanged();
    }
    let records = news(&mut world);
    let [record] = records.as_slice() else { panic!("{records:?}") };
    let mut octets = Vec::new();
    record.write(&mut octets);
    assert!(octets.len() < 100, "a record is compact: {}", octets.len());
    assert_eq!(Record::read(&octets).expect("a record"), (record.clone(), [].as_slice()));
    world.scrubber.tell_all();
    assert_eq!(news(&mut world).len(), 1);
}

#[test]
fn handshakes_are_no_news() {
    let mut world = World::new(feeding(Feed::Octets));
    world.pass(&client(-1, b"").flags(SYN)).unchanged();
    world.pass(&server(-1, b"").flags(SYN_ACK)).unchanged();
    assert!(news(&mut world).is_empty());
    world.wait(Duration::from_secs(60));
    assert_eq!(world.scrubber.connections().len(), 0);
    assert!(news(&mut world).is_empty());
}

#[test]
fn what_is_forgotten_is_forgotten_by_the_standby() {
    let mut world = told(Feed::Positions);
    let mut standby = World::standard();
    for record in news(&mut world) {
        assert!(standby.scrubber.apply(standby.now, &record));
    }
    assert_eq!(standby.scrubber.connections().len(), 1);
    world.pass(&client(0, b"").flags(FIN)).unchanged();
    world.pass(&server(0, b"").ack(1).flags(FIN)).unchanged();
    world.pass(&client(1, b"").ack(1)).unchanged();
    world.wait(Duration::from_secs(500));
    assert_eq!(world.scrubber.connections().len(), 0);
    let records = news(&mut world);
    for record in &records {
        standby.scrubber.apply(standby.now, record);
    }
    assert_eq!((records.len(), standby.scrubber.connections().len()), (1, 0));
}

#[test]
fn a_cold_standby_lets_pass_only_what_is_new_or_acknowledged() {
    let mut world = told(Feed::Positions);
    world.pass(&client(0, b"attack")).unchanged();
    let mut standby = World::standard();
    for record in news(&mut world) {
        standby.scrubber.apply(standby.now, &record);
    }
    standby.pass(&client(0, b"benign")).passed_with(&["Q.8"]).carries(-1, b"");
    standby.pass(&client(6, b" later")).unchanged();
    standby.pass(&server(0, b"").ack(12)).unchanged();
    standby.pass(&client(12, b"!")).unchanged();
    assert_eq!(standby.pass(&client(0, b"benign")).seq, 11);
}

#[test]
fn a_warm_standby_knows_octets() {
    let mut world = told(Feed::Octets);
    world.pass(&client(0, b"attack")).unchanged();
    let mut standby = World::standard();
    for record in news(&mut world) {
        standby.scrubber.apply(standby.now, &record);
    }
    standby.pass(&client(0, b"benign")).passed_with(&["Q.8"]).carries(0, b"attack");
}

#[test]
fn several_scrubbers_become_several_others() {
    let one = World::established();
    let mut two = World::established();
    two.pass(&client(0, b"word")).unchanged();
    let mut octets = saved(&one);
    octets.extend(saved(&two));
    let all = Saved::check(&octets).expect("two of them");
    assert_eq!(all.records().filter(|record| record.hosts().is_some()).count(), 2);
    let mut next = World::standard();
    // The later record of the same connection counts.
    assert_eq!(next.scrubber.restore(next.now, &all, |_| true).connections, 2);
    assert_eq!(next.scrubber.connections().len(), 1);
    next.pass(&client(0, b"WORD")).carries(0, b"word");
    let mut other = World::standard();
    let restored = other.scrubber.restore(other.now, &all, |hosts| hosts.is_none());
    assert_eq!((restored.connections, other.scrubber.connections().len()), (0, 0));
}

#[test]
fn other_octets_are_refused_and_say_why() {
    let mut world = World::established();
    world.pass(&client(0, b"attack"));
    let good = saved(&world);
    assert!(Saved::check(&good).is_ok() && Saved::check(b"").is_ok());
    for len in 1..good.len() {
        assert!(Saved::check(&good[..len]).is_err(), "{len} octets of {}", good.len());
    }
    assert_eq!(Saved::check(b"nothing of that kind").unwrap_err(), SavedError::NotOurs);
    let mut later = good.clone();
    later[9] = 200;
    assert_eq!(Saved::check(&later).unwrap_err(), SavedError::Version(200));
    assert!(SavedError::Version(200).to_string().contains("version 200"));
}

/// Sessions of echo and UDP go on in the next scrubber.
#[test]
fn sessions_go_on() {
    let mut world = World::standard();
    let udp = |from: Side| {
        let (src, dst) =
            if from == Side::Inside { (kit::SERVER, kit::CLIENT) } else { (kit::CLIENT, kit::SERVER) };
        let mut bytes = vec![0x45, 0, 0, 32, 0, 0, 0x40, 0, 60, 17, 0, 0];
        bytes.extend(src);
        bytes.extend(dst);
        bytes.extend([0, 53, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4]);
        let check = wire::checksum::ip_checksum(&bytes[..20]);
        bytes[10..12].copy_from_slice(&check.to_be_bytes());
        let headers = wire::ip::Headers::parse(&bytes).expect("a packet");
        wire::checksum::complete_transport(&mut bytes, &headers).expect("a datagram");
        bytes
    };
    world.pass_bytes(Side::Inside, &udp(Side::Inside));
    let (_, restored) = successor(&world, standard(), Time::from_secs(3));
    assert_eq!(restored, RestoreCounts { connections: 0, sessions: 1, lost: 0 });
}

proptest! {
    /// A scrubber that takes over says and does what the one before would have.
    #[test]
    fn the_successor_goes_on_as_the_one_before_would_have(
        trace in conversation(),
        at in prop::collection::vec(0_usize..40, 1..4),
        both in any::<bool>(),
    ) {
        let mut config = standard();
        config.mtu = [65535; 2];
        config.protect = if both { Protect::Both } else { Protect::Inside };
        // Time is over in slots of the wheel, and where they begin is not handed over.
        let long = Duration::from_secs(7200);
        (config.flows.handshake, config.flows.closing) = (long, long);
        // Numbers start anew.
        config.set_mode(Rule::V4Id, Mode::Off).expect("it may be off");
        let (mut stays, mut goes) = (World::new(config.clone()), World::new(config.clone()));
        for (place, (segment, wait)) in trace.into_iter().enumerate() {
            if at.contains(&place) {
                // Whoever saved can be challenged again at once.
                stays.wait(Duration::from_secs(1));
                goes.wait(Duration::from_secs(1));
                let (next, restored) = successor(&goes, config.clone(), goes.now);
                prop_assert_eq!(restored.lost, 0);
                goes = next;
            }
            prop_assert_eq!(stays.pass(&segment), goes.pass(&segment));
            prop_assert_eq!(stays.own(), goes.own());
            let (a, b) = (stays.scrubber.connections(), goes.scrubber.connections());
            prop_assert_eq!((a.len(), a.half_open()), (b.len(), b.half_open()));
            stays.wait(Duration::from_secs(wait));
            goes.wait(Duration::from_secs(wait));
        }
        let what = |world| Saved::check(&saved(world)).expect("what was saved").records().collect::<Vec<_>>();
        prop_assert_eq!(what(&stays), what(&goes));
    }

    /// Any octets lead at most to a refusal, and a scrubber that took something over works.
    #[test]
    fn damaged_octets_do_no_harm(
        trace in conversation(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let mut world = World::standard();
        let half = trace.len() / 2;
        for (segment, _) in &trace[..half] {
            world.pass(segment);
        }
        let mut octets = saved(&world);
        for (at, value) in damage {
            let at = at.index(octets.len() - 10) + 10;
            octets[at] = value;
        }
        let mut scrubber = Scrubber::new(standard(), [3; 16]);
        if let Ok(saved) = Saved::check(&octets) {
            scrubber.restore(world.now, &saved, |_| true);
        }
        for (segment, wait) in &trace[half..] {
            let mut buf = Buf::from_slice(&segment.packet(world.isn), 64, 64);
            let arrival = Arrival { from: segment.from, link: 0, realm: 0 };
            scrubber.process(world.now, arrival, &mut buf, &mut Gso::default());
            world.now = world.now + Duration::from_secs(*wait);
            scrubber.expire(world.now);
        }
    }
}

#[test]
fn a_state_has_its_name() {
    let mut world = World::established();
    world.pass(&client(0, b"").flags(FIN)).unchanged();
    let (next, _) = successor(&world, standard(), world.now);
    let ends = (([192, 0, 2, 1], 40000).into(), ([198, 51, 100, 2], 80).into());
    assert_eq!(next.scrubber.connections().state(ends.0, ends.1), Some(State::Close));
}
