//! A packet of a bundle between two of its members: how far it has come, and what follows a member's cryptography. The
//! members' turns are in `bundle.rs`.

use ipsec::SealProof;
use sadb::{Chain, OutboundSa, OutboundSad, SaIndex};
use wire::stage::{Outer, Scheduled};
use wire::{DropReason, Flow, Packet, Services};

use crate::cx::Cx;
use crate::outbound::outcome::Outcome;
use crate::stats::{About, Dropped};

/// A packet of a bundle that waits between two of its members.
pub(in crate::outbound) struct BundledPacket {
    /// The packet as the members before have sealed it.
    pub(in crate::outbound) packet: Packet<Outer>,
    pub(in crate::outbound) progress: BundleProgress,
}

/// How far a packet has come in its bundle, and what was known of it before the first member.
#[derive(Clone, Copy)]
pub(in crate::outbound) struct BundleProgress {
    pub(super) chain: Chain,
    /// The number of members that have sealed it.
    pub(super) round: usize,
    about: About,
    /// The services that were demanded of it.
    need: Services,
    flow: Flow,
    /// The octets of the packet.
    len: usize,
    /// What the graph knew of the packet when it was given to the member before; nothing without a graph.
    pub(in crate::outbound) known: qos::Meta,
}

impl BundleProgress {
    /// The beginning of the way through these members. A graph, if there is one, has `known` of the packet.
    pub(super) fn start(
        chain: &Chain,
        packet: &Packet<Scheduled>,
        flow: &Flow,
        known: Option<qos::Meta>,
    ) -> BundleProgress {
        let (about, need, len) = (About::of(&packet.meta), packet.meta.services, packet.bytes().len());
        BundleProgress {
            chain: *chain,
            round: 0,
            about,
            need,
            flow: *flow,
            len,
            known: known.unwrap_or_default(),
        }
    }

    /// The number of members that have sealed it.
    pub(in crate::outbound) fn round(&self) -> u8 {
        u8::try_from(self.round).unwrap_or(u8::MAX)
    }

    /// The next member whose cryptography the packet needs.
    pub(in crate::outbound) fn next(&self, sad: &OutboundSad) -> Option<SaIndex> {
        keyed_from(sad, &self.chain, self.round)
    }

    /// The member that seals it next.
    pub(super) fn member(&self) -> Option<SaIndex> {
        self.chain.members().get(self.round).copied()
    }

    /// The bundle is still the one in which it began, and all its members are there.
    pub(super) fn is_valid(&self, sad: &OutboundSad) -> bool {
        self.chain.members().first().is_some_and(|first| sad.chain(*first) == Ok(self.chain))
    }

    /// Report that the packet has ended.
    #[cold]
    pub(in crate::outbound) fn end(&self, reason: DropReason, cx: &mut Cx<'_, Outcome>) {
        cx.report(Dropped::new(reason, &self.about, self.len, Some(&self.flow)));
    }
}

/// The first member with a key from this round on.
fn keyed_from(sad: &OutboundSad, chain: &Chain, round: usize) -> Option<SaIndex> {
    let is_keyed =
        |index: &&SaIndex| sad.get(**index).is_some_and(|sa| sa.config().options.protocol.is_keyed());
    chain.members().iter().skip(round).find(is_keyed).copied()
}

/// What follows the cipher's part of a member. Returns the packet for the next one; `None`: it has ended.
pub(super) fn finish(
    sa: &mut OutboundSa,
    packet: Packet<Scheduled>,
    sealed: Result<SealProof, DropReason>,
    progress: &mut BundleProgress,
    cx: &mut Cx<'_, Outcome>,
) -> Option<Packet<Outer>> {
    match ipsec::finish_seal(sa, packet, sealed, cx.pool) {
        Ok(outer) => {
            progress.round += 1;
            Some(outer)
        }
        Err(reason) => {
            progress.end(reason, cx);
            None
        }
    }
}

/// What follows the answer of a unit to the cipher's part of a member: the packet for the next one, if there is one.
pub(super) fn answered(
    sa: &mut OutboundSa,
    packet: Packet<Scheduled>,
    sealed: Result<SealProof, DropReason>,
    mut progress: BundleProgress,
    cx: &mut Cx<'_, Outcome>,
) -> Option<BundledPacket> {
    let packet = finish(sa, packet, sealed, &mut progress, cx)?;
    if progress.member().is_some() {
        return Some(BundledPacket { packet, progress });
    }
    leave(packet, &progress, cx);
    None
}

/// Count and send a packet that every member has sealed.
pub(super) fn leave(mut outer: Packet<Outer>, progress: &BundleProgress, cx: &mut Cx<'_, Outcome>) {
    let BundleProgress { chain, about, need, len, .. } = progress;
    outer.meta.services = chain.services();
    cx.stats.left(about.app, chain.services(), *need, 1, *len as u64);
    cx.out.push(Outcome::Send(outer));
}
