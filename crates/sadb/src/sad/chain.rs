//! Bundles of outbound associations (RFC 4301 section 4.1, appendix E; paper 001 section 2.1: the SPI chain).

use wire::{DropReason, Services};

use super::index::SaIndex;
use crate::OutboundSa;
use crate::sa::Encapsulation;

/// The largest number of members in a bundle.
pub const MAX_CHAIN: usize = 4;

/// The members of a bundle in the order in which a packet goes through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    members: [SaIndex; MAX_CHAIN],
    len: usize,
    services: Services,
}

impl Chain {
    /// A bundle of one member.
    pub(super) fn alone(index: SaIndex) -> Chain {
        Chain { members: [index; MAX_CHAIN], len: 1, services: Services::NONE }
    }

    /// The bundle that begins at `first` and follows `next` to the end.
    pub(super) fn follow<'a>(
        first: SaIndex,
        get: impl Fn(SaIndex) -> Option<&'a OutboundSa>,
        next: impl Fn(&OutboundSa) -> Option<Result<SaIndex, DropReason>>,
    ) -> Result<Chain, DropReason> {
        let mut chain = Chain::alone(first);
        let mut sa = get(first).ok_or(DropReason::ChainMissing)?;
        chain.services = sa.config().services();
        while let Some(index) = next(sa) {
            let index = index?;
            // Only what arrives bare is opened inside an association.
            let options = &sa.config().options;
            if options.protocol.is_keyed() && options.encapsulation == Encapsulation::Udp {
                return Err(DropReason::ChainEncapsulation);
            }
            *chain.members.get_mut(chain.len).ok_or(DropReason::ChainTooLong)? = index;
            chain.len += 1;
            sa = get(index).ok_or(DropReason::ChainMissing)?;
            chain.services = chain.services.union(sa.config().services());
        }
        if !sa.config().options.protocol.is_keyed() {
            return Err(DropReason::ChainUnkeyed);
        }
        Ok(chain)
    }

    /// The members, of which there is at least one.
    #[inline]
    pub fn members(&self) -> &[SaIndex] {
        self.members.get(..self.len).unwrap_or(&self.members)
    }

    /// Whether there is only one.
    #[inline]
    pub fn is_single(&self) -> bool {
        self.len == 1
    }

    /// The services that all members give together.
    pub fn services(&self) -> Services {
        self.services
    }
}
