//! A graph of one direction as it runs: hooks, queues, the dispatcher, and the order of the paper's packet scheduler.
//!
//! | queue | hooks | where none is described |
//! |---|---|---|
//! | incoming main | 1a, 1b | a plain FIFO |
//! | incoming crypto | 3a, 3b | packets pass through to 5a at once, and no queue is touched |
//! | dispatcher | 5a, 5b for each unit | a plain FIFO for each unit |
//! | outgoing crypto | 4a, 4b | a plain FIFO; the caller may pass it over, see [`Graph::is_plain`] |
//! | outgoing main | 2a, 2b | the same, and tells what it sends to [`Graph::pass`] |
//!
//! A plain FIFO has no component but a limit of packets. Packets go on from 3b to 5a by themselves, in
//! [`Graph::next`]: before each packet is given to a unit, all that wait for it can be compared.
//!
//! The packet scheduler of the paper is [`Graph::serve`]: work that is under way comes first, so outgoing crypto goes
//! before incoming main. A bundle's next member is offered at 3a with its index one higher, and goes ahead of the new
//! packets of its class there and at 5a, behind members that were offered before it.

pub mod adopt;
mod room;
mod units;

use wire::Time;

use super::aggregates::Aggregates;
use super::chain::Chain;
use super::counts::Counts;
use super::description::HookPoint;
use super::intervals::Addresses;
use super::priorities::Priorities;
use crate::amount::Amount;
use crate::behaviour::foreign::Report;
use crate::behaviour::{Classifier, Target};
use crate::component::Context;
use crate::dispatcher::Dispatcher;
use crate::meta::{AggregateId, Direction, Meta};
use crate::node::{Ended, Node, Offered, Pull, Wake};
use crate::unit::UnitId;

/// A queue of the tree behind a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) name: String,
    pub(super) classes: Vec<AggregateId>,
}

/// A queue with the hooks in front of it and behind it.
pub(super) struct Slot<T> {
    pub(super) before: Chain,
    pub(super) node: Node<T>,
    pub(super) behind: Chain,
    /// The queues of the node in their order; empty for a plain FIFO.
    pub(super) leaves: Vec<Leaf>,
}

impl<T> Slot<T> {
    pub(super) fn new(before: Chain, node: Node<T>, behind: Chain, leaves: Vec<Leaf>) -> Slot<T> {
        Slot { before, node, behind, leaves }
    }

    fn is_plain(&self) -> bool {
        // A shaper of the whole queue is a tree of its own.
        let is_one_queue = matches!(self.node, Node::Queue(_));
        is_one_queue && self.leaves.is_empty() && self.before.is_empty() && self.behind.is_empty()
    }
}

/// What hangs at hook 5b of a unit.
pub(super) struct UnitQueues {
    pub(super) unit: UnitId,
    pub(super) leaves: Vec<Leaf>,
    pub(super) behind: Chain,
}

/// The points at which queues begin, apart from the dispatcher's, in the order of [`Graph`]'s slots.
pub(super) const FRONTS: [HookPoint; 4] =
    [HookPoint::In1a, HookPoint::In3a, HookPoint::In4a, HookPoint::In2a];

/// A packet that left a queue, which goes on behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due<T> {
    /// The point where it left.
    pub at: HookPoint,
    /// The ticket of the packet.
    pub item: T,
    /// What is known of it.
    pub meta: Meta,
}

/// A graph of one direction.
pub struct Graph<T> {
    pub(super) direction: Direction,
    pub(super) slots: [Slot<T>; 4],
    pub(super) before_units: Chain,
    /// The rules of classes, for packets whose class the graph has no more.
    pub(super) classifier: Classifier,
    pub(super) dispatcher: Dispatcher<T>,
    pub(super) queues: Vec<UnitQueues>,
    /// The classes of the graph, one bit each.
    pub(super) classes: u64,
    pub(super) aggregates: Aggregates,
    pub(super) suites: Vec<String>,
    pub(super) addresses: Addresses,
    /// The priorities that classes have for queueing disciplines; `None`: no class has one.
    priorities: Option<Box<Priorities>>,
    /// A rule of a class asks for what only the look-up tells.
    pub(super) asks_association: bool,
    pub(super) counts: Counts,
    /// Packets may wait that know the units of a graph before this one.
    has_adopted: bool,
}

impl<T: 'static> Graph<T> {
    pub(super) fn new(
        direction: Direction,
        slots: [Slot<T>; 4],
        (before_units, classifier, classes): (Chain, Classifier, u64),
        (dispatcher, queues): (Dispatcher<T>, Vec<UnitQueues>),
        aggregates: Aggregates,
        suites: Vec<String>,
        (addresses, asks_association): (Addresses, bool),
    ) -> Graph<T> {
        let counts = Counts::default();
        Graph {
            direction,
            slots,
            before_units,
            classifier,
            dispatcher,
            queues,
            classes,
            aggregates,
            suites,
            addresses,
            priorities: None,
            asks_association,
            counts,
            has_adopted: false,
        }
    }

    /// The direction whose packets the graph is for.
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// The same graph, with priorities of its classes.
    #[must_use]
    pub(super) fn with_priorities(self, priorities: Option<Box<Priorities>>) -> Graph<T> {
        Graph { priorities, ..self }
    }

    /// The priorities that classes have for queueing disciplines; `None`: no class has one.
    pub fn priorities(&self) -> Option<&Priorities> {
        self.priorities.as_deref()
    }

    /// Whether the graph has the class.
    pub fn has(&self, aggregate: AggregateId) -> bool {
        self.classes & 1_u64.checked_shl(aggregate.0.into()).unwrap_or(0) != 0
    }

    /// The class that the rules give a packet which comes at 1a.
    pub fn classify(&self, meta: &Meta) -> AggregateId {
        match self.classifier.find(meta) {
            Some(Target::Aggregate(aggregate)) => aggregate,
            Some(Target::Outlet(_)) | None => meta.aggregate,
        }
    }

    /// The class of a packet whose association is known now. What it had before the look-up was known is `before`; a class
    /// that a rule did not give it, but a component or an item of the policy, stays.
    pub fn classify_again(&self, before: &Meta, meta: &Meta) -> AggregateId {
        if !self.asks_association {
            return meta.aggregate;
        }
        if !self.is_by_rules(&Meta { aggregate: meta.aggregate, ..*before }) {
            return meta.aggregate;
        }
        self.classify(&Meta { aggregate: AggregateId::DEFAULT, ..*meta })
    }

    /// Whether a packet has the class that the rules give it, and no component or policy another one.
    pub fn is_by_rules(&self, meta: &Meta) -> bool {
        self.classify(&Meta { aggregate: AggregateId::DEFAULT, ..*meta }) == meta.aggregate
    }

    /// Have the limits in front of a point count a packet as `now` where they counted it as `before`, since more is
    /// known of it. What begins behind them was not counted (`None`). Nothing is dropped by it.
    pub fn recount(&mut self, at: HookPoint, before: Option<&Meta>, now: &Meta) {
        if let Some(before) = before {
            self.leave_in_front(at, before);
        }
        for (front, slot) in FRONTS.iter().zip(&mut self.slots) {
            if front.order() / 2 < at.order() / 2 {
                slot.before.count(now);
            }
        }
        if HookPoint::In5a.order() / 2 < at.order() / 2 {
            self.before_units.count(now);
        }
    }

    /// A packet goes from the queue of one point to that of another, past those between. Limits there count it from now on,
    /// since they will be told that it leaves.
    pub fn pass_over(&mut self, from: HookPoint, at: HookPoint, meta: &Meta) {
        let is_between =
            |point: HookPoint| from.order() / 2 < point.order() / 2 && point.order() / 2 < at.order() / 2;
        for (front, slot) in FRONTS.iter().zip(&mut self.slots) {
            if is_between(*front) {
                slot.before.count(meta);
            }
        }
        if is_between(HookPoint::In5a) {
            self.before_units.count(meta);
        }
    }

    /// A packet ended in front of the queue that a point belongs to, while the caller had it. Limits in front of that queue
    /// count it no more.
    pub fn end_before(&mut self, at: HookPoint, meta: &Meta) {
        self.leave_in_front(at, meta);
    }

    /// The nanoseconds that the amount is expected to cost on the first unit that serves the suite.
    pub fn expected(&self, suite: u16, direction: Direction, amount: &Amount) -> u64 {
        self.dispatcher.expected(suite, direction, amount)
    }

    /// The numbers of classes, to be kept for the next graph of the instance.
    pub const fn aggregates(&self) -> &Aggregates {
        &self.aggregates
    }

    /// The suites in the order of their numbers.
    pub fn suites(&self) -> &[String] {
        &self.suites
    }

    /// What the graph asks of the addresses of packets.
    pub const fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// What was counted since the instance began.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What of a class waits at the queue that a point belongs to, in the three measures.
    pub fn backlog(&self, at: HookPoint, aggregate: AggregateId) -> Amount {
        let burden = match slot(at) {
            Some(_) => self.counts.backlog(at, aggregate),
            None => self.dispatcher.burden(aggregate),
        };
        burden.of(self.counts.of(at, aggregate).queued().unwrap_or(0))
    }

    /// The dispatcher, to be asked.
    pub const fn dispatcher(&self) -> &Dispatcher<T> {
        &self.dispatcher
    }

    /// What the components from outside have done, with the hooks in which they stand.
    pub fn foreign(&self) -> impl Iterator<Item = (HookPoint, Report)> {
        let fronts = FRONTS.into_iter().zip(self.slots.iter().map(|slot| &slot.before));
        let chains = fronts.chain([(HookPoint::In5a, &self.before_units)]);
        chains.flat_map(|(at, chain)| chain.reports().map(move |report| (at, report)))
    }

    /// Whether no component is described for the queue that a point belongs to.
    pub fn is_plain(&self, at: HookPoint) -> bool {
        match slot(at) {
            Some(slot) => self.slots[slot].is_plain(),
            None => self.before_units.is_empty() && self.queues.iter().all(|queues| queues.leaves.is_empty()),
        }
    }

    /// Whether a component can note another DSCP for a header: a marker, a policer that marks, or one from outside.
    pub fn marks(&self) -> bool {
        let hooks = self.slots.iter().flat_map(|slot| [&slot.before, &slot.behind]);
        let chains = hooks.chain([&self.before_units]).chain(self.queues.iter().map(|queues| &queues.behind));
        chains
            .flat_map(Chain::about)
            .any(|about| matches!(about.kind, "mark" | "police-and-mark" | "foreign"))
    }

    /// Offer a packet to the queue that the point belongs to. It is queued, or in the list of those that ended.
    pub fn offer(
        &mut self,
        at: HookPoint,
        item: T,
        mut meta: Meta,
        context: &Context,
        ended: &mut Vec<Ended<T>>,
    ) -> Offered {
        let from = ended.len();
        let Some(place) = slot(at) else { return self.offer_to_units(item, meta, context, ended) };
        self.classify_anew(at, &mut meta);
        if at.queue() == 3 && self.slots[place].is_plain() {
            self.counts.come(at, &meta);
            self.counts.gone(at, &meta, context.now);
            return self.offer_to_units(item, meta, context, ended);
        }
        let slot = &mut self.slots[place];
        let judged = slot.before.run(&mut meta, context);
        self.counts.come(at, &meta);
        if let Err(cause) = judged {
            self.counts.refused(at, &meta, cause);
            ended.push(Ended { item, meta, cause });
            self.leave_in_front(at, &meta);
            return Offered::Ended;
        }
        let offered = if at.queue() == 3 && meta.index > 0 {
            slot.node.lead(item, meta, context, ended)
        } else {
            slot.node.offer(item, meta, context, ended)
        };
        self.count_offered(at, &meta, offered, &ended[from..]);
        offered
    }

    /// Take the packet whose turn it is behind a queue; from those of units, see [`Graph::next`].
    pub fn take(&mut self, at: HookPoint, context: &Context, ended: &mut Vec<Ended<T>>) -> Option<Due<T>> {
        let place = slot(at)?;
        loop {
            let from = ended.len();
            let taken = self.slots[place].node.take(context, ended);
            self.count_ended(at, &ended[from..]);
            let Pull::Packet(item, mut meta) = taken else { return None };
            let before = meta;
            match self.slots[place].behind.run(&mut meta, context) {
                Ok(()) => {
                    self.counts.gone(at, &before, context.now);
                    if at.queue() == 2 {
                        self.pass(&meta);
                    }
                    return Some(Due { at, item, meta });
                }
                Err(cause) => {
                    self.counts.lost(at, &before, cause);
                    self.leave_in_front(at, &before);
                    ended.push(Ended { item, meta: before, cause });
                }
            }
        }
    }

    /// Take the packet that the packet scheduler of the paper serves next: one of outgoing crypto, which is under way,
    /// before one of incoming main.
    pub fn serve(&mut self, context: &Context, ended: &mut Vec<Ended<T>>) -> Option<Due<T>> {
        let started = self.take(HookPoint::Out4b, context, ended);
        started.or_else(|| self.take(HookPoint::Out1b, context, ended))
    }

    /// A packet left the graph without the outgoing main queue, or ended while the caller had it: limits count it no
    /// more.
    pub fn pass(&mut self, meta: &Meta) {
        self.leave_in_front(HookPoint::Out2b, meta);
    }

    /// A packet failed to authenticate and has cost this much. The answer is whether its pair is demoted now.
    pub fn charge_failed(&mut self, association: u32, source: u32, ns: u64, now: Time) -> bool {
        let mut is_demoted = false;
        for slot in &mut self.slots {
            for budget in slot.before.budgets() {
                is_demoted |= budget.charge(association, source, ns, now);
            }
        }
        is_demoted
    }

    /// A packet authenticated: the budget of its pair is whole again.
    pub fn authentic(&mut self, association: u32, source: u32) {
        for slot in &mut self.slots {
            slot.before.budgets().for_each(|budget| budget.authentic(association, source));
        }
    }

    /// The event after which a packet can be taken or given. The time now is told if one can go at once.
    pub fn wake(&mut self, context: &Context) -> Wake {
        let mut earliest: Option<Time> = None;
        let mut note = |wake: Wake| {
            if let Wake::At(time) = wake {
                earliest = Some(earliest.map_or(time, |earlier| earlier.min(time)));
            }
        };
        for slot in &self.slots {
            note(slot.node.wake(context.now));
        }
        note(self.dispatcher.wake(context));
        earliest.map_or(Wake::Packet, Wake::At)
    }

    /// Whether every packet is accounted for: at each queue, what came has left, was given back, was dropped or is
    /// there; what left has a sojourn; and what was given to units was answered, given up or is in flight.
    pub fn conserved(&self) -> bool {
        let is_right =
            |(at, slot): (&HookPoint, &Slot<T>)| self.counts.queued(*at) == Some(slot.node.amount().packets);
        let in_flight = self.dispatcher.in_flight();
        FRONTS.iter().zip(&self.slots).all(is_right)
            && self.counts.queued(HookPoint::In5a) == Some(self.dispatcher.packets())
            && FRONTS.into_iter().chain([HookPoint::In5a]).all(|at| self.classes_agree(at))
            && self.counts.given() == self.counts.answered + self.counts.given_up + in_flight
    }

    /// Whether the counts of each class at a queue agree: no packets have no octets and no cost, none has less than
    /// that, and what left has a sojourn.
    fn classes_agree(&self, at: HookPoint) -> bool {
        self.counts.at(at).filter(|(_, tally)| tally.come > 0).all(|(aggregate, tally)| {
            let backlog = self.backlog(at, aggregate);
            let most = u64::MAX / 2;
            (backlog.packets > 0 || backlog == Amount::default())
                && (backlog.octets < most && backlog.ns < most)
                && tally.gone == self.counts.sojourn(at, aggregate).count()
        })
    }

    /// Give a packet another class by the rules if an exchange took its class out of the graph.
    fn classify_anew(&mut self, at: HookPoint, meta: &mut Meta) {
        if !self.has(meta.aggregate) && at.queue() != 1 {
            let before = *meta;
            meta.aggregate = self.classify(meta);
            self.recount(at, Some(&before), meta);
        }
    }

    /// Account for what became of a packet that was offered to a queue, and of those that ended for it.
    fn count_offered(&mut self, at: HookPoint, meta: &Meta, offered: Offered, ended: &[Ended<T>]) {
        match (offered, ended) {
            (Offered::Ended, [Ended { meta, cause, .. }]) => {
                self.counts.refused(at, meta, *cause);
                self.end_in_front(at, meta);
            }
            (Offered::Ended, ended) => self.count_ended(at, ended),
            (Offered::Queued, ended) => {
                self.counts.queued_one(at, meta);
                self.count_ended(at, ended);
            }
        }
    }

    fn count_ended(&mut self, at: HookPoint, ended: &[Ended<T>]) {
        for Ended { meta, cause, .. } in ended {
            self.counts.lost(at, meta, *cause);
            self.end_in_front(at, meta);
        }
    }

    /// Tell the chains up to a queue that a packet has ended there.
    fn end_in_front(&mut self, at: HookPoint, meta: &Meta) {
        if let Some(place) = slot(at) {
            self.slots[place].before.leave(meta);
        } else {
            self.before_units.leave(meta);
        }
        self.leave_in_front(at, meta);
    }

    /// Tell the chains that a packet has passed in front of a queue that it is there no more.
    fn leave_in_front(&mut self, at: HookPoint, meta: &Meta) {
        for (front, slot) in FRONTS.iter().zip(&mut self.slots) {
            if front.order() / 2 < at.order() / 2 || at == HookPoint::Out2b {
                slot.before.leave(meta);
            }
        }
        if HookPoint::In5a.order() / 2 < at.order() / 2 {
            self.before_units.leave(meta);
        }
    }
}

/// The slot of the queue that a point belongs to; `None` for those of units.
pub(super) fn slot(at: HookPoint) -> Option<usize> {
    match at.queue() {
        1 => Some(0),
        3 => Some(1),
        4 => Some(2),
        2 => Some(3),
        _ => None,
    }
}
