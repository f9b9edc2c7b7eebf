//! The rows of the tables: gateways with and without a graph, the kernel alone, and two other programs, each between two lab
//! hosts of its own that a [`Bed`] is put around.

use std::net::Ipv4Addr;

use ::tests::protect_network;
use ::tests::strongswan::Proposal;
use anyhow::Context;
use lab::rig::{Pair, Rig, RigOptions};
use lab::{Lab, LabOptions, Side};

use serde_json::Value;

use super::bed::{self, Bed, CLEAR_PORT, TUNNELLED};
use crate::peers::{FrameContent, Link, Swan, WIREGUARD_GO, WireGuard};
use crate::product;

/// What carries packets between the two gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Two daemons; the gateway's has this section `[qos]`.
    Ravelin(&'static str),
    /// The kernel's forwarding, without cryptography.
    Forwarding,
    /// strongSwan with kernel-libipsec and this proposal for ESP.
    Swan(&'static str),
    /// The program wireguard-go at both ends.
    WireGuard,
}

/// A row, with the suites that it is measured with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// The name of the row in figures.
    pub(super) name: &'static str,
    /// The name of the row in tables and plots.
    pub(super) title: &'static str,
    /// What carries packets between the gateways.
    pub(super) kind: Kind,
    /// The suites by Ravelin's names; other words where there are none.
    pub(super) suites: &'static [&'static str],
}

const SUITES: &[&str] = &["3des-md5", "aes128cbc-sha256", "aes128gcm"];

/// Every row, in the order of the tables.
pub(super) const ROWS: [Row; 11] = [
    Row { name: "none", title: "Ravelin, no graph", kind: Kind::Ravelin(""), suites: SUITES },
    Row {
        name: "figure-6",
        title: "Ravelin, Figure 6 (two-classes)",
        kind: Kind::Ravelin("[qos]\npreset = \"two-classes\"\n"),
        suites: SUITES,
    },
    Row {
        name: "voice",
        title: "Ravelin, voice",
        kind: Kind::Ravelin("[qos]\npreset = \"voice\"\n"),
        suites: SUITES,
    },
    Row {
        name: "worker",
        title: "Ravelin, a thread for best effort",
        kind: Kind::Ravelin(WORKER),
        suites: SUITES,
    },
    Row {
        name: "sliced",
        title: "Ravelin, steps for best effort",
        kind: Kind::Ravelin(SLICED),
        suites: &["3des-md5", "aes128cbc-sha256"],
    },
    Row {
        name: "figure-1",
        title: "Ravelin, Figure 1",
        kind: Kind::Ravelin(FIGURE_1),
        suites: &["3des-md5"],
    },
    Row {
        name: "fair",
        title: "Ravelin, fair",
        kind: Kind::Ravelin("[qos]\npreset = \"fair\"\n"),
        suites: &["3des-md5", "aes128cbc-sha256"],
    },
    Row { name: "forwarding", title: "kernel, no cryptography", kind: Kind::Forwarding, suites: &["clear"] },
    Row {
        name: "strongswan",
        title: "strongSwan (libipsec)",
        kind: Kind::Swan("3des-md5"),
        suites: &["3des-md5"],
    },
    Row {
        name: "strongswan-gcm",
        title: "strongSwan (libipsec)",
        kind: Kind::Swan("aes128gcm16"),
        suites: &["aes128gcm"],
    },
    Row { name: "wireguard-go", title: "wireguard-go", kind: Kind::WireGuard, suites: &["chacha20poly1305"] },
];

/// Graphs that are files of the repository: the path of their folder takes the place of the word.
const FIGURE_1: &str = "[qos]\nfile = \"EXAMPLES/figure-1.toml\"\n";
const SLICED: &str = "[qos]\nfile = \"EXAMPLES/sliced.toml\"\n";
const WORKER: &str = "[qos]\nfile = \"EXAMPLES/worker.toml\"\n";

/// A row whose programs are running.
pub(super) struct Site {
    /// The row that it is.
    pub(super) row: Row,
    /// The hosts around both gateways. They go before the gateways.
    pub(super) bed: Bed,
    carrier: Carrier,
}

enum Carrier {
    Ravelin(Box<Rig>),
    Forwarding(Box<Lab>),
    Peer(Box<FrameContent>),
}

impl Site {
    /// Build a row; what an earlier run left of it is removed first.
    ///
    /// # Errors
    /// If a program is missing or does not start.
    pub(super) fn build(row: Row) -> anyhow::Result<Site> {
        match row.kind {
            Kind::Ravelin(qos) => ravelin(row, qos),
            Kind::Forwarding => {
                let options = LabOptions { name: format!("rvl-p2-{}", row.name), segmentation: true };
                let lab = Lab::build(&options)?;
                let bed = Bed::attach(&lab, false)?;
                Ok(Site { row, bed, carrier: Carrier::Forwarding(Box::new(lab)) })
            }
            Kind::Swan(theirs) => {
                let proposal = Proposal { theirs, ours: row.suites[0] };
                let name = format!("p2{}", row.suites[0]);
                let peer = Swan::build(&name, proposal)?;
                let bed = Bed::attach(peer.lab(), false)?;
                Swan::carry(peer.lab(), &name, proposal, TUNNELLED)?;
                Site::of_peer(row, bed, peer)
            }
            Kind::WireGuard => {
                let peer = WireGuard::build("p2", &WIREGUARD_GO.install()?, &[])?;
                let bed = Bed::attach(peer.lab(), false)?;
                WireGuard::carry(peer.lab(), "p2", TUNNELLED)?;
                Site::of_peer(row, bed, peer)
            }
        }
    }

    fn of_peer(row: Row, bed: Bed, peer: FrameContent) -> anyhow::Result<Site> {
        for (side, pid) in Side::BOTH.into_iter().zip(peer.carriers().context("no processes")?) {
            // The threads of wireguard-go yield to each other for ever where both have real-time priority.
            bed::pin(pid, side, !matches!(row.kind, Kind::WireGuard) && side == Side::Bob)?;
        }
        Ok(Site { row, bed, carrier: Carrier::Peer(Box::new(peer)) })
    }

    /// The hosts at both ends.
    pub(super) fn lab(&self) -> &Lab {
        match &self.carrier {
            Carrier::Ravelin(rig) => &rig.lab,
            Carrier::Forwarding(lab) => lab,
            Carrier::Peer(peer) => peer.lab(),
        }
    }

    /// Whether the gateway has a graph.
    pub(super) fn has_graph(&self) -> bool {
        matches!(self.row.kind, Kind::Ravelin(qos) if !qos.is_empty())
    }

    /// The two daemons of the row, if it has some.
    pub(super) fn rig(&self) -> Option<&Rig> {
        match &self.carrier {
            Carrier::Ravelin(rig) => Some(rig),
            Carrier::Forwarding(_) | Carrier::Peer(_) => None,
        }
    }

    /// Have packets protected by this suite from now on, with fresh keys.
    ///
    /// # Errors
    /// If a daemon refuses.
    pub(super) fn install(&self, suite: &'static str) -> anyhow::Result<()> {
        let Carrier::Ravelin(rig) = &self.carrier else { return Ok(()) };
        for side in Side::BOTH {
            rig.ravelin(side, &["sa", "flush"], "")?;
        }
        associate(rig, suite, TUNNELLED[0])
    }

    /// Have the packets of each of these hosts protected by an association of its own, with this suite each.
    ///
    /// # Errors
    /// If a daemon refuses.
    pub(super) fn install_each(&self, hosts: &[(Ipv4Addr, &'static str)]) -> anyhow::Result<()> {
        let rig = self.rig().context("the row has no daemon")?;
        for side in Side::BOTH {
            rig.ravelin(side, &["sa", "flush"], "")?;
        }
        hosts.iter().try_for_each(|(host, suite)| associate(rig, suite, &format!("{host}/32")))
    }

    /// The packets that the association of each of these hosts has sealed.
    ///
    /// # Errors
    /// If the gateway's daemon does not answer, or has no such association.
    pub(super) fn sealed(&self, hosts: &[(Ipv4Addr, &'static str)]) -> anyhow::Result<Vec<u64>> {
        let rig = self.rig().context("the row has no daemon")?;
        let list: Value = serde_json::from_str(&rig.ravelin(Side::Alice, &["sa", "list", "--json"], "")?)?;
        let sealed = |host: &Ipv4Addr| {
            let of_host = |sa: &&Value| {
                sa["direction"] == "out" && sa["selectors"]["local"] == host.to_string().as_str()
            };
            list["sas"].as_array()?.iter().find(of_host)?["counters"]["packets"].as_u64()
        };
        hosts
            .iter()
            .map(|(host, _)| sealed(host).with_context(|| format!("no counter of {host}: {list}")))
            .collect()
    }
}

/// Protect what is between this part of the gateway's networks and the far end's.
fn associate(rig: &Rig, suite: &'static str, near: &str) -> anyhow::Result<()> {
    let selectors = |local: &str, remote: &str| {
        ["--selector-local", local, "--selector-remote", remote].map(str::to_owned).to_vec()
    };
    let far = TUNNELLED[1];
    rig.associate(&Pair {
        mode: "tunnel",
        suite,
        alice: selectors(near, far),
        bob: selectors(far, near),
        ..Pair::default()
    })
}

const fn networks(side: Side) -> [&'static str; 2] {
    match side {
        Side::Alice => TUNNELLED,
        Side::Bob => [TUNNELLED[1], TUNNELLED[0]],
    }
}

fn ravelin(row: Row, qos: &str) -> anyhow::Result<Site> {
    let name = format!("rvl-p2-{}", row.name);
    let options = RigOptions { name, binary: product::ravelin()?, daemon: None, segmentation: true };
    let mut rig = Rig::build(&options)?;
    let bed = Bed::attach(&rig.lab, true)?;
    let qos = qos.replace("EXAMPLES", &examples().display().to_string());
    for (side, clear, port, inside, qos) in [
        (Side::Alice, "203.0.113.128/25", "remote-port", bed::inside(), qos.as_str()),
        (Side::Bob, "192.0.2.128/25", "local-port", vec!["peer".to_owned()], ""),
    ] {
        let [local, remote] = networks(side);
        let both = format!("local {local} remote {remote}");
        let rules = [
            (format!("remote {clear}"), "bypass"),
            (format!("{both} proto udp {port} {CLEAR_PORT}"), "bypass"),
            (both, "protect"),
            ("any".to_owned(), "bypass"),
        ]
        .map(|(selector, action)| {
            format!("{{\"rule\":{{\"direction\":\"both\",\"selectors\":[\"{selector}\"],\"action\":\"{action}\"}}}}\n")
        });
        let file = rig.folder().join(format!("{}.rules", side.name()));
        std::fs::write(&file, rules.concat())?;
        // No probes of the path: the load does not arrive, and the path is no narrower for it.
        let text = format!(
            "[crypto]\nlegacy = true\n[icmp]\nprobe = false\n[gateway]\ninside = {inside:?}\nrules = \"{}\"\n{qos}",
            file.display()
        );
        rig.configure(side, &text);
        // What the gateway itself sends is protected as what it forwards.
        let own =
            if side == Side::Alice { protect_network(&product::own()?, TUNNELLED[1]) } else { String::new() };
        rig.set_policy(side, &own)?;
    }
    rig.start_both()?;
    for side in Side::BOTH {
        bed::pin(rig.daemon(side)?.pid(), side, side == Side::Bob)?;
    }
    Ok(Site { row, bed, carrier: Carrier::Ravelin(Box::new(rig)) })
}

/// The folder of the graphs that are files of the repository.
pub(super) fn examples() -> std::path::PathBuf {
    let folder =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| "bench".into(), std::path::PathBuf::from);
    let path = folder.join("../examples/qos");
    path.canonicalize().unwrap_or(path)
}
