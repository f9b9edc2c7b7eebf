//! Reservations, admitted against what units and uplinks have left.
//!
//! A reservation enters with its class, rate, burst, flow, holder and time to live. It is admitted if the nanoseconds of
//! its unit and the octets of its uplink that it asks for are free, or refused with the figures. It leaves when it is
//! released, or when it is not refreshed in time: the soft state of RFC 2205. Flows of IPsec are named as RFC 2207 does.
//!
//! The table is bounded. A flow is found by a keyed hash, so that nobody can choose flows that collide.

mod flow;
mod table;

pub use flow::{Flow, FlowHash, Scope};

use std::time::Duration;

use wire::Time;

use crate::AggregateId;
use table::{Expiries, Holders};

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
    /// Bits a second of outer octets.
    pub rate: u64,
    /// Octets that may come at once.
    pub burst: u64,
    /// The packets that it is for.
    pub flow: Flow,
    /// The name of who holds it.
    pub holder: String,
    /// The time that it lives without a refresh.
    pub lifetime: Duration,
    /// The cost of an octet of its suite, in picoseconds of the unit.
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

    /// Octets of the uplink in each second.
    pub fn octets(&self) -> u64 {
        self.rate.div_ceil(8)
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
        /// The holder.
        holder: String,
    },
    /// No such unit or uplink is there.
    NoCapacity,
    /// A rate or burst of zero, a lifetime of zero or beyond [`LONGEST`], or an empty holder.
    Malformed {
        /// The field that is at fault.
        field: &'static str,
    },
    /// The virtual destination port of an IPsec flow is zero (RFC 2207 section 4).
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
            Refused::NoCapacity => write!(f, "there is no such unit or uplink"),
            Refused::Malformed { field } => write!(f, "`{field}` is out of its range"),
            Refused::NoVirtualPort => {
                write!(
                    f,
                    "a flow of IPsec needs a virtual destination port that is not zero (RFC 2207 section 4)"
                )
            }
        }
    }
}

impl std::error::Error for Refused {}

/// The reservations of a gateway.
///
/// Getters: [`Reservations::find`], [`Reservations::get`], [`Reservations::units`], [`Reservations::uplinks`]. Mutators:
/// [`Reservations::admit`], [`Reservations::refresh`], [`Reservations::release`], [`Reservations::set_capacities`]. Time:
/// [`Reservations::poll_timeout`], [`Reservations::expire`].
#[derive(Debug)]
pub struct Reservations {
    held: Holders,
    expiries: Expiries,
    units: Vec<Capacity>,
    uplinks: Vec<Capacity>,
    most: usize,
}

impl Reservations {
    /// No reservations, over these capacities, with a key for the hashes of flows.
    pub fn new(units: Vec<Capacity>, uplinks: Vec<Capacity>, key: [u8; 16], most: usize) -> Reservations {
        Reservations { held: Holders::new(key), expiries: Expiries::default(), units, uplinks, most }
    }

    /// Admit a reservation, or say what is missing. One for a flow that the same holder has reserved replaces it: only
    /// the difference must be free.
    ///
    /// # Errors
    ///
    /// The figures that refuse it. Then everything stands as before.
    pub fn admit(&mut self, reservation: Reservation, now: Time) -> Result<ReservationId, Refused> {
        sound(&reservation)?;
        let old = self.held.find(&reservation.flow);
        let was = old.and_then(|id| self.held.get(id)).cloned();
        if let Some(was) = was.as_ref().filter(|was| was.holder != reservation.holder) {
            return Err(Refused::Taken { holder: was.holder.clone() });
        }
        if was.is_none() && self.held.count() >= self.most {
            return Err(Refused::TooMany { most: self.most });
        }
        let unit = self.units.get(reservation.unit).ok_or(Refused::NoCapacity)?;
        let uplink = self.uplinks.get(reservation.uplink).ok_or(Refused::NoCapacity)?;
        // What the old one holds of the same unit and uplink is free for the new one.
        let back = |same: bool, amount: u64| if same { amount } else { 0 };
        let old_ns = was.as_ref().map_or(0, |was| back(was.unit == reservation.unit, was.unit_ns()));
        let old_octets = was.as_ref().map_or(0, |was| back(was.uplink == reservation.uplink, was.octets()));
        let (asked, free) = (reservation.unit_ns(), unit.free().saturating_add(old_ns));
        if asked > free {
            return Err(Refused::Unit { name: unit.name.clone(), asked, free });
        }
        let (asked, free) = (reservation.octets(), uplink.free().saturating_add(old_octets));
        if asked > free {
            return Err(Refused::Uplink { name: uplink.name.clone(), asked, free });
        }
        if let Some(id) = old {
            self.release(id);
        }
        self.take(&reservation);
        let ends = now + reservation.lifetime;
        let id = self.held.put(reservation, ends);
        self.expiries.put(id, ends);
        Ok(id)
    }

    /// Let a reservation live for its lifetime from now on; whether it was there.
    pub fn refresh(&mut self, id: ReservationId, now: Time) -> bool {
        let Some((reservation, ends)) = self.held.entry(id) else { return false };
        self.expiries.remove(id, *ends);
        *ends = now + reservation.lifetime;
        self.expiries.put(id, *ends);
        true
    }

    /// End a reservation; what it was, if it was there.
    pub fn release(&mut self, id: ReservationId) -> Option<Reservation> {
        let (reservation, ends) = self.held.remove(id)?;
        self.expiries.remove(id, ends);
        self.give_back(&reservation);
        Some(reservation)
    }

    /// End what was not refreshed in time, the first to end first.
    pub fn expire(&mut self, now: Time) -> Vec<(ReservationId, Reservation)> {
        let mut ended = Vec::new();
        while let Some(id) = self.expiries.due(now) {
            ended.extend(self.release(id).map(|reservation| (id, reservation)));
        }
        ended
    }

    /// The time at which [`Reservations::expire`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.expiries.first()
    }

    /// The reservation of a flow.
    pub fn find(&self, flow: &Flow) -> Option<(ReservationId, &Reservation)> {
        let id = self.held.find(flow)?;
        Some((id, self.held.get(id)?))
    }

    /// The reservation of a number.
    pub fn get(&self, id: ReservationId) -> Option<&Reservation> {
        self.held.get(id)
    }

    /// The count of reservations.
    pub fn count(&self) -> usize {
        self.held.count()
    }

    /// Every reservation with its end, by its number.
    pub fn iter(&self) -> impl Iterator<Item = (ReservationId, &Reservation, Time)> {
        self.held.iter()
    }

    /// The units, with what is left of each.
    pub fn units(&self) -> &[Capacity] {
        &self.units
    }

    /// The uplinks, with what is left of each.
    pub fn uplinks(&self) -> &[Capacity] {
        &self.uplinks
    }

    /// Change the capacities, as an exchange of graphs does. What is held stays, and what no longer fits is answered:
    /// the youngest reservations first, until the rest fits.
    pub fn set_capacities(
        &mut self,
        units: Vec<Capacity>,
        uplinks: Vec<Capacity>,
    ) -> Vec<(ReservationId, Reservation)> {
        let taken = |capacity: Capacity| Capacity { taken: 0, ..capacity };
        self.units = units.into_iter().map(taken).collect();
        self.uplinks = uplinks.into_iter().map(taken).collect();
        let mut ids: Vec<ReservationId> = self.held.iter().map(|(id, _, _)| id).collect();
        ids.sort_unstable();
        let mut refused = Vec::new();
        for id in ids {
            let Some(reservation) = self.held.get(id).cloned() else { continue };
            let unit = self.units.get(reservation.unit).map_or(0, Capacity::free);
            let uplink = self.uplinks.get(reservation.uplink).map_or(0, Capacity::free);
            if reservation.unit_ns() <= unit && reservation.octets() <= uplink {
                self.take(&reservation);
            } else if let Some((reservation, ends)) = self.held.remove(id) {
                self.expiries.remove(id, ends);
                refused.push((id, reservation));
            }
        }
        refused
    }

    fn take(&mut self, reservation: &Reservation) {
        if let Some(unit) = self.units.get_mut(reservation.unit) {
            unit.taken = unit.taken.saturating_add(reservation.unit_ns());
        }
        if let Some(uplink) = self.uplinks.get_mut(reservation.uplink) {
            uplink.taken = uplink.taken.saturating_add(reservation.octets());
        }
    }

    fn give_back(&mut self, reservation: &Reservation) {
        if let Some(unit) = self.units.get_mut(reservation.unit) {
            unit.taken = unit.taken.saturating_sub(reservation.unit_ns());
        }
        if let Some(uplink) = self.uplinks.get_mut(reservation.uplink) {
            uplink.taken = uplink.taken.saturating_sub(reservation.octets());
        }
    }
}

/// What a reservation must have, whatever is free.
fn sound(reservation: &Reservation) -> Result<(), Refused> {
    let fields = [
        ("rate", reservation.rate > 0),
        ("burst", reservation.burst > 0),
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
