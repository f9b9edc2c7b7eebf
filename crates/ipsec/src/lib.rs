//! ESP, AH, IPComp and IP in IP: a packet and its security association in, an outer packet out, and back.
//!
//! Outbound enters `Packet<Scheduled>`, a whole inner IP packet, and leaves `Packet<Outer>`, a whole outer IP packet:
//! in transport, tunnel or BEET mode, for ESP bare or in UDP. Inbound enters `Packet<Scheduled>`, a whole outer packet,
//! with the [`Outer`] that was read from it, and leaves `Packet<Inner>`. Everything happens in the buffer the packet
//! came in, in its headroom and tailroom ([`HEADROOM`], [`TAILROOM`]); a packet that ends here gives its buffer back to
//! the pool, so that not even a flood of forgeries reaches the allocator.
//!
//! Which association serves which packet is not decided here, and neither is what policy says of it; a bundle is
//! several rounds through here. Standards: RFC 4303 (ESP), RFC 4302 (AH), RFC 3173 and RFC 2394 (IPComp), RFC 2003 (IP
//! in IP), RFC 3948 (UDP encapsulation), RFC 4301 section 5 (the processing model), RFC 6040 (ECN),
//! draft-nikander-esp-beet-mode-09.
//!
//! The cipher's part needs neither the association nor its thread ([`SealJob`], [`OpenJob`]):
//!
//! ```
//! use ipsec::{finish_seal, prepare_seal};
//! use wire::{DropReason, Packet, Pool, stage};
//!
//! fn elsewhere(
//!     sa: &mut sadb::OutboundSa,
//!     mut packet: Packet<stage::Scheduled>,
//!     pool: &mut Pool,
//! ) -> Result<Packet<stage::Outer>, DropReason> {
//!     let job = prepare_seal(sa, &mut packet, 1500)?;
//!     let key = sa.key().clone();
//!     let work = std::thread::spawn(move || {
//!         let done = job.compute(&key, packet.bytes_mut());
//!         (packet, done)
//!     });
//!     let Ok((packet, done)) = work.join() else { return Err(DropReason::NoRoom) };
//!     finish_seal(sa, packet, done, pool)
//! }
//! ```
//!
//! A packet whose turn has not come cannot be sealed:
//!
//! ```compile_fail,E0308
//! use wire::{DropReason, Packet, Pool, stage};
//!
//! fn too_early(
//!     sa: &mut sadb::OutboundSa,
//!     packet: Packet<stage::Selected>,
//!     pool: &mut Pool,
//! ) -> Result<Packet<stage::Outer>, DropReason> {
//!     ipsec::encap(sa, packet, pool)
//! }
//! ```
//!
//! Nobody else can say that a packet is sealed:
//!
//! ```compile_fail,E0423
//! use wire::{Packet, stage};
//!
//! fn unsealed(packet: Packet<stage::Scheduled>) -> Packet<stage::Outer> {
//!     packet.advance(&ipsec::SealProof(()))
//! }
//! ```
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
mod steps;
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
pub use steps::Steps;
pub use udp_encap::Outer;
