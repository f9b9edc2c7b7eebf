//! The addresses that a graph tells apart: an address has a number, and a prefix is a range of numbers.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use wire::{Prefix, addr};

use super::description::Description;
use super::kinds::user_prefix;
use super::rules::{Field, FieldValue};

/// The intervals of addresses that the prefixes of a graph tell apart, numbered in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intervals {
    /// The first address of each interval, in order. The interval in front of the first one has the number 0, and no
    /// prefix that is named has an address in it.
    starts: Vec<u128>,
}

impl Intervals {
    /// The most intervals that a graph can tell apart beside the first: a number has 16 bits.
    pub const MOST: usize = u16::MAX as usize;

    /// The far ends that the rules and profiles of a graph name. A graph that names too many is refused by
    /// [`lint`](crate::graph::lint()), and has the first ones here.
    pub fn of_peers(description: &Description) -> Intervals {
        Intervals::of(starts_of_peers(description))
    }

    /// The inner destination addresses that the rules of a graph name, as [`Intervals::of_peers`] has far ends.
    pub fn of_destinations(description: &Description) -> Intervals {
        Intervals::of(starts_of_destinations(description))
    }

    /// The inner source addresses that the rules and profiles of a graph name, as [`Intervals::of_peers`] has far ends.
    pub fn of_sources(description: &Description) -> Intervals {
        Intervals::of(starts_of_sources(description))
    }

    fn of(mut starts: Vec<u128>) -> Intervals {
        starts.truncate(Intervals::MOST);
        Intervals { starts }
    }

    /// Whether no prefix is named, so that every address has the number 0.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The number of an address.
    #[inline]
    pub fn number(&self, address: IpAddr) -> u16 {
        if self.is_empty() {
            return 0;
        }
        let bits = addr::to_bits(address);
        self.starts.partition_point(|start| *start <= bits) as u16
    }

    /// The numbers of the addresses of a prefix that the graph names; `None` for any other value.
    pub fn range(&self, value: &FieldValue) -> Option<RangeInclusive<u32>> {
        prefix(value).map(|prefix| self.numbers(prefix))
    }

    /// For each list of prefixes, the numbers of the addresses whose longest prefix in all of the lists is one of it.
    pub fn by_longest(&self, lists: &[Vec<Prefix>]) -> Vec<Vec<u32>> {
        let mut rows: Vec<(Prefix, usize)> = (0..)
            .zip(lists)
            .flat_map(|(list, prefixes)| prefixes.iter().map(move |prefix| (*prefix, list)))
            .collect();
        // A longer prefix takes its addresses from a shorter one.
        rows.sort_by_key(|(prefix, _)| prefix.len());
        let mut owners: Vec<Option<usize>> = vec![None; self.starts.len() + 1];
        for (prefix, list) in rows {
            let (first, last) = self.numbers(prefix).into_inner();
            if let Some(its) = owners.get_mut(first as usize..=last as usize) {
                its.fill(Some(list));
            }
        }
        let mut numbers = vec![Vec::new(); lists.len()];
        for (number, owner) in (0..).zip(owners) {
            if let Some(its) = owner.and_then(|list| numbers.get_mut(list)) {
                its.push(number);
            }
        }
        numbers
    }

    /// The number here of an address that had a number in the graph before; 0 if that does not tell it.
    pub fn renumber(&self, before: &Intervals, number: u16) -> u16 {
        let place = usize::from(number);
        let Some(first) = place.checked_sub(1).and_then(|place| before.starts.get(place)) else { return 0 };
        let last = before.starts.get(place).map_or(u128::MAX, |next| next - 1);
        let now = |bits: u128| self.starts.partition_point(|start| *start <= bits) as u16;
        if now(*first) == now(last) { now(*first) } else { 0 }
    }

    fn numbers(&self, prefix: Prefix) -> RangeInclusive<u32> {
        let number = |bits: u128| self.starts.partition_point(|start| *start <= bits) as u32;
        number(prefix.first())..=number(prefix.last())
    }
}

/// What a graph asks of the addresses of packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// The far ends, from which a packet has the number in [`Meta::peer`](crate::Meta::peer).
    pub peers: Intervals,
    /// The inner sources, from which it has the number in [`Meta::source`](crate::Meta::source).
    pub sources: Intervals,
    /// The inner destinations, from which it has the number in [`Meta::destination`](crate::Meta::destination).
    pub destinations: Intervals,
    /// Whether users are told apart by their far ends, so that [`Meta::peer_hash`](crate::Meta::peer_hash) is asked for.
    pub has_peer_users: bool,
}

impl Addresses {
    /// What a graph asks of addresses.
    pub fn of(description: &Description) -> Addresses {
        Addresses {
            peers: Intervals::of_peers(description),
            sources: Intervals::of_sources(description),
            destinations: Intervals::of_destinations(description),
            has_peer_users: description.users().any(|users| users.word("by") == Some("peer")),
        }
    }

    /// Give a packet the numbers of this graph, which had those of another one.
    pub fn renumber(&self, before: &Addresses, meta: &mut crate::Meta) {
        meta.peer = self.peers.renumber(&before.peers, meta.peer);
        meta.source = self.sources.renumber(&before.sources, meta.source);
        meta.destination = self.destinations.renumber(&before.destinations, meta.destination);
    }
}

/// The first addresses of the intervals that rules and profiles tell far ends apart by, in order.
pub(super) fn starts_of_peers(description: &Description) -> Vec<u128> {
    starts(of_rules(description, Field::Peer).chain(of_profiles(description, "peer")))
}

/// The first addresses of the intervals that rules and profiles tell inner sources apart by, in order.
pub(super) fn starts_of_sources(description: &Description) -> Vec<u128> {
    starts(of_rules(description, Field::Source).chain(of_profiles(description, "source")))
}

/// The first addresses of the intervals that rules tell inner destinations apart by, in order.
pub(super) fn starts_of_destinations(description: &Description) -> Vec<u128> {
    starts(of_rules(description, Field::Destination))
}

/// The prefixes that rules name for a field.
fn of_rules(description: &Description, field: Field) -> impl Iterator<Item = Prefix> {
    let fields = description.rules().flat_map(|rule| &rule.fields);
    let values = fields.filter(move |row| row.field.value == field).flat_map(|row| &row.values);
    values.filter_map(|value| prefix(&value.value))
}

fn starts(prefixes: impl Iterator<Item = Prefix>) -> Vec<u128> {
    let mut starts: Vec<u128> = Vec::new();
    for prefix in prefixes {
        starts.push(prefix.first());
        starts.extend(prefix.last().checked_add(1));
    }
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// The prefixes that the profiles of users name which are told apart by this word.
fn of_profiles<'d>(description: &'d Description, by: &'d str) -> impl Iterator<Item = Prefix> + 'd {
    let components = description.users().filter(move |users| users.word("by") == Some(by));
    let profiles = components.flat_map(|users| users.profiles());
    profiles.flat_map(|profile| &profile.users).filter_map(|user| user_prefix(&user.value))
}

fn prefix(value: &FieldValue) -> Option<Prefix> {
    match value {
        FieldValue::Prefix(address, len) => Prefix::new(*address, *len),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{House, check};

    #[test]
    fn an_address_is_in_the_ranges_of_its_prefixes_and_in_no_other() {
        let text = "[class.a]\nmatch = [{ peer = [\"192.0.2.0/24\", \"2001:db8::/32\"] }]\n\
                    [class.b]\nmatch = [{ peer = [\"192.0.2.7\", \"198.51.100.0/25\"] }]\n\
                    [class.c]\nmatch = [{ peer = [\"0.0.0.0/0\"] }]\n[class.rest]\nmatch = \"rest\"\n";
        let description = check(text, &House::default()).unwrap();
        let peers = Intervals::of_peers(&description);
        let prefixes = ["192.0.2.0/24", "2001:db8::/32", "192.0.2.7/32", "198.51.100.0/25", "0.0.0.0/0"];
        let addresses = [
            "192.0.2.6",
            "192.0.2.7",
            "192.0.2.8",
            "192.0.2.255",
            "192.0.3.0",
            "198.51.100.0",
            "198.51.100.127",
            "198.51.100.128",
            "2001:db8::",
            "2001:db8:ffff::1",
            "2001:db9::",
            "::",
            "255.255.255.255",
            "::1",
        ];
        for text in prefixes {
            let (base, len) = text.split_once('/').unwrap();
            let (base, len): (IpAddr, u8) = (base.parse().unwrap(), len.parse().unwrap());
            let range = peers.range(&FieldValue::Prefix(base, len)).unwrap();
            for address in addresses.map(|address| address.parse::<IpAddr>().unwrap()) {
                let expected = Prefix::new(base, len).unwrap().contains(address);
                let number = u32::from(peers.number(address));
                assert_eq!(range.contains(&number), expected, "{address} in {text}");
            }
        }
        assert!(
            Intervals::default().is_empty()
                && Intervals::default().number(addresses[0].parse().unwrap()) == 0
        );
    }

    fn graph_of(users: &[&str]) -> Intervals {
        let users = users.iter().map(|user| format!("\"{user}\"")).collect::<Vec<_>>().join(", ");
        let text = format!(
            "[class.rest]\nmatch = \"rest\"\nfair = \"peer\"\nprofiles = [{{ name = \"a\", users = [{users}] }}]\n"
        );
        Intervals::of_peers(&check(&text, &House::default()).unwrap())
    }

    #[test]
    fn an_address_belongs_to_the_longest_prefix_that_has_it() {
        let lists: [&[&str]; 3] = [
            &["192.0.2.0/24", "2001:db8::/32"],
            &["192.0.2.64/26", "2001:db8:1::/48", "0.0.0.0/0"],
            &["192.0.2.70", "192.0.2.255", "::/0"],
        ];
        let intervals = graph_of(&lists.concat());
        let prefixes =
            lists.map(|list| list.iter().map(|text| user_prefix(text).unwrap()).collect::<Vec<_>>());
        let owners = intervals.by_longest(&prefixes);
        let addresses = [
            ("192.0.2.63", 0),
            ("192.0.2.64", 1),
            ("192.0.2.70", 2),
            ("192.0.2.71", 1),
            ("192.0.2.128", 0),
            ("192.0.2.255", 2),
            ("192.0.3.0", 1),
            ("2001:db8::1", 0),
            ("2001:db8:1:ffff::1", 1),
            ("2001:db8:2::", 0),
            ("2001:db9::", 2),
        ];
        for (text, list) in addresses {
            let number = u32::from(intervals.number(text.parse().unwrap()));
            let found: Vec<usize> = (0..3).filter(|list| owners[*list].contains(&number)).collect();
            assert_eq!(found, [list], "{text}");
        }
        // Nothing is named by the number of an address that is not known.
        assert!(owners.iter().all(|numbers| !numbers.contains(&0)));
    }

    #[test]
    fn a_number_of_before_is_one_of_now_or_none() {
        let before = graph_of(&["10.0.0.0/8", "192.0.2.0/24", "2001:db8::/32"]);
        let now = graph_of(&["10.0.0.0/9", "192.0.2.0/24", "198.51.100.0/24", "2001:db8::/32"]);
        for text in ["192.0.2.9", "2001:db8:7::"] {
            let address = text.parse().unwrap();
            assert_eq!(now.renumber(&before, before.number(address)), now.number(address), "{text}");
        }
        // The interval of before is now two.
        assert_eq!(now.renumber(&before, before.number("10.0.0.1".parse().unwrap())), 0);
        assert_eq!((now.renumber(&before, 0), now.renumber(&before, u16::MAX)), (0, 0));
        assert_eq!(Intervals::default().renumber(&before, 2), 0);
    }
}
