//! `paper-004.*`: Table 2 and Figure 5 of paper 004 again: a TCP stream of ten seconds in each direction, three times, under
//! each cipher, with the load of the sending and of the receiving host.
//!
//! Alice is the paper's AMD: daemon and program together get half a processor. Bob is its Intel and has no bound. What
//! the kernel does for packets in soft interrupts is not bounded; it is on whoever's account it interrupts.
//!
//! - `{row}.{ia|ai}.mbit`: what the receiver got; `ia` is from bob to alice, as in the paper.
//! - `{row}.{ia|ai}.sender`, `.receiver`: CPU time of that host's daemon and program in percent of one processor.
//! - `soft.*`: the same by a daemon that was built without AES instructions (`aes_backend="soft"`) and serves every suite by
//!   portable code. With it: the paper's own combinations of section 9, AH over ESP in CBC mode.
//! - `*.ratio`: a row's rate by that of another one, and the share of the time that is cipher: what a stream gains where
//!   the cipher is NULL and the integrity the same.
//! - `slow.*`: IPComp in front of the cipher, over a link of 20 Mbit/s.
//!
//! The three runs of each row are printed one by one, and go to `docs/papers/004/table-2.md` with the plots. A suite that
//! broke off goes on where `RAVELIN_BENCH_RUNS` names a file with what it printed: rows whose runs are all there are not
//! measured again.

mod slow;
mod table;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use crypto::Suites;
use lab::Side;

use super::FigureFilter;
use crate::figure::{Figure, Report, Target};
use crate::flow;
use crate::paper::cpu_limit::CpuLimit;
use crate::paper::{Bed, BedOptions, Member, Transform, transform};
use crate::process;
use crate::product;
use crate::stage::program;

/// Runs of each direction of a row, as in the paper.
const RUNS: usize = 3;
/// Seconds of a stream, as in the paper. `RAVELIN_BENCH_SECONDS` makes it shorter, to try the suite.
const SECONDS: u64 = 10;
/// Hundredths of a processor that the weaker host gets.
const WEAKER: u32 = 50;
const PATIENCE: Duration = Duration::from_secs(60);

/// A row of the table.
struct Row {
    transform: Transform,
    /// What policy demands of the flow.
    demand: &'static str,
    /// The row of the paper that it is to be compared with, if there is one: Mbit/s from Intel to AMD, and back.
    paper: Option<[f64; 2]>,
}

const fn row(
    name: &'static str,
    title: &'static str,
    members: &'static [Member],
    demand: &'static str,
    paper: Option<[f64; 2]>,
) -> Row {
    Row { transform: transform(name, title, members), demand, paper }
}

const NONE: Option<[f64; 2]> = Some([712.41, 380.96]);
const AES: Option<[f64; 2]> = Some([148.03, 140.25]);
const TRIPLE_DES: Option<[f64; 2]> = Some([95.70, 91.57]);
const MAES: Option<[f64; 2]> = Some([63.74, 61.40]);
const ANY: &str = "authentication mandatory";

/// The rows of a daemon as it is built for use.
const ROWS: &[Row] = &[
    row("none", "none", &[], ANY, NONE),
    row("null-sha256", "ESP NULL, HMAC-SHA2-256", &[Member::Esp("null-sha256")], ANY, None),
    row("aes128gcm", "AES-128-GCM", &[Member::Esp("aes128gcm")], "encryption mandatory", None),
    row(
        "aes256ctr",
        "AES-256-CTR, HMAC-SHA2-256",
        &[Member::Esp("aes256ctr-sha256")],
        "encryption mandatory",
        AES,
    ),
    row("3des", "3DES, HMAC-SHA1 (legacy)", &[Member::Esp("3des-sha1")], "encryption mandatory", TRIPLE_DES),
    row(
        "maes512ctr",
        "mAES-512 CTR, HMAC-SHA2-256",
        &[Member::Esp("maes512ctr-sha256")],
        "encryption mandatory suite maes512ctr-sha256",
        MAES,
    ),
    row(
        "maes512gcm",
        "mAES-512 GCM",
        &[Member::Esp("maes512gcm")],
        "encryption mandatory suite maes512gcm alone",
        None,
    ),
    row(
        "cascade",
        "mAES-512 CTR in AES-256-GCM",
        &[Member::Esp("maes512ctr-aes256gcm")],
        "encryption mandatory suite maes512ctr-aes256gcm",
        None,
    ),
    row(
        "kuznyechik",
        "Kuznyechik CTR (loaded), HMAC-SHA2-256",
        &[Member::Esp("kuznyechikctr-sha256")],
        "encryption mandatory suite kuznyechikctr-sha256",
        None,
    ),
    row(
        "sm4",
        "SM4 CTR (loaded), HMAC-SHA2-256",
        &[Member::Esp("sm4rsctr-sha256")],
        "encryption mandatory suite sm4rsctr-sha256",
        None,
    ),
];

/// The rows of a daemon without AES instructions. The last three are the paper's: AH over ESP in CBC mode. ESP has an ICV
/// here, which the paper's had not, since encryption without integrity is refused.
const SOFT_ROWS: &[Row] = &[
    row("soft.null-sha256", "ESP NULL, HMAC-SHA2-256", &[Member::Esp("null-sha256")], ANY, None),
    row("soft.aes256ctr", "AES-256-CTR, HMAC-SHA2-256", &[Member::Esp("aes256ctr-sha256")], ANY, AES),
    row("soft.3des", "3DES, HMAC-SHA2-256", &[Member::Esp("3des-sha256")], ANY, TRIPLE_DES),
    row("soft.maes512ctr", "mAES-512 CTR, HMAC-SHA2-256", &[Member::Esp("maes512ctr-sha256")], ANY, MAES),
    row(
        "soft.ah.aes192cbc",
        "AH MD5 over ESP AES-192-CBC",
        &[Member::Esp("aes192cbc-sha1"), Member::Ah("md5")],
        ANY,
        AES,
    ),
    row(
        "soft.ah.3des",
        "AH MD5 over ESP 3DES-CBC",
        &[Member::Esp("3des-sha1"), Member::Ah("md5")],
        ANY,
        TRIPLE_DES,
    ),
    row(
        "soft.ah.maes512cbc",
        "AH MD5 over ESP mAES-512-CBC",
        &[Member::Esp("maes512cbc-sha1"), Member::Ah("md5")],
        ANY,
        MAES,
    ),
];

/// What one stream was like.
#[derive(Clone, Copy, Debug)]
struct Stream {
    mbit: f64,
    /// Percent of a processor of the sending and of the receiving host.
    cpu: [f64; 2],
}

/// The streams of a row, by direction: from bob to alice, and back.
struct Measured<'r> {
    row: &'r Row,
    streams: [Vec<Stream>; 2],
}

/// The directions: the word in names, the paper's words, sender and receiver.
const DIRECTIONS: [(&str, &str, Side, Side); 2] =
    [("ia", "Intel -> AMD", Side::Bob, Side::Alice), ("ai", "AMD -> Intel", Side::Alice, Side::Bob)];

/// Measure the rows of paper 004 whose names hold `filter`.
pub(super) fn run(filter: &str, report: &mut Report) -> anyhow::Result<()> {
    let figures = FigureFilter { filter, report };
    let wanted = |rows: &'static [Row]| {
        rows.iter().filter(|row| row.transform.name.contains(filter)).collect::<Vec<_>>()
    };
    let iperf3 = program("iperf3")?;
    let mut measured = Vec::new();
    let rows = to_measure(wanted(ROWS), &mut measured);
    if !rows.is_empty() {
        let ciphers = Ciphers::copy("paper-004")?;
        let bed = ciphers.bed("paper-004", &iperf3, "", None)?;
        measured.extend(all(bed, &rows, &iperf3, figures.report)?);
    }
    let rows = to_measure(wanted(SOFT_ROWS), &mut measured);
    if !rows.is_empty() {
        let daemon = product::without_aes_instructions().context("a build without AES instructions")?;
        let ciphers = Ciphers::copy("paper-004s")?;
        let bed = ciphers.bed("paper-004s", &iperf3, "unit = \"rustcrypto\"\n", Some(daemon))?;
        measured.extend(all(bed, &rows, &iperf3, figures.report)?);
    }
    for row in &measured {
        row.report(figures.report);
    }
    ratios(&measured, figures.report);
    if "slow".contains(filter) || filter.contains("slow") {
        slow::run(figures.report)?;
    }
    if filter.is_empty() {
        table::write(&measured, figures.report)?;
    }
    Ok(())
}

/// The ciphers in a folder that nobody but root can write, and the configuration that names them.
struct Ciphers {
    folder: PathBuf,
    configuration: String,
    suites: Suites,
}

impl Ciphers {
    /// The examples `kuznyechik` and `sm4rs`, built by `make ciphers`, and the compiled-in mAES-512.
    fn copy(name: &str) -> anyhow::Result<Ciphers> {
        let folder = PathBuf::from("/run").join(format!("rvl-{name}-ciphers"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder)?;
        let mut configuration = String::from("[[cipher]]\nbuiltin = \"maes512\"\nalone = true\n");
        for cipher in ["kuznyechik", "sm4rs"] {
            for end in [".json", ".so", ".vectors.json"] {
                let file = format!("{cipher}{end}");
                let from = examples().join(&file);
                std::fs::copy(&from, folder.join(&file))
                    .with_context(|| format!("{}: `make ciphers` builds it", from.display()))?;
            }
            let manifest = folder.join(format!("{cipher}.json"));
            let digest = cipher_manifest::Digest::of(&std::fs::read(&manifest)?);
            configuration += &format!(
                "[[cipher]]\nmanifest = \"{}\"\nsha256 = \"{digest}\"\nisolation = \"none\"\n",
                manifest.display()
            );
        }
        let file = folder.join("ciphers.toml");
        std::fs::write(&file, &configuration)?;
        let ciphers = config::Config::load_ciphers(&file)?;
        if let Some(refused) = ciphers.refused.first() {
            anyhow::bail!("{refused}");
        }
        Ok(Ciphers { folder, configuration, suites: ciphers.suites })
    }

    fn bed(&self, name: &str, iperf3: &Path, crypto: &str, daemon: Option<PathBuf>) -> anyhow::Result<Bed> {
        Bed::build_with(BedOptions {
            name,
            programs: &[iperf3],
            configuration: &format!("{}[crypto]\nlegacy = true\n{crypto}", self.configuration),
            suites: self.suites.clone(),
            daemon,
        })
    }
}

impl Drop for Ciphers {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The folder of the built example ciphers.
fn examples() -> PathBuf {
    let workspace = std::env::var_os("CARGO_MANIFEST_DIR").map(|own| PathBuf::from(own).join(".."));
    workspace.unwrap_or_default().join("examples/ciphers/build")
}

/// Measure these rows, one run of each in turn, so that a drift of the machine is in all of them.
fn all<'r>(
    mut bed: Bed,
    rows: &[&'r Row],
    iperf3: &Path,
    report: &mut Report,
) -> anyhow::Result<Vec<Measured<'r>>> {
    let mut measured: Vec<_> =
        rows.iter().map(|row| Measured { row, streams: earlier(row.transform.name) }).collect();
    for run in 1..=RUNS {
        for of in &mut measured {
            let name = of.row.transform.name;
            if of.streams.iter().all(|streams| streams.len() == RUNS) {
                continue;
            }
            if let Err(error) = bed.demand(of.row.demand).and_then(|()| bed.install(&of.row.transform)) {
                eprintln!("paper-004: {name} is absent: {error:#}");
                report.absent(format!("paper-004.{name}"), format!("{error:#}"));
                continue;
            }
            for (index, (_, words, sender, receiver)) in DIRECTIONS.into_iter().enumerate() {
                let stream = stream(&bed, &of.row.transform, iperf3, sender, receiver)
                    .with_context(|| format!("{name}, {words}"))?;
                let Stream { mbit, cpu: [tx, rx] } = stream;
                println!(
                    "paper-004: {name} ({words}), run {run}: {mbit:.2} Mbit/s, sender {tx:.1} %, receiver {rx:.1} %"
                );
                of.streams[index].push(stream);
            }
            bed.prove(&of.row.transform)?;
        }
    }
    measured.retain(|of| of.streams.iter().all(|streams| !streams.is_empty()));
    Ok(measured)
}

/// The rows that are to be measured. If an earlier run has all of them, they are put among the measured ones, and no
/// hosts are built for them.
fn to_measure<'r>(rows: Vec<&'r Row>, measured: &mut Vec<Measured<'r>>) -> Vec<&'r Row> {
    let all: Vec<_> = rows.iter().map(|row| Measured { row, streams: earlier(row.transform.name) }).collect();
    if all.iter().any(|of| of.streams.iter().any(Vec::is_empty)) {
        return rows;
    }
    measured.extend(all);
    Vec::new()
}

/// The streams of a row that an earlier run of the suite printed, if all of them are there.
fn earlier(name: &str) -> [Vec<Stream>; 2] {
    let text = std::env::var_os("RAVELIN_BENCH_RUNS").map(std::fs::read_to_string);
    let text = text.and_then(Result::ok).unwrap_or_default();
    let streams = DIRECTIONS.map(|(_, words, ..)| {
        let start = format!("paper-004: {name} ({words}), run ");
        text.lines().filter_map(|line| printed(line.strip_prefix(&start)?)).collect::<Vec<_>>()
    });
    if streams.iter().all(|streams| streams.len() == RUNS) { streams } else { Default::default() }
}

/// A stream from the end of its line, `1: 846.54 Mbit/s, sender 61.7 %, receiver 50.0 %`.
fn printed(line: &str) -> Option<Stream> {
    let numbers: Vec<f64> = line.split([' ', ':', ',']).filter_map(|word| word.parse().ok()).collect();
    let [_, mbit, sender, receiver] = numbers.as_slice() else { return None };
    Some(Stream { mbit: *mbit, cpu: [*sender, *receiver] })
}

/// Seconds that a stream lasts.
fn seconds() -> u64 {
    let asked = std::env::var("RAVELIN_BENCH_SECONDS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(SECONDS)
}

/// One TCP stream from a host to the other.
fn stream(
    bed: &Bed,
    transform: &Transform,
    iperf3: &Path,
    sender: Side,
    receiver: Side,
) -> anyhow::Result<Stream> {
    let [from, to] = [sender, receiver].map(|side| bed.host(transform, side));
    let alice = bed.host(transform, Side::Alice).cgroup().path();
    let weaker = CpuLimit::new("rvl-paper-004", WEAKER, alice)?;
    if let Some([daemon, _]) = bed.daemons(transform)? {
        weaker.take(daemon)?;
    }
    let server = flow::serve(to, iperf3)?;
    let peer = receiver.v4().to_string();
    let length = seconds().to_string();
    let cpu = || -> anyhow::Result<[Duration; 2]> {
        Ok([process::cgroup_time(from.cgroup().path())?, process::cgroup_time(to.cgroup().path())?])
    };
    let before = cpu()?;
    let started = Instant::now();
    let client =
        from.spawn(lab::Program::new(iperf3).args(["-c", &peer, "-p", "5201", "-J", "-t", &length]))?;
    weaker.take(if sender == Side::Alice { client.pid() } else { server.pid() })?;
    let answer = client.finish(PATIENCE)?;
    let took = started.elapsed();
    let after = cpu()?;
    server.finish(PATIENCE)?;
    ensure!(answer.status.success(), "iperf3: {}{}", answer.out(), answer.err());
    let each = |side: usize| 100.0 * (after[side] - before[side]).as_secs_f64() / took.as_secs_f64();
    Ok(Stream { mbit: flow::delivered(&answer.out())?.gbit * 1000.0, cpu: [each(0), each(1)] })
}

impl Measured<'_> {
    fn median(&self, direction: usize) -> f64 {
        let mut rates: Vec<f64> = self.streams[direction].iter().map(|stream| stream.mbit).collect();
        crate::interleave::median(&mut rates)
    }

    fn report(&self, report: &mut Report) {
        let Row { transform, paper, .. } = self.row;
        for (index, (word, ..)) in DIRECTIONS.into_iter().enumerate() {
            let anchor = match paper {
                Some(paper) => format!("{}; the paper's {:.2} Mbit/s", transform.title, paper[index]),
                None => transform.title.to_owned(),
            };
            let streams = &self.streams[index];
            let mut figure = |part: &str, unit, of: &dyn Fn(&Stream) -> f64| {
                let rounds: Vec<f64> = streams.iter().map(of).collect();
                let name = format!("paper-004.{}.{word}.{part}", transform.name);
                report.push(Figure::new(name, unit, &rounds, anchor.clone(), Target::Recorded));
            };
            figure("mbit", "Mbit/s", &|stream| stream.mbit);
            figure("sender", "%", &|stream| stream.cpu[0]);
            figure("receiver", "%", &|stream| stream.cpu[1]);
        }
    }
}

/// One row's rate by another's, and the share of the time that is cipher.
fn ratios(measured: &[Measured<'_>], report: &mut Report) {
    let find = |name: &str| measured.iter().find(|of| of.row.transform.name == name);
    for prefix in ["", "soft."] {
        for (of, by, words) in [
            ("maes512ctr", "aes256ctr", "the paper: 0.43, 0.44"),
            ("3des", "aes256ctr", "the paper: 0.65, 0.65"),
            ("ah.maes512cbc", "ah.aes192cbc", "the paper: 0.43, 0.44"),
            ("ah.3des", "ah.aes192cbc", "the paper: 0.65, 0.65"),
        ] {
            let pair = find(&format!("{prefix}{of}")).zip(find(&format!("{prefix}{by}")));
            let Some((of_row, by_row)) = pair else { continue };
            for (index, (word, ..)) in DIRECTIONS.into_iter().enumerate() {
                let ratio = of_row.median(index) / by_row.median(index);
                let name = format!("paper-004.{prefix}{of}.{word}.ratio");
                let anchor = format!("rate by that of {}; {words}", by_row.row.transform.title);
                report.push(Figure::new(name, "ratio", &[ratio], anchor, Target::Recorded));
            }
        }
        let Some(null) = find(&format!("{prefix}null-sha256")) else { continue };
        for of in ["aes256ctr", "maes512ctr", "kuznyechik", "sm4"] {
            let Some(row) = find(&format!("{prefix}{of}")) else { continue };
            for (index, (word, ..)) in DIRECTIONS.into_iter().enumerate() {
                let share = 1.0 - row.median(index) / null.median(index);
                let name = format!("paper-004.{prefix}{of}.{word}.cipher_share");
                let anchor = "share of the time that is cipher: against ESP NULL with the same integrity";
                report.push(Figure::new(name, "ratio", &[share], anchor, Target::Recorded));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_printed_is_a_stream_again() {
        let stream = printed("3: 846.54 Mbit/s, sender 61.7 %, receiver 50.0 %").unwrap();
        assert_eq!((stream.mbit, stream.cpu), (846.54, [61.7, 50.0]));
        assert!(printed("3: Mbit/s").is_none());
    }
}
