//! Packets of bundles in a graph: from one member back to the queues, and on to the next (paper 002 section III.A, note 1
//! of section II; RFC 4301 section 4.1).
//!
//! What one member has sealed comes to 4a, as each result does. From 4b it goes to 3a again and not to 2a, with the
//! association, the suite and the far end of the next member, and as its index the members that are done. So it goes
//! ahead of the packets that no member has sealed yet, perhaps to another unit, and has its next sequence number when
//! its turn comes.

use qos::dispatcher::Assignment;
use qos::graph::description::HookPoint;
use qos::{Amount, Direction};
use wire::{DropReason, Time, ip};

use super::super::Stages;
use super::super::graph::{BundledEntry, Waiting};
use super::super::outcome::Outcome;
use super::super::protector::BundledPacket;
use super::write_marks;
use crate::cx::Cx;
use crate::queued::{CopiedPacket, Ticket, header_kind, packet_in_cell};
use crate::seam;

impl Stages {
    /// Seal a packet by the next member of its bundle, whose turn it is.
    #[cold]
    pub(super) fn protect_bundled(
        &mut self,
        assignment: Assignment<Ticket>,
        entry: Box<BundledEntry>,
        cx: &mut Cx<'_, Outcome>,
    ) {
        let Assignment { grant, unit, job, item: _, meta, budget: _ } = assignment;
        let BundledEntry { packet: mut bundled, copies, is_behind: _ } = *entry;
        if let Some(queues) = &mut self.queues {
            queues.state.copy_all(copies, cx.out.len());
        }
        bundled.packet.meta.aggregate = meta.aggregate;
        write_marks(&mut bundled.packet, &meta);
        self.choose_place((unit, job), meta.aggregate, cx);
        self.protector.go_on_with(bundled, seam::turn_granted(&grant), cx);
        self.leave_unit((unit, job), &meta);
    }

    /// Let what one member has sealed go on to the next: by 4a if components hang there. `counted` is what limits still
    /// count for them together. Their copies are those from the place `from` on.
    #[cold]
    pub(super) fn offer_bundled(
        &mut self,
        counted: Option<&qos::Meta>,
        from: usize,
        now: Time,
        cx: &mut Cx<'_, Outcome>,
    ) {
        let mut all = self.protector.take_bundled();
        let Some(queues) = &mut self.queues else { return };
        // A copy whose packet has outcomes already stays with them.
        let has_outcome = cx.out.len() > from;
        let mut copies = if has_outcome { Vec::new() } else { queues.state.take_copies_of(from) };
        if let Some(counted) = counted {
            queues.state.graph.end_before(HookPoint::In4a, counted);
        }
        for packet in all.drain(..) {
            let copies = std::mem::take(&mut copies);
            self.offer_member(packet, copies, now, cx);
        }
        self.protector.keep_list(all);
    }

    fn offer_member(
        &mut self,
        mut bundled: BundledPacket,
        copies: Vec<CopiedPacket>,
        now: Time,
        cx: &mut Cx<'_, Outcome>,
    ) {
        bundled.packet = packet_in_cell(bundled.packet, cx.pool);
        let Some(queues) = &mut self.queues else { return };
        let is_behind = queues.collected.is_wanted;
        let mut meta = bundled.progress.known;
        let ns = meta.amount.ns / meta.amount.packets.max(1);
        meta.amount = Amount { packets: 1, octets: bundled.packet.bytes().len() as u64, ns };
        let tos = ip::tos(bundled.packet.bytes()).unwrap_or_default();
        if is_behind {
            meta.ecn = tos & 3;
            if !meta.is_marked {
                meta.dscp[0] = tos >> 2;
            }
        }
        let entry = Box::new(BundledEntry { packet: bundled, copies, is_behind });
        if !is_behind {
            return self.offer_next_member(entry, meta, now, cx);
        }
        queues.state.graph.recount(HookPoint::In4a, None, &meta);
        self.keep_at(HookPoint::In4a, Waiting::Bundled(entry), meta, now, cx);
    }

    /// From 4b back to 3a.
    #[cold]
    pub(in crate::outbound) fn return_bundled(
        &mut self,
        item: Ticket,
        meta: qos::Meta,
        now: Time,
        cx: &mut Cx<'_, Outcome>,
    ) {
        let Some(queues) = &mut self.queues else { return };
        if let Some(Waiting::Bundled(mut entry)) = queues.state.take(item) {
            queues.collected.free();
            queues.state.graph.end_before(HookPoint::In2a, &meta);
            entry.is_behind = false;
            self.offer_next_member(entry, meta, now, cx);
        }
    }

    /// Hook 3a for a packet with a next member, which no limit counts.
    fn offer_next_member(
        &mut self,
        entry: Box<BundledEntry>,
        before: qos::Meta,
        now: Time,
        cx: &mut Cx<'_, Outcome>,
    ) {
        let Some(queues) = &mut self.queues else { return };
        let progress = &entry.packet.progress;
        let sad = self.protector.sad();
        let Some(sa) = progress.next(sad).and_then(|index| sad.get(index)) else {
            return self.end_bundled(entry, DropReason::ChainMissing, cx);
        };
        let mut meta = before;
        meta.index = progress.round();
        (meta.association, meta.spi) = (sa.spi().0, sa.spi().0);
        queues.note_peer(&mut meta, sa);
        meta.header = header_kind(sa.config());
        // The header that is sealed next, with what a component has noted since it was written.
        let tos = ip::tos(entry.packet.packet.bytes()).unwrap_or_default();
        let is_congested = before.ecn & 3 == 3 && tos & 3 != 0;
        (meta.dscp[1], meta.ecn) = (tos >> 2, if is_congested { 3 } else { tos & 3 });
        meta.aggregate = queues.state.graph.classify_again(&before, &meta);
        (meta.suite, meta.units, _) = queues.known(sa, meta.aggregate);
        meta.amount.ns = queues.state.graph.expected(meta.suite, Direction::Outbound, &meta.amount);
        queues.state.graph.recount(HookPoint::In3a, None, &meta);
        self.keep_at(HookPoint::In3a, Waiting::Bundled(entry), meta, now, cx);
    }

    /// End a packet that waited between two members, or was to wait there.
    #[cold]
    pub(super) fn end_bundled(
        &mut self,
        entry: Box<BundledEntry>,
        reason: DropReason,
        cx: &mut Cx<'_, Outcome>,
    ) {
        let BundledEntry { packet: BundledPacket { packet, progress }, copies, is_behind: _ } = *entry;
        if let Some(queues) = &mut self.queues {
            queues.state.copy_all(copies, cx.out.len());
        }
        cx.pool.put(packet.into_buf());
        progress.end(reason, cx);
    }
}
