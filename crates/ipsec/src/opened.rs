//! What is known of an outer packet that a protocol of any kind has opened.

use crate::udp_encap::Outer;
use wire::DropReason;

/// An outer packet whose payload is known.
pub(crate) struct Opened<'a> {
    /// What was read from the outer headers.
    pub outer: &'a Outer,
    /// Offset at which the payload starts.
    pub payload: usize,
    /// Octets that the payload has.
    pub len: usize,
    /// The IP protocol number of the payload.
    pub next_header: u8,
    /// The reason for a drop if the mode does not carry this payload.
    pub wrong: DropReason,
}
