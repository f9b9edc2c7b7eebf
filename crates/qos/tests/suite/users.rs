//! Users: profiles, limits that do not touch others, and a table that stays as it was made.

use qos::behaviour::{Excess, Profile, SettingsError, UserLimit, Users};
use qos::store::FlowBy;
use qos::{AggregateId, Behaviour, Cause, Colour, Measure, Meta, Verdict, Weight};

use crate::common::{Random, SECOND, at, entry, leaves_dropped_alone, packet, run};

fn of(user: u32) -> Meta {
    Meta { user, ..packet(1000) }
}

fn limited(rate: u64, burst: u64) -> Profile {
    limited_but(rate, burst, Excess::Drop)
}

fn limited_but(rate: u64, burst: u64, excess: Excess) -> Profile {
    let limit = UserLimit { rate, burst, measure: Measure::Octets, excess };
    Profile { limit: Some(limit), ..Profile::default() }
}

fn users(capacity: usize, everybody: Profile, profiles: &[(Profile, Vec<u32>)]) -> Users {
    Users::new(capacity, 42, FlowBy::User, everybody, profiles).unwrap()
}

#[test]
fn each_user_has_a_limit_of_its_own() {
    let mut users = users(64, limited(1000, 2000), &[]);
    let mut batch = [1, 1, 1, 2, 2, 3].map(|user| entry(of(user)));
    users.run(&mut batch, &at(0));
    let dropped = Verdict::Drop(Cause::Policed);
    let expected = [Verdict::Pass, Verdict::Pass, dropped, Verdict::Pass, Verdict::Pass, Verdict::Pass];
    assert_eq!(batch.map(|entry| entry.verdict), expected);
    assert_eq!(run(&mut users, &at(SECOND), of(1)).verdict, Verdict::Pass);
    assert_eq!(run(&mut users, &at(SECOND), of(1)).verdict, dropped);
    leaves_dropped_alone(&mut users);
}

#[test]
fn profiles_give_weight_limit_and_class() {
    let gold = Profile { weight: Weight::new(8), aggregate: Some(AggregateId(5)), limit: None };
    let bronze = limited_but(0, 1000, Excess::Recolour(Colour::Red));
    let bronze = Profile { weight: Weight::new(2), ..bronze };
    let mut users = users(64, limited(0, 3000), &[(gold, vec![10, 30]), (bronze, vec![20])]);
    // The answer is the same before and after the user is in the table.
    for _ in 0..2 {
        let weights = [10, 20, 30, 40].map(|user| users.profile(user).weight);
        assert_eq!(weights, [Weight::new(8), Weight::new(2), Weight::new(8), None]);
        for user in [10, 20, 30, 40] {
            run(&mut users, &at(0), of(user));
        }
    }
    let gold = run(&mut users, &at(0), of(30));
    assert_eq!((gold.meta.aggregate, gold.verdict), (AggregateId(5), Verdict::Pass));
    assert_eq!(Some(gold.meta.weight), Weight::new(8));
    let bronze = run(&mut users, &at(0), of(20));
    assert_eq!((bronze.meta.colour, bronze.verdict), (Colour::Red, Verdict::Pass));
    assert_eq!(Some(bronze.meta.weight), Weight::new(2));
    assert_eq!(run(&mut users, &at(0), of(40)).verdict, Verdict::Pass);
    assert_eq!(run(&mut users, &at(0), of(40)).verdict, Verdict::Drop(Cause::Policed));
}

#[test]
fn what_is_beyond_a_limit_can_leave_the_class_that_the_profile_gives() {
    let limit = limited_but(0, 1000, Excess::Aggregate(AggregateId(7)));
    let gold = Profile { aggregate: Some(AggregateId(5)), weight: Weight::new(3), ..limit };
    let mut users = users(64, Profile::default(), &[(gold, vec![1])]);
    let classes = [1, 1, 2, 1].map(|user| run(&mut users, &at(0), of(user)).meta.aggregate.0);
    assert_eq!(classes, [5, 7, 0, 7]);
}

#[test]
fn a_limit_counts_the_measure_of_its_profile() {
    let limit = |measure| UserLimit { rate: 0, burst: 250_000, measure, excess: Excess::Drop };
    let of_measure = |measure| Profile { limit: Some(limit(measure)), ..Profile::default() };
    let profiles = [(of_measure(Measure::Nanoseconds), vec![1]), (of_measure(Measure::Octets), vec![2])];
    let mut users = users(64, Profile::default(), &profiles);
    let mut passed = [0; 2];
    for _ in 0..300 {
        for user in [1, 2] {
            let verdict = run(&mut users, &at(0), of(user)).verdict;
            passed[user as usize - 1] += u32::from(verdict == Verdict::Pass);
        }
    }
    // A packet has 1,000 octets and costs 100,000 ns.
    assert_eq!(passed, [2, 250]);
}

#[test]
fn users_are_told_apart_by_what_the_component_names() {
    let told = |by| Users::new(64, 42, by, limited(0, 1000), &[(limited(0, 3000), vec![9])]).unwrap();
    let metas = [
        (FlowBy::User, Meta { user: 9, ..packet(1000) }),
        (FlowBy::Association, Meta { association: 9, ..packet(1000) }),
        (FlowBy::App, Meta { app: wire::AppId(9), ..packet(1000) }),
        // Addresses have a profile by their interval, and a bucket by their hash.
        (FlowBy::Peer, Meta { peer: 9, peer_hash: 5, user: 6, ..packet(1000) }),
        (FlowBy::Source, Meta { source: 9, user: 5, ..packet(1000) }),
    ];
    for (by, meta) in metas {
        let mut users = told(by);
        let passes = |users: &mut Users, meta| {
            (0..5).filter(|_| run(users, &at(0), meta).verdict == Verdict::Pass).count()
        };
        assert_eq!(passes(&mut users, meta), 3, "{by:?}");
        // Nobody is charged for a packet whose association or far end is not known yet.
        let others = if matches!(by, FlowBy::Association | FlowBy::Peer) { 5 } else { 1 };
        assert_eq!(passes(&mut users, packet(1000)), others, "{by:?}");
    }
}

#[test]
fn each_address_of_an_interval_has_a_bucket_of_its_own() {
    let profiles = [(limited(0, 3000), vec![4, 9])];
    for by in [FlowBy::Peer, FlowBy::Source] {
        let meta = |hash| match by {
            FlowBy::Peer => Meta { peer: 9, peer_hash: hash, user: 1, ..packet(1000) },
            _ => Meta { source: 9, user: hash, ..packet(1000) },
        };
        let mut users = Users::new(64, 42, by, limited(0, 1000), &profiles).unwrap();
        let passed = [5, 6].map(|hash| {
            (0..5).filter(|_| run(&mut users, &at(0), meta(hash)).verdict == Verdict::Pass).count()
        });
        assert_eq!(passed, [3, 3], "{by:?}");
        let elsewhere = Meta { peer: 8, source: 8, ..meta(7) };
        let passed = (0..5).filter(|_| run(&mut users, &at(0), elsewhere).verdict == Verdict::Pass).count();
        assert_eq!(passed, 1, "{by:?}");
    }
}

#[test]
fn what_is_known_of_a_packet_is_small() {
    assert_eq!(size_of::<Meta>(), 88);
    assert_eq!((Weight::new(0), Weight::default().get()), (None, 1));
}

#[test]
fn without_a_limit_there_is_no_table_and_without_a_profile_nothing_changes() {
    let mut users = users(64, Profile::default(), &[]);
    assert_eq!(users.capacity(), 0);
    let meta = Meta { weight: Weight::new(6).unwrap(), aggregate: AggregateId(3), ..of(1) };
    let judged = run(&mut users, &at(0), meta);
    assert_eq!((judged.meta, judged.verdict), (meta, Verdict::Pass));
}

#[test]
fn a_flood_of_users_neither_grows_the_table_nor_frees_one_that_sends() {
    let mut users = users(1000, limited(0, 5000), &[]);
    assert_eq!(users.capacity(), 1024);
    let mut random = Random(3);
    let mut passed = 0;
    for _ in 0..20_000 {
        for _ in 0..50 {
            run(&mut users, &at(0), of(random.next() as u32 | 1));
        }
        passed += u64::from(run(&mut users, &at(0), of(2)).verdict == Verdict::Pass);
    }
    // A million users came by; the one that goes on sending keeps its place, and its empty bucket.
    assert_eq!(passed, 5);
    assert_eq!(users.capacity(), 1024);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let new = |capacity, everybody, profiles: &[(Profile, Vec<u32>)]| {
        Users::new(capacity, 1, FlowBy::User, everybody, profiles).map(|_| ()).unwrap_err()
    };
    let plain = Profile::default();
    assert_eq!(new(0, plain, &[]), SettingsError::NoRoom);
    assert_eq!(new(1, limited(5, 0), &[]), SettingsError::NoBurst);
    assert_eq!(new(1, plain, &[(plain, vec![1]), (plain, vec![2, 1])]), SettingsError::TwoProfiles);
    let many: Vec<_> = (0..=65_535).map(|_| (plain, vec![])).collect();
    assert_eq!(new(1, plain, &many), SettingsError::TooMany);
}
