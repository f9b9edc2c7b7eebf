//! Addresses as policy sees them: IPv4 and IPv6 in one 128-bit space, IPv4 as ::ffff:a.b.c.d.

use crate::protocol;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address as a number in the common space (IPv4-mapped for IPv4, RFC 4291 section 2.5.5.2).
#[inline]
pub fn to_bits(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(v4) => u128::from(v4.to_ipv6_mapped()),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

/// The address behind a number of the common space; mapped ones come back as IPv4.
pub fn from_bits(bits: u128) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(bits)).to_canonical()
}

/// A prefix in the common space: an IPv4 /24 has `len` 120.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    bits: u128,
    len: u8,
}

impl Prefix {
    /// The prefix that holds every address of both families.
    pub const ANY: Prefix = Prefix { bits: 0, len: 0 };

    /// The prefix of `len` bits (in the family of `addr`: at most 32 or 128) around `addr`; host bits are
    /// cleared. `None` if `len` is too long.
    pub fn new(addr: IpAddr, len: u8) -> Option<Prefix> {
        let (max, extra) = match addr {
            IpAddr::V4(_) => (32, 96),
            IpAddr::V6(_) => (128, 0),
        };
        (len <= max).then(|| Prefix::from_bits(to_bits(addr), len + extra))
    }

    /// The prefix that holds one address.
    pub fn host(addr: IpAddr) -> Prefix {
        Prefix { bits: to_bits(addr), len: 128 }
    }

    /// A prefix of `len` (at most 128, clamped) bits of the common space; host bits are cleared.
    pub fn from_bits(bits: u128, len: u8) -> Prefix {
        let len = len.min(128);
        Prefix { bits: bits & mask(len), len }
    }

    /// The fewest prefixes that cover `first..=last`, in order; empty if `first > last`.
    pub fn cover(first: u128, last: u128) -> Vec<Prefix> {
        let mut out = Vec::new();
        let mut at = first;
        while at <= last {
            let mut size = at.trailing_zeros().min(128);
            // Shrink until the block ends inside the range.
            while size > 0 && (size == 128 || at | !mask((128 - size) as u8) > last) {
                if size == 128 && at == 0 && last == u128::MAX {
                    break;
                }
                size -= 1;
            }
            let len = (128 - size) as u8;
            out.push(Prefix { bits: at, len });
            match (at | !mask(len)).checked_add(1) {
                Some(next) => at = next,
                None => break,
            }
        }
        out
    }

    /// The length in bits of the common space, 0 to 128.
    pub fn len(self) -> u8 {
        self.len
    }

    /// Whether the prefix covers every address.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The first address, as a number of the common space.
    pub fn first(self) -> u128 {
        self.bits
    }

    /// The last address, as a number of the common space.
    pub fn last(self) -> u128 {
        self.bits | !mask(self.len)
    }

    /// Whether the address `bits` is inside.
    pub fn contains_bits(self, bits: u128) -> bool {
        bits & mask(self.len) == self.bits
    }

    /// Whether the address `addr` is inside.
    pub fn contains(self, addr: IpAddr) -> bool {
        self.contains_bits(to_bits(addr))
    }

    /// Whether every address of `other` is inside.
    pub fn covers(self, other: Prefix) -> bool {
        self.len <= other.len && self.contains_bits(other.bits)
    }
}

fn mask(len: u8) -> u128 {
    match len {
        0 => 0,
        n => u128::MAX << (128 - u32::from(n)),
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.len >= 96 && Ipv6Addr::from(self.bits).to_ipv4_mapped().is_some() {
            let v4 = Ipv4Addr::from(self.bits as u32);
            return if self.len == 128 { write!(f, "{v4}") } else { write!(f, "{v4}/{}", self.len - 96) };
        }
        let v6 = Ipv6Addr::from(self.bits);
        if self.len == 128 { write!(f, "{v6}") } else { write!(f, "{v6}/{}", self.len) }
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A flow as the host sees it: which end is ours decides `local` and `remote`. Ports are zero where the protocol has
/// none. For ICMP, `local_port` holds `type << 8 | code` and `remote_port` is zero; for the Mobility Header,
/// `local_port` holds `type << 8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The address of this host.
    pub local: IpAddr,
    /// The address of the peer.
    pub remote: IpAddr,
    /// The port of this host, or the type.
    pub local_port: u16,
    /// The port of the peer.
    pub remote_port: u16,
    /// The IP protocol number of the transport (6 TCP, 17 UDP).
    pub protocol: u8,
    /// Whether the protocol has ports or a type that cannot be read in this packet, because it is cut short or is a
    /// fragment behind the first one. The ports are zero then, which is no port (OPAQUE in RFC 4301 section 4.4.1.1).
    pub opaque: bool,
}

impl Flow {
    /// The flow as the other end sees it. A type in the local port stays there, since it is the packet's own, whoever
    /// looks at it.
    #[must_use]
    pub fn reversed(self) -> Flow {
        let (local_port, remote_port) = if protocol::has_type(self.protocol) {
            (self.local_port, self.remote_port)
        } else {
            (self.remote_port, self.local_port)
        };
        Flow { local: self.remote, remote: self.local, local_port, remote_port, ..self }
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |f: &mut fmt::Formatter<'_>, addr: IpAddr, port: u16| match addr {
            IpAddr::V4(v4) => write!(f, "{v4}:{port}"),
            IpAddr::V6(v6) => write!(f, "[{v6}]:{port}"),
        };
        at(f, self.local, self.local_port)?;
        f.write_str(" -> ")?;
        at(f, self.remote, self.remote_port)?;
        match self.protocol {
            6 => f.write_str("/tcp"),
            17 => f.write_str("/udp"),
            1 => f.write_str("/icmp"),
            58 => f.write_str("/icmpv6"),
            n => write!(f, "/{n}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cover_is_exact_and_minimal_for_known_ranges() {
        let v4 = |s: &str| to_bits(IpAddr::V4(s.parse().unwrap()));
        let texts = |a: &str, b: &str| {
            Prefix::cover(v4(a), v4(b)).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(texts("192.0.2.0", "192.0.2.255"), ["192.0.2.0/24"]);
        assert_eq!(texts("192.0.2.5", "192.0.2.5"), ["192.0.2.5"]);
        assert_eq!(
            texts("192.0.2.1", "192.0.2.6"),
            ["192.0.2.1", "192.0.2.2/31", "192.0.2.4/31", "192.0.2.6"]
        );
        assert_eq!(texts("192.0.2.6", "192.0.2.1"), Vec::<String>::new());
        assert_eq!(Prefix::cover(0, u128::MAX), [Prefix::ANY]);
        assert_eq!(Prefix::cover(u128::MAX, u128::MAX).len(), 1);
    }
}
