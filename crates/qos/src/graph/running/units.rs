//! The half of a running graph around its units: what is given to them, and what they answer.

use wire::Time;

use super::super::description::HookPoint;
use super::{Due, Graph, slot};
use crate::component::Context;
use crate::dispatcher::{Assignment, JobId};
use crate::meta::Meta;
use crate::node::{Ended, Offered};
use crate::unit::{UnitFault, UnitId};

impl<T: 'static> Graph<T> {
    /// The next assignment to a unit. What waits at 3b goes on to 5a first.
    pub fn next(&mut self, context: &Context, ended: &mut Vec<Ended<T>>) -> Option<Assignment<T>> {
        self.forward(context, ended);
        let from = ended.len();
        let assignment = self.dispatcher.next(context, ended);
        self.count_ended(HookPoint::Out5b, &ended[from..]);
        Some(self.given(assignment?, context))
    }

    /// A packet that gets in between two steps of a sliced unit. What waits at 3b goes on to 5a first.
    pub fn between(
        &mut self,
        unit: UnitId,
        context: &Context,
        ended: &mut Vec<Ended<T>>,
    ) -> Option<Assignment<T>> {
        self.forward(context, ended);
        let from = ended.len();
        let assignment = self.dispatcher.between(unit, context, ended);
        self.count_ended(HookPoint::Out5b, &ended[from..]);
        Some(self.given(assignment?, context))
    }

    /// What waits at 3b goes on to 5a. Mostly nothing does, and to see that costs less than to take.
    #[inline]
    fn forward(&mut self, context: &Context, ended: &mut Vec<Ended<T>>) {
        let place = slot(HookPoint::Out3b);
        while place.is_some_and(|place| !self.slots[place].node.is_empty())
            && let Some(Due { item, meta, .. }) = self.take(HookPoint::Out3b, context, ended)
        {
            self.offer_to_units(item, meta, context, ended);
        }
    }

    fn given(&mut self, mut assignment: Assignment<T>, context: &Context) -> Assignment<T> {
        self.counts.given_one(&assignment.meta, assignment.budget.ns, context.now);
        let queues = self.queues.iter_mut().find(|queues| queues.unit == assignment.unit);
        if let Some(queues) = queues.filter(|queues| !queues.behind.is_empty()) {
            // Only behaviours that drop nothing stand there, which the compiler sees to.
            let _ = queues.behind.run(&mut assignment.meta, context);
        }
        assignment
    }

    /// Put the rest of a super-packet that was cut back to the head of its queue.
    pub fn rest(&mut self, job: JobId, item: T, meta: Meta, context: &Context) {
        self.counts.rest(&meta);
        self.dispatcher.rest(job, item, meta, context);
    }

    /// A unit answered a job of so many packets, for which it spent so many nanoseconds.
    ///
    /// # Errors
    ///
    /// The fault of the unit. The job is accounted for as far as it was in flight.
    pub fn done(&mut self, unit: UnitId, job: JobId, spent: u64, context: &Context) -> Result<(), UnitFault> {
        let before = self.dispatcher.in_flight();
        let answer = self.dispatcher.done(unit, job, spent, context.now);
        self.counts.answered += before.saturating_sub(self.dispatcher.in_flight());
        answer
    }

    /// A unit that has not answered in time; see [`Dispatcher::overdue`].
    pub fn overdue(&mut self, now: Time) -> Option<UnitId> {
        self.dispatcher.overdue(now)
    }

    /// Take a unit out. What waits for it comes back, to be offered at 5a again. The answer is the number of jobs that
    /// are in flight on it still.
    pub fn detach(&mut self, unit: UnitId, back: &mut Vec<(T, Meta)>) -> usize {
        let from = back.len();
        let detached = self.dispatcher.detach(unit, back);
        for (_, meta) in &back[from..] {
            self.before_units.leave(meta);
            self.counts.back(HookPoint::Out5b, meta);
        }
        detached.map_or(0, |detached| detached.in_flight)
    }

    /// Give up the jobs in flight of a unit that was detached or hangs. The caller ends their packets.
    pub fn give_up(&mut self, unit: UnitId, lost: &mut Vec<JobId>) {
        let before = self.dispatcher.in_flight();
        self.dispatcher.give_up(unit, lost);
        self.counts.given_up += before.saturating_sub(self.dispatcher.in_flight());
    }

    /// Let a unit take work again that was given up, since it has answered everything; see [`Dispatcher::revive`].
    pub fn revive(&mut self, unit: UnitId) -> bool {
        self.dispatcher.revive(unit)
    }

    pub(super) fn offer_to_units(
        &mut self,
        item: T,
        mut meta: Meta,
        context: &Context,
        ended: &mut Vec<Ended<T>>,
    ) -> Offered {
        let at = HookPoint::In5a;
        self.classify_anew(at, &mut meta);
        if self.has_adopted && meta.units.0 != 0 {
            let capable = self.dispatcher.capable(meta.suite, meta.aggregate);
            if capable.0 & meta.units.0 == 0 {
                // The units that it knew are of the graph before.
                meta.units = capable;
            }
        }
        let judged = self.before_units.run(&mut meta, context);
        self.counts.come(at, &meta);
        if let Err(cause) = judged {
            self.counts.refused(at, &meta, cause);
            ended.push(Ended { item, meta, cause });
            self.leave_in_front(at, &meta);
            return Offered::Ended;
        }
        let from = ended.len();
        let offered = self.dispatcher.offer(item, meta, context, ended);
        self.count_offered(at, &meta, offered, &ended[from..]);
        offered
    }
}
