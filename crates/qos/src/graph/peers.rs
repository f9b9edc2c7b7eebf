//! The far ends that a graph tells apart: an address has a number, and a prefix is a range of numbers.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use wire::{Prefix, addr};

use super::description::Description;
use super::rules::{Field, FieldValue};

/// The intervals of addresses that the prefixes of a graph tell apart, numbered in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// The first address of each interval, in order. The interval in front of the first one has the number 0.
    starts: Vec<u128>,
}

impl Peers {
    /// The most intervals that a graph can tell apart beside the first: a number has 16 bits.
    pub const MOST: usize = u16::MAX as usize;

    /// The far ends that the rules of a graph name. A graph that names too many is refused by
    /// [`lint`](crate::graph::lint()), and has the first ones here.
    pub fn of(description: &Description) -> Peers {
        let mut starts = starts(description);
        starts.truncate(Peers::MOST);
        Peers { starts }
    }

    /// Whether no prefix is named, so that every address has the number 0.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The number of an address.
    pub fn number(&self, address: IpAddr) -> u16 {
        self.starts.partition_point(|start| *start <= addr::to_bits(address)) as u16
    }

    /// The numbers of the addresses of a prefix that the graph names; `None` for any other value.
    pub fn range(&self, value: &FieldValue) -> Option<RangeInclusive<u32>> {
        let prefix = prefix(value)?;
        let number = |bits: u128| self.starts.partition_point(|start| *start <= bits) as u32;
        Some(number(prefix.first())..=number(prefix.last()))
    }
}

/// The first addresses of the intervals that the rules of a graph tell apart, in order.
pub(super) fn starts(description: &Description) -> Vec<u128> {
    let fields = description.rules().flat_map(|rule| &rule.fields);
    let values = fields.filter(|row| row.field.value == Field::Peer).flat_map(|row| &row.values);
    let mut starts: Vec<u128> = Vec::new();
    for prefix in values.filter_map(|value| prefix(&value.value)) {
        starts.push(prefix.first());
        starts.extend(prefix.last().checked_add(1));
    }
    starts.sort_unstable();
    starts.dedup();
    starts
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
        let peers = Peers::of(&description);
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
        assert!(Peers::default().is_empty() && Peers::default().number(addresses[0].parse().unwrap()) == 0);
    }
}
