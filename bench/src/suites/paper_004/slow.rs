//! IPComp in front of mAES-512, over a link of 20 Mbit/s (paper 004 section 11: compression before encryption).

use std::time::Duration;

use anyhow::ensure;
use lab::{Program, Side, Transport};
use serde_json::json;

use crate::figure::{Figure, Report, Target};
use crate::product;
use crate::stage::{program, succeeded};
use lab::rig::{Rig, RigOptions};

const CONFIGURATION: &str = "[[cipher]]\nbuiltin = \"maes512\"\n";
const SUITE: &str = "maes512ctr-sha256";
/// The link, as tc(8) has it.
const LINK: &str = "rate 20mbit burst 32kb latency 100ms";
/// Octets of a transfer.
const OCTETS: &str = "6000000";
const PORT: u16 = 7019;
const ROUNDS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(60);

/// Measure text and random octets, with compression and without, in turn.
pub(super) fn run(report: &mut Report) -> anyhow::Result<()> {
    let own = product::own()?;
    let options = RigOptions {
        name: "rvl-paper-004c".to_owned(),
        binary: product::ravelin()?,
        daemon: None,
        segmentation: true,
    };
    let mut rig = Rig::build(&options)?;
    for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
        rig.configure(side, CONFIGURATION);
        rig.set_policy(
            side,
            &format!(
                "application \"{}\" {{\n  network {} protected P;\n  protection P {{ encryption mandatory suite {SUITE}; }}\n}}\n",
                own.display(),
                peer.v4()
            ),
        )?;
    }
    rig.start_both()?;
    for side in Side::BOTH {
        let shape = format!("{} qdisc replace dev eth0 root tbf {LINK}", program("tc")?.display());
        let shell = Program::new(program("bash")?).args(["-ec", &shape]);
        succeeded("tc", &rig.lab.host(side).run_program(shell, PATIENCE)?)?;
    }
    for (what, kind, target) in
        [("text", "text", Target::AtLeast(2.0)), ("random octets", "random", Target::AtLeast(0.97))]
    {
        let mut rounds = Vec::new();
        for round in 0..ROUNDS {
            let mut rates = [0.0; 2];
            for (index, compressed) in [false, true].into_iter().enumerate() {
                install(&rig, compressed, (round * 2 + index) as u8)?;
                rates[index] = transfer(&rig, &own, kind)?;
            }
            println!(
                "paper-004: {what} over 20 Mbit/s: {:.2} Mbit/s without IPComp, {:.2} with it",
                rates[0], rates[1]
            );
            rounds.push(rates[1] / rates[0]);
        }
        let anchor = format!("{what} over 20 Mbit/s (tbf), mAES-512: goodput with IPComp by that without it");
        report.push(Figure::new(
            format!("paper-004.slow.ipcomp.{kind}.ratio"),
            "ratio",
            &rounds,
            anchor,
            target,
        ));
    }
    Ok(())
}

/// Fresh associations, with IPComp inside of ESP or without.
fn install(rig: &Rig, compressed: bool, number: u8) -> anyhow::Result<()> {
    let mut lines = [String::new(), String::new()];
    for (way, (from, to)) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)].into_iter().enumerate() {
        let mut key = [0; 100];
        netio::random::fill(&mut key)?;
        let key: String = key.iter().map(|octet| format!("{octet:02x}")).collect();
        let spi = 0x2000 + 16 * u32::from(number) + 2 * way as u32;
        for (direction, local, remote) in [("out", from, to), ("in", to, from)] {
            let mut members = vec![json!({
                "direction": direction, "spi": format!("{spi:#x}"), "local": local.v4(), "remote": remote.v4(),
                "mode": "transport", "suite": SUITE, "keymat": key, "type": "esp",
            })];
            if compressed {
                let mut inner = json!({
                    "direction": direction, "spi": format!("{:#x}", 0x300 + 16 * u32::from(number) + way as u32),
                    "local": local.v4(), "remote": remote.v4(), "mode": "transport", "type": "ipcomp",
                });
                if direction == "out" {
                    inner["next"] = format!("{spi:#x}").into();
                }
                members.push(inner);
            }
            for member in members {
                lines[local as usize] += &format!("{member}\n");
            }
        }
    }
    for side in Side::BOTH {
        rig.ravelin(side, &["sa", "flush"], "")?;
    }
    crate::paper::transform::import(rig, &lines)
}

/// Mbit/s of one transfer from alice to bob.
fn transfer(rig: &Rig, own: &std::path::Path, kind: &str) -> anyhow::Result<f64> {
    let address = format!("{}:{PORT}", Side::Bob.v4());
    let (alice, bob) = (rig.lab.alice(), rig.lab.bob());
    let mut drain = bob.spawn(Program::new(own).args(["load", "drain", &address]))?;
    bob.wait_for_listener(Transport::Tcp, PORT, &mut drain, PATIENCE)?;
    let sent = Program::new(own).args(["load", "transfer", &address, OCTETS, kind]);
    let took = succeeded("sending", &alice.run_program(sent, PATIENCE)?)?;
    let got = succeeded("receiving", &drain.finish(PATIENCE)?)?;
    ensure!(got.trim() == OCTETS, "{} of {OCTETS} octets arrived", got.trim());
    let (octets, nanoseconds): (f64, f64) = (OCTETS.parse()?, took.trim().parse()?);
    Ok(octets * 8.0 / nanoseconds * 1e3)
}
