//! `peers.{name}.{1,8}.*`: bulk TCP of an unmodified iperf3 through every user-space tunnel that this machine can have, in
//! turns: one round of each, five times. Inner packets have at most 1,420 octets. What cannot be had is reported as absent.
//!
//! - `gbit`: goodput, what iperf3's server received.
//! - `tx_ns_per_byte`, `rx_ns_per_byte`: CPU time of the sending and of the receiving carrier process for each octet that was
//!   received, in user and kernel mode, soft interrupts that ran on its back included ([`crate::process::cpu_time`]).
//! - `tx_host_ns_per_byte`, `rx_host_ns_per_byte`: CPU time of everything on that host, iperf3 included (its cgroup's
//!   `cpu.stat`). The only one that a pair of bare `veth` devices has.
//! - `softirqd_ns_per_byte`: what the kernel's own soft interrupt threads spent meanwhile, which is on neither account.
//! - `peers.ratio.{1,8}.*`: Ravelin against a peer of the same round, and its CPU time against that of the null tunnel and the
//!   bare cipher added.

use super::FigureFilter;
use super::null;
use super::path::bare;
use crate::figure::{Figure, Report, Target};
use crate::flow::{self, Delivered};
use crate::peers::{BORINGTUN, GOTATUN, INNER_MTU, Link, OpenVpn, Plain, Swan, WIREGUARD_GO, WireGuard};
use crate::process;
use crate::stage::{Stage, program};
use crate::tunnel::TunnelDirection;
use anyhow::{Context, ensure};
use crypto::SuiteId;
use lab::rig::{Pair, Rig};
use lab::{Lab, Side};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tests::strongswan::Proposal;

const ROUNDS: usize = 5;
/// Seconds that iperf3 sends in a round, and before the first.
const SECONDS: &str = "2";
const WARM_UP: &str = "1";
/// Headers of IPv4 and TCP: the largest segment is this much shorter than a packet.
const HEADERS: u16 = 40;
/// Outer packet around an inner one of 1,420 octets: ESP in UDP over IPv4 with an ICV of 16 (RFC 4303, 3948, 4106).
const PATH_MTU: &str = "1484";

const GCM: &str = "ravelin-aes128gcm";
const CHACHA: &str = "ravelin-chacha20poly1305";
const SUITES: [(SuiteId, &str); 2] = [(SuiteId::AES_128_GCM, GCM), (SuiteId::CHACHA20_POLY1305, CHACHA)];

/// Ravelin's, a peer's, and how many times the peer's goodput it must have.
const GOODPUT: [(&str, &str, Target); 9] = [
    (GCM, "wireguard-go", Target::AtLeast(2.0)),
    (CHACHA, "wireguard-go", Target::AtLeast(1.4)),
    (GCM, "strongswan-aes128gcm", Target::AtLeast(15.0)),
    (CHACHA, "strongswan-chacha20poly1305", Target::AtLeast(15.0)),
    (CHACHA, "gotatun", Target::Recorded),
    (CHACHA, "boringtun", Target::Recorded),
    (GCM, "openvpn-aes128gcm", Target::Recorded),
    (GCM, "null", Target::Recorded),
    (CHACHA, "null", Target::Recorded),
];
/// The most CPU time that Ravelin may take, against null tunnel and cipher added.
const MOST: f64 = 1.2;

/// One round of one link.
#[derive(Clone, Copy, Debug)]
struct Round {
    delivered: Delivered,
    /// Nanoseconds an octet: sender and receiver; not a number where no process carries.
    carriers: [f64; 2],
    hosts: [f64; 2],
    softirqd: f64,
}

/// A link and its rounds, one list for each number of flows.
struct Contender {
    name: &'static str,
    link: Box<dyn Link>,
    rounds: Vec<Round>,
}

type Build<'a> = Box<dyn Fn() -> anyhow::Result<Box<dyn Link>> + 'a>;

/// Measure all peers, and report the figures `peers.*` that `filter` asks for.
pub(super) fn run(filter: &str, report: &mut Report) -> anyhow::Result<()> {
    let mut figures = FigureFilter { filter, report };
    let iperf3 = program("iperf3")?;
    let mut contenders = gather(&iperf3, &mut figures);
    for flows in [1, 8] {
        contenders.retain_mut(|contender| {
            contender.rounds.clear();
            contender.keep_if(contender.measure(&iperf3, flows, WARM_UP).map(drop), &mut figures)
        });
        let mut ciphers = [Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            // Each goes first once, so that nobody is always behind the same one.
            let count = contenders.len().max(1);
            contenders.rotate_left(round.min(1) % count);
            contenders.retain_mut(|contender| {
                let done = contender.measure(&iperf3, flows, SECONDS);
                let done = done.map(|measured| contender.rounds.push(measured));
                if let Some(last) = contender.rounds.last() {
                    let (name, gbit) = (contender.name, last.delivered.gbit);
                    eprintln!(
                        "peers: {flows} flow(s), round {} of {ROUNDS}: {name} {gbit:.2} Gbit/s",
                        round + 1
                    );
                }
                contender.keep_if(done, &mut figures)
            });
            for (rounds, (suite, _)) in ciphers.iter_mut().zip(SUITES) {
                rounds.push(bare(suite)?);
            }
        }
        contenders.sort_by_key(|contender| place(contender.name));
        record(&contenders, flows, &ciphers, &mut figures);
    }
    println!("{}", summary(report));
    Ok(())
}

/// The figures that matter most, one line a peer, as Markdown.
fn summary(report: &Report) -> String {
    let find = |name: &str| report.figures().iter().find(|figure| figure.name == name);
    let mut text = "| | Gbit/s, 1 flow | CPU ns/byte, sender / receiver | Gbit/s, 8 flows | CPU ns/byte, sender / receiver |\n\
                    |---|---|---|---|---|\n"
        .to_owned();
    for name in NAMES {
        let Some(_) = find(&format!("peers.{name}.1.gbit")) else { continue };
        text.push_str(&format!("| {name} |"));
        for flows in [1, 8] {
            let cell = |part: &str| find(&format!("peers.{name}.{flows}.{part}"));
            if let Some(gbit) = cell("gbit") {
                text.push_str(&format!(" {:.2} ({:.2} to {:.2}) |", gbit.value, gbit.min, gbit.max));
            }
            match (cell("tx_ns_per_byte"), cell("rx_ns_per_byte")) {
                (Some(tx), Some(rx)) => text.push_str(&format!(" {:.2} / {:.2} |", tx.value, rx.value)),
                _ => text.push_str(" |"),
            }
        }
        text.push('\n');
    }
    text
}

/// The names of the ways, in the order in which they are built and shown.
const NAMES: [&str; 10] = [
    "veth",
    "null",
    GCM,
    CHACHA,
    "wireguard-go",
    "gotatun",
    "boringtun",
    "strongswan-aes128gcm",
    "strongswan-chacha20poly1305",
    "openvpn-aes128gcm",
];

fn place(name: &str) -> Option<usize> {
    NAMES.iter().position(|known| *known == name)
}

fn build<'a>(name: &str, iperf3: &'a Path) -> Build<'a> {
    match name {
        "veth" => Box::new(|| Ok(Box::new(Plain::build()?))),
        "null" => Box::new(|| Ok(Box::new(null::Tunnel::build(TunnelDirection::Bursts, iperf3)?))),
        GCM => Box::new(|| Ok(Box::new(Product::build("peer-gcm", "aes128gcm", iperf3)?))),
        CHACHA => Box::new(|| Ok(Box::new(Product::build("peer-chacha", "chacha20poly1305", iperf3)?))),
        "wireguard-go" => Box::new(|| Ok(Box::new(WireGuard::build("go", &WIREGUARD_GO.install()?, &[])?))),
        "gotatun" => Box::new(|| Ok(Box::new(WireGuard::build("gota", &GOTATUN.install()?, &[ROOT])?))),
        "boringtun" => Box::new(|| Ok(Box::new(WireGuard::build("boring", &BORINGTUN.install()?, &[ROOT])?))),
        "strongswan-aes128gcm" => Box::new(|| {
            let proposal = Proposal { theirs: "aes128gcm16", ours: "aes128gcm" };
            Ok(Box::new(Swan::build("swan-gcm", proposal)?))
        }),
        "strongswan-chacha20poly1305" => Box::new(|| {
            let proposal = Proposal { theirs: "chacha20poly1305", ours: "chacha20poly1305" };
            Ok(Box::new(Swan::build("swan-chacha", proposal)?))
        }),
        _ => Box::new(|| Ok(Box::new(OpenVpn::build("openvpn", "AES-128-GCM")?))),
    }
}

/// The Rust ones give up root where they can, and cannot reach their sockets then.
const ROOT: &str = "--disable-drop-privileges";

/// Every link that is wanted and can be had.
fn gather(iperf3: &Path, figures: &mut FigureFilter<'_>) -> Vec<Contender> {
    let mut contenders = Vec::new();
    for name in NAMES {
        // A part of the figures needs its own link, and the ratios those on both sides.
        if !figures.filter.is_empty() && !figures.filter.split(',').any(|part| name.contains(part)) {
            continue;
        }
        eprintln!("peers: setting up {name}");
        match build(name, iperf3)() {
            Ok(link) => contenders.push(Contender { name, link, rounds: Vec::new() }),
            Err(error) => figures.absent(&format!("peers.{name}"), &error),
        }
    }
    contenders
}

impl Contender {
    /// iperf3 through the link for so long.
    fn measure(&self, iperf3: &Path, flows: u32, seconds: &str) -> anyhow::Result<Round> {
        let lab = self.link.lab();
        let server = flow::serve(lab.bob(), iperf3)?;
        let (before, carried) = (Account::read(self.link.as_ref())?, self.link.carried()?);
        let (flows, segment) = (flows.to_string(), (INNER_MTU - HEADERS).to_string());
        let args = ["-t", seconds, "-P", &flows, "-M", &segment];
        let answer = flow::ask(lab.alice(), iperf3, self.link.target().into(), &args)?;
        let (after, now) = (Account::read(self.link.as_ref())?, self.link.carried()?);
        server.finish(Duration::from_secs(30))?;

        let delivered = flow::delivered(&answer)?;
        ensure!(delivered.octets > 0, "nothing was delivered");
        if let (Some(carried), Some(now)) = (carried, now) {
            let more = now.saturating_sub(carried);
            let octets = delivered.octets;
            ensure!(more >= octets, "the association carried {more} of {octets} octets");
        }
        let each = |after: Duration, before: Duration| {
            after.saturating_sub(before).as_nanos() as f64 / delivered.octets as f64
        };
        let pair = |after: [Duration; 2], before: [Duration; 2]| {
            [each(after[0], before[0]), each(after[1], before[1])]
        };
        let carriers = match (after.carriers, before.carriers) {
            (Some(after), Some(before)) => pair(after, before),
            _ => [f64::NAN; 2],
        };
        let hosts = pair(after.hosts, before.hosts);
        Ok(Round { delivered, carriers, hosts, softirqd: each(after.softirqd, before.softirqd) })
    }

    /// Whether it goes on; one that failed is told of and ends here.
    fn keep_if(&self, done: anyhow::Result<()>, figures: &mut FigureFilter<'_>) -> bool {
        if let Err(error) = &done {
            figures.absent(&format!("peers.{}", self.name), error);
        }
        done.is_ok()
    }
}

/// CPU time up to now.
struct Account {
    carriers: Option<[Duration; 2]>,
    hosts: [Duration; 2],
    softirqd: Duration,
}

impl Account {
    fn read(link: &dyn Link) -> anyhow::Result<Account> {
        let carriers = match link.carriers() {
            Some([alice, bob]) => Some([process::cpu_time(alice)?, process::cpu_time(bob)?]),
            None => None,
        };
        let host = |side: Side| process::cgroup_time(link.lab().host(side).cgroup().path());
        let hosts = [host(Side::Alice)?, host(Side::Bob)?];
        Ok(Account { carriers, hosts, softirqd: process::softirq_time()? })
    }
}

/// Name, unit, and value of a round.
type Part = (&'static str, &'static str, fn(&Round) -> f64);

fn record(contenders: &[Contender], flows: u32, ciphers: &[Vec<f64>; 2], figures: &mut FigureFilter<'_>) {
    let parts: [Part; 7] = [
        ("gbit", "Gbit/s", |round| round.delivered.gbit),
        ("tx_ns_per_byte", "ns/byte", |round| round.carriers[0]),
        ("rx_ns_per_byte", "ns/byte", |round| round.carriers[1]),
        ("tx_host_ns_per_byte", "ns/byte", |round| round.hosts[0]),
        ("rx_host_ns_per_byte", "ns/byte", |round| round.hosts[1]),
        ("softirqd_ns_per_byte", "ns/byte", |round| round.softirqd),
        ("retransmits", "segments", |round| round.delivered.retransmits as f64),
    ];
    for contender in contenders {
        for (part, unit, of) in parts {
            let values: Vec<f64> = contender.rounds.iter().map(of).collect();
            if values.is_empty() || values.iter().any(|value| value.is_nan()) {
                continue;
            }
            let name = format!("peers.{}.{flows}.{part}", contender.name);
            let anchor = format!("{flows} flow(s), {SECONDS} s a round");
            figures.report.push(Figure::new(name, unit, &values, anchor, Target::Recorded));
        }
    }
    let rounds = |name: &str| contenders.iter().find(|contender| contender.name == name).map(|c| &c.rounds);
    for (ours, peer, target) in GOODPUT {
        let name = format!("peers.ratio.{flows}.{ours}.over.{peer}");
        let (Some(first), Some(second)) = (rounds(ours), rounds(peer)) else {
            if figures.filter.is_empty() {
                figures.report.absent(name, "one of the two is");
            }
            continue;
        };
        let pairs = first.iter().zip(second);
        let values: Vec<f64> = pairs.map(|(ours, peer)| ours.delivered.gbit / peer.delivered.gbit).collect();
        figures.report.push(Figure::new(name, "ratio", &values, "goodput, same round", target));
    }
    for ((_, ours), cipher) in SUITES.into_iter().zip(ciphers) {
        let (Some(product), Some(null)) = (rounds(ours), rounds("null")) else { continue };
        for (side, part) in ["tx", "rx"].into_iter().enumerate() {
            let values: Vec<f64> = (product.iter().zip(null).zip(cipher))
                .map(|((product, null), cipher)| product.carriers[side] / (null.carriers[side] + cipher))
                .collect();
            let name = format!("peers.ratio.{flows}.{ours}.{part}.of_sum");
            let anchor = "CPU time: product / (null tunnel + bare cipher)";
            figures.report.push(Figure::new(name, "ratio", &values, anchor, Target::AtMost(MOST)));
        }
    }
}

impl FigureFilter<'_> {
    fn absent(&mut self, name: &str, error: &anyhow::Error) {
        eprintln!("peers: {name} is absent: {error:#}");
        self.report.absent(name, format!("{error:#}"));
    }
}

impl Link for null::Tunnel {
    fn lab(&self) -> &Lab {
        self.lab()
    }

    fn target(&self) -> Ipv4Addr {
        Side::Bob.v4()
    }

    fn carriers(&self) -> Option<[u32; 2]> {
        Some(self.pids())
    }
}

/// Two `ravelin run`, iperf3 protected between them.
struct Product {
    rig: Rig,
    pids: [u32; 2],
}

impl Product {
    fn build(name: &'static str, suite: &'static str, iperf3: &Path) -> anyhow::Result<Product> {
        let stage = Stage { name, daemon: None::<PathBuf>, args: &[], program: iperf3, networks: "" };
        let mtu = vec!["--path-mtu".to_owned(), PATH_MTU.to_owned()];
        let pair = Pair { mode: "tunnel", suite, alice: mtu.clone(), bob: mtu, ..Pair::default() };
        let rig = stage.build_with(&pair)?;
        let pids = [rig.daemon(Side::Alice)?.pid(), rig.daemon(Side::Bob)?.pid()];
        Ok(Product { rig, pids })
    }
}

impl Link for Product {
    fn lab(&self) -> &Lab {
        &self.rig.lab
    }

    fn target(&self) -> Ipv4Addr {
        Side::Bob.v4()
    }

    fn carriers(&self) -> Option<[u32; 2]> {
        Some(self.pids)
    }

    fn carried(&self) -> anyhow::Result<Option<u64>> {
        let list = self.rig.json(Side::Bob, &["sa", "list"])?;
        let sas = list["sas"].as_array().context("`sa list` says no associations")?;
        let inbound = sas.iter().filter(|sa| sa["direction"] == "in");
        Ok(Some(inbound.filter_map(|sa| sa["counters"]["bytes"].as_u64()).sum()))
    }
}
