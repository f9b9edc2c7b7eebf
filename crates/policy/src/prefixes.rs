//! Networks as prefixes of the common address space, and how they are nested.
//!
//! Two prefixes are either nested or apart, so a sweep in address order with a stack finds for each the ones around it.
//! IPv4 is `::ffff:0:0/96` of the common space; an IPv6 network never covers it (a policy that says `::/0` is about
//! IPv6), which [`mapped`] and [`needs_hole`] keep true.

use std::net::{IpAddr, Ipv6Addr};

use wire::{Prefix, addr};

use crate::ast::AddressRange;

/// The prefix of IPv4 in the common space.
pub fn mapped() -> Prefix {
    Prefix::from_bits(u128::from(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0)), 96)
}

/// The prefixes that a range stands for; none for a host name.
pub fn of(range: &AddressRange) -> Vec<Prefix> {
    let mut out = Vec::new();
    each(range, |prefix| out.push(prefix));
    out
}

/// Calls `see` for each prefix that a range stands for, as [`of`] lists them.
pub fn each(range: &AddressRange, mut see: impl FnMut(Prefix)) {
    match range {
        AddressRange::Single(addr) => see(Prefix::host(*addr)),
        AddressRange::Prefix(addr, len) => Prefix::new(*addr, *len).into_iter().for_each(see),
        AddressRange::Range(first, last) => {
            let all = Prefix::cover(addr::to_bits(*first), addr::to_bits(*last));
            all.into_iter().filter(|p| first.is_ipv4() || !mapped().covers(*p)).for_each(see);
        }
        AddressRange::Host(_) => {}
    }
}

/// Whether the prefix is one of IPv4.
pub fn is_ipv4(prefix: Prefix) -> bool {
    mapped().covers(prefix)
}

/// Whether the prefix, meant as IPv6, lies around all of IPv4.
pub fn needs_hole(prefix: Prefix) -> bool {
    prefix.len() < mapped().len() && prefix.covers(mapped())
}

/// The network that `addr/len` with host bits set stands for.
pub fn network_of(addr: IpAddr, len: u8) -> Option<Prefix> {
    Prefix::new(addr, len)
}

/// A prefix of a network setting.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub prefix: Prefix,
    /// The index of the setting.
    pub owner: usize,
}

/// The result of the sweep.
#[derive(Default)]
pub struct Nesting {
    /// Pairs of settings with the same prefix, the one that is first in the file first.
    pub equal: Vec<(usize, usize)>,
    /// Pairs (inner, outer) of settings where a prefix of one lies inside a prefix of the other.
    pub inside: std::collections::BTreeSet<(usize, usize)>,
    /// For each setting, whether it has a prefix that longer ones do not cover whole, and so decides for someone.
    pub decides: Vec<bool>,
    /// Whether every IPv4 peer is in some network.
    pub all_ipv4: bool,
    /// Whether every IPv6 peer is in some network.
    pub all_ipv6: bool,
}

/// An open prefix of the sweep. `next` is what is to be covered inside it next, `None` when nothing is left.
struct OpenPrefix {
    piece: Piece,
    next: Option<u128>,
    gap: bool,
}

/// Sorts `pieces` and finds how they are nested. `wide[i]` says that setting `i` is a range, the only kind that
/// overlaps in part.
pub fn nesting(pieces: &mut Vec<Piece>, wide: &[bool]) -> Nesting {
    pieces.sort_by_key(|p| (p.prefix.first(), p.prefix.len(), p.owner));
    let mut out = Nesting { decides: vec![false; wide.len()], ..Nesting::default() };
    pieces.dedup_by(|later, first| {
        let same = later.prefix == first.prefix;
        if same && later.owner != first.owner {
            out.equal.push((first.owner, later.owner));
        }
        same
    });
    let is_wide = |owner: usize| wide.get(owner).copied().unwrap_or(false);
    let mut open: Vec<OpenPrefix> = Vec::new();
    for piece in pieces.iter().copied() {
        while open.last().is_some_and(|o| !o.piece.prefix.covers(piece.prefix)) {
            close(&mut open, &mut out);
        }
        for outer in &open {
            let (a, b) = (piece.owner, outer.piece.owner);
            if a != b && (is_wide(a) || is_wide(b)) {
                out.inside.insert((a, b));
            }
        }
        if let Some(parent) = open.last_mut() {
            parent.gap |= parent.next != Some(piece.prefix.first());
            parent.next = piece.prefix.last().checked_add(1);
        }
        open.push(OpenPrefix { piece, next: Some(piece.prefix.first()), gap: false });
    }
    while !open.is_empty() {
        close(&mut open, &mut out);
    }
    let (v4, v6): (Vec<Prefix>, Vec<Prefix>) = pieces.iter().map(|p| p.prefix).partition(|p| is_ipv4(*p));
    out.all_ipv4 = covers(&v4, mapped().first(), mapped().last());
    let above = mapped().last() + 1;
    out.all_ipv6 = covers(&v6, 0, mapped().first() - 1) && covers(&v6, above, u128::MAX);
    out
}

fn close(open: &mut Vec<OpenPrefix>, out: &mut Nesting) {
    if let Some(done) = open.pop() {
        let end = done.piece.prefix.last().checked_add(1);
        if let Some(decides) = out.decides.get_mut(done.piece.owner) {
            *decides |= done.gap || done.next != end;
        }
    }
}

/// Whether `sorted` prefixes together cover `first..=last`.
fn covers(sorted: &[Prefix], first: u128, last: u128) -> bool {
    let mut next = first;
    for prefix in sorted {
        if prefix.first() > next {
            return false;
        }
        if prefix.last() >= last {
            return true;
        }
        next = next.max(prefix.last() + 1);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(text: &str, owner: usize) -> Piece {
        let (addr, len) = text.split_once('/').unwrap();
        Piece { prefix: Prefix::new(addr.parse().unwrap(), len.parse().unwrap()).unwrap(), owner }
    }

    fn nest(list: &[(&str, usize)]) -> Nesting {
        let mut pieces: Vec<Piece> = list.iter().map(|(t, o)| piece(t, *o)).collect();
        nesting(&mut pieces, &[true; 8])
    }

    #[test]
    fn halves_hide_the_whole() {
        let n = nest(&[("10.0.0.0/8", 0), ("10.0.0.0/9", 1), ("10.128.0.0/9", 2)]);
        assert_eq!(n.decides[..3], [false, true, true]);
        assert_eq!(n.inside.into_iter().collect::<Vec<_>>(), [(1, 0), (2, 0)]);
        let gap = nest(&[("10.0.0.0/8", 0), ("10.0.0.0/9", 1), ("10.128.0.0/10", 2)]);
        assert!(gap.decides[0]);
        let middle = nest(&[("10.0.0.0/8", 0), ("10.64.0.0/10", 1), ("10.128.0.0/9", 2)]);
        assert!(middle.decides[0]);
    }

    #[test]
    fn equal_prefixes_are_found_once() {
        let n = nest(&[("10.0.0.0/8", 1), ("10.0.0.0/8", 0)]);
        assert_eq!(n.equal, [(0, 1)]);
    }

    #[test]
    fn families_are_covered_apart() {
        let both = |list: &[(&str, usize)]| {
            let n = nest(list);
            (n.all_ipv4, n.all_ipv6)
        };
        assert_eq!(both(&[("0.0.0.0/0", 0)]), (true, false));
        assert_eq!(both(&[("::/0", 0)]), (false, true));
        assert_eq!(both(&[("::/0", 0), ("0.0.0.0/1", 1), ("128.0.0.0/1", 2)]), (true, true));
        assert_eq!(both(&[("::/1", 0), ("8000::/1", 1)]), (false, true));
        assert_eq!(both(&[("::/1", 0), ("8000::/2", 1)]), (false, false));
        assert_eq!(both(&[]), (false, false));
    }
}
