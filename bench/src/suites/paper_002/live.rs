//! What goes on for longer than a round, on the row of Figure 6 with 3DES: exchanges of the graph beside twice the capacity, and
//! the resident memory of the gateway's daemon beside ten times of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use lab::Side;

use super::measure::{Capacity, Load, Run, once, run};
use super::prober::{Answers, Probes};
use super::rows::Site;
use crate::figure::{Figure, Report, Target};

/// Exchanges, and the time that they are spread over.
const EXCHANGES: u32 = 100;
const TIME: Duration = Duration::from_secs(60);
/// How long the load runs while memory is measured.
const LONG: Duration = Duration::from_secs(600);
/// Nanoseconds by which exchanges may lengthen the longest gap between two answers.
const GAP: f64 = 200.0;

/// Exchange the graph of the gateway while probes go on, and go on without exchanges.
///
/// # Errors
/// If the daemon refuses a graph, or the prober fails.
pub(super) fn exchanges(
    site: &Site,
    capacity: Capacity,
    interval: Duration,
    report: &mut Report,
) -> anyhow::Result<()> {
    let rig = site.rig().context("the row has no daemon")?;
    let text = include_str!("../../../../examples/qos/figure-6-wfq.toml");
    let files = [text.to_owned(), text.replace("packets = 256", "packets = 255")];
    ensure!(files[0] != files[1], "the example has another limit");
    let mut paths = Vec::new();
    for (number, text) in files.iter().enumerate() {
        let path = rig.folder().join(format!("exchange-{number}.toml"));
        std::fs::write(&path, text)?;
        paths.push(path.display().to_string());
    }
    let count = (TIME.as_nanos() / interval.as_nanos()) as usize;
    let probes = Probes { count, interval };
    // A run that is repeated would have no exchanges beside it any more.
    let without = once(site, Load::Times(2.0), capacity, probes)?;
    let done = AtomicBool::new(false);
    let (with, made) = std::thread::scope(|scope| -> anyhow::Result<_> {
        let exchanging = scope.spawn(|| -> anyhow::Result<u32> {
            let began = Instant::now();
            for number in 0..EXCHANGES {
                while began.elapsed() < TIME / EXCHANGES * number {
                    std::thread::sleep(Duration::from_millis(5));
                }
                if done.load(Ordering::Relaxed) {
                    return Ok(number);
                }
                rig.ravelin(Side::Alice, &["qos", "apply", &paths[number as usize % 2]], "")?;
            }
            Ok(EXCHANGES)
        });
        let with = once(site, Load::Times(2.0), capacity, probes);
        done.store(true, Ordering::Relaxed);
        let made = exchanging.join().map_err(|_| anyhow::anyhow!("exchanging has panicked"))??;
        Ok((with?, made))
    })?;
    let name = |part: &str| format!("paper-002.3des-md5.{}.exchanges.{part}", site.row.name);
    let mut push = |part: &str, unit, value: f64, anchor: &str, target| {
        report.push(Figure::new(name(part), unit, &[value], anchor, target));
    };
    let made_anchor = "graphs put into force in a run of 60 s";
    push("made", "exchanges", made.into(), made_anchor, Target::AtLeast(EXCHANGES.into()));
    let of = |run: &Run, way: &str| -> anyhow::Result<Answers> {
        let answers = run.answers.iter().find(|answers| answers.name == way);
        answers.cloned().with_context(|| format!("no probes of {way}"))
    };
    let lost = |answers: &Answers| answers.rtt.iter().filter(|rtt| rtt.is_none()).count() as f64;
    let [ef, floor] = [of(&with, "ef")?, of(&with, "floor")?];
    let [ef_without, floor_without] = [of(&without, "ef")?, of(&without, "floor")?];
    push("lost", "probes", lost(&ef), "EF inside ESP, 2x", Target::AtMost(0.0));
    push("lost_without", "probes", lost(&ef_without), "EF inside ESP, 2x, no exchange", Target::Recorded);
    push("lost_floor", "probes", lost(&floor), "past the gateway, same run", Target::Recorded);
    let [gap_with, gap_without] = [&ef, &ef_without].map(|answers| gap(answers, interval));
    push("gap", "us", gap_with, "longest between two answers", Target::Recorded);
    push("gap_beyond", "us", gap_with - gap_without, "a run without exchanges", Target::AtMost(GAP));
    // No daemon is on this way. Its gaps are those of the machine.
    push("gap_floor", "us", gap(&floor, interval), "past the gateway, same run", Target::Recorded);
    let gap_floor = gap(&floor_without, interval);
    push("gap_floor_without", "us", gap_floor, "past the gateway, no exchange", Target::Recorded);
    Ok(())
}

/// The longest time between the answers to two probes that follow one another, in microseconds.
fn gap(answers: &Answers, interval: Duration) -> f64 {
    let pairs = answers.rtt.windows(2).filter_map(|pair| Some((pair[0]?, pair[1]?)));
    let gaps = pairs.map(|(first, second)| interval.as_nanos() as f64 + second as f64 - first as f64);
    gaps.fold(0.0, f64::max) / 1e3
}

/// Send ten times the capacity for long, and compare the resident memory of the gateway's daemon.
///
/// # Errors
/// If the daemon has ended.
pub(super) fn memory(
    site: &Site,
    capacity: Capacity,
    interval: Duration,
    report: &mut Report,
) -> anyhow::Result<()> {
    let rig = site.rig().context("the row has no daemon")?;
    let pid = rig.daemon(Side::Alice)?.pid();
    let resident = || -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.split_whitespace().next().context("an empty VmRSS")?.parse()?)
    };
    let run = |time: Duration| {
        let count = (time.as_nanos() / interval.as_nanos()) as usize;
        run(site, Load::Times(10.0), capacity, Probes { count, interval })
    };
    // Queues and pools are filled once before.
    run(Duration::from_secs(5))?;
    let before = resident()?;
    run(LONG)?;
    let growth = 100.0 * (resident()? - before) / before;
    let name = format!("paper-002.3des-md5.{}.memory.growth", site.row.name);
    let anchor = format!("{before:.0} KiB before 10 minutes of 10x");
    report.push(Figure::new(name, "%", &[growth], anchor, Target::AtMost(1.0)));
    Ok(())
}

/// The longest run of packets of a class that queues of the gateway's graph dropped one after the other, since it began; none
/// where there is no graph.
pub(super) fn longest_loss(site: &Site) -> Option<f64> {
    let text = site.rig()?.ravelin(Side::Alice, &["qos", "show", "--json"], "").ok()?;
    fn most(value: &serde_json::Value) -> Option<u64> {
        match value {
            serde_json::Value::Object(fields) => {
                let own = fields.get("longest_loss").and_then(serde_json::Value::as_u64);
                fields.values().filter_map(most).chain(own).max()
            }
            serde_json::Value::Array(items) => items.iter().filter_map(most).max(),
            _ => None,
        }
    }
    most(&serde_json::from_str(&text).ok()?).map(|count| count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_between_answers_to_probes_that_follow_one_another() {
        let rtt = vec![Some(1_000_000), Some(1_500_000), None, Some(900_000), Some(100_000)];
        let answers = Answers { name: "ef".to_owned(), rtt };
        assert_eq!(gap(&answers, Duration::from_millis(3)), 3_500.0);
    }
}
