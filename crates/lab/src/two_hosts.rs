//! Two hosts and the wire between them, in namespaces of this machine: `ravelin demo` and the tests run real programs here.
//!
//! ```text
//! NAME-alice                    NAME-wire                    NAME-bob
//!   eth0 ---------------- alice [bridge wire] bob ---------------- eth0
//!   198.51.100.1/24                  ^                198.51.100.2/24
//!   2001:db8:51::1/64          [`Capture`]            2001:db8:51::2/64
//! ```
//! Each host has a cgroup, `NAME/alice` and `NAME/bob` under the unified root, in which its programs run and to which a
//! socket monitor can be attached. Everything is named after the lab, so that what a crash left is found and
//! removed by the next lab of that name; dropping the lab removes everything, also in a panic.

use crate::capture::{Capture, CaptureOptions};
use crate::claim::Claim;
use crate::host::{self, Host};
use crate::side::Side;
use netio::cgroup::{self, Cgroup};
use netio::link::{End, Links};
use netio::netns::Netns;
use netio::sysctl;
use netio::{Error, Result};
use std::os::fd::AsFd;

/// What is special about a lab.
#[derive(Clone, Debug)]
pub struct LabOptions {
    /// Names everything that is made; at most 40 letters, digits and dashes.
    pub name: String,
    /// The hosts' devices cut super-packets (TSO and GSO on), as real ones do.
    pub segmentation: bool,
}

/// The bridge in the middle.
const BRIDGE: &str = "wire";

/// Two hosts and a wire.
#[derive(Debug)]
pub struct Lab {
    alice: Host,
    bob: Host,
    wire: Netns,
    cgroup: Cgroup,
    name: String,
    claim: Option<Claim>,
}

impl Lab {
    /// Remove what an earlier lab of this name left, then build. Needs root.
    ///
    /// # Errors
    /// If a lab of this name is in use, or if something cannot be made.
    pub fn build(options: &LabOptions) -> Result<Lab> {
        let name = &options.name;
        let fine = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if name.is_empty() || name.len() > 40 || !name.chars().all(fine) {
            return Err(Error::unfit(
                format!("`{name}` cannot name a lab"),
                "use up to 40 letters, digits, dashes",
            ));
        }
        let claim = Some(Claim::take(name)?);
        remove(name)?;
        let unfinished = Unfinished(name);
        let cgroup = Cgroup::create(&cgroup::unified_root()?, name)?;
        let wire = Netns::create(&format!("{name}-wire"))?;
        wire.run(prepare_wire)??;
        let alice = Host::build(name, Side::Alice, &cgroup)?;
        let bob = Host::build(name, Side::Bob, &cgroup)?;
        for host in [&alice, &bob] {
            let here = End { name: host::DEVICE, namespace: Some(host.netns().as_fd()) };
            let port = End { name: host.side().name(), namespace: Some(wire.as_fd()) };
            Links::open()?.add_veth(here, port)?;
            wire.run(|| plug_in(host.side().name()))??;
            host.configure()?;
            host.set_segmentation(options.segmentation)?;
        }
        for host in [&alice, &bob] {
            wire.run(|| host::wait_for_carrier(host.side().name()))??;
            host.netns().run(|| host::wait_for_carrier(host::DEVICE))??;
        }
        std::mem::forget(unfinished);
        Ok(Lab { alice, bob, wire, cgroup, name: name.clone(), claim })
    }

    /// Remove what a lab of this name left: its processes, cgroups and namespaces. Fine if there is nothing.
    ///
    /// # Errors
    /// If a lab of this name is in use, or if something cannot be removed.
    pub fn clean(name: &str) -> Result<()> {
        let _claim = Claim::take(name)?;
        remove(name)
    }

    /// The name that the lab was built with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The first host, called alice.
    pub fn alice(&self) -> &Host {
        &self.alice
    }

    /// The second host, called bob.
    pub fn bob(&self) -> &Host {
        &self.bob
    }

    /// The host on that side.
    pub fn host(&self, side: Side) -> &Host {
        match side {
            Side::Alice => &self.alice,
            Side::Bob => &self.bob,
        }
    }

    /// The namespace of the wire.
    pub fn wire(&self) -> &Netns {
        &self.wire
    }

    /// Listen on the wire from now on.
    pub fn capture(&self, options: CaptureOptions) -> Result<Capture> {
        self.wire.run(|| Capture::start(options))?
    }

    /// Leave everything in place when this value goes (`--keep`); [`Lab::clean`] removes it.
    pub fn keep(mut self) {
        self.claim = None;
        std::mem::forget(self);
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // The namespaces' names go with their owners; processes and cgroups here.
        let _ = self.cgroup.kill();
        let _ = self.cgroup.clone().remove();
    }
}

/// Remove the processes, cgroups and namespaces of a lab.
fn remove(name: &str) -> Result<()> {
    let path = cgroup::unified_root()?.join(name);
    if path.exists() {
        let cgroup = Cgroup::open(path)?;
        cgroup.kill()?;
        cgroup.remove()?;
    }
    for part in ["alice", "bob", "wire"] {
        Netns::remove(&format!("{name}-{part}"))?;
    }
    Ok(())
}

/// Removes a half-built lab when building it failed.
struct Unfinished<'a>(&'a str);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let _ = remove(self.0);
    }
}

/// The bridge speaks no IP and forwards at once.
fn prepare_wire() -> Result<()> {
    for conf in ["all", "default"] {
        sysctl::set(&format!("net/ipv6/conf/{conf}/disable_ipv6"), 1)?;
    }
    // A wire has no firewall: where the kernel has one for bridged frames, every frame would pay for it.
    for firewall in ["arptables", "iptables", "ip6tables"] {
        let name = format!("net/bridge/bridge-nf-call-{firewall}");
        if sysctl::get(&name).is_ok() {
            sysctl::set(&name, 0)?;
        }
    }
    let mut links = Links::open()?;
    links.add_bridge(BRIDGE)?;
    let bridge = links.index(BRIDGE)?;
    links.set_up(bridge, true)
}

fn plug_in(port: &str) -> Result<()> {
    let mut links = Links::open()?;
    let (bridge, port) = (links.index(BRIDGE)?, links.index(port)?);
    links.set_master(port, bridge)?;
    links.set_up(port, true)
}
