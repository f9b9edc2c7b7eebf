//! The units that (association, aggregate) pairs are bound to by their order: a fixed table, by keyed hash.

use crate::meta::Meta;
use crate::store::keyed;
use crate::unit::UnitId;

/// The number of slots; a power of two.
const SLOTS: usize = 4096;

/// What of a pair waits for a unit, and what is in flight on it.
#[derive(Clone, Copy, Debug, Default)]
struct Pin {
    unit: u8,
    waiting: u32,
    in_flight: u32,
    /// Packets in flight on a unit that takes no more. Those on the next unit wait for them.
    in_flight_before: u32,
}

/// The bindings of all pairs.
#[derive(Debug)]
pub(super) struct Pins {
    seed: u64,
    pins: Vec<Pin>,
}

impl Pins {
    pub(super) fn new(seed: u64) -> Pins {
        Pins { seed, pins: vec![Pin::default(); SLOTS] }
    }

    pub(super) fn slot(&self, meta: &Meta) -> usize {
        keyed(self.seed, meta.association, u32::from(meta.aggregate.0)) as usize % SLOTS
    }

    /// The unit that the pair is bound to.
    pub(super) fn unit(&self, slot: usize) -> Option<UnitId> {
        let pin = &self.pins[slot];
        (pin.waiting > 0 || pin.in_flight > 0).then_some(UnitId(pin.unit))
    }

    /// Whether older packets are still in flight on another unit, which takes no more.
    pub(super) fn has_older(&self, slot: usize) -> bool {
        self.pins[slot].in_flight_before > 0
    }

    /// A packet waits for the unit.
    pub(super) fn wait(&mut self, slot: usize, unit: UnitId) {
        let pin = &mut self.pins[slot];
        pin.unit = unit.0;
        pin.waiting += 1;
    }

    /// A packet that waited ended, or was given back.
    pub(super) fn leave(&mut self, slot: usize) {
        self.pins[slot].waiting = self.pins[slot].waiting.saturating_sub(1);
    }

    /// A packet that waited is in flight.
    pub(super) fn fly(&mut self, slot: usize) {
        self.leave(slot);
        self.pins[slot].in_flight += 1;
    }

    /// A packet is in flight no more. `is_bound` says whether its unit was still active when it was given.
    pub(super) fn land(&mut self, slot: usize, unit_takes_more: bool) {
        let pin = &mut self.pins[slot];
        let count = if unit_takes_more { &mut pin.in_flight } else { &mut pin.in_flight_before };
        *count = count.saturating_sub(1);
    }

    /// One packet in flight is on a unit that takes no more from now on.
    pub(super) fn part(&mut self, slot: usize) {
        let pin = &mut self.pins[slot];
        pin.in_flight = pin.in_flight.saturating_sub(1);
        pin.in_flight_before += 1;
    }
}
