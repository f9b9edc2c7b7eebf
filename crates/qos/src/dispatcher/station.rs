//! What the dispatcher has of a unit: its description, what waits for it, what is in flight on it.

use std::collections::VecDeque;

use wire::Time;

use crate::amount::Amount;
use crate::meta::{AggregateId, Direction};
use crate::node::Node;
use crate::unit::{Dql, HANG, Kind, MOST_AWAY, Mark, UnitSpec};

/// Jobs for which there is room from the start.
const JOBS: usize = 1024;
/// A limit that tunes itself is at least this part of the most.
const LEAST_PART: u64 = 32;

/// Whether a unit takes work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Active,
    /// It takes no more, and what is in flight is still awaited.
    Leaving,
    /// It did not answer in time.
    Hung,
    /// It is detached, and nothing is in flight.
    Gone,
}

/// A job in flight, or answered while an older one is in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) given: Time,
    pub(super) slot: usize,
    pub(super) suite: u16,
    pub(super) aggregate: AggregateId,
    pub(super) direction: Direction,
    pub(super) joins: bool,
    /// It got in between the steps of another one.
    pub(super) is_between: bool,
    pub(super) is_answered: bool,
    /// What was given, with the nanoseconds that are committed for it.
    pub(super) amount: Amount,
}

/// The numbers of jobs, which go on when another unit takes the place of one that is gone.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    /// The number of the next job.
    pub(super) next: u64,
    /// The jobs that were given up last: the first, and the one behind the last.
    pub(super) given_up: (u64, u64),
}

/// A unit as the dispatcher sees it.
pub(super) struct Station<T> {
    pub(super) spec: UnitSpec,
    pub(super) queues: Node<T>,
    pub(super) status: Status,
    pub(super) committed: Amount,
    pub(super) waiting: Amount,
    /// It fell to its low mark, and has not reached the high one since.
    pub(super) is_filling: bool,
    /// The jobs behind the oldest one in flight, in the order of their numbers.
    pub(super) jobs: VecDeque<Job>,
    pub(super) in_flight: usize,
    /// Nanoseconds spent on the jobs that were answered.
    pub(super) busy: u64,
    pub(super) dql: Option<Dql>,
    /// Nanoseconds answered since the limit was tuned, and the time of the last answer.
    pub(super) answered: Option<(u64, Time)>,
    numbers: Numbers,
    /// The time of the last answer.
    pub(super) heard: Time,
    /// It took work when it began to hang, and may do so again.
    may_come_back: bool,
}

impl<T: 'static> Station<T> {
    pub(super) fn new(spec: UnitSpec, queues: Node<T>, numbers: Numbers) -> Station<T> {
        let answers_later = !matches!(spec.kind, Kind::Inline | Kind::Sliced { .. });
        let most = spec.most_committed;
        let dql = (spec.high == Mark::Auto && answers_later).then(|| Dql::new(most / LEAST_PART, most));
        Station {
            spec,
            queues,
            status: Status::Active,
            committed: Amount::default(),
            waiting: Amount::default(),
            is_filling: true,
            jobs: VecDeque::with_capacity(JOBS),
            in_flight: 0,
            busy: 0,
            dql,
            answered: None,
            numbers,
            heard: Time::default(),
            may_come_back: false,
        }
    }

    /// Take over another description. A limit that tuned itself goes on if it may.
    pub(super) fn exchange(&mut self, spec: UnitSpec) {
        let changed = spec.kind != self.spec.kind
            || spec.high != self.spec.high
            || spec.most_committed != self.spec.most_committed;
        if changed {
            let answers_later = !matches!(spec.kind, Kind::Inline | Kind::Sliced { .. });
            let most = spec.most_committed;
            self.dql = (spec.high == Mark::Auto && answers_later).then(|| Dql::new(most / LEAST_PART, most));
        }
        self.spec = spec;
    }

    pub(super) fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// The number of the oldest job that is kept.
    pub(super) fn first_number(&self) -> u64 {
        self.numbers.next - self.jobs.len() as u64
    }

    /// Keep a job, and answer its number.
    pub(super) fn add(&mut self, job: Job) -> u64 {
        self.committed += job.amount;
        self.in_flight += 1;
        self.jobs.push_back(job);
        self.numbers.next += 1;
        self.numbers.next - 1
    }

    /// Take work again after all jobs were given up; whether it was so.
    pub(super) fn revive(&mut self) -> bool {
        let comes_back = std::mem::take(&mut self.may_come_back) && self.status == Status::Gone;
        if comes_back {
            self.status = Status::Active;
            self.is_filling = true;
        }
        comes_back
    }

    /// It did not answer in time. One that was leaving already does not come back.
    pub(super) fn hang(&mut self) {
        self.may_come_back = self.status == Status::Active;
        self.status = Status::Hung;
    }

    /// Forget all jobs: their answers are late from now on.
    pub(super) fn give_up(&mut self) {
        self.numbers.given_up = (self.first_number(), self.numbers.next);
        self.jobs.clear();
        self.in_flight = 0;
        self.committed = Amount::default();
        self.status = Status::Gone;
    }

    pub(super) fn serves(&self, suite: u16, aggregate: AggregateId) -> bool {
        self.status == Status::Active
            && self.spec.suites.has(suite)
            && self.spec.reserved.is_none_or(|reserved| reserved.has(aggregate))
    }

    pub(super) fn serves_suite(&self, suite: u16) -> bool {
        self.status == Status::Active && self.spec.suites.has(suite)
    }

    /// What waits and what is committed.
    pub(super) fn load(&self) -> Amount {
        let mut load = self.waiting;
        load += self.committed;
        load
    }

    /// The low and the high mark.
    pub(super) fn marks(&self) -> (u64, u64) {
        let most = self.spec.most_committed;
        let high = match (self.spec.high, &self.dql) {
            (Mark::Fixed(high), _) => high.min(most),
            (Mark::Auto, Some(dql)) => dql.limit(),
            (Mark::Auto, None) => most,
        };
        let low = match self.spec.low {
            Mark::Fixed(low) => low.min(high),
            Mark::Auto => high / 2,
        };
        (low, high)
    }

    /// Whether it takes one more job, whatever it costs.
    pub(super) fn has_depth(&self) -> bool {
        match self.spec.kind {
            Kind::Async { depth } => self.in_flight < usize::from(depth.max(1)).min(MOST_AWAY),
            Kind::Worker | Kind::Sliced { .. } => self.in_flight < MOST_AWAY,
            Kind::Inline | Kind::Batch { .. } => true,
        }
    }

    /// Whether the next job joins a batch that is begun.
    pub(super) fn joins(&self) -> bool {
        match self.spec.kind {
            Kind::Batch { most } => !self.in_flight.is_multiple_of(usize::from(most.max(1))),
            Kind::Inline | Kind::Sliced { .. } | Kind::Worker | Kind::Async { .. } => false,
        }
    }

    /// The packets of an amount that cost less since they join others.
    pub(super) fn joining(&self, amount: &Amount, first_joins: bool) -> u64 {
        match self.spec.kind {
            Kind::Batch { .. } if first_joins => amount.packets,
            Kind::Batch { .. } => amount.packets.saturating_sub(1),
            Kind::Inline | Kind::Sliced { .. } | Kind::Worker | Kind::Async { .. } => 0,
        }
    }

    /// Whether a packet that is not expedited is in flight, in whose steps expedited ones get in between.
    pub(super) fn is_in_steps(&self) -> bool {
        let is_in_steps = |job: &Job| !job.is_answered && !self.spec.expedited.has(job.aggregate);
        matches!(self.spec.kind, Kind::Sliced { .. }) && self.jobs.iter().any(is_in_steps)
    }

    /// The time at which it hangs, unless it answers its oldest job. A sliced unit works on the thread that asks, and so
    /// does not hang while that does not.
    pub(super) fn hangs_at(&self) -> Option<Time> {
        let is_watched = matches!(self.status, Status::Active | Status::Leaving)
            && !matches!(self.spec.kind, Kind::Sliced { .. });
        let oldest = self.jobs.iter().find(|job| !job.is_answered).filter(|_| is_watched)?;
        // One that answers has much to do, and does not hang.
        Some(Time(oldest.given.max(self.heard).0.saturating_add(HANG)))
    }
}
