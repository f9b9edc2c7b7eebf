//! Reservations, admitted against what units and uplinks have left.
//!
//! A reservation enters with its class, rate, burst, flow, holder and time to live. It is admitted if the
//! nanoseconds of its unit and the octets of its uplink that it asks for are free, or refused with the figures. It
//! leaves when it is released, or when it is not refreshed in time: the soft state of RFC 2205. Flows of IPsec are
//! named as RFC 2207 does.
//!
//! [`Reservations`] is what the gateway has promised. [`ReservedFlows`] is what a data thread knows of it: the packets
//! of a flow that keep within its rate get its class.
//!
//! Both tables are bounded. A flow is found by a keyed hash, so that nobody can choose flows that collide.

mod flow;
mod record;
mod reserved;
mod table;

pub use flow::{Flow, FlowHash, Scope};
pub use record::{Capacity, LONGEST, MOST, Refused, Reservation, ReservationId};
pub use reserved::{FlowCounts, FlowTerms, InnerName, OuterName, ReservedFlow, ReservedFlows};

use wire::Time;

use record::sound;
use table::{Expiries, Holders};

/// The reservations of a gateway.
///
/// Getters: [`Reservations::find`], [`Reservations::get`], [`Reservations::units`], [`Reservations::uplinks`].
/// Mutators: [`Reservations::admit`], [`Reservations::refresh`], [`Reservations::release`],
/// [`Reservations::set_capacities`]. Time: [`Reservations::poll_timeout`], [`Reservations::expire`].
#[derive(Clone, Debug)]
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

    /// Admit a reservation, or say what is missing. One for a flow that the same holder has reserved replaces it:
    /// only the difference must be free.
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
        if let (Some(was), Scope::Spi { virtual_port, .. }) = (&was, reservation.flow.scope)
            && let Scope::Spi { virtual_port: theirs, .. } = was.flow.scope
            && theirs != virtual_port
        {
            return Err(Refused::SameSpi { virtual_port: theirs });
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

    /// The time at which a reservation ends if it is not refreshed.
    pub fn ends(&self, id: ReservationId) -> Option<Time> {
        self.held.ends(id)
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

    /// Change the capacities, as an exchange of graphs does. What is held keeps its unit and uplink by their names. What
    /// `keeps` refuses, what has no unit or uplink any more, and what no longer fits ends, and is answered: the youngest
    /// reservations first, until the rest fits.
    pub fn set_capacities(
        &mut self,
        units: Vec<Capacity>,
        uplinks: Vec<Capacity>,
        keeps: impl Fn(&Reservation) -> bool,
    ) -> Vec<(ReservationId, Reservation)> {
        let empty = |capacity: Capacity| Capacity { taken: 0, ..capacity };
        let units_before = std::mem::replace(&mut self.units, units.into_iter().map(empty).collect());
        let uplinks_before = std::mem::replace(&mut self.uplinks, uplinks.into_iter().map(empty).collect());
        let mut ended = Vec::new();
        let mut stay = Vec::new();
        for (id, reservation) in self.held.iter_mut() {
            let unit = moved(reservation.unit, &units_before, &self.units);
            let uplink = moved(reservation.uplink, &uplinks_before, &self.uplinks);
            match (unit, uplink) {
                (Some(unit), Some(uplink)) if keeps(reservation) => {
                    (reservation.unit, reservation.uplink) = (unit, uplink);
                    stay.push((id, reservation.clone()));
                }
                _ => ended.push(id),
            }
        }
        for (id, reservation) in stay {
            let unit = self.units.get(reservation.unit).map_or(0, Capacity::free);
            let uplink = self.uplinks.get(reservation.uplink).map_or(0, Capacity::free);
            if reservation.unit_ns() <= unit && reservation.octets() <= uplink {
                self.take(&reservation);
            } else {
                ended.push(id);
            }
        }
        ended.sort_unstable();
        let remove = |id: ReservationId| {
            let (reservation, ends) = self.held.remove(id)?;
            self.expiries.remove(id, ends);
            Some((id, reservation))
        };
        ended.into_iter().filter_map(remove).collect()
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

/// The place of a capacity in another list, by its name.
fn moved(place: usize, before: &[Capacity], now: &[Capacity]) -> Option<usize> {
    let name = &before.get(place)?.name;
    now.iter().position(|capacity| capacity.name == *name)
}
