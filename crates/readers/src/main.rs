//! `make prove-scrub`: the proof over the whole small world, or a part of it. Exit status 0 says that there is one
//! reading everywhere.

use clap::Parser;
use readers::fault::{Fault, FaultyMiddlebox};
use readers::middlebox::{Middlebox, NoMiddlebox, Scrubbed};
use readers::prove::{self, Prover, Tally};
use readers::reference::Reference;
use readers::relay::{Relay, Relayed};
use readers::world::{World, fragments};
use readers::{datagram, stack};
use scrub::{Config, Profile};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Prove that all readers behind the scrubber read one stream, in a small world
#[derive(Parser)]
struct Options {
    /// Play every n-th case only
    #[arg(long, default_value_t = 1)]
    stride: u64,
    /// Threads; 0: one for each core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Only worlds whose name contains this word
    #[arg(long, default_value = "")]
    world: String,
    /// Who stands in the middle: scrubber, one that keeps only hashes (hashes), one that another takes over from after
    /// every packet (successor, standby, cold-standby), reference, nobody, or a fault by its name
    #[arg(long, default_value = "scrubber")]
    middle: String,
    /// The scrubber's profile: minimal, standard, strict
    #[arg(long, default_value = "standard")]
    profile: String,
    /// IPv6 instead of IPv4
    #[arg(long)]
    v6: bool,
    /// Play one case by its number, and say what passed (with --world)
    #[arg(long)]
    case: Option<u64>,
    /// Leave out the comparison (every 17th case) with nobody in the middle
    #[arg(long)]
    alone: bool,
}

/// The interval of the cases that are also played with nobody in the middle, among those that are played.
const BARE: u64 = 17;

type BoxedMiddlebox = Box<dyn Middlebox + Send>;

/// The middle of this name.
fn middle(name: &str, profile: Profile) -> Option<BoxedMiddlebox> {
    Some(match name {
        "scrubber" => Box::new(Scrubbed::new(Config::new(profile))),
        "hashes" => {
            let mut config = Config::new(profile);
            config.store.hashes_from = 0;
            Box::new(Scrubbed::new(config))
        }
        "reference" => Box::new(Reference::default()),
        "nobody" => Box::new(NoMiddlebox),
        name if let Some(relay) = Relay::ALL.into_iter().find(|known| known.name() == name) => {
            Box::new(Relayed::new(relay, Config::new(profile)))
        }
        fault => {
            let fault = Fault::ALL.into_iter().find(|known| known.name() == fault)?;
            Box::new(FaultyMiddlebox::new(Scrubbed::new(Config::new(profile)), fault))
        }
    })
}

fn main() -> ExitCode {
    let options = Options::parse();
    let Some(profile) = Profile::find(&options.profile) else {
        eprintln!("error: no profile `{}`; there are minimal, standard and strict", options.profile);
        return ExitCode::FAILURE;
    };
    if middle(&options.middle, profile).is_none() {
        let faults: Vec<_> = Fault::ALL.into_iter().map(Fault::name).collect();
        let (middle, faults) = (&options.middle, faults.join(", "));
        eprintln!(
            "error: nobody is called `{middle}`; there are scrubber, hashes, successor, standby, cold-standby, reference, nobody, {faults}"
        );
        return ExitCode::FAILURE;
    }
    let make = |name: &str| middle(name, profile).expect("its name was looked up");
    let threads = match options.threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let (streams, packets) = (stack::all().len(), datagram::POLICIES.len());
    println!("readers: {streams} of streams, {packets} of fragments; threads: {threads}");
    let mut sum = Tally::default();
    let mut bare = Tally::default();
    let mut first = None;
    for world in World::all().into_iter().filter(|world| world.name.contains(&options.world)) {
        if let Some(number) = options.case {
            let mut prover = Prover::new(make(&options.middle), options.v6);
            println!(
                "{}",
                prover.show(&world, number).unwrap_or_else(|| "there is no such case".to_string())
            );
            continue;
        }
        let one = |name: &str, stride: u64| {
            let spread = [stride / 2, stride];
            watched(&world, stride, |seen| {
                prove::run(|| make(name), &world, spread, options.v6, threads, seen)
            })
        };
        let tally = one(&options.middle, options.stride);
        println!("{:<12} {}: {tally}", world.name, options.middle);
        for kind in first_of_each(&tally) {
            let mut prover = Prover::new(make(&options.middle), options.v6);
            let said = prover.explain(&world, &kind).unwrap_or_default();
            println!("{said}");
            first.get_or_insert(said);
        }
        sum.add(&tally);
        if !options.alone {
            let tally = one("nobody", options.stride * BARE);
            println!("{:<12} nobody in the middle: {tally}", world.name);
            bare.add(&tally);
        }
    }
    for world in fragments::World::all(8).into_iter().filter(|world| world.name.contains(&options.world)) {
        if options.case.is_some() {
            continue;
        }
        let (tally, said) =
            fragments::run(&mut make(&options.middle), &world, options.stride / 2, options.stride);
        println!("{:<18} {}: {tally}", world.name, options.middle);
        if let Some(said) = said {
            println!("{said}");
            first.get_or_insert(said);
        }
        sum.add(&tally);
        if !options.alone {
            let (tally, _) =
                fragments::run(&mut NoMiddlebox, &world, options.stride / 2, options.stride * BARE);
            println!("{:<18} nobody in the middle: {tally}", world.name);
            bare.add(&tally);
        }
    }
    if options.case.is_some() {
        return ExitCode::SUCCESS;
    }
    println!("\nall, {}: {sum}", options.middle);
    if !options.alone {
        println!("all, nobody in the middle: {bare}");
    }
    if sum.is_clean() {
        return ExitCode::SUCCESS;
    }
    eprintln!("\nto see a case again: prove-scrub --world NAME --case NUMBER --middle {}", options.middle);
    ExitCode::FAILURE
}

/// The tally once for each kind of wrong that it has, with that kind alone.
fn first_of_each(tally: &Tally) -> Vec<Tally> {
    let with = |kind: usize| {
        let mut alone = Tally::default();
        alone.first[kind] = tally.first[kind];
        alone
    };
    (0..3).filter(|kind| tally.first[*kind].is_some()).map(with).collect()
}

/// The interval at which the progress is printed.
const PROGRESS: Duration = Duration::from_secs(30);

/// Do the work, and print now and then how far it is.
fn watched(world: &World, stride: u64, work: impl FnOnce(&AtomicU64) -> Tally + Send) -> Tally {
    let (seen, total, begin) = (AtomicU64::new(0), world.cases().div_ceil(stride), Instant::now());
    thread::scope(|scope| {
        let hand = scope.spawn(|| work(&seen));
        let mut last = Instant::now();
        while !hand.is_finished() {
            thread::sleep(Duration::from_millis(20));
            let done = seen.load(Ordering::Relaxed);
            if last.elapsed() >= PROGRESS && done > 0 {
                last = Instant::now();
                let left = begin.elapsed().as_secs_f64() * (total.saturating_sub(done)) as f64 / done as f64;
                eprintln!("{}: {done} of {total}, about {left:.0} s left", world.name);
            }
        }
        hand.join().expect("the proof")
    })
}
