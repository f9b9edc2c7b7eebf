//! The content of the maps of policy, and the changes that a load makes to it (docs/design/0019).
//!
//! What enters: the tables of each application. What leaves: which tables and protections the kernel half lacks, which
//! application has which table, which pairs of tables compare. Tables and protections are there once, by what they say, under
//! numbers that mean the same as long as they are there; so a load writes what no policy before it had, and nothing else.

mod kernel;
mod orders;
mod single;

use crate::abi::{self, Item, Network, NetworkKey, OrderKey, Protection};
use crate::error::SockmonError;
use policy::Outline;
use sadb::spd::{Action, AppPolicy, Class, Level, Order, Spd};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use wire::{AppId, protocol};

/// Entries that the maps take.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// The number of entries that the map `networks` takes.
    pub networks: usize,
    /// The number of entries that the map `protections` takes.
    pub protections: usize,
    /// The number of entries that the map `order` takes.
    pub orders: usize,
}

/// One network of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    addr: [u8; 16],
    len: u8,
    class: u8,
    /// The class that an observed network would have: such a network is trusted, and `protection` is that of this
    /// class.
    would: u8,
    protection: u32,
}

impl Row {
    /// Whether it names its protection.
    fn is_protected(&self) -> bool {
        self.class == abi::PROTECTED || self.would == abi::PROTECTED
    }

    fn entry(&self, table: u32) -> (NetworkKey, Network) {
        let key = NetworkKey { prefixlen: 32 + u32::from(self.len), table, addr: self.addr };
        (key, Network { class: self.class, would: self.would, zero: [0; 2], protection: self.protection })
    }
}

/// The networks of one policy.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The networks in sorted order.
    rows: Vec<Row>,
    hash: u64,
    /// The application that this table belongs to alone, since its networks change one at a time.
    owner: Option<AppId>,
    /// Protections that it names.
    protections: Vec<u32>,
    /// The outline for comparisons; of a table that was read from the maps, once a policy has it.
    outline: Option<Outline>,
}

impl Table {
    /// A table with these networks.
    fn new(mut rows: Vec<Row>, owner: Option<AppId>) -> Table {
        rows.sort_unstable();
        let mut hasher = DefaultHasher::new();
        rows.hash(&mut hasher);
        let protected = rows.iter().filter(|row| row.is_protected()).map(|row| row.protection);
        let protections: BTreeSet<u32> = protected.collect();
        Table {
            hash: hasher.finish(),
            owner,
            protections: protections.into_iter().collect(),
            rows,
            outline: None,
        }
    }
}

/// The content of the maps for one generation; both halves of `applications` are alike.
#[derive(Debug, Default)]
pub struct Tables {
    /// The generation in force when this was so.
    pub generation: u32,
    tables: HashMap<u32, Table>,
    by_hash: HashMap<u64, Vec<u32>>,
    protections: HashMap<Protection, u32>,
    /// The number of networks of all tables together.
    networks: usize,
    /// The number of each application's table. Applications without a table are left out.
    applications: BTreeMap<u16, u32>,
    /// The order of each pair of tables, the lower number first.
    orders: BTreeMap<(u32, u32), u8>,
    /// Pairs of applications that are told apart from their tables.
    exceptions: BTreeMap<(u16, u16), u8>,
    /// The policy that each application's table was made of.
    sources: HashMap<u16, Arc<AppPolicy>>,
    /// Tables that have not been compared with all others; `None`: nobody knows which.
    uncompared: Option<BTreeSet<u32>>,
    last_table: u32,
    last_protection: u32,
}

/// The changes that a load has to make.
#[derive(Debug, Default)]
pub struct Change {
    applications: BTreeMap<u16, u32>,
    /// The tables that the applications have.
    in_use: HashSet<u32>,
    sources: HashMap<u16, Arc<AppPolicy>>,
    tables: Vec<(u32, Table)>,
    protections: Vec<(u32, Protection)>,
    orders: Vec<((u32, u32), u8)>,
    exceptions: BTreeMap<(u16, u16), u8>,
    /// Tables of before that are one application's from now on, with their protections.
    owners: Vec<(u32, AppId, Vec<u32>)>,
    outlines: Vec<(u32, Outline)>,
    /// Pairs that were not compared, or found no room.
    pub left_out: usize,
    /// The tables that are to be compared with the others again.
    uncompared: BTreeSet<u32>,
    last_table: u32,
    last_protection: u32,
}

/// The counts of what a load of policy did to the kernel half's maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadStats {
    /// Applications with a policy, `guard` and what must not send among them.
    pub applications: usize,
    /// Tables that they have.
    pub tables: usize,
    /// Networks of all tables.
    pub networks: usize,
    /// Protections of all tables.
    pub protections: usize,
    /// Pairs of tables, or of applications, that compare.
    pub orders: usize,
    /// Applications that have another table than before.
    pub applications_changed: usize,
    /// Tables that no policy before had, and that were written.
    pub tables_written: usize,
    /// The number of networks written.
    pub networks_written: usize,
    /// The number of protections written.
    pub protections_written: usize,
    /// The number of orders written.
    pub orders_written: usize,
    /// Tables that no application has any more, and that were removed.
    pub tables_removed: usize,
    /// Pairs of tables that were not compared, or found no room: sockets do not change hands between them.
    pub orders_left_out: usize,
    /// Executables, and places of some, that are new or got another list.
    pub executables_written: usize,
}

impl Tables {
    /// Plan the changes that put a policy in force. `orders` has pairs of applications that do not compare as their
    /// tables do.
    pub fn plan(
        &self,
        spd: &Spd,
        orders: &[((AppId, AppId), Order)],
        room: Room,
    ) -> Result<Change, SockmonError> {
        let mut out = Change {
            last_table: self.last_table,
            last_protection: self.last_protection,
            exceptions: exceptions(orders),
            ..Change::default()
        };
        let guard = (!spd.guard.networks().is_empty()).then(|| Arc::new(spd.guard.clone()));
        let special = guard.map(|guard| (AppId(abi::APP_GUARD), guard)).into_iter().chain([refused()]);
        let all = spd.apps().map(|(app, policy)| (app, Arc::clone(policy))).chain(special);
        // Those with a table of their own first, so that nobody shares it.
        let (own, shared): (Vec<_>, Vec<_>) = all.partition(|(app, _)| spd.changing.contains(app));
        let mut taken = Fresh::default();
        for (app, policy) in own {
            self.give(&mut out, &mut taken, app, policy, true)?;
        }
        for (app, policy) in shared {
            self.give(&mut out, &mut taken, app, policy, false)?;
        }
        let new: usize = out.tables.iter().map(|(_, table)| table.rows.len()).sum();
        if self.networks + new > room.networks {
            return Err(SockmonError::TooManyNetworks { new, before: self.networks, max: room.networks });
        }
        let (new, before) = (out.protections.len(), self.protections.len());
        if before + new > room.protections {
            return Err(SockmonError::TooManyProtections { new, before, max: room.protections });
        }
        out.in_use = out.applications.values().copied().collect();
        self.compare(&mut out, room.orders)?;
        Ok(out)
    }

    /// Give an application its table.
    fn give(
        &self,
        out: &mut Change,
        fresh: &mut Fresh,
        app: AppId,
        policy: Arc<AppPolicy>,
        owns: bool,
    ) -> Result<(), SockmonError> {
        let number = match self.kept(app, &policy, owns) {
            Some(number) => number,
            None => {
                let numbers = self.numbers(out, fresh, app, &policy, owns)?;
                let mut table = Table::new(rows(&policy, &numbers), owns.then_some(app));
                if owns {
                    table.protections = numbers;
                }
                self.find(out, fresh, app, table, &policy)?
            }
        };
        if number != 0 {
            out.applications.insert(app.0, number);
            out.sources.insert(app.0, policy);
        }
        Ok(())
    }

    /// The table that the application had, if it was made of these very networks.
    fn kept(&self, app: AppId, policy: &Arc<AppPolicy>, owns: bool) -> Option<u32> {
        let number = *self.applications.get(&app.0)?;
        let owner = self.tables.get(&number)?.owner;
        let same = Arc::ptr_eq(self.sources.get(&app.0)?, policy) && owner == owns.then_some(app);
        same.then_some(number)
    }

    fn find(
        &self,
        out: &mut Change,
        fresh: &mut Fresh,
        app: AppId,
        table: Table,
        policy: &AppPolicy,
    ) -> Result<u32, SockmonError> {
        let is = |number: &u32| self.tables.get(number).is_some_and(|known| known.rows == table.rows);
        let known = if table.owner.is_some() {
            // Its own, or one that nobody else has (after a restart nobody knows whose it is).
            let had = self.applications.get(&app.0).filter(|number| is(number));
            had.filter(|number| match self.tables.get(number).and_then(|known| known.owner) {
                Some(owner) => owner == app,
                None => self.applications.values().filter(|other| other == number).count() == 1,
            })
            .inspect(|number| {
                out.owners.push((**number, app, table.protections.clone()));
                fresh.owned.insert(**number);
            })
        } else if table.rows.is_empty() {
            return Ok(0);
        } else {
            let free = |number: &&u32| {
                self.tables.get(number).is_some_and(|known| known.owner.is_none())
                    && !fresh.owned.contains(number)
            };
            let had =
                self.by_hash.get(&table.hash).into_iter().flatten().filter(free).find(|number| is(number));
            had.or_else(|| {
                let new = fresh.by_hash.get(&table.hash).into_iter().flatten();
                new.copied().find(|at| out.tables[*at].1.rows == table.rows).map(|at| &out.tables[at].0)
            })
        };
        if let Some(number) = known {
            return Ok(*number);
        }
        let number = next(&mut out.last_table, abi::TABLE_LAST)?;
        if table.owner.is_none() {
            fresh.by_hash.entry(table.hash).or_default().push(out.tables.len());
        }
        out.tables.push((number, Table { outline: Some(Outline::of(policy)), ..table }));
        Ok(number)
    }

    /// The numbers of a policy's protections: of those that a network names, or of `all`, since one may come to.
    fn numbers(
        &self,
        out: &mut Change,
        fresh: &mut Fresh,
        app: AppId,
        policy: &AppPolicy,
        all: bool,
    ) -> Result<Vec<u32>, SockmonError> {
        let mut numbers = Vec::with_capacity(policy.protections().len());
        for (at, items) in policy.protections().iter().enumerate() {
            let class = Class::Protected(at);
            let named =
                |network: &sadb::spd::Network| network.class == class || policy.would(network) == Some(class);
            if !all && !policy.networks().iter().any(named) {
                numbers.push(0);
                continue;
            }
            let protection = protection(app, items)?;
            let known = self.protections.get(&protection).or_else(|| fresh.protections.get(&protection));
            numbers.push(match known {
                Some(number) => *number,
                None => {
                    let number = next(&mut out.last_protection, u32::MAX)?;
                    fresh.protections.insert(protection, number);
                    out.protections.push((number, protection));
                    number
                }
            });
        }
        Ok(numbers)
    }

    /// The counts of a load that was planned.
    pub fn stats(&self, change: &Change) -> LoadStats {
        let gone = self.tables.keys().filter(|number| !change.in_use.contains(number)).count();
        let differs =
            |(app, table): (&u16, &u32)| change.applications.get(app).is_none_or(|other| other != table);
        let fewer = self.applications.iter().filter(|entry| differs(*entry)).count();
        let more = change.applications.keys().filter(|app| !self.applications.contains_key(app)).count();
        LoadStats {
            applications_changed: fewer + more,
            tables_written: change.tables.len(),
            networks_written: change.tables.iter().map(|(_, table)| table.rows.len()).sum(),
            protections_written: change.protections.len(),
            orders_written: change.orders.len() + change.exceptions.len(),
            tables_removed: gone,
            orders_left_out: change.left_out,
            ..LoadStats::default()
        }
    }

    /// The counts of a load, completed by the size of each table.
    pub fn count(&self, did: LoadStats) -> LoadStats {
        LoadStats {
            applications: self.applications.len(),
            tables: self.tables.len(),
            networks: self.networks,
            protections: self.protections.len(),
            orders: self.orders.len() + self.exceptions.len(),
            ..did
        }
    }
}

/// The numbers that a plan has given so far.
#[derive(Default)]
struct Fresh {
    /// Places in [`Change::tables`], by the hash of the table.
    by_hash: HashMap<u64, Vec<usize>>,
    protections: HashMap<Protection, u32>,
    /// Tables of before that an application claimed for itself.
    owned: BTreeSet<u32>,
}

/// The next number behind `last`. Numbers are not given twice: with a thousand new tables a second they last for weeks,
/// and a daemon that starts goes on behind the highest in use.
fn next(last: &mut u32, most: u32) -> Result<u32, SockmonError> {
    if *last >= most {
        return Err(SockmonError::NumbersUsedUp);
    }
    *last += 1;
    Ok(*last)
}

/// The application of processes that must not send, with its policy of one line.
fn refused() -> (AppId, Arc<AppPolicy>) {
    let everything = sadb::spd::Network {
        prefix: wire::Prefix::from_bits(0, 0),
        class: Class::Untrusted,
        rule: sadb::spd::RuleId::NONE,
    };
    (AppId(abi::APP_REFUSED), Arc::new(AppPolicy::new(vec![everything], Vec::new())))
}

fn rows(policy: &AppPolicy, numbers: &[u32]) -> Vec<Row> {
    let in_kernel = |class: Class| match class {
        Class::Trusted => (abi::TRUSTED, 0),
        Class::Untrusted => (abi::UNTRUSTED, 0),
        // Every protection has a number; were it not so, the peer would be refused.
        Class::Protected(index) => match numbers.get(index) {
            Some(number) => (abi::PROTECTED, *number),
            None => (abi::UNTRUSTED, 0),
        },
    };
    let row = |network: &sadb::spd::Network| {
        let (class, protection) = in_kernel(network.class);
        let (would, protection) = policy.would(network).map_or((0, protection), in_kernel);
        let addr = network.prefix.first().to_be_bytes();
        Row { addr, len: network.prefix.len(), class, would, protection }
    };
    policy.networks().iter().map(row).collect()
}

/// Pairs of applications with an order of their own, both ways. No policy needs none.
fn exceptions(orders: &[((AppId, AppId), Order)]) -> BTreeMap<(u16, u16), u8> {
    let mut out = BTreeMap::new();
    for &((a, b), order) in orders.iter().filter(|((a, b), _)| *a != AppId::NONE && *b != AppId::NONE) {
        let (a_to_b, b_to_a) = match order {
            Order::Same => (abi::ORDER_TO, abi::ORDER_TO),
            // The first is stricter: it stays, and it takes over from the second.
            Order::Stricter => (abi::ORDER_FROM, abi::ORDER_TO),
            Order::Weaker => (abi::ORDER_TO, abi::ORDER_FROM),
            Order::Incomparable => (abi::ORDER_REFUSE, abi::ORDER_REFUSE),
        };
        out.insert((a.0, b.0), a_to_b);
        out.insert((b.0, a.0), b_to_a);
    }
    out
}

fn exception_key(generation: u32, (from, to): (u16, u16)) -> OrderKey {
    let low = abi::ORDER_APPS | generation << abi::ORDER_GENERATION | u32::from(from);
    OrderKey { low, high: u32::from(to) }
}

fn order_key((low, high): (u32, u32)) -> OrderKey {
    OrderKey { low, high }
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
        aggregate: 0,
    };
    let mut terms = DefaultHasher::new();
    items.iter().for_each(|item| item.terms.hash(&mut terms));
    let mut out =
        Protection { count: items.len() as u32, zero: 0, terms: terms.finish(), items: [NONE; abi::ITEMS] };
    for (to, item) in out.items.iter_mut().zip(items) {
        *to = Item {
            local_first: item.local.first,
            local_last: item.local.last,
            remote_first: item.remote.first,
            remote_last: item.remote.last,
            services: item.services.bits(),
            level: level(item.action()),
            protocol: protocol_of(item),
            aggregate: item.terms.class.0,
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
