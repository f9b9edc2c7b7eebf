//! One row with one suite: its own capacity, and runs at factors of it.

use std::time::{Duration, Instant};

use anyhow::ensure;

use super::bed::{self, Counted};
use super::flood::{Flood, PACKET};
use super::machine::{Reading, Trouble};
use super::prober::{Answers, Probes};
use super::rows::Site;

/// How long the load runs before anything is measured: queues are full then.
const SETTLE: Duration = Duration::from_millis(400);
/// How long a step of the search for the capacity takes.
const STEP: Duration = Duration::from_millis(400);
/// The first rate of that search, in packets a second.
const FIRST: u64 = 2000;
/// The search ends where less than this share of the load arrives.
const ENOUGH: f64 = 0.9;
/// Rates by the last one that was carried, of which the best is the capacity.
const AROUND: [f64; 5] = [1.0, 1.15, 1.35, 1.6, 1.9];
/// How long what still waits may take to leave.
const DRAIN: Duration = Duration::from_secs(40);
/// Steal above which a run is repeated, in percent, and how often.
const STEAL: f64 = 1.0;
const REPEATS: usize = 2;

/// How much load a run has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Load {
    /// No load at all.
    Idle,
    /// So many times the capacity.
    Times(f64),
    /// The most that the sources can send.
    Most,
}

/// The loads of every row, and their names in figures.
pub(super) const LOADS: [(Load, &str); 4] =
    [(Load::Idle, "idle"), (Load::Times(2.0), "2x"), (Load::Times(10.0), "10x"), (Load::Most, "max")];

/// What a row can do with a suite.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity {
    /// Packets a second, the most that arrived.
    pub(super) packets: f64,
    /// Octets of an outer packet behind IP and UDP headers.
    each: f64,
}

impl Capacity {
    /// Octets of inner packets, in Mbit/s.
    pub(super) fn mbit(&self) -> f64 {
        self.packets * PACKET as f64 * 8.0 / 1e6
    }
}

/// What one run has measured.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Load that was sent, by the capacity.
    pub(super) factor: f64,
    /// Load that arrived, by the capacity.
    pub(super) goodput: f64,
    /// Round-trip times of all ways.
    pub(super) answers: Vec<Answers>,
    /// What the machine says of it.
    pub(super) trouble: Trouble,
    /// Runs before this one that too much steal spoiled.
    pub(super) repeats: usize,
}

/// Find what a row can do at most.
///
/// # Errors
/// If nothing arrives, or the load does not end.
pub(super) fn capacity(site: &Site) -> anyhow::Result<Capacity> {
    let each = calibrate(site)?;
    let (mut rate, mut carried) = (FIRST, FIRST);
    let mut best = (0.0, FIRST);
    for _ in 0..12 {
        let (sent, arrived) = step(site, rate, each)?;
        if arrived > best.0 {
            best = (arrived, rate);
        }
        if arrived < ENOUGH * rate as f64 || sent < ENOUGH * rate as f64 {
            break;
        }
        carried = rate;
        rate *= 2;
    }
    for times in AROUND {
        let rate = (carried as f64 * times) as u64;
        let (_, arrived) = step(site, rate, each)?;
        if arrived > best.0 {
            best = (arrived, rate);
        }
    }
    // The best of many is better than it is: the median of three decides.
    let mut again = Vec::new();
    for _ in 0..3 {
        again.push(step(site, best.1, each)?.1);
    }
    Ok(Capacity { packets: crate::interleave::median(&mut again), each })
}

/// Octets of an outer packet, from a few that cannot be lost.
fn calibrate(site: &Site) -> anyhow::Result<f64> {
    // The first packets may wait for neighbours, or be lost.
    for last in [false, true] {
        let before = bed::counted(site.lab())?;
        let flood = site.bed.sources().flood(500)?;
        std::thread::sleep(Duration::from_millis(200));
        let sent = flood.end()?;
        drain(site)?;
        let each = bed::counted(site.lab())?.since(before).octets_each(sent);
        if last {
            ensure!((1372.0..=1480.0).contains(&each), "outer packets of {each:.1} octets: not all arrived");
            return Ok(each);
        }
    }
    unreachable!("the second time answers")
}

/// Packets a second that were sent and that arrived.
fn step(site: &Site, rate: u64, each: f64) -> anyhow::Result<(f64, f64)> {
    let flood = site.bed.sources().flood(rate)?;
    std::thread::sleep(SETTLE / 2);
    let begin = mark(site, &flood)?;
    std::thread::sleep(STEP);
    let rates = mark(site, &flood)?.rates(&begin, each);
    flood.end()?;
    drain(site)?;
    Ok(rates)
}

struct Point {
    time: Instant,
    counted: Counted,
    sent: u64,
}

impl Point {
    fn rates(&self, before: &Point, each: f64) -> (f64, f64) {
        let time = (self.time - before.time).as_secs_f64();
        let arrived = self.counted.since(before.counted).datagrams(each);
        ((self.sent - before.sent) as f64 / time, arrived / time)
    }
}

fn mark(site: &Site, flood: &Flood) -> anyhow::Result<Point> {
    let before = Instant::now();
    let counted = bed::counted(site.lab())?;
    // The counter was read somewhere between the two.
    let time = before + before.elapsed() / 2;
    Ok(Point { time, counted, sent: flood.sent() })
}

/// Wait until no more of the load arrives.
fn drain(site: &Site) -> anyhow::Result<()> {
    let end = Instant::now() + DRAIN;
    let mut last = bed::counted(site.lab())?;
    loop {
        std::thread::sleep(Duration::from_millis(150));
        let now = bed::counted(site.lab())?;
        if now == last {
            return Ok(());
        }
        ensure!(Instant::now() < end, "the load of a run still leaves after {DRAIN:?}");
        last = now;
    }
}

/// Probe all ways under a load.
///
/// # Errors
/// If sources or prober fail.
pub(super) fn run(site: &Site, load: Load, capacity: Capacity, probes: Probes) -> anyhow::Result<Run> {
    let mut repeats = 0;
    loop {
        let mut run = once(site, load, capacity, probes)?;
        if run.trouble.steal <= STEAL || repeats == REPEATS {
            run.repeats = repeats;
            return Ok(run);
        }
        repeats += 1;
    }
}

/// Do this under a load.
///
/// # Errors
/// If sources fail, or it does.
pub(super) fn loaded<T>(
    site: &Site,
    load: Load,
    capacity: Capacity,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let flood = rate(load, capacity).map(|rate| site.bed.sources().flood(rate)).transpose()?;
    std::thread::sleep(SETTLE);
    let done = work();
    if let Some(flood) = flood {
        flood.end()?;
        drain(site)?;
    }
    done
}

/// The packets a second of a load, where 0 is the most that the sources can send; none without a load.
fn rate(load: Load, capacity: Capacity) -> Option<u64> {
    match load {
        Load::Idle => None,
        Load::Times(times) => Some((capacity.packets * times) as u64),
        Load::Most => Some(0),
    }
}

/// Probe all ways under a load once, whatever steal there is.
///
/// # Errors
/// If sources or prober fail.
pub(super) fn once(site: &Site, load: Load, capacity: Capacity, probes: Probes) -> anyhow::Result<Run> {
    let flood = rate(load, capacity).map(|rate| site.bed.sources().flood(rate)).transpose()?;
    std::thread::sleep(SETTLE);
    let begin = flood.as_ref().map(|flood| mark(site, flood)).transpose()?;
    let reading = Reading::take()?;
    let answers = site.bed.probe(site.lab(), probes)?;
    let trouble = Reading::take()?.since(&reading);
    let (mut factor, mut goodput) = (0.0, 0.0);
    if let (Some(flood), Some(begin)) = (flood, begin) {
        let (sent, arrived) = mark(site, &flood)?.rates(&begin, capacity.each);
        (factor, goodput) = (sent / capacity.packets, arrived / capacity.packets);
        flood.end()?;
        drain(site)?;
    }
    Ok(Run { factor, goodput, answers, trouble, repeats: 0 })
}
