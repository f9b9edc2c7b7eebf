//! What a NAT between the peers does to transport checksums (RFC 3948 section 3.1.2).

/// In transport mode out of UDP the packet has the outer header's addresses, which a NAT may have changed, and a checksum over
/// those that its sender knew. The difference is the same for all packets, since in transport mode a peer does not move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NatChecksum {
    /// No packet has told yet.
    #[default]
    Unknown,
    /// The last packet was wrong by this, which may be its sender's fault.
    Suspected(u16),
    /// A packet was right: nothing changes addresses.
    Right,
    /// Packets are wrong by this.
    Wrong(u16),
}

impl NatChecksum {
    /// Whether there is nothing to do.
    #[inline]
    pub fn is_right(self) -> bool {
        self == NatChecksum::Right
    }

    /// What to add to the checksum of a packet that is wrong by `error`, if anything. As long as nobody knows whether there is a NAT,
    /// that is what makes it right, for the first packet of a connection must arrive; once the difference is known, a packet that
    /// is right, or wrong by another one, stays as it is: no NAT has done that.
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
