//! The table of reservations, by number and by flow, and the order in which they end.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use wire::Time;

use super::flow::{Flow, FlowHash};
use super::record::{Reservation, ReservationId};

/// Reservations by their number, and the numbers by what packets show of their flow.
#[derive(Clone, Debug)]
pub(super) struct Holders {
    rows: BTreeMap<ReservationId, (Reservation, Time)>,
    flows: HashMap<Flow, ReservationId, FlowHash>,
    next: u64,
}

impl Holders {
    pub(super) fn new(key: [u8; 16]) -> Holders {
        let flows = HashMap::with_hasher(FlowHash::new(key));
        Holders { rows: BTreeMap::new(), flows, next: 1 }
    }

    pub(super) fn find(&self, flow: &Flow) -> Option<ReservationId> {
        self.flows.get(&flow.as_packets_show()).copied()
    }

    pub(super) fn get(&self, id: ReservationId) -> Option<&Reservation> {
        self.rows.get(&id).map(|(reservation, _)| reservation)
    }

    pub(super) fn ends(&self, id: ReservationId) -> Option<Time> {
        self.rows.get(&id).map(|(_, ends)| *ends)
    }

    /// A reservation and its end, to be changed.
    pub(super) fn entry(&mut self, id: ReservationId) -> Option<(&Reservation, &mut Time)> {
        self.rows.get_mut(&id).map(|(reservation, ends)| (&*reservation, ends))
    }

    pub(super) fn put(&mut self, reservation: Reservation, ends: Time) -> ReservationId {
        let id = ReservationId(self.next);
        self.next += 1;
        self.flows.insert(reservation.flow.as_packets_show(), id);
        self.rows.insert(id, (reservation, ends));
        id
    }

    pub(super) fn remove(&mut self, id: ReservationId) -> Option<(Reservation, Time)> {
        let (reservation, ends) = self.rows.remove(&id)?;
        self.flows.remove(&reservation.flow.as_packets_show());
        Some((reservation, ends))
    }

    /// Every reservation, to be changed without its flow.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (ReservationId, &mut Reservation)> {
        self.rows.iter_mut().map(|(id, (reservation, _))| (*id, reservation))
    }

    pub(super) fn count(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ReservationId, &Reservation, Time)> {
        self.rows.iter().map(|(id, (reservation, ends))| (*id, reservation, *ends))
    }
}

/// Reservations in the order of their end.
#[derive(Clone, Debug, Default)]
pub(super) struct Expiries {
    order: BTreeSet<(Time, ReservationId)>,
}

impl Expiries {
    pub(super) fn put(&mut self, id: ReservationId, ends: Time) {
        self.order.insert((ends, id));
    }

    pub(super) fn remove(&mut self, id: ReservationId, ends: Time) {
        self.order.remove(&(ends, id));
    }

    pub(super) fn first(&self) -> Option<Time> {
        self.order.first().map(|(ends, _)| *ends)
    }

    /// The first one that has ended by now.
    pub(super) fn due(&self, now: Time) -> Option<ReservationId> {
        self.order.first().filter(|(ends, _)| *ends <= now).map(|(_, id)| *id)
    }
}
