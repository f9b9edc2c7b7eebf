//! Ethernet frames and their VLAN tags (IEEE 802.3, 802.1Q).

use crate::WireError;
use crate::field::{array, be16, tail};

/// Octets of a header without tags.
pub const HEADER_LEN: usize = 14;

/// The Ethertype of IPv4.
pub const IPV4: u16 = 0x0800;
/// The Ethertype of IPv6.
pub const IPV6: u16 = 0x86dd;

const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const MAX_TAGS: usize = 2;

/// A view of an Ethernet frame.
#[derive(Clone, Copy, Debug)]
pub struct Ethernet<B> {
    bytes: B,
    tags: usize,
}

impl<B: AsRef<[u8]>> Ethernet<B> {
    /// Makes a view of at least a header with its tags; at most two tags are followed.
    pub fn new_checked(bytes: B) -> Result<Self, WireError> {
        let mut view = Ethernet { bytes, tags: 0 };
        while view.tags < MAX_TAGS && TAGS.contains(&view.ethertype()) {
            view.tags += 1;
        }
        if view.bytes.as_ref().len() < view.header_len() {
            return Err(WireError::Truncated);
        }
        Ok(view)
    }

    /// Octets of the header and its tags.
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.tags * 4
    }

    /// The destination MAC address.
    pub fn dst(&self) -> [u8; 6] {
        array(self.bytes.as_ref(), 0)
    }

    /// The source MAC address.
    pub fn src(&self) -> [u8; 6] {
        array(self.bytes.as_ref(), 6)
    }

    /// The Ethertype behind the tags.
    pub fn ethertype(&self) -> u16 {
        be16(self.bytes.as_ref(), self.header_len() - 2)
    }

    /// The payload of the frame, padding included.
    pub fn payload(&self) -> &[u8] {
        tail(self.bytes.as_ref(), self.header_len())
    }
}
