//! The security association databases, one per direction (RFC 4301 section 4.4.2).
//!
//! The outbound one is asked by flow and application, the inbound one by SPI. They share nothing but their bound on the
//! number of associations.

mod chain;
mod inbound;
mod index;
mod outbound;
mod parallel;
mod scoped;

pub use chain::{Chain, MAX_CHAIN};
pub use inbound::InboundSad;
pub use index::SaIndex;
pub use outbound::OutboundSad;
pub use scoped::MAX_SCOPED;

/// The largest number of associations in one direction. Memory is taken as they come: about two thousand octets each,
/// key schedule included.
pub const MAX_SAS: usize = 131_072;
