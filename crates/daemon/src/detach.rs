//! Taking an instance off the host: pins, TUN, cgroup, settings, files. The only thing that opens a closed host again.

use std::fs;
use std::path::Path;

use crate::config;
use crate::control::socket::{self, SocketError};
use crate::host::Record;

/// Why an instance was not, or not wholly, taken off.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DetachError {
    /// A daemon runs.
    #[error("{0}; stop it first, or run it with --detach-on-exit")]
    Running(SocketError),
    /// The kernel half did not go.
    #[error("{0}; {remedy}", remedy = .0.remedy())]
    Kernel(#[from] sockmon::SockmonError),
    /// A device, a cgroup.
    #[error(transparent)]
    Netio(#[from] netio::Error),
    /// A file.
    #[error("{0}")]
    File(#[from] std::io::Error),
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detached {
    /// What was removed, one line each.
    pub removed: Vec<String>,
    /// What was left, and why.
    pub left: Vec<String>,
}

/// Take an instance off the host. Nothing there: nothing done.
///
/// # Errors
/// [`DetachError`].
pub fn detach(instance: &str) -> Result<Detached, DetachError> {
    let run_dir = config::run_dir(instance);
    let exists = run_dir.exists();
    let lock = if exists { Some(socket::lock(&run_dir).map_err(DetachError::Running)?) } else { None };
    let done = take_down(instance, &run_dir)?;
    if exists {
        fs::remove_dir_all(&run_dir)?;
    }
    drop(lock);
    Ok(done)
}

/// As [`detach`], for a daemon that holds its own lock and is about to end.
///
/// # Errors
/// As [`detach`].
pub(crate) fn take_down(instance: &str, run_dir: &Path) -> Result<Detached, DetachError> {
    let mut done = Detached::default();
    let record = Record::read(run_dir)?;
    // The programs first: a TUN that goes before them would turn "refused" into "unroutable", not into a leak.
    let pins = sockmon::detach(instance)?;
    if pins.links + pins.maps > 0 {
        done.removed.push(format!(
            "{} links and {} maps under /sys/fs/bpf/ravelin/{instance}",
            pins.links, pins.maps
        ));
    }
    let Some(record) = record else { return Ok(done) };
    match record.find_netns() {
        Some(netns) => {
            netns.run(|| {
                record.restore_settings();
                netio::tun::delete(&record.tun)
            })??;
            done.removed.push(format!("the TUN {} and changes of kernel settings", record.tun));
        }
        None => {
            done.removed.push(format!("(the network namespace with the TUN {} is gone already)", record.tun))
        }
    }
    if record.cgroup.exists() {
        let cgroup = netio::cgroup::Cgroup::open(&record.cgroup)?;
        // A daemon that takes itself down sits in it.
        if let Some(parent) = record.cgroup.parent()
            && cgroup.processes()?.contains(&std::process::id())
        {
            netio::cgroup::Cgroup::open(parent)?.enter()?;
        }
        match cgroup.remove() {
            Ok(()) => done.removed.push(format!("the cgroup {}", record.cgroup.display())),
            Err(error) => done.left.push(error.to_string()),
        }
    }
    let _ = fs::remove_file(&record.control_socket);
    Ok(done)
}
