//! Bulk TCP between the two hosts of a lab, and what it cost the two programs that carry it.

use crate::process;
use crate::stage::succeeded;
use anyhow::{Context, ensure};
use netio::lab::{Lab, Program, Side, Transport};
use std::path::Path;
use std::time::Duration;

const PORT: u16 = 5201;
/// A round may be slow where others build.
const PATIENCE: Duration = Duration::from_secs(120);

/// What one transfer was like.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Nanoseconds an octet, the sender's carrier.
    pub tx: f64,
    /// Nanoseconds an octet, the receiver's carrier.
    pub rx: f64,
    /// Goodput.
    pub gbit: f64,
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
    let (alice, bob) = (lab.alice(), lab.bob());
    let [sender, receiver] = carriers;
    let (port, peer) = (PORT.to_string(), Side::Bob.v4().to_string());
    let mut server = bob.spawn(Program::new(iperf3).args(["-s", "-1", "-p", &port]))?;
    bob.wait_for_listener(Transport::Tcp, PORT, &mut server, PATIENCE)?;

    let before = (process::cpu_time(sender)?, process::cpu_time(receiver)?);
    let (size, flows) = (octets.to_string(), flows.to_string());
    let args = ["-c", &peer, "-p", &port, "-n", &size, "-P", &flows, "-J"];
    let answer = succeeded("iperf3", &alice.run_program(Program::new(iperf3).args(args), PATIENCE)?)?;
    let after = (process::cpu_time(sender)?, process::cpu_time(receiver)?);
    server.finish(PATIENCE)?;

    let answer: serde_json::Value = serde_json::from_str(&answer).context("reading iperf3's answer")?;
    let received = &answer["end"]["sum_received"];
    let delivered = received["bytes"].as_u64().context("iperf3 says no octets")?;
    let rate = received["bits_per_second"].as_f64().context("iperf3 says no rate")?;
    ensure!(delivered >= octets / 2, "iperf3 delivered {delivered} of {octets} octets");
    let each = |after: Duration, before: Duration| (after - before).as_nanos() as f64 / delivered as f64;
    Ok((Flow { tx: each(after.0, before.0), rx: each(after.1, before.1), gbit: rate / 1e9 }, delivered))
}
