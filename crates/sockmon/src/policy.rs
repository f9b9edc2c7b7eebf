//! The load of a policy into the kernel: new entries first, then one store that makes them current for all programs,
//! then the removal of old entries.

use crate::abi::{self, Executable, Identity};
use crate::ancestors;
use crate::error::SockmonError;
use crate::groups;
use crate::identities::{self, IdentityTables};
use crate::limits;
use crate::lists::{self, Bits, Lists, Slots, mask};
use crate::model::LoadWarning;
use crate::pins::{self, PinnedFile};
use crate::places::{self, PathAnswers, Place};
use crate::programs::{Loaded, Maps};
use crate::sys;
use crate::tables::{Change, LoadStats, Room, Tables};
use policy::Subjects;
use sadb::spd::{Order, Spd};
use std::collections::{BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use wire::AppId;
use wire::Marks;

/// The generation after `current`.
fn next_generation(current: u32) -> u32 {
    if current >= abi::LAST_GENERATION { 1 } else { current + 1 }
}

/// The input of a load.
pub struct Policy<'p> {
    /// The tables of each application.
    pub spd: &'p Spd,
    /// The subjects, which say to which application a process belongs.
    pub subjects: &'p Subjects,
    /// The directories where bare names are looked for.
    pub directories: &'p [PathBuf],
    /// Pairs of applications that do not compare as their tables do.
    pub orders: &'p [((AppId, AppId), Order)],
    /// The answers of the last load for the paths that policy names.
    pub found: &'p PathAnswers,
}

/// The plan of a load, complete before anything is changed.
struct Plan {
    before: Lists,
    lists: Lists,
    wanted: IdentityTables,
    /// The files that were verified and whose digest this policy does not name.
    stale: Vec<Identity>,
    bits: Bits,
    slots: Slots,
    change: Change,
    generation: u32,
}

/// A policy that is in force.
pub struct LoadResult {
    /// The open descriptors that keep the inodes of the executables from being used again.
    pub held: Vec<Arc<OwnedFd>>,
    /// The files that policy knows by a digest and that nobody has verified yet.
    pub pinned: Vec<PinnedFile>,
    /// The answers for the paths that policy names.
    pub found: PathAnswers,
    /// The findings that the user may not have meant, and the steps that could not be done.
    pub warnings: Vec<LoadWarning>,
    /// Counts of what the maps hold now, and of what was written.
    pub stats: LoadStats,
}

/// The content of the maps: from the last load, or from the maps themselves if another load is in force.
pub fn in_force(maps: &Maps, known: &mut Option<Tables>) -> Result<Tables, SockmonError> {
    let generation = maps.config()?.generation;
    match known.take().filter(|tables| tables.generation == generation) {
        Some(tables) => Ok(tables),
        None => Tables::read(maps),
    }
}

/// Check a policy as far as that needs no maps.
fn check(marks: Marks, spd: &Spd) -> Result<(), SockmonError> {
    let last = marks.last_app();
    if let Some((app, _)) = spd.apps().find(|(app, _)| app.0 > last) {
        return Err(SockmonError::NoRoomInMark { app, last });
    }
    limits::check(spd)
}

/// Check that the maps have room for a policy with these places, by the steps of [`load`] that write nothing.
pub fn fits(maps: &Maps, marks: Marks, policy: &Policy<'_>, places: &[Place]) -> Result<(), SockmonError> {
    check(marks, policy.spd)?;
    let change = Tables::seen(maps)?.plan(policy.spd, policy.orders, Room::of(maps)?)?;
    let generation = next_generation(maps.config()?.generation);
    let (plan, _) = plan(maps, policy, places, change, generation, chosen)?;
    plan.lists.arrange(0)?;
    identities::check_room(maps, &plan.wanted)
}

/// Replace the policy in force. An error leaves the old policy in force; once the new one is in force there are only
/// warnings. `known` is the content that the last load left in the maps.
pub fn load(
    loaded: &Loaded,
    policy: &Policy<'_>,
    known: &mut Option<Tables>,
) -> Result<LoadResult, SockmonError> {
    let maps = &loaded.maps;
    check(loaded.marks, policy.spd)?;
    let places = places::find(loaded, policy.subjects, policy.directories, policy.found)?;
    let mut warnings = places.warnings;
    let config = maps.config()?;
    let before = in_force(maps, known)?;
    // What a loader left that died half-way.
    limits::forget_all_but(maps, config.generation)?;
    let change = before.plan(policy.spd, policy.orders, Room::of(maps)?);
    let generation = next_generation(config.generation);
    let planned = change.and_then(|change| plan(maps, policy, &places.list, change, generation, numbers));
    let (plan, odd) = match planned {
        Ok(planned) => planned,
        Err(error) => {
            *known = Some(before);
            return Err(error);
        }
    };
    warnings.extend(odd);
    if let Err(error) = identities::make_room(loaded, &plan.wanted) {
        // There may be room enough all the same.
        let step = "forget executables that no process runs";
        warnings.push(LoadWarning::Unfinished { step, reason: error.to_string() });
    }
    let reserved = match write(maps, &before, policy.spd, &plan) {
        Ok(reserved) => reserved,
        Err(error) => {
            // The error that matters is the first one; the next load cleans up too.
            let undone = before
                .undo(maps, &plan.change, plan.generation)
                .and_then(|()| limits::forget_all_but(maps, config.generation))
                .and_then(|()| release(maps, &plan));
            match undone {
                Ok(()) => *known = Some(before),
                Err(error) => tracing::warn!(%error, "cannot clean up behind a failed load"),
            }
            return Err(error);
        }
    };
    let stats = before.stats(&plan.change);
    if stats.orders_left_out > 0 {
        warnings.push(LoadWarning::Uncompared { pairs: stats.orders_left_out });
    }
    let FinishResult { now, moved, left } = finish(loaded, plan, before, config.ancestors);
    warnings.extend(left);
    let stats = LoadStats { executables_written: reserved + moved, ..stats };
    let stats = now.as_ref().map_or(stats, |tables| tables.count(stats));
    *known = now;
    let pinned = pins::of(&places.list, &places.held);
    Ok(LoadResult { held: places.held, pinned, found: places.found, warnings, stats })
}

/// A function that gives the kernel's numbers of ancestors and control groups.
type Number = fn(&Maps, &Subjects, &Lists) -> Result<(Bits, Slots), SockmonError>;

/// The control groups that subjects name.
fn groups_of(subjects: &Subjects) -> BTreeSet<String> {
    subjects.iter().filter_map(|(selector, _)| selector.group.clone()).collect()
}

/// Give ancestors and control groups their numbers in the kernel.
fn numbers(maps: &Maps, subjects: &Subjects, before: &Lists) -> Result<(Bits, Slots), SockmonError> {
    let bits = ancestors::prepare(maps, &places::ancestors(subjects))?;
    Ok((bits, groups::prepare(maps, &groups_of(subjects), before)?))
}

/// The numbers that ancestors and control groups would get. Nothing is written.
fn chosen(maps: &Maps, subjects: &Subjects, before: &Lists) -> Result<(Bits, Slots), SockmonError> {
    let bits = ancestors::choose(maps, &places::ancestors(subjects))?;
    Ok((bits, groups::choose(maps, &groups_of(subjects), before)?))
}

fn plan(
    maps: &Maps,
    policy: &Policy<'_>,
    found: &[Place],
    change: Change,
    generation: u32,
    number: Number,
) -> Result<(Plan, Vec<LoadWarning>), SockmonError> {
    let before = Lists::in_force(maps)?;
    let (bits, slots) = number(maps, policy.subjects, &before)?;
    let running = identities::all(maps)?;
    let made_of = lists::Policy { subjects: policy.subjects, bits: &bits, slots: &slots };
    let taken = running.iter().map(|(_, known)| known.list).collect();
    let (mut lists, warnings) = Lists::of(&made_of, found, &before, &taken)?;
    let wanted = IdentityTables::of(found, &lists);
    let stale = pins::stale(&running, &wanted, &lists, found);
    for (identity, Executable { list: number, .. }) in running {
        let Some(old) = before.numbered.get(&number) else { continue };
        if !lists.numbered.contains_key(&number) && !wanted.executables.contains_key(&identity) {
            lists.keep(number, old, &made_of, policy.spd);
        }
    }
    Ok((Plan { before, lists, wanted, stale, bits, slots, change, generation }, warnings))
}

/// Write everything of the next generation, and then the generation. Returns the number of new executables and places.
fn write(maps: &Maps, before: &Tables, spd: &Spd, plan: &Plan) -> Result<usize, SockmonError> {
    let config = maps.config()?;
    let high = config.lists.max(plan.lists.high());
    before.write(maps, &plan.change, plan.generation)?;
    plan.lists.write(maps, plan.generation, high)?;
    let limits = limits::write(maps, spd, plan.generation)?;
    let reserved = identities::reserve(maps, &plan.wanted, &plan.before, &plan.lists)?;
    // Before the policy that does not want them is in force.
    plan.stale.iter().try_for_each(|identity| pins::doubt(maps, identity))?;
    let mask = config.ancestors | mask(&plan.bits);
    let guards = spd.guard.networks().len() as u32;
    let generation = plan.generation;
    maps.set_config(&abi::Config {
        generation,
        lists: high,
        ancestors: mask,
        fresh: 0,
        guards,
        limits,
        ..config
    })?;
    Ok(reserved)
}

/// Remove what a failed load has put into the maps for executables.
fn release(maps: &Maps, plan: &Plan) -> Result<(), SockmonError> {
    let known = |number: Option<u32>| number.is_some_and(|n| plan.before.numbered.contains_key(&n));
    let mut unwanted = Vec::new();
    for identity in plan.wanted.executables.keys() {
        if !known(identities::known(maps, identity)?.map(|known| known.list)) {
            unwanted.push(*identity);
        }
    }
    unwanted.iter().try_for_each(|identity| maps.delete("executables", identity))?;
    let mut unwanted = Vec::new();
    for place in plan.wanted.places.keys() {
        if !known(maps.read("places", place)?) {
            unwanted.push(*place);
        }
    }
    unwanted.iter().try_for_each(|place| maps.delete("places", place))
}

/// The result of [`finish`].
struct FinishResult {
    /// The content of the maps; `None` if it has to be read again.
    now: Option<Tables>,
    /// The number of executables and places that got another list.
    moved: usize,
    /// The steps that are left to do.
    left: Vec<LoadWarning>,
}

/// Do what follows once a generation is current. It cannot fail any more; what is left to do becomes a warning.
fn finish(loaded: &Loaded, plan: Plan, before: Tables, ancestors: u64) -> FinishResult {
    let maps = &loaded.maps;
    // A program that read the old generation may still be looking its entries up: to it, none would mean clear.
    let waited = sys::wait_for_readers().map_err(SockmonError::system("wait for the kernel's readers"));
    let readers = waited.is_ok();
    let (mut now, mut moved) = (None, 0);
    let mut steps = vec![("wait for the kernel's readers", waited)];
    let named = identities::put_in_force(maps, &plan.wanted);
    steps.push(("name every executable", named.map(|count| moved = count)));
    if readers {
        let settled = before.settle(maps, plan.change, plan.generation);
        steps.push(("forget the policy before", settled.map(|tables| now = Some(tables))));
        steps.push(("forget limits", limits::forget_all_but(maps, plan.generation)));
        steps.push(("forget control groups", groups::forget(maps, &plan.slots)));
        steps.push(("forget executables", identities::sweep(maps, &plan.wanted, &plan.lists)));
        steps
            .push(("learn what processes were started by", ancestors::settle(loaded, &plan.bits, ancestors)));
    }
    let failed = |(step, result): (_, Result<(), SockmonError>)| {
        Some(LoadWarning::Unfinished { step, reason: result.err()?.to_string() })
    };
    let left = steps.into_iter().filter_map(failed).collect();
    FinishResult { now, moved, left }
}

/// The pairs of applications in force of which the first would lose processes to the second under these subjects.
pub fn moved(
    loaded: &Loaded,
    subjects: &Subjects,
    directories: &[PathBuf],
    found: &PathAnswers,
) -> Result<Vec<(AppId, AppId)>, SockmonError> {
    let places = places::find(loaded, subjects, directories, found)?;
    moved_from(&loaded.maps, subjects, &places.list, numbers)
}

/// The same pairs as [`moved`] gives, for places that are known and without writing anything.
pub fn would_move(
    maps: &Maps,
    subjects: &Subjects,
    places: &[Place],
) -> Result<Vec<(AppId, AppId)>, SockmonError> {
    moved_from(maps, subjects, places, chosen)
}

fn moved_from(
    maps: &Maps,
    subjects: &Subjects,
    places: &[Place],
    number: Number,
) -> Result<Vec<(AppId, AppId)>, SockmonError> {
    let before = Lists::in_force(maps)?;
    let (bits, slots) = number(maps, subjects, &before)?;
    let running: HashMap<Identity, u32> =
        identities::all(maps)?.into_iter().map(|(identity, known)| (identity, known.list)).collect();
    let taken = running.values().copied().collect();
    let made_of = lists::Policy { subjects, bits: &bits, slots: &slots };
    let (lists, _) = Lists::of(&made_of, places, &before, &taken)?;
    let mut pairs = Vec::new();
    let wanted = IdentityTables::of(places, &lists);
    pairs.extend(wanted.executables.iter().filter_map(|(identity, to)| Some((*running.get(identity)?, *to))));
    // Files that were replaced have the list of their place.
    pairs.extend(lists.numbered.keys().map(|number| (*number, *number)));
    let mut out = BTreeSet::new();
    for (from, to) in pairs {
        if let Some((old, new)) = before.numbered.get(&from).zip(lists.numbered.get(&to)) {
            out.extend(lists::moved(old, new, to >= abi::LIST_FIRST));
        }
    }
    Ok(out.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_go_round_and_change_halves() {
        let mut generation = 0;
        for _ in 0..1000 {
            let next = next_generation(generation);
            assert!((1..=abi::LAST_GENERATION).contains(&next));
            assert_ne!(next % 2, generation % 2, "{generation} -> {next}");
            generation = next;
        }
    }
}
