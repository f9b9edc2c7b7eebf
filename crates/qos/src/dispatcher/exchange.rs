//! The exchange of what a dispatcher was made of, while packets wait for its units and are in flight on them.

use crate::cost::CostModel;
use crate::meta::{AggregateId, Meta};
use crate::node::Node;
use crate::unit::{Kind, UnitId, UnitSpec};

use super::Dispatcher;
use super::station::{Station, Status};

impl<T: 'static> Dispatcher<T> {
    /// The unit of a name that takes work.
    pub fn find(&self, name: &str) -> Option<UnitId> {
        let is_it = |station: &Station<T>| station.status == Status::Active && station.spec.name == name;
        self.stations.iter().position(is_it).map(|at| UnitId(at as u8))
    }

    /// The name of a unit.
    pub fn name(&self, unit: UnitId) -> Option<&str> {
        self.station(unit).map(|station| station.spec.name.as_str())
    }

    /// The way in which a unit works.
    pub fn kind(&self, unit: UnitId) -> Option<Kind> {
        self.station(unit).map(|station| station.spec.kind)
    }

    /// Whether packets of an aggregate get in between the steps of a unit.
    pub fn is_expedited(&self, unit: UnitId, aggregate: AggregateId) -> bool {
        self.station(unit).is_some_and(|station| station.spec.expedited.has(aggregate))
    }

    /// Whether packets of an aggregate may be given while a sliced unit has work: in between its steps, or to another unit.
    pub fn gets_ahead(&self, unit: UnitId, aggregate: AggregateId) -> bool {
        let serves = |other: UnitId| {
            let reserved = self.station(other).and_then(|station| station.spec.reserved);
            other != unit && reserved.is_none_or(|reserved| reserved.has(aggregate))
        };
        self.is_expedited(unit, aggregate) || self.units().any(serves)
    }

    /// The units that take work.
    pub fn units(&self) -> impl Iterator<Item = UnitId> {
        let active = |(_, station): &(usize, &Station<T>)| station.status == Status::Active;
        self.stations.iter().enumerate().filter(active).map(|(at, _)| UnitId(at as u8))
    }

    /// What is in flight, on all units: packets that were given and not answered.
    pub fn in_flight(&self) -> u64 {
        self.stations.iter().map(|station| station.committed.packets).sum()
    }

    /// What waits at hook 5b of all units.
    pub fn packets(&self) -> u64 {
        self.stations.iter().map(|station| station.queues.amount().packets).sum()
    }

    /// Exchange what a unit is and what hangs at its hook 5b. What is in flight on it stays. The answer is the old
    /// node, whose packets have to move to the new one or be told to [`Dispatcher::withdraw`].
    pub(crate) fn exchange(&mut self, unit: UnitId, spec: UnitSpec, queues: Node<T>) -> Option<Node<T>> {
        let station = self.stations.get_mut(usize::from(unit.0))?;
        station.exchange(spec);
        Some(std::mem::replace(&mut station.queues, queues))
    }

    /// A packet that waited for a unit waits for it no more.
    pub(crate) fn withdraw(&mut self, unit: UnitId, meta: &Meta) {
        let slot = self.pins.slot(meta);
        self.pins.leave(slot);
        if let Some(station) = self.stations.get_mut(usize::from(unit.0)) {
            station.waiting -= meta.amount;
            self.classes.leave(meta);
        }
    }

    /// Take a dispatcher apart that was never used: its units with their nodes, in the order of their numbers.
    pub(crate) fn into_units(self) -> impl Iterator<Item = (UnitSpec, Node<T>)> {
        self.stations.into_iter().map(|station| (station.spec, station.queues))
    }

    /// Take over the pace of a dispatcher that was never used.
    pub(crate) fn take_pace(&mut self, new: &Dispatcher<T>) {
        self.pace = new.pace;
    }

    /// Exchange what packets cost.
    pub(crate) fn set_cost(&mut self, cost: CostModel) {
        self.cost = cost;
    }
}
