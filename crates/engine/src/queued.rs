//! Packets that wait in the queues of a graph: the common parts of both halves (paper 002 section III).
//!
//! The graph ([`qos::graph::Graph`]) orders tickets and never sees a packet. The half keeps the packets beside
//! it ([`GraphState`]), describes each of them ([`describe`]), and ends those that the graph has dropped, with a reason
//! from the one table ([`reason`]).

mod cells;
mod copied;
mod facts;
mod flights;
mod reserved;
mod sliced;
mod slots;
mod state;

pub(crate) use cells::{CELL_TAILROOM, LONGEST_IN_CELL, burst_in_cell, copy_of, packet_in_cell};
pub use copied::CopiedPacket;
pub(crate) use facts::{FlowHash, describe, pieces_of};
pub(crate) use flights::{Answer, Flight, FlightJob, Flights};
pub(crate) use reserved::{Reserved, inner_name, outer_name};
pub(crate) use sliced::{Sliced, Stepped};
pub(crate) use slots::Slots;
pub use slots::Ticket;
pub use state::{GraphError, UnitFaults};
pub(crate) use state::{GraphState, Wait, WaitStage, header_kind};

use qos::Cause;
use wire::DropReason;

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
