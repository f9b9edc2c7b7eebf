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
    /// The nanoseconds of it that are still to be done.
    left: u64,
    /// The longest step, on a sliced unit.
    step: u64,
}

/// What happens when a processor has done a step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The job is done as a whole.
    Done(Job),
    /// A job of this unit goes on, and another one may get in between.
    Step(UnitId),
}

/// One processor with its jobs in the order in which it does them.
#[derive(Debug, Default)]
struct Processor {
    jobs: VecDeque<Job>,
    /// The time at which the first job ends.
    end: Time,
}

impl Processor {
    /// Begin a step of the first job.
    fn begin(&mut self, now: Time) {
        if let Some(first) = self.jobs.front() {
            self.end = Time(now.0.saturating_add(first.left.min(first.step)));
        }
    }

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
        is_between: bool,
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
        let step = match graph.dispatcher().kind(*unit) {
            Some(Kind::Sliced { step }) if !graph.dispatcher().is_expedited(*unit, meta.aggregate) => {
                step.max(1)
            }
            _ => u64::MAX,
        };
        let processor = &mut self.all[place];
        let job = Job { unit: *unit, job: *job, number: *item, meta: *meta, ns, left: ns, step };
        if is_between {
            processor.jobs.push_front(job);
            processor.begin(now);
        } else {
            processor.jobs.push_back(job);
            if processor.jobs.len() == 1 {
                processor.begin(now);
            }
        }
    }

    /// The time at which the next step ends.
    pub(super) fn next_end(&self) -> Option<Time> {
        self.all.iter().filter_map(Processor::next_end).min()
    }

    /// Take a step that ends now.
    pub(super) fn finish(&mut self, now: Time) -> Option<Event> {
        let processor = self.all.iter_mut().find(|processor| processor.next_end() == Some(now))?;
        let first = processor.jobs.front_mut()?;
        first.left -= first.left.min(first.step);
        let event =
            if first.left > 0 { Event::Step(first.unit) } else { Event::Done(processor.jobs.pop_front()?) };
        processor.begin(now);
        Some(event)
    }
}
