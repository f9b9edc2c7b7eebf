//! Bulk TCP between the two hosts of a lab, and what it cost the two programs that carry it.

use crate::process;
use crate::stage::succeeded;
use anyhow::{Context, ensure};
use lab::{Finished, Host, Lab, Program, Running, Side, Transport};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

const PORT: u16 = 5201;
/// A round may be slow where others build.
const PATIENCE: Duration = Duration::from_secs(120);

/// What one transfer was like.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Nanoseconds that the sender's carrier spends on an octet.
    pub tx: f64,
    /// Nanoseconds that the receiver's carrier spends on an octet.
    pub rx: f64,
    /// Goodput at the receiver, in Gbit/s.
    pub gbit: f64,
}

/// What iperf3 says of one transfer.
#[derive(Clone, Copy, Debug)]
pub struct Delivered {
    /// Octets that the receiver got.
    pub octets: u64,
    /// Goodput at the receiver, in Gbit/s.
    pub gbit: f64,
    /// Segments that were sent again.
    pub retransmits: u64,
}

/// iperf3 from alice to bob, `octets` in all over `flows` connections, carried by two processes. Also answers the octets that
/// were delivered.
///
/// # Errors
/// If iperf3 fails or a carrier has ended.
pub fn bulk(
    lab: &Lab,
    iperf3: &Path,
    carriers: [u32; 2],
    octets: u64,
    flows: u32,
) -> anyhow::Result<(Flow, u64)> {
    let [sender, receiver] = carriers;
    let (size, flows) = (octets.to_string(), flows.to_string());
    let server = serve(lab.bob(), iperf3)?;
    let before = (process::cpu_time(sender)?, process::cpu_time(receiver)?);
    let answer = ask(lab.alice(), iperf3, Side::Bob.v4().into(), &["-n", &size, "-P", &flows])?;
    let after = (process::cpu_time(sender)?, process::cpu_time(receiver)?);
    server.finish(PATIENCE)?;

    let Delivered { octets: delivered, gbit, .. } = delivered(&answer)?;
    ensure!(delivered >= octets / 2, "iperf3 delivered {delivered} of {octets} octets");
    let each = |after: Duration, before: Duration| (after - before).as_nanos() as f64 / delivered as f64;
    Ok((Flow { tx: each(after.0, before.0), rx: each(after.1, before.1), gbit }, delivered))
}

/// iperf3 on bob, for one client.
///
/// # Errors
/// If it does not listen.
pub fn serve(bob: &Host, iperf3: &Path) -> anyhow::Result<Running> {
    let mut server = bob.spawn(Program::new(iperf3).args(["-s", "-1", "-p", &PORT.to_string()]))?;
    bob.wait_for_listener(Transport::Tcp, PORT, &mut server, PATIENCE)?;
    Ok(server)
}

/// iperf3 on alice; its answer as JSON.
///
/// # Errors
/// If it fails.
pub fn ask(alice: &Host, iperf3: &Path, peer: IpAddr, args: &[&str]) -> anyhow::Result<String> {
    let program = Program::new(iperf3).args(["-c", &peer.to_string(), "-p", &PORT.to_string(), "-J"]);
    let finished: Finished = alice.run_program(program.args(args), PATIENCE)?;
    // With -J an error is in the document.
    succeeded("iperf3", &finished)
}

/// Read the JSON document that iperf3 prints.
///
/// # Errors
/// If it lacks a sum.
pub fn delivered(answer: &str) -> anyhow::Result<Delivered> {
    let answer: serde_json::Value = serde_json::from_str(answer).context("reading iperf3's answer")?;
    let received = &answer["end"]["sum_received"];
    let octets = received["bytes"].as_u64().context("iperf3 says no octets")?;
    let rate = received["bits_per_second"].as_f64().context("iperf3 says no rate")?;
    let retransmits = answer["end"]["sum_sent"]["retransmits"].as_u64().unwrap_or(0);
    Ok(Delivered { octets, gbit: rate / 1e9, retransmits })
}
