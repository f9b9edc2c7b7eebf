//! Packets that an association sends by itself: keepalives, dummy packets, probes of its path. Like all others they
//! pass the seam before they are sealed.

use sadb::SaIndex;
use wire::stage::{Inner, Scheduled};
use wire::{Meta, Packet, Time};

use crate::cx::Cx;
use crate::outbound::outcome::Outcome;
use crate::outbound::selection::Selection;
use crate::seam;

/// An empty packet of this association, whose turn has come.
pub(super) fn originate(association: SaIndex, now: Time, cx: &mut Cx<'_, Outcome>) -> Packet<Scheduled> {
    let meta = Meta { received: now, ..Meta::default() };
    let packet: Packet<Inner> = Packet::from_host(cx.pool.take(), meta);
    seam::schedule(packet.advance(&Selection::of_itself(association)))
}
