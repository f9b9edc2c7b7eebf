//! The way on for a packet: the flow that it is judged by, the decision for that flow, and what follows from it.

use sadb::SaIndex;
use sadb::spd::Decision;
use wire::ip::{self, Headers};
use wire::{DropReason, Flow, ScrubId};

/// The decision for a flow of an application, with its association. It is valid until policy or associations change.
#[derive(Clone, Copy)]
pub(super) struct Route {
    pub decision: Decision,
    /// The association, if the flow is to be protected.
    pub sa: Result<SaIndex, DropReason>,
    /// The profile by which it is scrubbed, if it is protected.
    pub scrub: ScrubId,
}

/// The way on for a packet.
#[derive(Clone, Copy)]
pub(super) enum Course {
    Clear,
    Protect(SaIndex),
    /// The packet waits until there is an association.
    Hold,
    /// The packet waits until its socket has an entry for it.
    Await,
}

/// The result of the short way for a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Express {
    /// Nothing has happened; the packet must take the long way.
    No,
    /// A copy of the packet is in the open burst.
    Gathered,
    /// The packet is an outer packet now, to be sent.
    Sealed,
}

/// The flow of a packet that leaves. With a source route, it is the flow to the route's end.
pub(super) fn final_flow(bytes: &[u8], headers: &Headers) -> Flow {
    let flow = ip::flow(bytes, headers, true);
    Flow { remote: ip::final_destination(bytes, headers).unwrap_or(flow.remote), ..flow }
}
