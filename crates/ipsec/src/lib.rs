//! ESP: a packet and its security association in, an outer packet out, and back.
//!
//! Outbound enters `Packet<Scheduled>`, a whole inner IP packet, and leaves `Packet<Outer>`, a whole outer IP packet
//! (`IP | UDP | ESP`, or `IP | ESP` for an association without ports). Inbound enters `Packet<Scheduled>`, a whole
//! outer packet, with the [`Outer`] that was read from it, and leaves `Packet<Inner>`. Everything happens in the
//! buffer the packet came in, in its headroom and tailroom ([`HEADROOM`], [`TAILROOM`]); a packet that ends here gives its
//! buffer back to the pool, so that not even a flood of forgeries reaches the allocator.
//!
//! Which association serves which packet is not decided here, and neither is what policy says of it. Standards:
//! RFC 4303 (ESP), RFC 4106 and RFC 7634 (the suites), RFC 3948 (UDP encapsulation), RFC 4301 section 5 (the
//! processing model), RFC 6040 (ECN).
#![forbid(unsafe_code)]

pub mod ecn;
pub mod esp;
pub mod mtu;
mod transport;
mod tunnel;
pub mod udp_encap;

pub use esp::{HEADROOM, TAILROOM, decap, encap, slot};
pub use mtu::{inner_mtu, overhead};
pub use udp_encap::Outer;
