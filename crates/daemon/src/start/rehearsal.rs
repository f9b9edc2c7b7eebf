//! What a daemon that takes over tries before the one that works is asked to end: everything that the start needs of
//! the host and that two daemons can have at once. What fails here leaves the running daemon as it is; what fails
//! behind it ends both, since the old daemon has wiped its keys by then (docs/design/0003, item 7).
//!
//! Sockets are opened and closed again: kept open, they would collect a second copy of what the running daemon
//! receives. What cannot be tried: the programs of the kernel half in the place of the running ones (that the kernel
//! takes them was tried), the queue of an AF_XDP socket, which has one owner, and files of the instance that are
//! written for the new daemon.

use std::path::Path;

use netio::cgroup::Cgroup;
use netio::clear::ClearSender;

use super::{RunError, open_errors, open_raw, raw_sender, read_record, unified};
use crate::config::Config;
use crate::datapath;
use crate::gateway;
use crate::surveyed::Surveyed;
use crate::uplinks::Uplink;

/// Try what the start needs.
///
/// # Errors
/// What it cannot have.
pub(super) fn rehearse(config: &Config, run_dir: &Path, uplinks: &[Uplink]) -> Result<(), RunError> {
    unified(config)?;
    // The running daemon's group, which is this one's afterwards: the kernel half lets no other program open some of
    // the sockets.
    if let Some(record) = read_record(run_dir)?.filter(|record| record.cgroup.exists()) {
        Cgroup::open(&record.cgroup)?.enter()?;
    }
    let insides = gateway::insides(config)?;
    let known: Vec<u32> =
        uplinks.iter().map(|uplink| uplink.index).chain(insides.iter().map(|inside| inside.index)).collect();
    Surveyed::look(config, &known)?;
    drop((ClearSender::open()?, open_raw(config)?, open_errors()?, raw_sender()?));
    Ok(datapath::frames::rehearse(config, uplinks)?)
}
