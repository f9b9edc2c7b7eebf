//! What the tests of queues, disciplines and the dispatcher share.

use qos::node::{Node, Queue};
use qos::{
    About, AggregateId, Amount, Behaviour, ChildId, Children, Context, Dequeue, Enqueue, Entry, Leave, Limit,
    Meta, Store, Verdict,
};
use wire::Time;

pub fn at(now: u64) -> Context {
    Context { now: Time(now), random: 0 }
}

pub fn amount(packets: u64, octets: u64, ns: u64) -> Amount {
    Amount { packets, octets, ns }
}

/// A packet of this flow with octets and nanoseconds.
pub fn packet(flow: u32, octets: u64, ns: u64) -> Meta {
    Meta { flow, amount: amount(1, octets, ns), ..Meta::default() }
}

/// A packet of this aggregate, which [`ByAggregate`] steers by.
pub fn classed(aggregate: u8, ns: u64) -> Meta {
    Meta { aggregate: AggregateId(aggregate), ..packet(0, 100, ns) }
}

/// A dequeueing part that lets everything go.
pub struct Give;

impl Dequeue for Give {
    fn decide(&mut self, _: &Meta, _: &qos::Backlog, _: &Context) -> Leave {
        Leave::Give
    }

    fn about(&self) -> About {
        About { kind: "give", settings: String::new() }
    }
}

/// Steers each packet to the outlet of its aggregate.
pub struct ByAggregate;

impl Behaviour for ByAggregate {
    fn run(&mut self, batch: &mut [Entry], _: &Context) {
        batch.iter_mut().for_each(|entry| entry.verdict = Verdict::To(entry.meta.aggregate.0));
    }

    fn about(&self) -> About {
        About { kind: "by-aggregate", settings: String::new() }
    }
}

pub fn queue<T: 'static>(
    enqueue: impl Enqueue + 'static,
    store: impl Store<T> + 'static,
    limit: Limit,
) -> Node<T> {
    Queue::new(Box::new(enqueue), Box::new(store), Box::new(Give), limit).into()
}

/// A FIFO with tail drop.
pub fn fifo<T: Send + 'static>(packets: u64) -> Node<T> {
    let store = qos::store::Fifo::with_capacity(64);
    queue(qos::enqueue::TailDrop, store, Limit { packets, ..Limit::NONE })
}

/// The heads of children, as a discipline sees them.
pub struct Heads(pub Vec<Option<Meta>>);

impl Children for Heads {
    fn count(&self) -> u16 {
        self.0.len() as u16
    }

    fn head(&self, child: ChildId) -> Option<&Meta> {
        self.0.get(usize::from(child.0))?.as_ref()
    }
}
