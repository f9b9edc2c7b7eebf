//! The outbound half with a graph: packets wait by class in front of the look-up and in front of cryptography (paper
//! 002 sections III and IV; docs/design/0040).
//!
//! Calls come in this order. [`Outbound::receive`] takes a packet in at hook 1a. [`Outbound::look_up`] takes packets
//! out of the incoming main queue, in the order of the graph, decides about each and offers it at 3a; what goes in
//! clear leaves at once. [`Outbound::turn`] gives packets to cryptography, as far as the unit wants work.
//! [`Outbound::settle`] says when their outcomes were carried out, from which the graph learns what they cost.
//!
//! A decision is made at the look-up, and holds as long as policy, rules, entries and associations are what they were.
//! A packet that has waited longer than that is decided again when its turn comes, so that no queue outlives a policy.

mod bundled;
mod later;
mod turn;

use qos::graph::description::HookPoint;
use qos::node::Wake;
use qos::reservation::{self, FlowTerms};
use qos::{Amount, Direction};
use sadb::SaIndex;
use wire::ip::{self, Headers};
use wire::stage::{Inner, Selected};
use wire::{AggregateId, DropReason, Flow, Packet, Pool, SegmentPosition, Time};

use super::decider::Peeked;
use super::finished::Finished;
use super::graph::{Chosen, OutboundGraph, Waiting};
use super::outcome::Outcome;
use super::protector::LONGEST_COPY;
use super::selection::Selection;
use super::{Outbound, Stages};
use crate::cx::Cx;
use crate::queued::{
    CELL_TAILROOM, CopiedPacket, LONGEST_IN_CELL, Reserved, describe, header_kind, packet_in_cell, pieces_of,
    reason,
};
use crate::seam::Turn;

/// The nanoseconds that a packet is expected to cost which no association protects: its way through this program.
const UNPROTECTED: u64 = 4_000;

impl Outbound {
    /// Let packets wait in a graph from now on, or in none. Packets keep their queues by name; those whose queue is gone
    /// are classified again. Without a graph they are handled at once, in their order; what a shaper holds back is
    /// dropped then, unless it is sealed already: that is sent.
    pub fn set_graph(
        &mut self,
        now: Time,
        graph: Option<Box<OutboundGraph>>,
        pool: &mut Pool,
        out: &mut Vec<Outcome>,
    ) {
        let (stages, mut cx) = self.lend(pool, out);
        stages.protector.flush(&mut cx);
        match graph {
            Some(graph) => stages.exchange(now, graph, &mut cx),
            None => stages.leave_graph(now, &mut cx),
        }
    }

    /// The graph that packets wait in.
    pub fn graph(&self) -> Option<&OutboundGraph> {
        self.stages.queues.as_deref()
    }

    /// The number of packets of these classes that the graph has room for, of the class that has the most.
    pub fn room(&self, classes: &[AggregateId]) -> u64 {
        let Some(queues) = &self.stages.queues else { return u64::MAX };
        classes.iter().map(|class| queues.room(*class)).max().unwrap_or(u64::MAX)
    }

    /// Copy packets from now on, or no more. Without a graph nothing happens.
    pub fn copy_packets(&mut self, on: bool) {
        if let Some(queues) = &mut self.stages.queues {
            queues.state.copy_packets(on);
        }
    }

    /// The packets whose outcomes came since the last call, each with the place of its first one.
    pub fn take_copies(&mut self) -> Vec<CopiedPacket> {
        self.stages.queues.as_mut().map(|queues| queues.state.take_copies()).unwrap_or_default()
    }

    /// Take a packet in at hook 1a. Call this instead of [`Outbound::handle`] where there is a graph.
    pub fn receive(&mut self, now: Time, mut packet: Packet<Inner>, pool: &mut Pool, out: &mut Vec<Outcome>) {
        packet.meta.received = now;
        let (stages, mut cx) = self.lend(pool, out);
        stages.take_in(packet, &mut cx);
    }

    /// Decide about the packets that wait for it, at most `most` of them. Returns whether more wait.
    pub fn look_up(&mut self, now: Time, most: usize, pool: &mut Pool, out: &mut Vec<Outcome>) -> bool {
        let (stages, mut cx) = self.lend(pool, out);
        stages.release_results(now, &mut cx);
        let more = (0..most).all(|_| stages.look_up_one(now, &mut cx));
        stages.release_results(now, &mut cx);
        more
    }

    /// Protect the packets whose turn it is, as far as the unit wants work. Returns whether there were any.
    pub fn turn(&mut self, now: Time, pool: &mut Pool, out: &mut Vec<Outcome>) -> bool {
        let (stages, mut cx) = self.lend(pool, out);
        stages.turn(now, &mut cx)
    }

    /// Reserve for a flow from now on, or change what is reserved for it; whether there was a graph with room. The key is
    /// random and secret, for the hashes of flows, of which there are at most `most`.
    pub fn reserve(
        &mut self,
        key: [u8; 16],
        most: usize,
        flow: &reservation::Flow,
        terms: FlowTerms,
    ) -> bool {
        self.stages.queues.as_mut().is_some_and(|queues| queues.state.reserve(key, most, flow, terms))
    }

    /// Reserve for a flow no more.
    pub fn end_reservation(&mut self, flow: &reservation::Flow) {
        if let Some(queues) = &mut self.stages.queues {
            queues.state.end_reservation(flow);
        }
    }

    /// Say that what the last turn brought is carried out. The graph learns from it what packets cost, with input and
    /// output. Returns what to wait for until the next turn.
    pub fn settle(&mut self, now: Time) -> Wake {
        self.stages.queues.as_mut().map_or(Wake::Never, |queues| queues.settle(now))
    }
}

impl Stages {
    /// Take a packet in at hook 1a.
    fn take_in(&mut self, mut packet: Packet<Inner>, cx: &mut Cx<'_, Outcome>) {
        let headers = match Headers::parse(packet.bytes()) {
            Ok(headers) => headers,
            Err(error) => return self.refuse_at_once(packet, error.into(), None, cx),
        };
        packet.buf_mut().truncate(headers.total_len);
        // What components note in its header must not make a wrong checksum right.
        if !ip::checksum_ok(packet.bytes(), &headers) {
            return self.refuse_at_once(packet, DropReason::BadChecksum, None, cx);
        }
        let flow = ip::flow(packet.bytes(), &headers, true);
        let (named, peeked) = self.decider.peek(&packet, &headers, &flow, self.protector.sad());
        let Some(queues) = &mut self.queues else {
            return cx.discard(packet, DropReason::NoUnit, Some(&flow));
        };
        let now = packet.meta.received;
        let context = queues.state.context(now);
        let octets = packet.bytes().len() as u64;
        let packets = pieces_of(packet.bytes(), &headers, &packet.meta, LONGEST_COPY);
        // A flow of which nothing is known costs what packets usually do: new flows do not pass a policer for less.
        let each = if peeked == Peeked::Unprotected { UNPROTECTED } else { queues.state.pace.usual };
        let mut meta = describe(
            &packet.meta,
            &headers,
            &flow,
            Direction::Outbound,
            Amount { packets, octets, ns: each.saturating_mul(packets) },
            &queues.state.hash,
        );
        queues.state.note_inner(&mut meta, flow.local, flow.remote);
        if named != AggregateId::DEFAULT {
            meta.aggregate = named;
        }
        let sa = match peeked {
            Peeked::Association(association) => self.protector.sad().get(association),
            Peeked::Unprotected | Peeked::Unknown => None,
        };
        if let Some(sa) = sa {
            let (suite, _, _) = queues.known(self.protector.keyed(sa), meta.aggregate);
            meta.suite = suite;
            queues.note_peer(&mut meta, sa);
            meta.amount.ns = queues.state.graph.expected(suite, Direction::Outbound, &meta.amount);
        }
        let mut reserved = Reserved::None;
        if queues.state.has_reserved() {
            reserved = queues.ask_reserved(now, Some(&flow), sa, &mut meta);
        }
        let kept = queues.state.keep(Waiting::Received(packet_in_cell(packet, cx.pool), reserved));
        match kept {
            Ok(ticket) => {
                queues.state.offer(HookPoint::In1a, ticket, meta, &context);
                if queues.state.has_ended() {
                    self.end(now, cx);
                }
            }
            Err(Waiting::Received(packet, _)) => {
                self.refuse_at_once(packet, DropReason::QueueFull, Some(&flow), cx);
            }
            Err(waiting) => self.end_waiting(waiting, DropReason::QueueFull, cx),
        }
    }

    /// End a packet that found no place.
    #[cold]
    fn refuse_at_once(
        &mut self,
        packet: Packet<Inner>,
        reason: DropReason,
        flow: Option<&Flow>,
        cx: &mut Cx<'_, Outcome>,
    ) {
        if let Some(queues) = &mut self.queues {
            queues.state.copy(&packet, cx.out.len());
        }
        cx.discard(packet, reason, flow);
    }

    /// Hook 1b and the look-up, for the next packet of the incoming main queue. Returns whether there was one.
    fn look_up_one(&mut self, now: Time, cx: &mut Cx<'_, Outcome>) -> bool {
        let Some(queues) = &mut self.queues else { return false };
        let context = queues.state.context(now);
        let due = queues.state.take_at(HookPoint::Out1b, &context);
        let taken = due.and_then(|due| Some((due.meta, queues.state.take(due.item)?)));
        if queues.state.has_ended() {
            self.end(now, cx);
        }
        let Some((meta, waiting)) = taken else { return false };
        match waiting {
            Waiting::Received(mut packet, reserved) => {
                write_marks(&mut packet, &meta);
                if let Some(queues) = &mut self.queues {
                    queues.entering = Some((meta, reserved));
                    queues.state.copy(&packet, cx.out.len());
                }
                packet.meta.received = now;
                let from = cx.out.len();
                self.enter(packet, cx);
                if let Some(queues) = &mut self.queues {
                    queues.state.forget_copy(cx.out.len());
                    // It did not go on to 3a: it goes in clear, has ended, or waits elsewhere.
                    if let Some((meta, _)) = queues.entering.take() {
                        self.go_in_clear(&meta, from, now, cx);
                    }
                }
            }
            waiting => self.end_waiting(waiting, DropReason::NoUnit, cx),
        }
        true
    }

    /// Hook 3a: a packet whose association is known waits for its turn.
    pub(super) fn enqueue(
        &mut self,
        association: SaIndex,
        selection: Selection,
        mut packet: Packet<Selected>,
        headers: &Headers,
        flow: &Flow,
        cx: &mut Cx<'_, Outcome>,
    ) {
        let pieces = match self.protector.measure(association, &mut packet, headers) {
            Ok(pieces) => pieces,
            Err(unfit) => return self.protector.end_unfit(packet, headers, unfit, flow, cx),
        };
        let epoch = self.decider.epoch(self.protector.sad());
        let (Some(queues), Some(sa)) = (&mut self.queues, self.protector.sad().get(association)) else {
            return cx.discard(packet, DropReason::NoSa, Some(flow));
        };
        let now = packet.meta.received;
        let (before, reserved) = queues.entering.take().unzip();
        let mut reserved = reserved.unwrap_or_default();
        let mut meta = before.unwrap_or_else(|| {
            describe(&packet.meta, headers, flow, Direction::Outbound, Amount::default(), &queues.state.hash)
        });
        // Rules and profiles may ask for the far end, which is known from here on.
        queues.note_peer(&mut meta, sa);
        // The graph may be another one than that in which the packet came.
        queues.state.note_inner(&mut meta, flow.local, flow.remote);
        let named = packet.meta.aggregate;
        let amount = Amount { packets: pieces as u64, octets: packet.bytes().len() as u64, ns: 0 };
        if queues.state.has_reserved() && reserved == Reserved::None {
            // What the inner packet shows was compared when it came.
            let inner = before.is_none().then_some(flow);
            (meta.amount, meta.dscp[1]) = (amount, headers.tos >> 2);
            reserved = queues.ask_reserved(now, inner, Some(sa), &mut meta);
        }
        if reserved == Reserved::Within {
            // Its class stays, unless a component has given it another one.
        } else if named != AggregateId::DEFAULT && queues.state.graph.has(named) {
            meta.aggregate = named;
        } else if before.is_none() {
            meta.aggregate = queues.state.graph.classify(&meta);
        }
        // Members without a key need no unit: the first one with a key says which units can serve.
        let keyed = self.protector.keyed(sa);
        let (suite, units, _) = queues.known(keyed, meta.aggregate);
        let header = header_kind(sa.config());
        (meta.association, meta.spi) = (sa.spi().0, sa.spi().0);
        (meta.suite, meta.units, meta.header) = (suite, units, header);
        // What was noted so far stands in the header, and a scrubber may have changed it.
        (meta.dscp[1], meta.ecn) = (headers.tos >> 2, headers.tos & 3);
        if let Some(before) = &before
            && named == AggregateId::DEFAULT
            && reserved != Reserved::Within
        {
            meta.aggregate = queues.state.graph.classify_again(before, &meta);
            (_, meta.units, _) = queues.known(keyed, meta.aggregate);
        }
        let rule = packet.meta.rule;
        let own = self.decider.association_of(association, rule, meta.aggregate, self.protector.sad());
        let sa = self.protector.sad().get(own).unwrap_or(sa);
        let of_sa = sa.config().options.aggregate;
        // A class that nothing but the rules of the graph gave is that of an association that has one.
        if of_sa != AggregateId::DEFAULT
            && queues.state.graph.has(of_sa)
            && named == AggregateId::DEFAULT
            && reserved != Reserved::Within
            && before.as_ref().is_none_or(|before| queues.state.graph.is_by_rules(before))
        {
            meta.aggregate = of_sa;
            (_, meta.units, _) = queues.known(keyed, meta.aggregate);
        }
        (meta.association, meta.spi) = (sa.spi().0, sa.spi().0);
        let selection = if own == association { selection } else { Selection::protected(own) };
        meta.amount = amount;
        meta.amount.ns = queues.state.graph.expected(suite, Direction::Outbound, &meta.amount);
        queues.state.graph.recount(HookPoint::In3a, before.as_ref(), &meta);
        let packet = packet_in_cell(packet, cx.pool);
        let chosen = Chosen { packet, selection, epoch, sent: SegmentPosition::default() };
        self.keep_at(HookPoint::In3a, Waiting::Selected(chosen), meta, now, cx);
    }

    /// Let something wait in the queue behind a hook, which limits in front of it count already. It ends if there is no
    /// place for it.
    pub(super) fn keep_at(
        &mut self,
        at: HookPoint,
        waiting: Waiting,
        meta: qos::Meta,
        now: Time,
        cx: &mut Cx<'_, Outcome>,
    ) {
        let Some(queues) = &mut self.queues else {
            return self.end_waiting(waiting, DropReason::NoUnit, cx);
        };
        let context = queues.state.context(now);
        match queues.state.keep(waiting) {
            Ok(ticket) => {
                queues.collected.waiting += usize::from(matches!(at.queue(), 4 | 2));
                queues.state.offer(at, ticket, meta, &context);
                if queues.state.has_ended() {
                    self.end(now, cx);
                }
            }
            Err(waiting) => {
                queues.state.graph.end_before(at, &meta);
                self.end_waiting(waiting, DropReason::QueueFull, cx);
            }
        }
    }

    /// What became of a packet that needs no protection: in clear it goes by 2a, if components hang there.
    fn go_in_clear(&mut self, meta: &qos::Meta, from: usize, now: Time, cx: &mut Cx<'_, Outcome>) {
        let Some(queues) = &mut self.queues else { return };
        let is_clear = cx.out.iter().skip(from).any(|outcome| matches!(outcome, Outcome::Clear(_)));
        if !is_clear {
            // It has ended, or waits elsewhere.
            queues.state.graph.end_before(HookPoint::In3a, meta);
        } else if queues.leave(meta) {
            queues.state.graph.pass_over(HookPoint::In1a, HookPoint::In2a, meta);
            self.offer_results(HookPoint::In2a, from, now, cx);
        }
    }

    /// A packet goes in clear that waited for its association or its entry, outside of the graph: by 2a, if components hang
    /// there.
    pub(super) fn clear_held(
        &mut self,
        meta: Option<qos::Meta>,
        from: usize,
        now: Time,
        cx: &mut Cx<'_, Outcome>,
    ) {
        if let Some(meta) = meta
            && let Some(queues) = &mut self.queues
            && queues.leave(&meta)
        {
            queues.state.graph.recount(HookPoint::In2a, None, &meta);
            self.offer_results(HookPoint::In2a, from, now, cx);
            self.release_results(now, cx);
        }
    }

    /// What a graph with components behind cryptography knows of a packet that did not wait in it.
    pub(super) fn describe_held(
        &mut self,
        packet: &Packet<Selected>,
        headers: &Headers,
        flow: &Flow,
    ) -> Option<qos::Meta> {
        let queues = self.queues.as_mut().filter(|queues| queues.collected.is_wanted)?;
        if queues.entering.is_some() {
            return None;
        }
        let amount = Amount { packets: 1, octets: packet.bytes().len() as u64, ns: 0 };
        let mut meta = describe(&packet.meta, headers, flow, Direction::Outbound, amount, &queues.state.hash);
        queues.state.note_inner(&mut meta, flow.local, flow.remote);
        if !queues.state.graph.has(meta.aggregate) || meta.aggregate == AggregateId::DEFAULT {
            meta.aggregate = queues.state.graph.classify(&meta);
        }
        Some(meta)
    }

    /// A packet has left cryptography, or needs none. Returns whether it goes on to queues behind; if not, limits count it
    /// no more.
    fn leave(&mut self, meta: &qos::Meta) -> bool {
        self.queues.as_mut().is_some_and(|queues| queues.leave(meta))
    }

    /// End what has waited, whatever it is.
    #[cold]
    fn end_waiting(&mut self, waiting: Waiting, reason: DropReason, cx: &mut Cx<'_, Outcome>) {
        match waiting {
            Waiting::Received(packet, _) => cx.discard_queued(packet, reason, true),
            Waiting::Selected(chosen) => cx.discard_queued(chosen.packet, reason, true),
            Waiting::Bundled(entry) => self.end_bundled(entry, reason, cx),
            Waiting::Finished(finished) => self.end_result(finished, reason, cx),
        }
    }

    /// End the packets that the graph has dropped.
    pub(super) fn end(&mut self, now: Time, cx: &mut Cx<'_, Outcome>) {
        while let Some(queues) = &mut self.queues
            && let Some(ended) = queues.state.next_ended()
        {
            let cause = reason(ended.cause);
            match queues.state.take(ended.item) {
                Some(Waiting::Received(mut packet, _)) => {
                    packet.meta.received = now;
                    queues.state.copy(&packet, cx.out.len());
                    cx.discard_queued(packet, cause, true);
                }
                Some(Waiting::Selected(Chosen { mut packet, .. })) => {
                    packet.meta.received = now;
                    packet.meta.spi = ended.meta.spi;
                    queues.state.copy(&packet, cx.out.len());
                    cx.discard_queued(packet, cause, true);
                }
                Some(Waiting::Bundled(entry)) => {
                    if entry.is_behind {
                        queues.collected.free();
                    }
                    self.end_bundled(entry, cause, cx);
                }
                Some(Waiting::Finished(finished)) => {
                    queues.collected.free();
                    self.end_result(finished, cause, cx);
                }
                None => {}
            }
        }
    }

    /// Put a graph into the place of the one that is in force, if there is one, and move its packets.
    #[cold]
    fn exchange(&mut self, now: Time, mut graph: Box<OutboundGraph>, cx: &mut Cx<'_, Outcome>) {
        // Its unit may be another one afterwards, or none.
        self.finish_steps(now, cx);
        let Some(mut before) = self.queues.take() else {
            cx.pool.set_cells(graph.state.cells(), LONGEST_IN_CELL, CELL_TAILROOM);
            self.queues = Some(graph);
            return;
        };
        before.settle(now);
        cx.pool.grow_cells(graph.state.cells());
        graph.adopt(*before, now);
        self.queues = Some(graph);
        self.end(now, cx);
    }

    /// Handle everything that waits, in its order, and go on without a graph.
    #[cold]
    fn leave_graph(&mut self, now: Time, cx: &mut Cx<'_, Outcome>) {
        self.finish_steps(now, cx);
        // Whoever calls waits for units that answer later; what they still have does not come back in time.
        let away = self.queues.as_ref().map(|queues| queues.flights.units()).unwrap_or_default();
        away.into_iter().for_each(|unit| self.fail_unit(now, unit, cx));
        loop {
            let looked = self.look_up_one(now, cx);
            let turned = self.turn(now, cx);
            while let Some(mut work) = self.queues.as_mut().and_then(|queues| queues.departed.pop_front()) {
                work.compute();
                self.take_answer(now, work, cx);
            }
            self.finish_steps(now, cx);
            let Some(queues) = &mut self.queues else { return };
            queues.settle(now);
            if !looked && !turned {
                break;
            }
        }
        let Some(mut queues) = self.queues.take() else { return };
        // What a shaper holds back. Sealed packets have their numbers, and leave in their order.
        let (mut finished, mut between) = (Vec::new(), Vec::new());
        for waiting in queues.state.waiting.drain() {
            match waiting {
                Waiting::Finished(held) => finished.push(held),
                Waiting::Bundled(entry) => between.push(entry),
                waiting => self.end_waiting(waiting, DropReason::ShapedOut, cx),
            }
        }
        between.sort_by_key(|entry| entry.packet.packet.meta.sequence);
        for entry in between {
            self.protector.go_on_with(entry.packet, Turn::at_once(), cx);
        }
        finished.sort_by_key(|held| held.order);
        cx.out.extend(finished.into_iter().flat_map(Finished::outcomes));
        cx.pool.set_cells(0, 0, 0);
    }
}

/// Write what components noted into the header of the packet: its DSCP, and that it met congestion (RFC 3168).
#[inline]
fn write_marks<S>(packet: &mut Packet<S>, meta: &qos::Meta) {
    write_tos(packet, meta.dscp[1] << 2 | meta.ecn & 3);
}

/// Write a type of service into the header of a packet.
#[inline]
pub(super) fn write_tos<S>(packet: &mut Packet<S>, tos: u8) {
    let bytes = packet.bytes_mut();
    if ip::tos(bytes).is_some_and(|now| now != tos) {
        let version = bytes.first().map_or(0, |octet| octet >> 4);
        ip::set_tos(bytes, version, tos);
    }
}
