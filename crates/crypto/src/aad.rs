//! The associated data of a combined mode in ESP.

/// SPI and sequence number; the whole of it where it is extended, upper half first (RFC 4106 section 5, RFC 4309 section
/// 5, RFC 7634 section 2.1).
#[derive(Clone, Copy, Debug)]
pub struct AssociatedData {
    octets: [u8; 16],
    len: usize,
}

impl AssociatedData {
    #[inline]
    /// The associated data of a packet with this ESP header and sequence number.
    pub fn new(header: &[u8; 8], sequence: u64, extended: bool) -> AssociatedData {
        let mut octets = [0; 16];
        if extended {
            octets[..4].copy_from_slice(&header[..4]);
            octets[4..8].copy_from_slice(&((sequence >> 32) as u32).to_be_bytes());
            octets[8..12].copy_from_slice(&header[4..]);
            AssociatedData { octets, len: 12 }
        } else {
            octets[..8].copy_from_slice(header);
            AssociatedData { octets, len: 8 }
        }
    }

    /// The octets themselves: 12 with extended sequence numbers, otherwise 8.
    #[inline]
    pub fn octets(&self) -> &[u8] {
        self.octets.get(..self.len).unwrap_or(&self.octets)
    }

    /// The octets, with zeros behind them up to 16.
    #[inline]
    pub fn padded(&self) -> [u8; 16] {
        self.octets
    }
}
