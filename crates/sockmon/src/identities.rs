//! The map `apps`: which executables make a process one of an application.
//!
//! What enters: the executables found now. What leaves: the map with them, and with those of before as long as their
//! application has a policy: a process goes on running the file it has executed when that file is replaced or removed, and
//! must not lose its policy by it.

use crate::abi::Identity;
use crate::adopt;
use crate::error::SockmonError;
use crate::programs::{Loaded, Maps};
use crate::sys;
use sadb::spd::Spd;
use std::collections::{HashMap, HashSet};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use wire::AppId;

/// Inode of the initial pid namespace; only from there `/proc` shows every process.
const INITIAL_PID_NAMESPACE: u64 = 0xeffffffc;

/// Every entry.
pub fn all(maps: &Maps) -> Result<Vec<(Identity, AppId)>, SockmonError> {
    let mut out = Vec::new();
    for identity in maps.keys::<Identity>("apps")? {
        if let Some(app) = maps.read::<u32>("apps", &identity)? {
            out.push((identity, AppId(app as u16)));
        }
    }
    Ok(out)
}

/// Make room for those that have no entry: under application 0, which means what no entry means. To put them in force then
/// needs no room, so it does not fail for want of it when the new policy is current already.
pub fn reserve(maps: &Maps, found: &HashMap<Identity, AppId>) -> Result<(), SockmonError> {
    for identity in found.keys() {
        if maps.read::<u32>("apps", identity)?.is_none() {
            maps.write("apps", identity, &0u32)?;
        }
    }
    Ok(())
}

/// Take back what [`reserve`] did.
pub fn release(maps: &Maps) -> Result<(), SockmonError> {
    let empty: HashSet<Identity> =
        all(maps)?.into_iter().filter(|(_, app)| *app == AppId::NONE).map(|(identity, _)| identity).collect();
    maps.retain("apps", |identity: &Identity| empty.contains(identity)).map(drop)
}

/// Only when no program looks into an older generation any more: its networks do not have the new applications.
pub fn put_in_force(maps: &Maps, found: &HashMap<Identity, AppId>) -> Result<(), SockmonError> {
    // One that fails must not keep the others out.
    let written: Vec<_> =
        found.iter().map(|(identity, app)| maps.write("apps", identity, &u32::from(app.0))).collect();
    written.into_iter().collect()
}

/// Forget the executables of applications that have no policy any more; and, when the map fills up, those of replaced files
/// that no process runs.
pub fn sweep(loaded: &Loaded, spd: &Spd, found: &HashMap<Identity, AppId>) -> Result<(), SockmonError> {
    let maps = &loaded.maps;
    let (mut gone, mut kept) = (HashSet::new(), HashSet::new());
    for (identity, app) in all(maps)? {
        if found.contains_key(&identity) {
            continue;
        }
        if spd.get(app).is_some() {
            kept.insert(identity)
        } else {
            gone.insert(identity)
        };
    }
    if found.len() + kept.len() > maps.capacity("apps")? / 4 * 3 {
        let used = in_use(loaded)?;
        gone.extend(kept.difference(&used));
    }
    maps.retain("apps", |identity: &Identity| gone.contains(identity)).map(drop)
}

/// What the processes of the host run.
fn in_use(loaded: &Loaded) -> Result<HashSet<Identity>, SockmonError> {
    let fail = || SockmonError::system("list the processes in /proc");
    let namespace = std::fs::metadata("/proc/self/ns/pid").map_err(fail())?.ino();
    if namespace != INITIAL_PID_NAMESPACE {
        return Err(fail()(std::io::Error::other("not in the initial pid namespace, some are hidden")));
    }
    // Those without a record would not be found by one.
    adopt::tasks(loaded)?;
    let mut used = HashSet::new();
    for entry in std::fs::read_dir("/proc").map_err(fail())? {
        let name = entry.map_err(fail())?.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse().ok()) else { continue };
        let process = match sys::pidfd_open(pid) {
            Ok(process) => process,
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => continue,
            Err(error) => return Err(fail()(error)),
        };
        match loaded.maps.read::<Identity>("task_id", &process.as_raw_fd()) {
            Ok(identity) => used.extend(identity),
            // It has ended meanwhile.
            Err(_) if sys::pidfd_open(pid).is_err() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(used)
}
