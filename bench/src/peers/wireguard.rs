//! WireGuard in user space: any program that makes the device that it is given the name of, and is set up by `wg`.

use super::{FrameContent, INNER_MTU, PATIENCE, Scratch, inner, ip, lab, run, wait, wait_for_answer};
use crate::peers::install::debian;
use anyhow::Context;
use lab::{Lab, Program, Running, Side};
use std::fs;
use std::path::{Path, PathBuf};

const PORT: u16 = 51820;

/// A tunnel by a WireGuard program in user space.
pub struct WireGuard;

/// A device's name is also that of a socket in a folder that all namespaces share.
struct Device(String);

impl WireGuard {
    /// Start `program` on both hosts, with `args`, and let them greet each other. `name` is at most ten letters.
    ///
    /// # Errors
    /// If a program is missing, ends, or does not answer.
    pub fn build(name: &str, program: &Path, args: &[&str]) -> anyhow::Result<FrameContent> {
        let wg = debian("wg", "wireguard-tools")?;
        let lab = lab(name)?;
        let scratch = Scratch::new(name)?;
        let devices = Side::BOTH.map(|side| Device::new(name, side));
        let start = |side: Side| -> anyhow::Result<Running> {
            let device = &devices[side as usize].0;
            let program = Program::new(program).arg("-f").args(args).arg(device).env("LOG_LEVEL", "error");
            let host = lab.host(side);
            let mut running = host.spawn(program)?;
            wait(&format!("{name} on {}", side.name()), || {
                anyhow::ensure!(!running.has_ended()?, "it has ended: {}", running.output());
                Ok(host.run_program(Program::new(&wg).args(["show", device]), PATIENCE)?.status.success())
            })?;
            Ok(running)
        };
        let carriers = [start(Side::Alice)?, start(Side::Bob)?];
        let keys = Side::BOTH.map(|side| scratch.path(side.name()));
        let mut public = Vec::new();
        for (side, path) in Side::BOTH.into_iter().zip(&keys) {
            let host = lab.host(side);
            let private = run(host, &wg, &["genkey"])?;
            fs::write(path, &private)?;
            let made = host.run_program(Program::new(&wg).arg("pubkey").input(private), PATIENCE)?;
            public.push(made.out().trim().to_owned());
        }
        for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
            let (host, device) = (lab.host(side), &devices[side as usize].0);
            let key = keys[side as usize].display().to_string();
            let allowed = format!("{}/32", inner(peer));
            let (port, endpoint) = (PORT.to_string(), format!("{}:{PORT}", peer.v4()));
            let mut args = vec!["set", device, "private-key", &key, "listen-port", &port];
            args.extend(["peer", &public[peer as usize], "allowed-ips", &allowed, "endpoint", &endpoint]);
            run(host, &wg, &args)?;
            ip(host, &format!("addr add {}/24 dev {device}", inner(side)))?;
            ip(host, &format!("link set {device} mtu {INNER_MTU} up"))?;
        }
        wait_for_answer(&lab, inner(Side::Bob))?;
        let pids = carriers.each_ref().map(Running::pid);
        Ok(FrameContent { pids, target: inner(Side::Bob), _kept: Box::new((carriers, devices)), lab })
    }

    /// Have both ends of a link called `name` also carry what goes between two networks, alice's first.
    ///
    /// # Errors
    /// If a program refuses.
    pub fn carry(lab: &Lab, name: &str, networks: [&str; 2]) -> anyhow::Result<()> {
        let wg = debian("wg", "wireguard-tools")?;
        for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
            let (host, device, far) = (lab.host(side), device_name(name, side), networks[peer as usize]);
            let peers = run(host, &wg, &["show", &device, "peers"])?;
            let key = peers.lines().next().context("no peer")?;
            let allowed = format!("{}/32,{far}", inner(peer));
            run(host, &wg, &["set", &device, "peer", key, "allowed-ips", &allowed])?;
            ip(host, &format!("route add {far} dev {device}"))?;
        }
        Ok(())
    }
}

fn device_name(name: &str, side: Side) -> String {
    format!("rvl{name}{}", &side.name()[..1])
}

impl Device {
    fn new(name: &str, side: Side) -> Device {
        let device = Device(device_name(name, side));
        device.remove_socket();
        device
    }

    /// What a crash left would look like an answer.
    fn remove_socket(&self) {
        let _ = fs::remove_file(PathBuf::from(format!("/var/run/wireguard/{}.sock", self.0)));
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.remove_socket();
    }
}
