//! Policy into the kernel: the next generation's entries, one store that makes them current, then the old ones away.

use crate::abi::{self, Executable, Identity, Item, Network, NetworkKey, OrderKey, Protection};
use crate::ancestors::{self, Bits};
use crate::error::SockmonError;
use crate::groups::{self, Slots};
use crate::identities::{self, Wanted};
use crate::limits;
use crate::lists::{self, Lists};
use crate::model::LoadWarning;
use crate::pins::{self, Pinned};
use crate::places::{self, Place};
use crate::programs::{Loaded, Maps};
use crate::sys;
use policy::Subjects;
use sadb::spd::{Action, Class, Level, Order, Spd};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use wire::{AppId, protocol};

/// The generation after `current`.
fn next_generation(current: u32) -> u32 {
    if current >= abi::LAST_GENERATION { 1 } else { current + 1 }
}

/// What a load is made of.
pub struct Policy<'p> {
    /// The tables of each application.
    pub spd: &'p Spd,
    /// Which application a process belongs to.
    pub subjects: &'p Subjects,
    /// Where bare names are looked for.
    pub directories: &'p [PathBuf],
    /// How applications compare.
    pub orders: &'p [((AppId, AppId), Order)],
}

/// Everything that is known before anything changes.
struct Plan {
    before: Lists,
    lists: Lists,
    wanted: Wanted,
    /// Files that were verified and whose digest this policy does not name.
    stale: Vec<Identity>,
    bits: Bits,
    slots: Slots,
    orders: BTreeMap<(AppId, AppId), u8>,
    generation: u32,
}

/// What a load found.
pub struct Found {
    /// Descriptors that keep the inodes of the executables from being used again.
    pub held: Vec<Arc<OwnedFd>>,
    /// Files that digests speak of, not verified yet.
    pub pinned: Vec<Pinned>,
    /// What is odd.
    pub warnings: Vec<LoadWarning>,
}

/// Replace the policy. An error leaves the old one in force; once the new one is, there are only warnings.
pub fn load(loaded: &Loaded, policy: &Policy<'_>) -> Result<Found, SockmonError> {
    let maps = &loaded.maps;
    let last = loaded.marks.last_app();
    if let Some((app, _)) = policy.spd.apps().find(|(app, _)| app.0 > last) {
        return Err(SockmonError::NoRoomInMark { app, last });
    }
    let places = places::find(loaded, policy.subjects, policy.directories)?;
    let mut warnings = places.warnings;
    let orders = order_entries(policy.orders, maps.capacity("order")? / 2)?;
    let config = maps.config()?;
    // What a loader left that died half-way.
    forget_all_but(maps, config.generation)?;
    let (plan, odd) = plan(loaded, policy, &places.list, orders, next_generation(config.generation))?;
    warnings.extend(odd);
    if let Err(error) = identities::make_room(loaded, &plan.wanted) {
        // There may be room enough all the same.
        let step = "forget executables that no process runs";
        warnings.push(LoadWarning::Unfinished { step, reason: error.to_string() });
    }
    if let Err(error) = write(maps, policy.spd, &plan) {
        // The error that matters is the first one; the next load cleans up too.
        if let Err(error) = forget_all_but(maps, config.generation).and_then(|()| release(maps, &plan)) {
            tracing::warn!(%error, "cannot clean up behind a failed load");
        }
        return Err(error);
    }
    warnings.extend(finish(loaded, &plan, config.ancestors));
    let pinned = pins::of(&places.list, &places.held);
    Ok(Found { held: places.held, pinned, warnings })
}

/// What ancestors and control groups are called in the kernel.
fn numbers(loaded: &Loaded, subjects: &Subjects, before: &Lists) -> Result<(Bits, Slots), SockmonError> {
    let bits = ancestors::prepare(&loaded.maps, &places::ancestors(subjects))?;
    let paths = subjects.iter().filter_map(|(selector, _)| selector.group.clone()).collect();
    Ok((bits, groups::prepare(&loaded.maps, &paths, before)?))
}

fn plan(
    loaded: &Loaded,
    policy: &Policy<'_>,
    found: &[Place],
    orders: BTreeMap<(AppId, AppId), u8>,
    generation: u32,
) -> Result<(Plan, Vec<LoadWarning>), SockmonError> {
    let maps = &loaded.maps;
    let before = Lists::in_force(maps)?;
    let (bits, slots) = numbers(loaded, policy.subjects, &before)?;
    let running = identities::all(maps)?;
    let made_of = lists::Policy { subjects: policy.subjects, bits: &bits, slots: &slots };
    let taken = running.iter().map(|(_, known)| known.list).collect();
    let (mut lists, warnings) = Lists::of(&made_of, found, &before, &taken)?;
    let wanted = Wanted::of(found, &lists);
    let stale = pins::stale(&running, &wanted, &lists, found);
    for (identity, Executable { list: number, .. }) in running {
        let Some(old) = before.numbered.get(&number) else { continue };
        if !lists.numbered.contains_key(&number) && !wanted.executables.contains_key(&identity) {
            lists.keep(number, old, &made_of, policy.spd);
        }
    }
    Ok((Plan { before, lists, wanted, stale, bits, slots, orders, generation }, warnings))
}

/// Everything of the next generation, and then the generation.
fn write(maps: &Maps, spd: &Spd, plan: &Plan) -> Result<(), SockmonError> {
    let config = maps.config()?;
    let high = config.lists.max(plan.lists.high());
    write_generation(maps, spd, &plan.orders, plan.generation)?;
    plan.lists.write(maps, plan.generation, high)?;
    let limits = limits::write(maps, spd, plan.generation)?;
    identities::reserve(maps, &plan.wanted, &plan.before, &plan.lists)?;
    // Before the policy that does not want them is in force.
    plan.stale.iter().try_for_each(|identity| pins::doubt(maps, identity))?;
    let mask = config.ancestors | ancestors::mask(&plan.bits);
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
    })
}

/// Take back what a load that failed has put into the maps for executables.
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

/// What follows when a generation is current: it is too late to fail.
fn finish(loaded: &Loaded, plan: &Plan, ancestors: u64) -> Vec<LoadWarning> {
    let maps = &loaded.maps;
    // A program that read the old generation may still be looking its entries up: to it, none would mean clear.
    let waited = sys::wait_for_readers().map_err(SockmonError::system("wait for the kernel's readers"));
    let readers = waited.is_ok();
    let mut steps = vec![("wait for the kernel's readers", waited)];
    steps.push(("name every executable", identities::put_in_force(maps, &plan.wanted)));
    if readers {
        steps.push(("forget the policy before", forget_all_but(maps, plan.generation)));
        steps.push(("forget control groups", groups::forget(maps, &plan.slots)));
        steps.push(("forget executables", identities::sweep(maps, &plan.wanted, &plan.lists)));
        steps
            .push(("learn what processes were started by", ancestors::settle(loaded, &plan.bits, ancestors)));
    }
    let failed = |(step, result): (_, Result<(), SockmonError>)| {
        Some(LoadWarning::Unfinished { step, reason: result.err()?.to_string() })
    };
    steps.into_iter().filter_map(failed).collect()
}

/// Which applications in force would lose processes to which others with these subjects.
pub fn moved(
    loaded: &Loaded,
    subjects: &Subjects,
    directories: &[PathBuf],
) -> Result<Vec<(AppId, AppId)>, SockmonError> {
    let maps = &loaded.maps;
    let places = places::find(loaded, subjects, directories)?;
    let before = Lists::in_force(maps)?;
    let (bits, slots) = numbers(loaded, subjects, &before)?;
    let running: HashMap<Identity, u32> =
        identities::all(maps)?.into_iter().map(|(identity, known)| (identity, known.list)).collect();
    let taken = running.values().copied().collect();
    let made_of = lists::Policy { subjects, bits: &bits, slots: &slots };
    let (lists, _) = Lists::of(&made_of, &places.list, &before, &taken)?;
    let mut pairs = Vec::new();
    let wanted = Wanted::of(&places.list, &lists);
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

fn write_generation(
    maps: &Maps,
    spd: &Spd,
    orders: &BTreeMap<(AppId, AppId), u8>,
    generation: u32,
) -> Result<(), SockmonError> {
    let count = spd.apps().map(|(_, policy)| policy.protections().len()).sum();
    let max = (abi::PROTECTIONS / 2) as usize;
    if count > max {
        return Err(SockmonError::TooManyProtections { count, max });
    }
    let mut slot = Maps::first_slot(generation);
    for (app, policy) in spd.apps() {
        let first = slot;
        for items in policy.protections() {
            maps.write("protections", &slot, &protection(app, items)?)?;
            slot += 1;
        }
        for network in policy.networks() {
            let (key, value) = entry(generation, app, network, policy.would(network), first);
            maps.write("networks", &key, &value)?;
        }
    }
    for network in spd.guard.networks() {
        let (key, value) = entry(generation, AppId(abi::APP_GUARD), network, None, 0);
        maps.write("networks", &key, &value)?;
    }
    // What must not send has a policy of one line.
    let refused =
        NetworkKey { prefixlen: 32, generation: generation as u16, app: abi::APP_REFUSED, addr: [0; 16] };
    maps.write("networks", &refused, &Network { class: abi::UNTRUSTED, would: 0, protection: 0 })?;
    for (&(from, to), value) in orders {
        let key = OrderKey { generation: generation as u16, from: from.0, to: to.0, zero: 0 };
        maps.write("order", &key, value)?;
    }
    Ok(())
}

/// What the map `order` gets, if it fits. No policy needs no entry, and what does not compare has none.
pub(crate) fn order_entries(
    orders: &[((AppId, AppId), Order)],
    max: usize,
) -> Result<BTreeMap<(AppId, AppId), u8>, SockmonError> {
    let mut out = BTreeMap::new();
    for &((a, b), order) in orders.iter().filter(|((a, b), _)| *a != AppId::NONE && *b != AppId::NONE) {
        let (a_to_b, b_to_a) = match order {
            Order::Same => (abi::ORDER_TO, abi::ORDER_TO),
            // The first is stricter: it stays, and it takes over from the second.
            Order::Stricter => (abi::ORDER_FROM, abi::ORDER_TO),
            Order::Weaker => (abi::ORDER_TO, abi::ORDER_FROM),
            Order::Incomparable => continue,
        };
        out.insert((a, b), a_to_b);
        out.insert((b, a), b_to_a);
    }
    if out.len() > max {
        return Err(SockmonError::TooManyOrders { count: out.len(), max });
    }
    Ok(out)
}

fn protection(app: AppId, items: &[sadb::spd::Item]) -> Result<Protection, SockmonError> {
    if items.len() > abi::ITEMS {
        return Err(SockmonError::TooManyItems { app, count: items.len(), max: abi::ITEMS });
    }
    const NONE: Item = Item {
        local_first: 0,
        local_last: 0,
        remote_first: 0,
        remote_last: 0,
        services: 0,
        level: 0,
        protocol: 0,
        zero: 0,
    };
    let mut out = Protection { count: items.len() as u32, items: [NONE; abi::ITEMS] };
    for (to, item) in out.items.iter_mut().zip(items) {
        *to = Item {
            local_first: item.local.first,
            local_last: item.local.last,
            remote_first: item.remote.first,
            remote_last: item.remote.last,
            services: item.services.bits(),
            level: level(item.action()),
            protocol: protocol_of(item),
            zero: 0,
        };
    }
    Ok(out)
}

fn level(action: Action) -> u8 {
    match action {
        Action::Protect { level: Level::Mandatory, .. } => abi::MANDATORY,
        Action::Protect { level: Level::Optional, .. } => abi::OPTIONAL,
        Action::Protect { level: Level::AcceptOnly, .. } => abi::ACCEPT_ONLY,
        Action::Bypass => abi::NEVER,
        // No item refuses; should one come to, nothing passes unprotected.
        Action::Discard => abi::MANDATORY,
    }
}

/// Zero for all; both ICMPs are one.
fn protocol_of(item: &sadb::spd::Item) -> u8 {
    match item.protocol {
        Some(protocol::ICMPV6) => protocol::ICMP,
        Some(number) => number,
        None => 0,
    }
}

/// `would` is the class of an observed network, which is trusted meanwhile.
pub(crate) fn entry(
    generation: u32,
    app: AppId,
    network: &sadb::spd::Network,
    would: Option<Class>,
    first: u32,
) -> (NetworkKey, Network) {
    let key = NetworkKey {
        prefixlen: 32 + u32::from(network.prefix.len()),
        generation: generation as u16,
        app: app.0,
        addr: network.prefix.first().to_be_bytes(),
    };
    let numbers = |class| match class {
        Class::Trusted => (abi::TRUSTED, 0),
        Class::Untrusted => (abi::UNTRUSTED, 0),
        // Below PROTECTIONS, which fits 16 bits.
        Class::Protected(index) => (abi::PROTECTED, (first as usize + index) as u16),
    };
    let (class, protection) = numbers(network.class);
    let value = match would.map(numbers) {
        Some((would, protection)) => Network { class, would, protection },
        None => Network { class, would: 0, protection },
    };
    (key, value)
}

fn forget_all_but(maps: &Maps, generation: u32) -> Result<(), SockmonError> {
    maps.retain("networks", |key: &NetworkKey| u32::from(key.generation) != generation)?;
    maps.retain("order", |key: &OrderKey| u32::from(key.generation) != generation)?;
    limits::forget_all_but(maps, generation)
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

    #[test]
    fn orders_are_counted_once_each_way_and_must_fit() {
        let (a, b) = (AppId(1), AppId(2));
        let orders = [
            ((a, b), Order::Stricter),
            ((b, a), Order::Weaker),
            ((a, AppId::NONE), Order::Stricter),
            ((AppId::NONE, b), Order::Weaker),
            ((a, AppId(3)), Order::Incomparable),
        ];
        let entries = order_entries(&orders, 2).unwrap();
        let want = [((a, b), abi::ORDER_FROM), ((b, a), abi::ORDER_TO)];
        assert_eq!(entries.into_iter().collect::<Vec<_>>(), want);
        let error = order_entries(&orders, 1).unwrap_err();
        assert!(matches!(error, SockmonError::TooManyOrders { count: 2, max: 1 }), "{error}");
        assert!(error.remedy().contains("fewer applications"));
    }
}
