//! Items as rectangles of local and remote ports: which are hidden, and what they leave open.

use sadb::spd::PortRange;

/// The ports an item speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rectangle {
    pub local: PortRange,
    pub remote: PortRange,
}

impl Rectangle {
    fn contains(&self, local: u16, remote: u16) -> bool {
        self.local.contains(local) && self.remote.contains(remote)
    }
}

/// The first port of every interval on which no item changes its mind.
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

/// For each item whether one before it, or several together, match all it matches; and a pair of ports that no
/// item matches, if there is one.
pub fn examine(items: &[Rectangle]) -> (Vec<bool>, Option<(u16, u16)>) {
    let locals = starts(items.iter().map(|i| i.local));
    let remotes = starts(items.iter().map(|i| i.remote));
    let mut decides = vec![false; items.len()];
    let mut open = None;
    for &local in &locals {
        for &remote in &remotes {
            match items.iter().position(|i| i.contains(local, remote)) {
                Some(first) => decides[first] = true,
                // Port 0 is a poor example: nobody uses it.
                None if open.is_none_or(|(a, b)| a == 0 || b == 0) => open = Some((local, remote)),
                None => {}
            }
        }
    }
    (decides.into_iter().map(|d| !d).collect(), open)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(list: &[(u16, u16, u16, u16)]) -> Vec<Rectangle> {
        list.iter()
            .map(|&(a, b, c, d)| Rectangle {
                local: PortRange { first: a, last: b },
                remote: PortRange { first: c, last: d },
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
        assert_eq!(open, Some((22, 22)));
        assert_eq!(examine(&[]).1, Some((0, 0)));
    }
}
