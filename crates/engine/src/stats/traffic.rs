//! Counts of packets and their octets.

/// A number of packets, with the octets of their inner forms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The number of packets.
    pub packets: u64,
    /// The number of octets.
    pub bytes: u64,
}

impl Traffic {
    pub(crate) fn count(&mut self, bytes: usize) {
        self.count_many(1, bytes as u64);
    }

    pub(crate) fn count_many(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
    }
}
