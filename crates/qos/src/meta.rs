//! What is known of a packet that waits, and what classifiers, queues and schedulers go by.

use std::num::NonZeroU16;

use wire::{AppId, Time};

pub use wire::AggregateId;

use crate::amount::Amount;

/// The colour that a meter gives a packet (RFC 2697, RFC 2698): its drop precedence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Colour {
    /// Within the committed rate.
    #[default]
    Green,
    /// Beyond the committed rate, within the excess.
    Yellow,
    /// Beyond the excess rate too.
    Red,
}

/// The weight of a user beside others: 1, unless a profile of users gives another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Weight(NonZeroU16);

impl Weight {
    /// The weight of a user without a profile.
    pub const ONE: Weight = Weight(NonZeroU16::MIN);

    /// This weight; `None` for zero, with which a user would never be served.
    pub const fn new(weight: u16) -> Option<Weight> {
        match NonZeroU16::new(weight) {
            Some(weight) => Some(Weight(weight)),
            None => None,
        }
    }

    /// The weight as a number, 1 or more.
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

impl Default for Weight {
    fn default() -> Weight {
        Weight::ONE
    }
}

/// The direction of a packet as the gateway sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// Towards the network that protection is for.
    #[default]
    Outbound,
    /// From the network that protection is for.
    Inbound,
}

/// What stands at the front of a packet on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HeaderKind {
    /// ESP directly over IP.
    Esp,
    /// ESP in UDP (RFC 3948).
    EspInUdp,
    /// AH of RFC 4302.
    Ah,
    /// IPComp of RFC 3173.
    IpComp,
    /// IKE, behind the non-ESP marker or on its own port.
    Ike,
    /// The keepalive of a translated path (RFC 3948 section 2.3).
    Keepalive,
    /// An ICMP error message.
    IcmpError,
    /// A packet in clear.
    #[default]
    Clear,
}

/// Crypto units by their number in the graph, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct UnitMask(pub u16);

impl UnitMask {
    /// Whether the unit is among them.
    pub const fn has(self, unit: u8) -> bool {
        unit < 16 && self.0 & (1 << unit) != 0
    }

    /// Whether no unit is among them.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// What is known of a packet that waits. It never holds octets of the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The time at which the packet came.
    pub arrived: Time,
    /// Packets, octets and nanoseconds that it counts as: a super-packet as its pieces.
    pub amount: Amount,
    /// The number of the security association; 0 if there is none.
    pub association: u32,
    /// The SPI; 0 if there is none.
    pub spi: u32,
    /// The mark of the packet in the kernel.
    pub mark: u32,
    /// A keyed hash of the user that it is charged to.
    pub user: u32,
    /// A keyed hash of its flow.
    pub flow: u32,
    /// A keyed hash of the far end's address, where users are told apart by it; 0: not known.
    pub peer_hash: u32,
    /// The number of the key.
    pub key: u16,
    /// The application; [`AppId::NONE`] if none is known.
    pub app: AppId,
    /// The number of the suite in the graph's list of suites.
    pub suite: u16,
    /// The number of the far end's address among the prefixes that the graph names; 0: in none, or not known.
    pub peer: u16,
    /// The number of the inner source address among the prefixes that the graph names; 0: in none, or not known.
    pub source: u16,
    /// The number of the inner destination address among those that the graph names; 0: in none, or not known.
    pub destination: u16,
    /// The source port and the destination port of the inner packet; 0: it has none, or they are not known.
    pub ports: [u16; 2],
    /// The weight of its user, by which flow queues share out.
    pub weight: Weight,
    /// The units that can serve it.
    pub units: UnitMask,
    /// The aggregate that it belongs to.
    pub aggregate: AggregateId,
    /// Its drop precedence, as a colour.
    pub colour: Colour,
    /// The DSCP of the outer and of the inner header, six bits each.
    pub dscp: [u8; 2],
    /// A component has noted the DSCP that the header of the packet is to leave with: the first of the two.
    pub is_marked: bool,
    /// The ECN field of the inner header, two bits.
    pub ecn: u8,
    /// What stands at its front.
    pub header: HeaderKind,
    /// The direction that it has.
    pub direction: Direction,
    /// Associations of its bundle that are done.
    pub index: u8,
    /// The protocol of the inner packet; 0: not known.
    pub protocol: u8,
}

impl Meta {
    /// The type of service of a header with what components noted: another DSCP, and that the packet met congestion where
    /// it can be told so (RFC 3168).
    pub const fn marked_tos(&self, before: u8) -> u8 {
        let dscp = if self.is_marked { self.dscp[0] } else { before >> 2 };
        let is_congested = self.ecn & 3 == 3 && before & 3 != 0;
        dscp << 2 | if is_congested { 3 } else { before & 3 }
    }

    /// Whether congestion can be told by marking instead of dropping (RFC 3168).
    pub const fn is_ecn_capable(&self) -> bool {
        self.ecn & 3 != 0
    }
}
