//! The time that expedited packets are in the data plane, by the kernel's stamps: from its receive stamp on one device of
//! the gateway to its taking the packet for the other one (paper 002, Table II, without the ways outside of the gateway).
//!
//! tcpdump stamps on both devices; probes are the only packets there with their ports, or with the mark of expedited
//! forwarding. Nothing of a class overtakes its own, so the n-th that came is the n-th that left, where none was lost.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use netio::pcap::Reader;
use serde_json::Value;

use super::bed::{OUTSIDE, PROBED};
use super::measure::{Capacity, LOADS, Load, loaded};
use super::prober::{EF, Probes};
use super::rows::{Kind, Site};
use crate::figure::{Figure, Report, Target};

/// Rows, and suites, that are measured.
pub(super) const CASES: [(&str, &str); 5] = [
    ("none", "3des-md5"),
    ("figure-6", "3des-md5"),
    ("sliced", "3des-md5"),
    ("none", "aes128gcm"),
    ("figure-6", "aes128gcm"),
];
/// Probes of the long run, each of which passes twice: 10^6 packets.
const MANY: usize = 500_000;
/// The time from one of those to the next.
const CLOSE: Duration = Duration::from_micros(500);
/// Nanoseconds that the goals allow at the 99th percentile.
const GOAL: f64 = 50.0;
/// How long tcpdump may take to begin, and to write what it has.
const PATIENCE: Duration = Duration::from_secs(10);

/// Delays of one direction in nanoseconds, in order.
struct Delays {
    came: usize,
    left: usize,
    sorted: Vec<u64>,
}

/// Measure every load once.
///
/// # Errors
/// If tcpdump or the prober fail, or the plan is not told.
pub(super) fn run(
    site: &Site,
    suite: &str,
    capacity: Capacity,
    probes: Probes,
    report: &mut Report,
) -> anyhow::Result<()> {
    for (load, name) in LOADS.iter().filter(|(load, _)| !matches!(load, Load::Most)) {
        let of = format!("paper-002.{suite}.{}.{name}.plane", site.row.name);
        case(site, *load, capacity, probes, &of, report)?;
    }
    Ok(())
}

/// 10^6 packets beside twice the capacity, and how many of them were slower than the bound.
///
/// # Errors
/// If tcpdump or the prober fail, or the plan is not told.
pub(super) fn many(site: &Site, suite: &str, capacity: Capacity, report: &mut Report) -> anyhow::Result<()> {
    let probes = Probes { count: MANY, interval: CLOSE };
    let of = format!("paper-002.{suite}.{}.2x.plane_many", site.row.name);
    case(site, Load::Times(2.0), capacity, probes, &of, report)
}

fn case(
    site: &Site,
    load: Load,
    capacity: Capacity,
    probes: Probes,
    of: &str,
    report: &mut Report,
) -> anyhow::Result<()> {
    let rig = site.rig().context("the row has no daemon")?;
    let files = ["inside", "outside"].map(|name| rig.folder().join(format!("{name}.pcap")));
    let ports = "udp port 7000".to_owned();
    let mark = format!("udp port 4500 and ip[1] & 0xfc == {EF} and less 400");
    let dumps =
        [Dump::begin(site, PROBED, &files[0], &ports)?, Dump::begin(site, OUTSIDE, &files[1], &mark)?];
    let answers = loaded(site, load, capacity, || site.bed.probe_ef(probes))?;
    for dump in dumps {
        dump.end()?;
    }
    let [inside, outside] = [stamps(&files[0], 7000)?, stamps(&files[1], 4500)?];
    let bounds = bounds(site)?;
    let lost = answers.rtt.iter().filter(|rtt| rtt.is_none()).count() as f64;
    let target = if site.has_graph() { Target::AtMost(0.0) } else { Target::Recorded };
    report.push(Figure::new(format!("{of}.lost"), "probes", &[lost], "no answer", target));
    let directions = [
        ("out", Delays::of(&inside.away, &outside.away), bounds[0]),
        ("in", Delays::of(&outside.back, &inside.back), bounds[1]),
    ];
    for (direction, delays, bound) in directions {
        let mut push = |part: &str, unit, value: f64, anchor: &str, target| {
            report.push(Figure::new(format!("{of}.{direction}.{part}"), unit, &[value], anchor, target));
        };
        if delays.sorted.is_empty() {
            let came = format!("{} came, {} left: no pairs", delays.came, delays.left);
            push(
                "unpaired",
                "packets",
                (delays.came - delays.left.min(delays.came)) as f64,
                &came,
                Target::Recorded,
            );
            continue;
        }
        let goal = |part: &str| match part {
            "p99" if site.has_graph() => Target::AtMost(GOAL),
            _ => Target::Recorded,
        };
        for (part, share) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
            push(part, "us", delays.at(share) as f64 / 1e3, "kernel stamp to kernel stamp", goal(part));
        }
        if let Some(bound) = bound {
            let above = delays.sorted.iter().filter(|delay| **delay > bound).count() as f64;
            push("bound", "us", bound as f64 / 1e3, "ravelin qos plan", Target::Recorded);
            let anchor = format!("of {} packets", delays.sorted.len());
            push("above_bound", "packets", above, &anchor, Target::AtMost(0.0));
        }
    }
    Ok(())
}

impl Delays {
    fn of(came: &[u64], left: &[u64]) -> Delays {
        // One that leaves before it came is another one: both captures have missed packets.
        let pairs = || came.iter().zip(left);
        let is_paired = came.len() == left.len() && pairs().all(|(came, left)| left >= came);
        let mut sorted: Vec<u64> =
            if is_paired { pairs().map(|(came, left)| left - came).collect() } else { Vec::new() };
        sorted.sort_unstable();
        Delays { came: came.len(), left: left.len(), sorted }
    }

    fn at(&self, share: f64) -> u64 {
        let rank = (share * self.sorted.len() as f64).ceil() as usize;
        self.sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }
}

/// The nanoseconds that `ravelin qos plan` prints for expedited forwarding, outbound and inbound, where it has a bound.
fn bounds(site: &Site) -> anyhow::Result<[Option<u64>; 2]> {
    let Kind::Ravelin(qos) = site.row.kind else { return Ok([None; 2]) };
    let Some((key, value)) = qos.lines().last().and_then(|line| line.split_once(" = ")) else {
        return Ok([None; 2]);
    };
    let value = value.trim_matches('"').replace("EXAMPLES", &super::rows::examples().display().to_string());
    let mut command = Command::new(crate::product::ravelin()?);
    command.args(["qos", "plan", "--json"]);
    if key == "preset" {
        command.arg("--preset");
    }
    let done = command.arg(&value).output()?;
    ensure!(done.status.success(), "ravelin qos plan: {}", String::from_utf8_lossy(&done.stderr));
    let plan: Value = serde_json::from_slice(&done.stdout)?;
    let bound = |direction: &str| {
        let classes = plan["classes"].as_array()?;
        let class = classes.iter().find(|class| class["class"] == "ef" && class["direction"] == direction)?;
        class["delay_ns"].as_u64()
    };
    Ok([bound("out"), bound("in")])
}

/// The stamps of probes and answers on a device, in nanoseconds, in order.
#[derive(Default)]
struct Stamps {
    away: Vec<u64>,
    back: Vec<u64>,
}

fn stamps(path: &Path, port: u16) -> anyhow::Result<Stamps> {
    let mut reader = Reader::open(path)?;
    let mut stamps = Stamps::default();
    while let Some(frame) = reader.next_frame()? {
        let packet = frame.ip().context("a frame without IP")?;
        let time = u64::try_from(frame.time.as_nanos())?;
        // What goes to the far network, or to the far gateway, is on its way there.
        let is_away = match port {
            4500 => packet.get(16..20) == Some(&[198, 51, 100, 2]),
            _ => packet.get(16..19) == Some(&[203, 0, 113]),
        };
        if is_away { stamps.away.push(time) } else { stamps.back.push(time) }
    }
    Ok(stamps)
}

/// A capture that runs.
struct Dump(Child);

impl Dump {
    fn begin(site: &Site, device: &str, path: &Path, filter: &str) -> anyhow::Result<Dump> {
        // A run before has left it.
        let _ = std::fs::remove_file(path);
        let mut command = Command::new("taskset");
        let core = super::bed::OTHERS.to_string();
        command.args(["-c", &core, "tcpdump", "-i", device, "-s", "64", "-B", "32768", "-U"]);
        // Packets come one by one, and not in blocks of which the last is lost. The device's flags stay what they are.
        command.args(["--immediate-mode", "-p"]);
        command.args(["-Z", "root", "--time-stamp-precision", "nano", "-w"]).arg(path).arg(filter);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = site.lab().alice().netns().prepare(&mut command, None)?.spawn().context("tcpdump")?;
        let dump = Dump(child);
        let end = Instant::now() + PATIENCE;
        // It writes the header of the file when it listens.
        while std::fs::metadata(path).map_or(0, |meta| meta.len()) < 24 {
            ensure!(Instant::now() < end, "tcpdump does not begin on {device}");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(dump)
    }

    fn end(mut self) -> anyhow::Result<()> {
        // What came last is still on its way to it.
        std::thread::sleep(Duration::from_millis(300));
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
        let end = Instant::now() + PATIENCE;
        while self.0.try_wait()?.is_none() {
            ensure!(Instant::now() < end, "tcpdump does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_paired_in_order_and_only_where_none_was_lost() {
        let delays = Delays::of(&[10, 20, 30], &[15, 29, 31]);
        assert_eq!(delays.sorted, [1, 5, 9]);
        assert_eq!((delays.at(0.5), delays.at(1.0)), (5, 9));
        assert!(Delays::of(&[10, 20], &[15]).sorted.is_empty());
        // The first that came and the last that left are missing: equal numbers, and no pairs.
        assert!(Delays::of(&[20, 30], &[15, 29]).sorted.is_empty());
    }
}
