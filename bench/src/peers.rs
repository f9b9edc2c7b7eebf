//! The programs that Ravelin is compared with, each between two lab hosts of its own.
//!
//! What enters: the tools that this machine has, or that a package registry gives. What leaves: a [`Link`] by which TCP goes
//! from alice to bob, and the processes that carry it; or the reason why there is none. No inner packet is longer than
//! [`INNER_MTU`].

mod install;
mod openvpn;
mod swan;
mod wireguard;

pub use install::{BORINGTUN, GOTATUN, Tool, WIREGUARD_GO};
pub use openvpn::OpenVpn;
pub use swan::Swan;
pub use wireguard::WireGuard;

use anyhow::{Context, ensure};
use lab::{Host, Lab, LabOptions, Program, Side};
use std::any::Any;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest inner packet, as WireGuard's tools choose it.
pub const INNER_MTU: u16 = 1420;

/// How long a peer may take to come up, where others build.
const PATIENCE: Duration = Duration::from_secs(30);

/// A way from alice to bob. Dropping it ends its programs and removes its hosts.
pub trait Link {
    /// The hosts at both ends of the way.
    fn lab(&self) -> &Lab;

    /// The address of bob at the far end.
    fn target(&self) -> Ipv4Addr;

    /// The processes that carry packets, alice's first; none where the kernel alone does.
    fn carriers(&self) -> Option<[u32; 2]>;

    /// Octets that came out at bob's end up to now, by the carrier's own count; none if it does not say.
    ///
    /// # Errors
    /// If the carrier does not answer.
    fn carried(&self) -> anyhow::Result<Option<u64>> {
        Ok(None)
    }
}

/// Two hosts and nothing between them but the wire.
pub struct Plain(Lab);

impl Plain {
    /// Build both hosts, with the MTU of the inner packets of tunnels.
    ///
    /// # Errors
    /// Without root, or where the kernel refuses a part.
    pub fn build() -> anyhow::Result<Plain> {
        let lab = lab("veth")?;
        for side in Side::BOTH {
            ip(lab.host(side), &format!("link set eth0 mtu {INNER_MTU}"))?;
        }
        Ok(Plain(lab))
    }
}

impl Link for Plain {
    fn lab(&self) -> &Lab {
        &self.0
    }

    fn target(&self) -> Ipv4Addr {
        Side::Bob.v4()
    }

    fn carriers(&self) -> Option<[u32; 2]> {
        None
    }
}

/// Two programs, one on each host, that carry packets between them in user space.
pub struct FrameContent {
    pids: [u32; 2],
    target: Ipv4Addr,
    /// The programs, and what is to go behind them. The hosts go last.
    _kept: Box<dyn Any>,
    lab: Lab,
}

impl Link for FrameContent {
    fn lab(&self) -> &Lab {
        &self.lab
    }

    fn target(&self) -> Ipv4Addr {
        self.target
    }

    fn carriers(&self) -> Option<[u32; 2]> {
        Some(self.pids)
    }
}

/// A host's address inside, where the peer has no choice of its own.
fn inner(side: Side) -> Ipv4Addr {
    match side {
        Side::Alice => Ipv4Addr::new(10, 9, 0, 1),
        Side::Bob => Ipv4Addr::new(10, 9, 0, 2),
    }
}

/// Two hosts for a peer; what an earlier run left of it is removed first.
fn lab(name: &str) -> anyhow::Result<Lab> {
    Ok(Lab::build(&LabOptions { name: format!("rvl-peer-{name}"), segmentation: true })?)
}

/// Run `ip` on a host.
fn ip(host: &Host, args: &str) -> anyhow::Result<()> {
    run(host, Path::new("ip"), &args.split(' ').collect::<Vec<_>>()).map(drop)
}

/// Run a program on a host to its end; what it printed.
fn run(host: &Host, program: &Path, args: &[&str]) -> anyhow::Result<String> {
    let done = host.run_program(Program::new(program).args(args), PATIENCE)?;
    let what = || format!("{} {}: {}{}", program.display(), args.join(" "), done.out(), done.err());
    ensure!(done.status.success(), "{}", what());
    Ok(done.out())
}

/// Look again and again until it is so.
fn wait(what: &str, done: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    tests::try_wait_until(what, PATIENCE, done)
}

/// Bob's address answers alice.
fn wait_for_answer(lab: &Lab, target: Ipv4Addr) -> anyhow::Result<()> {
    wait(&format!("an answer of {target}"), || {
        let args = ["-n", "-c", "1", "-W", "1", &target.to_string()];
        Ok(lab.alice().run_program(Program::new("ping").args(args), PATIENCE)?.status.success())
    })
}

/// A folder for keys and settings of a peer, for root alone; goes with this value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> anyhow::Result<Scratch> {
        let path = Path::new("/run/ravelin").join(format!("bench-peer-{name}"));
        // What a crash left.
        let _ = fs::remove_dir_all(&path);
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.with_context(|| format!("making {}", path.display()))?;
        Ok(Scratch(path))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
