//! A part of the small world, spread over all of it. All of it: `make prove-scrub`.

use readers::fault::{Fault, Faulty};
use readers::middle::{Middle, Nobody, Scrubbed};
use readers::prove::{Tally, part};
use readers::reference::Reference;
use readers::world::World;
use scrub::{Config, Profile};

/// About so many cases of each world.
const CASES: u64 = 40_000;

/// A part of each world; the numbers are spread so that all events come.
fn slice<M: Middle>(make: impl Fn() -> M, cases: u64, v6: bool) -> (Tally, Option<String>) {
    let mut sum = Tally::default();
    let mut said = None;
    for world in World::all() {
        let stride = (world.cases() / cases).max(1) | 1;
        let (tally, mut prover) = part(make(), &world, stride / 2, stride, v6);
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
    let (tally, said) = slice(|| Nobody, CASES / 4, false);
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

#[test]
fn every_seeded_fault_is_found() {
    for fault in Fault::ALL {
        let (tally, said) = slice(|| Faulty::new(Reference::default(), fault), CASES / 4, false);
        assert!(tally.wrong() > 0, "{fault:?} in the reference is not found");
        println!("{fault:?}: {}", said.unwrap_or_default());
        let make = || Faulty::new(Scrubbed::new(Config::new(Profile::Standard)), fault);
        let (tally, _) = slice(make, CASES / 4, false);
        assert!(tally.wrong() > 0, "{fault:?} in the scrubber is not found");
    }
}
