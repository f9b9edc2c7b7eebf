//! A part of the small world, spread over all of it. `make prove-scrub` plays the whole.

use readers::fault::{Fault, FaultyMiddlebox};
use readers::middlebox::{Middlebox, NoMiddlebox, Scrubbed};
use readers::prove::{Prover, Tally, part};
use readers::reference::Reference;
use readers::relay::{Relay, Relayed};
use readers::world::{World, fragments};
use scrub::{Config, Profile};

/// The number of cases of each world, roughly.
const CASES: u64 = 4_000;

/// A part of each world; the numbers are spread so that all events come.
fn slice<M: Middlebox>(make: impl Fn() -> M, cases: u64, v6: bool) -> (Tally, Option<String>) {
    let mut sum = Tally::default();
    let mut said = None;
    for world in World::all() {
        let stride = (world.cases() / cases).max(1) | 1;
        let mut prover = Prover::new(make(), v6);
        part(&mut prover, &world, stride / 2, world.cases(), stride);
        let tally = prover.tally.clone();
        if said.is_none() {
            said = prover.explain(&world, &tally);
        }
        println!("{:<12} {tally}", world.name);
        sum.add(&tally);
    }
    (sum, said)
}

#[test]
fn without_anybody_in_the_middle_readers_disagree() {
    let (tally, said) = slice(|| NoMiddlebox, CASES / 3, false);
    assert!(tally.forked > 1_000, "{tally}");
    println!("{}", said.expect("an example"));
}

#[test]
fn the_reference_leaves_one_reading() {
    let (tally, said) = slice(Reference::default, CASES, false);
    assert!(tally.is_clean(), "{}", said.unwrap_or_default());
}

#[test]
fn the_scrubber_leaves_one_reading() {
    let (tally, said) = slice(|| Scrubbed::new(Config::new(Profile::Standard)), CASES, false);
    assert!(tally.is_clean(), "{}", said.unwrap_or_default());
}

/// After every packet another scrubber goes on with what the last one knew.
#[test]
fn whoever_takes_over_leaves_one_reading() {
    for relay in [Relay::Successor, Relay::Standby] {
        let (tally, said) = slice(|| Relayed::new(relay, Config::new(Profile::Standard)), CASES / 16, false);
        assert!(tally.is_clean(), "{relay:?}: {}", said.unwrap_or_default());
    }
    // Who was not told the octets keeps back what may have passed: honest senders notice that, readers never.
    let make = || Relayed::new(Relay::ColdStandby, Config::new(Profile::Standard));
    let (tally, said) = slice(make, CASES / 16, false);
    assert_eq!(tally.forked, 0, "{}", said.unwrap_or_default());
}

/// A scrubber that keeps only hashes of data in order leaves one reading. A sender that sends a part again is asked to
/// send all of it, so not everything honest passes as it is.
#[test]
fn hashes_leave_one_reading() {
    let make = || {
        let mut config = Config::new(Profile::Standard);
        config.store.hashes_from = 0;
        Scrubbed::new(config)
    };
    let (tally, said) = slice(make, CASES / 2, false);
    assert_eq!((tally.forked, tally.unequal), (0, 0), "{}", said.unwrap_or_default());
}

#[test]
fn every_seeded_fault_is_found() {
    for fault in Fault::ALL {
        let (tally, said) = slice(|| FaultyMiddlebox::new(Reference::default(), fault), CASES / 3, false);
        assert!(tally.wrong() > 0, "{fault:?} in the reference is not found");
        println!("{}: {}", fault.name(), said.unwrap_or_default());
        let make = || FaultyMiddlebox::new(Scrubbed::new(Config::new(Profile::Standard)), fault);
        let (tally, _) = slice(make, CASES / 3, false);
        assert!(tally.wrong() > 0, "{fault:?} in the scrubber is not found");
    }
}

/// A part of the world of fragments.
fn pieces<M: Middlebox>(make: impl Fn() -> M) -> (Tally, Option<String>) {
    let (mut sum, mut said) = (Tally::default(), None);
    for world in fragments::World::all(8) {
        let stride = (world.cases() / CASES) | 1;
        let (tally, one) = fragments::run(&mut make(), &world, 0, stride);
        println!("{:<18} {tally}", world.name);
        said = said.or(one);
        sum.add(&tally);
    }
    (sum, said)
}

#[test]
fn without_anybody_in_the_middle_fragments_are_read_in_many_ways() {
    let (tally, _) = pieces(|| NoMiddlebox);
    assert!(tally.forked > 1_000, "{tally}");
}

#[test]
fn the_scrubber_leaves_one_reading_of_fragments() {
    let (tally, said) = pieces(|| Scrubbed::new(Config::new(Profile::Standard)));
    assert!(tally.is_clean(), "{}", said.unwrap_or_default());
}
