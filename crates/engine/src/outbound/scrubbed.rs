//! Outbound packets of flows that are scrubbed, and packets that the scrubber makes itself.

use scrub::Side;
use wire::ip::{self, Headers};
use wire::stage::{Inner, Selected};
use wire::{AppId, DropReason, Flow, Meta, Packet, Time};

use super::decider::bound_to;
use super::outcome::Outcome;
use super::selection::Selection;
use super::{Stages, origin};
use crate::cx::Cx;
use crate::scrubbing::{Emitted, ScrubResult};
use crate::stats::{About, Dropped};

impl Stages {
    /// Let the scrubber see a packet that was selected, and let it go on as it is then.
    #[cold]
    pub(super) fn scrub(
        &mut self,
        selection: Selection,
        mut packet: Packet<Selected>,
        joined: Option<u32>,
        flow: &Flow,
        cx: &mut Cx<'_, Outcome>,
    ) {
        let from = if origin::has_arrived(&packet.meta) { Side::Outside } else { Side::Inside };
        let mut emitted = std::mem::take(&mut self.emitted);
        let sad = self.protector.sad();
        let realm = selection.association().map_or(AppId::NONE, |index| bound_to(index, sad));
        let scrubbed = self.scrubbers.process(from, realm, &mut packet, &mut emitted);
        let meta = packet.meta;
        match scrubbed {
            Some(ScrubResult::Passed) => match Headers::parse(packet.bytes()) {
                Ok(headers) => self.pass_on(selection, packet, &headers, joined, flow, cx),
                Err(error) => cx.discard(packet, error.into(), Some(flow)),
            },
            Some(ScrubResult::Ended(rule)) => {
                let about = About::of(&meta);
                let len = packet.bytes().len();
                cx.report(Dropped::new(DropReason::Scrubbed, &about, len, Some(flow)).by(rule));
                cx.pool.put(packet.into_buf());
            }
            Some(ScrubResult::Gone) => cx.pool.put(packet.into_buf()),
            // Nobody knows this profile.
            None => cx.discard(packet, DropReason::Scrubbed, Some(flow)),
        }
        for one in emitted.drain(..) {
            // What came in clear was selected to go on in clear, and answers to it go the same way.
            let to_host = one.to == Side::Inside && from == Side::Inside;
            self.send_one(meta.received, one, (!to_host).then_some(selection), cx);
        }
        self.emitted = emitted;
    }

    /// Send the packets that the inbound half left, or that the passing of time brought.
    #[inline]
    pub(super) fn send_emitted(&mut self, now: Time, cx: &mut Cx<'_, Outcome>) {
        while let Some(emitted) = self.scrubbers.take() {
            self.send_left(now, emitted, cx);
        }
    }

    #[cold]
    fn send_left(&mut self, now: Time, emitted: Emitted, cx: &mut Cx<'_, Outcome>) {
        if emitted.to == Side::Inside {
            return self.send_one(now, emitted, None, cx);
        }
        let flow = Headers::parse(emitted.buf.as_slice())
            .ok()
            .map(|headers| ip::flow(emitted.buf.as_slice(), &headers, true));
        let selection = flow
            .ok_or(DropReason::BadHeader)
            .and_then(|flow| self.decider.select_emitted(emitted.app, &flow, self.protector.sad()));
        match selection {
            Ok(selection) => self.send_one(now, emitted, Some(selection), cx),
            Err(reason) => {
                let about = About { at: now, app: emitted.app, ..About::default() };
                cx.report(Dropped::new(reason, &about, emitted.buf.len(), flow.as_ref()));
            }
        }
    }

    /// Send a packet that the scrubber made by this selection; `None`: it is for the host, or for a network behind it.
    fn send_one(
        &mut self,
        now: Time,
        emitted: Emitted,
        selection: Option<Selection>,
        cx: &mut Cx<'_, Outcome>,
    ) {
        let Emitted { buf, app, services, .. } = emitted;
        let mark = crate::mark(services, app);
        let meta = Meta { received: now, app, mark, services, ..Meta::default() };
        let mut room = cx.pool.take();
        let Some(place) = room.push_back(buf.len()) else {
            return cx.discard(Packet::from_host(room, meta), DropReason::NoRoom, None);
        };
        place.copy_from_slice(buf.as_slice());
        let Some(selection) = selection else {
            cx.stats.replies.count(buf.len());
            return cx.out.push(Outcome::Reply(Packet::made_for_host(room, meta), mark));
        };
        let packet: Packet<Inner> = Packet::from_host(room, meta);
        match Headers::parse(packet.bytes()) {
            Ok(headers) => {
                let flow = ip::flow(packet.bytes(), &headers, true);
                self.pass_on(selection, packet.advance(&selection), &headers, None, &flow, cx);
            }
            Err(error) => cx.discard(packet, error.into(), None),
        }
    }
}
