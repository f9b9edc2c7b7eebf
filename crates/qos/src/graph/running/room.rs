//! The room that a graph has for packets of a class, so that those that find none can wait in the kernel.

use super::super::description::HookPoint;
use super::{Graph, Leaf, slot};
use crate::amount::Amount;
use crate::meta::AggregateId;
use crate::node::Node;

impl<T: 'static> Graph<T> {
    /// The number of packets of a class that may be offered at 1a until one finds a queue or a limit of the class full,
    /// as far as 5b. What waits at 1a comes first. `each` is a packet as it is expected where none of the class waits.
    ///
    /// A class of which packets end for others (eviction, a fair queue) always has room.
    pub fn room(&self, aggregate: AggregateId, each: Amount) -> u64 {
        let mut beyond = self.before_units.spare(aggregate, each);
        if let Some(place) = slot(HookPoint::In3a) {
            let slot = &self.slots[place];
            beyond = beyond.min(slot.before.spare(aggregate, each));
            beyond = beyond.min(spare(&slot.node, &slot.leaves, aggregate, each));
        }
        let units = self.queues.iter().filter_map(|queues| {
            let node = self.dispatcher.queues(queues.unit)?;
            let pushed = self.dispatcher.spare(queues.unit, each);
            Some(spare(node, &queues.leaves, aggregate, each).min(pushed))
        });
        // A class waits for the unit that can serve it: the roomiest of them, as far as is known here.
        beyond = beyond.min(units.max().unwrap_or(u64::MAX));
        let main = slot(HookPoint::In1a).map(|place| &self.slots[place]);
        let in_front = main.map_or(u64::MAX, |slot| {
            slot.before.spare(aggregate, each).min(spare(&slot.node, &slot.leaves, aggregate, each))
        });
        let waits = self.counts.of(HookPoint::In1a, aggregate).queued().unwrap_or(0);
        in_front.min(beyond.saturating_sub(waits))
    }
}

/// The room in the queue of a class below a node: the least, where it has several; all of it in a plain FIFO.
fn spare<T: 'static>(node: &Node<T>, leaves: &[Leaf], aggregate: AggregateId, each: Amount) -> u64 {
    let (mut at, mut least) = (0, u64::MAX);
    node.spares(each, &mut |room| {
        if leaves.get(at).is_none_or(|leaf| leaf.classes.contains(&aggregate)) {
            least = least.min(room);
        }
        at += 1;
    });
    least
}
