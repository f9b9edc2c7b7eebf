//! Figures, Tables I and II, and Figures 8 and 9, from the runs.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::Case;
use super::measure::{LOADS, Run};
use super::probe_stats::ProbeStats;
use super::rows::{Kind, Row};
use crate::figure::{Figure, Report, Target};
use crate::interleave::median;
use crate::paper::dots::Dots;

const WAYS: [&str; 6] = ["ef", "local", "through", "past", "host", "floor"];
/// Probes that a plot shows: as many as the paper's.
const SHOWN: usize = 100;

/// A part of a way: its name, its unit, and its value.
type Part = (&'static str, &'static str, fn(&ProbeStats) -> f64);

const PARTS: [Part; 5] = [
    ("loss", "%", |way| way.loss),
    ("avg", "us", |way| way.avg),
    ("p50", "us", |way| way.p50),
    ("p99", "us", |way| way.p99),
    ("max", "us", |way| way.max),
];

/// The bound of a way's ratio to the unloaded run, for rows with a graph.
fn bound(row: Row, way: &str, part: &str) -> Target {
    // These rows have no class for expedited forwarding.
    let graph =
        !matches!(row.name, "fair" | "figure-1") && matches!(row.kind, Kind::Ravelin(qos) if !qos.is_empty());
    match (graph, way, part) {
        (true, "ef" | "local" | "through" | "past" | "host", "avg") => Target::AtMost(1.2),
        (true, "through" | "past" | "host", "p99") => Target::AtMost(1.2),
        (true, "ef" | "local", "p99") => Target::AtMost(1.5),
        (true, "ef" | "local" | "through" | "past" | "host", "loss") => Target::AtMost(0.0),
        _ => Target::Recorded,
    }
}

fn goodput_bound(row: Row, suite: &str, load: &str) -> Target {
    match (row.kind, suite, load) {
        (Kind::Ravelin(""), ..) => Target::Recorded,
        (Kind::Ravelin(_), "3des-md5", "2x" | "10x") => Target::AtLeast(0.95),
        (Kind::Ravelin(_), "aes128cbc-sha256", "2x") => Target::AtLeast(0.95),
        (Kind::Ravelin(_), "aes128gcm", "2x") => Target::AtLeast(0.90),
        (Kind::Ravelin(_), ..) => Target::AtLeast(0.8),
        _ => Target::Recorded,
    }
}

fn push(report: &mut Report, name: String, unit: &'static str, values: &[f64], anchor: &str, target: Target) {
    if !values.is_empty() && values.iter().all(|value| value.is_finite()) {
        report.push(Figure::new(name, unit, values, anchor, target));
    }
}

/// Put everything that was measured into the report.
pub(super) fn figures(cases: &[(Row, &Case)], report: &mut Report) {
    for (row, case) in cases {
        let of_case = format!("paper-002.{}.{}", case.suite, row.name);
        let capacity = [case.capacity.mbit()];
        push(
            report,
            format!("{of_case}.capacity"),
            "Mbit/s",
            &capacity,
            "sealed, 1400 octets",
            Target::Recorded,
        );
        for ((_, load), runs) in LOADS.iter().zip(&case.runs) {
            let name = format!("{of_case}.{load}");
            let idle = *load == "idle";
            for way in WAYS {
                let ways = |runs: &[Run]| runs.iter().map(|run| ProbeStats::of(run, way)).collect::<Vec<_>>();
                let (loaded, unloaded) = (ways(runs), ways(&case.runs[0]));
                for (part, unit, value) in PARTS {
                    let values: Vec<f64> = loaded.iter().map(value).collect();
                    if part == "loss" {
                        let target = if idle { Target::Recorded } else { bound(*row, way, part) };
                        // A loss in one round is a loss.
                        let all = [values.iter().sum::<f64>() / values.len() as f64];
                        push(
                            report,
                            format!("{name}.{way}.loss"),
                            unit,
                            &all,
                            "probes of all rounds",
                            target,
                        );
                        continue;
                    }
                    push(
                        report,
                        format!("{name}.{way}.{part}"),
                        unit,
                        &values,
                        "round trip",
                        Target::Recorded,
                    );
                    if !idle && part != "p50" {
                        let pairs = loaded.iter().zip(&unloaded);
                        let ratios: Vec<f64> =
                            pairs.map(|(loaded, idle)| value(loaded) / value(idle)).collect();
                        let name = format!("{name}.{way}.{part}_ratio");
                        push(
                            report,
                            name,
                            "ratio",
                            &ratios,
                            "by unloaded, same round",
                            bound(*row, way, part),
                        );
                    }
                }
            }
            if !idle {
                let goodput: Vec<f64> = runs.iter().map(|run| run.goodput).collect();
                let target = goodput_bound(*row, case.suite, load);
                push(report, format!("{name}.goodput"), "ratio", &goodput, "arrived by capacity", target);
                let factor: Vec<f64> = runs.iter().map(|run| run.factor).collect();
                push(
                    report,
                    format!("{name}.factor"),
                    "ratio",
                    &factor,
                    "sent by capacity",
                    Target::Recorded,
                );
            }
            let worst = runs.iter().map(|run| run.trouble.steal).fold(0.0, f64::max);
            push(report, format!("{name}.steal"), "%", &[worst], "the worst run", Target::AtMost(1.0));
            let repeats = runs.iter().map(|run| run.repeats as f64).sum();
            push(report, format!("{name}.repeats"), "runs", &[repeats], "steal above 1 %", Target::Recorded);
            let lost: Vec<f64> = runs.iter().map(|run| run.trouble.lost[0] as f64).collect();
            push(
                report,
                format!("{name}.backlog"),
                "packets",
                &lost,
                "lost before any class",
                Target::Recorded,
            );
        }
    }
    between_rows(cases, report);
}

/// Ratios of two rows at the same load.
fn between_rows(cases: &[(Row, &Case)], report: &mut Report) {
    let find = |row: &str, suite: &str| {
        cases.iter().find(|(of, case)| of.name == row && case.suite == suite).map(|(_, case)| *case)
    };
    let mut pairs = Vec::new();
    for graph in ["figure-6", "voice"] {
        for (suite, peer, theirs, most) in [
            ("3des-md5", "strongswan", "3des-md5", 1.0 / 50.0),
            ("aes128gcm", "strongswan-gcm", "aes128gcm", 1.0 / 50.0),
            ("aes128gcm", "wireguard-go", "chacha20poly1305", 1.0 / 20.0),
        ] {
            pairs.push((graph, suite, peer, theirs, Target::AtMost(most)));
        }
        for suite in ["3des-md5", "aes128cbc-sha256", "aes128gcm"] {
            pairs.push((graph, suite, "none", suite, Target::Recorded));
        }
    }
    for (ours, suite, theirs, of_theirs, target) in pairs {
        let (Some(first), Some(second)) = (find(ours, suite), find(theirs, of_theirs)) else { continue };
        for (at, (_, load)) in LOADS.iter().enumerate().skip(1) {
            let both = first.runs[at].iter().zip(&second.runs[at]);
            let values: Vec<f64> = both
                .map(|(ours, theirs)| ProbeStats::of(ours, "ef").p99 / ProbeStats::of(theirs, "ef").p99)
                .collect();
            let name = format!("paper-002.ratio.{suite}.{load}.{ours}.over.{theirs}.ef.p99");
            push(report, name, "ratio", &values, "same factor, same round", target);
        }
    }
}

/// Write tables and plots; beside the figures only, if they are of a part or of the quick form.
pub(super) fn write(cases: &[(Row, &Case)], probes: usize, rounds: usize, whole: bool) -> anyhow::Result<()> {
    let folder = folder(whole);
    std::fs::create_dir_all(&folder)?;
    let head = format!("{rounds} round(s), {probes} probes of each way in a run");
    for (file, ways) in [("table-1.md", &WAYS[2..]), ("table-2.md", &WAYS[..2])] {
        std::fs::write(folder.join(file), table(cases, ways, &head))?;
    }
    std::fs::write(folder.join("goodput.md"), goodput(cases, &head))?;
    for (file, title, way) in [
        ("figure-8", "Clear probes, by the kernel alone, load of 10 times the capacity", "past"),
        ("figure-8-through", "Clear probes through the engine, load of 10 times the capacity", "through"),
        ("figure-9", "EF probes inside ESP, load of 10 times the capacity, 3DES with HMAC-MD5", "ef"),
        ("figure-9-gcm", "EF probes inside ESP, load of 10 times the capacity, AES-128-GCM", "ef"),
    ] {
        let gcm = file.ends_with("gcm");
        let fits = |suite: &str| match suite {
            "3des-md5" => !gcm,
            "aes128gcm" | "chacha20poly1305" => gcm,
            _ => true,
        };
        let series = cases.iter().filter(|(_, case)| fits(case.suite) && case.suite != "aes128cbc-sha256");
        let series = series.filter_map(|(row, case)| {
            let run = case.runs[2].first()?;
            let answers = run.answers.iter().find(|answers| answers.name == way)?;
            let times = answers.rtt.iter().take(SHOWN).map(|time| time.map(|time| time as f64 / 1e6));
            Some((row.title.to_owned(), times.collect::<Vec<_>>()))
        });
        let dots = Dots { title, series: series.collect() };
        if dots.write(&folder.join(format!("{file}.svg"))).is_ok() {
            eprintln!("paper-002: plot in {}", folder.join(format!("{file}.svg")).display());
        }
    }
    eprintln!("paper-002: tables in {}", folder.display());
    Ok(())
}

/// Medians of the rounds; loss is that of all.
fn over_rounds(runs: &[Run], way: &str) -> Option<ProbeStats> {
    let ways: Vec<ProbeStats> =
        runs.iter().map(|run| ProbeStats::of(run, way)).filter(|way| !way.loss.is_nan()).collect();
    let of = |value: fn(&ProbeStats) -> f64| {
        let mut values: Vec<f64> = ways.iter().map(value).filter(|value| value.is_finite()).collect();
        if values.is_empty() { f64::NAN } else { median(&mut values) }
    };
    let max = ways.iter().map(|way| way.max).filter(|max| max.is_finite()).fold(f64::NAN, f64::max);
    let loss = ways.iter().map(|way| way.loss).sum::<f64>() / ways.len() as f64;
    (!ways.is_empty()).then(|| ProbeStats {
        loss,
        avg: of(|w| w.avg),
        p50: of(|w| w.p50),
        p99: of(|w| w.p99),
        max,
    })
}

fn table(cases: &[(Row, &Case)], ways: &[&str], head: &str) -> String {
    let mut out = format!(
        "{head}. Times are round trips in microseconds: medians\nof the rounds, `max` of all. `x` is by the unloaded run.\n\n\
         | suite | row | way | load | loss, % | avg | x | p50 | p99 | x | max | steal, backlog |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n"
    );
    for (row, case) in cases {
        for way in ways {
            let Some(idle) = over_rounds(&case.runs[0], way) else { continue };
            for ((_, load), runs) in LOADS.iter().zip(&case.runs) {
                let Some(is) = over_rounds(runs, way) else { continue };
                let mut factors: Vec<f64> = runs.iter().map(|run| run.factor).collect();
                let load = if *load == "idle" {
                    "unloaded".to_owned()
                } else {
                    format!("{load} ({:.1})", median(&mut factors))
                };
                let _ = writeln!(
                    out,
                    "| {} | {} | {way} | {load} | {:.2} | {:.0} | {:.2} | {:.0} | {:.0} | {:.2} | {:.0} | {} |",
                    case.suite,
                    row.title,
                    is.loss,
                    is.avg,
                    is.avg / idle.avg,
                    is.p50,
                    is.p99,
                    is.p99 / idle.p99,
                    is.max,
                    marks(runs),
                );
            }
        }
    }
    out.replace("NaN", "-")
}

/// What spoils the runs of a row.
fn marks(runs: &[Run]) -> String {
    let mut marks = Vec::new();
    let worst = runs.iter().map(|run| run.trouble.steal).fold(0.0, f64::max);
    let lost: u64 = runs.iter().map(|run| run.trouble.lost[0]).sum();
    let others: u64 = runs.iter().map(|run| run.trouble.lost[1]).sum();
    if worst > 1.0 {
        marks.push(format!("steal {worst:.1} %"));
    }
    if lost > 0 {
        marks.push(format!("backlog lost {lost}"));
    }
    if others > 0 {
        marks.push(format!("bed's core lost {others}"));
    }
    marks.join(", ")
}

fn goodput(cases: &[(Row, &Case)], head: &str) -> String {
    let mut out = format!(
        "{head}. Load that arrived by the row's capacity,\nmedian of the rounds; the factor that was sent in brackets.\n\n\
         | suite | row | capacity, Mbit/s | 2x | 10x | max |\n|---|---|---|---|---|---|\n"
    );
    for (row, case) in cases {
        let _ = write!(out, "| {} | {} | {:.1} |", case.suite, row.title, case.capacity.mbit());
        for runs in &case.runs[1..] {
            let of = |value: fn(&Run) -> f64| median(&mut runs.iter().map(value).collect::<Vec<_>>());
            let _ = write!(out, " {:.2} ({:.1}) |", of(|run| run.goodput), of(|run| run.factor));
        }
        out.push('\n');
    }
    out
}

/// The folder for tables and plots.
fn folder(whole: bool) -> PathBuf {
    match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(own) if whole => PathBuf::from(own).join("../docs/papers/002"),
        Some(own) => PathBuf::from(own).join("../target/bench/paper-002"),
        None => PathBuf::from("target/bench/paper-002"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::Trouble;
    use super::super::prober::Answers;
    use super::*;

    #[test]
    fn percentiles_are_of_the_answers_and_loss_of_the_probes() {
        let mut rtt: Vec<Option<u64>> = (1..=100).rev().map(|time| Some(time * 1000)).collect();
        rtt.extend([None; 100]);
        let answers = vec![Answers { name: "ef".to_owned(), rtt }];
        let run = Run { factor: 2.0, goodput: 1.0, answers, trouble: Trouble::default(), repeats: 0 };
        let way = ProbeStats::of(&run, "ef");
        assert_eq!(way, ProbeStats { loss: 50.0, avg: 50.5, p50: 50.0, p99: 99.0, max: 100.0 });
        assert!(ProbeStats::of(&run, "past").loss.is_nan());
        assert_eq!(over_rounds(&[run.clone(), run.clone()], "ef"), Some(way));
        assert_eq!(over_rounds(&[run], "past"), None);
    }
}
