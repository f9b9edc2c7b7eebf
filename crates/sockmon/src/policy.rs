//! Policy into the kernel: the next generation's entries, one store that makes them current, then the old ones away.

use crate::abi::{self, Identity, Item, Network, NetworkKey, OrderKey, Protection};
use crate::adopt;
use crate::error::SockmonError;
use crate::identities;
use crate::model::LoadWarning;
use crate::programs::{Loaded, Maps};
use crate::sys;
use sadb::spd::{Action, Class, Level, Order, Spd};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use wire::{AppId, protocol};

/// The generation after `current`.
fn next_generation(current: u32) -> u32 {
    if current >= abi::LAST_GENERATION { 1 } else { current + 1 }
}

/// What a load hands back: descriptors that keep the inodes of the executables from being used again.
#[derive(Debug, Default)]
pub struct Held {
    /// The executables.
    pub files: Vec<OwnedFd>,
}

/// Replace the policy. An error leaves the old one in force; once the new one is, there are only warnings.
pub fn load(
    loaded: &Loaded,
    spd: &Spd,
    executables: &[(AppId, PathBuf)],
    orders: &[((AppId, AppId), Order)],
) -> Result<(Held, Vec<LoadWarning>), SockmonError> {
    let Identified { held, apps, mut warnings } = identify(loaded, executables)?;
    let maps = &loaded.maps;
    let orders = order_entries(orders, maps.capacity("order")? / 2)?;
    let mut config = maps.config()?;
    let current = config.generation;
    let next = next_generation(current);
    // What a loader left that died half-way.
    forget_all_but(maps, current)?;
    let flipped = write_generation(maps, spd, &orders, next).and_then(|()| {
        identities::reserve(maps, &apps)?;
        config.generation = next;
        maps.set_config(&config)
    });
    if let Err(error) = flipped {
        // The error that matters is the first one; the next load cleans up too.
        if let Err(error) = forget_all_but(maps, current).and_then(|()| identities::release(maps)) {
            tracing::warn!(%error, "cannot clean up behind a failed load");
        }
        return Err(error);
    }
    warnings.extend(finish(loaded, spd, &apps, next));
    Ok((held, warnings))
}

/// What follows when a generation is current: it is too late to fail.
fn finish(loaded: &Loaded, spd: &Spd, apps: &HashMap<Identity, AppId>, generation: u32) -> Vec<LoadWarning> {
    let maps = &loaded.maps;
    // A program that read the old generation may still be looking its entries up: to it, none would mean clear.
    let waited = sys::wait_for_readers().map_err(SockmonError::system("wait for the kernel's readers"));
    let readers = waited.is_ok();
    let mut steps = vec![("wait for the kernel's readers", waited)];
    if readers {
        steps.push(("forget the policy before", forget_all_but(maps, generation)));
    }
    // From here on sockets are stamped with the new applications.
    steps.push(("name every executable", identities::put_in_force(maps, apps)));
    steps.push(("forget executables", identities::sweep(loaded, spd, apps)));
    let failed = |(step, result): (_, Result<(), SockmonError>)| {
        Some(LoadWarning::Unfinished { step, reason: result.err()?.to_string() })
    };
    steps.into_iter().filter_map(failed).collect()
}

/// The executables as the kernel knows them.
pub struct Identified {
    held: Held,
    /// Whose each of them is.
    pub apps: HashMap<Identity, AppId>,
    warnings: Vec<LoadWarning>,
}

/// Open every executable and learn the kernel's numbers of it.
pub fn identify(loaded: &Loaded, executables: &[(AppId, PathBuf)]) -> Result<Identified, SockmonError> {
    let mut warnings = Vec::new();
    let mut opened = Vec::new();
    let mut held = Held::default();
    for (app, path) in executables {
        match sys::open_path(path) {
            Ok(file) => {
                if let Some(interpreter) = interpreter(path) {
                    warnings.push(LoadWarning::Script { app: *app, path: path.clone(), interpreter });
                }
                opened.push((*app, path));
                held.files.push(file);
            }
            Err(e) => {
                warnings.push(LoadWarning::Missing { app: *app, path: path.clone(), reason: e.to_string() });
            }
        }
    }
    let mut apps: HashMap<Identity, AppId> = HashMap::new();
    for ((app, path), identity) in opened.into_iter().zip(adopt::identities(loaded, &held.files)?) {
        let identity = identity.ok_or(SockmonError::Answer("identity of an executable"))?;
        match apps.insert(identity, app) {
            Some(first) if first != app => {
                return Err(SockmonError::SameExecutable { path: path.clone(), first, second: app });
            }
            _ => {}
        }
    }
    Ok(Identified { held, apps, warnings })
}

/// What the first line of a `#!` script names.
fn interpreter(path: &Path) -> Option<String> {
    let mut start = [0u8; 128];
    let n = File::open(path).ok()?.read(&mut start).ok()?;
    let line = start.get(..n)?.strip_prefix(b"#!")?;
    let end = line.iter().position(|&b| b == b'\n').unwrap_or(line.len());
    Some(String::from_utf8_lossy(&line[..end]).trim().to_owned())
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
            let (key, value) = entry(generation, app, network, first);
            maps.write("networks", &key, &value)?;
        }
    }
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

pub(crate) fn entry(
    generation: u32,
    app: AppId,
    network: &sadb::spd::Network,
    first: u32,
) -> (NetworkKey, Network) {
    let key = NetworkKey {
        prefixlen: 32 + u32::from(network.prefix.len()),
        generation: generation as u16,
        app: app.0,
        addr: network.prefix.first().to_be_bytes(),
    };
    let (class, protection) = match network.class {
        Class::Trusted => (abi::TRUSTED, 0),
        Class::Untrusted => (abi::UNTRUSTED, 0),
        // Below PROTECTIONS, which fits 16 bits.
        Class::Protected(index) => (abi::PROTECTED, (first as usize + index) as u16),
    };
    (key, Network { class, zero: 0, protection })
}

fn forget_all_but(maps: &Maps, generation: u32) -> Result<(), SockmonError> {
    maps.retain("networks", |key: &NetworkKey| u32::from(key.generation) != generation)?;
    maps.retain("order", |key: &OrderKey| u32::from(key.generation) != generation)?;
    Ok(())
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
