//! The queues behind cryptography, of the outbound half: hooks 4a and 4b for what a unit has finished, 2a and 2b for what is
//! ready for the wire (paper 002 section III.A, Figure 2).
//!
//! What enters: the outcomes of a turn, and clear packets behind their look-up. What leaves: the same, in the order of the
//! graph. A graph without components at these hooks does not come here: its outcomes leave at once.

use qos::Amount;
use qos::graph::description::HookPoint;
use wire::{AggregateId, Burst, DropReason, Meta, Pool, Time, ip, stage};

use super::Stages;
use super::finished::Finished;
use super::graph::Waiting;
use super::outcome::Outcome;
use crate::cx::Cx;
use crate::queued::{CELL_TAILROOM, LONGEST_IN_CELL, packet_in_cell};
use crate::stats::{About, Dropped};

impl Stages {
    /// Offer the outcomes from this place on at a hook behind cryptography, for the packets that were noted. What is not
    /// for the wire stays where it is.
    pub(super) fn offer_results(&mut self, at: HookPoint, from: usize, now: Time, cx: &mut Cx<'_, Outcome>) {
        let Some(queues) = &mut self.queues else { return };
        let mut results = std::mem::take(&mut queues.collected.outcomes);
        results.extend(cx.out.drain(from.min(cx.out.len())..));
        let is_sent =
            |outcome: &Outcome| matches!(outcome, Outcome::Send(_) | Outcome::Burst(_) | Outcome::Clear(_));
        let mut packets = std::mem::take(&mut queues.collected.packets);
        let mut copies = queues.state.take_copies_of(from);
        let mut left = packets.iter().fold(Amount::default(), |sum, meta| plus(sum, meta.amount));
        let mut count = results.iter().filter(|outcome| is_sent(outcome)).count() as u64;
        if count == 0 || packets.is_empty() {
            packets.drain(..).for_each(|meta| queues.state.graph.end_before(at, &meta));
            for mut copy in copies {
                copy.from = cx.out.len();
                queues.state.copy_again(copy);
            }
            cx.out.append(&mut results);
            (queues.collected.packets, queues.collected.outcomes) = (packets, results);
            return;
        }
        let template = packets.first().copied().unwrap_or_default();
        packets.clear();
        queues.collected.packets = packets;
        // A packet that is copied has its outcomes in one place, beside its copy.
        let is_together = !copies.is_empty();
        let mut last: Option<Finished> = None;
        for outcome in results.drain(..) {
            if !is_sent(&outcome) {
                cx.out.push(outcome);
                continue;
            }
            // Each place has a packet at least: what is more than there are packets is with the last one.
            match &mut last {
                Some(last) if is_together || left.packets <= 1 => last.more.push(outcome),
                _ => {
                    if let Some(finished) = last.take() {
                        self.offer_result(at, finished, &template, share(&mut left, count), now, cx);
                        count -= 1;
                    }
                    let copies = std::mem::take(&mut copies);
                    let outcome = in_cell(outcome, cx.pool);
                    last = Some(Finished { outcome, more: Vec::new(), copies, order: 0 });
                }
            }
        }
        if let Some(finished) = last {
            self.offer_result(at, finished, &template, left, now, cx);
        }
        if let Some(queues) = &mut self.queues {
            queues.collected.outcomes = results;
        }
    }

    /// Offer what is in one place.
    fn offer_result(
        &mut self,
        at: HookPoint,
        mut finished: Finished,
        template: &qos::Meta,
        amount: Amount,
        now: Time,
        cx: &mut Cx<'_, Outcome>,
    ) {
        let Some(queues) = &mut self.queues else { return };
        let mut meta = qos::Meta { amount, ..*template };
        finished.order = queues.collected.next_order();
        if let Some(tos) = outer_tos(&finished.outcome) {
            meta.ecn = tos & 3;
            // Without a marker in front of cryptography, the header says which DSCP the packet has.
            if !meta.is_marked {
                meta.dscp[0] = tos >> 2;
            }
        }
        self.keep_at(at, Waiting::Finished(finished), meta, now, cx);
    }

    /// Carry out what may go on behind cryptography: from 4b to 2a, and from 2b to the wire.
    pub(super) fn release_results(&mut self, now: Time, cx: &mut Cx<'_, Outcome>) {
        while let Some(queues) = &mut self.queues {
            if queues.collected.waiting == 0 {
                return;
            }
            let context = queues.state.context(now);
            if let Some(due) = queues.state.take_at(HookPoint::Out4b, &context) {
                if matches!(queues.state.waiting.get(due.item), Some(Waiting::Bundled(_))) {
                    self.return_bundled(due.item, due.meta, now, cx);
                } else {
                    queues.state.offer(HookPoint::In2a, due.item, due.meta, &context);
                }
            } else if let Some(due) = queues.state.take_at(HookPoint::Out2b, &context) {
                if let Some(Waiting::Finished(finished)) = queues.state.take(due.item) {
                    queues.collected.free();
                    let mut finished = finished;
                    for mut copy in finished.copies.drain(..) {
                        copy.from = cx.out.len();
                        queues.state.copy_again(copy);
                    }
                    let marked = |outcome| with_marks(with_class(outcome, due.meta.aggregate), &due.meta);
                    cx.out.extend(finished.outcomes().map(marked));
                }
            } else {
                if queues.state.has_ended() {
                    self.end(now, cx);
                }
                return;
            }
            if self.queues.as_ref().is_some_and(|queues| queues.state.has_ended()) {
                self.end(now, cx);
            }
        }
    }

    /// End what waited behind cryptography, since a component or a full queue has dropped it.
    #[cold]
    pub(super) fn end_result(
        &mut self,
        mut finished: Finished,
        reason: DropReason,
        cx: &mut Cx<'_, Outcome>,
    ) {
        if let Some(queues) = &mut self.queues {
            for mut copy in finished.copies.drain(..) {
                copy.from = cx.out.len();
                queues.state.copy_again(copy);
            }
        }
        for outcome in finished.outcomes() {
            match outcome {
                Outcome::Send(packet) => cx.discard(packet, reason, None),
                Outcome::Clear(packet) => cx.discard_queued(packet, reason, true),
                Outcome::Burst(burst) => discard_burst(burst, reason, cx),
                Outcome::Reply(..) | Outcome::Held(_) | Outcome::Drop(_) => {}
            }
        }
    }
}

/// An equal part of what is left for so many places, which leaves each of the others a packet.
fn share(left: &mut Amount, places: u64) -> Amount {
    let places = places.max(1);
    let part = Amount {
        packets: (left.packets / places).max(1),
        octets: left.octets / places,
        ns: left.ns / places,
    };
    left.packets = left.packets.saturating_sub(part.packets).max(1);
    left.octets -= part.octets;
    left.ns -= part.ns;
    part
}

fn plus(one: Amount, other: Amount) -> Amount {
    Amount {
        packets: one.packets + other.packets,
        octets: one.octets + other.octets,
        ns: one.ns.saturating_add(other.ns),
    }
}

/// The type of service in the outermost header.
fn outer_tos(outcome: &Outcome) -> Option<u8> {
    match outcome {
        Outcome::Send(packet) => ip::tos(packet.bytes()),
        Outcome::Clear(packet) => ip::tos(packet.bytes()),
        Outcome::Burst(burst) => Some(burst.header.tos),
        Outcome::Reply(..) | Outcome::Held(_) | Outcome::Drop(_) => None,
    }
}

/// Move what is short out of a buffer of full size.
fn in_cell(outcome: Outcome, pool: &mut Pool) -> Outcome {
    match outcome {
        Outcome::Send(packet) => Outcome::Send(packet_in_cell(packet, pool)),
        Outcome::Clear(packet) => Outcome::Clear(packet_in_cell(packet, pool)),
        Outcome::Burst(mut burst) if burst.bytes().len() <= LONGEST_IN_CELL => {
            if let Some(before) = burst.move_to(|octets| pool.cell(octets, CELL_TAILROOM)) {
                pool.put(before);
            }
            Outcome::Burst(burst)
        }
        outcome => outcome,
    }
}

/// Give an outcome the class with which it left the queues, since a component behind cryptography may have changed it.
fn with_class(mut outcome: Outcome, class: AggregateId) -> Outcome {
    match &mut outcome {
        Outcome::Send(packet) => packet.meta.aggregate = class,
        Outcome::Clear(packet) => packet.meta.aggregate = class,
        Outcome::Burst(burst) => burst.meta.aggregate = class,
        Outcome::Reply(..) | Outcome::Held(_) | Outcome::Drop(_) => {}
    }
    outcome
}

/// Write what components noted into the outermost header: its DSCP, and that it met congestion (RFC 3168).
fn with_marks(mut outcome: Outcome, meta: &qos::Meta) -> Outcome {
    let Some(before) = outer_tos(&outcome) else { return outcome };
    let tos = meta.marked_tos(before);
    if tos == before {
        return outcome;
    }
    match &mut outcome {
        Outcome::Send(packet) => super::queued::write_tos(packet, tos),
        Outcome::Clear(packet) => super::queued::write_tos(packet, tos),
        Outcome::Burst(burst) => burst.header.tos = tos,
        Outcome::Reply(..) | Outcome::Held(_) | Outcome::Drop(_) => {}
    }
    outcome
}

/// Drop datagrams that were sealed, one by one.
#[cold]
fn discard_burst(burst: Burst<stage::Outer>, reason: DropReason, cx: &mut Cx<'_, Outcome>) {
    for (at, datagram) in burst.datagrams().enumerate() {
        let meta = Meta {
            received: burst.meta.received,
            spi: burst.meta.spi,
            sequence: burst.meta.sequence + at as u64,
            app: burst.meta.app,
            ..Meta::default()
        };
        cx.report(Dropped::new(reason, &About::of(&meta), datagram.len(), None));
    }
    cx.pool.put(burst.into_buf());
}
