//! A turn of the inbound half: packets and bursts are opened in the order of the graph, as far as the unit wants work.

use qos::Amount;
use qos::dispatcher::{Assignment, JobId};
use sadb::{InboundSa, Spi};
use wire::ip::{self, Headers};
use wire::stage::Raw;
use wire::{Burst, DropReason, Packet, Time};

use super::super::graph::{Waiting, WaitingEntry};
use super::super::name::Name;
use super::super::{Delivery, InboundOutcome, Stages};
use crate::cx::Cx;
use crate::queued::{Ticket, copy_of};
use crate::seam::{self, Turn};

/// The work that an association had done before a turn, to tell what became of the turn.
#[derive(Clone, Copy, Default)]
pub(in crate::inbound) struct Progress {
    forged: u64,
    authentic: u64,
}

impl Progress {
    pub(in crate::inbound) fn of(sa: Option<&InboundSa>) -> Progress {
        let Some(counters) = sa.map(|sa| &sa.counters) else { return Progress::default() };
        let dummies = counters.drops_for(DropReason::EspDummy);
        Progress { forged: counters.drops_for(DropReason::AuthFailed), authentic: counters.packets + dummies }
    }
}

impl Stages {
    /// Hooks 5a and 5b, and stages 3 to 9 for what the dispatcher gives. Returns whether there was anything.
    pub(super) fn turn(
        &mut self,
        now: Time,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) -> bool {
        let mut any = self.end_overdue(now, cx, delivery);
        if let Some(queues) = &mut self.queues {
            queues.state.begin_turn(now);
        }
        while let Some(queues) = &mut self.queues {
            let context = queues.state.context(now);
            let between = match queues.sliced.is_empty() {
                true => None,
                false => queues.state.between(queues.sliced.units(), &context),
            };
            let assignment = between.or_else(|| queues.state.next(&context));
            let has_ended = queues.state.has_ended();
            let turned = assignment.as_ref().map(|assignment| assignment.meta);
            if let Some(assignment) = assignment {
                any = true;
                // What came out of another association, or a tunnel, is opened in the turn, whatever the unit.
                let is_later = queues.state.answers_later(assignment.unit, assignment.meta.aggregate)
                    && !queues.is_nested(assignment.item);
                match queues.collected.begin().filter(|_| !is_later) {
                    _ if is_later => {
                        self.carry_on_later(now, assignment, cx, delivery);
                        self.deliver(cx, delivery);
                    }
                    Some(own) => self.carry_on_behind(now, assignment, cx, own, delivery),
                    None => {
                        self.carry_on(now, assignment, cx, delivery);
                        self.deliver(cx, delivery);
                    }
                }
            } else if !has_ended {
                break;
            }
            if let Some(meta) = turned.filter(|_| !self.nested.is_empty()) {
                self.offer_nested(Some(&meta), now, cx, delivery);
            }
            self.end_dropped(now, cx, delivery);
            if self.queues.as_ref().is_none_or(|queues| queues.state.is_turn_full()) {
                break;
            }
        }
        self.release_opened(now, cx, delivery);
        any
    }

    /// Open what has its turn, and offer what is for the host to the queues behind cryptography.
    fn carry_on_behind(
        &mut self,
        now: Time,
        assignment: Assignment<Ticket>,
        cx: &mut Cx<'_, InboundOutcome>,
        mut own: Delivery,
        delivery: &mut Delivery,
    ) {
        let (meta, from) = (assignment.meta, cx.out.len());
        let waiting = self.queues.as_ref().and_then(|queues| queues.state.waiting.get(assignment.item));
        let Some(name) = waiting.map(|held| held.name) else { return };
        self.carry_on(now, assignment, cx, &mut own);
        self.deliver(cx, &mut own);
        self.offer_opened((name, &meta), from, now, own, cx, delivery);
    }

    /// Prepare what has its turn for a unit that answers later, or in steps. What ends at once is done.
    fn carry_on_later(
        &mut self,
        now: Time,
        assignment: Assignment<Ticket>,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let Some(queues) = &mut self.queues else { return };
        let Assignment { grant, unit, job, item, meta, budget } = assignment;
        let Some(WaitingEntry { name, waiting }) = queues.state.take(item) else { return };
        let turn = seam::turn_granted(&grant);
        let before = Progress::of(self.sad.find(Spi(name.spi), name.src, name.dst));
        let mut done = meta;
        let mut rest = None;
        match waiting {
            Waiting::Packet(mut packet) => {
                packet.meta.received = now;
                note_congestion(&mut packet, &meta);
                self.prepare_packet(packet, turn, cx);
            }
            Waiting::Burst(mut burst) => {
                burst.header.tos = burst.header.tos & !3 | meta.ecn & 3;
                let part = cut(&mut burst, &meta, budget, cx);
                let now_due = match part {
                    Some(part) => {
                        done.amount = budget;
                        rest = Some(burst);
                        part
                    }
                    None => burst,
                };
                self.prepare_datagrams(now, now_due, turn, cx, delivery);
            }
            // It is opened in the turn, and does not come here.
            Waiting::Nested(entry) => return self.end_nested(entry.nested, DropReason::NoUnit, cx),
            // Nothing behind cryptography waits for it.
            Waiting::Opened(opened) => return self.hand_out(opened, cx, delivery),
        }
        if !self.depart(unit, job, name, &done) {
            self.pass(&done);
            self.charge(&name, &meta, budget, before, now);
        }
        if let Some(burst) = rest {
            let held = WaitingEntry { name, waiting: Waiting::Burst(burst) };
            self.put_back(now, job, held, meta, budget, cx, delivery);
        }
    }

    /// Open a packet or a burst, or so many datagrams of it, whose turn it is.
    fn carry_on(
        &mut self,
        now: Time,
        assignment: Assignment<Ticket>,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let Some(queues) = &mut self.queues else { return };
        let Assignment { grant, job, item, meta, budget, .. } = assignment;
        let Some(WaitingEntry { name, waiting }) = queues.state.take(item) else { return };
        let turn = seam::turn_granted(&grant);
        let before = Progress::of(self.sad.find(Spi(name.spi), name.src, name.dst));
        match waiting {
            Waiting::Packet(packet) => {
                self.open_packet(now, packet, &meta, turn, cx);
                self.leave(&meta);
            }
            Waiting::Burst(mut burst) => {
                // The header's congestion field is what the graph noted.
                burst.header.tos = burst.header.tos & !3 | meta.ecn & 3;
                match cut(&mut burst, &meta, budget, cx) {
                    Some(part) => {
                        self.open_datagrams(now, part, turn, cx, delivery);
                        self.put_rest(
                            now,
                            job,
                            WaitingEntry { name, waiting: Waiting::Burst(burst) },
                            meta,
                            budget,
                            cx,
                            delivery,
                        );
                    }
                    None => {
                        self.open_datagrams(now, burst, turn, cx, delivery);
                        self.leave(&meta);
                    }
                }
            }
            Waiting::Nested(entry) => {
                self.open_nested(now, entry.nested, &meta, turn, cx);
                self.leave(&meta);
            }
            // Nothing behind cryptography waits for it.
            Waiting::Opened(opened) => return self.hand_out(opened, cx, delivery),
        }
        self.charge(&name, &meta, budget, before, now);
    }

    /// Open a packet whose turn it is. Its outer headers were checked when it came.
    fn open_packet(
        &mut self,
        now: Time,
        mut packet: Packet<Raw>,
        meta: &qos::Meta,
        turn: Turn,
        cx: &mut Cx<'_, InboundOutcome>,
    ) {
        packet.meta.received = now;
        note_congestion(&mut packet, meta);
        self.copied(packet, cx, |stages, packet, cx| {
            // Not moved out of the result: the headers are many.
            let parsed = Headers::parse(packet.bytes());
            match &parsed {
                Ok(headers) => stages.open(packet, headers, turn, cx),
                Err(error) => cx.discard(packet, (*error).into(), None),
            }
        });
    }

    /// Open datagrams of one association, one by one while they are copied.
    fn open_datagrams(
        &mut self,
        now: Time,
        burst: Burst<Raw>,
        turn: Turn,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        if !self.copies_packets() {
            return self.take_burst(now, burst, turn, cx, delivery);
        }
        self.take_apart(now, burst, cx, |stages, packet, cx| {
            stages.copied(packet, cx, |stages, packet, cx| {
                stages.whole(
                    packet,
                    |stages, packet, headers, cx| stages.open(packet, headers, turn, cx),
                    cx,
                );
            });
        });
    }

    /// Take a burst apart for those who want copies of its packets.
    #[cold]
    pub(in crate::inbound) fn take_apart(
        &mut self,
        now: Time,
        burst: Burst<Raw>,
        cx: &mut Cx<'_, InboundOutcome>,
        mut each: impl FnMut(&mut Stages, Packet<Raw>, &mut Cx<'_, InboundOutcome>),
    ) {
        let packets: Vec<_> = burst.packets(cx.pool).collect();
        for packet in packets {
            match packet {
                Ok(mut packet) => {
                    packet.meta.received = now;
                    each(self, packet, cx);
                }
                Err(error) => cx.stats.lost(error.into(), 1),
            }
        }
        cx.pool.put(burst.into_buf());
    }

    /// Put the datagrams of a burst whose turn is still to come back to the head of their queue.
    #[expect(clippy::too_many_arguments, reason = "the parts of an assignment, and the context")]
    fn put_rest(
        &mut self,
        now: Time,
        job: JobId,
        held: WaitingEntry,
        meta: qos::Meta,
        done: Amount,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        self.leave(&qos::Meta { amount: done, ..meta });
        self.put_back(now, job, held, meta, done, cx, delivery);
    }

    /// Put the datagrams of a burst back whose turn is still to come.
    #[expect(clippy::too_many_arguments, reason = "the parts of an assignment, and the context")]
    fn put_back(
        &mut self,
        now: Time,
        job: JobId,
        held: WaitingEntry,
        mut meta: qos::Meta,
        done: Amount,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let Some(queues) = &mut self.queues else {
            return self.end(now, held, DropReason::NoUnit, cx, delivery);
        };
        let context = queues.state.context(now);
        meta.amount.packets -= done.packets.min(meta.amount.packets);
        meta.amount.octets -= done.octets.min(meta.amount.octets);
        match queues.state.keep(held) {
            Ok(ticket) => queues.state.graph.rest(job, ticket, meta, &context),
            // Its place was freed a moment ago.
            Err(held) => self.end(now, held, DropReason::QueueFull, cx, delivery),
        }
    }

    /// Charge what was not authentic to its source, and clear a source of which a packet was.
    pub(in crate::inbound) fn charge(
        &mut self,
        name: &Name,
        meta: &qos::Meta,
        done: Amount,
        before: Progress,
        now: Time,
    ) {
        let after = Progress::of(self.sad.find(Spi(name.spi), name.src, name.dst));
        let Some(queues) = &mut self.queues else { return };
        let forged = after.forged.saturating_sub(before.forged);
        if forged > 0 {
            let each = meta.amount.ns.max(done.ns) / meta.amount.packets.max(1);
            let cost = each.max(1).saturating_mul(forged);
            queues.budget.charge(meta.association, meta.user, cost, now);
            queues.state.graph.charge_failed(meta.association, meta.user, cost, now);
        }
        if after.authentic > before.authentic {
            queues.budget.authentic(meta.association, meta.user);
            queues.state.graph.authentic(meta.association, meta.user);
        }
    }

    /// A packet ended where it was to be prepared. Limits count it no more.
    fn pass(&mut self, meta: &qos::Meta) {
        if let Some(queues) = &mut self.queues {
            queues.state.graph.pass(meta);
        }
    }

    /// A packet has left cryptography.
    fn leave(&mut self, meta: &qos::Meta) {
        if let Some(queues) = &mut self.queues {
            queues.leave(meta);
        }
    }
}

/// Cut the datagrams off a burst that are to be opened now; `None`: all of them are, or there is no room for a copy.
fn cut(
    burst: &mut Burst<Raw>,
    meta: &qos::Meta,
    budget: Amount,
    cx: &mut Cx<'_, InboundOutcome>,
) -> Option<Burst<Raw>> {
    if budget.packets >= meta.amount.packets {
        return None;
    }
    let count = usize::try_from(budget.packets).unwrap_or(usize::MAX);
    let part = burst.part(0..count, |octets| copy_of(octets, cx.pool))?;
    burst.skip(count);
    Some(part)
}

/// Write into the outer header that a packet met congestion, if its queue says so (RFC 3168). It reaches the inner one by
/// the rules of RFC 6040.
#[inline]
pub(in crate::inbound) fn note_congestion<S>(packet: &mut Packet<S>, meta: &qos::Meta) {
    let bytes = packet.bytes_mut();
    if let Some(now) = ip::tos(bytes)
        && now & 3 != meta.ecn & 3
    {
        let version = bytes.first().map_or(0, |octet| octet >> 4);
        ip::set_tos(bytes, version, now & !3 | meta.ecn & 3);
    }
}
