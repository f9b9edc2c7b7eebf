//! The queues behind cryptography, of the inbound half: hooks 4a and 4b for what a unit has opened, 2a and 2b for what is
//! ready for the host (paper 002 section III.A, Figure 2).
//!
//! What enters: the packets for the host of one job, together. What leaves: the same, in the order of the graph. A graph
//! without components at these hooks does not come here: its packets leave at once.

use qos::graph::description::HookPoint;
use wire::{DropReason, Time};

use super::graph::{Waiting, WaitingEntry};
use super::name::Name;
use super::opened::Opened;
use super::{Delivery, InboundOutcome, Stages};
use crate::cx::Cx;
use crate::stats::{About, Dropped};

impl Stages {
    /// Offer the packets of a job at 4a: those in `delivery`, and while packets are copied the outcomes from `from` on.
    pub(super) fn offer_opened(
        &mut self,
        (name, meta): (Name, &qos::Meta),
        from: usize,
        now: Time,
        delivery: Delivery,
        cx: &mut Cx<'_, InboundOutcome>,
        host: &mut Delivery,
    ) {
        let Some(queues) = &mut self.queues else { return };
        let amount = std::mem::take(&mut queues.collected.amount);
        let meta = qos::Meta { amount, ..*meta };
        queues.collected.offered += 1;
        let order = queues.collected.offered;
        let mut opened = Opened { delivery, outcomes: Vec::new(), copies: Vec::new(), order };
        let is_delivered = |outcome: &InboundOutcome| matches!(outcome, InboundOutcome::Deliver(..));
        if queues.state.is_copying() && cx.out.iter().skip(from).any(is_delivered) {
            opened.copies = queues.state.take_copies_of(from);
            opened.copies.iter_mut().for_each(|copy| copy.from -= from);
            opened.outcomes.extend(cx.out.drain(from..));
        }
        if opened.delivery.is_empty() && opened.outcomes.is_empty() || amount.packets == 0 {
            queues.state.graph.end_before(HookPoint::In4a, &meta);
            return self.hand_out(opened, cx, host);
        }
        let waiting = Waiting::Opened(opened);
        self.keep_at(HookPoint::In4a, WaitingEntry { name, waiting }, meta, now, cx, host);
    }

    /// Let something wait in the queue behind a hook, which limits in front of it count already. It ends if there is no
    /// place for it.
    pub(super) fn keep_at(
        &mut self,
        at: HookPoint,
        held: WaitingEntry,
        meta: qos::Meta,
        now: Time,
        cx: &mut Cx<'_, InboundOutcome>,
        host: &mut Delivery,
    ) {
        let Some(queues) = &mut self.queues else {
            return self.end(now, held, DropReason::NoUnit, cx, host);
        };
        let context = queues.state.context(now);
        match queues.state.keep(held) {
            Ok(ticket) => {
                queues.collected.waiting += usize::from(matches!(at.queue(), 4 | 2));
                queues.state.offer(at, ticket, meta, &context);
                self.end_dropped(now, cx, host);
            }
            Err(held) => {
                queues.state.graph.end_before(at, &meta);
                self.end(now, held, DropReason::QueueFull, cx, host);
            }
        }
    }

    /// Carry out what may go on behind cryptography: from 4b to 2a, and from 2b to the host.
    pub(super) fn release_opened(&mut self, now: Time, cx: &mut Cx<'_, InboundOutcome>, host: &mut Delivery) {
        while let Some(queues) = &mut self.queues
            && queues.collected.waiting > 0
        {
            let context = queues.state.context(now);
            let mut has_gone_on = false;
            if let Some(due) = queues.state.take_at(HookPoint::Out4b, &context) {
                let waiting = queues.state.waiting.get(due.item).map(|held| &held.waiting);
                if matches!(waiting, Some(Waiting::Nested(_))) {
                    self.return_nested(due.item, due.meta, now, cx, host);
                } else {
                    queues.state.offer(HookPoint::In2a, due.item, due.meta, &context);
                }
                has_gone_on = true;
            } else if let Some(due) = queues.state.take_at(HookPoint::Out2b, &context) {
                has_gone_on = true;
                if let Some(WaitingEntry { waiting: Waiting::Opened(mut opened), .. }) =
                    queues.state.take(due.item)
                {
                    queues.collected.waiting -= 1;
                    opened.write_marks(&due.meta);
                    self.hand_out(opened, cx, host);
                }
            }
            self.end_dropped(now, cx, host);
            if !has_gone_on {
                return;
            }
        }
    }

    /// Give the packets to the host, and the outcomes to those who capture.
    pub(super) fn hand_out(
        &mut self,
        mut opened: Opened,
        cx: &mut Cx<'_, InboundOutcome>,
        host: &mut Delivery,
    ) {
        host.append(&mut opened.delivery);
        let base = cx.out.len();
        if let Some(queues) = &mut self.queues {
            for mut copy in opened.copies {
                copy.from += base;
                queues.state.copy_again(copy);
            }
            queues.collected.spare.push(opened.delivery);
        }
        cx.out.append(&mut opened.outcomes);
    }

    /// End what waited behind cryptography, since a component or a full queue has dropped it.
    #[cold]
    pub(super) fn end_opened(
        &mut self,
        name: Name,
        mut opened: Opened,
        reason: DropReason,
        now: Time,
        cx: &mut Cx<'_, InboundOutcome>,
    ) {
        let base = cx.out.len();
        if let Some(queues) = &mut self.queues {
            for mut copy in opened.copies.drain(..) {
                copy.from += base;
                queues.state.copy_again(copy);
            }
        }
        for outcome in opened.outcomes.drain(..) {
            match outcome {
                InboundOutcome::Deliver(packet, _) => cx.discard_queued(packet, reason, false),
                InboundOutcome::Drop(_) => cx.out.push(outcome),
            }
        }
        let outer = Some((name.src, name.dst));
        let about = About { at: now, spi: name.spi, outer, ..About::default() };
        for (bytes, _) in opened.delivery.packets() {
            cx.report(Dropped::new(reason, &about, bytes.len(), None));
        }
        opened.delivery.clear(cx.pool);
        if let Some(queues) = &mut self.queues {
            queues.collected.spare.push(opened.delivery);
        }
    }

    /// A place behind cryptography is free, since what was there was dropped.
    pub(super) fn free_opened(&mut self) {
        if let Some(queues) = &mut self.queues {
            queues.collected.waiting = queues.collected.waiting.saturating_sub(1);
        }
    }
}
