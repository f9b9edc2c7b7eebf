//! `path.{null,aes128gcm}.*`: one bulk TCP flow of an unmodified iperf3 through two daemons and a wire, in turns by a
//! tunnel whose transform does nothing and by one that encrypts. Both are the same program with another registry of
//! suites.
//!
//! `tx` and `rx` are the CPU time of the sender's and of the receiver's daemon, acknowledgements and the kernel's work on
//! their behalf included, for each octet that iperf3 received. On a pair of `veth` devices the sender's share includes the
//! wire and the receiving host's stack up to the daemon's socket.

use super::Wanted;
use crate::figure::{Figure, Report, Target};
use crate::flow::{self, Flow};
use crate::interleave::median;
use crate::product;
use crate::stage::{Stage, program};
use anyhow::{Context, ensure};
use netio::lab::Side;
use ravelin::rig::Rig;
use std::path::{Path, PathBuf};

const ROUNDS: usize = 7;
/// Octets of a round.
const OCTETS: u64 = 256 << 20;
/// Octets of the flow before the first round, to warm caches and routes.
const WARM_UP: u64 = 32 << 20;

struct Tunnel {
    name: &'static str,
    rig: Rig,
    iperf3: PathBuf,
}

/// Fill the report.
pub(super) fn run(filter: &str, report: &mut Report) -> anyhow::Result<()> {
    let mut figures = Wanted { filter, report };
    if ![&NULL[..], &GCM, &RATIOS].concat().iter().any(|name| figures.wants(name)) {
        return Ok(());
    }
    let iperf3 = program("iperf3")?;
    let null = Tunnel::build("null", &product::NULL, &iperf3)?;
    let gcm = Tunnel::build("aes128gcm", &[], &iperf3)?;
    let mut flows = Vec::with_capacity(ROUNDS);
    for tunnel in [&null, &gcm] {
        tunnel.flow(WARM_UP)?;
    }
    for round in 0..ROUNDS {
        // Each goes first every other time.
        flows.push(if round % 2 == 0 {
            let first = null.flow(OCTETS)?;
            (first, gcm.flow(OCTETS)?)
        } else {
            let first = gcm.flow(OCTETS)?;
            (null.flow(OCTETS)?, first)
        });
    }
    record(&flows, &mut figures);
    Ok(())
}

const NULL: [&str; 3] = ["path.null.tx.ns_per_byte", "path.null.rx.ns_per_byte", "path.null.gbit_per_s"];
const GCM: [&str; 3] =
    ["path.aes128gcm.tx.ns_per_byte", "path.aes128gcm.rx.ns_per_byte", "path.aes128gcm.gbit_per_s"];
const RATIOS: [&str; 2] = ["path.aes128gcm.gbit_per_s.ratio", "path.aes128gcm.ns_per_byte.ratio"];

fn record(flows: &[(Flow, Flow)], figures: &mut Wanted<'_>) {
    let rounds = |of: fn(&(Flow, Flow)) -> f64| flows.iter().map(of).collect::<Vec<f64>>();
    let null = [rounds(|(null, _)| null.tx), rounds(|(null, _)| null.rx), rounds(|(null, _)| null.gbit)];
    let gcm = [rounds(|(_, gcm)| gcm.tx), rounds(|(_, gcm)| gcm.rx), rounds(|(_, gcm)| gcm.gbit)];
    for (index, (null, gcm)) in null.into_iter().zip(gcm).enumerate() {
        let unit = if index == 2 { "Gbit/s" } else { "ns/byte" };
        let flow = format!("iperf3, one flow, {} MiB a round", OCTETS >> 20);
        let against = format!("null {:.3} in turns", median(&mut null.clone()));
        figures.push(Figure::new(NULL[index], unit, &null, flow, Target::Recorded));
        figures.push(Figure::new(GCM[index], unit, &gcm, against, Target::Recorded));
    }
    let rate = rounds(|(null, gcm)| gcm.gbit / null.gbit);
    figures.push(Figure::new(RATIOS[0], "ratio", &rate, "aes128gcm / null", Target::Recorded));
    let cost = rounds(|(null, gcm)| (gcm.tx + gcm.rx) / (null.tx + null.rx));
    figures.push(Figure::new(RATIOS[1], "ratio", &cost, "aes128gcm / null, tx + rx", Target::Recorded));
}

impl Tunnel {
    fn build(name: &'static str, args: &[&str], iperf3: &Path) -> anyhow::Result<Tunnel> {
        let daemon = Some(product::own()?);
        let stage = Stage { name, daemon, args, program: iperf3, networks: "" };
        Ok(Tunnel { name, rig: stage.build()?, iperf3: iperf3.to_owned() })
    }

    /// One flow from alice to bob.
    fn flow(&self, octets: u64) -> anyhow::Result<Flow> {
        self.measure(octets).with_context(|| format!("a flow through the tunnel {}", self.name))
    }

    fn measure(&self, octets: u64) -> anyhow::Result<Flow> {
        let daemons = [self.rig.daemon(Side::Alice)?.pid(), self.rig.daemon(Side::Bob)?.pid()];
        let carried = self.carried()?;
        let (flow, delivered) = flow::bulk(&self.rig.lab, &self.iperf3, daemons, octets, 1)?;
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
