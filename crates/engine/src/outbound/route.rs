//! The routes of packets: the flow that a packet is judged by, the decision for that flow, and what follows from it.

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

/// The disposition of a packet that is not dropped (RFC 4301 section 4.4.1).
#[derive(Clone, Copy)]
pub(super) enum Disposition {
    /// The packet leaves in clear.
    Clear,
    /// The association protects the packet.
    Protect(SaIndex),
    /// The packet waits until there is an association.
    Hold,
    /// The packet waits until its socket has an entry for it.
    Await,
}

/// The flow of a packet that leaves. With a source route, it is the flow to the route's end.
pub(super) fn final_flow(bytes: &[u8], headers: &Headers) -> Flow {
    let flow = ip::flow(bytes, headers, true);
    Flow { remote: ip::final_destination(bytes, headers).unwrap_or(flow.remote), ..flow }
}
