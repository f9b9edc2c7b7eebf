//! `path.{null,aes128gcm,chacha20poly1305}.{1,8}.*`: bulk TCP of an unmodified iperf3 through two daemons and a wire, in turns with
//! the null tunnel ([`crate::tunnel`]: the same devices, bursts and coalesced packets, no engine), and the bare cipher beside them.
//!
//! `tx` and `rx` are the CPU time of the sender's and of the receiver's carrier, acknowledgements and the kernel's work on
//! their behalf included, for each octet that iperf3 received. On a pair of `veth` devices the sender's share includes the
//! wire and the receiving host's stack up to the socket. `{tx,rx}.of_sum` is that of the product against the null tunnel's and
//! the bare cipher's (packets of 1400 octets) added.

use super::FigureFilter;
use super::engine::Bare;
use super::null;
use crate::figure::{Figure, Report, Target};
use crate::flow::{self, Flow};
use crate::interleave::median;
use crate::process;
use crate::product;
use crate::stage::{Stage, program};
use crate::tunnel::TunnelDirection;
use anyhow::{Context, ensure};
use crypto::SuiteId;
use lab::Side;
use lab::rig::{Pair, Rig};
use std::path::{Path, PathBuf};

const ROUNDS: usize = 5;
/// Octets of a round.
const OCTETS: u64 = 768 << 20;
/// Octets of the flow before the first round, to warm caches and routes.
const WARM_UP: u64 = 64 << 20;
/// The most that the product may cost, against null tunnel and cipher added.
const MOST: f64 = 1.2;
/// Octets of the packets that the bare cipher seals, and how many.
const PACKET: usize = 1400;
const PACKETS: usize = 400_000;

const SUITES: [(SuiteId, &str); 2] =
    [(SuiteId::AES_128_GCM, "aes128gcm"), (SuiteId::CHACHA20_POLY1305, "chacha20poly1305")];

struct Tunnel {
    rig: Rig,
    iperf3: PathBuf,
}

/// One round: the null tunnel, then each suite's product and its bare cipher.
struct Round {
    null: Flow,
    product: [Flow; SUITES.len()],
    /// Nanoseconds that each bare cipher takes for an octet.
    bare: [f64; SUITES.len()],
}

/// Measure the figures `path.*` that `filter` asks for.
pub(super) fn run(filter: &str, report: &mut Report) -> anyhow::Result<()> {
    let mut figures = FigureFilter { filter, report };
    let wanted: Vec<u32> = [1, 8]
        .into_iter()
        .filter(|flows| {
            let product = SUITES.iter().flat_map(|(_, name)| names(name, *flows));
            product.chain(names("null", *flows)).any(|name| figures.wants(&name))
        })
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let iperf3 = program("iperf3")?;
    let null = null::Tunnel::build(TunnelDirection::Bursts, &iperf3)?;
    let tunnels = [Tunnel::build(SUITES[0].1, &iperf3)?, Tunnel::build(SUITES[1].1, &iperf3)?];
    for flows in wanted {
        null.flow(WARM_UP, flows)?;
        tunnels.iter().try_for_each(|tunnel| tunnel.flow(WARM_UP, flows).map(drop))?;
        let mut rounds = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            rounds.push(Round {
                null: null.flow(OCTETS, flows)?,
                product: [tunnels[0].flow(OCTETS, flows)?, tunnels[1].flow(OCTETS, flows)?],
                bare: [bare(SUITES[0].0)?, bare(SUITES[1].0)?],
            });
        }
        record(&rounds, flows, &mut figures);
    }
    Ok(())
}

fn names(name: &str, flows: u32) -> [String; 5] {
    ["tx_ns_per_byte", "rx_ns_per_byte", "gbit", "tx.of_sum", "rx.of_sum"]
        .map(|what| format!("path.{name}.{flows}.{what}"))
}

fn record(rounds: &[Round], flows: u32, figures: &mut FigureFilter<'_>) {
    let each = |of: &dyn Fn(&Round) -> f64| rounds.iter().map(of).collect::<Vec<f64>>();
    let units = ["ns/byte", "ns/byte", "Gbit/s"];
    let of: [fn(&Flow) -> f64; 3] = [|flow| flow.tx, |flow| flow.rx, |flow| flow.gbit];
    for ((name, unit), of) in names("null", flows).into_iter().zip(units).zip(of) {
        let anchor = format!("iperf3, {flows} flow(s), {} MiB a round", OCTETS >> 20);
        figures.push(Figure::new(name, unit, &each(&|round| of(&round.null)), anchor, Target::Recorded));
    }
    for (index, (_, suite)) in SUITES.into_iter().enumerate() {
        let names = names(suite, flows);
        let bare = median(&mut each(&|round| round.bare[index]));
        for ((name, unit), of) in names.iter().zip(units).zip(of) {
            let null = median(&mut each(&|round| of(&round.null)));
            let values = each(&|round| of(&round.product[index]));
            let anchor = format!("null {null:.3} in turns, bare cipher {bare:.3} ns/byte");
            figures.push(Figure::new(name, unit, &values, anchor, Target::Recorded));
        }
        for (name, of) in names.iter().skip(3).zip(of) {
            let values = each(&|round| of(&round.product[index]) / (of(&round.null) + round.bare[index]));
            let anchor = "product / (null tunnel + bare cipher)".to_owned();
            figures.push(Figure::new(name, "ratio", &values, anchor, Target::AtMost(MOST)));
        }
    }
}

/// CPU time that the bare cipher takes for an octet.
pub(super) fn bare(suite: SuiteId) -> anyhow::Result<f64> {
    let mut cipher = Bare::new(suite);
    let mut packets = vec![[0x5a; PACKET]; 64];
    let before = process::cpu_time(std::process::id())?;
    for index in 0..PACKETS {
        cipher.seal(&mut packets[index % 64]);
    }
    let spent = process::cpu_time(std::process::id())? - before;
    Ok(spent.as_nanos() as f64 / (PACKETS * PACKET) as f64)
}

impl Tunnel {
    fn build(suite: &'static str, iperf3: &Path) -> anyhow::Result<Tunnel> {
        let daemon = Some(product::own()?);
        let name = if suite == "aes128gcm" { "gcm" } else { "chacha" };
        let stage = Stage { name, daemon, args: &[], program: iperf3, networks: "" };
        let pair = Pair { mode: "tunnel", suite, ..Pair::default() };
        Ok(Tunnel { rig: stage.build_with(&pair)?, iperf3: iperf3.to_owned() })
    }

    /// Flows from alice to bob.
    fn flow(&self, octets: u64, flows: u32) -> anyhow::Result<Flow> {
        self.measure(octets, flows).context("a flow through the product")
    }

    fn measure(&self, octets: u64, flows: u32) -> anyhow::Result<Flow> {
        let daemons = [self.rig.daemon(Side::Alice)?.pid(), self.rig.daemon(Side::Bob)?.pid()];
        let carried = self.carried()?;
        let (flow, delivered) = flow::bulk(&self.rig.lab, &self.iperf3, daemons, octets, flows)?;
        let carried = self.carried()?.saturating_sub(carried);
        ensure!(carried >= delivered, "the association carried {carried} of {delivered} octets");
        Ok(flow)
    }

    /// Octets that bob's inbound association has opened up to now: proof that the flow was in the tunnel.
    fn carried(&self) -> anyhow::Result<u64> {
        let list = self.rig.json(Side::Bob, &["sa", "list"])?;
        let sas = list["sas"].as_array().context("`sa list` says no associations")?;
        let inbound = sas.iter().filter(|sa| sa["direction"] == "in");
        Ok(inbound.filter_map(|sa| sa["counters"]["bytes"].as_u64()).sum())
    }
}
