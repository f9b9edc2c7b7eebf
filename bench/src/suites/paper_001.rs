//! `paper-001.*`: the measurements of paper 001 section 3 again, with the real daemons between two hosts: five rounds, and in each
//! every transform in turn ([`crate::paper::TRANSFORMS`]), so that a drift of the machine is in all of them.
//!
//! - `ping.{transform}.{octets}.us`: round trip of an echo request with 512, 1024, 4096 and 8192 octets of payload, median of a
//!   round's 25.
//! - `udp.{transform}.{octets}.*`: 15 MB of datagrams, twice. As fast as a socket takes them: `gbit` is what arrived, by the time that
//!   it took, `loss` what did not. Then as fast as the receiver answers, for a second at most, so that (almost) nothing is lost:
//!   `paced_gbit`, and the CPU time of everything on the sending and on the receiving host (the program and the daemon) for each octet
//!   that arrived: `tx_ns_per_byte`, `rx_ns_per_byte`. The paper's kernel made the sender wait for the cipher; here nothing does.
//! - `tcp.{transform}.gbit`: a transfer by iperf3 of one second. `tcp15.{transform}.s`: the paper's Figure 3: 15 MB of random octets in one
//!   connection, seconds of real time from connecting until the receiver has read the last one.
//!
//! The plots go to `docs/papers/001` when Cargo runs this.

use super::FigureFilter;
use crate::figure::{Figure, Report, Target};
use crate::flow;
use crate::interleave::median;
use crate::paper::plot::{Mark, Plot};
use crate::paper::{Bed, TRANSFORMS, Transform};
use crate::process;
use crate::product;
use crate::stage::{program, succeeded};
use anyhow::{Context, ensure};
use lab::{Program, Side, Transport};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

const ROUNDS: usize = 5;
/// Octets of payload, as in the paper.
const SIZES: [usize; 4] = [512, 1024, 4096, 8192];
/// Octets of a blast, and of a transfer, as in the paper.
const BLAST: usize = 15_000_000;
/// Echo requests of a round, and seconds between two.
const PINGS: [&str; 2] = ["25", "0.002"];
const TRANSFER: &str = "1";
const PORT: u16 = 7008;
const TRANSFER_PORT: u16 = 7009;
const PATIENCE: Duration = Duration::from_secs(60);

/// Values of the rounds by the figure's name, and the figure's unit.
type Values = BTreeMap<String, (&'static str, Vec<f64>)>;

struct Programs {
    ping: PathBuf,
    iperf3: PathBuf,
    own: PathBuf,
}

/// Measure the transforms of paper 001 whose names hold `filter`.
pub(super) fn run(filter: &str, report: &mut Report) -> anyhow::Result<()> {
    let figures = FigureFilter { filter, report };
    let programs = Programs { ping: program("ping")?, iperf3: program("iperf3")?, own: product::own()? };
    eprintln!("paper-001: setting up");
    let mut bed = Bed::build("paper-001", &[&programs.ping, &programs.iperf3, &programs.own])?;
    let mut values = Values::new();
    let mut wanted: Vec<&Transform> =
        TRANSFORMS.iter().filter(|transform| filter.is_empty() || transform.name.contains(filter)).collect();
    let rounds = crate::rounds(ROUNDS);
    for round in 1..=rounds {
        wanted.retain(|transform| {
            let done = bed.install(transform).and_then(|()| measure(&bed, transform, &programs));
            let error = match done {
                Ok(measured) => {
                    let gbit = measured.last().map_or(f64::NAN, |(_, _, value)| *value);
                    eprintln!(
                        "paper-001: round {round} of {rounds}: {}, TCP {gbit:.2} Gbit/s",
                        transform.name
                    );
                    for (name, unit, value) in measured {
                        values.entry(name).or_insert((unit, Vec::new())).1.push(value);
                    }
                    return true;
                }
                Err(error) => error,
            };
            eprintln!("paper-001: {} is absent: {error:#}", transform.name);
            figures.report.absent(format!("paper-001.{}", transform.name), format!("{error:#}"));
            false
        });
    }
    for transform in TRANSFORMS {
        for (name, (unit, rounds)) in values.iter().filter(|(name, _)| of(name, transform.name)) {
            let figure = Figure::new(name.clone(), unit, rounds, transform.title, Target::Recorded);
            figures.report.push(figure);
        }
    }
    if filter.is_empty() {
        plots(figures.report)?;
    }
    Ok(())
}

/// Whether a figure belongs to a transform: `paper-001.KIND.TRANSFORM.REST`, where a transform's name may have dots.
fn of(figure: &str, transform: &str) -> bool {
    let rest = figure.splitn(3, '.').nth(2).and_then(|rest| rest.strip_prefix(transform));
    let rest = rest.and_then(|rest| rest.strip_prefix('.'));
    rest.is_some_and(|rest| ["gbit", "s"].contains(&rest) || rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// One round of a transform: names, units, values; the transfer last.
fn measure(
    bed: &Bed,
    transform: &Transform,
    programs: &Programs,
) -> anyhow::Result<Vec<(String, &'static str, f64)>> {
    let mut measured = Vec::new();
    for octets in SIZES {
        let name = format!("paper-001.ping.{}.{octets}.us", transform.name);
        measured.push((name, "us", ping(bed, transform, programs, octets)?));
    }
    for octets in SIZES {
        let send = |how| {
            let sent = datagrams(bed, transform, programs, how, octets);
            sent.with_context(|| format!("`load {how}` with datagrams of {octets}"))
        };
        let (blast, paced) = (send("blast")?, send("pace")?);
        for (part, unit, value) in [
            ("gbit", "Gbit/s", blast.gbit),
            ("loss", "%", blast.loss),
            ("paced_gbit", "Gbit/s", paced.gbit),
            ("tx_ns_per_byte", "ns/byte", paced.cpu[0]),
            ("rx_ns_per_byte", "ns/byte", paced.cpu[1]),
        ] {
            measured.push((format!("paper-001.udp.{}.{octets}.{part}", transform.name), unit, value));
        }
    }
    let seconds = transfer(bed, transform, programs).context("the transfer of 15 MB")?;
    measured.push((format!("paper-001.tcp15.{}.s", transform.name), "s", seconds));
    let server = flow::serve(bed.host(transform, Side::Bob), &programs.iperf3)?;
    let alice = bed.host(transform, Side::Alice);
    let answer = flow::ask(alice, &programs.iperf3, Side::Bob.v4().into(), &["-t", TRANSFER])?;
    server.finish(PATIENCE)?;
    bed.prove(transform)?;
    let name = format!("paper-001.tcp.{}.gbit", transform.name);
    measured.push((name, "Gbit/s", flow::delivered(&answer)?.gbit));
    Ok(measured)
}

/// Microseconds of a round trip, the median.
fn ping(bed: &Bed, transform: &Transform, programs: &Programs, octets: usize) -> anyhow::Result<f64> {
    let [count, interval] = PINGS;
    let (size, peer) = (octets.to_string(), Side::Bob.v4().to_string());
    let args = ["-n", "-c", count, "-i", interval, "-W", "2", "-s", &size, &peer];
    let ping = Program::new(&programs.ping).args(args);
    let done = bed.host(transform, Side::Alice).run_program(ping, PATIENCE)?;
    let said = succeeded(&format!("ping with {octets} octets"), &done)?;
    let mut times: Vec<f64> = said.lines().filter_map(milliseconds).map(|time| time * 1000.0).collect();
    ensure!(!times.is_empty(), "ping says no time: {said}");
    Ok(median(&mut times))
}

fn milliseconds(line: &str) -> Option<f64> {
    line.split_once(" time=")?.1.split(' ').next()?.parse().ok()
}

/// What became of many datagrams.
struct SentTraffic {
    gbit: f64,
    /// Datagrams that did not arrive, in percent.
    loss: f64,
    /// Nanoseconds an octet of the sending and of the receiving host.
    cpu: [f64; 2],
}

/// Send 15 MB in datagrams of so many octets: `blast` or `pace`.
fn datagrams(
    bed: &Bed,
    transform: &Transform,
    programs: &Programs,
    how: &str,
    octets: usize,
) -> anyhow::Result<SentTraffic> {
    let [alice, bob] = Side::BOTH.map(|side| bed.host(transform, side));
    let cpu = || -> anyhow::Result<[Duration; 2]> {
        Ok([process::cgroup_time(alice.cgroup().path())?, process::cgroup_time(bob.cgroup().path())?])
    };
    let address = format!("{}:{PORT}", Side::Bob.v4());
    let mut sink = bob.spawn(Program::new(&programs.own).args(["load", "sink", &address]))?;
    bob.wait_for_listener(Transport::Udp, PORT, &mut sink, PATIENCE)?;
    let before = cpu()?;
    let (size, count) = (octets.to_string(), (BLAST / octets).to_string());
    let program = Program::new(&programs.own).args(["load", how, &address, &size, &count]);
    let sender = succeeded("sending", &alice.run_program(program, PATIENCE)?)?;
    let receiver = succeeded("receiving", &sink.finish(PATIENCE)?)?;
    let after = cpu()?;
    let [sent, sending] = numbers(&sender)?;
    let [arrived, received, receiving] = numbers(&receiver)?;
    ensure!(arrived > 0.0, "none of {sent} datagrams arrived");
    let each = |side: usize| (after[side] - before[side]).as_nanos() as f64 / received;
    // Of a few that arrive at once, the receiver sees no time between them.
    let gbit = received * 8.0 / sending.max(receiving);
    Ok(SentTraffic { gbit, loss: 100.0 * (1.0 - arrived / sent), cpu: [each(0), each(1)] })
}

/// Seconds of real time that 15 MB of random octets take in one connection (Figure 3).
fn transfer(bed: &Bed, transform: &Transform, programs: &Programs) -> anyhow::Result<f64> {
    let [alice, bob] = Side::BOTH.map(|side| bed.host(transform, side));
    let address = format!("{}:{TRANSFER_PORT}", Side::Bob.v4());
    let mut drain = bob.spawn(Program::new(&programs.own).args(["load", "drain", &address]))?;
    bob.wait_for_listener(Transport::Tcp, TRANSFER_PORT, &mut drain, PATIENCE)?;
    let program = Program::new(&programs.own).args(["load", "transfer", &address, &BLAST.to_string()]);
    let [took] = numbers(&succeeded("sending", &alice.run_program(program, PATIENCE)?)?)?;
    let [octets] = numbers(&succeeded("receiving", &drain.finish(PATIENCE)?)?)?;
    ensure!(octets == BLAST as f64, "{octets} of {BLAST} octets arrived");
    Ok(took / 1e9)
}

/// Numbers of a line.
fn numbers<const N: usize>(line: &str) -> anyhow::Result<[f64; N]> {
    let numbers: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().map_err(|_| anyhow::anyhow!("not {N} numbers: {line}"))
}

/// Draw what was measured.
fn plots(report: &Report) -> anyhow::Result<()> {
    let folder = folder();
    let marks = |figure: &dyn Fn(&Transform) -> String| {
        TRANSFORMS.iter().map(|transform| mark(report, &figure(transform))).collect::<Vec<_>>()
    };
    let by_size = |kind: &str, part: &str| {
        let of = |octets: &usize| {
            let name = |transform: &Transform| format!("paper-001.{kind}.{}.{octets}.{part}", transform.name);
            (format!("{octets} octets"), marks(&name))
        };
        SIZES.iter().map(of).collect::<Vec<_>>()
    };
    let tcp = vec![(String::new(), marks(&|transform| format!("paper-001.tcp.{}.gbit", transform.name)))];
    let tcp15 = vec![(String::new(), marks(&|transform| format!("paper-001.tcp15.{}.s", transform.name)))];
    let rate = "goodput, Gbit/s (logarithmic)";
    let drawn = [
        ("ping", "Ping: round trip", "round trip, us (logarithmic)", true, by_size("ping", "us")),
        ("udp-rate", "UDP blast: what arrives", rate, true, by_size("udp", "gbit")),
        ("udp-loss", "UDP blast: what does not arrive", "loss, % of 15 MB", false, by_size("udp", "loss")),
        ("udp-paced", "UDP, as fast as the receiver answers", rate, true, by_size("udp", "paced_gbit")),
        (
            "udp-cpu",
            "UDP, as fast as the receiver answers: CPU time of the sending host",
            "CPU time, ns for each octet that arrived (logarithmic)",
            true,
            by_size("udp", "tx_ns_per_byte"),
        ),
        ("tcp", "TCP transfer", rate, true, tcp),
        ("tcp-15mb", "TCP: 15 MB of random octets", "real time, seconds (logarithmic)", true, tcp15),
    ];
    for (name, title, axis, log, series) in drawn {
        let categories = TRANSFORMS.iter().map(|transform| transform.title).collect();
        let path = folder.join(format!("{name}.svg"));
        Plot { title, axis, log, categories, series }.write(&path)?;
        eprintln!("paper-001: plot in {}", path.display());
    }
    Ok(())
}

fn mark(report: &Report, name: &str) -> Option<Mark> {
    let figure = report.figures().iter().find(|figure| figure.name == name)?;
    Some(Mark { min: figure.min, value: figure.value, max: figure.max })
}

/// The folder for the plots of the paper.
fn folder() -> PathBuf {
    match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(crate_) => PathBuf::from(crate_).join("../docs/papers/001"),
        None => PathBuf::from("target/bench/paper-001"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_belong_to_the_transform_of_their_whole_name() {
        assert!(of("paper-001.ping.ah-sha256.512.us", "ah-sha256"));
        assert!(!of("paper-001.ping.ah-sha256.esp-aes128gcm.512.us", "ah-sha256"));
        assert!(of("paper-001.tcp.ah-sha256.esp-aes128gcm.gbit", "ah-sha256.esp-aes128gcm"));
        assert!(!of("paper-001.tcp.ah-sha256.esp-aes128gcm.gbit", "ah-sha256"));
        assert!(of("paper-001.tcp15.ah-sha256.s", "ah-sha256"));
    }

    #[test]
    fn the_time_of_an_answer_is_read() {
        let line = "520 bytes from 198.51.100.2: icmp_seq=1 ttl=64 time=0.125 ms";
        assert_eq!(milliseconds(line), Some(0.125));
        assert_eq!(numbers("15 7").unwrap(), [15.0, 7.0]);
        assert!(numbers::<3>("15 7").is_err());
        assert_eq!(milliseconds("25 packets transmitted, 25 received, 0% packet loss, time 48ms"), None);
    }
}
