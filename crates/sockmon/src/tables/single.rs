//! Changes of single networks in a table that is in force: host names (docs/design/0014).

use super::{Row, Table, Tables, exception_key, exceptions, order_key, protection, rows};
use crate::abi::{self, OrderKey};
use crate::error::SockmonError;
use crate::programs::Maps;
use policy::Outline;
use sadb::spd::{AppPolicy, Order, Spd};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::AppId;

/// Pairs of tables that one change compares at most: whoever answers for a name says how often there is one. What is left out does not
/// compare until the next load.
const COMPARISONS: usize = 4096;

/// Entries to write and to delete, in this order: orders that are over, networks, orders that are new.
#[derive(Debug, Default)]
pub struct Single {
    orders_gone: Vec<OrderKey>,
    /// Networks to write, each with the table that it belongs to.
    rows: Vec<(u32, Row)>,
    rows_gone: Vec<(u32, Row)>,
    orders: Vec<(OrderKey, u8)>,
}

impl Tables {
    /// Follow a policy that differs in networks of applications that have tables of their own. What is to be done for it;
    /// the tables are as they will be then.
    ///
    /// # Errors
    /// [`SockmonError::Answer`] if it differs in more than that; the tables are then as they were.
    pub fn follow(&mut self, spd: &Spd, orders: &[((AppId, AppId), Order)]) -> Result<Single, SockmonError> {
        let changed = self.changed(spd)?;
        let mut out = Single::default();
        let mut numbers = Vec::new();
        for (app, policy, table) in changed {
            let Some(table) = table else {
                self.sources.insert(app.0, policy);
                continue;
            };
            let Some(&number) = self.applications.get(&app.0) else { continue };
            let before = self.let_go(number).unwrap_or_default();
            // Of one network the new row is written over the old.
            let place = |row: &Row| (row.addr, row.len);
            let gone = |old: &&Row| !table.rows.iter().any(|row| place(row) == place(old));
            out.rows_gone.extend(before.rows.iter().filter(gone).map(|row| (number, *row)));
            let is_new = |row: &&Row| !before.rows.contains(row);
            out.rows.extend(table.rows.iter().filter(is_new).map(|row| (number, *row)));
            self.hold(number, table);
            self.sources.insert(app.0, policy);
            numbers.push((number, app));
        }
        self.follow_orders(&numbers, orders, &mut out);
        Ok(out)
    }

    /// The applications whose policy is another, with the table that they are to have, if it is another.
    #[allow(clippy::type_complexity, reason = "one caller, next to it")]
    fn changed(&self, spd: &Spd) -> Result<Vec<(AppId, Arc<AppPolicy>, Option<Table>)>, SockmonError> {
        let more = || SockmonError::Answer("a change of networks alone");
        let empty = AppPolicy::default();
        let guard = self.sources.get(&abi::APP_GUARD).map_or(&empty, Arc::as_ref);
        let stays = |app: &u16| *app >= abi::APP_GUARD || spd.get(AppId(*app)).is_some();
        if guard.networks() != spd.guard.networks() || !self.applications.keys().all(stays) {
            return Err(more());
        }
        let mut out = Vec::new();
        for (app, policy) in spd.apps() {
            if self.sources.get(&app.0).is_some_and(|known| Arc::ptr_eq(known, policy)) {
                continue;
            }
            let had = self.applications.get(&app.0).and_then(|number| self.tables.get(number));
            let Some(had) = had else {
                // Nothing is written of an application without networks.
                if policy.networks().is_empty() && !spd.changing.contains(&app) {
                    continue;
                }
                return Err(more());
            };
            let number = |items: &Vec<_>| self.protections.get(&protection(app, items).ok()?).copied();
            let numbers: Option<Vec<u32>> = policy.protections().iter().map(number).collect();
            let table = Table::new(rows(policy, &numbers.ok_or_else(more)?), had.owner);
            if table.rows == had.rows {
                out.push((app, Arc::clone(policy), None));
            } else if had.owner == Some(app) {
                let outline = Some(Outline::of(policy));
                let table = Table { outline, protections: had.protections.clone(), ..table };
                out.push((app, Arc::clone(policy), Some(table)));
            } else {
                return Err(more());
            }
        }
        Ok(out)
    }

    fn follow_orders(
        &mut self,
        numbers: &[(u32, AppId)],
        orders: &[((AppId, AppId), Order)],
        out: &mut Single,
    ) {
        let is_changed = |number: &u32| numbers.iter().any(|(changed, _)| changed == number);
        let (mut now, mut comparisons) = (BTreeMap::new(), COMPARISONS);
        for (number, app) in numbers {
            let Some(policy) = self.sources.get(&app.0) else { continue };
            let (orders, whole) = self.compare_one(*number, policy, &mut comparisons);
            now.extend(orders);
            if let Some(left) = self.uncompared.as_mut().filter(|_| !whole) {
                left.insert(*number);
            }
        }
        let concerned = self.orders.iter().filter(|((low, high), _)| is_changed(low) || is_changed(high));
        let before: BTreeMap<_, _> = concerned.map(|(pair, value)| (*pair, *value)).collect();
        for (pair, _) in before.iter().filter(|(pair, value)| now.get(*pair) != Some(*value)) {
            out.orders_gone.push(order_key(*pair));
            self.orders.remove(pair);
        }
        for (pair, value) in now.into_iter().filter(|(pair, value)| before.get(pair) != Some(value)) {
            out.orders.push((order_key(pair), value));
            self.orders.insert(pair, value);
        }
        let wanted = exceptions(orders);
        let had = std::mem::take(&mut self.exceptions);
        let key = |pair: &(u16, u16)| exception_key(self.generation, *pair);
        let gone = had.iter().filter(|(pair, value)| wanted.get(*pair) != Some(*value));
        out.orders_gone.extend(gone.map(|(pair, _)| key(pair)));
        let new = wanted.iter().filter(|(pair, value)| had.get(*pair) != Some(*value));
        out.orders.extend(new.map(|(pair, value)| (key(pair), *value)));
        self.exceptions = wanted;
    }
}

impl Single {
    /// Entry by entry, each of which is right by itself. Orders that are over go first, so that no socket changes hands by one.
    pub fn write(&self, maps: &Maps) -> Result<(), SockmonError> {
        maps.delete_all("order", &self.orders_gone)?;
        for (number, row) in &self.rows {
            let (key, value) = row.entry(*number);
            maps.write("networks", &key, &value)?;
        }
        for (number, row) in &self.rows_gone {
            maps.delete("networks", &row.entry(*number).0)?;
        }
        self.orders.iter().try_for_each(|(key, value)| maps.write("order", key, value))
    }
}
