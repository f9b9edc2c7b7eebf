//! The ends of a packet's way through the inbound half: what its caller does with it.

use super::permit::Permit;
use crate::cx::Cx;
use crate::stats::Dropped;
use sadb::Spi;
use wire::stage::{Admitted, Inner};
use wire::{DropReason, Packet, Services};

/// The result of handling an inbound packet.
#[derive(Debug)]
pub enum InboundOutcome {
    /// The packet is for the host, through the TUN with this mark.
    Deliver(Packet<Admitted>, u32),
    /// The packet was dropped.
    Drop(Dropped),
}

impl From<Dropped> for InboundOutcome {
    fn from(dropped: Dropped) -> InboundOutcome {
        InboundOutcome::Drop(dropped)
    }
}

/// Stage 9: hand the packet to the host with its mark.
pub(super) fn deliver(packet: Packet<Inner>, permit: Permit, cx: &mut Cx<'_, InboundOutcome>) {
    let bare = packet.meta.services == Services::NONE;
    let traffic = if bare { &mut cx.stats.clear } else { &mut cx.stats.protected };
    traffic.count(packet.bytes().len());
    let mark = crate::arrival_mark(packet.meta.services, packet.meta.app);
    cx.out.push(InboundOutcome::Deliver(packet.advance(&permit), mark));
}

/// The reason why there is no association with this SPI.
pub(crate) fn unknown(spi: u32) -> DropReason {
    if Spi(spi).is_reserved() { DropReason::ReservedSpi } else { DropReason::UnknownSpi }
}
