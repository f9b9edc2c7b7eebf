//! Work that units do apart from the thread that dispatches, or on it in steps: how it departs, how it is answered, and
//! what becomes of it if its unit does not answer (paper 002 section III.E; docs/design/0045, 0046).

use qos::graph::description::HookPoint;
use qos::unit::UnitId;
use wire::{AggregateId, Pool, Time};

use super::super::outcome::Outcome;
use super::super::protector::SealWork;
use super::super::{Outbound, Stages};
use crate::cx::Cx;

impl Outbound {
    /// Take work for a unit that answers later; `None` if there is none. The units' owner carries it to its unit, and
    /// the unit's answer to [`Outbound::answer`]. Call this behind [`Outbound::turn`].
    pub fn take_work(&mut self) -> Option<SealWork> {
        self.stages.queues.as_mut()?.departed.pop_front()
    }

    /// Take the answer of a unit. What it has sealed leaves, in the order in which the unit was given it; what had been
    /// given up before does not.
    pub fn answer(&mut self, now: Time, work: SealWork, pool: &mut Pool, out: &mut Vec<Outcome>) {
        let (stages, mut cx) = self.lend(pool, out);
        stages.take_answer(now, work, &mut cx);
    }

    /// Take a unit out that has failed: it gets no more work, what it had ends with
    /// [`DropReason::UnitFailed`](wire::DropReason::UnitFailed), and what waits for it goes to another unit, or ends
    /// with [`DropReason::NoUnit`](wire::DropReason::NoUnit).
    pub fn fail_unit(&mut self, now: Time, unit: UnitId, pool: &mut Pool, out: &mut Vec<Outcome>) {
        let (stages, mut cx) = self.lend(pool, out);
        stages.fail_unit(now, unit, &mut cx);
    }

    /// Do a step of the work that sliced units have. What is done leaves. Returns whether there was any. Call
    /// [`Outbound::settle`] when that is carried out, before the next turn or step: it learns from it what a step takes.
    pub fn step(&mut self, now: Time, pool: &mut Pool, out: &mut Vec<Outcome>) -> bool {
        let (stages, mut cx) = self.lend(pool, out);
        stages.step(now, &mut cx)
    }

    /// Whether work of a sliced unit is in progress. Nobody waits for a packet then.
    pub fn is_in_progress(&self) -> bool {
        self.stages.queues.as_ref().is_some_and(|queues| !queues.sliced.is_empty())
    }

    /// Whether steps of a piece of work are done, and not its last one.
    pub fn is_begun(&self) -> bool {
        self.stages.queues.as_ref().is_some_and(|queues| queues.sliced.begun().is_some())
    }

    /// Whether packets of these classes may have a turn before the piece of work is done whose steps are under way. Between
    /// two pieces all may.
    pub fn gets_ahead(&self, classes: &[AggregateId]) -> bool {
        let Some(queues) = &self.stages.queues else { return true };
        queues.sliced.begun().is_none_or(|unit| queues.state.gets_ahead(unit, classes))
    }

    /// The number of pieces of work of a unit that are not answered.
    pub fn unanswered(&self, unit: UnitId) -> usize {
        let queues = self.stages.queues.as_ref();
        queues.map_or(0, |queues| queues.flights.unanswered(unit))
    }

    /// Whether no work is in flight on a unit.
    pub fn is_landed(&self) -> bool {
        self.stages.queues.as_ref().is_none_or(|queues| queues.flights.is_empty())
    }
}

impl Stages {
    /// Send the work off that is put together, if what comes next does not belong to it: another unit does it, it is
    /// large enough, or a component may tell its packets apart.
    pub(super) fn depart_before(&mut self, unit: UnitId, meta: &qos::Meta, cx: &mut Cx<'_, Outcome>) {
        let Some(queues) = &self.queues else { return };
        let Some(open) = queues.flights.open() else { return };
        let is_large = open.expected() >= queues.state.grain(unit);
        let is_other = open.jobs.last().is_some_and(|last| queues.collected.differ(&last.meta, meta));
        if open.unit != unit || is_large || is_other {
            self.depart(cx);
        }
    }

    /// Send the work off that is put together.
    pub(super) fn depart(&mut self, cx: &mut Cx<'_, Outcome>) {
        let is_open = self.queues.as_ref().is_some_and(|queues| queues.flights.open().is_some());
        if !is_open {
            return;
        }
        self.protector.flush(cx);
        let Some(queues) = &mut self.queues else { return };
        let tasks = self.protector.take_tasks(queues.lists.pop().unwrap_or_default());
        let expected = queues.flights.open().map_or(1, |open| open.expected());
        if let Some((serial, unit)) = queues.flights.depart() {
            let work = SealWork { unit, serial, tasks, spent: 0, expected, place: None };
            if queues.state.is_sliced(unit) {
                queues.sliced.push(work);
            } else {
                queues.departed.push_back(work);
            }
        }
    }

    /// A step of the work that sliced units have. Returns whether there was any.
    fn step(&mut self, now: Time, cx: &mut Cx<'_, Outcome>) -> bool {
        let Some(queues) = &mut self.queues else { return false };
        let Some(unit) = queues.sliced.unit() else { return false };
        let most = queues.state.step_of(unit);
        if let Some(work) = queues.sliced.step(now, most) {
            self.take_answer(now, work, cx);
        }
        true
    }

    /// Do all work of sliced units that is in progress.
    #[cold]
    pub(super) fn finish_steps(&mut self, now: Time, cx: &mut Cx<'_, Outcome>) {
        while let Some(work) = self.queues.as_mut().and_then(|queues| queues.sliced.finish()) {
            self.take_answer(now, work, cx);
        }
    }

    /// While packets are copied: send the work off with the copy of its packet, if its outcomes are still to come. A
    /// packet that ended as it was prepared has its outcome already.
    pub(super) fn depart_with_copy(&mut self, from: usize, cx: &mut Cx<'_, Outcome>) {
        if let Some(queues) = &mut self.queues
            && queues.flights.open().is_some()
        {
            if cx.out.len() == from {
                let copies = queues.state.take_copies_of(from);
                queues.flights.add_copies(copies);
            }
            self.depart(cx);
        }
    }

    pub(super) fn take_answer(&mut self, now: Time, work: SealWork, cx: &mut Cx<'_, Outcome>) {
        let Some(queues) = &mut self.queues else {
            return work.tasks.into_iter().for_each(|task| task.abandon(cx.pool));
        };
        let (answer, back) = queues.flights.answer(work.serial, work);
        queues.state.faults.note(answer);
        if let Some(late) = back {
            queues.state.answered_late(late.unit);
            late.tasks.into_iter().for_each(|task| task.abandon(cx.pool));
        }
        while let Some(mut flight) = self.queues.as_mut().and_then(|queues| queues.flights.next_answered()) {
            let from = cx.out.len();
            let Some(SealWork { mut tasks, spent, place, .. }) = flight.work.take() else { return };
            if let Some(queues) = &mut self.queues {
                queues.state.copy_all(std::mem::take(&mut flight.copies), from);
            }
            tasks.drain(..).for_each(|task| self.protector.finish(task, cx));
            let Some(queues) = &mut self.queues else { return };
            queues.lists.push(tasks);
            for job in &flight.jobs {
                queues.leave(&job.meta);
            }
            if place.is_some() {
                // What its last step takes is not known yet.
                queues.sliced.keep(flight, spent);
            } else {
                let context = queues.state.context(now);
                queues.state.answer(&flight, spent, &context);
                queues.flights.recycle(flight.jobs);
            }
            let is_wanted = queues.collected.is_wanted;
            if self.protector.has_bundled() {
                self.offer_bundled(None, from, now, cx);
            }
            if is_wanted {
                self.offer_results(HookPoint::In4a, from, now, cx);
            }
        }
        self.release_results(now, cx);
    }

    /// Take units out that have not answered in time. Returns whether there were any.
    pub(super) fn end_overdue(&mut self, now: Time, cx: &mut Cx<'_, Outcome>) -> bool {
        let mut any = false;
        while let Some(unit) = self.queues.as_mut().and_then(|queues| queues.state.overdue(now)) {
            self.fail_unit(now, unit, cx);
            any = true;
        }
        any
    }

    #[cold]
    pub(super) fn fail_unit(&mut self, now: Time, unit: UnitId, cx: &mut Cx<'_, Outcome>) {
        let Some(queues) = &mut self.queues else { return };
        let ready = queues.departed.iter().filter(|work| work.unit == unit).count();
        let is_sliced = queues.state.is_sliced(unit);
        let pieces = if is_sliced { 0 } else { queues.flights.unanswered(unit).saturating_sub(ready) };
        queues.state.fail_unit(now, unit, pieces);
        for mut work in queues.sliced.give_up(unit) {
            give_back(&mut work, cx.pool);
        }
        queues.departed.retain_mut(|work| work.unit != unit || give_back(work, cx.pool));
        while let Some(flight) = self.queues.as_mut().and_then(|queues| queues.flights.give_up(unit)) {
            let Some(queues) = &mut self.queues else { return };
            queues.state.copy_all(flight.copies, cx.out.len());
            for job in &flight.jobs {
                queues.state.graph.pass(&job.meta);
                cx.lose_job(now, &job.meta);
            }
            if let Some(work) = flight.work {
                work.tasks.into_iter().for_each(|task| task.abandon(cx.pool));
            }
        }
        self.end(now, cx);
    }
}

/// Give the buffers of work back that has not departed. Returns `false`, so that the work is forgotten.
fn give_back(work: &mut SealWork, pool: &mut Pool) -> bool {
    work.tasks.drain(..).for_each(|task| task.abandon(pool));
    false
}
