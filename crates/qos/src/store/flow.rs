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
use super::{Cells, NONE, keyed};

/// The most that a quantum and a cost can be, so that no sum of some of them overflows.
const LARGEST: i64 = i64::MAX / 4;

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
}

impl FlowBy {
    /// The number of the packet's flow, which [`Store::get_of`] takes.
    pub fn flow(self, meta: &Meta) -> u32 {
        match self {
            FlowBy::Flow => meta.flow,
            FlowBy::User => meta.user,
            FlowBy::Association => meta.association,
            FlowBy::App => u32::from(meta.app.0),
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listed {
    Nowhere,
    New,
    Old,
}

/// The queue of one flow, a link of the list of new or of old flows.
#[derive(Clone, Debug)]
struct Flow {
    head: u32,
    tail: u32,
    amount: Amount,
    deficit: i64,
    weight: Weight,
    listed: Listed,
    ahead: u32,
    behind: u32,
}

/// The first and the last flow of a list.
#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

/// The state before the last packet was taken, for the case that it comes back.
#[derive(Clone, Copy, Debug)]
struct Before {
    flow: u32,
    deficit: i64,
    cost: i64,
    listed: Listed,
}

/// The queues of all flows.
#[derive(Debug)]
pub struct FlowQueues<T> {
    settings: FlowSettings,
    quantum: i64,
    flows: Vec<Flow>,
    /// The lists of new and of old flows.
    lists: [Ends; 2],
    /// The number of flows that are in one of the lists.
    in_lists: u32,
    cells: Cells<T>,
    lengths: Heap<u64>,
    amount: Amount,
    before: Option<Before>,
}

impl FlowSettings {
    /// The number of queues that there are.
    pub(crate) fn count(&self) -> usize {
        self.queues.max(1) as usize
    }
}

impl<T> FlowQueues<T> {
    /// Queues without a packet. They allocate again only beyond this many packets.
    pub fn with_capacity(settings: FlowSettings, packets: usize) -> FlowQueues<T> {
        let queues = settings.count();
        let flow = Flow {
            head: NONE,
            tail: NONE,
            amount: Amount::default(),
            deficit: 0,
            weight: Weight::ONE,
            listed: Listed::Nowhere,
            ahead: NONE,
            behind: NONE,
        };
        FlowQueues {
            settings,
            quantum: i64::try_from(settings.quantum).unwrap_or(i64::MAX).clamp(1, LARGEST),
            flows: vec![flow; queues],
            lists: [Ends { first: NONE, last: NONE }; 2],
            in_lists: 0,
            cells: Cells::with_capacity(packets),
            lengths: Heap::with_capacity(queues),
            amount: Amount::default(),
            before: None,
        }
    }

    fn place(&self, flow: u32) -> u32 {
        let hash = keyed(self.settings.seed, flow, 0) >> 32;
        ((hash * self.flows.len() as u64) >> 32) as u32
    }

    fn cost(&self, meta: &Meta) -> i64 {
        i64::try_from(meta.amount.of(self.settings.measure)).unwrap_or(i64::MAX).min(LARGEST)
    }

    /// What the flow may give in a round.
    fn quantum(&self, flow: u32) -> i64 {
        let weight = i64::from(self.flows[flow as usize].weight.get());
        self.quantum.saturating_mul(weight).min(LARGEST)
    }

    fn list(&mut self, listed: Listed) -> &mut Ends {
        &mut self.lists[usize::from(listed == Listed::Old)]
    }

    fn unlink(&mut self, flow: u32) {
        let Flow { listed, ahead, behind, .. } = self.flows[flow as usize];
        if listed == Listed::Nowhere {
            return;
        }
        match ahead {
            NONE => self.list(listed).first = behind,
            ahead => self.flows[ahead as usize].behind = behind,
        }
        match behind {
            NONE => self.list(listed).last = ahead,
            behind => self.flows[behind as usize].ahead = ahead,
        }
        self.flows[flow as usize].listed = Listed::Nowhere;
        self.in_lists -= 1;
    }

    fn link_last(&mut self, flow: u32, listed: Listed) {
        let last = std::mem::replace(&mut self.list(listed).last, flow);
        match last {
            NONE => self.list(listed).first = flow,
            last => self.flows[last as usize].behind = flow,
        }
        let entry = &mut self.flows[flow as usize];
        (entry.listed, entry.ahead, entry.behind) = (listed, last, NONE);
        self.in_lists += 1;
    }

    fn link_first(&mut self, flow: u32, listed: Listed) {
        let first = std::mem::replace(&mut self.list(listed).first, flow);
        match first {
            NONE => self.list(listed).last = flow,
            first => self.flows[first as usize].ahead = flow,
        }
        let entry = &mut self.flows[flow as usize];
        (entry.listed, entry.ahead, entry.behind) = (listed, NONE, first);
        self.in_lists += 1;
    }

    /// The flow whose turn it is, once [`FlowQueues::settle`] has run.
    fn turn(&self) -> Option<u32> {
        self.lists.iter().map(|list| list.first).find(|&first| first != NONE)
    }

    /// Bring a flow that may give to the front (RFC 8290 section 4.2), so that it can be named without changing
    /// anything.
    fn settle(&mut self) {
        while let Some(flow) = self.turn() {
            let alone = self.in_lists == 1;
            let quantum = self.quantum(flow);
            let entry = &mut self.flows[flow as usize];
            if entry.deficit <= 0 {
                // Rounds of a flow that is alone change nothing but its deficit.
                let rounds = if alone { 1 + -entry.deficit / quantum } else { 1 };
                entry.deficit += rounds * quantum;
                self.unlink(flow);
                self.link_last(flow, Listed::Old);
            } else if entry.head == NONE {
                let listed = entry.listed;
                self.unlink(flow);
                if listed == Listed::New {
                    self.link_last(flow, Listed::Old);
                }
            } else {
                return;
            }
        }
    }

    fn measure(&mut self, flow: u32) {
        let entry = &self.flows[flow as usize];
        if entry.head == NONE {
            self.lengths.remove(flow);
        } else {
            let length = entry.amount.of(self.settings.measure).saturating_mul(UNIT);
            self.lengths.set(flow, length / u64::from(entry.weight.get()));
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
        let is_idle = entry.listed == Listed::Nowhere;
        match std::mem::replace(&mut entry.tail, cell) {
            NONE => entry.head = cell,
            last => self.cells.link(last, cell),
        }
        if is_idle {
            self.flows[flow as usize].deficit = self.quantum(flow);
            self.link_last(flow, Listed::New);
        }
        self.add(flow, &meta);
    }

    fn put_back(&mut self, item: T, meta: Meta) {
        let flow = self.place(self.settings.by.flow(&meta));
        let (cost, quantum) = (self.cost(&meta), self.quantum(flow));
        let cell = self.cells.insert(item, meta);
        let entry = &mut self.flows[flow as usize];
        let second = std::mem::replace(&mut entry.head, cell);
        if second == NONE {
            entry.tail = cell;
        }
        self.cells.link(cell, second);
        // The flow is again where it was: with what it had, less what was used of a super-packet.
        let listed = match self.before.take() {
            Some(before) if before.flow == flow => {
                entry.deficit = before.deficit - (before.cost - cost).max(0);
                before.listed
            }
            _ => {
                entry.deficit = (entry.deficit + cost).min(quantum);
                Listed::Old
            }
        };
        self.unlink(flow);
        self.link_first(flow, listed);
        self.add(flow, &meta);
        self.settle();
    }

    fn peek(&self) -> Option<&Meta> {
        self.cells.meta(self.flows[self.turn()? as usize].head)
    }

    fn get(&mut self) -> Option<(T, Meta)> {
        let flow = self.turn()?;
        let (item, meta) = self.pop(flow)?;
        let cost = self.cost(&meta);
        let entry = &mut self.flows[flow as usize];
        self.before = Some(Before { flow, deficit: entry.deficit, cost, listed: entry.listed });
        entry.deficit -= cost;
        self.settle();
        Some((item, meta))
    }

    fn get_to_end(&mut self) -> Option<(T, Meta)> {
        let packet = self.pop(self.turn()?)?;
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
        let flow = self.turn().unwrap_or(0);
        (flow, self.flows[flow as usize].amount)
    }

    fn about(&self) -> About {
        let FlowSettings { by, queues, measure, quantum, .. } = self.settings;
        About { kind: "flow", settings: format!("by {by:?}, {queues} queues, quantum {quantum} {measure:?}") }
    }
}
