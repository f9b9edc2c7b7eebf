//! `paper-002.*`: Tables I and II and Figures 8 and 9 of paper 002 again: probes beside a load that is more than the gateway can
//! seal, in the set-up of Figure 7 ([`bed`]). The load is sealed; the paper's was opened.
//!
//! - `{suite}.{row}.capacity`: what the row carries at most, found first; all factors are of this.
//! - `{suite}.{row}.{load}.{way}.loss`, `avg`, `p50`, `p99`, `max`: probes of a way, and their round trips in microseconds. Loads are
//!   `idle`, `2x`, `10x` and `max`, the most that the generator reaches. Ways are `ef` (expedited forwarding, inside the tunnel),
//!   `local` (the same, sent by the gateway itself), `through` (clear, by the engine), `past` (clear, by the kernel alone), `host`
//!   (a program of the gateway answers, as behind a login) and `floor` (past the gateway).
//! - `{suite}.{row}.{load}.{way}.avg_ratio`, `p99_ratio`, `max_ratio`: the same by the unloaded run of the same round.
//! - `{suite}.{row}.{load}.goodput`, `factor`: load that arrived, and that was sent, by the capacity.
//! - `{suite}.{row}.{load}.steal`, `repeats`, `backlog`: the worst steal of its runs, runs that were repeated for it (more than 1 %),
//!   and packets that the class-blind backlog of the gateway's core lost.
//! - `ratio.*`: expedited forwarding of Ravelin by that of strongSwan and wireguard-go at the same factor, and rows with a graph
//!   by the row without one, round by round.
//!
//! - `{suite}.{row}.longest_loss`: packets of a class that a queue of the graph dropped in a row.
//! - `3des-md5.{row}.opening` ([`opening`]): the load is opened, as the paper's was.
//! - `fair.fairness` ([`fairness`]): where the row `fair` is measured with both of its suites.
//! - `{suite}.{row}.{load}.plane` ([`plane`]): the time that expedited packets are in the gateway, by the kernel's stamps;
//!   with a filter, only where its word is in it.
//! - `3des-md5.figure-6.exchanges`, `memory` ([`live`]), `aes128gcm.figure-6.2x.plane_many`: left out in the quick form
//!   unless their words are in the filter.
//!
//! `BENCH_QUICK=1` measures one round with few probes; `BENCH_ROUNDS` and `BENCH_PROBES` say how many. Tables and plots go to
//! `docs/papers/002` when Cargo runs this and nothing was left out.

mod bed;
mod fairness;
mod flood;
mod live;
mod machine;
mod measure;
mod opening;
mod plane;
mod probe_stats;
mod prober;
mod report;
mod rows;

use std::time::Duration;

use super::FigureFilter;
use crate::figure::{Figure, Report, Target};
use crate::product;
use anyhow::ensure;
use measure::{Capacity, LOADS, Run};
use probe_stats::ProbeStats;
use prober::Probes;
use rows::{ROWS, Site};

const ROUNDS: usize = 5;
/// Probes of each way in a run, and time between two.
const PROBES: usize = 1000;
const INTERVAL: Duration = Duration::from_millis(3);
/// Probes in the quick form.
const QUICK: usize = 100;

/// Rows that are measured as the side that opens, too, and the rounds of that.
const OPENING: [&str; 3] = ["none", "figure-6", "voice"];
const OPENING_ROUNDS: usize = 3;

/// Something that is measured once, behind the rounds.
type Live = fn(&Site, Capacity, Duration, &mut Report) -> anyhow::Result<()>;

/// A row with one suite, and its runs.
struct Case {
    site: usize,
    suite: &'static str,
    capacity: Capacity,
    /// The runs by load, then by round.
    runs: [Vec<Run>; LOADS.len()],
}

/// Be the prober or its peer.
pub(super) fn program(args: &[String]) -> anyhow::Result<()> {
    prober::run(args)
}

fn is_quick() -> bool {
    std::env::var("BENCH_QUICK").is_ok_and(|word| !matches!(word.as_str(), "" | "0"))
}

fn probes() -> Probes {
    let wanted = std::env::var("BENCH_PROBES").ok().and_then(|text| text.parse().ok());
    let usual = if is_quick() { QUICK } else { PROBES };
    Probes { count: wanted.filter(|count| *count > 0).unwrap_or(usual), interval: INTERVAL }
}

/// Measure the rows whose `SUITE.ROW` holds one of the words of `filter`, which commas part.
pub(super) fn run(filter: &str, report: &mut Report) -> anyhow::Result<()> {
    let figures = FigureFilter { filter, report };
    let wants = |suite: &str, row: &str| {
        let name = format!("{suite}.{row}");
        // The quick form leaves the middle suite out.
        let left_out = is_quick() && filter.is_empty() && suite == "aes128cbc-sha256";
        !left_out && filter.split(',').any(|word| name.contains(word))
    };
    let cpus = std::thread::available_parallelism()?.get();
    ensure!(cpus >= 2, "the gateway needs a core of its own: {cpus} is too few");
    // Programs are built before this process keeps to one core.
    product::ravelin()?;
    let mut sites = Vec::new();
    let mut cases = Vec::new();
    for row in ROWS {
        let suites: Vec<_> = row.suites.iter().filter(|suite| wants(suite, row.name)).collect();
        if suites.is_empty() {
            continue;
        }
        eprintln!("paper-002: setting up {}", row.name);
        let site = match Site::build(row) {
            Ok(site) => site,
            Err(error) => {
                eprintln!("paper-002: {} is absent: {error:#}", row.name);
                figures.report.absent(format!("paper-002.{}", row.name), format!("{error:#}"));
                continue;
            }
        };
        sites.push(site);
        let at = sites.len() - 1;
        cases.extend(suites.into_iter().map(|suite| (at, *suite)));
    }
    bed::pin_thread(None, bed::OTHERS)?;
    let mut measured: Vec<Case> = Vec::new();
    for (site, suite) in cases {
        let row = sites[site].row;
        let found = sites[site].install(suite).and_then(|()| measure::capacity(&sites[site]));
        match found {
            Ok(capacity) => {
                eprintln!(
                    "paper-002: {suite}.{}: capacity {:.0} packets/s, {:.1} Mbit/s",
                    row.name,
                    capacity.packets,
                    capacity.mbit()
                );
                measured.push(Case { site, suite, capacity, runs: Default::default() });
            }
            Err(error) => {
                eprintln!("paper-002: {suite}.{} is absent: {error:#}", row.name);
                figures.report.absent(format!("paper-002.{suite}.{}", row.name), format!("{error:#}"));
            }
        }
    }
    let (probes, rounds) = (probes(), crate::rounds(if is_quick() { 1 } else { ROUNDS }));
    for round in 1..=rounds {
        measured.retain_mut(|case| {
            let site = &sites[case.site];
            let done = site.install(case.suite).and_then(|()| case.round(site, probes));
            let name = format!("paper-002.{}.{}", case.suite, site.row.name);
            if let Err(error) = &done {
                eprintln!("{name} is absent from round {round}: {error:#}");
                figures.report.absent(name, format!("{error:#}"));
                return false;
            }
            eprintln!("paper-002: round {round} of {rounds}: {}", case.line(site));
            true
        });
    }
    let rows: Vec<_> = measured.iter().map(|case| (sites[case.site].row, case)).collect();
    report::figures(&rows, figures.report);
    for case in measured.iter().filter(|case| case.suite == "3des-md5") {
        let site = &sites[case.site];
        site.install(case.suite)?;
        if let Some(longest) = live::longest_loss(site) {
            let name = format!("paper-002.{}.{}.longest_loss", case.suite, site.row.name);
            let anchor = "dropped in a row by a queue, all rounds";
            figures.report.push(Figure::new(name, "packets", &[longest], anchor, Target::Recorded));
        }
        for (word, measure) in [("exchanges", live::exchanges as Live), ("memory", live::memory as Live)] {
            let is_wanted =
                (filter.is_empty() && !is_quick()) || filter.split(',').any(|other| other == word);
            if site.row.name == "figure-6" && is_wanted {
                eprintln!("paper-002: {word}");
                if let Err(error) = measure(site, case.capacity, INTERVAL, figures.report) {
                    figures
                        .report
                        .absent(format!("paper-002.3des-md5.figure-6.{word}"), format!("{error:#}"));
                }
            }
        }
    }
    let opens = filter.is_empty() || filter.split(',').any(|word| word == "opening");
    for case in measured.iter().filter(|case| opens && OPENING.contains(&sites[case.site].row.name)) {
        let site = &sites[case.site];
        eprintln!("paper-002: {}.{}: opening", case.suite, site.row.name);
        let done = match case.suite {
            // Sealed packets of a faster suite, ten times what it opens, would fill the memory.
            "3des-md5" => opening::run(site, case.suite, probes, rounds.min(OPENING_ROUNDS), figures.report),
            _ => continue,
        };
        if let Err(error) = done {
            let name = format!("paper-002.{}.{}.opening", case.suite, site.row.name);
            figures.report.absent(name, format!("{error:#}"));
        }
    }
    let is_wanted = |word: &str| filter.split(',').any(|other| other == word);
    for case in &measured {
        let site = &sites[case.site];
        let of = (site.row.name, case.suite);
        if !plane::CASES.contains(&of)
            || !(filter.is_empty() || is_wanted("plane") || is_wanted("plane_many"))
        {
            continue;
        }
        eprintln!("paper-002: {}.{}: data plane", case.suite, site.row.name);
        let mut done = site.install(case.suite);
        if filter.is_empty() || is_wanted("plane") {
            done = done.and_then(|()| plane::run(site, case.suite, case.capacity, probes, figures.report));
        }
        let is_many = of == ("figure-6", "aes128gcm");
        if is_many && ((filter.is_empty() && !is_quick()) || is_wanted("plane_many")) {
            done = done.and_then(|()| plane::many(site, case.suite, case.capacity, figures.report));
        }
        if let Err(error) = done {
            let name = format!("paper-002.{}.{}.plane", case.suite, site.row.name);
            figures.report.absent(name, format!("{error:#}"));
        }
    }
    let is_fair = |case: &&Case| sites[case.site].row.name == "fair";
    let fair: Vec<&Case> = measured.iter().filter(is_fair).collect();
    if let [one, other] = fair[..]
        && let Err(error) = fairness::run(
            &sites[one.site],
            [one, other].map(|case| (case.suite, case.capacity.packets)),
            figures.report,
        )
    {
        figures.report.absent("paper-002.fair.fairness".to_owned(), format!("{error:#}"));
    }
    report::write(&rows, probes.count, rounds, filter.is_empty() && !is_quick())
}

impl Case {
    /// Measure every load once.
    fn round(&mut self, site: &Site, probes: Probes) -> anyhow::Result<()> {
        for ((load, _), runs) in LOADS.iter().zip(&mut self.runs) {
            runs.push(measure::run(site, *load, self.capacity, probes)?);
        }
        Ok(())
    }

    /// The last round in a line: expedited forwarding by load.
    fn line(&self, site: &Site) -> String {
        let mut line = format!("{}.{}", self.suite, site.row.name);
        for ((_, name), runs) in LOADS.iter().zip(&self.runs) {
            if let Some(run) = runs.last() {
                let way = ProbeStats::of(run, "ef");
                line += &format!(
                    " | {name} ({:.1}x): loss {:.1} %, avg {:.0}, p99 {:.0} us, goodput {:.2}",
                    run.factor, way.loss, way.avg, way.p99, run.goodput
                );
            }
        }
        line
    }
}
