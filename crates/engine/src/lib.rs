//! The engine: the order of the stages. [`outbound`] and [`inbound`] read as prose. Fast paths for the common packet
//! repeat that order (`outbound/fast_path.rs`, `outbound/protector/gather.rs`, `inbound/burst.rs`);
//! `tests/suite/bursts.rs` holds them equal to the single way. Between deciding and protecting is a seam (`seam.rs`;
//! docs/design/0031).
//!
//! Outbound, a `Packet<Inner>` enters as the host handed it over, and [`Outcome`]s leave: packets for the wire, packets
//! that policy lets pass in clear, answers to the host, and drops with their reasons. Inbound, a `Packet<Raw>` enters
//! and [`InboundOutcome`]s leave. Each half belongs to one thread and shares nothing with the other but [`Scrubbers`].
//! Time is an argument, nothing here does I/O, and in steady state nothing allocates. Every packet that enters has at
//! least one outcome, and every buffer that does not leave in one has gone back to the pool.
//!
//! Standards: RFC 4301 sections 5.1 and 5.2 (processing), 7 (fragments), 8.2 (path MTU), RFC 3948, RFC 4303. Design:
//! docs/design/0001.
//!
//! The order cannot be left: what is sealed has had its turn, and only the seam gives turns.
//!
//! ```compile_fail,E0603
//! use engine::seam::Turn;
//! ```
#![forbid(unsafe_code)]

mod answers;
mod audit;
mod cx;
mod entries;
mod event;
mod hold;
mod icmp;
pub mod inbound;
mod incidents;
mod nest;
pub mod outbound;
mod peer;
mod prober;
mod probes;
mod queued;
mod quoted;
mod random;
mod rules;
mod scrubbing;
mod seam;
mod stats;

pub use audit::Audited;
pub use event::{
    Acquire, Event, Expire, MAX_EVENTS, MAX_MESSAGES, PathCause, PathChange, PathMessage, PeerMoved,
    SeenError,
};
pub use hold::HoldLimits;
pub use icmp::{IcmpKind, IcmpPolicy};
pub use inbound::{Delivery, Inbound, InboundGraph, InboundOutcome, OpenWork, Traced};
pub use incidents::{Excerpt, INCIDENT_OCTETS, Incident};
pub use outbound::{Outbound, OutboundGraph, Outcome, SealWork, Timeout};
pub use prober::{Act, PathReport, Prober};
pub use probes::{Order, Path, SeenPath};
pub use queued::{CopiedPacket, GraphError, Ticket, UnitFaults, reason};
pub use quoted::{InnerIcmp, QuotedCheck};
pub use rules::SPD_RULE;
pub use scrubbing::{ScrubReport, Scrubbers, scrub_config};
pub use stats::{Dropped, REMEMBERED, Stats, Traffic};

/// The number of octets that a device should leave free in front of a packet. They take outer headers, and the device's
/// own headers for a packet that goes back to it (a vnet header of 12 and a record of 16).
pub const HEADROOM: usize = 128;
const _: () = assert!(HEADROOM >= ipsec::HEADROOM + 12 + 16);

/// The number of octets that a device should leave free behind a packet.
pub const TAILROOM: usize = 64;
const _: () = assert!(TAILROOM >= ipsec::TAILROOM);

/// The size of the buffers of a [`wire::Pool`] for the engine: any IP packet, with free octets before and behind it.
pub const BUF_CAPACITY: usize = HEADROOM + 65536 + TAILROOM;

/// The mark of a packet for the host: proof that it came out of an association, or was made here, with these services
/// and for this application (docs/design/0002).
fn mark(services: wire::Services, app: wire::AppId) -> u32 {
    wire::record::PROOF | services.in_mark() | u32::from(app.0)
}

/// The mark of a packet that arrived. One without services came out of IP in IP that arrived bare, and proves nothing.
fn arrival_mark(services: wire::Services, app: wire::AppId) -> u32 {
    if services == wire::Services::NONE { wire::record::ARRIVED } else { mark(services, app) }
}
