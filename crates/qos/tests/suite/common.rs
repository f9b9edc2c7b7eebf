//! What the tests of components share: packets, contexts, a queue in simulated time, and an oracle of tokens.

use std::collections::VecDeque;

use qos::{
    AggregateId, Amount, Backlog, Behaviour, Cause, Colour, Context, Dequeue, Entry, Leave, Limit, Meta,
    Verdict,
};
use wire::Time;

/// Nanoseconds in a millisecond.
pub const MS: u64 = 1_000_000;

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// A context at this time, without randomness.
pub fn at(ns: u64) -> Context {
    Context { now: Time(ns), random: 0 }
}

/// One packet of this many octets.
pub fn packet(octets: u64) -> Meta {
    Meta { amount: Amount { packets: 1, octets, ns: octets.saturating_mul(100) }, ..Meta::default() }
}

/// An entry that no component has judged.
pub fn entry(meta: Meta) -> Entry {
    Entry { meta, verdict: Verdict::Pass }
}

/// What becomes of one packet.
pub fn run(behaviour: &mut impl Behaviour, context: &Context, meta: Meta) -> Entry {
    let mut batch = [entry(meta)];
    behaviour.run(&mut batch, context);
    batch[0]
}

/// A packet that was dropped stays as it is, whatever the component.
pub fn leaves_dropped_alone(behaviour: &mut impl Behaviour) {
    let meta = Meta { colour: Colour::Yellow, aggregate: AggregateId(9), dscp: [7, 7], ..packet(100) };
    let mut batch = [Entry { meta, verdict: Verdict::Drop(Cause::NoUnit) }];
    behaviour.run(&mut batch, &at(0));
    assert_eq!(batch[0].meta, meta);
    assert_eq!(batch[0].verdict, Verdict::Drop(Cause::NoUnit));
}

/// Random numbers that are the same in each run (splitmix64).
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// What became of the packet that a queue was asked for, with its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The packet left the queue.
    Gave(u64),
    /// The packet left with a mark.
    Marked(u64),
    /// The packet was dropped instead.
    Dropped(u64),
}

/// A plain FIFO in front of a dequeueing part.
pub struct Fifo<D> {
    /// The dequeueing part under test.
    pub dequeue: D,
    packets: VecDeque<Meta>,
    amount: Amount,
    /// The most that may wait.
    pub limit: Limit,
    random: Random,
}

impl<D: Dequeue> Fifo<D> {
    /// An empty queue without a limit.
    pub fn new(dequeue: D) -> Fifo<D> {
        let (packets, amount) = (VecDeque::new(), Amount::default());
        Fifo { dequeue, packets, amount, limit: Limit::NONE, random: Random(1) }
    }

    /// Queue a packet that comes now.
    pub fn put(&mut self, now: u64, meta: Meta) {
        self.amount += meta.amount;
        self.packets.push_back(Meta { arrived: Time(now), ..meta });
    }

    /// The number of packets that wait.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether a packet of this size would fit.
    pub fn fits(&self, meta: &Meta) -> bool {
        self.limit.admits(self.amount, meta.amount)
    }

    /// Ask for one packet: the drops before it, and it; nothing more once the queue is empty.
    pub fn take(&mut self, now: u64) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(head) = self.packets.front().copied() {
            let backlog = Backlog { now: self.amount, limit: self.limit };
            let context = Context { now: Time(now), random: self.random.next() };
            let leave = self.dequeue.decide(&head, &backlog, &context);
            if let Leave::Wait(_) = leave {
                break;
            }
            self.packets.pop_front();
            self.amount -= head.amount;
            match leave {
                Leave::Drop(_) => events.push(Event::Dropped(head.arrived.0)),
                Leave::Mark => events.push(Event::Marked(head.arrived.0)),
                _ => events.push(Event::Gave(head.arrived.0)),
            }
            if !matches!(leave, Leave::Drop(_)) {
                break;
            }
        }
        events
    }
}

/// A token count that is incremented `rate` times a second, one by one, as the texts of the RFCs say it.
pub struct Increments {
    rate: u64,
    done: u64,
}

impl Increments {
    /// No increment yet, at time 0.
    pub fn new(rate: u64) -> Increments {
        Increments { rate, done: 0 }
    }

    /// Whether one more increment falls at or before this time. The increment number `k` falls at `k / rate` seconds.
    pub fn next(&mut self, now: u64) -> bool {
        let is_due =
            u128::from(self.done + 1) * u128::from(SECOND) <= u128::from(self.rate) * u128::from(now);
        self.done += u64::from(is_due);
        is_due
    }
}

/// The colour with this number.
pub fn colour(number: u8) -> Colour {
    [Colour::Green, Colour::Yellow, Colour::Red][usize::from(number % 3)]
}
