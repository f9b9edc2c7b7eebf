//! The result of deciding.

use sadb::SaIndex;
use wire::DropReason;

/// The decision that a packet leaves now: protected by an association, or in clear. Only
/// [`Decider`](super::decider::Decider) makes one, and a packet is at the stage [`wire::stage::Selected`] by one.
#[derive(Clone, Copy)]
pub(super) struct Selection {
    association: Option<SaIndex>,
}

impl Selection {
    /// The packet is protected by this association.
    pub(super) fn protected(association: SaIndex) -> Selection {
        Selection { association: Some(association) }
    }

    /// The packet leaves in clear.
    pub(super) fn clear() -> Selection {
        Selection { association: None }
    }

    /// The association that protects the packet; `None`: the packet leaves in clear.
    #[inline]
    pub(super) fn association(self) -> Option<SaIndex> {
        self.association
    }
}

/// The decision that a packet does not leave now.
#[derive(Clone, Copy)]
pub(super) enum Unselected {
    /// The packet waits until there is an association.
    Association,
    /// The packet waits until its socket has an entry for it.
    Entry,
    /// The packet is refused.
    Refused(DropReason),
}

/// The result of the fast path for a packet.
#[derive(Clone, Copy)]
pub(super) enum FastPath {
    /// Nothing has happened; the packet must go through all stages.
    No,
    /// A copy of the packet is in the open burst.
    Gathered,
    /// The packet, which was selected by this decision, is an outer packet now, to be sent.
    Sealed(Selection),
}
