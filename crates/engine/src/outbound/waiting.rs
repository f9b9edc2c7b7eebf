//! Packets that do not leave when they come: those that wait for an association or an entry, and those that are
//! refused.

use sadb::spd::Failure;
use wire::icmp::{self, Unreachable};
use wire::ip::{self, Headers};
use wire::stage::Inner;
use wire::{AcquireId, DropReason, Flow, Packet, Time, record};

use super::outcome::{Outcome, reply};
use super::route::final_flow;
use super::selection::Obstacle;
use super::{Stages, origin};
use crate::cx::Cx;

/// The ICMP error for this reason; `None` if it is no matter of policy or of a missing association.
fn unreachable(reason: DropReason) -> Option<Unreachable> {
    use DropReason as R;
    match reason {
        R::RuleDiscard
        | R::PolicyDiscard
        | R::NoSpdEntry
        | R::PfpUnavailable
        | R::AcquireRefused
        | R::SaTooWeak => Some(Unreachable::Prohibited),
        R::NoSa | R::HoldExpired | R::HoldFull => Some(Unreachable::Host),
        _ => None,
    }
}

impl Stages {
    /// Let a packet wait that does not leave now, or refuse it. `joined` is the identification of the fragments that it
    /// was joined from.
    #[cold]
    pub(super) fn set_aside(
        &mut self,
        reason: Obstacle,
        mut packet: Packet<Inner>,
        headers: &Headers,
        joined: Option<u32>,
        flow: &Flow,
        cx: &mut Cx<'_, Outcome>,
    ) {
        if let Obstacle::Refused(reason) = reason {
            return self.refuse(packet, headers, reason, flow, cx);
        }
        // What was joined stays whole: it is protected or it ends, and never goes out in clear again.
        packet.meta.may_fragment |= joined.is_some();
        if let Obstacle::Association = reason {
            let refused = self.decider.hold(packet, headers, flow, self.protector.sad(), cx);
            if let Some((packet, reason)) = refused {
                self.refuse(packet, headers, reason, flow, cx);
            }
            return;
        }
        match self.decider.await_entry(packet) {
            None => cx.out.push(Outcome::Held(AcquireId(0))),
            Some(packet) => cx.discard(packet, DropReason::NoEntry, Some(flow)),
        }
    }

    /// Send on the packets that have an entry by now, in the order in which they came.
    #[cold]
    pub(super) fn release_entered(&mut self, now: Time, cx: &mut Cx<'_, Outcome>) {
        for packet in self.decider.take_waiting() {
            let headers = match Headers::parse(packet.bytes()) {
                Ok(headers) => headers,
                Err(error) => {
                    cx.discard(packet, error.into(), None);
                    continue;
                }
            };
            let flow = final_flow(packet.bytes(), &headers);
            if let Some(packet) = self.decider.take_if_entered(now, packet, &flow) {
                self.dispatch(packet, &headers, None, cx);
            }
        }
    }

    /// Send on the packets that have an association by now, in the order in which they came.
    #[cold]
    pub(super) fn release_answered(&mut self, now: Time, cx: &mut Cx<'_, Outcome>) {
        for mut packet in self.decider.take_answered(self.protector.sad()) {
            packet.meta.received = now;
            match Headers::parse(packet.bytes()) {
                Ok(headers) => self.dispatch(packet, &headers, None, cx),
                Err(error) => cx.discard(packet, error.into(), None),
            }
        }
    }

    /// End the packets that waited too long.
    pub(super) fn expire_waiting(&mut self, now: Time, cx: &mut Cx<'_, Outcome>) {
        for (mut packet, failure) in self.decider.expire_holds(now) {
            packet.meta.received = now;
            self.give_up(packet, failure, DropReason::HoldExpired, cx);
        }
        for packet in self.decider.expire_entries(now) {
            let headers = Headers::parse(packet.bytes()).ok();
            let flow = headers.map(|headers| ip::flow(packet.bytes(), &headers, true));
            cx.discard(packet, DropReason::NoEntry, flow.as_ref());
        }
    }

    /// End a packet whose association does not come, or let it pass in clear where policy says so.
    #[cold]
    pub(super) fn give_up(
        &mut self,
        packet: Packet<Inner>,
        failure: Failure,
        reason: DropReason,
        cx: &mut Cx<'_, Outcome>,
    ) {
        let headers = Headers::parse(packet.bytes()).ok();
        // What was joined from fragments never goes out in clear again.
        if let (Failure::Pass, false, Some(headers)) = (failure, packet.meta.may_fragment, &headers) {
            return self.dispatch(packet, headers, None, cx);
        }
        let Some(headers) = headers else { return cx.discard(packet, reason, None) };
        let flow = ip::flow(packet.bytes(), &headers, true);
        self.refuse(packet, &headers, reason, &flow, cx);
    }

    /// Drop the packet, and tell its sender if that is on this side and the configuration says so (RFC 4301 section
    /// 5.1.1).
    #[cold]
    fn refuse(
        &mut self,
        packet: Packet<Inner>,
        headers: &Headers,
        reason: DropReason,
        flow: &Flow,
        cx: &mut Cx<'_, Outcome>,
    ) {
        let meta = &packet.meta;
        let answer = meta.mark & (record::STAMPED | record::PROOF) == record::PROOF;
        if let Some(kind) = unreachable(reason)
            && !answer
            && !origin::has_arrived(meta)
            && let Some(error) = icmp::unreachable(
                packet.bytes(),
                headers,
                kind,
                self.protector.answers().source(meta, headers),
            )
            && self.protector.may_refuse(meta.received)
        {
            cx.stats.replies.count(error.len());
            cx.out.push(reply(error, meta, meta.services));
        }
        cx.discard(packet, reason, Some(flow));
    }
}
