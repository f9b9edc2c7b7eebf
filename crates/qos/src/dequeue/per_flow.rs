//! A dequeueing part with a state for each queue of a store (RFC 8290 sections 4.2 and 5.2): what a flow does to its own
//! queue costs no packet of another.

use wire::Time;

use crate::amount::Amount;
use crate::component::{About, Backlog, Context, Dequeue, Leave};
use crate::meta::Meta;

/// One dequeueing part for each queue of a store.
pub struct PerFlow<D> {
    flows: Vec<D>,
}

impl<D: Dequeue + Clone> PerFlow<D> {
    /// So many states, at least one, each like this one.
    pub fn new(each: D, queues: usize) -> PerFlow<D> {
        PerFlow { flows: vec![each; queues.max(1)] }
    }

    /// The state of a queue of the store; of the last one, if the store has more.
    fn of(&mut self, queue: u32) -> &mut D {
        let last = self.flows.len() - 1;
        &mut self.flows[(queue as usize).min(last)]
    }
}

impl<D: Dequeue + Clone> Dequeue for PerFlow<D> {
    fn decide(&mut self, head: &Meta, backlog: &Backlog, context: &Context) -> Leave {
        self.decide_of(0, backlog.now, head, backlog, context)
    }

    fn decide_of(
        &mut self,
        queue: u32,
        own: Amount,
        head: &Meta,
        backlog: &Backlog,
        context: &Context,
    ) -> Leave {
        self.of(queue).decide(head, &Backlog { now: own, limit: backlog.limit }, context)
    }

    fn overflowed(&mut self, queue: u32, now: Time) {
        self.of(queue).overflowed(0, now);
    }

    fn about(&self) -> About {
        let About { kind, settings } = self.flows[0].about();
        About { kind, settings: format!("{settings}, for each of {} flow queues", self.flows.len()) }
    }
}
