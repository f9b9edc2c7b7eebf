//! ESP, AH, IPComp and IP in IP: a packet and its security association in, an outer packet out, and back.
//!
//! Outbound enters `Packet<Scheduled>`, a whole inner IP packet, and leaves `Packet<Outer>`, a whole outer IP packet: in transport,
//! tunnel or BEET mode, for ESP bare or in UDP. Inbound enters `Packet<Scheduled>`, a whole outer packet, with the [`Outer`] that
//! was read from it, and leaves `Packet<Inner>`. Everything happens in the buffer the packet came in, in its headroom and
//! tailroom ([`HEADROOM`], [`TAILROOM`]); a packet that ends here gives its buffer back to the pool, so that not even a flood of
//! forgeries reaches the allocator.
//!
//! Which association serves which packet is not decided here, and neither is what policy says of it; a bundle is several
//! rounds through here. Standards: RFC 4303 (ESP), RFC 4302 (AH), RFC 3173 and RFC 2394 (IPComp), RFC 2003 (IP in IP),
//! RFC 3948 (UDP encapsulation), RFC 4301 section 5 (the processing model), RFC 6040 (ECN),
//! draft-nikander-esp-beet-mode-09.
#![forbid(unsafe_code)]

pub mod ah;
mod beet;
pub mod ecn;
pub mod esp;
mod frame;
mod headers;
mod inner;
pub mod ipcomp;
mod ipip;
mod job;
mod lengths;
pub mod mtu;
mod nat;
mod opened;
mod process;
mod proof;
mod restore;
mod transport;
mod tunnel;
pub mod udp_encap;

pub use esp::{HEADROOM, TAILROOM, dummy, probe, seal_large_packet, slot, takes_large_packet};
pub use ipcomp::Codec;
pub use job::{OpenJob, SealJob};
pub use mtu::{bundle_mtu, inner_mtu, overhead, own_header, probe_lengths};
pub use process::{
    decap, decap_member, encap, encap_member, finish_open, finish_seal, prepare_open, prepare_seal,
    prepare_seal_member,
};
pub use proof::{IcvProof, InnerProof, SealProof};
pub use udp_encap::Outer;
