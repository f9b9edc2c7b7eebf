//! The next rounds of inbound bundles: the same stages for a packet that is already inside (RFC 4301 section 5.2).
//!
//! Without a graph, all rounds follow each other at once. In a graph, a packet goes back to the queues in front of each
//! further member with a key (paper 002 section III.A): what one member has opened comes to 4a, as each result does,
//! and from 4b it goes to 3a and not to 2a, with the association and the suite of the next member, and as its index the
//! members that are done. What comes in a tunnel without a key has cost no unit anything, and is new work at 1a.

use qos::graph::description::HookPoint;
use qos::{Amount, Direction};
use sadb::rules::Member;
use sadb::{MAX_CHAIN, SaName, Spi};
use wire::ip::Headers;
use wire::stage::Inner;
use wire::{DropReason, Packet, Time, protocol};

use super::compressed::{compressed_in, opens_into};
use super::graph::{NestedEntry, Waiting, WaitingEntry};
use super::name::Name;
use super::nested::NestedPacket;
use super::queued::note_congestion;
use super::{Delivery, InboundOutcome, Stages, admit, lend};
use crate::cx::Cx;
use crate::nest;
use crate::queued::{Ticket, header_kind, packet_in_cell};
use crate::seam::Turn;
use crate::stats::{About, Dropped};

/// Whether a packet is to be opened by a member with a key.
fn is_keyed(headers: &Headers) -> bool {
    matches!(headers.protocol, protocol::ESP | protocol::AH)
}

impl Stages {
    /// The next rounds of a bundle for a packet that came out of this association. In a graph it waits for its turn.
    #[cold]
    pub(super) fn nest(
        &mut self,
        packet: Packet<Inner>,
        headers: Headers,
        name: SaName,
        cx: &mut Cx<'_, InboundOutcome>,
    ) {
        let Some(first) = self.sad.get(name).map(|sa| Member::from(sa.config())) else {
            return cx.discard(packet, DropReason::UnknownSpi, None);
        };
        let (around, copies) = ([first; MAX_CHAIN], Vec::new());
        let nested = NestedPacket { packet, from: name, around, round: 1, is_new: false, copies };
        let turn = if self.queues.is_some() { None } else { Some(Turn::at_once()) };
        self.open_rounds(nested, headers, turn, self.queues.is_some(), cx);
    }

    /// Open a packet of a bundle, round by round. `turn` is for the next member with a key; if `stops`, the packet waits
    /// in front of the one behind that.
    fn open_rounds(
        &mut self,
        nested: NestedPacket,
        mut headers: Headers,
        mut turn: Option<Turn>,
        stops: bool,
        cx: &mut Cx<'_, InboundOutcome>,
    ) {
        let NestedPacket { mut packet, from: mut name, mut around, round: first, copies, .. } = nested;
        for round in first..MAX_CHAIN {
            if stops && turn.is_none() && is_keyed(&headers) {
                let is_new = false;
                self.nested.push(NestedPacket { packet, from: name, around, round, is_new, copies });
                return;
            }
            let granted = if is_keyed(&headers) { turn.take() } else { turn };
            let granted = granted.unwrap_or_else(Turn::at_once);
            let before = packet.meta;
            let around_it = compressed_in(&self.sad, name, packet.bytes(), &headers);
            let opened =
                nest::open(&mut self.sad, &mut self.members, name, packet, &headers, granted, cx.pool);
            let (inner, sa) = match opened {
                Ok(opened) => opened,
                Err((reason, len)) => {
                    return cx.report(Dropped::new(reason, &About::of(&before), len, None));
                }
            };
            name = sa.name();
            if let Some(selectors) = around_it
                && !opens_into(sa, &selectors, inner.bytes())
            {
                sa.counters.dropped(DropReason::SelectorMismatch);
                return cx.discard(inner, DropReason::SelectorMismatch, None);
            }
            if let Some(next) = around.get_mut(round) {
                *next = Member::from(sa.config());
            }
            let parts = lend!(self, around.get(..round).unwrap_or_default());
            match admit(sa, inner, parts, cx) {
                Some(nested) => (packet, headers) = nested,
                None => return,
            }
        }
        cx.discard(packet, DropReason::NestingLimit, None);
    }

    /// Open a packet by the next member of its bundle, whose turn it is.
    #[cold]
    pub(super) fn open_nested(
        &mut self,
        now: Time,
        mut nested: NestedPacket,
        meta: &qos::Meta,
        turn: Turn,
        cx: &mut Cx<'_, InboundOutcome>,
    ) {
        let from = cx.out.len();
        if let Some(queues) = &mut self.queues {
            queues.state.copy_all(std::mem::take(&mut nested.copies), from);
        }
        nested.packet.meta.received = now;
        // The header's congestion field is what the graph noted, and RFC 6040 takes it in with the next header.
        if meta.ecn & 3 == 3 {
            note_congestion(&mut nested.packet, meta);
        }
        match Headers::parse(nested.packet.bytes()) {
            Ok(headers) => self.open_rounds(nested, headers, Some(turn), true, cx),
            Err(error) => cx.discard(nested.packet, error.into(), None),
        }
        self.hold_copies(from, cx);
    }

    /// Open all rounds of a packet that waited, at once: there will be no graph.
    #[cold]
    pub(super) fn open_nested_at_once(&mut self, mut nested: NestedPacket, cx: &mut Cx<'_, InboundOutcome>) {
        if let Some(queues) = &mut self.queues {
            queues.state.copy_all(std::mem::take(&mut nested.copies), cx.out.len());
        }
        match Headers::parse(nested.packet.bytes()) {
            Ok(headers) => self.open_rounds(nested, headers, Some(Turn::at_once()), false, cx),
            Err(error) => cx.discard(nested.packet, error.into(), None),
        }
    }

    /// Have the copies from a place on wait with the packet that waits for its next member, if it has no outcome.
    pub(super) fn hold_copies(&mut self, from: usize, cx: &Cx<'_, InboundOutcome>) {
        if let (Some(nested), Some(queues)) = (self.nested.last_mut(), &mut self.queues)
            && cx.out.len() == from
            && nested.copies.is_empty()
        {
            nested.copies = queues.state.take_copies_of(from);
        }
    }

    /// Let packets that came out of one member wait for the next: by 4a if components hang there. `template` is known of
    /// them all. Without one they came in a tunnel without a key, and are new at 1a.
    #[cold]
    pub(super) fn offer_nested(
        &mut self,
        template: Option<&qos::Meta>,
        now: Time,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let mut all = std::mem::take(&mut self.nested);
        for mut nested in all.drain(..) {
            let found = match Headers::parse(nested.packet.bytes()) {
                Ok(headers) => {
                    let (sad, members) = (&mut self.sad, &self.members);
                    nest::find(sad, members, nested.from, nested.packet.bytes(), &headers)
                }
                Err(error) => Err(error.into()),
            };
            let (name, tos) = match found {
                Ok((name, outer)) => {
                    let tos = outer.tos;
                    (Name { spi: name.spi.0, src: outer.src, dst: outer.dst, tos }, tos)
                }
                Err(reason) => {
                    self.end_nested(nested, reason, cx);
                    continue;
                }
            };
            nested.packet = packet_in_cell(nested.packet, cx.pool);
            nested.is_new = template.is_none();
            let octets = nested.octets() as u64;
            let sa = self.sad.find(Spi(name.spi), name.src, name.dst);
            let (Some(queues), Some(sa)) = (&mut self.queues, sa) else {
                self.end_nested(nested, DropReason::UnknownSpi, cx);
                continue;
            };
            let Some(template) = template else {
                let meta = queues.describe(sa, &name, now, (1, octets));
                let waiting = Waiting::Nested(Box::new(NestedEntry { nested, is_behind: false }));
                self.offer(now, WaitingEntry { name, waiting }, meta, cx, delivery);
                continue;
            };
            let mut meta = *template;
            let ns = template.amount.ns / template.amount.packets.max(1);
            (meta.amount, meta.ecn) = (Amount { packets: 1, octets, ns }, tos & 3);
            let is_behind = queues.collected.is_wanted;
            let waiting = Waiting::Nested(Box::new(NestedEntry { nested, is_behind }));
            let entry = WaitingEntry { name, waiting };
            if !is_behind {
                self.offer_next_member(entry, meta, now, cx, delivery);
                continue;
            }
            queues.state.graph.recount(HookPoint::In4a, None, &meta);
            self.keep_at(HookPoint::In4a, entry, meta, now, cx, delivery);
        }
        // The room of the list is kept.
        self.nested = all;
    }

    /// From 4b back to 3a.
    #[cold]
    pub(super) fn return_nested(
        &mut self,
        item: Ticket,
        meta: qos::Meta,
        now: Time,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let Some(queues) = &mut self.queues else { return };
        if let Some(WaitingEntry { name, waiting: Waiting::Nested(mut entry) }) = queues.state.take(item) {
            queues.collected.waiting = queues.collected.waiting.saturating_sub(1);
            queues.state.graph.end_before(HookPoint::In2a, &meta);
            entry.is_behind = false;
            let waiting = Waiting::Nested(entry);
            self.offer_next_member(WaitingEntry { name, waiting }, meta, now, cx, delivery);
        }
    }

    /// Hook 3a for a packet with a next member, which no limit counts.
    fn offer_next_member(
        &mut self,
        entry: WaitingEntry,
        before: qos::Meta,
        now: Time,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let name = entry.name;
        let index = match &entry.waiting {
            Waiting::Nested(entry) => entry.nested.index(),
            _ => before.index,
        };
        let sa = self.sad.find(Spi(name.spi), name.src, name.dst);
        let (Some(queues), Some(sa)) = (&mut self.queues, sa) else {
            return self.end(now, entry, DropReason::UnknownSpi, cx, delivery);
        };
        let mut meta = before;
        (meta.association, meta.spi, meta.index) = (name.spi, name.spi, index);
        queues.state.note_peer(&mut meta, name.src);
        meta.header = header_kind(sa.config());
        meta.app = sa.config().selectors.app.unwrap_or(before.app);
        // Rules see the header that is opened next. A demoted source stays demoted, whatever they say.
        meta.dscp = [name.tos >> 2; 2];
        meta.aggregate = queues.state.graph.classify_again(&before, &meta);
        queues.demote(&mut meta, now);
        queues.serve(sa, &mut meta);
        meta.amount.ns = queues.state.graph.expected(meta.suite, Direction::Inbound, &meta.amount);
        queues.state.graph.recount(HookPoint::In3a, None, &meta);
        self.keep_at(HookPoint::In3a, entry, meta, now, cx, delivery);
    }

    /// End a packet that waited between two members, or was to wait there.
    #[cold]
    pub(super) fn end_nested(
        &mut self,
        nested: NestedPacket,
        reason: DropReason,
        cx: &mut Cx<'_, InboundOutcome>,
    ) {
        let NestedPacket { packet, copies, .. } = nested;
        if let Some(queues) = &mut self.queues {
            queues.state.copy_all(copies, cx.out.len());
        }
        cx.report(Dropped::new(reason, &About::of(&packet.meta), packet.bytes().len(), None));
        cx.pool.put(packet.into_buf());
    }
}
