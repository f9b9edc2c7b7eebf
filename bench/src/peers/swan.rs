//! strongSwan with its own data path in user space (kernel-libipsec): ESP in UDP, tunnel mode. Its inner packets have at most 1,400
//! octets: larger ones it does not read from its device, whatever MTU that is given.

use super::install::debian;
use super::{FrameContent, Scratch, ip, lab, wait_for_answer};
use lab::Side;
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
}
