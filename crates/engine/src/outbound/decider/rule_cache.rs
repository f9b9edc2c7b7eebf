//! The rules of the SPD for outbound packets, with their remembered decisions (RFC 4301 section 4.4.2: a cache in front
//! of an ordered database).

use sadb::rules::{RuleKey, Slot};
use sadb::spd::Level;
use sadb::{FlowCache, PacketKey, SaIndex};
use wire::ip::Headers;
use wire::{AggregateId, DropReason, Packet, ScrubId, Services, record};

use crate::outbound::origin;
use crate::rules::Rules;

/// The number of sets of four packets' keys whose decisions are remembered.
pub(super) const SETS: usize = 1024;

/// The decision of a rule for a packet.
#[derive(Clone, Copy)]
pub(super) struct RuleDecision {
    pub slot: Slot,
    pub key: RuleKey,
    pub services: Services,
    /// The profile by which the rule says that its packets are scrubbed.
    pub scrub: ScrubId,
    /// The class that the rule gives its packets.
    pub class: AggregateId,
    pub disposition: RuleDisposition,
}

/// The disposition of a packet by its rule.
#[derive(Clone, Copy)]
pub(super) enum RuleDisposition {
    Clear,
    Protect(SaIndex),
    /// The packet must be protected, and there is no association.
    Missing(Level),
    Refuse(DropReason),
}

/// The way of a packet as far as a decision of before tells it, in front of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::outbound) enum Peeked {
    /// The association protects it.
    Association(SaIndex),
    /// It leaves in clear, or is refused: no cipher is spent on it.
    Unprotected,
    /// Nothing is remembered of its flow.
    Unknown,
}

impl RuleDisposition {
    /// The way of further packets with the same answer.
    pub(super) const fn peeked(self) -> Peeked {
        match self {
            RuleDisposition::Protect(association) => Peeked::Association(association),
            RuleDisposition::Clear | RuleDisposition::Refuse(_) => Peeked::Unprotected,
            RuleDisposition::Missing(_) => Peeked::Unknown,
        }
    }
}

/// The rules, and their remembered decisions.
pub(super) struct RuleCache {
    pub rules: Rules,
    pub answers: FlowCache<Option<RuleDecision>, PacketKey>,
}

/// The key of a packet from the host or from a network behind it, as selectors see it.
pub(super) fn key_of<S>(packet: &Packet<S>, headers: &Headers) -> PacketKey {
    if let Some(interface) = origin::interface(&packet.meta) {
        return PacketKey::of_packet(packet.bytes(), headers, true).interface(interface);
    }
    let key = PacketKey::of_packet(packet.bytes(), headers, true).app(packet.meta.app);
    let key = origin::user(&packet.meta).map_or(key, |user| key.uid(user));
    // The mark of a stamped packet is the stamp, not the host's own.
    if packet.meta.mark & (record::STAMPED | record::PROOF) == 0 { key.mark(packet.meta.mark) } else { key }
}
