//! Which tables compare: what may change hands between the applications that have them.
//!
//! With n tables there are n²/2 pairs, of which few compare. The outlines rule most of the others out at a few nanoseconds
//! each; what is left is compared, up to a bound. What is not compared, or finds no room in the map, counts as incomparable:
//! a socket that would change hands is refused, and the load warns of it.

use super::{Change, Tables};
use crate::abi;
use crate::error::SockmonError;
use policy::{Outline, PartitionedPolicy};
use sadb::spd::{AppPolicy, Order};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Pairs that one load compares at most, after the outlines have spoken.
pub const COMPARISONS: usize = 262_144;

/// A table that some application has.
struct UsedTable<'p> {
    number: u32,
    outline: Outline,
    policy: &'p AppPolicy,
    /// Whether the table is to be compared with all others.
    is_new: bool,
}

/// The map's value for the order of two policies, the one of the table with the lower number first; `None` if the map
/// has no entry for it.
pub(super) fn value(order: Order) -> Option<u8> {
    match order {
        Order::Same => Some(abi::ORDER_HIGH | abi::ORDER_LOW),
        Order::Stricter => Some(abi::ORDER_LOW),
        Order::Weaker => Some(abi::ORDER_HIGH),
        Order::Incomparable => None,
    }
}

impl Tables {
    /// Compare the tables that are new with all that are to be in use.
    pub(super) fn compare(&self, out: &mut Change, room: usize) -> Result<(), SockmonError> {
        let max = room / 4;
        if out.exceptions.len() > max {
            return Err(SockmonError::TooManyOrders { count: out.exceptions.len(), max });
        }
        let mut policies: BTreeMap<u32, &AppPolicy> = BTreeMap::new();
        for (app, number) in &out.applications {
            // Who is refused has no sockets.
            if let Some(source) = out.sources.get(app).filter(|_| *app < abi::APP_GUARD) {
                policies.entry(*number).or_insert(source);
            }
        }
        let fresh: HashMap<u32, Option<Outline>> =
            out.tables.iter().map(|(number, table)| (*number, table.outline)).collect();
        // One that only `guard` or what must not send had was compared with none.
        let had = self.applications.iter().filter(|(app, _)| **app < abi::APP_GUARD);
        let compared: HashSet<u32> = had.map(|(_, number)| *number).collect();
        let is_new = |number: u32| {
            !compared.contains(&number) || self.uncompared.as_ref().is_none_or(|left| left.contains(&number))
        };
        let mut made = Vec::new();
        let used: Vec<UsedTable<'_>> = policies
            .into_iter()
            .map(|(number, policy)| {
                let known = fresh.get(&number).copied();
                let outline = known.unwrap_or_else(|| self.tables.get(&number)?.outline);
                let outline = outline.unwrap_or_else(|| {
                    let outline = Outline::of(policy);
                    made.push((number, outline));
                    outline
                });
                UsedTable { number, outline, policy, is_new: is_new(number) }
            })
            .collect();
        // Of this generation and of the one before, each pair of applications has an entry.
        let taken = self.orders.len() + self.exceptions.len() + out.exceptions.len();
        let room = room.saturating_sub(taken);
        (out.orders, out.left_out, out.uncompared) = compare(&used, &self.orders, room, COMPARISONS);
        out.outlines = made;
        Ok(())
    }

    /// Compare a table, whose policy has changed, with all others in use. Returns the orders of the pairs, and whether
    /// all of them were compared.
    pub(super) fn compare_one(
        &self,
        number: u32,
        policy: &AppPolicy,
        comparisons: &mut usize,
    ) -> (BTreeMap<(u32, u32), u8>, bool) {
        let outline = Outline::of(policy);
        let cut = PartitionedPolicy::of(policy);
        let mut seen = BTreeSet::from([number]);
        let mut out = BTreeMap::new();
        for (app, other) in self.applications.iter().filter(|(app, _)| **app < abi::APP_GUARD) {
            let Some((table, source)) = self.tables.get(other).zip(self.sources.get(app)) else { continue };
            if !seen.insert(*other) || table.outline.is_some_and(|theirs| !outline.may_compare(&theirs)) {
                continue;
            }
            if *comparisons == 0 {
                return (out, false);
            }
            *comparisons -= 1;
            let order = cut.compare(&PartitionedPolicy::of(source));
            let pair = (number.min(*other), number.max(*other));
            let order = if number < *other { order } else { turned(order) };
            out.extend(value(order).map(|value| (pair, value)));
        }
        (out, true)
    }
}

fn turned(order: Order) -> Order {
    match order {
        Order::Stricter => Order::Weaker,
        Order::Weaker => Order::Stricter,
        order => order,
    }
}

/// A pair of tables, the lower number first, and what the map has for it.
type Entry = ((u32, u32), u8);

/// The orders to write, how many pairs were left out, and of which new tables: a later load goes on with these. `used` is sorted
/// by number.
fn compare<'p>(
    used: &[UsedTable<'p>],
    known: &BTreeMap<(u32, u32), u8>,
    room: usize,
    mut comparisons: usize,
) -> (Vec<Entry>, usize, BTreeSet<u32>) {
    let mut cuts: HashMap<u32, PartitionedPolicy<'p>> = HashMap::new();
    let (mut out, mut left_out, mut unfinished) = (Vec::new(), 0, BTreeSet::new());
    for (at, new) in used.iter().enumerate().filter(|(_, used)| used.is_new) {
        // Two that are new meet once.
        let others = used.iter().enumerate().filter(|(to, other)| *to < at || *to > at && !other.is_new);
        for (_, other) in others {
            if !new.outline.may_compare(&other.outline) {
                continue;
            }
            let (low, high) = if other.number < new.number { (other, new) } else { (new, other) };
            let pair = (low.number, high.number);
            if known.contains_key(&pair) {
                continue;
            }
            if comparisons == 0 || out.len() == room {
                left_out += 1;
                unfinished.insert(new.number);
                continue;
            }
            comparisons -= 1;
            for one in [low, high] {
                cuts.entry(one.number).or_insert_with(|| PartitionedPolicy::of(one.policy));
            }
            let order = cuts[&low.number].compare(&cuts[&high.number]);
            out.extend(value(order).map(|value| (pair, value)));
        }
    }
    (out, left_out, unfinished)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sadb::spd::{Class, Network, RuleId};

    fn refusing(addr: u32, len: u8) -> AppPolicy {
        let prefix = wire::Prefix::new(std::net::Ipv4Addr::from(addr).into(), len).unwrap();
        let network = Network { prefix, class: Class::Untrusted, rule: RuleId::NONE };
        AppPolicy::new(vec![network], Vec::new())
    }

    #[test]
    fn what_finds_no_room_is_counted_and_left_out() {
        // Each within the one before: all pairs compare.
        let policies: Vec<AppPolicy> = (8..20).map(|len| refusing(0x0a00_0000, len)).collect();
        let used: Vec<UsedTable<'_>> = (1..)
            .zip(&policies)
            .map(|(number, policy)| UsedTable { number, outline: Outline::of(policy), policy, is_new: true })
            .collect();
        let none = BTreeMap::new();
        let (all, left_out, unfinished) = compare(&used, &none, usize::MAX, usize::MAX);
        assert_eq!((all.len(), left_out, unfinished.len()), (12 * 11 / 2, 0, 0));
        assert!(all.iter().all(|((low, high), value)| low < high && *value == abi::ORDER_LOW), "{all:?}");
        for (room, comparisons) in [(10, usize::MAX), (usize::MAX, 10)] {
            let (some, left_out, unfinished) = compare(&used, &none, room, comparisons);
            assert_eq!((some.len(), left_out), (10, 56));
            // Of five tables all pairs were compared (4 + 3 + 2 + 1): a later load goes on with the others.
            assert_eq!(unfinished, (6..=12).collect());
        }
        // What is known is not compared again, and nor is what was there before.
        let known: BTreeMap<_, _> = all.into_iter().collect();
        assert_eq!(compare(&used, &known, 0, 0), (Vec::new(), 0, BTreeSet::new()));
        let old: Vec<UsedTable<'_>> =
            used.into_iter().map(|used| UsedTable { is_new: false, ..used }).collect();
        assert_eq!(compare(&old, &none, 0, 0), (Vec::new(), 0, BTreeSet::new()));
    }
}
