//! `paper-000.*`: the experiment of paper 000 section 5 again, with the real daemons and the programs of the distribution: 5000 files of
//! 2 KB and one of 100 MB by FTP and by sftp, five rounds, every way in turn.
//!
//! - `{way}.{small,large}.s`: seconds until all files are there. Ways: `ftp` and `sftp` (no daemon), `ftp.static-fast`, `ftp.static-secure`
//!   and `sftp.static` (rules of the SPD for whole hosts), `ftp.fast`, `ftp.secure` and `sftp.policy` (application policies,
//!   Figures 7 and 9), and these three once more as `*.per-socket` (the paper's own translation). sftp and ESP have one cipher, AES-128-GCM.
//! - Without our kernel half: `ftp` and `sftp` against `ftp.hooks` and `sftp.hooks` (daemon and all hooks, traffic in clear), and
//!   `ftp.strongswan` (ESP with AES-128-GCM by strongSwan in user space, no policy of programs). Static rules of *ours* cannot be had without
//!   it: it is what brings packets to the daemon. The kernel's own IPsec, the paper's baseline, needs CONFIG_INET_ESP and CONFIG_INET_AH.
//! - `cost.{way}.us`: what a way costs for each of the 5000 connections, more than the way that it is compared with in the same round
//!   (paper: 1.1 ms). The ranges are wide: what is measured is some microseconds among hundreds. `cost-by-table.{way}.us` is the difference of
//!   the medians, which is the paper's formula. `hooks.{way}.us` is the run time of all BPF programs of both hosts for each
//!   connection, by the kernel's own count.
//! - `share.{way}.{small,large}.%`: the policy's part of the whole time (Figure 10), by the paper's formula: the difference of the table's
//!   values. The range is that of the rounds, each by itself.
//!
//! Table and plots go to `docs/papers/000` when Cargo runs this.

use super::FigureFilter;
use crate::figure::{Figure, Report, Target};
use crate::interleave::median;
use crate::paper::files::{Files, Protocol, SMALL, Servers, peer_of};
use crate::paper::plot::{Mark, Plot};
use crate::paper::transform::{Member, import};
use crate::peers::{FrameContent, Link, Swan};
use crate::process::bpf_runs;
use crate::product;
use ::tests::strongswan::Proposal;
use anyhow::{Context, ensure};
use lab::rig::{Rig, RigOptions};
use lab::{Lab, LabOptions, Side};
use sockmon::Sockmon;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

const ROUNDS: usize = 5;

/// What the hosts do beside the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Hosts {
    /// The hosts run no daemon.
    Bare,
    /// strongSwan, with its data path in user space.
    Swan,
    /// Rules of the SPD for every program.
    Static,
    /// Application policies, translated when they are loaded.
    Compiled,
    /// Application policies, translated when a socket appears.
    PerSocket,
}

/// What is demanded for the control connection, and for everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demand {
    Nothing,
    /// Figure 9: the control connection is encrypted, data are authenticated.
    Fast,
    /// Figure 9: everything is encrypted.
    Secure,
    /// Figure 7: everything is authenticated.
    Authenticated,
}

/// One way to fetch files.
struct TransferPath {
    name: &'static str,
    /// The paper's name of it, and its seconds for both workloads.
    paper: Option<(&'static str, [f64; 2])>,
    protocol: Protocol,
    hosts: Hosts,
    demand: Demand,
    /// What it is compared with: the static rules that give the same protection; for traffic in clear, hosts without a daemon.
    against: Option<&'static str>,
}

const fn way(name: &'static str, protocol: Protocol, hosts: Hosts, demand: Demand) -> TransferPath {
    let policy = matches!(hosts, Hosts::Compiled | Hosts::PerSocket);
    let against = match demand {
        Demand::Fast if policy => Some("ftp.static-fast"),
        Demand::Secure if policy => Some("ftp.static-secure"),
        Demand::Authenticated if policy => Some("sftp.static"),
        Demand::Nothing if matches!(hosts, Hosts::Static) => match protocol {
            Protocol::Ftp => Some("ftp"),
            Protocol::Sftp => Some("sftp"),
        },
        _ => None,
    };
    TransferPath { name, paper: None, protocol, hosts, demand, against }
}

const fn as_in(paper: &'static str, seconds: [f64; 2], way: TransferPath) -> TransferPath {
    TransferPath { paper: Some((paper, seconds)), ..way }
}

use Protocol::{Ftp, Sftp};
const WAYS: [TransferPath; 14] = [
    as_in("FTP", [4.838, 9.837], way("ftp", Ftp, Hosts::Bare, Demand::Nothing)),
    way("ftp.hooks", Ftp, Hosts::Static, Demand::Nothing),
    way("ftp.strongswan", Ftp, Hosts::Swan, Demand::Secure),
    as_in("FTP with AH/ESP", [6.133, 9.983], way("ftp.static-fast", Ftp, Hosts::Static, Demand::Fast)),
    as_in("FTP with Fast Policy", [11.909, 10.062], way("ftp.fast", Ftp, Hosts::Compiled, Demand::Fast)),
    way("ftp.fast.per-socket", Ftp, Hosts::PerSocket, Demand::Fast),
    as_in("FTP with ESP", [7.383, 14.262], way("ftp.static-secure", Ftp, Hosts::Static, Demand::Secure)),
    as_in(
        "FTP with Secure Policy",
        [13.131, 14.282],
        way("ftp.secure", Ftp, Hosts::Compiled, Demand::Secure),
    ),
    way("ftp.secure.per-socket", Ftp, Hosts::PerSocket, Demand::Secure),
    as_in("sftp", [20.945, 9.355], way("sftp", Sftp, Hosts::Bare, Demand::Nothing)),
    way("sftp.hooks", Sftp, Hosts::Static, Demand::Nothing),
    as_in("sftp with AH", [21.776, 9.409], way("sftp.static", Sftp, Hosts::Static, Demand::Authenticated)),
    as_in(
        "sftp with App Policy",
        [22.493, 9.452],
        way("sftp.policy", Sftp, Hosts::Compiled, Demand::Authenticated),
    ),
    way("sftp.policy.per-socket", Sftp, Hosts::PerSocket, Demand::Authenticated),
];
const WORKLOADS: [&str; 2] = ["small", "large"];

/// Two hosts, with servers on bob that end before them.
struct Bed {
    _servers: Servers,
    pair: Pair,
}

/// The hosts, with daemons if there are any.
enum Pair {
    Bare(Box<Lab>),
    Swan(Box<FrameContent>),
    Guarded(Box<Rig>),
}

/// Measure the ways of paper 000 whose names begin with `filter`.
pub(super) fn run(filter: &str, report: &mut Report) -> anyhow::Result<()> {
    let figures = FigureFilter { filter, report };
    eprintln!("paper-000: setting up");
    let files = Files::make(Path::new("/run/ravelin-bench-files"))?;
    let mut beds = BTreeMap::new();
    let mut wanted: Vec<&TransferPath> =
        WAYS.iter().filter(|way| filter.is_empty() || way.name.starts_with(filter)).collect();
    for way in &wanted {
        if let Entry::Vacant(place) = beds.entry(way.hosts) {
            match build(way.hosts, &files) {
                Ok(bed) => drop(place.insert(bed)),
                Err(error) => {
                    figures.report.absent(format!("paper-000.{:?}", way.hosts), format!("{error:#}"));
                }
            }
        }
    }
    wanted.retain(|way| beds.contains_key(&way.hosts));
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let rounds = crate::rounds(ROUNDS);
    for round in 1..=rounds {
        wanted.retain(|way| {
            let done = beds[&way.hosts].prepare(way, &files).and_then(|()| {
                WORKLOADS.iter().try_for_each(|workload| {
                    let seconds = beds[&way.hosts].fetch(&files, way.protocol, *workload == "large")?;
                    eprintln!(
                        "paper-000: round {round} of {rounds}: {}, {workload}: {seconds:.2} s",
                        way.name
                    );
                    values.entry(format!("{}.{workload}", way.name)).or_default().push(seconds);
                    anyhow::Ok(())
                })?;
                beds[&way.hosts].prove(way)
            });
            if let Err(error) = &done {
                eprintln!("paper-000: {} is absent: {error:#}", way.name);
                figures.report.absent(format!("paper-000.{}", way.name), format!("{error:#}"));
            }
            done.is_ok()
        });
    }
    for way in &wanted {
        for workload in WORKLOADS {
            let rounds = &values[&format!("{}.{workload}", way.name)];
            let name = format!("paper-000.{}.{workload}.s", way.name);
            let anchor = way.paper.map_or_else(String::new, |(name, seconds)| {
                format!("paper: {name}, {} s", seconds[usize::from(workload == "large")])
            });
            figures.report.push(Figure::new(name, "s", rounds, anchor, Target::Recorded));
        }
        compare(way, &values, figures.report);
    }
    for way in wanted.iter().filter(|way| way.hosts >= Hosts::Compiled && way.protocol == Ftp) {
        let (each, runs) = hooks(&beds[&way.hosts], way, &files).context("counting the runs of hooks")?;
        let anchor =
            format!("all BPF programs of both hosts, {runs:.0} runs a file; with the kernel's counting");
        let name = format!("paper-000.hooks.{}.us", way.name);
        figures.report.push(Figure::new(name, "us", &[each], anchor, Target::Recorded));
    }
    if filter.is_empty() {
        publish(figures.report)?;
    }
    Ok(())
}

/// What a way costs more than the one that it is compared with.
fn compare(way: &TransferPath, values: &BTreeMap<String, Vec<f64>>, report: &mut Report) {
    let Some(against) = way.against else { return };
    for workload in WORKLOADS {
        let rounds = |of: &str| values.get(&format!("{of}.{workload}"));
        let (Some(ours), Some(fixed)) = (rounds(way.name), rounds(against)) else { continue };
        let both = || ours.iter().zip(fixed);
        let table = (median(&mut ours.clone()), median(&mut fixed.clone()));
        let share = |(ours, fixed): (f64, f64)| 100.0 * (ours - fixed) / ours;
        let shares: Vec<f64> = both().map(|(ours, fixed)| share((*ours, *fixed))).collect();
        let anchor = match (way.hosts >= Hosts::Compiled && way.protocol == Ftp, workload) {
            (true, "small") => {
                "of the whole time, medians as in the table; paper: fast 48.5 %, secure 43.8 %"
            }
            _ => "of the whole time, medians as in the table",
        };
        let name = format!("paper-000.share.{}.{workload}.%", way.name);
        let mut figure = Figure::new(name, "%", &shares, anchor, Target::Recorded);
        figure.value = share(table);
        report.push(figure);
        if workload == "small" {
            let each = |total: f64| total * 1e6 / SMALL.0 as f64;
            let cost: Vec<f64> = both().map(|(ours, fixed)| each(ours - fixed)).collect();
            let anchor = format!("{against}, same round; paper: 1100 us");
            let name = format!("paper-000.cost.{}.us", way.name);
            report.push(Figure::new(name, "us", &cost, anchor, Target::Recorded));
            let anchor = format!("{against}, difference of the medians; paper: 1100 us");
            let name = format!("paper-000.cost-by-table.{}.us", way.name);
            report.push(Figure::new(name, "us", &[each(table.0 - table.1)], anchor, Target::Recorded));
        }
    }
}

/// Microseconds and runs of BPF programs for each file, in one pass of the small workload.
fn hooks(bed: &Bed, way: &TransferPath, files: &Files) -> anyhow::Result<(f64, f64)> {
    bed.prepare(way, files)?;
    let Pair::Guarded(rig) = &bed.pair else { anyhow::bail!("hosts without a daemon have no hooks") };
    let runs = || -> anyhow::Result<_> {
        let [alice, bob] = Side::BOTH.map(|side| rig.daemon(side).and_then(|daemon| bpf_runs(daemon.pid())));
        let (alice, bob) = (alice?, bob?);
        Ok((alice.nanoseconds + bob.nanoseconds, alice.count + bob.count))
    };
    let statistics = Sockmon::enable_stats()?;
    let before = runs()?;
    bed.fetch(files, way.protocol, false)?;
    let after = runs()?;
    drop(statistics);
    let each = |after: u64, before: u64| (after - before) as f64 / SMALL.0 as f64;
    Ok((each(after.0, before.0) / 1000.0, each(after.1, before.1)))
}

fn build(hosts: Hosts, files: &Files) -> anyhow::Result<Bed> {
    let name = match hosts {
        Hosts::Bare => "rvl-p000-bare",
        Hosts::Swan => "p000-swan",
        Hosts::Static => "rvl-p000-static",
        Hosts::Compiled => "rvl-p000-compiled",
        Hosts::PerSocket => "rvl-p000-socket",
    };
    if hosts == Hosts::Bare {
        let lab = Lab::build(&LabOptions { name: name.to_owned(), segmentation: true })?;
        return Ok(Bed { _servers: files.serve(&lab)?, pair: Pair::Bare(Box::new(lab)) });
    }
    if hosts == Hosts::Swan {
        let carried = Swan::build(name, Proposal { theirs: "aes128gcm16", ours: "aes128gcm" })?;
        return Ok(Bed { _servers: files.serve(carried.lab())?, pair: Pair::Swan(Box::new(carried)) });
    }
    let options =
        RigOptions { name: name.to_owned(), binary: product::ravelin()?, daemon: None, segmentation: true };
    let mut rig = Rig::build(&options)?;
    for side in Side::BOTH {
        if hosts == Hosts::PerSocket {
            rig.configure(side, "translation = \"per-socket\"\n");
        }
        rig.set_policy(side, &policy(files, side, Demand::Secure, hosts)?)?;
    }
    rig.start_both()?;
    let mut lines = [String::new(), String::new()];
    let members = [Member::EspUdp("aes128gcm"), Member::Ah("sha256")];
    let ways = [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)];
    for (spi, (member, (from, to))) in (0x1000..).zip(members.iter().flat_map(|m| ways.map(|way| (m, way)))) {
        let (out, inward) = member.associations(spi, None, from, to, &crypto::Suites::standard())?;
        let _ = writeln!(lines[from as usize], "{out}");
        let _ = writeln!(lines[to as usize], "{inward}");
    }
    import(&rig, &lines)?;
    Ok(Bed { _servers: files.serve(&rig.lab)?, pair: Pair::Guarded(Box::new(rig)) })
}

impl Bed {
    fn lab(&self) -> &Lab {
        match &self.pair {
            Pair::Bare(lab) => lab,
            Pair::Swan(carried) => carried.lab(),
            Pair::Guarded(rig) => &rig.lab,
        }
    }

    /// The address of bob's servers for these hosts.
    fn target(&self) -> Ipv4Addr {
        match &self.pair {
            Pair::Swan(carried) => carried.target(),
            Pair::Bare(_) | Pair::Guarded(_) => Side::Bob.v4(),
        }
    }

    fn fetch(&self, files: &Files, protocol: Protocol, large: bool) -> anyhow::Result<f64> {
        files.fetch(self.lab().alice(), self.target(), protocol, large)
    }

    /// Make the hosts demand what this way demands.
    fn prepare(&self, way: &TransferPath, files: &Files) -> anyhow::Result<()> {
        let Pair::Guarded(rig) = &self.pair else { return Ok(()) };
        for side in Side::BOTH {
            if way.hosts == Hosts::Static {
                rules(rig, side, way.demand)?;
            } else {
                rig.set_policy(side, &policy(files, side, way.demand, way.hosts)?)?;
                rig.reload(side)?;
            }
        }
        Ok(())
    }

    /// Whether both associations of a way that needs both were used.
    fn prove(&self, way: &TransferPath) -> anyhow::Result<()> {
        let Pair::Guarded(rig) = &self.pair else { return Ok(()) };
        let list = rig.json(Side::Bob, &["sa", "list"])?;
        let sas = list["sas"].as_array().context("`sa list` says no associations")?;
        ensure!(sas.len() == 4, "{} associations", sas.len());
        let wanted: &[&str] = match way.demand {
            Demand::Nothing => &[],
            Demand::Fast => &["esp", "ah"],
            Demand::Secure => &["esp"],
            Demand::Authenticated => &["ah"],
        };
        for sa in sas.iter().filter(|sa| sa["type"].as_str().is_some_and(|name| wanted.contains(&name))) {
            ensure!(sa["counters"]["packets"].as_u64() > Some(0), "an association carried nothing: {sa}");
        }
        Ok(())
    }
}

/// Policies of the servers on bob or of the clients on alice. Where rules decide, of a program that nobody runs.
fn policy(files: &Files, side: Side, demand: Demand, hosts: Hosts) -> anyhow::Result<String> {
    let peer = peer_of(side);
    if hosts == Hosts::Static {
        return Ok(format!("application \"/bin/sleep\" {{ network {peer} untrusted; }}\n"));
    }
    let of = |protocol| anyhow::Ok(files.programs(protocol)?[usize::from(side == Side::Alice)].clone());
    let control =
        if side == Side::Alice { "localport=any remoteport=21" } else { "localport=21 remoteport=any" };
    let data = if demand == Demand::Fast { "authentication" } else { "encryption" };
    Ok(format!(
        "application \"{}\" {{\n  network {peer} protected P;\n  protection P {{\n    {control} encryption mandatory;\n    \
         localport=any remoteport=any {data} mandatory;\n  }}\n}}\n\
         application \"{}\" {{\n  network {peer} protected Enh;\n  protection Enh {{\n    \
         localport=any remoteport=any authentication mandatory;\n  }}\n}}\n",
        of(Ftp)?.display(),
        of(Sftp)?.display(),
    ))
}

/// Set a host's rules of the SPD to what `demand` asks of whole hosts, whoever sends.
fn rules(rig: &Rig, side: Side, demand: Demand) -> anyhow::Result<()> {
    rig.ravelin(side, &["spd", "flush"], "")?;
    if demand == Demand::Nothing {
        return Ok(());
    }
    let peer = peer_of(side);
    let control = if side == Side::Alice { "remote-port 21" } else { "local-port 21" };
    let add = |name: &str, what: &str, service: &str| {
        let selector = format!("uid 0-65535 remote {peer} {what}");
        let args =
            ["spd", "add", "--name", name, "--direction", "out", "--action", "protect", "--service", service];
        rig.ravelin(side, &[&args[..], &["--selector", &selector]].concat(), "").map(drop)
    };
    let data = match demand {
        Demand::Secure => "encryption",
        _ => "authentication",
    };
    if demand != Demand::Authenticated {
        add("control", &format!("proto tcp {control}"), "encryption")?;
    }
    add("rest", "", data)
}

/// The folder for the tables and plots of the paper.
pub(super) fn folder() -> PathBuf {
    match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(crate_) => PathBuf::from(crate_).join("../docs/papers/000"),
        None => PathBuf::from("target/bench/paper-000"),
    }
}

/// The table beside the paper's, and the plots.
fn publish(report: &Report) -> anyhow::Result<()> {
    let folder = folder();
    fs::create_dir_all(&folder)?;
    let find = |name: &str| report.figures().iter().find(|figure| figure.name == name);
    let mut text = String::from(
        "| way | the paper's | small files, s | its | large file, s | its |\n|---|---|---|---|---|---|\n",
    );
    for way in &WAYS {
        let cell = |workload: &str| {
            let figure = find(&format!("paper-000.{}.{workload}.s", way.name))?;
            Some(format!("{:.2} ({:.2} to {:.2})", figure.value, figure.min, figure.max))
        };
        let (Some(small), Some(large)) = (cell("small"), cell("large")) else { continue };
        let (name, its) = match way.paper {
            Some((name, [small, large])) => (name, [format!("{small}"), format!("{large}")]),
            None => ("", [String::new(), String::new()]),
        };
        let _ = writeln!(text, "| `{}` | {name} | {small} | {} | {large} | {} |", way.name, its[0], its[1]);
    }
    fs::write(folder.join("table.md"), &text)?;
    println!("{text}");
    let mark = |name: String| find(&name).map(|f| Mark { min: f.min, value: f.value, max: f.max });
    let seconds = |workload: &str| {
        let marks = WAYS.iter().map(|way| mark(format!("paper-000.{}.{workload}.s", way.name)));
        (format!("{workload} file{}", if workload == "small" { "s" } else { "" }), marks.collect())
    };
    let categories: Vec<&str> = WAYS.iter().map(|way| way.name).collect();
    let title = "5000 files of 2 KB, one of 100 MB";
    let series = WORKLOADS.map(seconds).into();
    Plot { title, axis: "seconds (logarithmic)", log: true, categories, series }
        .write(&folder.join("files.svg"))?;

    // Figure 10, both workloads, theirs by the same formula. The paper's own numbers have no range.
    let policies: Vec<&TransferPath> =
        WAYS.iter().filter(|way| way.hosts >= Hosts::Compiled && way.protocol == Ftp).collect();
    let categories: Vec<&str> = policies.iter().map(|way| way.name).collect();
    let mut series = Vec::new();
    for (index, workload) in WORKLOADS.iter().enumerate() {
        let ours = policies.iter().map(|way| mark(format!("paper-000.share.{}.{workload}.%", way.name)));
        series.push((format!("{workload}, measured"), ours.collect()));
        let theirs = policies.iter().map(|way| {
            let value = papers_share(way, index)?;
            Some(Mark { min: value, value, max: value })
        });
        series.push((format!("{workload}, paper"), theirs.collect()));
    }
    let title = "The policy's part of the whole time";
    Plot { title, axis: "%", log: false, categories, series }.write(&folder.join("share.svg"))?;
    eprintln!("paper-000: table and plots in {}", folder.display());
    Ok(())
}

/// The policy's part of the time in the paper's tables, percent.
fn papers_share(way: &TransferPath, workload: usize) -> Option<f64> {
    let (_, policy) = way.paper?;
    let against = WAYS.iter().find(|other| Some(other.name) == way.against)?;
    let (_, fixed) = against.paper?;
    Some(100.0 * (policy[workload] - fixed[workload]) / policy[workload])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_10_is_the_papers_by_the_papers_formula() {
        let of =
            |name: &str, workload| papers_share(WAYS.iter().find(|way| way.name == name).unwrap(), workload);
        let near = |got: Option<f64>, want: f64| assert!((got.unwrap() - want).abs() < 0.1, "{got:?} {want}");
        near(of("ftp.fast", 0), 48.5);
        near(of("ftp.secure", 0), 43.8);
        near(of("ftp.fast", 1), 0.8);
        near(of("ftp.secure", 1), 0.1);
        assert_eq!(of("ftp.fast.per-socket", 0), None);
    }

    #[test]
    fn every_way_is_told_apart_and_is_compared_with_one_that_is_there() {
        for (index, way) in WAYS.iter().enumerate() {
            let there = |name: &str| WAYS.iter().any(|other| other.name == name);
            assert!(WAYS[..index].iter().all(|other| other.name != way.name));
            assert!(way.against.is_none_or(there), "{}", way.name);
            let in_clear = way.hosts == Hosts::Static && way.demand == Demand::Nothing;
            assert_eq!(way.against.is_some(), in_clear || way.hosts >= Hosts::Compiled, "{}", way.name);
        }
        // Section 5.2: "about 1.1ms".
        let cost: f64 = (11.909 - 6.133) * 1e6 / SMALL.0 as f64;
        assert!((1100.0..1200.0).contains(&cost), "{cost}");
    }
}
