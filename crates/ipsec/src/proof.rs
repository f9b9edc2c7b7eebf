//! Proofs of what was done to a packet. They are evidence for its next stage, and only this room makes them.

use wire::stage::{self, Scheduled};
use wire::{DropReason, Evidence};

/// The proof that a packet is sealed: no octet of it is to be changed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealProof(());

impl Evidence<Scheduled, stage::Outer> for SealProof {}

impl SealProof {
    /// The proof, where the last octet was written.
    #[inline]
    pub(crate) fn done() -> SealProof {
        SealProof(())
    }
}

/// The proof that the ICV of a packet was right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcvProof(());

impl IcvProof {
    /// The proof, if the ICV was right.
    ///
    /// # Errors
    /// [`DropReason::AuthFailed`].
    #[inline]
    pub(crate) fn if_right(right: bool) -> Result<IcvProof, DropReason> {
        if right { Ok(IcvProof(())) } else { Err(DropReason::AuthFailed) }
    }
}

/// The proof that the inner packet lies alone in its buffer, and was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InnerProof(());

impl Evidence<Scheduled, stage::Inner> for InnerProof {}

impl InnerProof {
    /// The proof, where the packet was counted.
    #[inline]
    pub(crate) fn done() -> InnerProof {
        InnerProof(())
    }
}
