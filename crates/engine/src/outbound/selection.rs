//! The result of deciding.

use ipsec::SealProof;
use sadb::SaIndex;
use wire::{DropReason, Evidence, stage};

/// The decision that a packet leaves now: protected by an association, or in clear. Only
/// [`Decider`](super::decider::Decider) makes one (but for packets that an association sends by itself), and nothing
/// else is evidence for the stage [`wire::stage::Selected`].
#[derive(Clone, Copy)]
pub(super) struct Selection {
    association: Option<SaIndex>,
}

impl Evidence<stage::Inner, stage::Selected> for Selection {}

impl Selection {
    /// The packet is protected by this association.
    #[inline]
    pub(super) fn protected(association: SaIndex) -> Selection {
        Selection { association: Some(association) }
    }

    /// The packet is one that the association sends by itself. It was decided when the association was made.
    pub(super) fn of_itself(association: SaIndex) -> Selection {
        Selection { association: Some(association) }
    }

    /// The packet leaves in clear.
    #[inline]
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
pub(super) enum Obstacle {
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
    /// The packet, which was selected by this decision, is sealed now, and is to be sent.
    Sealed(Selection, SealProof),
    /// The packet has ended, and that was reported. What is in its buffer must not leave.
    Ended,
}
