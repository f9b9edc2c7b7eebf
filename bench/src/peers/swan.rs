//! strongSwan with its own data path in user space (kernel-libipsec): ESP in UDP, tunnel mode. Its inner packets have at most 1,400
//! octets: larger ones it does not read from its device, whatever MTU that is given.

use super::install::debian;
use super::{FrameContent, PATIENCE, Scratch, ip, lab, wait_for_answer};
use anyhow::ensure;
use lab::{Lab, Program, Side};
use std::path::Path;
use tests::strongswan::{Charon, Proposal, add_inner, inner};

/// Packets that may wait at its device: more than the default of 500, which loses more.
const QUEUE: usize = 2000;

/// A tunnel by strongSwan, its data path in user space.
pub struct Swan;

impl Swan {
    /// Start both daemons and let them negotiate a child of this suite. `name` names the hosts.
    ///
    /// # Errors
    /// If a program is missing or the negotiation fails.
    pub fn build(name: &str, proposal: Proposal) -> anyhow::Result<FrameContent> {
        debian("charon-systemd", "charon-systemd")?;
        debian("swanctl", "strongswan-swanctl")?;
        let lab = lab(name)?;
        let scratch = Scratch::new(name)?;
        for side in Side::BOTH {
            add_inner(lab.host(side))?;
        }
        let start = |side: Side| Charon::start(lab.host(side), &scratch.0, false, &[proposal]);
        let bob = start(Side::Bob)?;
        let alice = start(Side::Alice)?;
        alice.initiate(lab.alice(), proposal.ours)?;
        for side in Side::BOTH {
            ip(lab.host(side), &format!("link set ipsec0 txqueuelen {QUEUE}"))?;
        }
        wait_for_answer(&lab, inner(Side::Bob))?;
        let pids = [alice.pid(), bob.pid()];
        Ok(FrameContent { pids, target: inner(Side::Bob), _kept: Box::new((alice, bob, scratch)), lab })
    }

    /// Have both daemons of a link called `name` also carry what goes between two networks, alice's first, in a child of its
    /// own. Each host has an address in its network already: the daemon makes no route otherwise.
    ///
    /// # Errors
    /// If they do not agree.
    pub fn carry(lab: &Lab, name: &str, proposal: Proposal, networks: [&str; 2]) -> anyhow::Result<()> {
        // The folder of each daemon, by the name that `Charon::start` gives it.
        let folder = |side: Side| {
            Path::new("/run/ravelin")
                .join(format!("bench-peer-{name}"))
                .join(format!("charon-{}", side.name()))
        };
        let swanctl = |side: Side, args: &[&str]| -> anyhow::Result<()> {
            let folder = folder(side);
            let program = Program::new("swanctl").args(args).arg("--uri");
            let program = program.arg(format!("unix://{}", folder.join("vici").display()));
            let program =
                program.env("SWANCTL_DIR", &folder).env("STRONGSWAN_CONF", folder.join("strongswan.conf"));
            let done = lab.host(side).run_program(program, PATIENCE)?;
            ensure!(done.status.success(), "swanctl {}: {}{}", args.join(" "), done.out(), done.err());
            Ok(())
        };
        for (side, peer) in [(Side::Bob, Side::Alice), (Side::Alice, Side::Bob)] {
            let text = format!(
                "connections {{\n  networks {{\n    version = 2\n    local_addrs = {}\n    remote_addrs = {}\n    \
                 proposals = aes128-sha256-curve25519\n    encap = yes\n    mobike = no\n    local {{\n      \
                 auth = psk\n      id = {}\n    }}\n    remote {{\n      auth = psk\n      id = {}\n    }}\n    \
                 children {{\n      networks {{\n        mode = tunnel\n        local_ts = {}\n        \
                 remote_ts = {}\n        esp_proposals = {}\n        rekey_time = 0\n      }}\n    }}\n  }}\n}}\n",
                side.v4(),
                peer.v4(),
                side.name(),
                peer.name(),
                networks[side as usize],
                networks[peer as usize],
                proposal.theirs,
            );
            let file = folder(side).join("networks.conf");
            std::fs::write(&file, text)?;
            swanctl(side, &["--load-conns", "--file", &file.display().to_string()])?;
        }
        // The responder looks for children in the connection of the IKE association, which is the one before.
        swanctl(Side::Alice, &["--terminate", "--ike", "lab"])?;
        swanctl(Side::Alice, &["--initiate", "--child", "networks"])
    }
}
