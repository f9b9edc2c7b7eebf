//! The ESP packet (RFC 4303 section 2) for the AEAD suites (RFC 4106, RFC 7634):
//!
//! ```text
//! | SPI 4 | sequence 4 | IV 8 | payload | padding 0..3 | pad length 1 | next header 1 | ICV 16 |
//! |------- AAD --------|      |------------------ encrypted -------------------------|
//! ```
//!
//! The IV is the 64-bit sequence number, the nonce salt and IV (docs/design/0003 item 4).

mod decap;
pub(crate) mod encap;
pub(crate) mod pad;

pub use decap::decap;
pub use encap::encap;

use crypto::TAG_LEN;

/// SPI and sequence number; also the AAD.
pub(crate) const HEADER: usize = wire::esp::HEADER_LEN;
/// Explicit IV.
pub(crate) const IV: usize = 8;
/// Integrity check value.
pub(crate) const ICV: usize = TAG_LEN;

/// Octets that [`encap`] needs in front of the inner packet at most: outer IPv6, UDP, ESP header, IV.
pub const HEADROOM: usize = 40 + wire::udp::HEADER_LEN + HEADER + IV;
/// Octets that [`encap`] needs behind the inner packet at most: padding, trailer, ICV.
pub const TAILROOM: usize = pad::MAX_PAD + pad::TRAILER + ICV;
