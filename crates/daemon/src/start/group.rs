//! The control group of the daemon's own sockets, which policy does not speak about: a socket keeps the group that it was made in.
//!
//! A unit of systemd whose group is delegated (`Delegate=`) keeps the daemon: the group is made below the unit's own, so that limits,
//! accounting and the end of the unit are the daemon's too. Everywhere else it is made in the group that policy watches.

use std::fs;
use std::path::{Path, PathBuf};

use netio::cgroup::{Cgroup, unified_root};

use super::error::RunError;
use crate::host::Record;
use config::Config;

/// Make the group, or find the one of the daemon that handed its sockets over (`taken`): they were made there.
///
/// # Errors
/// If the kernel refuses.
pub(super) fn own(
    config: &Config,
    watched: &Path,
    before: Option<&Record>,
    taken: bool,
) -> Result<Cgroup, RunError> {
    if let Some(record) = before.filter(|record| taken && record.cgroup.exists()) {
        return Ok(Cgroup::open(&record.cgroup)?);
    }
    let parent = delegated().unwrap_or_else(|| watched.to_owned());
    Ok(Cgroup::create(&parent, &format!("ravelin-{}", config.instance))?)
}

/// Remove the group of an earlier daemon, if that was another one and nothing is in it any more.
pub(super) fn remove_earlier(before: Option<&Record>, own: &Cgroup) {
    let Some(record) = before.filter(|record| record.cgroup != own.path()) else { return };
    if let Ok(cgroup) = Cgroup::open(&record.cgroup)
        && let Err(error) = cgroup.remove()
    {
        tracing::debug!("the control group of an earlier daemon stays: {error}");
    }
}

/// The group of the unit that this process is the main process of, if systemd leaves what is below it to the unit.
fn delegated() -> Option<PathBuf> {
    // systemd.exec(5): the process that systemd executed itself. A shell somewhere below a unit is not that one.
    let executed = std::env::var("SYSTEMD_EXEC_PID").ok()?.parse() == Ok(std::process::id());
    let groups = fs::read_to_string("/proc/self/cgroup").ok().filter(|_| executed)?;
    let own = unified_root().ok()?.join(groups.lines().find_map(|line| line.strip_prefix("0::/"))?);
    // With `DelegateSubgroup=` (systemd 254) the process starts one level below.
    own.ancestors().take(2).find(|group| is_delegated(group)).map(Path::to_owned)
}

/// Whether systemd has marked a group as the unit's own (systemd.resource-control(5), `Delegate=`).
fn is_delegated(group: &Path) -> bool {
    ["trusted.delegate", "user.delegate"].into_iter().any(|name| {
        let mut value = [0; 8];
        rustix::fs::getxattr(group, name, &mut value).is_ok_and(|length| value.get(..length) == Some(b"1"))
    })
}
