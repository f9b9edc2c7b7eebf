//! The seam between deciding and protecting, in both directions.
//!
//! What enters: packets and bursts whose association is known. What leaves: the same, at the stage
//! [`Scheduled`], which is the only one that cryptography takes. Nothing waits here yet: every packet has its turn at
//! once. Queues by class belong here (docs/design/0031-decide-and-protect.md).

use wire::stage::Scheduled;
use wire::{Burst, Next, Packet};

/// Give a packet its turn for cryptography.
#[inline]
pub(crate) fn schedule<S: Next<Scheduled>>(packet: Packet<S>) -> Packet<Scheduled> {
    packet.advance()
}

/// Give a received burst its turn for cryptography.
#[inline]
pub(crate) fn schedule_burst<S: Next<Scheduled>>(burst: Burst<S>) -> Burst<Scheduled> {
    burst.advance()
}
