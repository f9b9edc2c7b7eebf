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

    /// What to add to the checksum of a packet that is wrong by `error`, which is asked for only where the packet has to tell. A
    /// packet that is wrong by itself once its association's difference is known stays so.
    pub fn correction(&mut self, error: impl FnOnce() -> Option<u16>) -> Option<u16> {
        match *self {
            NatChecksum::Right => return None,
            NatChecksum::Wrong(known) => return Some(known),
            NatChecksum::Unknown | NatChecksum::Suspected(_) => {}
        }
        let error = error()?;
        *self = match *self {
            _ if error == 0 => NatChecksum::Right,
            NatChecksum::Suspected(before) if before == error => NatChecksum::Wrong(error),
            _ => NatChecksum::Suspected(error),
        };
        (error != 0).then_some(error)
    }
}
