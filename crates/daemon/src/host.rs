//! What the daemon changes on the host, written down so that `detach` can undo it.
//!
//! The settings are those that the proof of protection and answers without a socket rest on (research: host path,
//! sections 1.2, 1.3 and 2.1): `fwmark_reflect` on, `tcp_fwmark_accept` off.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use netio::link::{Link, Links};
use netio::netns::Netns;
use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::network_stack::NetworkStack;

/// The TUN's own address, with link scope: any will do, but without one loose reverse-path filtering drops what comes in.
pub const TUN_ADDRESS: Ipv4Addr = Ipv4Addr::new(169, 254, 82, 86);

/// Settings of the network namespace, and what they must be.
const SETTINGS: [(&str, &str); 3] =
    [("net/ipv4/fwmark_reflect", "1"), ("net/ipv6/fwmark_reflect", "1"), ("net/ipv4/tcp_fwmark_accept", "0")];

/// What an instance has on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The name of the TUN.
    pub tun: String,
    /// The index of the TUN; 0: it was not there yet, or an earlier version wrote this.
    #[serde(default)]
    pub tun_index: u32,
    /// The cgroup of the daemon.
    pub cgroup: PathBuf,
    /// The path of the control socket.
    pub control_socket: PathBuf,
    /// The cookie of its network namespace.
    pub netns: u64,
    /// The inode number of its network namespace, by which it can be found again.
    #[serde(default)]
    pub netns_inode: u64,
    /// Settings as they were before the first daemon of the instance.
    pub settings: BTreeMap<String, String>,
}

fn file(run_dir: &Path) -> PathBuf {
    run_dir.join("host.json")
}

/// Whether an earlier daemon of the instance wrote a record down, readable or not.
pub fn record_exists(run_dir: &Path) -> bool {
    file(run_dir).symlink_metadata().is_ok()
}

impl Record {
    /// What was written down, if anything.
    ///
    /// # Errors
    /// If it is there and cannot be read.
    pub fn read(run_dir: &Path) -> io::Result<Option<Record>> {
        match fs::read(file(run_dir)) {
            Ok(octets) => serde_json::from_slice(&octets).map(Some).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Write it down, before the host is changed.
    ///
    /// # Errors
    /// If that is not possible.
    pub fn write(&self, run_dir: &Path) -> io::Result<()> {
        let aside = run_dir.join("host.new");
        fs::write(&aside, serde_json::to_vec_pretty(self)?)?;
        fs::rename(aside, file(run_dir))
    }

    /// Note the settings as they are, where an earlier daemon of the instance has not noted them before it changed them.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn note_settings(&mut self, before: Option<&Record>) -> netio::Result<()> {
        for (name, _) in SETTINGS {
            let Some(was) = setting(name)? else { continue };
            let known = before.filter(|b| b.netns == self.netns).and_then(|b| b.settings.get(name));
            self.settings.insert(name.to_owned(), known.cloned().unwrap_or(was));
        }
        Ok(())
    }

    /// Note the index of the TUN, which is there now.
    ///
    /// # Errors
    /// If it cannot be written down.
    pub fn note_tun(run_dir: &Path, index: u32) -> io::Result<()> {
        match Record::read(run_dir)? {
            Some(record) if record.tun_index != index => Record { tun_index: index, ..record }.write(run_dir),
            _ => Ok(()),
        }
    }

    /// What is written down of the other instances beside the one of this folder, as far as it can be read.
    pub fn of_others(run_dir: &Path) -> Vec<(String, Record)> {
        let folders = run_dir.parent().and_then(|all| fs::read_dir(all).ok()).into_iter().flatten().flatten();
        let others = folders.filter(|folder| Some(folder.file_name().as_os_str()) != run_dir.file_name());
        let record = |folder: fs::DirEntry| {
            let record = Record::read(&folder.path()).ok()??;
            Some((folder.file_name().to_string_lossy().into_owned(), record))
        };
        others.filter_map(record).collect()
    }

    /// Why the device with the TUN's name, which has this index, is not to be deleted with the instance, if it is not.
    pub fn keeps_tun(&self, index: u32, others: &[(String, Record)]) -> Option<String> {
        if self.tun_index != 0 && self.tun_index != index {
            return Some(format!(
                "the device {}: it is not the TUN that the instance had (its index is {index}, not {})",
                self.tun, self.tun_index
            ));
        }
        let has_it = |other: &Record| {
            (other.netns, &other.tun) == (self.netns, &self.tun) && [0, index].contains(&other.tun_index)
        };
        let (instance, _) = others.iter().find(|(_, other)| has_it(other))?;
        Some(format!("the TUN {}: instance {instance} has it, too", self.tun))
    }

    /// Put the settings of the calling thread's namespace back to what they were.
    pub fn restore_settings(&self) {
        for (name, value) in &self.settings {
            if let Err(error) = netio::sysctl::replace(name, value) {
                tracing::warn!("{error}");
            }
        }
    }
}

/// The inode number of the network namespace that `path` leads to.
///
/// # Errors
/// If there is none.
pub fn netns_inode(path: &Path) -> io::Result<u64> {
    fs::metadata(path).map(|file| file.ino())
}

impl Record {
    /// The instance's network namespace, if a name or a process still keeps it.
    pub fn find_netns(&self) -> Option<Netns> {
        let list =
            |folder: &str| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let own = PathBuf::from("/proc/thread-self/ns/net");
        let processes = list("/proc").map(|process| process.join("ns/net"));
        std::iter::once(own)
            .chain(list("/run/netns"))
            .chain(processes)
            .filter(|path| netns_inode(path).is_ok_and(|inode| inode == self.netns_inode))
            .filter_map(|path| Netns::open(path).ok())
            // An inode number is given again after its namespace ended, a cookie never.
            .find(|netns| netns.cookie().is_ok_and(|cookie| cookie == self.netns))
    }
}

/// A setting; `None` where the host has no IPv6.
fn setting(name: &str) -> netio::Result<Option<String>> {
    match netio::sysctl::get(name) {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound && name.starts_with("net/ipv6/") => Ok(None),
        Err(error) => Err(error),
    }
}

/// What is wrong with the TUN's device. What is redirected to it is refused meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TunFault {
    /// The device of the TUN was deleted.
    #[error("the TUN {0} is gone")]
    Gone(String),
    /// Someone set the TUN's device down.
    #[error("the TUN {0} is down")]
    Down(String),
    /// The kernel does not say.
    #[error("{0}")]
    Unknown(String),
}

impl TunFault {
    /// What is done about it, and by whom. The daemon can set a device up, and does not make it again.
    pub fn remedy(&self) -> &'static str {
        match self {
            TunFault::Gone(_) => "start the daemon again; what must be protected is refused meanwhile",
            TunFault::Down(_) => {
                "the daemon sets it up again within seconds; what must be protected is refused meanwhile"
            }
            TunFault::Unknown(_) => "try again",
        }
    }
}

/// What is wrong with the TUN's device, if anything.
pub(crate) fn tun_fault(network: &NetworkStack, tun: &Device) -> Option<TunFault> {
    match network.links() {
        Ok(links) => tun_fault_among(&tun.name, tun.index, &links),
        Err(error) => Some(TunFault::Unknown(error.to_string())),
    }
}

fn tun_fault_among(name: &str, index: u32, links: &[Link]) -> Option<TunFault> {
    match links.iter().find(|link| link.index == index) {
        None => Some(TunFault::Gone(name.to_owned())),
        Some(link) if !link.up => Some(TunFault::Down(name.to_owned())),
        Some(_) => None,
    }
}

/// Whether others hold queues of the TUN beside the `held` ones of this daemon, and what follows from that.
pub(crate) fn foreign_queues(network: &NetworkStack, tun: &Device, held: u32) -> Option<String> {
    let links = network.links().ok()?;
    let owner = links.iter().find(|link| link.index == tun.index)?.tun_owner?;
    (owner.held > held).then(|| {
        format!(
            "{} queues of the TUN {} are held, {held} by this daemon: another process of root gets a part of what must be \
             protected, in clear, and may forge packets",
            owner.held, tun.name
        )
    })
}

/// What is wrong with who may attach to the TUN, if anything; none where it is not there.
pub(crate) fn tun_owner_fault(network: &NetworkStack, name: &str) -> Option<String> {
    let links = network.links().ok()?;
    links.iter().find(|link| link.name == name).and_then(netio::tun::owner_fault)
}

/// Set the TUN up again, if someone set it down.
///
/// # Errors
/// If it does not come up, or is gone.
pub(crate) fn revive_tun(network: &NetworkStack, tun: &Device) -> Result<(), String> {
    let Some(fault) = tun_fault(network, tun) else { return Ok(()) };
    if let TunFault::Gone(_) = fault {
        return Err(format!("{fault}; {}", fault.remedy()));
    }
    tracing::warn!("{fault}; setting it up");
    Links::open()
        .and_then(|mut links| links.set_up(tun.index, true))
        .map_err(|error| format!("{fault}: {error}"))
}

/// Make the settings what they must be.
///
/// # Errors
/// If the host does not let us.
pub fn apply_settings() -> netio::Result<()> {
    for (name, value) in SETTINGS {
        if setting(name)?.is_some() {
            netio::sysctl::replace(name, value)?;
        }
    }
    Ok(())
}

/// Settings that are not what they must be, as someone changed them since.
pub fn wrong_settings() -> Vec<(&'static str, &'static str, String)> {
    let wrong = |(name, want): (&'static str, &'static str)| match setting(name) {
        Ok(Some(is)) if is != want => Some((name, want, is)),
        _ => None,
    };
    SETTINGS.into_iter().filter_map(wrong).collect()
}
