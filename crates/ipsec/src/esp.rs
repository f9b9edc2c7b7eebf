//! The ESP packet (RFC 4303 section 2):
//!
//! ```text
//! | SPI 4 | sequence 4 | IV | payload | padding | pad length 1 | next header 1 | ICV |
//!                           |---------------- encrypted ----------------------|
//! ```
//!
//! Lengths of IV and ICV, and what payload and trailer together are a multiple of, are the suite's
//! ([`sadb::sa::Shape`]). What is authenticated is the transform's to know.

pub(crate) mod decap;
mod dummy;
pub(crate) mod encap;
mod large_packet;
pub(crate) mod pad;
pub mod slot;

pub use dummy::{dummy, probe};
pub use large_packet::{seal_large_packet, takes_large_packet};

/// SPI and sequence number.
pub(crate) const HEADER: usize = wire::esp::HEADER_LEN;

/// Octets that [`crate::encap`] needs in front of the inner packet at most: outer IPv6 and AH with the longest ICV, or
/// UDP, ESP header and IV. A bundle needs that for each member and finds it behind the packet.
pub const HEADROOM: usize = {
    let esp = wire::udp::HEADER_LEN + HEADER + crypto::MAX_IV_LEN;
    let ah = wire::ah::header_len(crypto::MAX_ICV_LEN, 6);
    40 + if esp > ah { esp } else { ah }
};
/// Octets that [`crate::encap`] needs behind the inner packet at most, without padding that hides lengths: padding,
/// trailer, ICV.
pub const TAILROOM: usize = pad::MAX_PAD + pad::TRAILER + crypto::MAX_ICV_LEN;
