//! Bytes and headers: Ravelin's packet type, and its only header parser.
//!
//! Bytes enter from a device, a socket or a file. What leaves is a [`Packet`] whose type tells what has been proved
//! about it, views that read and edit the original bytes, and the single table of [`DropReason`]s. Nothing outside this
//! crate indexes into packet bytes. Standards: RFC 791, RFC 8200 (IP), RFC 792, RFC 4443 (ICMP), RFC 9293 (TCP), RFC
//! 768 (UDP), RFC 4303 section 2 (ESP), RFC 4302 section 2 (AH), RFC 3173 section 3 (IPComp), RFC 3948 (ESP in UDP),
//! RFC 1071 (checksums); IEEE 802.1Q, IEEE 802.2, RFC 2516, RFC 1661, RFC 3032 (links).
#![forbid(unsafe_code)]

mod acquire;
pub mod addr;
pub mod ah;
pub mod burst;
pub mod checksum;
pub mod coalesce;
pub mod coalesced;
mod drop;
mod error;
pub mod esp;
pub mod eth;
mod field;
pub mod fragment;
pub mod icmp;
mod immutable;
pub mod ip;
pub mod ipcomp;
pub mod ipv4;
pub mod ipv6;
pub mod link;
pub mod mark;
mod meta;
pub mod options;
mod packet;
pub mod plain;
pub mod probe;
pub mod protocol;
pub mod quote;
pub mod reassembly;
pub mod record;
pub mod sctp;
pub mod segment;
mod services;
pub mod tcp;
mod time;
pub mod udp;

pub use acquire::AcquireId;
pub use addr::{Flow, Prefix};
pub use burst::{Burst, BurstMeta, OuterHeader};
pub use coalesce::Coalescer;
pub use coalesced::Coalesced;
pub use drop::DropReason;
pub use error::WireError;
pub use mark::{Marks, MaskError};
pub use meta::{AggregateId, AppId, Gso, GsoKind, Meta, ScrubId};
pub use packet::{Buf, Evidence, Next, Packet, Pool, stage};
pub use reassembly::{LostFragments, Reassembled, Reassembler};
pub use record::Record;
pub use segment::{SegmentIter, SegmentPosition};
pub use services::Services;
pub use time::Time;
