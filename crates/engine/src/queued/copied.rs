//! Copies of packets for those who capture.

/// A copy of a packet as it was in front of its outcomes.
#[derive(Debug)]
pub struct CopiedPacket {
    /// The octets of the packet.
    pub octets: Vec<u8>,
    /// What was known of it.
    pub meta: wire::Meta,
    /// The place of its first outcome among those of the call.
    pub from: usize,
}
