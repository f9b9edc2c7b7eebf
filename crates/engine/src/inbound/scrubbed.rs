//! The scrubbing of inbound packets whose flows policy or rules want scrubbed.

use sadb::InboundSa;
use scrub::{Arrival, Outcome, Rule, Scrubber, Side};
use wire::stage::{Inner, Raw};
use wire::{AppId, DropReason, Flow, Gso, Meta, Packet, Services};

use super::outcome::{InboundOutcome, deliver};
use super::permit::Permit;
use crate::cx::Cx;
use crate::scrubbing::{Emitted, ScrubResult, Scrubbing};
use crate::stats::{About, Dropped};

/// Let the scrubber see an outer packet. The error is the reason if it drops the packet.
#[cold]
pub(super) fn outer(
    scrubber: &mut Scrubber,
    packet: &mut Packet<Raw>,
) -> Result<(), (DropReason, Option<Rule>)> {
    let arrival = Arrival { from: Side::Outside, link: 0, realm: 0 };
    let now = packet.meta.received;
    let verdict = scrubber.process(now, arrival, packet.buf_mut(), &mut Gso::default());
    // Nobody outside is told anything that no association protects.
    while scrubber.poll_emitted().is_some() {}
    match verdict.outcome {
        Outcome::Forward => Ok(()),
        Outcome::Drop(rule) => Err((DropReason::Scrubbed, Some(rule))),
        Outcome::Hold | Outcome::Fragmented => Err((DropReason::FragmentHeld, None)),
    }
}

/// Let the scrubber see a packet that policy admits, and deliver it as it is then.
#[cold]
pub(super) fn scrub(
    sa: &mut InboundSa,
    app: AppId,
    scrubbing: Option<&mut Scrubbing>,
    (mut packet, permit): (Packet<Inner>, Permit),
    flow: &Flow,
    cx: &mut Cx<'_, InboundOutcome>,
) {
    let meta = packet.meta;
    let Some(scrubbing) = scrubbing else {
        sa.counters.dropped(DropReason::Scrubbed);
        return cx.discard(packet, DropReason::Scrubbed, Some(flow));
    };
    let mut emitted = std::mem::take(&mut scrubbing.emitted);
    match scrubbing.scrubbers.process(Side::Outside, app, &mut packet, &mut emitted) {
        Some(ScrubResult::Passed) => deliver(packet, permit, cx),
        Some(ScrubResult::Ended(rule)) => {
            sa.counters.dropped(DropReason::Scrubbed);
            let len = packet.bytes().len();
            let dropped = Dropped::new(DropReason::Scrubbed, &About::of(&meta), len, Some(flow));
            cx.report(dropped.by(rule));
            cx.pool.put(packet.into_buf());
        }
        Some(ScrubResult::Gone) => cx.pool.put(packet.into_buf()),
        // Nobody knows this profile.
        None => {
            sa.counters.dropped(DropReason::Scrubbed);
            cx.discard(packet, DropReason::Scrubbed, Some(flow));
        }
    }
    if !emitted.is_empty() {
        let services = meta.services;
        emitted.iter().filter(|one| one.to == Side::Inside).for_each(|one| answer(one, &meta, services, cx));
        let outward = emitted.drain(..).filter(|one| one.to == Side::Outside);
        scrubbing.called |= scrubbing.scrubbers.leave(outward);
    }
    scrubbing.emitted = emitted;
}

/// Deliver a packet of the scrubber's own to the host, with the mark of the packet that it is about.
fn answer(emitted: &Emitted, about: &Meta, services: Services, cx: &mut Cx<'_, InboundOutcome>) {
    let mut room = cx.pool.take();
    let Some(place) = room.push_back(emitted.buf.len()) else { return cx.pool.put(room) };
    place.copy_from_slice(emitted.buf.as_slice());
    let mark = crate::arrival_mark(services, about.app);
    let meta = Meta { received: about.received, app: about.app, mark, services, ..Meta::default() };
    cx.out.push(InboundOutcome::Deliver(Packet::made_for_host(room, meta), mark));
}
