//! Flow queues (RFC 8290): a fixed number of queues, chosen by a keyed hash, with deficit round robin between them.
//!
//! A flow that was idle joins the list of new flows and goes ahead of the old ones for one quantum. A flow pays what it
//! was given beyond its deficit in rounds in which it gives nothing, whether or not packets of it wait. Flows whose
//! hashes fall together are one flow here.
//!
//! The weight of a packet's user multiplies what its flow may give in a round. A flow has the weight of the packet that
//! came last. Of flows that all wait, the longest one is the longest by weight, so that the room is shared out as the
//! service is.

use crate::amount::{Amount, Measure};
use crate::component::{About, Store};
use crate::meta::{Meta, Weight};

use super::heap::Heap;
use super::turns::{Entry, LARGEST, Link, Paid, Turns};
use super::{Cells, NONE, keyed};

/// What lengths are multiplied by before they are divided by weights, so that short ones stay apart.
const UNIT: u64 = 1 << 16;

/// The field that tells one flow from another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowBy {
    /// The hash of the flow.
    #[default]
    Flow,
    /// The hash of the user that the packet is charged to.
    User,
    /// The security association that protects it.
    Association,
    /// The application that sent it.
    App,
    /// The address of the far end.
    Peer,
    /// The inner source address; of what is received the outer one, as the inner one is hidden.
    Source,
}

impl FlowBy {
    /// The number of the packet's flow, which [`Store::get_of`] takes.
    pub fn flow(self, meta: &Meta) -> u32 {
        match self {
            FlowBy::Flow => meta.flow,
            FlowBy::User | FlowBy::Source => meta.user,
            FlowBy::Association => meta.association,
            FlowBy::App => u32::from(meta.app.0),
            FlowBy::Peer => meta.peer_hash,
        }
    }
}

/// The settings of flow queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSettings {
    /// What tells one flow from another.
    pub by: FlowBy,
    /// The number of queues; RFC 8290 has 1024.
    pub queues: u32,
    /// The measure of deficits and of the longest flow.
    pub measure: Measure,
    /// What a flow of weight 1 may give in a round, in the measure. It should not be less than one full packet.
    pub quantum: u64,
    /// The key of the hash.
    pub seed: u64,
}

/// The queue of one flow, with its turns.
#[derive(Clone, Debug)]
struct Flow {
    head: u32,
    tail: u32,
    amount: Amount,
    weight: Weight,
    link: Link,
}

impl Entry for Flow {
    fn link(&self) -> &Link {
        &self.link
    }

    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    fn quantum(&self, one: i64) -> i64 {
        weighed(one, self.weight)
    }

    fn waits(&self) -> bool {
        self.head != NONE
    }
}

/// The queues of all flows.
#[derive(Debug)]
pub struct FlowQueues<T> {
    settings: FlowSettings,
    quantum: i64,
    flows: Vec<Flow>,
    turns: Turns,
    cells: Cells<T>,
    lengths: Heap<u64>,
    amount: Amount,
    /// The flow that gave last, and what it had before that.
    before: Option<(u32, Paid)>,
}

impl FlowSettings {
    /// The number of queues that there are.
    pub(crate) fn count(&self) -> usize {
        self.queues.max(1) as usize
    }

    /// What a packet costs.
    pub(super) fn cost(&self, meta: &Meta) -> i64 {
        i64::try_from(meta.amount.of(self.measure)).unwrap_or(i64::MAX).min(LARGEST)
    }

    /// What a flow of weight 1 may give in a round, at least 1.
    pub(super) fn one(&self) -> i64 {
        i64::try_from(self.quantum).unwrap_or(i64::MAX).clamp(1, LARGEST)
    }

    /// The place of a number among so many.
    pub(super) fn place(&self, number: u32, count: usize) -> u32 {
        let hash = keyed(self.seed, number, 0) >> 32;
        ((hash * count as u64) >> 32) as u32
    }
}

/// The quantum of this weight.
pub(super) fn weighed(one: i64, weight: Weight) -> i64 {
    one.saturating_mul(i64::from(weight.get())).min(LARGEST)
}

/// A length by weight, by which the longest is found.
pub(super) fn by_weight(length: u64, weight: Weight) -> u64 {
    length.saturating_mul(UNIT) / u64::from(weight.get())
}

impl<T> FlowQueues<T> {
    /// Queues without a packet. They allocate again only beyond this many packets.
    pub fn with_capacity(settings: FlowSettings, packets: usize) -> FlowQueues<T> {
        let queues = settings.count();
        let flow =
            Flow { head: NONE, tail: NONE, amount: Amount::default(), weight: Weight::ONE, link: Link::IDLE };
        FlowQueues {
            settings,
            quantum: settings.one(),
            flows: vec![flow; queues],
            turns: Turns::EMPTY,
            cells: Cells::with_capacity(packets),
            lengths: Heap::with_capacity(queues),
            amount: Amount::default(),
            before: None,
        }
    }

    fn place(&self, flow: u32) -> u32 {
        self.settings.place(flow, self.flows.len())
    }

    fn settle(&mut self) {
        self.turns.settle(&mut self.flows, self.quantum);
    }

    fn measure(&mut self, flow: u32) {
        let entry = &self.flows[flow as usize];
        if entry.head == NONE {
            self.lengths.remove(flow);
        } else {
            self.lengths.set(flow, by_weight(entry.amount.of(self.settings.measure), entry.weight));
        }
    }

    fn add(&mut self, flow: u32, meta: &Meta) {
        self.amount += meta.amount;
        self.flows[flow as usize].amount += meta.amount;
        self.measure(flow);
    }

    fn pop(&mut self, flow: u32) -> Option<(T, Meta)> {
        let entry = &mut self.flows[flow as usize];
        let (item, meta, next) = self.cells.remove(entry.head)?;
        entry.head = next;
        if next == NONE {
            entry.tail = NONE;
        }
        entry.amount -= meta.amount;
        self.amount -= meta.amount;
        self.measure(flow);
        Some((item, meta))
    }
}

impl<T: Send> Store<T> for FlowQueues<T> {
    fn put(&mut self, item: T, meta: Meta) {
        let flow = self.place(self.settings.by.flow(&meta));
        let cell = self.cells.insert(item, meta);
        let entry = &mut self.flows[flow as usize];
        entry.weight = meta.weight;
        match std::mem::replace(&mut entry.tail, cell) {
            NONE => entry.head = cell,
            last => self.cells.link(last, cell),
        }
        self.turns.enter(&mut self.flows, flow, self.quantum);
        self.add(flow, &meta);
    }

    fn put_back(&mut self, item: T, meta: Meta) {
        let flow = self.place(self.settings.by.flow(&meta));
        let cost = self.settings.cost(&meta);
        let cell = self.cells.insert(item, meta);
        let entry = &mut self.flows[flow as usize];
        let second = std::mem::replace(&mut entry.head, cell);
        if second == NONE {
            entry.tail = cell;
        }
        self.cells.link(cell, second);
        self.add(flow, &meta);
        let paid = self.before.take().filter(|(before, _)| *before == flow).map(|(_, paid)| paid);
        self.turns.come_back(&mut self.flows, flow, self.quantum, cost, paid);
    }

    fn peek(&self) -> Option<&Meta> {
        self.cells.meta(self.flows[self.turns.turn()? as usize].head)
    }

    fn get(&mut self) -> Option<(T, Meta)> {
        let flow = self.turns.turn()?;
        let (item, meta) = self.pop(flow)?;
        let paid = self.flows[flow as usize].link.pay(self.settings.cost(&meta));
        self.before = Some((flow, paid));
        self.settle();
        Some((item, meta))
    }

    fn get_to_end(&mut self) -> Option<(T, Meta)> {
        let packet = self.pop(self.turns.turn()?)?;
        self.settle();
        Some(packet)
    }

    /// Take the packet that is next of this flow. The flow pays nothing for it, since it is taken to end.
    fn get_of(&mut self, flow: u32) -> Option<(T, Meta)> {
        let packet = self.pop(self.place(flow))?;
        self.settle();
        Some(packet)
    }

    fn longest(&self) -> Option<u32> {
        let flow = self.lengths.top()?;
        self.cells.meta(self.flows[flow as usize].head).map(|meta| self.settings.by.flow(meta))
    }

    fn amount(&self) -> Amount {
        self.amount
    }

    fn queue_of(&self, meta: &Meta) -> u32 {
        self.place(self.settings.by.flow(meta))
    }

    fn head_queue(&self) -> (u32, Amount) {
        let flow = self.turns.turn().unwrap_or(0);
        (flow, self.flows[flow as usize].amount)
    }

    fn about(&self) -> About {
        let FlowSettings { by, queues, measure, quantum, .. } = self.settings;
        About { kind: "flow", settings: format!("by {by:?}, {queues} queues, quantum {quantum} {measure:?}") }
    }
}
