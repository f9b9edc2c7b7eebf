//! The maps `executables` and `places`: which list a process has by what it runs.
//!
//! What enters: the files found now and the lists of their places. What leaves: the maps with them, and with the files of before
//! as long as their list means something: a process goes on running the file it has executed when that file is replaced or
//! removed, and must not lose its policy by it.

use crate::abi::{self, Executable, Identity, List, Task};
use crate::adopt;
use crate::error::SockmonError;
use crate::lists::Lists;
use crate::places::Place;
use crate::programs::{Loaded, Maps, tasks_have_storage};
use crate::sys;
use std::collections::{HashMap, HashSet};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

/// Inode of the initial pid namespace; only from there `/proc` shows every process.
const INITIAL_PID_NAMESPACE: u64 = 0xeffffffc;

/// Every executable that the map holds, with its list and what was found in the file.
pub fn all(maps: &Maps) -> Result<Vec<(Identity, Executable)>, SockmonError> {
    maps.entries("executables")
}

/// The map's entry for one executable; `None` if it has none.
pub fn known(maps: &Maps, identity: &Identity) -> Result<Option<Executable>, SockmonError> {
    maps.read("executables", identity)
}

/// The entry of a file that has this list and that nobody has examined.
fn unknown(list: u32) -> Executable {
    Executable { list, zero: 0, version: 0, digest: [0; 32] }
}

/// Give the executable this list. What was found in the file stays.
fn give(maps: &Maps, identity: &Identity, list: u32) -> Result<(), SockmonError> {
    let known = known(maps, identity)?.unwrap_or(unknown(list));
    maps.write("executables", identity, &Executable { list, ..known })
}

/// The present content of the two maps.
fn held(maps: &Maps) -> Result<IdentityTables, SockmonError> {
    let executables = all(maps)?.into_iter().map(|(identity, known)| (identity, known.list)).collect();
    Ok(IdentityTables { executables, places: maps.entries("places")?.into_iter().collect() })
}

/// The content that the two maps are to have.
#[derive(Debug, Default)]
pub struct IdentityTables {
    /// The list of each file that exists now.
    pub executables: HashMap<Identity, u32>,
    /// The list of each place where another file may appear later.
    pub places: HashMap<abi::Place, u32>,
}

impl IdentityTables {
    /// The content that the maps are to have for these places, with the numbers of their lists.
    pub fn of(places: &[Place], lists: &Lists) -> IdentityTables {
        let mut out = IdentityTables::default();
        for place in places {
            let Some(number) = lists.places.get(&place.path) else { continue };
            if let Some(file) = place.file {
                // Of one file at several places every list is the same.
                out.executables.entry(file).or_insert(*number);
            }
            out.places.extend(place.key.map(|key| (key, *number)));
        }
        out
    }
}

/// Enter new files and places, with their lists, before the policy is in force. The lists have numbers that nothing had
/// before, and mean the same as a program without a name until the policy is in force. So the entry does no harm if the
/// policy never comes into force, and no room is needed later. Returns the number of new entries.
pub fn reserve(
    maps: &Maps,
    wanted: &IdentityTables,
    before: &Lists,
    lists: &Lists,
) -> Result<usize, SockmonError> {
    let half = maps.config()?.generation % 2 * abi::LISTS;
    let any = maps.read::<List>("lists", &(half + abi::LIST_ANY))?.ok_or(SockmonError::Answer("lists"))?;
    for (number, merged) in lists.numbered.iter().filter(|(number, _)| !before.numbered.contains_key(number))
    {
        maps.write("lists", &(half + number), &List { bits: 0, place: merged.place, ..any })?;
    }
    let held = held(maps)?;
    let new = wanted.executables.iter().filter(|(identity, _)| !held.executables.contains_key(identity));
    let mut count = 0;
    for (identity, number) in new {
        // One that was executed just now has it from its place.
        maps.begin("executables", identity, &unknown(*number))?;
        count += 1;
    }
    for (place, number) in wanted.places.iter().filter(|(place, _)| !held.places.contains_key(place)) {
        maps.write("places", place, number)?;
        count += 1;
    }
    Ok(count)
}

/// Move files and places to their new lists, once the policy is in force. Returns the number of entries that changed.
pub fn put_in_force(maps: &Maps, wanted: &IdentityTables) -> Result<usize, SockmonError> {
    // Without an answer, all.
    let held = held(maps).unwrap_or_default();
    let executables = wanted.executables.iter().filter(|(key, list)| held.executables.get(key) != Some(list));
    let places = wanted.places.iter().filter(|(key, list)| held.places.get(key) != Some(list));
    // One that fails must not keep the others out.
    let written: Vec<_> = executables
        .map(|(identity, list)| give(maps, identity, *list))
        .chain(places.map(|(place, list)| maps.write("places", place, list)))
        .collect();
    let count = written.len();
    written.into_iter().collect::<Result<(), _>>().map(|()| count)
}

/// Check that the maps have room for the new content beside the present places. Executables of the present content need
/// not stay.
pub fn check_room(maps: &Maps, wanted: &IdentityTables) -> Result<(), SockmonError> {
    let before = maps.keys::<abi::Place>("places")?;
    let places =
        wanted.places.len() + before.iter().filter(|place| !wanted.places.contains_key(place)).count();
    for (count, map) in [(places, "places"), (wanted.executables.len(), "executables")] {
        let max = maps.capacity(map)?;
        if count > max {
            return Err(SockmonError::TooManyPlaces { count, max });
        }
    }
    Ok(())
}

/// Make room when the map fills up: forget files that no longer exist and that no process runs.
pub fn make_room(loaded: &Loaded, wanted: &IdentityTables) -> Result<(), SockmonError> {
    let maps = &loaded.maps;
    let kept: HashSet<Identity> = all(maps)?
        .into_iter()
        .map(|(identity, _)| identity)
        .filter(|identity| !wanted.executables.contains_key(identity))
        .collect();
    if wanted.executables.len() + kept.len() <= maps.capacity("executables")? / 4 * 3 {
        return Ok(());
    }
    let used = in_use(loaded)?;
    let unused = |identity: &Identity| kept.contains(identity) && !used.contains(identity);
    maps.retain("executables", unused).map(drop)
}

/// Forget the places that no policy names and the files whose list means nothing any more.
pub fn sweep(maps: &Maps, wanted: &IdentityTables, lists: &Lists) -> Result<(), SockmonError> {
    maps.retain("places", |place: &abi::Place| !wanted.places.contains_key(place))?;
    let gone: HashSet<Identity> = all(maps)?
        .into_iter()
        .filter(|(identity, known)| {
            !wanted.executables.contains_key(identity) && !lists.numbered.contains_key(&known.list)
        })
        .map(|(identity, _)| identity)
        .collect();
    maps.retain("executables", |identity: &Identity| gone.contains(identity)).map(drop)
}

/// The executables that the processes of this host run.
fn in_use(loaded: &Loaded) -> Result<HashSet<Identity>, SockmonError> {
    let fail = || SockmonError::system("list the processes in /proc");
    let namespace = std::fs::metadata("/proc/self/ns/pid").map_err(fail())?.ino();
    if namespace != INITIAL_PID_NAMESPACE {
        return Err(fail()(std::io::Error::other("not in the initial pid namespace, some are hidden")));
    }
    // Those without a record would not be found by one.
    adopt::tasks(loaded)?;
    if !tasks_have_storage() {
        let records = loaded.maps.entries::<u64, Task>("records")?;
        return Ok(records.into_iter().map(|(_, task)| task.identity).collect());
    }
    let mut used = HashSet::new();
    for entry in std::fs::read_dir("/proc").map_err(fail())? {
        let name = entry.map_err(fail())?.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse().ok()) else { continue };
        let process = match sys::pidfd_open(pid) {
            Ok(process) => process,
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => continue,
            Err(error) => return Err(fail()(error)),
        };
        match loaded.maps.read::<Task>("tasks", &process.as_raw_fd()) {
            Ok(task) => used.extend(task.map(|task| task.identity)),
            // It has ended meanwhile.
            Err(_) if sys::pidfd_open(pid).is_err() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(used)
}
