//! Packets that wait in the queues of a graph: the common parts of both halves (paper 002 section III).
//!
//! The graph ([`qos::graph::Graph`]) orders tickets and never sees a packet. The half keeps the packets in [`Slots`],
//! describes each of them to the graph ([`describe`]), and ends those that the graph has dropped, with a reason from
//! the one table ([`reason`]).

mod facts;
mod slots;

pub(crate) use facts::{FlowHash, describe, pieces_of};
pub(crate) use slots::Slots;
pub use slots::Ticket;

use qos::Cause;
use wire::DropReason;

/// The length of the longest packet that waits in a cell, in octets. A longer one keeps the buffer that it came in.
pub(crate) const LONGEST_IN_CELL: usize = 2048;

/// The number of octets that a cell leaves free behind the longest packet: a bundle asks for more than one association.
pub(crate) const CELL_TAILROOM: usize = 512;

/// The reason of a drop by a component.
pub fn reason(cause: Cause) -> DropReason {
    match cause {
        Cause::QueueFull => DropReason::QueueFull,
        Cause::Policed => DropReason::Policed,
        Cause::EarlyDrop => DropReason::EarlyDrop,
        Cause::Aqm => DropReason::AqmDrop,
        Cause::ShapedOut => DropReason::ShapedOut,
        Cause::AuthBudget => DropReason::AuthBudget,
        Cause::ClassGone => DropReason::ClassGone,
        Cause::NotAdmitted => DropReason::NotAdmitted,
        Cause::NoUnit => DropReason::NoUnit,
        Cause::Component => DropReason::ComponentRefused,
    }
}
