//! Tuple-space search: one hash table for each of a few masks (Srinivasan, Suri and Varghese 1999), with masks relaxed
//! so that rules of many masks share a table (as in TupleMerge, Daly and others 2017).
//!
//! A pattern may live in any table whose mask is part of its own. Candidates are compared in full, so a relaxed mask
//! costs comparisons and never a wrong answer. Patterns that leave everything open, and ranges that are no prefixes,
//! end in a table of few bits, where they are compared one by one. Tables are asked in the order of the lowest rank
//! that each holds, until none left can come before the best found. The hash is keyed: whoever does not know the seed
//! cannot choose packets that collide. The rules decide how long a chain is, not the packets.

use super::entry::{Entry, Pattern, Words, compile};
use super::{Classifier, Rank, Slot};
use crate::keyed::{fold, scatter};
use crate::selector::{PacketKey, TrafficSelector, WORDS};

/// A pattern joins a table in which it meets fewer than this many others that agree with it in all bits of the table's
/// mask.
const FEW: usize = 6;
/// A pattern may meet up to this many others where no relaxed mask tells them apart.
const CROWD: usize = 24;
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Table {
    mask: Words,
    /// The indices of the words of the mask that are not zero.
    used: Vec<u8>,
    /// The first item of each chain, by hash. The number of chains is a power of two.
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

/// A classifier of hash tables, one for each mask.
#[derive(Clone, Debug)]
pub struct TupleSpace {
    /// The tables in the order of the lowest rank in each.
    tables: Vec<Table>,
    items: Vec<Item>,
    free: Vec<u32>,
    /// The seeds of the hash, one for each word of a key.
    seeds: Words,
}

impl Classifier for TupleSpace {
    fn empty(seed: u64) -> TupleSpace {
        TupleSpace {
            tables: Vec::new(),
            items: Vec::new(),
            free: Vec::new(),
            seeds: std::array::from_fn(|i| scatter(seed, i as u64 + 1)),
        }
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
            let mut at = table.heads[table.chain(&self.seeds, key)];
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
        if table.len * 2 > table.heads.len() {
            table.grow(&self.seeds, &mut self.items);
        }
        let chain = table.chain(&self.seeds, &pattern.bits);
        self.items[place as usize] = Item { pattern, entry, next: table.heads[chain] };
        table.heads[chain] = place;
    }

    /// The index of the table for this pattern. The first choice is the fullest table in which few others meet the
    /// pattern. The second is a new table with the coarsest mask that tells the pattern from those it met. The last is
    /// the table in which fewest meet it, or the table of the pattern's own mask if even those are too many.
    fn table_for(&mut self, pattern: &Pattern) -> usize {
        let mut roomy: Option<(usize, usize)> = None;
        let mut least: Option<(usize, usize)> = None;
        let mut met: Vec<Words> = Vec::new();
        for (index, table) in self.tables.iter().enumerate() {
            if (0..WORDS).any(|i| table.mask[i] & !pattern.mask[i] != 0) {
                continue;
            }
            let before = met.len();
            let chain = self.chain_of(table, pattern).map(|item| item.pattern.bits);
            met.extend(chain.filter(|bits| pattern.meets(bits, &table.mask)).take(CROWD));
            let crowd = met.len() - before;
            if crowd < FEW && roomy.is_none_or(|(len, _)| table.len > len) {
                roomy = Some((table.len, index));
            }
            if crowd < CROWD && least.is_none_or(|(held, _)| crowd < held) {
                least = Some((crowd, index));
            }
        }
        if let Some((_, table)) = roomy {
            return table;
        }
        let known = |mask: &Words| self.tables.iter().position(|table| table.mask == *mask);
        let tells_apart = |mask: &Words| met.iter().filter(|bits| pattern.meets(bits, mask)).count() < FEW;
        let coarse = coarser(&pattern.mask).find(|mask| known(mask).is_none() && tells_apart(mask));
        if let (None, Some((_, table))) = (coarse, least) {
            return table;
        }
        let mask = coarse.unwrap_or(pattern.mask);
        known(&mask).unwrap_or_else(|| {
            self.tables.push(Table::new(mask));
            self.tables.len() - 1
        })
    }

    fn chain_of<'a>(&'a self, table: &Table, pattern: &Pattern) -> impl Iterator<Item = &'a Item> + use<'a> {
        let mut at = table.heads[table.chain(&self.seeds, &pattern.bits)];
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
            let chain = table.chain(&self.seeds, &pattern.bits);
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
    fn chain(&self, seeds: &Words, key: &Words) -> usize {
        let mut hash = 0;
        for i in &self.used {
            let i = usize::from(*i) % WORDS;
            hash = fold(hash ^ (key[i] & self.mask[i]) ^ seeds[i], seeds[i]);
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

    fn grow(&mut self, seeds: &Words, items: &mut [Item]) {
        let old = std::mem::take(&mut self.heads);
        self.heads = vec![NONE; old.len() * 4];
        for head in old {
            let mut at = head;
            while at != NONE {
                let next = items[at as usize].next;
                let chain = self.chain(seeds, &items[at as usize].pattern.bits);
                items[at as usize].next = self.heads[chain];
                self.heads[chain] = at;
                at = next;
            }
        }
    }
}

/// Parts of a mask, the coarse before the fine, that masks with other prefix lengths have too. They are more and more
/// whole octets of each word of the addresses, with which a key begins, and then of the other words.
fn coarser(mask: &Words) -> impl Iterator<Item = Words> {
    let whole = mask.map(|word| word.to_be_bytes().map(|octet| if octet == 255 { 255 } else { 0 }));
    let first = |word: [u8; 8], count: usize| {
        let mut kept = [0; 8];
        kept[..count].copy_from_slice(&word[..count]);
        u64::from_be_bytes(kept)
    };
    (1..=16).map(move |step: usize| {
        let (addresses, rest) = (step.min(8), step.saturating_sub(8));
        std::array::from_fn(|i| first(whole[i], if i < 4 { addresses } else { rest }))
    })
}
