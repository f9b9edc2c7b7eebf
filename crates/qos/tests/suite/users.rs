//! Users: profiles, limits that do not touch others, and a table that stays as it was made.

use qos::behaviour::{Excess, Profile, SettingsError, Users};
use qos::{AggregateId, Behaviour, Cause, Colour, Measure, Meta, Verdict};

use crate::common::{Random, SECOND, at, entry, leaves_dropped_alone, packet, run};

fn of(user: u32) -> Meta {
    Meta { user, ..packet(1000) }
}

fn limited(rate: u64, burst: u64) -> Profile {
    Profile { limit: Some((rate, burst)), ..Profile::default() }
}

fn users(capacity: usize, everybody: Profile, profiles: &[(Profile, Vec<u32>)]) -> Users {
    Users::new(capacity, 42, Measure::Octets, everybody, profiles).unwrap()
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
    let gold = Profile { weight: 8, aggregate: Some(AggregateId(5)), ..Profile::default() };
    let excess = Excess::Recolour(Colour::Red);
    let bronze = Profile { weight: 2, excess, ..limited(0, 1000) };
    let mut users = users(64, limited(0, 3000), &[(gold, vec![10, 30]), (bronze, vec![20])]);
    // The answer is the same before and after the user is in the table.
    for _ in 0..2 {
        assert_eq!([10, 20, 30, 40].map(|user| users.profile(user).weight), [8, 2, 8, 1]);
        for user in [10, 20, 30, 40] {
            run(&mut users, &at(0), of(user));
        }
    }
    let gold = run(&mut users, &at(0), of(30));
    assert_eq!((gold.meta.aggregate, gold.verdict), (AggregateId(5), Verdict::Pass));
    let bronze = run(&mut users, &at(0), of(20));
    assert_eq!((bronze.meta.colour, bronze.verdict), (Colour::Red, Verdict::Pass));
    assert_eq!(run(&mut users, &at(0), of(40)).verdict, Verdict::Pass);
    assert_eq!(run(&mut users, &at(0), of(40)).verdict, Verdict::Drop(Cause::Policed));
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
        Users::new(capacity, 1, Measure::Octets, everybody, profiles).map(|_| ()).unwrap_err()
    };
    let plain = Profile::default();
    assert_eq!(new(0, plain, &[]), SettingsError::NoRoom);
    assert_eq!(new(1, limited(5, 0), &[]), SettingsError::NoBurst);
    assert_eq!(new(1, plain, &[(plain, vec![1]), (plain, vec![2, 1])]), SettingsError::TwoProfiles);
    let many: Vec<_> = (0..=65_535).map(|_| (plain, vec![])).collect();
    assert_eq!(new(1, plain, &many), SettingsError::TooMany);
}
