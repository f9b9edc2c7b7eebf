//! A turn of the outbound half: packets go to cryptography in the order of the graph, as far as the units want work.
//!
//! The work of an inline unit is done in the turn, and so is what is expedited on a sliced one. That of a unit which answers
//! later, and what a sliced unit does in steps, is put together here, with sequence numbers, headers and trailers, and goes
//! on in `later.rs`.

use qos::Amount;
use qos::dispatcher::{Assignment, Grant, JobId};
use qos::graph::description::HookPoint;
use qos::unit::UnitId;
use wire::ip::Headers;
use wire::{AggregateId, DropReason, Time};

use super::super::graph::{Chosen, Waiting};
use super::super::outcome::Outcome;
use super::super::protector::{Progress, clear};
use super::super::selection::Obstacle;
use super::super::{Stages, fast_path, route};
use super::write_marks;
use crate::cx::Cx;
use crate::queued::Ticket;
use crate::seam;

/// The unit and the job of what is carried on.
pub(super) type UnitJob = (UnitId, JobId);

impl Stages {
    /// Hooks 5a and 5b, and stages 5 and 6 for what the dispatcher gives. Returns whether there was anything.
    pub(super) fn turn(&mut self, now: Time, cx: &mut Cx<'_, Outcome>) -> bool {
        let mut any = self.end_overdue(now, cx);
        if let Some(queues) = &mut self.queues {
            queues.state.begin_turn(now);
        }
        // The first outcome that is not offered at 4a yet.
        let mut from = cx.out.len();
        while let Some(queues) = &mut self.queues {
            let context = queues.state.context(now);
            let between = match queues.sliced.is_empty() {
                true => None,
                false => queues.state.between(queues.sliced.units(), &context),
            };
            let assignment = between.or_else(|| queues.state.next(&context));
            let has_ended = queues.state.has_ended();
            let is_copying = queues.state.is_copying();
            if let Some(assignment) = assignment {
                any = true;
                if queues.collected.is_of_others(&assignment.meta) {
                    self.finish_results(&mut from, now, cx);
                }
                self.depart_before(assignment.unit, &assignment.meta, cx);
                self.carry_on(now, assignment, cx);
                if is_copying {
                    // What becomes of it is known at once, or its copy goes with the work.
                    self.finish_results(&mut from, now, cx);
                    self.depart_with_copy(from, cx);
                }
            } else if !has_ended {
                break;
            }
            if has_ended {
                self.end(now, cx);
            }
            if is_copying {
                from = cx.out.len();
            }
            if self.queues.as_ref().is_none_or(|queues| queues.state.is_turn_full()) {
                break;
            }
        }
        self.finish_results(&mut from, now, cx);
        self.depart(cx);
        self.protector.leave_to_unit(false, cx);
        self.release_results(now, cx);
        any
    }

    /// Close the burst that is open, and offer the outcomes from this place on at 4a if components hang there.
    fn finish_results(&mut self, from: &mut usize, now: Time, cx: &mut Cx<'_, Outcome>) {
        self.protector.flush(cx);
        if self.queues.as_ref().is_some_and(|queues| queues.collected.is_wanted) {
            self.offer_results(HookPoint::In4a, *from, now, cx);
            *from = cx.out.len();
        }
    }

    /// Protect a packet, or so many pieces of it, whose turn it is. What has a next member of its bundle goes back to the
    /// queues.
    fn carry_on(&mut self, now: Time, assignment: Assignment<Ticket>, cx: &mut Cx<'_, Outcome>) {
        let Some(queues) = &mut self.queues else { return };
        let (meta, from) = (assignment.meta, cx.out.len());
        self.protector.stop_between_members(Some(meta));
        match queues.state.take(assignment.item) {
            Some(Waiting::Selected(chosen)) => self.protect_chosen(now, assignment, chosen, cx),
            Some(Waiting::Bundled(entry)) => self.protect_bundled(assignment, entry, cx),
            // Nothing behind cryptography waits for a unit.
            Some(Waiting::Received(..) | Waiting::Finished(_)) | None => {}
        }
        self.protector.stop_between_members(None);
        if self.protector.has_bundled() {
            self.offer_bundled(Some(&meta), from, now, cx);
        }
    }

    fn protect_chosen(
        &mut self,
        now: Time,
        assignment: Assignment<Ticket>,
        mut chosen: Chosen,
        cx: &mut Cx<'_, Outcome>,
    ) {
        let Some(queues) = &mut self.queues else { return };
        let Assignment { grant, unit, job, item: _, meta, budget } = assignment;
        chosen.packet.meta.received = now;
        chosen.packet.meta.aggregate = meta.aggregate;
        write_marks(&mut chosen.packet, &meta);
        queues.state.copy(&chosen.packet, cx.out.len());
        // A burst has packets of one class: where a unit fails, no class pays for another.
        if std::mem::replace(&mut queues.last, meta.aggregate) != meta.aggregate {
            self.protector.flush(cx);
        }
        let given = (unit, job);
        if chosen.epoch != self.decider.epoch(self.protector.sad()) {
            return self.decide_again((&grant, given), chosen, meta, cx);
        }
        let Some(association) = chosen.selection.association() else {
            cx.discard(chosen.packet, DropReason::NoSa, None);
            self.leave(&meta);
            return;
        };
        self.choose_place(given, meta.aggregate, cx);
        let is_cut = budget.packets < meta.amount.packets;
        let turn = seam::turn_granted(&grant);
        // Most packets: their flow's burst is open, or one can be begun.
        if !is_cut
            && chosen.sent.is_start()
            && let Some(plain) = fast_path::plain(&chosen.packet)
            && self.protector.open_for(&plain) == Some(association)
        {
            self.protector.append(&chosen.packet, &plain, turn, cx);
            cx.pool.put(chosen.packet.into_buf());
            self.leave_unit(given, &meta);
            return;
        }
        let headers = match Headers::parse(chosen.packet.bytes()) {
            Ok(headers) => headers,
            Err(error) => {
                cx.discard(chosen.packet, error.into(), None);
                self.leave(&meta);
                return;
            }
        };
        let flow = route::final_flow(chosen.packet.bytes(), &headers);
        if is_cut || !chosen.sent.is_start() {
            // The last turn takes what is left, also where the path has become narrower and there is more of it.
            let most =
                if is_cut { usize::try_from(budget.packets).unwrap_or(usize::MAX) } else { usize::MAX };
            let pieces = (chosen.sent, most);
            let packet = &mut chosen.packet;
            match self.protector.protect_pieces(association, packet, &headers, &flow, pieces, turn, cx) {
                Progress::More(place) => {
                    chosen.sent = place;
                    return self.put_rest(now, given, chosen, meta, budget, cx);
                }
                Progress::Done => {
                    cx.pool.put(chosen.packet.into_buf());
                    self.leave_unit(given, &meta);
                    return;
                }
                // It goes through in one: a bundle, or a packet that is not copied.
                Progress::Whole if chosen.sent.is_start() => {}
                // Its first pieces have left in a way that does not go on so.
                Progress::Whole => {
                    cx.discard(chosen.packet, DropReason::NoSa, Some(&flow));
                    self.leave(&meta);
                    return;
                }
            }
        }
        let packet = seam::schedule_granted(chosen.packet, &grant);
        self.protector.protect(association, packet, &headers, &flow, cx);
        self.leave_unit(given, &meta);
    }

    /// Put a super-packet of which pieces have left back to the head of its queue.
    fn put_rest(
        &mut self,
        now: Time,
        given: UnitJob,
        chosen: Chosen,
        mut meta: qos::Meta,
        done: Amount,
        cx: &mut Cx<'_, Outcome>,
    ) {
        self.leave_unit(given, &qos::Meta { amount: done, ..meta });
        let Some(queues) = &mut self.queues else { return cx.pool.put(chosen.packet.into_buf()) };
        let context = queues.state.context(now);
        meta.amount.packets -= done.packets.min(meta.amount.packets);
        meta.amount.octets -= done.octets.min(meta.amount.octets);
        match queues.state.keep(Waiting::Selected(chosen)) {
            Ok(ticket) => queues.state.graph.rest(given.1, ticket, meta, &context),
            // Its place was freed a moment ago.
            Err(waiting) => self.end_waiting(waiting, DropReason::QueueFull, cx),
        }
    }

    /// Decide once more about a packet whose decision is of an earlier policy or of other associations.
    #[cold]
    fn decide_again(
        &mut self,
        (grant, given): (&Grant, UnitJob),
        chosen: Chosen,
        meta: qos::Meta,
        cx: &mut Cx<'_, Outcome>,
    ) {
        let Chosen { mut packet, sent, .. } = chosen;
        let headers = match Headers::parse(packet.bytes()) {
            Ok(headers) => headers,
            Err(error) => {
                self.leave(&meta);
                return cx.discard(packet, error.into(), None);
            }
        };
        let flow = route::final_flow(packet.bytes(), &headers);
        let sad = self.protector.sad_mut();
        let selection = match self.decider.decide(&mut packet, &headers, &flow, sad, cx) {
            Ok(selection) => selection,
            Err(obstacle) => {
                self.leave(&meta);
                let reason = match obstacle {
                    Obstacle::Refused(reason) => reason,
                    // It has come too far to wait for either once more.
                    Obstacle::Association => DropReason::NoSa,
                    Obstacle::Entry => DropReason::NoEntry,
                };
                return cx.discard(packet, reason, Some(&flow));
            }
        };
        // The class in which it waited stays.
        packet.meta.aggregate = meta.aggregate;
        let (rule, sad) = (packet.meta.rule, self.protector.sad());
        let of_class = |association| self.decider.association_of(association, rule, meta.aggregate, sad);
        let Some(association) = selection.association().map(of_class) else {
            self.leave(&meta);
            return match sent.is_start() {
                true => clear(packet, &headers, &flow, cx),
                false => cx.discard(packet, DropReason::NoSa, Some(&flow)),
            };
        };
        self.choose_place(given, meta.aggregate, cx);
        if sent.is_start() {
            let packet = seam::schedule_granted(packet, grant);
            self.protector.protect(association, packet, &headers, &flow, cx);
        } else {
            let (pieces, turn) = ((sent, usize::MAX), seam::turn_granted(grant));
            let rest =
                self.protector.protect_pieces(association, &mut packet, &headers, &flow, pieces, turn, cx);
            match rest {
                Progress::Done | Progress::More(_) => cx.pool.put(packet.into_buf()),
                // Its first pieces have left in another association, which does not go on so.
                Progress::Whole => cx.discard(packet, DropReason::NoSa, Some(&flow)),
            }
        }
        self.leave_unit(given, &meta);
    }

    /// Leave the cipher's part to the unit if it answers later, or in steps.
    pub(super) fn choose_place(
        &mut self,
        (unit, _): UnitJob,
        aggregate: AggregateId,
        cx: &mut Cx<'_, Outcome>,
    ) {
        let is_later = self.queues.as_ref().is_some_and(|queues| queues.state.answers_later(unit, aggregate));
        self.protector.leave_to_unit(is_later, cx);
    }

    /// A packet has left cryptography, or is in work that a unit answers later. One that goes on to the next member of its
    /// bundle has not left.
    pub(super) fn leave_unit(&mut self, (unit, job): UnitJob, meta: &qos::Meta) {
        let Some(queues) = &mut self.queues else { return };
        if self.protector.is_left_to_unit() {
            queues.postpone(unit, job, meta);
        } else if !self.protector.has_bundled() {
            queues.leave(meta);
        }
    }
}
