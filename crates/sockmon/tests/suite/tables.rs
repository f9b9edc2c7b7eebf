//! What a load leaves in the kernel's maps: what the policy in force says, once, and nothing else; of what stays the same nothing
//! is written. Needs root.

use crate::agree::random;
use crate::common;

use common::*;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use random::Random;
use sadb::spd::{AppPolicy, Class, Failure, Item, Level, Order, PortRange, RuleId, Spd};
use sockmon::abi::{self, Network, NetworkKey, OrderKey, Protection, Wire};
use sockmon::{LoadStats, SockmonError};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use wire::{AggregateId, AppId, Services};

type Table = BTreeSet<(u32, [u8; 16], u8, u8, u32)>;

/// The maps of policy as they are.
#[derive(Debug, PartialEq)]
struct Snapshot {
    generation: u32,
    /// The table of each application, in the half in force and in the other.
    applications: [BTreeMap<u16, u32>; 2],
    tables: BTreeMap<u32, Table>,
    protections: BTreeMap<u32, Protection>,
    orders: BTreeMap<(u32, u32), u8>,
}

fn map(world: &World, name: &str) -> MapHandle {
    let pin = PathBuf::from("/sys/fs/bpf/ravelin").join(&world.name).join(name);
    MapHandle::from_pinned_path(pin).unwrap()
}

fn entries<K: Wire, V: Wire>(world: &World, name: &str) -> Vec<(K, V)> {
    let map = map(world, name);
    let value = |key: &[u8]| V::read(&map.lookup(key, MapFlags::ANY).unwrap().unwrap()).unwrap();
    map.keys().map(|key| (K::read(&key).unwrap(), value(&key))).collect()
}

fn snapshot(world: &mut World) -> Snapshot {
    let generation = world.sockmon().generation().unwrap();
    let mut applications = [BTreeMap::new(), BTreeMap::new()];
    let array = map(world, "applications");
    // Those of these tests; the others would take a while each time.
    for app in (0..256).chain([abi::APP_GUARD, abi::APP_REFUSED]) {
        for half in 0..2 {
            let slot = (generation + half) % 2 * abi::APP_NUMBERS + u32::from(app);
            let table = u32::read(&array.lookup(slot.bytes(), MapFlags::ANY).unwrap().unwrap()).unwrap();
            if table != 0 {
                applications[half as usize].insert(app, table);
            }
        }
    }
    let mut tables: BTreeMap<u32, Table> = BTreeMap::new();
    for (key, value) in entries::<NetworkKey, Network>(world, "networks") {
        let row = (key.prefixlen - 32, key.addr, value.class, value.would, value.protection);
        assert!(tables.entry(key.table).or_default().insert(row));
    }
    let protections = entries::<u32, Protection>(world, "protections").into_iter().collect();
    let orders = entries::<OrderKey, u8>(world, "order");
    let orders = orders.into_iter().map(|(key, value)| ((key.low, key.high), value)).collect();
    Snapshot { generation, applications, tables, protections, orders }
}

/// A protection without its number and the digest of its terms.
fn items(protection: &Protection) -> Vec<abi::Item> {
    protection.items[..protection.count as usize].to_vec()
}

/// A network as the kernel half understands it.
type Meaning = (u32, [u8; 16], u8, u8, Vec<abi::Item>);

fn meaning(policy: &AppPolicy) -> BTreeSet<String> {
    let network = |n: &sadb::spd::Network| {
        let of = |class| match class {
            Class::Trusted => (abi::TRUSTED, Vec::new()),
            Class::Untrusted => (abi::UNTRUSTED, Vec::new()),
            Class::Protected(at) => (abi::PROTECTED, policy.protections()[at].iter().map(item_of).collect()),
        };
        let (class, items) = of(n.class);
        let (would, items) = policy.would(n).map_or((0, items), of);
        let meaning: Meaning =
            (u32::from(n.prefix.len()), n.prefix.first().to_be_bytes(), class, would, items);
        format!("{meaning:?}")
    };
    policy.networks().iter().map(network).collect()
}

fn item_of(item: &Item) -> abi::Item {
    abi::Item {
        local_first: item.local.first,
        local_last: item.local.last,
        remote_first: item.remote.first,
        remote_last: item.remote.last,
        services: item.services.bits(),
        level: match item.level {
            Level::Mandatory => abi::MANDATORY,
            Level::Optional => abi::OPTIONAL,
            Level::AcceptOnly => abi::ACCEPT_ONLY,
        },
        protocol: 0,
        aggregate: item.terms.class.0,
    }
}

/// The maps hold what the policy says, and nothing else.
fn check(world: &mut World, spd: &Spd, exceptions: &[((AppId, AppId), Order)]) -> Snapshot {
    let seen = snapshot(world);
    let [now, other] = &seen.applications;
    assert_eq!(now, other, "the other half is as the one in force, between loads");
    let refused = AppPolicy::new(vec![network("::/0", Class::Untrusted)], Vec::new());
    let mut wanted: BTreeMap<u16, &AppPolicy> =
        spd.apps().map(|(app, policy)| (app.0, policy.as_ref())).collect();
    wanted.insert(abi::APP_REFUSED, &refused);
    wanted.insert(abi::APP_GUARD, &spd.guard);
    wanted.retain(|app, policy| !policy.networks().is_empty() || spd.changing.contains(&AppId(*app)));
    assert_eq!(now.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
    let none = Table::new();
    for (app, policy) in &wanted {
        let rows = seen.tables.get(&now[app]).unwrap_or(&none);
        let said: BTreeSet<String> = rows
            .iter()
            .map(|(len, addr, class, would, protection)| {
                let items = match [*class, *would].contains(&abi::PROTECTED) {
                    true => items(&seen.protections[protection]),
                    false => Vec::new(),
                };
                let meaning: Meaning = (*len, *addr, *class, *would, items);
                format!("{meaning:?}")
            })
            .collect();
        assert_eq!(said, meaning(policy), "application {app}");
    }
    let used: BTreeSet<u32> = now.values().copied().collect();
    assert!(seen.tables.keys().all(|table| used.contains(table)), "{seen:?}");
    let named: BTreeSet<u32> = seen
        .tables
        .values()
        .flatten()
        .filter(|row| [row.2, row.3].contains(&abi::PROTECTED))
        .map(|row| row.4)
        .collect();
    // One that may come to name a protection keeps it.
    let spare: usize =
        spd.changing.iter().filter_map(|app| spd.get(*app)).map(|p| p.protections().len()).sum();
    let extra = seen.protections.keys().filter(|number| !named.contains(number)).count();
    assert!(extra <= spare, "{extra} protections that nothing names");
    // Equal tables are one, unless they may change by themselves; so are equal protections.
    let shared = || now.iter().filter(|(app, _)| !spd.changing.contains(&AppId(**app)));
    for (app, table) in shared() {
        for (also, other) in shared() {
            let alike = wanted[app] == wanted[also];
            assert!(!alike || table == other, "{app} and {also} say the same");
        }
    }
    let distinct: std::collections::HashSet<&Protection> = seen.protections.values().collect();
    assert_eq!(distinct.len(), seen.protections.len());
    check_orders(&seen, &wanted, exceptions);
    seen
}

fn check_orders(seen: &Snapshot, wanted: &BTreeMap<u16, &AppPolicy>, exceptions: &[((AppId, AppId), Order)]) {
    let mut orders = BTreeMap::new();
    let tables = || wanted.iter().filter(|(app, _)| **app < abi::APP_GUARD);
    for (app, low) in tables() {
        for (also, high) in tables() {
            let pair = (seen.applications[0][app], seen.applications[0][also]);
            let value = match policy::compare(low, high) {
                _ if pair.0 >= pair.1 => continue,
                Order::Same => abi::ORDER_HIGH | abi::ORDER_LOW,
                Order::Stricter => abi::ORDER_LOW,
                Order::Weaker => abi::ORDER_HIGH,
                Order::Incomparable => continue,
            };
            orders.insert(pair, value);
        }
    }
    for ((from, to), order) in exceptions {
        let value = |order| match order {
            Order::Weaker | Order::Same => abi::ORDER_TO,
            Order::Stricter => abi::ORDER_FROM,
            Order::Incomparable => abi::ORDER_REFUSE,
        };
        let back = match order {
            Order::Weaker => Order::Stricter,
            Order::Stricter => Order::Weaker,
            order => *order,
        };
        let low = |app: &AppId| abi::ORDER_APPS | seen.generation << 16 | u32::from(app.0);
        orders.insert((low(from), u32::from(to.0)), value(*order));
        orders.insert((low(to), u32::from(from.0)), value(back));
    }
    // A table that an application had, and that only those have now who are refused, keeps its orders. They have no
    // sockets, so nobody asks for these; the next application that has the table is compared anew.
    let own = |number: &u32| {
        let mut apps = seen.applications[0].iter().filter(|(_, table)| *table == number);
        apps.clone().next().is_none() || apps.any(|(app, _)| *app < abi::APP_GUARD)
    };
    let of_apps = |low: &u32| low & abi::ORDER_APPS != 0;
    let asked = seen.orders.iter().filter(|((low, high), _)| of_apps(low) || own(low) && own(high));
    assert_eq!(asked.map(|(pair, value)| (*pair, *value)).collect::<BTreeMap<_, _>>(), orders);
}

fn load(world: &mut World, spd: &Spd, exceptions: &[((AppId, AppId), Order)]) -> LoadStats {
    let subjects = sockmon::Subjects::default();
    assert_eq!(world.sockmon().load_policy(spd, &subjects, exceptions).unwrap(), []);
    world.sockmon().last_load()
}

const PREFIXES: [&str; 7] =
    ["0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32", "::/0", "2001:db8::/32", "2001:db8::1/128"];

fn random_items(random: &mut Random) -> Vec<Item> {
    let one = |random: &mut Random| {
        let services = *random.pick(&[Services::AUTHENTICATED, Services::ENCRYPTED]);
        let level = *random.pick(&[Level::Mandatory, Level::Optional, Level::AcceptOnly]);
        let remote = *random.pick(&[PortRange::ANY, PortRange::one(22), PortRange { first: 1, last: 99 }]);
        let mut item = item(PortRange::ANY, remote, services, level);
        // Terms are not the kernel half's, and tell two protections apart all the same.
        if random.below(4) == 0 {
            item.terms.failure = Failure::Pass;
        }
        // The next number is looked at and left, so that a seed means the policies that it meant before.
        if random.clone().below(4) == 0 {
            item.terms.class = AggregateId(8);
        }
        item
    };
    (0..1 + random.below(2)).map(|_| one(random)).collect()
}

fn random_policy(random: &mut Random) -> AppPolicy {
    let protections: Vec<Vec<Item>> = (0..random.below(3)).map(|_| random_items(random)).collect();
    let (mut networks, mut observed) = (Vec::new(), BTreeMap::new());
    for rule in 1..=random.below(5) as u32 {
        let class = match random.below(4) {
            0 => Class::Trusted,
            1 => Class::Untrusted,
            _ if protections.is_empty() => Class::Untrusted,
            _ => Class::Protected(random.below(protections.len())),
        };
        let rule = RuleId(rule);
        if random.below(4) == 0 {
            observed.insert(rule, class);
        }
        networks.push(sadb::spd::Network { rule, ..network(random.pick::<&str>(&PREFIXES), class) });
    }
    AppPolicy::new(networks, protections).observing(observed)
}

/// The next policy: mostly like the one before.
fn next_policy(random: &mut Random, spd: &mut Spd) {
    match random.below(6) {
        0 => *spd = Spd::new(1),
        1 => {
            spd.guard =
                AppPolicy::new(vec![network(random.pick::<&str>(&PREFIXES), Class::Untrusted)], Vec::new())
        }
        2 => spd.guard = AppPolicy::default(),
        _ => {}
    }
    for _ in 0..1 + random.below(3) {
        let app = AppId(1 + random.below(8) as u16);
        let twin = AppId(1 + random.below(8) as u16);
        let policy = spd.get(twin).filter(|_| random.below(2) == 0).cloned();
        spd.insert(app, policy.unwrap_or_else(|| random_policy(random)));
        match random.below(4) {
            0 => drop(spd.changing.insert(app)),
            1 => drop(spd.changing.remove(&app)),
            _ => {}
        }
    }
}

/// The entries that a loader leaves that dies after its writes and before its store.
fn residue(world: &World, generation: u32, random: &mut Random) {
    let put = |name, key: &[u8], value: &[u8]| map(world, name).update(key, value, MapFlags::ANY).unwrap();
    let table = 1_000_000 + random.below(1000) as u32;
    for (len, class) in [(0, abi::TRUSTED), (100, abi::UNTRUSTED)] {
        let key = NetworkKey { prefixlen: 32 + len, table, addr: [0; 16] };
        put("networks", key.bytes(), Network { class, would: 0, zero: [0; 2], protection: 0 }.bytes());
    }
    let slot = (generation + 1) % 2 * abi::APP_NUMBERS + 1 + random.below(8) as u32;
    put("applications", slot.bytes(), table.bytes());
    put("order", OrderKey { low: 1, high: table }.bytes(), &[1]);
    let low = abi::ORDER_APPS | (generation + 1) << 16 | 3;
    put("order", OrderKey { low, high: 4 }.bytes(), &[1]);
    let protection =
        Protection { count: 0, zero: 0, terms: 9, items: [item_of(&everything(Level::Optional)); 32] };
    put("protections", table.bytes(), protection.bytes());
}

#[test]
fn the_maps_hold_what_is_in_force_and_nothing_else() {
    let seed = std::env::var("RAVELIN_TABLES_SEED").map_or(19, |text| text.parse().unwrap());
    let mut random = Random::new(seed);
    let mut world = World::new("tables");
    world.attach();
    let mut spd = Spd::new(1);
    let mut restarts = 0;
    for round in 0..30 {
        println!("seed {seed}, round {round}");
        next_policy(&mut random, &mut spd);
        let exceptions = match random.below(3) {
            0 => vec![((AppId(1), AppId(2)), *random.pick(&[Order::Weaker, Order::Incomparable]))],
            _ => Vec::new(),
        };
        let generation = world.sockmon().generation().unwrap();
        if random.below(3) == 0 {
            restarts += 1;
            if random.below(2) == 0 {
                residue(&world, generation, &mut random);
            }
            drop(world.sockmon.take());
            world.attach();
        }
        load(&mut world, &spd, &exceptions);
        let before = check(&mut world, &spd, &exceptions);
        // Once more: nothing is written but what belongs to the generation.
        let again = load(&mut world, &spd, &[]);
        assert_eq!((again.tables_written, again.networks_written, again.protections_written), (0, 0, 0));
        assert_eq!((again.applications_changed, again.tables_removed, again.orders_written), (0, 0, 0));
        let after = check(&mut world, &spd, &[]);
        assert_eq!((&after.tables, &after.protections), (&before.tables, &before.protections));
        // A load that is refused.
        let mut broken = spd.clone();
        let too_many = vec![vec![everything(Level::Mandatory); 33]];
        broken.insert(AppId(20), random_policy(&mut random));
        broken.insert(AppId(21), AppPolicy::new(vec![network("::/0", Class::Protected(0))], too_many));
        let refused = world.sockmon().load_policy(&broken, &sockmon::Subjects::default(), &[]);
        assert!(matches!(refused, Err(SockmonError::TooManyItems { .. })));
        assert_eq!(snapshot(&mut world), after);
    }
    assert!(restarts > 3);
    let known = |slot: &u32| !(256..u32::from(abi::APP_GUARD)).contains(&(slot % abi::APP_NUMBERS));
    let slots = entries::<u32, u32>(&world, "applications");
    assert!(slots.iter().filter(|(_, table)| *table != 0).all(|(slot, _)| known(slot)));
}

fn refusing(text: &str) -> AppPolicy {
    AppPolicy::new(vec![network(text, Class::Untrusted)], Vec::new())
}

#[test]
fn one_change_is_one_table_and_equal_ones_are_shared() {
    let mut world = World::new("one-table");
    world.attach();
    let protection = |level| vec![vec![everything(level)]];
    let block = |n: usize| {
        let networks = (0..20).map(|at| network(&format!("10.{n}.{at}.0/24"), Class::Protected(0)));
        AppPolicy::new(networks.collect(), protection(Level::Mandatory))
    };
    let mut spd = Spd::new(1);
    for app in 1..=200u16 {
        spd.insert(AppId(app), block(usize::from(app) / 2));
    }
    let first = load(&mut world, &spd, &[]);
    // Two applications for each block, 101 blocks, and what must not send.
    assert_eq!((first.applications, first.tables, first.tables_written), (201, 102, 102));
    assert_eq!((first.networks, first.networks_written, first.protections_written), (2021, 2021, 1));
    let before = check(&mut world, &spd, &[]);

    // From the same text, compiled anew: not one entry.
    let anew: Vec<_> = spd.apps().map(|(app, policy)| (app, policy.as_ref().clone())).collect();
    anew.into_iter().for_each(|(app, policy)| spd.insert(app, policy));
    let same = load(&mut world, &spd, &[]);
    assert_eq!(
        same,
        LoadStats {
            tables_written: 0,
            networks_written: 0,
            protections_written: 0,
            applications_changed: 0,
            executables_written: 0,
            ..first
        }
    );

    spd.insert(AppId(7), AppPolicy::new(block(3).networks().to_vec(), protection(Level::Optional)));
    let one = load(&mut world, &spd, &[]);
    assert_eq!((one.applications_changed, one.tables_written, one.networks_written), (1, 1, 20));
    assert_eq!((one.protections_written, one.tables_removed), (1, 0));
    let after = check(&mut world, &spd, &[]);
    let new: Vec<&u32> = after.tables.keys().filter(|table| !before.tables.contains_key(table)).collect();
    assert_eq!(new.len(), 1);
    assert!(before.tables.iter().all(|(number, rows)| after.tables.get(number) == Some(rows)));
    let moved = |(app, table): &(&u16, &u32)| after.applications[0].get(app) != Some(table);
    assert_eq!(before.applications[0].iter().filter(moved).map(|(app, _)| *app).collect::<Vec<_>>(), [7]);

    // Back: the table is there, and the other goes.
    spd.insert(AppId(7), block(3));
    let back = load(&mut world, &spd, &[]);
    assert_eq!((back.tables_written, back.tables_removed, back.applications_changed), (0, 1, 1));
    assert_eq!(check(&mut world, &spd, &[]).tables, before.tables);
}

#[test]
fn a_load_that_fails_half_way_leaves_the_old_policy_and_no_residue() {
    let mut world = World::new("half-way");
    world.attach();
    let mut spd = Spd::new(1);
    spd.insert(AppId(1), refusing("10.0.0.0/8"));
    spd.insert(AppId(2), refusing("10.0.0.0/9"));
    load(&mut world, &spd, &[]);
    let before = check(&mut world, &spd, &[]);
    // Full but for a few entries, unknown to the daemon: orders are written behind protections and networks.
    let order = map(&world, "order");
    let strange = |at: u32| OrderKey { low: 0x4000_0000 + at, high: 0x5000_0000 };
    let room = order.max_entries() - before.orders.len() as u32 - 3;
    let keys: Vec<u8> = (0..room).flat_map(|at| strange(at).bytes().to_vec()).collect();
    order.update_batch(&keys, &vec![1; room as usize], room, MapFlags::ANY, MapFlags::ANY).unwrap();
    let mut larger = spd.clone();
    for len in 10..24 {
        let class = Class::Protected(0);
        let networks = vec![network(&format!("10.0.0.0/{len}"), class)];
        larger.insert(AppId(len), AppPolicy::new(networks, vec![vec![everything(Level::Mandatory)]]));
    }
    let failed = world.sockmon().load_policy(&larger, &sockmon::Subjects::default(), &[]);
    assert!(matches!(failed, Err(SockmonError::System { .. })), "{failed:?}");
    order.delete_batch(&keys, room, MapFlags::ANY, MapFlags::ANY).unwrap();
    assert_eq!(snapshot(&mut world), before);
    // And with room it goes.
    load(&mut world, &larger, &[]);
    check(&mut world, &larger, &[]);
}

#[test]
fn addresses_of_names_change_in_the_table_of_their_application() {
    let mut world = World::new("single");
    world.attach();
    let mut spd = Spd::new(1);
    let with = |host: &str| {
        let networks = vec![network(host, Class::Protected(0)), network("10.0.0.0/8", Class::Untrusted)];
        AppPolicy::new(networks, vec![vec![everything(Level::Mandatory)]])
    };
    spd.insert(AppId(1), with("192.0.2.1/32"));
    spd.insert(AppId(2), with("192.0.2.1/32"));
    spd.insert(AppId(3), refusing("10.0.0.0/9"));
    spd.changing.insert(AppId(1));
    load(&mut world, &spd, &[]);
    let before = check(&mut world, &spd, &[]);
    let table = |seen: &Snapshot, app: u16| seen.applications[0][&app];
    assert_ne!(table(&before, 1), table(&before, 2), "one of them may change");

    // The new address covers what application 3 refuses: an order that was is over.
    spd.insert(AppId(1), with("10.0.0.1/32"));
    world.sockmon().change_networks(&spd, &[((AppId(1), AppId(2)), Order::Weaker)]).unwrap();
    let after = check(&mut world, &spd, &[((AppId(1), AppId(2)), Order::Weaker)]);
    assert_eq!((after.generation, &after.applications), (before.generation, &before.applications));
    assert_ne!(after.orders, before.orders);
    // What is shared cannot change like this, and nothing has happened then.
    let mut more = spd.clone();
    more.insert(AppId(2), with("192.0.2.2/32"));
    assert!(world.sockmon().change_networks(&more, &[]).is_err());
    more = spd.clone();
    more.insert(
        AppId(1),
        AppPolicy::new(
            spd.get(AppId(1)).unwrap().networks().to_vec(),
            vec![vec![everything(Level::Optional)]],
        ),
    );
    assert!(world.sockmon().change_networks(&more, &[]).is_err());
    assert_eq!(snapshot(&mut world), after);
    // To none at all, by the same daemon and after one that is new; a load then writes nothing.
    spd.insert(AppId(1), AppPolicy::new(Vec::new(), with("10.0.0.1/32").protections().to_vec()));
    world.sockmon().change_networks(&spd, &[]).unwrap();
    check(&mut world, &spd, &[]);
    drop(world.sockmon.take());
    world.attach();
    assert!(world.sockmon().change_networks(&spd, &[]).is_err(), "it has loaded nothing yet");
    assert_eq!(load(&mut world, &spd, &[]).networks_written, 0);
    spd.insert(AppId(1), with("192.0.2.9/32"));
    world.sockmon().change_networks(&spd, &[]).unwrap();
    check(&mut world, &spd, &[]);
}

#[test]
fn a_table_is_compared_once_an_application_has_it() {
    let mut world = World::new("compared");
    world.attach();
    let mut spd = Spd::new(1);
    spd.insert(AppId(1), refusing("10.0.0.0/8"));
    load(&mut world, &spd, &[]);
    // What must not send has this table already.
    spd.insert(AppId(2), refusing("::/0"));
    let done = load(&mut world, &spd, &[]);
    assert_eq!((done.tables_written, done.orders_written), (0, 1));
    check(&mut world, &spd, &[]);
    // So does `guard` with a table that an application lets go.
    spd.guard = refusing("10.0.0.0/8");
    spd.insert(AppId(1), refusing("10.0.0.0/9"));
    load(&mut world, &spd, &[]);
    spd.insert(AppId(3), refusing("10.0.0.0/8"));
    load(&mut world, &spd, &[]);
    check(&mut world, &spd, &[]);
}
