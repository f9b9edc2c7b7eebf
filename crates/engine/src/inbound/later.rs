//! Stage 4 in another place than this thread, or in steps: packets and bursts whose numbers were compared with the replay
//! window, for a unit that answers later or is sliced (paper 002 section III.E; docs/design/0045, 0046).
//!
//! The owner has checked lengths and sequence numbers. What is left needs the octets and a clone of the key, and nothing
//! of the association. The replay window takes a number when the answer comes, and is asked once more then.

use ipsec::Outer;
use ipsec::slot::{self, Opened};
use qos::dispatcher::JobId;
use qos::unit::UnitId;
use sadb::Spi;
use wire::burst::MAX_DATAGRAMS;
use wire::ip::Headers;
use wire::stage::{Clean, Raw, Scheduled};
use wire::{AggregateId, Burst, DropReason, Packet, Pool, Time};

use super::before::Before;
use super::burst::{Run, Runs};
use super::name::Name;
use super::queued::Progress;
use super::work::{OpenPacket, OpenTask, OpenWork};
use super::{Delivery, Inbound, InboundOutcome, Stages, after_opening, association, lend, unknown};
use crate::cx::Cx;
use crate::queued::FlightJob;
use crate::seam::{self, Turn};
use crate::stats::Dropped;

impl Inbound {
    /// Take work for a unit that answers later; `None` if there is none. The units' owner carries it to its unit, and
    /// the unit's answer to [`Inbound::answer`]. Call this behind [`Inbound::turn`].
    pub fn take_work(&mut self) -> Option<OpenWork> {
        self.stages.queues.as_mut()?.departed.pop_front()
    }

    /// Take the answer of a unit. What it has opened goes on to the host, in the order in which the unit was given it;
    /// what had been given up before does not.
    pub fn answer(
        &mut self,
        now: Time,
        work: OpenWork,
        pool: &mut Pool,
        out: &mut Vec<InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let (stages, mut cx) = self.lend(pool, out);
        stages.take_answer(now, work, &mut cx, delivery);
        stages.deliver(&mut cx, delivery);
    }

    /// Take a unit out that has failed: it gets no more work, what it had ends with
    /// [`DropReason::UnitFailed`](wire::DropReason::UnitFailed), and what waits for it goes to another unit, or ends
    /// with [`DropReason::NoUnit`](wire::DropReason::NoUnit).
    pub fn fail_unit(
        &mut self,
        now: Time,
        unit: UnitId,
        pool: &mut Pool,
        out: &mut Vec<InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let (stages, mut cx) = self.lend(pool, out);
        stages.fail_unit(now, unit, &mut cx, delivery);
        stages.deliver(&mut cx, delivery);
    }

    /// Do a step of the work that sliced units have. What is done goes on to the host. Returns whether there was any. Call
    /// [`Inbound::settle`] when that is delivered, before the next turn or step: it learns from it what a step takes.
    pub fn step(
        &mut self,
        now: Time,
        pool: &mut Pool,
        out: &mut Vec<InboundOutcome>,
        delivery: &mut Delivery,
    ) -> bool {
        let (stages, mut cx) = self.lend(pool, out);
        let any = stages.step(now, &mut cx, delivery);
        stages.deliver(&mut cx, delivery);
        any
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
    /// Prepare a packet of an association, which it has been compared with, for the unit that answers later. What is
    /// refused ends at once.
    pub(super) fn prepare_later(
        &mut self,
        packet: Packet<Scheduled>,
        outer: &Outer,
        before: Before,
        cx: &mut Cx<'_, InboundOutcome>,
    ) {
        let sa = self.sad.find_mut(Spi(outer.spi), outer.src, outer.dst);
        let (Some(sa), Some(queues)) = (sa, &mut self.queues) else {
            return cx.discard(packet, unknown(outer.spi), None);
        };
        match ipsec::prepare_open(sa, &packet, outer) {
            Ok(job) => {
                let copy = queues.state.take_copies_of(cx.out.len()).pop();
                let (key, outer) = (sa.key().clone(), *outer);
                let prepared = OpenPacket { key, job, packet, outer, before, copy, authentic: None };
                queues.tasks.push(OpenTask::Packet(prepared));
            }
            Err(reason) => {
                cx.report(Dropped::new(reason, &before.about, before.len, None));
                cx.pool.put(packet.into_buf());
            }
        }
    }

    /// Prepare a packet, whose turn it is, for the unit that answers later.
    pub(super) fn prepare_packet(
        &mut self,
        packet: Packet<Raw>,
        turn: Turn,
        cx: &mut Cx<'_, InboundOutcome>,
    ) {
        self.copied(packet, cx, |stages, packet, cx| {
            let parsed = Headers::parse(packet.bytes());
            match &parsed {
                Ok(headers) => stages.open_in::<true>(packet, headers, turn, cx),
                Err(error) => cx.discard(packet, (*error).into(), None),
            }
        });
    }

    /// Prepare datagrams of one association, whose turn it is, for the unit that answers later: one by one while they are
    /// copied.
    pub(super) fn prepare_datagrams(
        &mut self,
        now: Time,
        burst: Burst<Raw>,
        turn: Turn,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let later = |stages: &mut Stages, packet, headers: &Headers, cx: &mut Cx<'_, InboundOutcome>| {
            stages.open_in::<true>(packet, headers, turn, cx);
        };
        if self.copies_packets() {
            return self.take_apart(now, burst, cx, |stages, packet, cx| {
                stages.copied(packet, cx, |stages, packet, cx| stages.whole(packet, later, cx));
            });
        }
        let mut singly = |stages: &mut Stages, packet, cx: &mut Cx<'_, InboundOutcome>| {
            stages.whole(packet, later, cx);
        };
        let Some(runs) = self.runs(&burst).filter(Runs::is_single) else {
            return self.singly(now, burst, &mut singly, cx, delivery);
        };
        match burst.spread(runs.lead(), cx.pool) {
            Ok(burst) => self.prepare_burst(now, burst, &runs, turn, cx, delivery),
            Err(burst) => self.singly(now, burst, &mut singly, cx, delivery),
        }
    }

    /// Compare the numbers of a burst with the replay window, for the unit that answers later.
    fn prepare_burst(
        &mut self,
        now: Time,
        burst: Burst<Raw>,
        runs: &Runs,
        turn: Turn,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let header = burst.header;
        let Some(run) = runs.iter().next().copied() else { return cx.pool.put(burst.into_buf()) };
        let sa = self.sad.find_mut(Spi(run.spi), header.src, header.dst);
        let sa = sa.filter(|sa| sa.is_peer(header.src, header.dst, None));
        let (Some(sa), Some(queues)) = (sa, &mut self.queues) else {
            let reason = self.refusal(run.spi, &header).unwrap_or(unknown(run.spi));
            self.refuse_run(now, &burst, run, reason, cx, delivery);
            return cx.pool.put(burst.into_buf());
        };
        let burst: Burst<Clean> = burst.advance(&header);
        let burst = seam::schedule_burst(burst.advance(runs), turn);
        let mut opened = queues.spare.pop().unwrap_or_else(|| Vec::with_capacity(MAX_DATAGRAMS));
        opened.resize(burst.count(), Opened::NONE);
        slot::prepare_batch(sa, burst.bytes(), (burst.stride(), burst.lead()), &mut opened);
        let (key, shape) = (sa.key().clone(), sa.shape());
        queues.tasks.push(OpenTask::Burst { key, shape, burst, opened });
    }

    /// Send the tasks that were prepared off, as the work of this job. Returns whether there were any; if not, the job is
    /// done.
    pub(super) fn depart(&mut self, unit: UnitId, job: JobId, name: Name, meta: &qos::Meta) -> bool {
        let Some(queues) = &mut self.queues else { return false };
        if queues.tasks.is_empty() {
            return false;
        }
        let tasks = std::mem::replace(&mut queues.tasks, queues.lists.pop().unwrap_or_default());
        let expected = queues.state.postpone(job);
        queues.flights.add(unit, FlightJob { job, meta: *meta, expected });
        if let Some((serial, unit)) = queues.flights.depart() {
            let work = OpenWork { unit, serial, name, tasks, spent: 0, expected, place: None };
            if queues.state.is_sliced(unit) {
                queues.sliced.push(work);
            } else {
                queues.departed.push_back(work);
            }
        }
        true
    }

    /// A step of the work that sliced units have. Returns whether there was any.
    fn step(&mut self, now: Time, cx: &mut Cx<'_, InboundOutcome>, delivery: &mut Delivery) -> bool {
        let Some(queues) = &mut self.queues else { return false };
        let Some(unit) = queues.sliced.unit() else { return false };
        let most = queues.state.step_of(unit);
        if let Some(work) = queues.sliced.step(now, most) {
            self.take_answer(now, work, cx, delivery);
        }
        true
    }

    /// Do all work of sliced units that is in progress.
    #[cold]
    pub(super) fn finish_steps(
        &mut self,
        now: Time,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        while let Some(work) = self.queues.as_mut().and_then(|queues| queues.sliced.finish()) {
            self.take_answer(now, work, cx, delivery);
        }
    }

    pub(super) fn take_answer(
        &mut self,
        now: Time,
        work: OpenWork,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
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
            let Some(OpenWork { name, mut tasks, spent, place, .. }) = flight.work.take() else { return };
            let from = cx.out.len();
            let before = Progress::of(self.sad.find(Spi(name.spi), name.src, name.dst));
            let own = self.queues.as_mut().and_then(|queues| queues.collected.begin());
            let is_behind = own.is_some();
            let mut own = own.unwrap_or_default();
            for task in tasks.drain(..) {
                self.finish(now, name.spi, task, cx, if is_behind { &mut own } else { &mut *delivery });
            }
            let Some(queues) = &mut self.queues else { return };
            queues.lists.push(tasks);
            for job in &flight.jobs {
                queues.leave(&job.meta);
            }
            let meta = flight.jobs.first().map(|job| job.meta).unwrap_or_default();
            if place.is_some() {
                // What its last step takes is not known yet.
                queues.sliced.keep(flight, spent);
            } else {
                let context = queues.state.context(now);
                queues.state.answer(&flight, spent, &context);
                queues.flights.recycle(flight.jobs);
            }
            self.charge(&name, &meta, meta.amount, before, now);
            if is_behind {
                self.deliver(cx, &mut own);
                self.offer_opened((name, &meta), from, now, own, cx, delivery);
            } else {
                self.deliver(cx, delivery);
            }
            if !self.nested.is_empty() {
                self.offer_nested(Some(&meta), now, cx, delivery);
            }
            self.end_dropped(now, cx, delivery);
        }
        self.release_opened(now, cx, delivery);
    }

    /// Stages 4 to 9 behind the cipher. What was not computed, or is of an association that was removed, ends.
    fn finish(
        &mut self,
        now: Time,
        spi: u32,
        task: OpenTask,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        match task {
            OpenTask::Packet(prepared) => self.finish_packet(now, prepared, cx),
            OpenTask::Burst { key, mut burst, mut opened, .. } => {
                let header = burst.header;
                let run = Run { spi, from: 0, to: burst.count() };
                let sa = self.sad.find_mut(Spi(run.spi), header.src, header.dst);
                // Another association may have the SPI meanwhile, and its window knows nothing of these numbers.
                let is_same = |sa: &&mut sadb::InboundSa| {
                    sa.key().is_shared_with(&key) && sa.is_peer(header.src, header.dst, None)
                };
                let Some(sa) = sa.filter(is_same) else {
                    let reason = self.refusal(run.spi, &header).unwrap_or(unknown(run.spi));
                    self.refuse_run(now, &burst, run, reason, cx, delivery);
                    return cx.pool.put(burst.into_buf());
                };
                let shape = (burst.stride(), burst.lead());
                slot::finish_batch(sa, now, &header, burst.bytes_mut(), shape, &mut opened);
                self.admit_burst(now, burst, &[run], &opened, cx, delivery);
                if let Some(queues) = &mut self.queues {
                    queues.spare.push(opened);
                }
            }
        }
    }

    fn finish_packet(&mut self, now: Time, prepared: OpenPacket, cx: &mut Cx<'_, InboundOutcome>) {
        let OpenPacket { key, job, mut packet, outer, mut before, copy, authentic } = prepared;
        if let (Some(mut copy), Some(queues)) = (copy, &mut self.queues) {
            copy.from = cx.out.len();
            queues.state.copy_again(copy);
        }
        packet.meta.received = now;
        before.about.at = now;
        let sa = match association(&mut self.sad, &outer) {
            Ok(sa) => sa,
            Err(reason) => {
                cx.report(Dropped::new(reason, &before.about, before.len, None));
                return cx.pool.put(packet.into_buf());
            }
        };
        if !sa.key().is_shared_with(&key) {
            // Another association has the SPI, and its window knows nothing of this number.
            cx.report(Dropped::new(unknown(outer.spi), &before.about, before.len, None));
            return cx.pool.put(packet.into_buf());
        }
        // Others may have come in between.
        before.is_settled = sa.is_settled(outer.src, outer.src_port.unwrap_or_default());
        before.top = sa.replay.top();
        let authentic = authentic.unwrap_or(Err(DropReason::UnitFailed));
        let opened = ipsec::finish_open(sa, packet, &outer, &job, authentic, cx.pool);
        let nested = after_opening(sa, opened, &outer, &before, lend!(self, &[]), cx);
        if let Some((packet, headers)) = nested {
            let (name, from) = (sa.name(), cx.out.len());
            self.nest(packet, headers, name, cx);
            self.hold_copies(from, cx);
        }
    }

    /// Take units out that have not answered in time. Returns whether there were any.
    pub(super) fn end_overdue(
        &mut self,
        now: Time,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) -> bool {
        let mut any = false;
        while let Some(unit) = self.queues.as_mut().and_then(|queues| queues.state.overdue(now)) {
            self.fail_unit(now, unit, cx, delivery);
            any = true;
        }
        any
    }

    #[cold]
    pub(super) fn fail_unit(
        &mut self,
        now: Time,
        unit: UnitId,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let Some(queues) = &mut self.queues else { return };
        let ready = queues.departed.iter().filter(|work| work.unit == unit).count();
        let is_sliced = queues.state.is_sliced(unit);
        let pieces = if is_sliced { 0 } else { queues.flights.unanswered(unit).saturating_sub(ready) };
        queues.state.fail_unit(now, unit, pieces);
        for work in queues.sliced.give_up(unit) {
            work.tasks.into_iter().for_each(|task| task.abandon(cx.pool));
        }
        queues.departed.retain_mut(|work| {
            let is_other = work.unit != unit;
            if !is_other {
                work.tasks.drain(..).for_each(|task| task.abandon(cx.pool));
            }
            is_other
        });
        while let Some(flight) = self.queues.as_mut().and_then(|queues| queues.flights.give_up(unit)) {
            let Some(queues) = &mut self.queues else { return };
            for job in &flight.jobs {
                queues.state.graph.pass(&job.meta);
                cx.lose_job(now, &job.meta);
            }
            if let Some(work) = flight.work {
                work.tasks.into_iter().for_each(|task| task.abandon(cx.pool));
            }
        }
        self.end_dropped(now, cx, delivery);
    }
}
