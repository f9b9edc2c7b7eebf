//! Tuple-space search: one hash table for each of a few masks (Srinivasan, Suri and Varghese 1999), with masks relaxed
//! so that rules of many masks share a table (as in TupleMerge, Daly and others 2017).
//!
//! A pattern may live in any table whose mask is part of its own; candidates are compared in full, so a relaxed mask
//! costs comparisons and never a wrong answer. A pattern goes into the table it shares most bits with where its chain
//! is short, or into a new one. Tables are asked in the order of the lowest rank that each holds, until none left can come
//! before the best found. The hash is keyed: who does not know the seed cannot choose packets or rules that collide.

use super::entry::{Entry, Pattern, Words, compile};
use super::{Classifier, Rank, Slot};
use crate::selector::{PacketKey, TrafficSelector, WORDS};

/// A chain of this length asks for a finer table.
const LONG_CHAIN: usize = 6;
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Table {
    mask: Words,
    /// The words of the mask that are not zero.
    used: Vec<u8>,
    /// The first item of each chain, by hash; a power of two.
    heads: Vec<u32>,
    len: usize,
    best: Rank,
}

#[derive(Clone, Debug)]
struct Item {
    pattern: Pattern,
    entry: Entry,
    next: u32,
}

/// The tables.
#[derive(Clone, Debug)]
pub struct TupleSpace {
    /// By the lowest rank in each.
    tables: Vec<Table>,
    items: Vec<Item>,
    free: Vec<u32>,
    seed: u64,
}

impl Classifier for TupleSpace {
    fn empty(seed: u64) -> TupleSpace {
        TupleSpace { tables: Vec::new(), items: Vec::new(), free: Vec::new(), seed: seed | 1 }
    }

    fn insert(&mut self, rank: Rank, slot: Slot, selector: &TrafficSelector) {
        let (patterns, entry) = compile(rank, slot, selector);
        for pattern in patterns {
            self.add(pattern, entry.clone());
        }
        self.sort();
    }

    fn remove(&mut self, rank: Rank, slot: Slot, selector: &TrafficSelector) {
        let (patterns, _) = compile(rank, slot, selector);
        for pattern in patterns {
            self.take(&pattern, rank, slot);
        }
        self.tables.retain(|table| table.len > 0);
        self.sort();
    }

    #[inline]
    fn lookup(&self, packet: &PacketKey) -> Option<Slot> {
        let key = packet.words();
        let mut found: Option<(Rank, Slot)> = None;
        for table in &self.tables {
            if found.is_some_and(|(rank, _)| rank <= table.best) {
                break;
            }
            let mut at = table.heads[table.chain(self.seed, key)];
            while at != NONE {
                let item = &self.items[at as usize];
                if found.is_none_or(|(rank, _)| item.entry.rank < rank)
                    && item.pattern.admits(key)
                    && item.entry.admits(packet)
                {
                    found = Some((item.entry.rank, item.entry.slot));
                }
                at = item.next;
            }
        }
        found.map(|(_, slot)| slot)
    }
}

impl TupleSpace {
    fn sort(&mut self) {
        self.tables.sort_by_key(|table| table.best);
    }

    fn add(&mut self, pattern: Pattern, entry: Entry) {
        let table = self.table_for(&pattern);
        let place = match self.free.pop() {
            Some(free) => free,
            None => {
                self.items.push(Item { pattern, entry: entry.clone(), next: NONE });
                self.items.len() as u32 - 1
            }
        };
        let table = &mut self.tables[table];
        table.best = table.best.min(entry.rank);
        table.len += 1;
        if table.len > table.heads.len() {
            table.grow(self.seed, &mut self.items);
        }
        let chain = table.chain(self.seed, &pattern.bits);
        self.items[place as usize] = Item { pattern, entry, next: table.heads[chain] };
        table.heads[chain] = place;
    }

    /// The finest table where the pattern's chain is short; else a new one.
    fn table_for(&mut self, pattern: &Pattern) -> usize {
        let fits = |table: &Table| (0..WORDS).all(|i| table.mask[i] & !pattern.mask[i] == 0);
        let bits = |mask: &Words| mask.iter().map(|word| word.count_ones()).sum::<u32>();
        let mut candidates: Vec<usize> = (0..self.tables.len()).filter(|i| fits(&self.tables[*i])).collect();
        candidates.sort_by_key(|i| std::cmp::Reverse(bits(&self.tables[*i].mask)));
        let short =
            |i: &usize| self.chain_of(&self.tables[*i], pattern).take(LONG_CHAIN).count() < LONG_CHAIN;
        if let Some(found) = candidates.iter().copied().find(short) {
            return found;
        }
        let known = |mask: &Words| self.tables.iter().position(|table| table.mask == *mask);
        let coarse = coarser(&pattern.mask);
        let mask = if known(&coarse).is_none() { coarse } else { pattern.mask };
        known(&mask).unwrap_or_else(|| {
            self.tables.push(Table::new(mask));
            self.tables.len() - 1
        })
    }

    fn chain_of<'a>(&'a self, table: &Table, pattern: &Pattern) -> impl Iterator<Item = &'a Item> + use<'a> {
        let mut at = table.heads[table.chain(self.seed, &pattern.bits)];
        std::iter::from_fn(move || {
            let item = self.items.get(at as usize)?;
            at = item.next;
            Some(item)
        })
    }

    fn take(&mut self, pattern: &Pattern, rank: Rank, slot: Slot) {
        for table in &mut self.tables {
            if (0..WORDS).any(|i| table.mask[i] & !pattern.mask[i] != 0) {
                continue;
            }
            let chain = table.chain(self.seed, &pattern.bits);
            let (mut before, mut at) = (NONE, table.heads[chain]);
            while at != NONE {
                let Item { pattern: held, entry, next } = &self.items[at as usize];
                let next = *next;
                if (entry.rank, entry.slot) != (rank, slot) || held != pattern {
                    (before, at) = (at, next);
                    continue;
                }
                match self.items.get_mut(before as usize) {
                    Some(item) => item.next = next,
                    None => table.heads[chain] = next,
                }
                self.free.push(at);
                table.len -= 1;
                if table.best == rank {
                    table.best = table.lowest(&self.items);
                }
                return;
            }
        }
    }
}

impl Table {
    fn new(mask: Words) -> Table {
        let used = (0..WORDS as u8).filter(|i| mask[usize::from(*i)] != 0).collect();
        Table { mask, used, heads: vec![NONE; 16], len: 0, best: Rank(u64::MAX) }
    }

    #[inline]
    fn chain(&self, seed: u64, key: &Words) -> usize {
        let mut hash = seed;
        for i in &self.used {
            let i = usize::from(*i) % WORDS;
            hash = fold(hash ^ (key[i] & self.mask[i]), seed.rotate_left(u32::from(i as u8) * 7 + 1) | 1);
        }
        hash as usize & (self.heads.len() - 1)
    }

    fn lowest(&self, items: &[Item]) -> Rank {
        let mut best = Rank(u64::MAX);
        for head in &self.heads {
            let mut at = *head;
            while let Some(item) = items.get(at as usize) {
                best = best.min(item.entry.rank);
                at = item.next;
            }
        }
        best
    }

    fn grow(&mut self, seed: u64, items: &mut [Item]) {
        let old = std::mem::take(&mut self.heads);
        self.heads = vec![NONE; old.len() * 4];
        for head in old {
            let mut at = head;
            while at != NONE {
                let next = items[at as usize].next;
                let chain = self.chain(seed, &items[at as usize].pattern.bits);
                items[at as usize].next = self.heads[chain];
                self.heads[chain] = at;
                at = next;
            }
        }
    }
}

/// The whole octets of a mask: what rules with slightly different masks have in common.
fn coarser(mask: &Words) -> Words {
    mask.map(|word| u64::from_be_bytes(word.to_be_bytes().map(|octet| if octet == 255 { 255 } else { 0 })))
}

/// Both halves of the product of two numbers, added without carry.
#[inline]
fn fold(x: u64, y: u64) -> u64 {
    let product = u128::from(x) * u128::from(y);
    product as u64 ^ (product >> 64) as u64
}
