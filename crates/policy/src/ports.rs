//! Items as rectangles of local and remote ports, for each protocol: which are hidden, and what they leave open.

use sadb::spd::{PortRange, is_same_protocol};

use wire::protocol;
use wire::protocol::has_ports;

/// The flows that an item is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rectangle {
    pub protocol: Option<u8>,
    pub local: PortRange,
    pub remote: PortRange,
}

impl Rectangle {
    fn contains(&self, local: u16, remote: u16) -> bool {
        self.local.contains(local) && self.remote.contains(remote)
    }

    /// Whether it is about this protocol; `None` stands for one that no item names.
    pub fn speaks_of(&self, protocol: Option<u8>) -> bool {
        match (self.protocol, protocol) {
            (None, _) => true,
            (Some(own), Some(number)) => is_same_protocol(own, number),
            (Some(_), None) => false,
        }
    }
}

/// An example of flows that no item matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// The protocol; `None` for one that no item names.
    pub protocol: Option<u8>,
    pub local: u16,
    pub remote: u16,
    /// Whether no item matches any flow of the protocol.
    pub is_whole: bool,
}

/// Every protocol at which the treatment can change, each once: those that are named, and one that is not.
pub fn protocols(named: impl Iterator<Item = Option<u8>>) -> Vec<Option<u8>> {
    let one = |number| if is_same_protocol(number, protocol::ICMP) { protocol::ICMP } else { number };
    let mut out: Vec<Option<u8>> = named.flatten().map(|number| Some(one(number))).collect();
    out.push(None);
    out.sort_unstable();
    out.dedup();
    out
}

/// The first port of every interval on which no item changes its treatment.
pub fn starts(ranges: impl Iterator<Item = PortRange>) -> Vec<u16> {
    let mut out: Vec<u16> = ranges
        .flat_map(|r| [Some(r.first), r.last.checked_add(1)])
        .flatten()
        .chain(std::iter::once(0))
        .collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// For each item, whether it decides for some flow that those before it do not match. Also flows that no item matches,
/// if there are any.
pub fn examine(items: &[Vec<Rectangle>]) -> (Vec<bool>, Option<Hole>) {
    let mut decides = vec![false; items.len()];
    let mut hole = None;
    for protocol in protocols(items.iter().flatten().map(|r| r.protocol)) {
        let all: Vec<(usize, Rectangle)> = items
            .iter()
            .enumerate()
            .flat_map(|(owner, list)| list.iter().map(move |r| (owner, *r)))
            .filter(|(_, r)| r.speaks_of(protocol))
            .collect();
        let ported = protocol.is_none_or(has_ports);
        let starts = |range: fn(&Rectangle) -> PortRange| {
            if ported { starts(all.iter().map(|(_, r)| range(r))) } else { vec![0] }
        };
        let (locals, remotes) = (starts(|r| r.local), starts(|r| r.remote));
        let mut open: Option<(u16, u16)> = None;
        for &local in &locals {
            for &remote in &remotes {
                match all.iter().find(|(_, r)| r.contains(local, remote)) {
                    Some((owner, _)) => decides[*owner] = true,
                    // Port 0 is a poor example: nobody uses it.
                    None if open.is_none_or(|(a, b)| a == 0 || b == 0) => open = Some((local, remote)),
                    None => {}
                }
            }
        }
        // What is open for protocols that no item names is the best example of all.
        if let Some((local, remote)) = open.filter(|_| hole.is_none()) {
            hole = Some(Hole { protocol, local, remote, is_whole: all.is_empty() || !ported });
        }
    }
    (decides.into_iter().map(|d| !d).collect(), hole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(list: &[(u16, u16, u16, u16)]) -> Vec<Vec<Rectangle>> {
        list.iter()
            .map(|&(a, b, c, d)| {
                vec![Rectangle {
                    protocol: None,
                    local: PortRange { first: a, last: b },
                    remote: PortRange { first: c, last: d },
                }]
            })
            .collect()
    }

    #[test]
    fn two_halves_hide_a_third() {
        let (hidden, open) =
            examine(&items(&[(0, 99, 0, u16::MAX), (100, u16::MAX, 0, u16::MAX), (50, 150, 7, 7)]));
        assert_eq!(hidden, [false, false, true]);
        assert_eq!(open, None);
    }

    #[test]
    fn the_hole_is_named() {
        let (hidden, open) = examine(&items(&[(0, u16::MAX, 21, 21), (21, 21, 0, u16::MAX)]));
        assert_eq!(hidden, [false, false]);
        assert_eq!(open, Some(Hole { protocol: None, local: 22, remote: 22, is_whole: false }));
        assert!(examine(&[]).1.is_some_and(|hole| hole.is_whole));
    }

    #[test]
    fn protocols_are_looked_at_one_by_one() {
        let of = |protocol, remote| vec![Rectangle { protocol, local: PortRange::ANY, remote }];
        let any = PortRange::ANY;
        // Both ICMPs are one; an item for all of TCP does not hide one for all protocols.
        let (hidden, open) = examine(&[of(Some(1), any), of(Some(58), any), of(Some(6), any), of(None, any)]);
        assert_eq!((hidden, open), (vec![false, true, false, false], None));
        let (hidden, open) = examine(&[of(None, any), of(Some(6), PortRange::one(80))]);
        assert_eq!((hidden, open), (vec![false, true], None));
        let (_, open) = examine(&[of(Some(6), any)]);
        assert_eq!(open.map(|hole| (hole.protocol, hole.is_whole)), Some((None, true)));
        // What has no ports is matched by an item for any port, and port 0, only.
        let (_, open) =
            examine(&[of(Some(47), PortRange::one(80)), of(None, PortRange { first: 1, last: 9 })]);
        assert_eq!(open.map(|hole| hole.protocol), Some(None));
    }
}
