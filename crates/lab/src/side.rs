//! The two hosts of a lab, their names and addresses.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The two hosts of the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The first host, number 1 in addresses.
    Alice,
    /// The second host, number 2 in addresses.
    Bob,
}

impl Side {
    /// Both hosts, the first one first.
    pub const BOTH: [Side; 2] = [Side::Alice, Side::Bob];

    /// The name of the host in namespaces, cgroups and ports of the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Side::Alice => "alice",
            Side::Bob => "bob",
        }
    }

    pub(crate) const fn number(self) -> u8 {
        match self {
            Side::Alice => 1,
            Side::Bob => 2,
        }
    }

    /// The IPv4 address of the host, in a /24.
    pub const fn v4(self) -> Ipv4Addr {
        Ipv4Addr::new(198, 51, 100, self.number())
    }

    /// The IPv6 address of the host, in a /64.
    pub const fn v6(self) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0x51, 0, 0, 0, 0, self.number() as u16)
    }
}
