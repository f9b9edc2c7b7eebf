//! The processors of a simulation: what each does now, and until when.

use std::collections::VecDeque;

use wire::Time;

use crate::cost::{CostModel, Work};
use crate::dispatcher::{Assignment, JobId};
use crate::graph::Graph;
use crate::meta::Meta;
use crate::unit::{Kind, UnitId};

/// A job of a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) unit: UnitId,
    pub(super) job: JobId,
    pub(super) number: u64,
    pub(super) meta: Meta,
    /// The nanoseconds that it costs.
    pub(super) ns: u64,
}

/// One processor with its jobs in the order in which it does them.
#[derive(Debug, Default)]
struct Processor {
    jobs: VecDeque<Job>,
    /// The time at which the first job ends.
    end: Time,
}

impl Processor {
    fn next_end(&self) -> Option<Time> {
        (!self.jobs.is_empty()).then_some(self.end)
    }
}

/// The processor of the thread that dispatches, which is the first, and one for each unit that has its own.
#[derive(Debug)]
pub(super) struct Processors {
    all: Vec<Processor>,
}

impl Default for Processors {
    fn default() -> Processors {
        Processors { all: vec![Processor::default()] }
    }
}

impl Processors {
    /// Give an assignment to its processor.
    pub(super) fn add(
        &mut self,
        graph: &Graph<u64>,
        cost: &CostModel,
        assignment: &Assignment<u64>,
        now: Time,
    ) {
        let Assignment { unit, job, item, meta, .. } = assignment;
        let on_thread = matches!(
            graph.dispatcher().kind(*unit),
            None | Some(Kind::Inline | Kind::Sliced { .. } | Kind::Batch { .. })
        );
        let place = if on_thread { 0 } else { usize::from(unit.0) + 1 };
        while self.all.len() <= place {
            self.all.push(Processor::default());
        }
        let work = Work { unit: *unit, suite: meta.suite, direction: meta.direction, joining: 0 };
        let ns = cost.ns(&work, &meta.amount);
        let processor = &mut self.all[place];
        if processor.jobs.is_empty() {
            processor.end = Time(now.0.saturating_add(ns));
        }
        processor.jobs.push_back(Job { unit: *unit, job: *job, number: *item, meta: *meta, ns });
    }

    /// The time at which the next job ends.
    pub(super) fn next_end(&self) -> Option<Time> {
        self.all.iter().filter_map(Processor::next_end).min()
    }

    /// Take a job that ends now.
    pub(super) fn finish(&mut self, now: Time) -> Option<Job> {
        let processor = self.all.iter_mut().find(|processor| processor.next_end() == Some(now))?;
        let job = processor.jobs.pop_front()?;
        if let Some(next) = processor.jobs.front() {
            processor.end = Time(now.0.saturating_add(next.ns));
        }
        Some(job)
    }
}
