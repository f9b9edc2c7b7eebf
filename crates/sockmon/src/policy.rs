//! Policy into the kernel: the next generation's entries, one store that makes them current, then the old ones away.

use crate::abi::{self, Identity, Item, Network, NetworkKey, OrderKey, Protection};
use crate::adopt;
use crate::error::SockmonError;
use crate::model::LoadWarning;
use crate::programs::{Loaded, Maps};
use crate::sys;
use sadb::spd::{Class, Level, Order, Spd};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use wire::AppId;

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

/// Replace the policy. A failure leaves the old one in force.
pub fn load(
    loaded: &Loaded,
    spd: &Spd,
    executables: &[(AppId, PathBuf)],
    orders: &[((AppId, AppId), Order)],
) -> Result<(Held, Vec<LoadWarning>), SockmonError> {
    let Identified { held, apps, warnings } = identify(loaded, executables)?;
    let maps = &loaded.maps;
    let mut config = maps.config()?;
    let current = config.generation;
    let next = next_generation(current);
    // What a loader left that died half-way.
    forget_all_but(maps, current)?;
    let written = write_generation(maps, spd, orders, next).and_then(|()| {
        apps.iter().try_for_each(|(identity, app)| maps.write("apps", identity, &u32::from(app.0)))
    });
    if let Err(error) = written {
        forget_all_but(maps, current)?;
        return Err(error);
    }
    config.generation = next;
    maps.set_config(&config)?;
    // A program that read the old generation may still be looking its entries up: to it, none would mean clear.
    sys::wait_for_readers().map_err(SockmonError::system("wait for the kernel's readers"))?;
    forget_all_but(maps, next)?;
    maps.retain("apps", |identity: &Identity| !apps.contains_key(identity))?;
    Ok((held, warnings))
}

/// The executables as the kernel knows them.
struct Identified {
    held: Held,
    apps: HashMap<Identity, AppId>,
    warnings: Vec<LoadWarning>,
}

/// Open every executable and learn the kernel's numbers of it.
fn identify(loaded: &Loaded, executables: &[(AppId, PathBuf)]) -> Result<Identified, SockmonError> {
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
    orders: &[((AppId, AppId), Order)],
    generation: u32,
) -> Result<(), SockmonError> {
    let count = spd.apps().map(|(_, policy)| policy.protections().len()).sum();
    let max = (abi::PROTECTIONS / 2) as usize;
    if count > max {
        return Err(SockmonError::TooManyProtections { count, max });
    }
    // Even and odd generations each have a half, so that the current one is not written to.
    let mut slot = (generation % 2) * (abi::PROTECTIONS / 2);
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
    for &((a, b), order) in orders {
        let (a_to_b, b_to_a) = match order {
            Order::Same => (abi::ORDER_TO, abi::ORDER_TO),
            // The first is stricter: it stays, and it takes over from the second.
            Order::Stricter => (abi::ORDER_FROM, abi::ORDER_TO),
            Order::Weaker => (abi::ORDER_TO, abi::ORDER_FROM),
            Order::Incomparable => continue,
        };
        for (from, to, value) in [(a, b, a_to_b), (b, a, b_to_a)] {
            let key = OrderKey { generation: generation as u16, from: from.0, to: to.0, zero: 0 };
            maps.write("order", &key, &value)?;
        }
    }
    Ok(())
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
            level: match item.level {
                Level::Mandatory => abi::MANDATORY,
                Level::Optional => abi::OPTIONAL,
            },
            zero: 0,
        };
    }
    Ok(out)
}

fn entry(generation: u32, app: AppId, network: &sadb::spd::Network, first: u32) -> (NetworkKey, Network) {
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
}
