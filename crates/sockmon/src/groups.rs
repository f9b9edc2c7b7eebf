//! Control groups that a policy names: a slot for each path, bound to the group that has it.
//!
//! A group that is made later, or anew (a service that starts again), is bound by the kernel half (`group_made`) before anybody
//! can be in it; those that are there when a policy is loaded are bound here.

use crate::abi::{self, Group, GroupPath};
use crate::error::SockmonError;
use crate::lists::{Lists, Slots};
use crate::probe;
use crate::programs::Maps;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The number of the root of the hierarchy. Another one: a control group namespace, which hides what is above.
const ROOT: u64 = 1;

fn key(path: &str) -> Result<GroupPath, SockmonError> {
    let mut out = GroupPath { text: [0; abi::GROUP_PATH] };
    let room = out.text.get_mut(..path.len()).filter(|_| path.len() < abi::GROUP_PATH);
    room.ok_or_else(|| SockmonError::GroupPath { path: path.into(), max: abi::GROUP_PATH - 1 })?
        .copy_from_slice(path.as_bytes());
    Ok(out)
}

/// The slot that every path is to have.
struct Choice {
    slots: Slots,
    /// Paths of before that have theirs already.
    known: BTreeMap<String, u32>,
    /// Paths that a load which failed has left.
    unused: BTreeSet<[u8; abi::GROUP_PATH]>,
}

/// The slot that every path is to have; those that have one keep it. Nothing is written.
pub fn choose(maps: &Maps, paths: &BTreeSet<String>, before: &Lists) -> Result<Slots, SockmonError> {
    Ok(chosen(maps, paths, before)?.slots)
}

fn chosen(maps: &Maps, paths: &BTreeSet<String>, before: &Lists) -> Result<Choice, SockmonError> {
    let in_use: BTreeSet<u32> = before
        .numbered
        .values()
        .flat_map(|list| &list.choices)
        .map(|choice| u32::from(choice.group))
        .collect();
    // The others were given by a load that failed.
    let mut known: BTreeMap<String, u32> = BTreeMap::new();
    let mut unused = BTreeSet::new();
    for path in maps.keys::<GroupPath>("group_paths")? {
        match maps.read::<u32>("group_paths", &path)? {
            Some(slot) if in_use.contains(&slot) => drop(known.insert(abi::text(&path.text), slot)),
            _ => drop(unused.insert(path.text)),
        }
    }
    let taken: BTreeSet<u32> = known.values().copied().collect();
    let mut free = (1..abi::GROUPS).filter(|slot| !taken.contains(slot));
    let mut slots = Slots::new();
    for path in paths {
        key(path)?;
        let full = || SockmonError::TooManyGroups { count: paths.len(), max: abi::GROUPS as usize - 1 };
        let slot = known.get(path).copied().or_else(|| free.next()).ok_or_else(full)?;
        slots.insert(path.clone(), slot as u16);
    }
    if let Some(path) = paths.first() {
        whole_tree(path)?;
    }
    Ok(Choice { slots, known, unused })
}

/// The root of the control groups, if it is that of the host: `path` is one that a policy means from there.
fn whole_tree(path: &str) -> Result<PathBuf, SockmonError> {
    let root = probe::cgroup_root()?;
    match inode(&root) {
        Some(ROOT) => Ok(root),
        _ => Err(SockmonError::GroupNamespace { path: path.into() }),
    }
}

fn inode(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|found| found.ino())
}

/// Give every path the slot that [`choose`] says, and bind it. Paths of before keep theirs until [`forget`].
pub fn prepare(maps: &Maps, paths: &BTreeSet<String>, before: &Lists) -> Result<Slots, SockmonError> {
    let Choice { slots: out, known, unused } = chosen(maps, paths, before)?;
    maps.retain("group_paths", |path: &GroupPath| unused.contains(&path.text))?;
    for (path, slot) in &out {
        let slot = u32::from(*slot);
        if !known.contains_key(path) {
            maps.write("groups", &slot, &Group { id: 0, level: 0, zero: 0 })?;
            maps.write("group_paths", &key(path)?, &slot)?;
        }
        bind(maps, path, slot)?;
    }
    Ok(out)
}

/// Bind a slot to the group that is there now. The kernel half may do so at the same time with a newer one, so what was written is
/// looked at again: from then on it is right, or the kernel half's word is.
fn bind(maps: &Maps, path: &str, slot: u32) -> Result<(), SockmonError> {
    let directory = whole_tree(path)?.join(path.trim_start_matches('/'));
    let level = path.matches('/').count() as u32;
    let mut written = None;
    loop {
        let now = inode(&directory);
        let Some(id) = now.filter(|_| now != written) else { return Ok(()) };
        let known = maps.read::<Group>("groups", &slot)?;
        if known.is_some_and(|group| group.id == id) {
            return Ok(());
        }
        maps.write("groups", &slot, &Group { id, level, zero: 0 })?;
        written = now;
    }
}

/// Forget the paths that no policy names any more; when nobody looks them up.
pub fn forget(maps: &Maps, wanted: &Slots) -> Result<(), SockmonError> {
    maps.retain("group_paths", |path: &GroupPath| !wanted.contains_key(&abi::text(&path.text))).map(drop)
}
