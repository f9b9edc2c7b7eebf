//! The ends of a packet's way through the inbound half: what its caller does with it.

use crate::tally::{About, Dropped, Tally};
use sadb::Spi;
use wire::stage::{Admitted, Inner};
use wire::{DropReason, Flow, Packet, Pool, Services};

/// The result of handling an inbound packet.
#[derive(Debug)]
pub enum InboundOutcome {
    /// The packet is for the host, through the TUN with this mark.
    Deliver(Packet<Admitted>, u32),
    /// The packet was dropped.
    Drop(Dropped),
}

/// Stage 9: hand the packet to the host with its mark.
pub(super) fn deliver(packet: Packet<Inner>, tally: &mut Tally, out: &mut Vec<InboundOutcome>) {
    let bare = packet.meta.services == Services::NONE;
    let traffic = if bare { &mut tally.clear } else { &mut tally.protected };
    traffic.count(packet.bytes().len());
    let mark = crate::arrival_mark(packet.meta.services, packet.meta.app);
    out.push(InboundOutcome::Deliver(packet.advance(), mark));
}

/// Drop the packet, and give its buffer back.
#[cold]
pub(super) fn end<S>(
    tally: &mut Tally,
    packet: Packet<S>,
    reason: DropReason,
    flow: Option<&Flow>,
    pool: &mut Pool,
    out: &mut Vec<InboundOutcome>,
) {
    record(tally, Dropped::new(reason, &About::of(&packet.meta), packet.bytes().len(), flow), out);
    pool.put(packet.into_buf());
}

/// Count and report a drop.
pub(super) fn record(tally: &mut Tally, dropped: Dropped, out: &mut Vec<InboundOutcome>) {
    tally.dropped(dropped);
    out.push(InboundOutcome::Drop(dropped));
}

/// The reason why there is no association with this SPI.
pub(crate) fn unknown(spi: u32) -> DropReason {
    if Spi(spi).is_reserved() { DropReason::ReservedSpi } else { DropReason::UnknownSpi }
}
