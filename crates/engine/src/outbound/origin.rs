//! The origin of a packet, as the mark and cookie of its record say it: a socket of this host, the kernel itself, or
//! another host that this one forwards for.

use wire::{DropReason, Meta, Services, record};

/// Whether the packet is on its way through this host.
#[inline]
pub(super) fn is_forwarded(meta: &Meta) -> bool {
    meta.mark & (record::FORWARDED | record::STAMPED | record::PROOF) == record::FORWARDED
}

/// Whether the packet came in clear from outside.
#[inline]
pub(super) fn has_arrived(meta: &Meta) -> bool {
    is_forwarded(meta) && meta.mark & record::ARRIVED != 0
}

/// The index of the interface that a forwarded packet came by.
pub(crate) fn interface(meta: &Meta) -> Option<u32> {
    // The kernel counts interfaces below 2^31.
    is_forwarded(meta).then_some(meta.cookie as u32)
}

/// A number for the sender of a fragment that keeps the pieces of different senders apart.
pub(super) fn sender(meta: &Meta) -> u32 {
    // No mark has all these upper bits: see what a forwarded packet and a stamped one have.
    if let Some(user) = user(meta) {
        return !user;
    }
    // A forwarded packet has no application.
    meta.mark | interface(meta).unwrap_or(0) & record::APP_MASK
}

/// The reason why a packet without a stamp is dropped where there are no rules.
pub(super) fn unruled(meta: &Meta) -> DropReason {
    if is_forwarded(meta) { DropReason::NoSpdEntry } else { DropReason::Unstamped }
}

/// The user that owns the socket which sent the packet, where the kernel half says it.
pub(super) fn user(meta: &Meta) -> Option<u32> {
    let is_told = meta.mark & (record::STAMPED | record::USER) == record::STAMPED | record::USER;
    is_told.then_some(meta.cookie as u32)
}

/// The services that the sending socket asked for itself (docs/socket-api.md), from the mark of a stamped packet. From
/// the mark of an answer they are those of the packet that it answers.
pub(super) fn asked(mark: u32) -> Services {
    match Services::of_mark(mark) {
        // No socket asks for a cipher of one's own: a program that asks for encryption means both bits.
        Services::CUSTOM if mark & record::STAMPED != 0 => Services::ENCRYPTED,
        services => services,
    }
}
