//! A reservation as it is asked for, the capacities that it draws on, and the reasons why it is refused.

use std::time::Duration;

use super::flow::{Flow, Scope};
use crate::AggregateId;

/// The most reservations that are held at once, where nothing else is said.
pub const MOST: usize = 16_384;
/// The longest time that a reservation lives without a refresh.
pub const LONGEST: Duration = Duration::from_secs(3_600);

/// The number of a reservation. It is never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReservationId(pub u64);

/// A reservation, as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The class whose service the flow gets.
    pub class: AggregateId,
    /// Bits a second, of packets as they wait: the inner packet outbound, the datagram inbound.
    pub rate: u64,
    /// Octets that may come at once: at least those of one packet.
    pub burst: u64,
    /// The packets that it is for.
    pub flow: Flow,
    /// The name of who holds it.
    pub holder: String,
    /// The time that it lives without a refresh.
    pub lifetime: Duration,
    /// Octets that each of its packets counts as at least: the minimum policed unit of RFC 2215 section 3.
    pub least: u64,
    /// Octets that the headers in front of a packet and its link add on the uplink, at most.
    pub overhead: u64,
    /// The cost of an octet in a packet of `least` octets, in picoseconds of the unit.
    pub ps_per_octet: u64,
    /// The place of the unit in the list of capacities.
    pub unit: usize,
    /// The place of the uplink in the list of capacities.
    pub uplink: usize,
}

impl Reservation {
    /// Nanoseconds of the unit in each second.
    pub fn unit_ns(&self) -> u64 {
        let ps = u128::from(self.rate.div_ceil(8)) * u128::from(self.ps_per_octet);
        u64::try_from(ps.div_ceil(1000)).unwrap_or(u64::MAX)
    }

    /// Octets of the uplink in each second: those of the packets, and of the headers in front of as many as there can
    /// be.
    pub fn octets(&self) -> u64 {
        let octets = self.rate.div_ceil(8);
        octets.saturating_add(octets.div_ceil(self.least.max(1)).saturating_mul(self.overhead))
    }
}

/// A capacity that reservations draw on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The name of the unit or uplink.
    pub name: String,
    /// Nanoseconds (of a unit) or octets (of an uplink) in each second that reservations may take.
    pub whole: u64,
    /// The part of it that reservations have.
    pub taken: u64,
}

impl Capacity {
    /// A capacity of which nothing is taken.
    pub fn new(name: &str, whole: u64) -> Capacity {
        Capacity { name: name.to_owned(), whole, taken: 0 }
    }

    /// What is left in each second.
    pub fn free(&self) -> u64 {
        self.whole.saturating_sub(self.taken)
    }
}

/// The reason why a reservation is refused, with the figures.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The unit has too few nanoseconds a second left.
    Unit {
        /// The name of the unit.
        name: String,
        /// Nanoseconds in each second that were asked for.
        asked: u64,
        /// Nanoseconds in each second that are free.
        free: u64,
    },
    /// The uplink has too few octets a second left.
    Uplink {
        /// The name of the uplink.
        name: String,
        /// Octets in each second that were asked for.
        asked: u64,
        /// Octets in each second that are free.
        free: u64,
    },
    /// The table is full.
    TooMany {
        /// The most reservations at once.
        most: usize,
    },
    /// The flow is reserved by another holder.
    Taken {
        /// The name of the holder.
        holder: String,
    },
    /// Another session of RFC 2207 has the packets: the virtual destination port, which is not in them, differs alone.
    SameSpi {
        /// The virtual destination port of the session that has them.
        virtual_port: u16,
    },
    /// No such unit or uplink is there.
    NoCapacity,
    /// A rate of zero, a burst below one packet, a lifetime of zero or beyond [`LONGEST`], or a holder without a name.
    Malformed {
        /// The field that is at fault.
        field: &'static str,
    },
    /// The virtual destination port of an IPsec flow is zero (RFC 2207 section 4.1).
    NoVirtualPort,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refused::Unit { name, asked, free } => {
                write!(f, "the unit `{name}` has {free} ns a second left, and {asked} were asked for")
            }
            Refused::Uplink { name, asked, free } => {
                write!(f, "the uplink `{name}` has {free} octets a second left, and {asked} were asked for")
            }
            Refused::TooMany { most } => {
                write!(f, "{most} reservations are held already, the most there can be")
            }
            Refused::Taken { holder } => write!(f, "the flow is reserved by {holder}"),
            Refused::SameSpi { virtual_port } => {
                write!(
                    f,
                    "the packets of this SPI are reserved with the virtual port {virtual_port}, which they do not show"
                )
            }
            Refused::NoCapacity => write!(f, "there is no such unit or uplink"),
            Refused::Malformed { field } => write!(f, "`{field}` is out of its range"),
            Refused::NoVirtualPort => {
                write!(
                    f,
                    "a flow of IPsec needs a virtual destination port that is not zero (RFC 2207 section 4.1)"
                )
            }
        }
    }
}

impl std::error::Error for Refused {}

/// What a reservation must have, whatever is free.
pub(super) fn sound(reservation: &Reservation) -> Result<(), Refused> {
    let fields = [
        ("rate", reservation.rate > 0),
        ("least", reservation.least > 0),
        ("burst", reservation.burst > 0 && reservation.burst >= reservation.least),
        ("lifetime", !reservation.lifetime.is_zero() && reservation.lifetime <= LONGEST),
        ("holder", (1..=64).contains(&reservation.holder.len())),
    ];
    if let Some((field, _)) = fields.iter().find(|(_, sound)| !sound) {
        return Err(Refused::Malformed { field });
    }
    match reservation.flow.scope {
        Scope::Spi { virtual_port: 0, .. } => Err(Refused::NoVirtualPort),
        _ => Ok(()),
    }
}
