//! `null.{bursts,packets}.{1,8}.*`: bulk TCP through the null tunnel ([`crate::tunnel`]), in turns by the one way and by the
//! other.

use super::FigureFilter;
use crate::figure::{Figure, Report, Target};
use crate::flow::{self, Flow};
use crate::interleave::median;
use crate::product;
use crate::stage::program;
use crate::tunnel::{PORT, TunnelDirection};
use anyhow::Context;
use lab::{Lab, LabOptions, Program, Running, Side, Transport};
use std::path::{Path, PathBuf};
use std::time::Duration;

const ROUNDS: usize = 5;
/// Octets of a round, and of the round before the first.
const OCTETS: u64 = 1 << 30;
const WARM_UP: u64 = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(30);

const WAYS: [TunnelDirection; 2] = [TunnelDirection::Bursts, TunnelDirection::Packets];

/// Two hosts with a null tunnel between them.
pub(super) struct Tunnel {
    way: TunnelDirection,
    carriers: [Running; 2],
    lab: Lab,
    iperf3: PathBuf,
}

/// Measure the figures `null.*` of the null tunnel that `filter` asks for.
pub(super) fn run(filter: &str, report: &mut Report) -> anyhow::Result<()> {
    let mut figures = FigureFilter { filter, report };
    let iperf3 = program("iperf3")?;
    for flows in [1, 8] {
        let names = WAYS.map(|way| names(way, flows));
        if !names.concat().iter().any(|name| figures.wants(name)) {
            continue;
        }
        let tunnels = [
            Tunnel::build(TunnelDirection::Bursts, &iperf3)?,
            Tunnel::build(TunnelDirection::Packets, &iperf3)?,
        ];
        for tunnel in &tunnels {
            tunnel.flow(WARM_UP, flows)?;
        }
        let mut rounds = [Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            for index in [round % 2, 1 - round % 2] {
                // A packet a call is slow: a quarter tells as much.
                let octets = if tunnels[index].way == TunnelDirection::Bursts { OCTETS } else { OCTETS / 4 };
                rounds[index].push(tunnels[index].flow(octets, flows)?);
            }
        }
        for (names, rounds) in names.iter().zip(&rounds) {
            record(names, rounds, flows, &mut figures);
        }
    }
    Ok(())
}

fn names(way: TunnelDirection, flows: u32) -> [String; 3] {
    ["tx_ns_per_byte", "rx_ns_per_byte", "gbit"].map(|what| format!("null.{}.{flows}.{what}", way.name()))
}

fn record(names: &[String; 3], rounds: &[Flow], flows: u32, figures: &mut FigureFilter<'_>) {
    let of = |what: fn(&Flow) -> f64| rounds.iter().map(what).collect::<Vec<f64>>();
    let [tx, rx, gbit] = names;
    let anchor = || format!("iperf3, {flows} flow(s), rate {:.2} Gbit/s", median(&mut of(|f| f.gbit)));
    figures.push(Figure::new(tx, "ns/byte", &of(|f| f.tx), anchor(), Target::Recorded));
    figures.push(Figure::new(rx, "ns/byte", &of(|f| f.rx), anchor(), Target::Recorded));
    figures.push(Figure::new(gbit, "Gbit/s", &of(|f| f.gbit), anchor(), Target::Recorded));
}

fn instance(way: TunnelDirection, side: Side) -> String {
    format!("null-{}-{}", way.name(), side.name())
}

impl Tunnel {
    pub(super) fn build(way: TunnelDirection, iperf3: &Path) -> anyhow::Result<Tunnel> {
        for side in Side::BOTH {
            sockmon::detach(&instance(way, side)).context("removing what a crash left")?;
        }
        let lab = Lab::build(&LabOptions { name: format!("rvl-null-{}", way.name()), segmentation: true })?;
        let start = |side: Side| -> anyhow::Result<Running> {
            let host = if side == Side::Alice { lab.alice() } else { lab.bob() };
            let program = Program::new(product::own()?)
                .args(["tunnel", &instance(way, side), side.name()])
                .arg(host.cgroup().path())
                .arg(iperf3)
                .arg(way.name());
            let mut carrier = host.spawn(program)?;
            host.wait_for_listener(Transport::Udp, PORT, &mut carrier, PATIENCE)?;
            Ok(carrier)
        };
        let carriers = [start(Side::Alice)?, start(Side::Bob)?];
        Ok(Tunnel { way, carriers, lab, iperf3: iperf3.to_owned() })
    }

    /// The lab with both hosts.
    pub(super) fn lab(&self) -> &Lab {
        &self.lab
    }

    /// The carriers' process ids, alice's first.
    pub(super) fn pids(&self) -> [u32; 2] {
        self.carriers.each_ref().map(Running::pid)
    }

    pub(super) fn flow(&self, octets: u64, flows: u32) -> anyhow::Result<Flow> {
        let flow = flow::bulk(&self.lab, &self.iperf3, self.pids(), octets, flows);
        let said = || self.carriers.each_ref().map(Running::output).concat();
        Ok(flow.with_context(|| format!("a flow by {}; {}", self.way.name(), said()))?.0)
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        for side in Side::BOTH {
            // Nothing can be done here; the next run tries again and says so.
            let _ = sockmon::detach(&instance(self.way, side));
        }
    }
}
