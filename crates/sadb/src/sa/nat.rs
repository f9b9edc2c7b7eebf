//! The change that a NAT between the peers makes to transport checksums (RFC 3948 section 3.1.2).

/// The knowledge about a NAT on the path of an association in transport mode in UDP. Its packets have the outer
/// header's addresses, which a NAT may have changed, and a checksum over the addresses that the sender knew. The
/// difference is the same for all packets, since in transport mode a peer does not move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NatChecksum {
    /// No packet has shown anything yet.
    #[default]
    Unknown,
    /// The checksum of the last packet was wrong by this, which may be its sender's fault.
    Suspected(u16),
    /// A packet had a right checksum, so nothing changes addresses.
    Right,
    /// The checksums of packets are wrong by this.
    Wrong(u16),
}

impl NatChecksum {
    /// Whether no packet needs a correction.
    #[inline]
    pub fn is_right(self) -> bool {
        self == NatChecksum::Right
    }

    /// The number to add to the checksum of a packet that is wrong by `error`, if any. As long as nobody knows whether
    /// there is a NAT, every error is corrected, for the first packet of a connection must arrive. Once the difference
    /// is known, a packet that is right, or wrong by another number, stays as it is, since the NAT has not done that.
    pub fn correction(&mut self, error: u16) -> Option<u16> {
        let correct = match *self {
            NatChecksum::Right => false,
            NatChecksum::Wrong(known) => error == known,
            NatChecksum::Unknown | NatChecksum::Suspected(_) => error != 0,
        };
        *self = match *self {
            NatChecksum::Unknown | NatChecksum::Suspected(_) if error == 0 => NatChecksum::Right,
            NatChecksum::Suspected(before) if before == error => NatChecksum::Wrong(error),
            NatChecksum::Unknown | NatChecksum::Suspected(_) => NatChecksum::Suspected(error),
            known => known,
        };
        correct.then_some(error)
    }
}
