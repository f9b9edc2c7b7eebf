//! A graph in simulated time: the same packets give the same report, to the nanosecond.
//!
//! The thread that dispatches and its units of the kinds inline, sliced and batch are one processor; each other unit is
//! one of its own. A processor does the jobs that it holds one by one, each for as long as the cost model says. On a
//! sliced unit, what is not expedited is done in steps. One expedited packet gets in behind each step, as in the daemon
//! (docs/design/0046-sliced-units.md). A packet waits from its arrival until its job is done and the outgoing main queue
//! has given it. Moving a packet from queue to queue takes no time: what that costs has to be part of the model's lines.

mod histogram;
mod processors;

use std::collections::BTreeMap;

use wire::Time;

use crate::component::{Cause, Context};
use crate::cost::{CostModel, Work};
use crate::graph::Graph;
use crate::graph::description::HookPoint;
use crate::meta::{AggregateId, Meta};
use crate::node::{Ended, Wake};
use crate::unit::UnitId;

pub use histogram::Histogram;
use processors::{Event, Processors};

/// A packet of the simulation: its number in the order of arrival.
pub type Number = u64;

/// What became of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// The number of the packet in the order of arrival.
    pub number: Number,
    /// The class that it had at its end.
    pub aggregate: AggregateId,
    /// Why it ended inside; `None` if it left.
    pub cause: Option<Cause>,
    /// Nanoseconds from its arrival to its leaving or ending.
    pub wait: u64,
}

/// What became of the packets of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassReport {
    /// Packets that left the graph.
    pub left: u64,
    /// Packets that ended, by cause.
    pub dropped: BTreeMap<Cause, u64>,
    /// The times from arrival to leaving.
    pub waits: Histogram,
    /// The most packets of the class that ended in a row.
    pub longest_loss: u64,
    /// The packets of the class that ended last without one that left.
    losing: u64,
}

/// What became of all packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The classes that had packets, in the order of their numbers.
    pub classes: BTreeMap<AggregateId, ClassReport>,
    /// The time at which the last packet left or ended.
    pub end: Time,
}

impl Report {
    /// The report of a class; an empty one if it had no packets.
    pub fn class(&self, aggregate: AggregateId) -> ClassReport {
        self.classes.get(&aggregate).cloned().unwrap_or_default()
    }

    /// The packets that left, of every class.
    pub fn left(&self) -> u64 {
        self.classes.values().map(|class| class.left).sum()
    }

    /// The packets that ended, of every class.
    pub fn dropped(&self) -> u64 {
        self.classes.values().flat_map(|class| class.dropped.values()).sum()
    }

    fn leave(&mut self, meta: &Meta, now: Time) {
        let class = self.classes.entry(meta.aggregate).or_default();
        class.left += meta.amount.packets;
        class.losing = 0;
        class.waits.add(now.0.saturating_sub(meta.arrived.0));
        self.end = self.end.max(now);
    }

    fn end(&mut self, meta: &Meta, cause: Cause, now: Time) {
        let class = self.classes.entry(meta.aggregate).or_default();
        *class.dropped.entry(cause).or_default() += meta.amount.packets;
        class.losing += meta.amount.packets;
        class.longest_loss = class.longest_loss.max(class.losing);
        self.end = self.end.max(now);
    }
}

/// Run a graph on packets that arrive in the order of their times. The arrival and the cost of each are set here.
pub fn simulate(
    graph: &mut Graph<Number>,
    arrivals: impl IntoIterator<Item = (Time, Meta)>,
    cost: &CostModel,
) -> Report {
    simulate_each(graph, arrivals, cost, |_| ())
}

/// Run a graph as [`simulate`] does, and tell the fate of each packet, in the order in which packets leave or end.
pub fn simulate_each(
    graph: &mut Graph<Number>,
    arrivals: impl IntoIterator<Item = (Time, Meta)>,
    cost: &CostModel,
    each: impl FnMut(Fate),
) -> Report {
    let mut run = Run {
        graph,
        cost,
        each,
        now: Time(0),
        random: 1,
        ended: Vec::new(),
        report: Report::default(),
        processors: Processors::default(),
    };
    for (number, (time, meta)) in (0..).zip(arrivals) {
        run.until(time);
        run.arrive(number, meta);
    }
    run.until(Time(u64::MAX));
    run.report
}

struct Run<'g, F> {
    graph: &'g mut Graph<Number>,
    cost: &'g CostModel,
    each: F,
    now: Time,
    random: u64,
    ended: Vec<Ended<Number>>,
    report: Report,
    processors: Processors,
}

impl<F: FnMut(Fate)> Run<'_, F> {
    fn context(&mut self) -> Context {
        // SplitMix64: the same numbers in each run.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Context { now: self.now, random: mixed ^ (mixed >> 31) }
    }

    fn arrive(&mut self, number: Number, mut meta: Meta) {
        meta.arrived = self.now;
        meta.direction = self.graph.direction();
        let work = Work { unit: UnitId(0), suite: meta.suite, direction: meta.direction, joining: 0 };
        meta.amount.ns = self.cost.ns(&work, &meta.amount);
        let context = self.context();
        self.graph.offer(HookPoint::In1a, number, meta, &context, &mut self.ended);
        self.turn();
    }

    /// Do what happens before a time.
    fn until(&mut self, time: Time) {
        loop {
            let done = self.processors.next_end();
            let context = self.context();
            // What can go at once has gone, but for units that want no more: only a later time is an event.
            let wake = match self.graph.wake(&context) {
                Wake::At(at) if at > self.now => Some(at),
                Wake::At(_) | Wake::Room | Wake::Packet | Wake::Never => None,
            };
            let Some(next) = [done, wake].into_iter().flatten().min().filter(|next| *next <= time) else {
                break;
            };
            self.now = next;
            while let Some(event) = self.processors.finish(next) {
                let context = self.context();
                let (unit, was_step) = match event {
                    Event::Done(job) => {
                        // The cost is the model's own, so that nothing is learned.
                        let answer = self.graph.done(job.unit, job.job, job.ns, &context);
                        debug_assert!(answer.is_ok(), "{answer:?}");
                        self.graph.offer(HookPoint::In4a, job.number, job.meta, &context, &mut self.ended);
                        (job.unit, !self.graph.dispatcher().is_expedited(job.unit, job.meta.aggregate))
                    }
                    Event::Step(unit) => (unit, true),
                };
                if was_step && let Some(assignment) = self.graph.between(unit, &context, &mut self.ended) {
                    self.processors.add(self.graph, self.cost, &assignment, self.now, true);
                }
            }
            self.turn();
        }
        if time.0 != u64::MAX {
            self.now = self.now.max(time);
        }
    }

    /// One turn of the thread: packets go on from queue to queue until none can.
    fn turn(&mut self) {
        let context = self.context();
        loop {
            let mut moved = false;
            while let Some(due) = self.graph.serve(&context, &mut self.ended) {
                let onwards = if due.at == HookPoint::Out4b { HookPoint::In2a } else { HookPoint::In3a };
                self.graph.offer(onwards, due.item, due.meta, &context, &mut self.ended);
                moved = true;
            }
            while let Some(due) = self.graph.take(HookPoint::Out2b, &context, &mut self.ended) {
                self.report.leave(&due.meta, self.now);
                (self.each)(fate(due.item, &due.meta, None, self.now));
                moved = true;
            }
            while let Some(mut assignment) = self.graph.next(&context, &mut self.ended) {
                let whole = assignment.meta.amount;
                if assignment.budget.packets < whole.packets {
                    let mut rest = assignment.meta;
                    rest.amount -= assignment.budget;
                    assignment.meta.amount = assignment.budget;
                    self.graph.rest(assignment.job, assignment.item, rest, &context);
                }
                self.processors.add(self.graph, self.cost, &assignment, self.now, false);
                moved = true;
            }
            for ended in self.ended.drain(..) {
                self.report.end(&ended.meta, ended.cause, self.now);
                (self.each)(fate(ended.item, &ended.meta, Some(ended.cause), self.now));
            }
            if !moved {
                return;
            }
        }
    }
}

fn fate(number: Number, meta: &Meta, cause: Option<Cause>, now: Time) -> Fate {
    let wait = now.0.saturating_sub(meta.arrived.0);
    Fate { number, aggregate: meta.aggregate, cause, wait }
}
