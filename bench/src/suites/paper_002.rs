//! `paper-002.*`: the measurements of paper 002 section V again (Figure 7): four sources flood a gateway that seals their
//! packets, a prober measures the ways through it, and a prober past it measures the machine.
//!
//! For each suite and each graph a gateway is built. Its peak is found by a ramp of rates. In each round the ways are
//! probed without load and at multiples of the peak, so that ratios are of one round.
//!
//! - `paper-002.{suite}.{graph}.peak`: the most datagrams a second that left the gateway.
//! - `....{factor}.goodput`: what left it at that factor of the peak, by the peak.
//! - `....{factor}.{way}.loss`: probes without an answer, of all; `avg`, `p99`: round-trip times by those without load in
//!   the same round; `max_us`: the longest, in microseconds.
//!
//! Ways: `ef` goes through the tunnel; `through` is clear and passes the engine; `past` is clear and passes the kernel
//! alone; `floor` does not pass the gateway. One direction seals the load; it is counted and dropped on the wire.

mod bed;
mod flood;
mod gateway;
mod machine;
mod prober;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::FigureFilter;
use crate::figure::{Figure, Report, Target};
use bed::Counted;
use gateway::Gateway;
use machine::Reading;
use prober::Answers;

/// Be the prober, or its peer: `probe ...`, `echo ...`, as the bed starts them.
///
/// # Errors
/// On other arguments, and as the network says.
pub fn bed_program(args: &[String]) -> anyhow::Result<()> {
    prober::run(args)
}

const ROUNDS: usize = 5;
/// Probes of each way in a measurement, as in the paper, and the time between two of a way.
const PROBES: usize = 100;
const INTERVAL: Duration = Duration::from_millis(10);
/// The time of one step of the ramp, and the time that a queue has to fill before.
const STEP: Duration = Duration::from_millis(400);
const FILL: Duration = Duration::from_millis(200);
/// The rate between two steps of the ramp, and the share of a rate that leaves where nothing is lost.
const RAISE: f64 = 1.25;
const WHOLE: f64 = 0.97;
/// Percent of stolen time from which a round does not count.
const STEAL: f64 = 1.0;

/// A suite with the rate at which its ramp begins, in datagrams a second.
struct Suite {
    name: &'static str,
    title: &'static str,
    from: f64,
    /// The least share of the peak that is to leave at twice and ten times of it.
    goodput: [Target; 2],
}

const SUITES: [Suite; 3] = [
    Suite {
        name: "3des-md5",
        title: "3DES, HMAC-MD5",
        from: 1_500.0,
        goodput: [Target::AtLeast(0.95), Target::AtLeast(0.95)],
    },
    Suite {
        name: "aes128cbc-sha256",
        title: "AES-128-CBC, HMAC-SHA2-256",
        from: 10_000.0,
        goodput: [Target::AtLeast(0.95), Target::Recorded],
    },
    Suite {
        name: "aes128gcm",
        title: "AES-128-GCM",
        from: 20_000.0,
        goodput: [Target::AtLeast(0.90), Target::Recorded],
    },
];

/// What the gateway's configuration says of its graph.
const GRAPHS: [(&str, &str); 4] = [
    ("none", ""),
    ("figure-1", include_str!("../../../examples/qos/figure-1.toml")),
    ("two-classes", "preset"),
    ("voice", "preset"),
];

/// The loads beside none, in multiples of the peak; 0: as much as the generator makes.
const FACTORS: [(&str, f64); 3] = [("2x", 2.0), ("10x", 10.0), ("most", 0.0)];

/// Values of the rounds by the figure's name, with its unit.
type Values = BTreeMap<String, (&'static str, Vec<f64>)>;

/// Measure the suites and graphs whose names hold `filter`.
pub(super) fn run(filter: &str, report: &mut Report) -> anyhow::Result<()> {
    let figures = FigureFilter { filter, report };
    bed::pin_thread(None, bed::OTHERS)?;
    for suite in &SUITES {
        for (graph, text) in GRAPHS {
            let prefix = format!("paper-002.{}.{graph}", suite.name);
            if !filter.is_empty() && !prefix.contains(filter) {
                continue;
            }
            match measure(suite, graph, text, &prefix) {
                Ok(values) => {
                    for (name, (unit, rounds)) in values {
                        let target = target(suite, graph, name.trim_start_matches(&prefix));
                        figures.report.push(Figure::new(name, unit, &rounds, suite.title, target));
                    }
                }
                Err(error) => {
                    eprintln!("paper-002: {prefix} is absent: {error:#}");
                    figures.report.absent(prefix, format!("{error:#}"));
                }
            }
        }
    }
    Ok(())
}

/// The goal of a figure; those of gateways without classes are recorded only.
fn target(suite: &Suite, graph: &str, rest: &str) -> Target {
    if !["two-classes", "voice"].contains(&graph) {
        return Target::Recorded;
    }
    match rest {
        ".2x.goodput" => suite.goodput[0],
        ".10x.goodput" => suite.goodput[1],
        _ if rest.ends_with(".ef.loss") || rest.ends_with(".past.loss") => Target::AtMost(0.0),
        _ if rest.ends_with(".ef.avg") || rest.ends_with(".past.avg") => Target::AtMost(1.2),
        _ if rest.ends_with(".ef.p99") => Target::AtMost(1.5),
        _ if rest.ends_with(".past.p99") => Target::AtMost(1.2),
        _ => Target::Recorded,
    }
}

/// All rounds of one gateway.
fn measure(suite: &Suite, graph: &str, text: &str, prefix: &str) -> anyhow::Result<Values> {
    let gateway = Gateway::start(suite.name, graph, text)?;
    let mut values = Values::new();
    let (peak, each) = peak(&gateway, suite.from)?;
    let mut note = |name: String, unit, value| {
        values.entry(format!("{prefix}{name}")).or_insert((unit, Vec::new())).1.push(value);
    };
    note(".peak".to_owned(), "1/s", peak);
    let rounds = crate::rounds(ROUNDS);
    for round in 1..=rounds {
        let before = Reading::take()?;
        let unloaded = gateway.bed.probe(PROBES, INTERVAL)?;
        let mut found = Vec::new();
        for (factor, times) in FACTORS {
            found.push((factor, loaded(&gateway, (peak * times) as u64, each)?));
        }
        let trouble = Reading::take()?.since(&before);
        if trouble.steal > STEAL {
            eprintln!(
                "paper-002: round {round} of {prefix} is left out: {:.1} % of the time was stolen",
                trouble.steal
            );
            continue;
        }
        for answers in &unloaded {
            note(format!(".unloaded.{}.avg_us", answers.name), "us", average(&answers.rtt) / 1e3);
            note(format!(".unloaded.{}.p99_us", answers.name), "us", percentile(&answers.rtt) / 1e3);
        }
        for (factor, load) in &found {
            note(format!(".{factor}.offered"), "ratio", load.offered / peak);
            note(format!(".{factor}.goodput"), "ratio", load.left / peak);
            for (answers, free) in load.answers.iter().zip(&unloaded) {
                let way = &answers.name;
                let lost = answers.rtt.iter().filter(|rtt| rtt.is_none()).count();
                note(format!(".{factor}.{way}.loss"), "%", 100.0 * lost as f64 / answers.rtt.len() as f64);
                if lost < answers.rtt.len() {
                    note(format!(".{factor}.{way}.avg"), "ratio", average(&answers.rtt) / average(&free.rtt));
                    note(
                        format!(".{factor}.{way}.p99"),
                        "ratio",
                        percentile(&answers.rtt) / percentile(&free.rtt),
                    );
                    let longest = answers.rtt.iter().flatten().max().copied().unwrap_or(0);
                    note(format!(".{factor}.{way}.max_us"), "us", longest as f64 / 1e3);
                }
            }
        }
        note(".backlog_lost".to_owned(), "1/s", trouble.lost[0] as f64);
        eprintln!(
            "paper-002: round {round} of {rounds}: {prefix}, peak {peak:.0}/s, at 2x {:.0}/s, EF {:.0} us without load, \
             {:.0} us at 2x",
            found[0].1.left,
            average(&unloaded[0].rtt) / 1e3,
            average(&found[0].1.answers[0].rtt) / 1e3,
        );
    }
    ensure!(values.len() > 1, "no round counts: too much time was stolen");
    Ok(values)
}

/// What was seen under load.
struct Loaded {
    /// Datagrams a second that were sent, and that left the gateway.
    offered: f64,
    left: f64,
    answers: Vec<Answers>,
}

/// Probe every way while the sources send so many datagrams a second.
fn loaded(gateway: &Gateway, rate: u64, each: f64) -> anyhow::Result<Loaded> {
    let flood = gateway.bed.sources().flood(rate)?;
    std::thread::sleep(FILL);
    let (from, sent, start) = (gateway.counted()?, flood.sent(), Instant::now());
    let answers = gateway.bed.probe(PROBES, INTERVAL)?;
    let (seconds, counted) = (start.elapsed().as_secs_f64(), gateway.counted()?.since(from));
    let offered = (flood.sent() - sent) as f64 / seconds;
    flood.end()?;
    std::thread::sleep(FILL);
    Ok(Loaded { offered, left: counted.datagrams(each) / seconds, answers })
}

/// The most datagrams a second that leave the gateway, and the octets that each has on the wire.
fn peak(gateway: &Gateway, from: f64) -> anyhow::Result<(f64, f64)> {
    let step = |rate: f64| -> anyhow::Result<(Counted, u64, f64)> {
        let flood = gateway.bed.sources().flood(rate as u64)?;
        std::thread::sleep(FILL);
        let (before, sent, start) = (gateway.counted()?, flood.sent(), Instant::now());
        std::thread::sleep(STEP);
        let (counted, seconds) = (gateway.counted()?.since(before), start.elapsed().as_secs_f64());
        let sent = flood.sent() - sent;
        flood.end()?;
        std::thread::sleep(FILL);
        Ok((counted, sent, seconds))
    };
    // Nothing is lost at a tenth of where the ramp begins.
    let before = gateway.counted()?;
    let flood = gateway.bed.sources().flood((from / 10.0) as u64)?;
    std::thread::sleep(STEP);
    let sent = flood.end()?;
    std::thread::sleep(FILL);
    let each = gateway.counted()?.since(before).octets_each(sent);
    ensure!(
        each.is_finite() && each > flood::PACKET as f64,
        "the load does not come through: {each} octets each"
    );
    let (mut rate, mut peak, mut beyond) = (from, 0.0f64, 0);
    while beyond < 3 && rate < 2e6 {
        let (counted, sent, seconds) = step(rate)?;
        let left = counted.datagrams(each) / seconds;
        peak = peak.max(left);
        if left < WHOLE * sent as f64 / seconds || (sent as f64) < 0.8 * rate * seconds {
            beyond += 1;
        }
        rate *= RAISE;
    }
    ensure!(peak > 0.0, "nothing left the gateway");
    Ok((peak, each))
}

fn average(rtt: &[Option<u64>]) -> f64 {
    let all: Vec<u64> = rtt.iter().flatten().copied().collect();
    all.iter().sum::<u64>() as f64 / all.len().max(1) as f64
}

/// The 99th percentile of the answers.
fn percentile(rtt: &[Option<u64>]) -> f64 {
    let mut all: Vec<u64> = rtt.iter().flatten().copied().collect();
    all.sort_unstable();
    let place = (all.len() * 99).div_ceil(100).saturating_sub(1);
    all.get(place).copied().unwrap_or(0) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_and_percentiles_are_of_the_answers() {
        let rtt: Vec<Option<u64>> = (1..=100).map(Some).chain([None, None]).collect();
        assert_eq!((average(&rtt), percentile(&rtt)), (50.5, 99.0));
        assert_eq!((average(&[None]), percentile(&[None])), (0.0, 0.0));
    }

    #[test]
    fn goals_are_for_gateways_with_classes() {
        let suite = &SUITES[0];
        assert_eq!(target(suite, "none", ".2x.ef.loss"), Target::Recorded);
        assert_eq!(target(suite, "voice", ".2x.ef.loss"), Target::AtMost(0.0));
        assert_eq!(target(suite, "two-classes", ".10x.goodput"), Target::AtLeast(0.95));
    }
}
