//! The selectors that inbound associations serve, in the form of the kernel's table. For flows in it, *optional*
//! protection is required.
//!
//! Enters: the selectors of associations (RFC 4301 section 4.4.1.1), each once. Leaves: what to write into `live_sa`. The
//! kernel asks for the longest prefix of the peer, so an entry also has what the shorter ones around it say. What an entry
//! cannot say becomes more, never less: ICMP types in place of ports are all types, and more selectors than fit are all flows.

use crate::abi::{self, Live, LiveSelector, PeerKey};
use crate::spans;
use sadb::Selectors;
use sadb::spd::PortRange;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use wire::{Prefix, protocol};

/// Selectors of one entry that are looked at to see which of them say what others do.
const MOST_KEPT: usize = 64;

/// A change of one entry of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Write(PeerKey, Live),
    Delete(PeerKey),
}

/// Selectors without the peer. In this order wider ones come first, as far as single fields are wider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cover {
    local: Prefix,
    local_ports: (u16, u16),
    remote_ports: (u16, u16),
    app: u16,
    protocol: u8,
}

impl Cover {
    fn of(selectors: &Selectors) -> Cover {
        let protocol = selectors.protocol.unwrap_or(0);
        let has_type = protocol::has_type(protocol);
        let span = |ports: PortRange| if has_type { (0, u16::MAX) } else { (ports.first, ports.last) };
        Cover {
            local: selectors.local,
            local_ports: span(selectors.local_ports),
            remote_ports: span(selectors.remote_ports),
            app: selectors.app.map_or(0, |app| app.0),
            protocol,
        }
    }

    /// Whether this cover includes everything that the other one covers.
    fn includes(&self, other: &Cover) -> bool {
        let spans = |a: (u16, u16), b: (u16, u16)| a.0 <= b.0 && b.1 <= a.1;
        self.local.covers(other.local)
            && spans(self.local_ports, other.local_ports)
            && spans(self.remote_ports, other.remote_ports)
            && (self.app == 0 || self.app == other.app)
            && (self.protocol == 0 || self.protocol == other.protocol)
    }

    fn is_all(&self) -> bool {
        self.includes(&Cover::of(&Selectors::ANY))
    }

    fn in_kernel(&self) -> LiveSelector {
        LiveSelector {
            local: self.local.first().to_be_bytes(),
            local_first: self.local_ports.0,
            local_last: self.local_ports.1,
            remote_first: self.remote_ports.0,
            remote_last: self.remote_ports.1,
            app: self.app,
            protocol: self.protocol,
            local_len: self.local.len(),
        }
    }
}

/// The table, by first address and length of the peers.
#[derive(Debug, Default)]
pub(crate) struct LiveTable {
    /// The selectors of each entry, by what they cover: two that differ in ICMP types alone cover the same.
    entries: BTreeMap<(u128, u8), BTreeMap<Cover, HashSet<Selectors>>>,
    /// The number of entries for each length of prefix.
    lengths: BTreeMap<u8, usize>,
    /// Entries that are wider than what they were made of, as too many selectors meet there.
    widened: BTreeSet<(u128, u8)>,
}

impl LiveTable {
    /// The table of these associations' selectors.
    pub(crate) fn of<'s>(all: impl IntoIterator<Item = &'s Selectors>) -> LiveTable {
        let mut table = LiveTable::default();
        for selectors in all {
            table.put(selectors);
        }
        let full = |place: &&(u128, u8)| table.covers(**place).len() > abi::LIVE_EACH;
        table.widened = table.entries.keys().filter(full).copied().collect();
        table
    }

    /// Add one association's selectors. The answer is what changes in the kernel half's table.
    pub(crate) fn add(&mut self, selectors: &Selectors) -> Vec<Change> {
        if self.put(selectors) { self.changes_within(selectors.remote) } else { Vec::new() }
    }

    /// Remove one association's selectors. The answer is what changes in the kernel half's table.
    pub(crate) fn remove(&mut self, selectors: &Selectors) -> Vec<Change> {
        let place = place_of(selectors.remote);
        let Some(own) = self.entries.get_mut(&place) else { return Vec::new() };
        let cover = Cover::of(selectors);
        let Some(alike) = own.get_mut(&cover) else { return Vec::new() };
        if !alike.remove(selectors) || !alike.is_empty() {
            return Vec::new();
        }
        own.remove(&cover);
        let mut out = Vec::new();
        if own.is_empty() {
            self.entries.remove(&place);
            self.widened.remove(&place);
            if let Some(count) = self.lengths.get_mut(&place.1) {
                *count -= 1;
                if *count == 0 {
                    self.lengths.remove(&place.1);
                }
            }
            out.push(Change::Delete(spans::key_of(place)));
        }
        out.extend(self.changes_within(selectors.remote));
        out
    }

    /// Every entry, as the kernel half is to have it.
    pub(crate) fn all(&self) -> impl Iterator<Item = (PeerKey, Live)> + '_ {
        self.entries.keys().map(|place| (spans::key_of(*place), value(&self.covers(*place))))
    }

    /// The number of entries that are wider than the selectors they were made of.
    pub(crate) fn widened(&self) -> usize {
        self.widened.len()
    }

    /// Put selectors into their entry. The answer is whether nothing there covered the same before.
    fn put(&mut self, selectors: &Selectors) -> bool {
        let place = place_of(selectors.remote);
        let own = self.entries.entry(place).or_default();
        if own.is_empty() {
            *self.lengths.entry(place.1).or_default() += 1;
        }
        let alike = own.entry(Cover::of(selectors)).or_default();
        let is_new = alike.is_empty();
        alike.insert(*selectors);
        is_new
    }

    /// The entries of these peers, and of fewer of them.
    fn changes_within(&mut self, peers: Prefix) -> Vec<Change> {
        let end = (peers.last(), u8::MAX);
        let within: Vec<_> = self.entries.range((peers.first(), peers.len())..=end).map(|e| *e.0).collect();
        let write = |place| {
            let covers = self.covers(place);
            match covers.len() > abi::LIVE_EACH {
                true => self.widened.insert(place),
                false => self.widened.remove(&place),
            };
            Change::Write(spans::key_of(place), value(&covers))
        };
        within.into_iter().map(write).collect()
    }

    /// The covers of the associations for an entry's peers, without those that another one of them includes.
    fn covers(&self, (bits, len): (u128, u8)) -> Vec<Cover> {
        let mut all: BTreeSet<Cover> = BTreeSet::new();
        for shorter in self.lengths.range(..=len).map(|(shorter, _)| *shorter) {
            if let Some(own) = self.entries.get(&place_of(Prefix::from_bits(bits, shorter))) {
                all.extend(own.keys());
            }
        }
        let mut kept: Vec<Cover> = Vec::new();
        for cover in all {
            if kept.iter().any(|other| other.includes(&cover)) {
                continue;
            }
            kept.retain(|other| !cover.includes(other));
            kept.push(cover);
            // More than that is all. Peers choose how many there are, so looking on would be their time to spend.
            if kept.len() > MOST_KEPT {
                break;
            }
        }
        kept
    }
}

fn value(covers: &[Cover]) -> Live {
    let mut of = [Cover::of(&Selectors::ANY).in_kernel(); abi::LIVE_EACH];
    if covers.len() > abi::LIVE_EACH || covers.iter().any(Cover::is_all) {
        return Live { count: abi::LIVE_ALL, of };
    }
    for (to, cover) in of.iter_mut().zip(covers) {
        *to = cover.in_kernel();
    }
    Live { count: covers.len() as u32, of }
}

fn place_of(peers: Prefix) -> (u128, u8) {
    (peers.first(), peers.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::AppId;

    fn peers(text: &str) -> Prefix {
        let (addr, len) = text.split_once('/').unwrap();
        Prefix::new(addr.parse().unwrap(), len.parse().unwrap()).unwrap()
    }

    fn port(remote: &str, port: u16) -> Selectors {
        Selectors { remote: peers(remote), remote_ports: PortRange::one(port), ..Selectors::ANY }
    }

    fn count(table: &LiveTable, of: &str) -> u32 {
        let key = spans::key_of(place_of(peers(of)));
        table.all().find(|(other, _)| *other == key).unwrap_or_else(|| panic!("{of}")).1.count
    }

    /// What was written, as a table: each change alone must lead from one to the next.
    fn apply(table: &mut BTreeMap<(u128, u8), Live>, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Write(key, value) => drop(table.insert(spans::place_of(&key), value)),
                Change::Delete(key) => drop(table.remove(&spans::place_of(&key))),
            }
        }
    }

    #[test]
    fn an_entry_has_what_those_around_it_say() {
        let net = Selectors { remote: peers("192.0.2.0/24"), protocol: Some(6), ..Selectors::ANY };
        let host = port("192.0.2.1/32", 53);
        let all = [net, host, port("198.51.100.1/32", 1)];
        let table = LiveTable::of(&all);
        assert_eq!(["192.0.2.0/24", "192.0.2.1/32", "198.51.100.1/32"].map(|p| count(&table, p)), [1, 2, 1]);
        // One by one it comes to the same, and away again.
        let (mut step, mut written) = (LiveTable::default(), BTreeMap::new());
        for selectors in [&host, &net, &net, &all[2]] {
            apply(&mut written, step.add(selectors));
        }
        let want: BTreeMap<_, _> = table.all().map(|(key, live)| (spans::place_of(&key), live)).collect();
        assert_eq!(written, want);
        apply(&mut written, step.remove(&net));
        assert_eq!(step.remove(&net), []);
        let want: BTreeMap<_, _> =
            LiveTable::of(&all[1..]).all().map(|(key, live)| (spans::place_of(&key), live)).collect();
        assert_eq!(written, want);
        assert_eq!(written.len(), 2);
        assert!(step.lengths == BTreeMap::from([(128, 2)]), "{:?}", step.lengths);
    }

    #[test]
    fn what_is_said_twice_stands_once_and_what_does_not_fit_is_all() {
        let mut table = LiveTable::default();
        for n in 0..abi::LIVE_EACH as u16 {
            table.add(&port("192.0.2.1/32", 1000 + n));
        }
        assert_eq!((count(&table, "192.0.2.1/32"), table.widened()), (abi::LIVE_EACH as u32, 0));
        let bound = Selectors { app: Some(AppId(7)), ..port("192.0.2.1/32", 1003) };
        table.add(&bound);
        assert_eq!((count(&table, "192.0.2.1/32"), table.widened()), (abi::LIVE_EACH as u32, 0));
        table.add(&port("192.0.2.1/32", 2000));
        assert_eq!((count(&table, "192.0.2.1/32"), table.widened()), (abi::LIVE_ALL, 1));
        table.remove(&port("192.0.2.1/32", 1000));
        assert_eq!((count(&table, "192.0.2.1/32"), table.widened()), (abi::LIVE_EACH as u32, 0));
        let everything = Selectors { remote: peers("0.0.0.0/0"), ..Selectors::ANY };
        table.add(&everything);
        assert_eq!((count(&table, "192.0.2.1/32"), table.widened()), (abi::LIVE_ALL, 0));
    }

    #[test]
    fn what_two_associations_cover_goes_with_the_last_of_them() {
        let of_type = |number: u16| Selectors {
            protocol: Some(1),
            local_ports: PortRange::one(number << 8),
            ..port("192.0.2.1/32", 0)
        };
        let mut table = LiveTable::of([&of_type(0), &of_type(8), &of_type(8)]);
        assert_eq!(table.remove(&of_type(0)), []);
        assert_eq!(count(&table, "192.0.2.1/32"), 1);
        assert!(!table.remove(&of_type(8)).is_empty());
        assert_eq!(table.all().count(), 0);
    }

    #[test]
    fn icmp_types_are_all_types() {
        let echo = Selectors {
            protocol: Some(1),
            local_ports: PortRange { first: 0x0800, last: 0x08ff },
            ..port("192.0.2.1/32", 0)
        };
        let [(_, live)] = LiveTable::of([&echo]).all().collect::<Vec<_>>()[..] else { panic!() };
        let only = live.of[0];
        assert_eq!((only.local_first, only.local_last, only.remote_last), (0, 65535, 65535));
        assert_eq!((live.count, only.protocol), (1, 1));
    }
}
