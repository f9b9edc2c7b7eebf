//! The seam between deciding and protecting, in both directions.
//!
//! What enters: packets and bursts whose association is known. What leaves: the same, at the stage [`Scheduled`], which
//! is the only one that cryptography takes. A step to it needs a [`Turn`], and only this module makes one: of the
//! [`Grant`] that a dispatcher gave, or, where no graph is in force, at once. What an association sends by itself has
//! its turn at once in both cases (docs/design/0031-decide-and-protect.md, docs/design/0040-qos.md).

use qos::dispatcher::Grant;
use wire::stage::{Classed, Inner, Outer, Scheduled, Selected};
use wire::{Burst, Evidence, Next, Packet};

/// The evidence that a packet's turn for cryptography has come.
#[derive(Clone, Copy)]
pub(crate) struct Turn(());

impl Evidence<Selected, Scheduled> for Turn {}
impl Evidence<Classed, Scheduled> for Turn {}

impl Turn {
    /// A turn at once, where no graph is in force or what passes waits in none.
    #[inline]
    pub(crate) fn at_once() -> Turn {
        Turn(())
    }
}

/// Give a packet its turn.
#[inline]
pub(crate) fn schedule<S: Next<Scheduled>>(packet: Packet<S>) -> Packet<Scheduled>
where
    Turn: Evidence<S, Scheduled>,
{
    packet.advance(&Turn::at_once())
}

/// Give a received burst its turn.
#[inline]
pub(crate) fn schedule_burst(burst: Burst<Classed>, turn: Turn) -> Burst<Scheduled> {
    burst.advance(&turn)
}

/// Give a received packet its turn.
#[inline]
pub(crate) fn schedule_received(packet: Packet<Classed>, turn: Turn) -> Packet<Scheduled> {
    packet.advance(&turn)
}

/// Give a packet that came out of an association its turn with the next member of its bundle.
#[inline]
pub(crate) fn schedule_nested(packet: Packet<Inner>, turn: Turn) -> Packet<Scheduled> {
    packet.nested(&turn)
}

/// Give a packet that one member of a bundle has sealed its turn with the next one.
#[inline]
pub(crate) fn schedule_bundled(packet: Packet<Outer>, turn: Turn) -> Packet<Scheduled> {
    packet.bundled(&turn)
}

/// The turn that a dispatcher gave.
#[inline]
pub(crate) fn turn_granted(_: &Grant) -> Turn {
    Turn(())
}

/// Give a packet the turn that a dispatcher gave it.
#[inline]
pub(crate) fn schedule_granted(packet: Packet<Selected>, grant: &Grant) -> Packet<Scheduled> {
    packet.advance(&turn_granted(grant))
}

/// The turn of a packet that was selected on the fast path. Its copy goes with the burst that is open, or begins one.
#[inline]
pub(crate) fn turn_of_selected(_: &impl Evidence<Inner, Selected>) -> Turn {
    Turn::at_once()
}

/// The turn that a packet has, for the burst that it goes with.
#[inline]
pub(crate) fn turn_of(_: &Packet<Scheduled>) -> Turn {
    Turn::at_once()
}
