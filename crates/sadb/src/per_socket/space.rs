//! A set of numbers (addresses or ports of peers) from which ranges are removed one after the other.

use std::net::IpAddr;

use wire::Prefix;

/// The numbers that nothing has taken yet, as ordered ranges with both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Space(Vec<(u128, u128)>);

impl Space {
    /// The ports that a peer can have.
    pub fn ports(has_ports: bool) -> Space {
        Space(vec![(0, if has_ports { u128::from(u16::MAX) } else { 0 })])
    }

    /// The addresses of the peers that a socket with this local address can have.
    pub fn peers(local: IpAddr) -> Space {
        let v4 = Prefix::from_bits(0xffff << 32, 96);
        match local {
            IpAddr::V4(_) => Space(vec![(v4.first(), v4.last())]),
            // A socket of both families.
            IpAddr::V6(any) if any.is_unspecified() => Space(vec![(0, u128::MAX)]),
            IpAddr::V6(_) => Space(vec![(0, v4.first() - 1), (v4.last() + 1, u128::MAX)]),
        }
    }

    /// Whether one of the numbers from `first` to `last` is left.
    pub fn has_any(&self, first: u128, last: u128) -> bool {
        self.0.iter().any(|(a, b)| first <= *b && *a <= last)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Take the numbers from `first` to `last` out.
    pub fn take(&mut self, first: u128, last: u128) {
        let mut left = Vec::with_capacity(self.0.len() + 1);
        for &(a, b) in &self.0 {
            if last < a || b < first {
                left.push((a, b));
                continue;
            }
            if a < first {
                left.push((a, first - 1));
            }
            if last < b {
                left.push((last + 1, b));
            }
        }
        self.0 = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_gone_and_nothing_else() {
        let mut space = Space::ports(true);
        for (first, last) in [(10, 20), (15, 30), (0, 0), (65535, 65535), (12, 13)] {
            assert!(first == 12 || space.has_any(first, last));
            space.take(first, last);
            assert!(!space.has_any(first, last));
        }
        assert_eq!(space, Space(vec![(1, 9), (31, 65534)]));
        space.take(0, 70000);
        assert!(space.is_empty());
    }

    #[test]
    fn the_whole_space_of_addresses_can_be_taken() {
        let mut space = Space::peers("::".parse().unwrap());
        space.take(0, u128::MAX);
        assert!(space.is_empty());
        let mut v6 = Space::peers("2001:db8::1".parse().unwrap());
        assert!(!v6.has_any(0xffff << 32, 0xffff_ffff_ffff));
        v6.take(0, u128::MAX);
        assert!(v6.is_empty());
    }
}
