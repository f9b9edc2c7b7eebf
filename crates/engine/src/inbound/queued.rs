//! The inbound half with a graph: what names an association waits by class in front of the look-up and in front of
//! cryptography (paper 002 sections III and IV; docs/design/0040).
//!
//! Calls come in this order. [`Inbound::receive`] and [`Inbound::receive_burst`] take packets in at hook 1a. What names
//! no association, or comes from another host than its peer, ends there, in front of every queue; what is not protected
//! goes its way at once. [`Inbound::look_up`] takes packets out of the incoming main queue, in the order of the graph,
//! and offers them at 3a. [`Inbound::turn`] opens those whose turn it is, as far as the unit wants work.
//! [`Inbound::settle`] says when they were delivered, from which the graph learns what they cost.
//!
//! A packet waits as it came from the wire, or from the member of its bundle before (`rounds.rs`). When its turn
//! comes it goes through all stages from the association on, so that associations, rules and entries of that moment
//! decide about it, and no queue outlives them. The replay window is asked and written then, by the one thread that
//! has it.

use qos::graph::description::HookPoint;
use qos::node::Wake;
use qos::reservation::{self, FlowTerms};
use sadb::Spi;
use wire::ip::Headers;
use wire::stage::Raw;
use wire::{AggregateId, Burst, DropReason, OuterHeader, Packet, Pool, Time};

mod turn;

pub(super) use turn::{Progress, note_congestion};

use super::before::about;
use super::burst::{Run, hand_over};
use super::graph::{InboundGraph, Waiting, WaitingEntry};
use super::name::Name;
use super::nested::NestedPacket;
use super::opened::Opened;
use super::{Delivery, Inbound, InboundOutcome, Stages, association, unknown};
use crate::cx::Cx;
use crate::queued::{
    CELL_TAILROOM, CopiedPacket, LONGEST_IN_CELL, Ticket, burst_in_cell, copy_of, packet_in_cell, reason,
};
use crate::stats::{About, Dropped};
use ipsec::Outer;

impl Inbound {
    /// Let packets wait in a graph from now on, or in none. Packets keep their queues by name; those whose queue is gone
    /// are classified again. Without a graph they are opened at once, in their order; what a shaper holds back is
    /// dropped then, unless it is opened already: that is delivered.
    pub fn set_graph(
        &mut self,
        now: Time,
        graph: Option<Box<InboundGraph>>,
        pool: &mut Pool,
        out: &mut Vec<InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let (stages, mut cx) = self.lend(pool, out);
        match graph {
            Some(graph) => stages.exchange(now, graph, &mut cx, delivery),
            None => stages.leave_graph(now, &mut cx, delivery),
        }
    }

    /// The graph that packets wait in.
    pub fn graph(&self) -> Option<&InboundGraph> {
        self.stages.queues.as_deref()
    }

    /// The number of packets of these classes that the graph has room for, of the class that has the most.
    pub fn room(&self, classes: &[AggregateId]) -> u64 {
        let Some(queues) = &self.stages.queues else { return u64::MAX };
        classes.iter().map(|class| queues.state.room_of(*class)).max().unwrap_or(u64::MAX)
    }

    /// Copy packets from now on, or no more. Meanwhile bursts are taken apart, and every outcome is in `out`. Without a
    /// graph nothing happens.
    pub fn copy_packets(&mut self, on: bool) {
        if let Some(queues) = &mut self.stages.queues {
            queues.state.copy_packets(on);
        }
    }

    /// The packets whose outcomes came since the last call, each with the place of its first one in `out`.
    pub fn take_copies(&mut self) -> Vec<CopiedPacket> {
        self.stages.queues.as_mut().map(|queues| queues.state.take_copies()).unwrap_or_default()
    }

    /// Take a packet in at hook 1a. Call this instead of [`Inbound::handle`] where there is a graph. What is for the host
    /// at once goes to `delivery`, as in the other calls; outcomes are in `out` while packets are copied.
    pub fn receive(
        &mut self,
        now: Time,
        mut packet: Packet<Raw>,
        pool: &mut Pool,
        out: &mut Vec<InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        packet.meta.received = now;
        let (stages, mut cx) = self.lend(pool, out);
        stages.copied(packet, &mut cx, |stages, packet, cx| stages.clean(packet, Stages::take_in, cx));
        stages.deliver(&mut cx, delivery);
    }

    /// Take a burst in at hook 1a. Call this instead of [`Inbound::handle_burst`] where there is a graph. It waits as a
    /// whole if it is of one association, and otherwise by association.
    pub fn receive_burst(
        &mut self,
        now: Time,
        burst: Burst<Raw>,
        pool: &mut Pool,
        out: &mut Vec<InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let (stages, mut cx) = self.lend(pool, out);
        stages.take_burst_in(now, burst, &mut cx, delivery);
        stages.deliver(&mut cx, delivery);
    }

    /// Give the packets that wait for it their associations, at most `most` of them. Returns whether more wait.
    pub fn look_up(
        &mut self,
        now: Time,
        most: usize,
        pool: &mut Pool,
        out: &mut Vec<InboundOutcome>,
        delivery: &mut Delivery,
    ) -> bool {
        let (stages, mut cx) = self.lend(pool, out);
        stages.release_opened(now, &mut cx, delivery);
        let more = (0..most).all(|_| stages.look_up_one(now, &mut cx, delivery));
        stages.deliver(&mut cx, delivery);
        more
    }

    /// Open the packets whose turn it is, as far as the unit wants work. Returns whether there were any.
    pub fn turn(
        &mut self,
        now: Time,
        pool: &mut Pool,
        out: &mut Vec<InboundOutcome>,
        delivery: &mut Delivery,
    ) -> bool {
        let (stages, mut cx) = self.lend(pool, out);
        let any = stages.turn(now, &mut cx, delivery);
        stages.deliver(&mut cx, delivery);
        any
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

    /// Say that what the last turn brought is delivered. The graph learns from it what packets cost, with input and
    /// output. Returns what to wait for until the next turn.
    pub fn settle(&mut self, now: Time) -> Wake {
        self.stages.queues.as_mut().map_or(Wake::Never, |queues| queues.settle(now))
    }

    /// The stages, and the context of a call.
    pub(super) fn lend<'a>(
        &'a mut self,
        pool: &'a mut Pool,
        out: &'a mut Vec<InboundOutcome>,
    ) -> (&'a mut Stages, Cx<'a, InboundOutcome>) {
        let Inbound { stages, stats, events, .. } = self;
        (stages, Cx { pool, out, stats, events })
    }
}

impl Stages {
    /// Whether packets are copied, and each outcome is wanted beside its packet.
    pub(super) fn copies_packets(&self) -> bool {
        self.queues.as_ref().is_some_and(|queues| queues.state.is_copying())
    }

    /// Hand the outcomes over to the delivery, unless somebody wants them beside copies of their packets.
    pub(super) fn deliver(&self, cx: &mut Cx<'_, InboundOutcome>, delivery: &mut Delivery) {
        if !self.copies_packets() {
            hand_over(cx.out, delivery);
        }
    }

    /// Do this with a packet, whose copy stays if it has an outcome already.
    pub(super) fn copied(
        &mut self,
        packet: Packet<Raw>,
        cx: &mut Cx<'_, InboundOutcome>,
        then: impl FnOnce(&mut Stages, Packet<Raw>, &mut Cx<'_, InboundOutcome>),
    ) {
        let from = cx.out.len();
        if let Some(queues) = &mut self.queues {
            queues.state.copy(&packet, from);
        }
        then(self, packet, cx);
        self.hold_copies(from, cx);
        if let Some(queues) = &mut self.queues {
            queues.state.forget_copy(cx.out.len());
        }
    }

    /// Hook 1a for a whole packet. What is not protected by an association with a key goes its way at once.
    fn take_in(&mut self, mut packet: Packet<Raw>, headers: &Headers, cx: &mut Cx<'_, InboundOutcome>) {
        if self.takes_bare(headers) {
            let (now, from) = (packet.meta.received, cx.out.len());
            self.open_at_once(packet, headers, cx);
            if !self.nested.is_empty() {
                self.hold_copies(from, cx);
                // Nothing of a packet that is alone goes to a delivery here.
                self.offer_nested(None, now, cx, &mut Delivery::new());
            }
            return;
        }
        let found = Outer::find(packet.bytes(), headers, self.port);
        let outer = match &found {
            Ok(outer) => outer,
            Err(reason) => return cx.discard(packet, *reason, None),
        };
        (packet.meta.spi, packet.meta.sequence) = (outer.spi, outer.sequence.into());
        let sa = match association(&mut self.sad, outer) {
            Ok(sa) => &*sa,
            Err(reason) => {
                cx.report(Dropped::new(reason, &about(&packet, outer), packet.bytes().len(), None));
                return cx.pool.put(packet.into_buf());
            }
        };
        let Some(queues) = &mut self.queues else { return cx.discard(packet, DropReason::NoUnit, None) };
        let now = packet.meta.received;
        let name = Name { spi: outer.spi, src: outer.src, dst: outer.dst, tos: outer.tos };
        let meta = queues.describe(sa, &name, now, (1, packet.bytes().len() as u64));
        let held = WaitingEntry { name, waiting: Waiting::Packet(packet_in_cell(packet, cx.pool)) };
        // Nothing of a packet that is alone goes to a delivery here.
        self.offer(now, held, meta, cx, &mut Delivery::new());
    }

    /// Hook 1a for a burst.
    fn take_burst_in(
        &mut self,
        now: Time,
        burst: Burst<Raw>,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        if self.copies_packets() && !burst.bytes().is_empty() {
            return self.take_apart(now, burst, cx, |stages, packet, cx| {
                stages.copied(packet, cx, |stages, packet, cx| stages.whole(packet, Stages::take_in, cx));
            });
        }
        let Some(runs) = self.runs(&burst) else {
            let mut take_in = |stages: &mut Stages, packet, cx: &mut Cx<'_, InboundOutcome>| {
                stages.whole(packet, Stages::take_in, cx);
            };
            return self.singly(now, burst, &mut take_in, cx, delivery);
        };
        let mut list = runs.iter();
        if let (Some(run), None) = (list.next(), list.next()) {
            return match self.refusal(run.spi, &burst.header) {
                None => self.offer_burst(now, burst, run.spi, cx, delivery),
                Some(reason) => {
                    self.refuse_run(now, &burst, *run, reason, cx, delivery);
                    cx.pool.put(burst.into_buf());
                }
            };
        }
        for run in runs.iter() {
            if let Some(reason) = self.refusal(run.spi, &burst.header) {
                self.refuse_run(now, &burst, *run, reason, cx, delivery);
                continue;
            }
            match burst.part(run.from..run.to, |octets| copy_of(octets, cx.pool)) {
                Some(part) => self.offer_burst(now, part, run.spi, cx, delivery),
                None => self.refuse(now, &burst, *run, DropReason::NoRoom, cx, delivery),
            }
        }
        cx.pool.put(burst.into_buf());
    }

    /// The reason why datagrams with this SPI find no association of their sender.
    pub(super) fn refusal(&self, spi: u32, header: &OuterHeader) -> Option<DropReason> {
        match self.sad.find(Spi(spi), header.src, header.dst) {
            Some(sa) if sa.is_peer(header.src, header.dst, None) => None,
            Some(_) => Some(DropReason::WrongPeer),
            None => Some(unknown(spi)),
        }
    }

    /// End a run without an association of its sender.
    #[cold]
    pub(super) fn refuse_run<S>(
        &mut self,
        now: Time,
        burst: &Burst<S>,
        run: Run,
        reason: DropReason,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let header = &burst.header;
        if reason == DropReason::WrongPeer
            && let Some(sa) = self.sad.find_mut(Spi(run.spi), header.src, header.dst)
        {
            (run.from..run.to).for_each(|_| sa.counters.dropped(reason));
        }
        self.refuse(now, burst, run, reason, cx, delivery);
    }

    /// Let datagrams of one association wait.
    fn offer_burst(
        &mut self,
        now: Time,
        burst: Burst<Raw>,
        spi: u32,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let header = burst.header;
        let name = Name { spi, src: header.src, dst: header.dst, tos: header.tos };
        let all = Run { spi, from: 0, to: burst.count() };
        let (Some(queues), Some(sa)) = (&mut self.queues, self.sad.find(Spi(spi), header.src, header.dst))
        else {
            self.refuse(now, &burst, all, unknown(spi), cx, delivery);
            return cx.pool.put(burst.into_buf());
        };
        let is_large = burst.bytes().len() > LONGEST_IN_CELL;
        if is_large && burst.count() > 1 && !queues.state.has_room_for_large() {
            // Each datagram finds room in a cell.
            for at in 0..burst.count() {
                match burst.part(at..at + 1, |octets| copy_of(octets, cx.pool)) {
                    Some(part) => self.offer_burst(now, part, spi, cx, delivery),
                    None => {
                        let run = Run { spi, from: at, to: at + 1 };
                        self.refuse(now, &burst, run, DropReason::NoRoom, cx, delivery);
                    }
                }
            }
            return cx.pool.put(burst.into_buf());
        }
        let lengths = burst.datagrams().map(|datagram| datagram.len() as u64);
        let within = queues.within_reserved(sa, &name, now, lengths);
        if let Some(within) = within.filter(|within| (1..burst.count()).contains(within)) {
            return self.offer_apart(now, burst, spi, within, cx, delivery);
        }
        let meta = queues.describe(sa, &name, now, (burst.count() as u64, burst.bytes().len() as u64));
        let held = WaitingEntry { name, waiting: Waiting::Burst(burst_in_cell(burst, cx.pool)) };
        self.offer(now, held, meta, cx, delivery);
    }

    /// Let the first datagrams of a burst wait by themselves, and then the others: those keep within the rate that is
    /// reserved for their flow.
    #[cold]
    fn offer_apart(
        &mut self,
        now: Time,
        mut burst: Burst<Raw>,
        spi: u32,
        first: usize,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        match burst.part(0..first, |octets| copy_of(octets, cx.pool)) {
            Some(part) => self.offer_burst(now, part, spi, cx, delivery),
            None => {
                self.refuse(now, &burst, Run { spi, from: 0, to: first }, DropReason::NoRoom, cx, delivery)
            }
        }
        burst.skip(first);
        self.offer_burst(now, burst, spi, cx, delivery);
    }

    /// Let it wait in the incoming main queue.
    pub(super) fn offer(
        &mut self,
        now: Time,
        held: WaitingEntry,
        meta: qos::Meta,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let Some(queues) = &mut self.queues else {
            return self.end(now, held, DropReason::NoUnit, cx, delivery);
        };
        let context = queues.state.context(now);
        match queues.state.keep(held) {
            Ok(ticket) => {
                queues.state.forget_copy(cx.out.len());
                queues.state.offer(HookPoint::In1a, ticket, meta, &context);
                self.end_dropped(now, cx, delivery);
            }
            Err(held) => self.end(now, held, DropReason::QueueFull, cx, delivery),
        }
    }

    /// Hook 1b and the look-up, for the next of the incoming main queue, and hook 3a. Returns whether there was one.
    fn look_up_one(&mut self, now: Time, cx: &mut Cx<'_, InboundOutcome>, delivery: &mut Delivery) -> bool {
        let Some(queues) = &mut self.queues else { return false };
        let context = queues.state.context(now);
        let due = queues.state.take_at(HookPoint::Out1b, &context);
        if let Some(due) = due {
            self.select(now, due.item, due.meta, cx, delivery);
        }
        self.end_dropped(now, cx, delivery);
        due.is_some()
    }

    fn select(
        &mut self,
        now: Time,
        item: Ticket,
        before: qos::Meta,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let Stages { sad, queues: Some(queues), .. } = self else { return };
        let name = queues.state.waiting.get(item).map(|held| held.name);
        let sa = name.and_then(|name| sad.find(Spi(name.spi), name.src, name.dst));
        let Some(sa) = sa else {
            // Its association was removed meanwhile.
            queues.state.graph.end_before(HookPoint::In3a, &before);
            let held = queues.state.take(item);
            if let Some(held) = held {
                let reason = unknown(held.name.spi);
                self.end(now, held, reason, cx, delivery);
            }
            return;
        };
        let mut meta = before;
        queues.demote(&mut meta, now);
        if !queues.state.graph.has(meta.aggregate) {
            meta.aggregate = queues.state.graph.classify(&meta);
        }
        queues.serve(sa, &mut meta);
        meta.amount.ns = queues.state.graph.expected(meta.suite, meta.direction, &meta.amount);
        queues.state.graph.recount(HookPoint::In3a, Some(&before), &meta);
        let context = queues.state.context(now);
        queues.state.offer(HookPoint::In3a, item, meta, &context);
    }

    /// End what the graph has dropped.
    pub(super) fn end_dropped(
        &mut self,
        now: Time,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        while let Some(queues) = &mut self.queues
            && let Some(ended) = queues.state.next_ended()
        {
            if let Some(held) = queues.state.take(ended.item) {
                if held.is_behind() {
                    self.free_opened();
                }
                self.end(now, held, reason(ended.cause), cx, delivery);
            }
        }
    }

    /// End what waited, or was to wait.
    #[cold]
    pub(super) fn end(
        &mut self,
        now: Time,
        held: WaitingEntry,
        reason: DropReason,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let WaitingEntry { name, waiting } = held;
        match waiting {
            Waiting::Packet(mut packet) => {
                packet.meta.received = now;
                if let Some(queues) = &mut self.queues {
                    // One that finds no place is copied already.
                    queues.state.forget_copy(cx.out.len());
                    queues.state.copy(&packet, cx.out.len());
                }
                let about = About { outer: Some((name.src, name.dst)), ..About::of(&packet.meta) };
                cx.report(Dropped::new(reason, &about, packet.bytes().len(), None));
                cx.pool.put(packet.into_buf());
            }
            Waiting::Burst(burst) => {
                let all = Run { spi: name.spi, from: 0, to: burst.count() };
                self.refuse(now, &burst, all, reason, cx, delivery);
                cx.pool.put(burst.into_buf());
            }
            Waiting::Nested(entry) => self.end_nested(entry.nested, reason, cx),
            Waiting::Opened(opened) => self.end_opened(name, opened, reason, now, cx),
        }
    }

    /// Put a graph into the place of the one that is in force, if there is one, and move its packets.
    #[cold]
    fn exchange(
        &mut self,
        now: Time,
        mut graph: Box<InboundGraph>,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        // Its unit may be another one afterwards, or none.
        self.finish_steps(now, cx, delivery);
        let Some(mut before) = self.queues.take() else {
            cx.pool.set_cells(graph.state.cells(), LONGEST_IN_CELL, CELL_TAILROOM);
            self.queues = Some(graph);
            return;
        };
        before.settle(now);
        cx.pool.grow_cells(graph.state.cells());
        graph.adopt(*before, now);
        self.queues = Some(graph);
        self.end_dropped(now, cx, delivery);
        self.deliver(cx, delivery);
    }

    /// Open everything that waits, in its order, and go on without a graph.
    #[cold]
    fn leave_graph(&mut self, now: Time, cx: &mut Cx<'_, InboundOutcome>, delivery: &mut Delivery) {
        self.finish_steps(now, cx, delivery);
        // Whoever calls waits for units that answer later; what they still have does not come back in time.
        let away = self.queues.as_ref().map(|queues| queues.flights.units()).unwrap_or_default();
        away.into_iter().for_each(|unit| self.fail_unit(now, unit, cx, delivery));
        loop {
            let looked = self.look_up_one(now, cx, delivery);
            let turned = self.turn(now, cx, delivery);
            while let Some(mut work) = self.queues.as_mut().and_then(|queues| queues.departed.pop_front()) {
                work.compute();
                self.take_answer(now, work, cx, delivery);
            }
            self.finish_steps(now, cx, delivery);
            let Some(queues) = &mut self.queues else { return };
            queues.settle(now);
            if !looked && !turned {
                break;
            }
        }
        let mut held = self.queues.as_mut().map(|queues| queues.state.waiting.drain().collect::<Vec<_>>());
        // What a shaper holds back.
        let (mut all, mut between) = (Vec::new(), Vec::new());
        for held in held.iter_mut().flat_map(|held| held.drain(..)) {
            match held {
                WaitingEntry { waiting: Waiting::Opened(opened), .. } => all.push(opened),
                WaitingEntry { waiting: Waiting::Nested(entry), .. } => between.push(entry.nested),
                held => self.end(now, held, DropReason::ShapedOut, cx, delivery),
            }
        }
        // In the order of the members before, or the windows of the next ones would refuse what is late.
        between.sort_by_key(|nested: &NestedPacket| nested.sequence());
        between.into_iter().for_each(|nested| self.open_nested_at_once(nested, cx));
        all.sort_by_key(|opened: &Opened| opened.order);
        all.into_iter().for_each(|opened| self.hand_out(opened, cx, delivery));
        self.deliver(cx, delivery);
        self.queues = None;
        cx.pool.set_cells(0, 0, 0);
    }
}
