//! The tables in the kernel's maps: reading them back, writing what a plan adds, taking away what nobody has any more.

use super::{Change, Room, Row, Table, Tables, exception_key, order_key};
use crate::abi::{self, Network, NetworkKey, OrderKey, Protection};
use crate::error::SockmonError;
use crate::programs::Maps;
use crate::sys;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The entry of an application in the half of a generation.
fn slot(generation: u32, app: u16) -> u32 {
    generation % 2 * abi::APP_NUMBERS + u32::from(app)
}

/// The table of each application that differs, as it is in `to`; 0: none.
fn differing(from: &BTreeMap<u16, u32>, to: &BTreeMap<u16, u32>) -> Vec<(u16, u32)> {
    let of = |half: &BTreeMap<u16, u32>, app: &u16| half.get(app).copied().unwrap_or(0);
    let apps = from.keys().chain(to.keys().filter(|app| !from.contains_key(app)));
    apps.map(|app| (*app, of(to, app))).filter(|(app, table)| of(from, app) != *table).collect()
}

fn keys(number: u32, table: &Table) -> impl Iterator<Item = NetworkKey> {
    table.rows.iter().map(move |row| row.entry(number).0)
}

impl Room {
    /// The room that the maps have.
    pub fn of(maps: &Maps) -> Result<Room, SockmonError> {
        Ok(Room {
            networks: maps.capacity("networks")?,
            protections: maps.capacity("protections")?,
            orders: maps.capacity("order")?,
        })
    }
}

impl Tables {
    /// Read what is in force from the maps, and remove what is not: a loader that died leaves tables that no
    /// application has.
    pub fn read(maps: &Maps) -> Result<Tables, SockmonError> {
        let MapContents { tables, unused, behind } = MapContents::at(maps)?;
        if !unused.is_empty() || !behind.is_empty() {
            // Whoever looks something up in it began before the loader died.
            sys::wait_for_readers().map_err(SockmonError::system("wait for the kernel's readers"))?;
            unused.remove(maps)?;
            let entries = behind.into_iter().map(|(app, table)| (slot(tables.generation + 1, app), table));
            maps.write_all("applications", entries)?;
        }
        Ok(tables)
    }

    /// Read what is in force from the maps, which stay as they are.
    pub fn seen(maps: &Maps) -> Result<Tables, SockmonError> {
        Ok(MapContents::at(maps)?.tables)
    }
}

/// The content of the maps.
struct MapContents {
    tables: Tables,
    /// The entries that no application has.
    unused: UnusedEntries,
    /// Entries of the half that is not in force which differ.
    behind: Vec<(u16, u32)>,
}

impl MapContents {
    fn at(maps: &Maps) -> Result<MapContents, SockmonError> {
        let generation = maps.config()?.generation;
        let mut halves = [BTreeMap::new(), BTreeMap::new()];
        for (slot, table) in maps.entries::<u32, u32>("applications")? {
            if table != 0 {
                halves[usize::from(slot >= abi::APP_NUMBERS)].insert((slot % abi::APP_NUMBERS) as u16, table);
            }
        }
        let [even, odd] = halves;
        let (current, other) = if generation % 2 == 0 { (even, odd) } else { (odd, even) };
        let mut rows: HashMap<u32, Vec<Row>> = current.values().map(|table| (*table, Vec::new())).collect();
        let mut unused = UnusedEntries::default();
        for (key, value) in maps.entries::<NetworkKey, Network>("networks")? {
            match rows.get_mut(&key.table) {
                Some(rows) => rows.push(Row {
                    addr: key.addr,
                    len: key.prefixlen.saturating_sub(32).min(128) as u8,
                    class: value.class,
                    would: value.would,
                    protection: value.protection,
                }),
                None => unused.networks.push(key),
            }
        }
        let mut out = Tables { generation, applications: current, ..Tables::default() };
        for (number, rows) in rows {
            out.hold(number, Table::new(rows, None));
        }
        out.last_table = out.tables.keys().copied().max().unwrap_or(0);
        let named = out.protections_in_use();
        for (number, protection) in maps.entries::<u32, Protection>("protections")? {
            out.last_protection = out.last_protection.max(number);
            if named.contains(&number) {
                out.protections.insert(protection, number);
            } else {
                unused.protections.push(number);
            }
        }
        for (key, value) in maps.entries::<OrderKey, u8>("order")? {
            let is_table = |number| out.tables.contains_key(&number);
            let (from, to) = (key.low as u16, key.high as u16);
            if is_table(key.low) && is_table(key.high) {
                out.orders.insert((key.low, key.high), value);
            } else if key == exception_key(generation, (from, to)) {
                out.exceptions.insert((from, to), value);
            } else {
                unused.orders.push(key);
            }
        }
        let behind = differing(&other, &out.applications);
        Ok(MapContents { tables: out, unused, behind })
    }
}

impl Tables {
    /// Write what is new, and the tables of the applications under the next generation. Nothing in force changes; after an error,
    /// [`Tables::undo`].
    pub fn write(&self, maps: &Maps, change: &Change, generation: u32) -> Result<(), SockmonError> {
        maps.write_all("protections", change.protections.iter().copied())?;
        let rows =
            change.tables.iter().flat_map(|(number, table)| table.rows.iter().map(|r| r.entry(*number)));
        maps.write_all("networks", rows)?;
        maps.write_all("order", change.orders.iter().map(|(pair, value)| (order_key(*pair), *value)))?;
        let exceptions = change.exceptions.iter();
        maps.write_all("order", exceptions.map(|(pair, value)| (exception_key(generation, *pair), *value)))?;
        let differing = differing(&self.applications, &change.applications);
        let entries = differing.into_iter().map(|(app, table)| (slot(generation, app), table));
        maps.write_all("applications", entries)
    }

    /// Take back what [`Tables::write`] wrote.
    pub fn undo(&self, maps: &Maps, change: &Change, generation: u32) -> Result<(), SockmonError> {
        let differing = differing(&change.applications, &self.applications);
        let entries = differing.into_iter().map(|(app, table)| (slot(generation, app), table));
        maps.write_all("applications", entries)?;
        let orders = change.orders.iter().map(|(pair, _)| order_key(*pair));
        let exceptions = change.exceptions.keys().map(|pair| exception_key(generation, *pair));
        UnusedEntries {
            networks: change.tables.iter().flat_map(|(number, table)| keys(*number, table)).collect(),
            protections: change.protections.iter().map(|(number, _)| *number).collect(),
            orders: orders.chain(exceptions).collect(),
        }
        .remove(maps)
    }

    /// The change is in force, and nobody reads what was before: remove what no application has any more.
    pub fn settle(mut self, maps: &Maps, change: Change, generation: u32) -> Result<Tables, SockmonError> {
        let behind = differing(&self.applications, &change.applications);
        let entries = behind.into_iter().map(|(app, table)| (slot(self.generation, app), table));
        maps.write_all("applications", entries)?;
        let mut unused = UnusedEntries::default();
        let before = std::mem::take(&mut self.exceptions);
        unused.orders.extend(before.into_keys().map(|pair| exception_key(self.generation, pair)));
        let gone: HashSet<u32> =
            self.tables.keys().filter(|number| !change.in_use.contains(number)).copied().collect();
        for number in &gone {
            if let Some(table) = self.let_go(*number) {
                unused.networks.extend(keys(*number, &table));
            }
        }
        if !gone.is_empty() {
            self.orders.retain(|(low, high), _| {
                let stays = !gone.contains(low) && !gone.contains(high);
                if !stays {
                    unused.orders.push(order_key((*low, *high)));
                }
                stays
            });
        }
        for (number, table) in change.tables {
            self.hold(number, table);
        }
        for (number, outline) in change.outlines {
            if let Some(table) = self.tables.get_mut(&number) {
                table.outline = Some(outline);
            }
        }
        for (number, owner, protections) in change.owners {
            if let Some(table) = self.tables.get_mut(&number) {
                (table.owner, table.protections) = (Some(owner), protections);
            }
        }
        self.protections
            .extend(change.protections.into_iter().map(|(number, protection)| (protection, number)));
        if !gone.is_empty() {
            let named = self.protections_in_use();
            self.protections.retain(|_, number| {
                let stays = named.contains(number);
                if !stays {
                    unused.protections.push(*number);
                }
                stays
            });
        }
        unused.remove(maps)?;
        self.orders.extend(change.orders);
        Ok(Tables {
            generation,
            applications: change.applications,
            exceptions: change.exceptions,
            sources: change.sources,
            uncompared: Some(change.uncompared),
            last_table: change.last_table,
            last_protection: change.last_protection,
            ..self
        })
    }

    pub(super) fn hold(&mut self, number: u32, table: Table) {
        self.networks += table.rows.len();
        self.by_hash.entry(table.hash).or_default().push(number);
        self.tables.insert(number, table);
    }

    pub(super) fn let_go(&mut self, number: u32) -> Option<Table> {
        let table = self.tables.remove(&number)?;
        self.networks -= table.rows.len();
        if let Some(list) = self.by_hash.get_mut(&table.hash) {
            list.retain(|other| *other != number);
            if list.is_empty() {
                self.by_hash.remove(&table.hash);
            }
        }
        Some(table)
    }

    fn protections_in_use(&self) -> HashSet<u32> {
        self.tables.values().flat_map(|table| table.protections.iter().copied()).collect()
    }
}

/// Entries that nothing in force leads to.
#[derive(Default)]
struct UnusedEntries {
    networks: Vec<NetworkKey>,
    protections: Vec<u32>,
    orders: Vec<OrderKey>,
}

impl UnusedEntries {
    fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.protections.is_empty() && self.orders.is_empty()
    }

    fn remove(&self, maps: &Maps) -> Result<(), SockmonError> {
        maps.delete_all("order", &self.orders)?;
        maps.delete_all("networks", &self.networks)?;
        maps.delete_all("protections", &self.protections)
    }
}
