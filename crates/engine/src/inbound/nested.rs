//! What waits between two members of an inbound bundle. The steps are in `rounds.rs`.

use sadb::rules::Member;
use sadb::{MAX_CHAIN, SaName};
use wire::Packet;
use wire::stage::Inner;

use crate::queued::CopiedPacket;

/// A packet that came out of one member of its bundle and waits for its turn with the next one.
pub(super) struct NestedPacket {
    pub(super) packet: Packet<Inner>,
    /// The association that it came out of last.
    pub(super) from: SaName,
    /// The associations that it came out of, the outermost first.
    pub(super) around: [Member; MAX_CHAIN],
    /// The number of these.
    pub(super) round: usize,
    /// It came in a tunnel without a key, so that no unit has had it yet.
    pub(super) is_new: bool,
    /// The copies of the packet, for those who capture.
    pub(super) copies: Vec<CopiedPacket>,
}

impl NestedPacket {
    /// The octets of the packet.
    pub(super) fn octets(&self) -> usize {
        self.packet.bytes().len()
    }

    /// The sequence number that it had in the association that it came out of last.
    pub(super) fn sequence(&self) -> u64 {
        self.packet.meta.sequence
    }

    /// The number of associations that it came out of.
    pub(super) fn index(&self) -> u8 {
        u8::try_from(self.round).unwrap_or(u8::MAX)
    }
}
