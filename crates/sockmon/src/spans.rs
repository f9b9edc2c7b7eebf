//! Spans in the kernel's table, and the order in which it is changed: at no moment does a packet pass that neither the rules
//! of before nor those of after let pass.

use crate::abi::PeerKey;
use std::collections::BTreeMap;
use wire::Prefix;

/// The content of the table: what bypasses, by the first address and the length of a prefix. In this order a prefix
/// stands behind those that cover it.
pub(crate) type BypassTable = BTreeMap<(u128, u8), u32>;

/// A prefix and its value.
pub(crate) type Entry = ((u128, u8), u32);

pub(crate) fn key_of((bits, len): (u128, u8)) -> PeerKey {
    PeerKey { prefixlen: u32::from(len), addr: bits.to_be_bytes() }
}

pub(crate) fn place_of(key: &PeerKey) -> (u128, u8) {
    (u128::from_be_bytes(key.addr), u8::try_from(key.prefixlen).unwrap_or(128))
}

/// The entries to write into a table that holds `now`, so that nothing passes which would not pass under `then` too.
/// Each write lets less pass than before it. So the order does not matter, and a write that fails leaves nothing open.
pub(crate) fn narrowing(now: &BypassTable, then: &BypassTable) -> Vec<Entry> {
    /// A prefix that covers those behind it: its value now, then, and after the narrowing.
    struct CoveringPrefix(Prefix, u32, u32, u32);
    let mut above: Vec<CoveringPrefix> = Vec::new();
    let mut writes = Vec::new();
    for place in merged(now, then) {
        let prefix = Prefix::from_bits(place.0, place.1);
        while above.last().is_some_and(|CoveringPrefix(wider, ..)| !wider.covers(prefix)) {
            above.pop();
        }
        let (now_above, then_above, narrow_above) =
            above.last().map_or((0, 0, 0), |CoveringPrefix(_, now, then, narrow)| (*now, *then, *narrow));
        let is_there = now.get(&place);
        let (now, then) = (*is_there.unwrap_or(&now_above), *then.get(&place).unwrap_or(&then_above));
        let narrow = now & then;
        if narrow != if is_there.is_some() { now } else { narrow_above } {
            writes.push((place, narrow));
        }
        above.push(CoveringPrefix(prefix, now, then, narrow));
    }
    writes
}

/// The entries to write behind [`narrowing`], so that the table equals `then` once entries that are not in `then` are
/// deleted. The longest prefixes come first: no address may fall to a shorter prefix that lets more pass.
pub(crate) fn widening(now: &BypassTable, then: &BypassTable) -> Vec<Entry> {
    let differs = |(place, value): &(&(u128, u8), &u32)| now.get(place) != Some(value);
    let mut writes: Vec<Entry> = then.iter().filter(differs).map(|(place, value)| (*place, *value)).collect();
    writes.sort_by_key(|((_, len), _)| std::cmp::Reverse(*len));
    writes
}

/// The keys of both, in order, each once.
fn merged<'w>(a: &'w BypassTable, b: &'w BypassTable) -> impl Iterator<Item = (u128, u8)> + 'w {
    let (mut a, mut b) = (a.keys().copied().peekable(), b.keys().copied().peekable());
    std::iter::from_fn(move || match (a.peek().copied(), b.peek().copied()) {
        (Some(x), Some(y)) if x == y => {
            b.next();
            a.next()
        }
        (Some(x), Some(y)) if y < x => b.next(),
        (Some(_), _) => a.next(),
        (None, _) => b.next(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of the longest prefix, as the kernel looks it up.
    fn at(table: &BypassTable, addr: u128) -> u32 {
        let covers =
            |((bits, len), _): &(&(u128, u8), &u32)| Prefix::from_bits(*bits, *len).contains_bits(addr);
        table.iter().filter(covers).max_by_key(|((_, len), _)| *len).map_or(0, |(_, value)| *value)
    }

    /// Every table of few prefixes over an address of three bits.
    fn tables() -> Vec<BypassTable> {
        let places = [(0, 0), (0, 1), (1 << 127, 1), (0, 2), (1 << 126, 2), (0, 3)];
        let mut all = vec![BypassTable::new()];
        for place in places {
            let with = |value| {
                all.iter().cloned().map(move |mut table| {
                    table.insert(place, value);
                    table
                })
            };
            let more: Vec<BypassTable> = [0, 1, 3].into_iter().flat_map(with).collect();
            all.extend(more);
        }
        all
    }

    #[test]
    fn nothing_passes_on_the_way_that_neither_end_lets_pass() {
        let all = tables();
        let addresses: Vec<u128> = (0..8).map(|top| top << 125).collect();
        let values = |table: &BypassTable| addresses.iter().map(|addr| at(table, *addr)).collect::<Vec<_>>();
        // Every seventh with every eleventh: all pairs would be 16 million.
        for now in all.iter().step_by(7) {
            for then in all.iter().step_by(11) {
                let (before, after) = (values(now), values(then));
                let within = |table: &BypassTable, limit: &[u32]| {
                    values(table).iter().zip(limit).all(|(value, limit)| value & !limit == 0)
                };
                let mut table = now.clone();
                for (place, value) in narrowing(now, then) {
                    assert_ne!(table.insert(place, value), Some(value));
                    assert!(within(&table, &before), "{now:?} {then:?}");
                }
                let both: Vec<u32> = before.iter().zip(&after).map(|(a, b)| a & b).collect();
                assert_eq!(values(&table), both, "{now:?} {then:?}");
                for (place, value) in widening(&table, then) {
                    table.insert(place, value);
                    assert!(within(&table, &after), "{now:?} {then:?}");
                }
                let unwanted: Vec<_> =
                    table.keys().filter(|place| !then.contains_key(place)).copied().collect();
                // In an order as bad as any: the kernel's walk begins with the longest.
                for place in unwanted.iter().rev() {
                    table.remove(place);
                    assert!(within(&table, &after), "{now:?} {then:?}");
                }
                assert_eq!(&table, then);
            }
        }
    }

    #[test]
    fn one_rule_more_is_one_write() {
        let now: BypassTable = (0..10_000u128).map(|n| ((n << 104, 24), 3)).collect();
        let mut then = now.clone();
        then.insert((20_000 << 104, 24), 1);
        assert_eq!(narrowing(&now, &then), []);
        assert_eq!(widening(&now, &then), [((20_000 << 104, 24), 1)]);
        then.insert((77 << 104, 24), 0);
        assert_eq!(narrowing(&now, &then), [((77 << 104, 24), 0)]);
    }
}
