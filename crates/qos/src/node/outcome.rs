//! What becomes of packets that are offered to a node or asked of it.

use wire::Time;

use crate::component::Cause;
use crate::meta::Meta;

/// The event on which a caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A packet has to leave first.
    Room,
    /// A packet has to come first.
    Packet,
    /// Nothing happens before this time, unless a packet comes.
    At(Time),
    /// Waiting does not help.
    Never,
}

/// A packet that ended, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended<T> {
    /// The ticket of the packet.
    pub item: T,
    /// What was known of it.
    pub meta: Meta,
    /// The reason for its end.
    pub cause: Cause,
}

/// What became of an offered packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It waits in its queue. Others may have ended for it.
    Queued,
    /// It ended, and is in the list of those that did.
    Ended,
}

/// A packet that was not queued since its queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full<T> {
    /// The ticket of the packet.
    pub item: T,
    /// What is known of it.
    pub meta: Meta,
    /// [`Wake::Room`], or [`Wake::Never`] if the queue would be too small were it empty.
    pub wake: Wake,
}

/// The answer to a caller that asks for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull<T> {
    /// The packet whose turn it is.
    Packet(T, Meta),
    /// No packet can leave now.
    Wait(Wake),
}

/// Note in the metadata that the packet met congestion, if that can be told by marking.
pub(super) fn mark(meta: &mut Meta) {
    if meta.is_ecn_capable() {
        meta.ecn |= 3;
    }
}

/// Put a packet into the list of those that ended.
pub(super) fn end<T>(ended: &mut Vec<Ended<T>>, (item, meta): (T, Meta), cause: Cause) -> Offered {
    ended.push(Ended { item, meta, cause });
    Offered::Ended
}
