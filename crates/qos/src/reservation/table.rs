//! The table of reservations, by number and by flow, and the order in which they end.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use wire::Time;

use super::flow::{Flow, FlowHash};
use super::record::{Reservation, ReservationId};

/// The hash of a key that is a keyed hash already: itself.
#[derive(Debug, Default)]
pub(super) struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Reservations by their number, and the numbers by the keyed hash of their flow.
#[derive(Debug)]
pub(super) struct Holders {
    hash: FlowHash,
    rows: BTreeMap<ReservationId, (Reservation, Time)>,
    flows: HashMap<u64, Vec<ReservationId>, BuildHasherDefault<Hashed>>,
    next: u64,
}

impl Holders {
    pub(super) fn new(key: [u8; 16]) -> Holders {
        Holders { hash: FlowHash::new(key), rows: BTreeMap::new(), flows: HashMap::default(), next: 1 }
    }

    pub(super) fn find(&self, flow: &Flow) -> Option<ReservationId> {
        let ids = self.flows.get(&self.hash.of(flow))?;
        ids.iter().copied().find(|id| self.get(*id).is_some_and(|reservation| reservation.flow == *flow))
    }

    pub(super) fn get(&self, id: ReservationId) -> Option<&Reservation> {
        self.rows.get(&id).map(|(reservation, _)| reservation)
    }

    /// A reservation and its end, to be changed.
    pub(super) fn entry(&mut self, id: ReservationId) -> Option<(&Reservation, &mut Time)> {
        self.rows.get_mut(&id).map(|(reservation, ends)| (&*reservation, ends))
    }

    pub(super) fn put(&mut self, reservation: Reservation, ends: Time) -> ReservationId {
        let id = ReservationId(self.next);
        self.next += 1;
        self.flows.entry(self.hash.of(&reservation.flow)).or_default().push(id);
        self.rows.insert(id, (reservation, ends));
        id
    }

    pub(super) fn remove(&mut self, id: ReservationId) -> Option<(Reservation, Time)> {
        let (reservation, ends) = self.rows.remove(&id)?;
        let hash = self.hash.of(&reservation.flow);
        if let Some(ids) = self.flows.get_mut(&hash) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.flows.remove(&hash);
            }
        }
        Some((reservation, ends))
    }

    pub(super) fn count(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ReservationId, &Reservation, Time)> {
        self.rows.iter().map(|(id, (reservation, ends))| (*id, reservation, *ends))
    }
}

/// Reservations in the order of their end.
#[derive(Debug, Default)]
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
