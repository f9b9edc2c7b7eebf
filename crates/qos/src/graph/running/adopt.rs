//! The exchange of graphs while packets wait and are in flight.
//!
//! Queues keep their packets by name, units what is in flight on them, counters and limits go on. Meters, policers and
//! the state of active queue management begin anew, as their settings may be others. Packets that wait get the numbers
//! that the new graph gives their addresses.

use super::super::description::HookPoint;
use super::super::intervals::Addresses;
use super::{FRONTS, Graph, Leaf, UnitQueues};
use crate::meta::Meta;
use crate::node::Node;
use crate::unit::UnitId;

/// A packet whose queue is in the graph no more. It is to be offered at this point again, before any newer packet is,
/// and gets another class by the rules if its own is gone as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Back<T> {
    /// The point where it is to be offered.
    pub at: HookPoint,
    /// The ticket of the packet.
    pub item: T,
    /// What is known of it.
    pub meta: Meta,
}

/// What an exchange has left over of the old graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retired {
    /// Units that take no more work, with the jobs that they have still to answer.
    pub leaving: Vec<(UnitId, usize)>,
    /// Units for which there was no number, as too many that leave have work in flight.
    pub unattached: Vec<String>,
}

/// What is another thing in the new graph than it was in the old one.
struct Change<'g> {
    /// The classes of the new graph, one bit each.
    classes: u64,
    before: &'g Addresses,
    now: &'g Addresses,
}

impl Change<'_> {
    /// Give a packet the numbers of the new graph.
    fn renumber(&self, meta: &mut Meta) {
        self.now.renumber(self.before, meta);
    }
}

impl<T: 'static> Graph<T> {
    /// Take the place of a graph of the same instance and direction. This one was compiled and has no packets yet.
    pub fn adopt(&mut self, old: Graph<T>, back: &mut Vec<Back<T>>) -> Retired {
        let Graph { slots, before_units, mut dispatcher, queues, suites, counts, addresses, .. } = old;
        self.counts = counts;
        self.has_adopted = true;
        self.before_units.inherit(&before_units);
        let change = Change { classes: self.classes, before: &addresses, now: &self.addresses.clone() };
        let mut retired = Retired::default();
        let mut left = Vec::new();
        self.adopt_units(&mut dispatcher, queues, (suites, &change), &mut retired, &mut left);
        in_order(&mut left);
        for (item, mut meta) in left.drain(..) {
            change.renumber(&mut meta);
            self.before_units.leave(&meta);
            self.counts.back(HookPoint::In5a, &meta);
            back.push(Back { at: HookPoint::In5a, item, meta });
        }
        for ((at, new), old) in FRONTS.into_iter().zip(&mut self.slots).zip(slots) {
            new.before.inherit(&old.before);
            move_over((old.node, &old.leaves), (&mut new.node, &new.leaves), &change, &mut left);
            in_order(&mut left);
            for (item, mut meta) in left.drain(..) {
                change.renumber(&mut meta);
                // It is counted again when it is offered again.
                new.before.leave(&meta);
                self.counts.back(at, &meta);
                back.push(Back { at, item, meta });
            }
        }
        retired
    }

    fn adopt_units(
        &mut self,
        dispatcher: &mut crate::dispatcher::Dispatcher<T>,
        old_queues: Vec<UnitQueues>,
        (old_suites, change): (Vec<String>, &Change<'_>),
        retired: &mut Retired,
        left: &mut Vec<(T, Meta)>,
    ) {
        let empty = crate::dispatcher::Dispatcher::new(
            self.dispatcher.cost().clone(),
            crate::dispatcher::Pace::Pull,
            0,
        );
        let new = std::mem::replace(&mut self.dispatcher, empty);
        dispatcher.take_pace(&new);
        // A unit that stays costs what was learned of it, and one that comes what start-up has measured.
        let (learned, measured) = (dispatcher.cost().clone(), new.cost().clone());
        let is_known = self.suites == old_suites;
        let first = if is_known { &learned } else { &measured };
        let mut cost = first.clone();
        // A unit that answers later now, or does so no more, is another one: what it has goes first.
        let about = |of: &crate::dispatcher::Dispatcher<T>, unit: UnitId| {
            let is_later = of.kind(unit).is_some_and(crate::unit::Kind::answers_later);
            of.name(unit).map(|name| (name.to_owned(), is_later))
        };
        let wanted: Vec<_> = new.units().filter_map(|unit| about(&new, unit)).collect();
        let gone = dispatcher
            .units()
            .filter(|unit| !about(dispatcher, *unit).is_some_and(|of| wanted.contains(&of)));
        for unit in gone.collect::<Vec<UnitId>>() {
            if let Some(detached) = dispatcher.detach(unit, left)
                && detached.in_flight > 0
            {
                retired.leaving.push((unit, detached.in_flight));
            }
        }
        let mut queues = Vec::new();
        let units = new.into_units().zip(std::mem::take(&mut self.queues));
        for (number, ((spec, node), mut hung)) in (0..).zip(units) {
            let (name, kind) = (spec.name.clone(), spec.kind);
            let known = dispatcher.find(&name);
            let stays = is_known && known.is_some_and(|unit| dispatcher.kind(unit) == Some(kind));
            let unit = match known {
                Some(unit) => {
                    let before = left.len();
                    let leaves = old_queues.iter().find(|old| old.unit == unit);
                    let leaves = leaves.map(|old| old.leaves.as_slice()).unwrap_or_default();
                    if let Some(old) = dispatcher.exchange(unit, spec, node)
                        && let Some(node) = dispatcher.queues_mut(unit)
                    {
                        move_over((old, leaves), (node, &hung.leaves), change, left);
                    }
                    for (_, meta) in &left[before..] {
                        dispatcher.withdraw(unit, meta);
                    }
                    Some(unit)
                }
                None => dispatcher.attach(spec, node),
            };
            match unit {
                Some(unit) => {
                    match stays {
                        true => cost.copy_unit(unit, &learned, unit),
                        false => cost.copy_unit(unit, &measured, UnitId(number)),
                    }
                    hung.unit = unit;
                    queues.push(hung);
                }
                None => retired.unattached.push(name),
            }
        }
        self.queues = queues;
        dispatcher.set_cost(cost);
        std::mem::swap(&mut self.dispatcher, dispatcher);
    }
}

/// Put packets of several queues, each in its order, into the order of their arrival.
fn in_order<T>(packets: &mut [(T, Meta)]) {
    packets.sort_by_key(|(_, meta)| meta.arrived);
}

/// Move the packets of an old node to the queues of the same names below a new one. A packet whose queue is gone, or
/// takes its class no more, is left.
fn move_over<T: 'static>(
    (mut old, old_leaves): (Node<T>, &[Leaf]),
    (new, new_leaves): (&mut Node<T>, &[Leaf]),
    change: &Change<'_>,
    left: &mut Vec<(T, Meta)>,
) {
    let mut packets = Vec::new();
    let mut number = 0;
    each_queue(&mut old, &mut |node| {
        node.drain(&mut packets);
        let name = old_leaves.get(number).map(|leaf| leaf.name.as_str());
        let place = new_leaves.iter().position(|leaf| Some(leaf.name.as_str()) == name);
        let stays_plain = old_leaves.is_empty() && new_leaves.is_empty();
        let place = if stays_plain { Some(0) } else { place };
        for (item, mut meta) in packets.drain(..) {
            let takes = |leaf: &Leaf| leaf.classes.contains(&meta.aggregate);
            let is_known = change.classes & 1_u64.checked_shl(meta.aggregate.0.into()).unwrap_or(0) != 0;
            match place.filter(|at| is_known && (stays_plain || new_leaves.get(*at).is_some_and(takes))) {
                Some(at) => {
                    change.renumber(&mut meta);
                    keep(new, at, item, meta);
                }
                None => left.push((item, meta)),
            }
        }
        number += 1;
    });
}

/// Queue a packet in the queue of this number below a node, without asking its enqueueing part.
fn keep<T: 'static>(node: &mut Node<T>, place: usize, item: T, meta: Meta) {
    let mut number = 0;
    let mut packet = Some((item, meta));
    each_queue(node, &mut |node| {
        if number == place
            && let (Node::Queue(queue), Some((item, meta))) = (node, packet.take())
        {
            queue.keep(item, meta);
        }
        number += 1;
    });
}

/// Call for every queue below a node, in their order.
fn each_queue<T: 'static>(node: &mut Node<T>, call: &mut dyn FnMut(&mut Node<T>)) {
    match node {
        Node::Tree(tree) => tree.children_mut().iter_mut().for_each(|child| each_queue(child, call)),
        queue @ Node::Queue(_) => call(queue),
    }
}
