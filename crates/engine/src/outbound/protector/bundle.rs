//! Outbound bundles: a packet goes through one association after the other (RFC 4301 section 4.1; paper 001 section
//! 2.1: the SPI chain). There are at most [`MAX_CHAIN`] rounds, and every member is examined before any of them
//! computes anything.
//!
//! Without a graph, all rounds follow each other at once. In a graph, a packet goes back to the queues between two
//! members with a key (paper 002 section III.A: from 4b to 3a), as a [`BundledPacket`]. Members without a key cost no
//! unit anything, and are passed together with the one before.

use super::bundled_packet::{BundleProgress, BundledPacket, finish, leave};
use super::fit::{self, Fit};
use super::later::{self, SealTask};
use crate::cx::Cx;
use crate::outbound::outcome::Outcome;
use crate::seam::{self, Turn};
use ipsec::Codec;
use sadb::{Chain, MAX_CHAIN, OutboundSad, SaConfig};
use wire::ip::Headers;
use wire::stage::Scheduled;
use wire::{DropReason, Packet};

/// The parts of the protector that bundles need.
pub(super) struct BundleParts<'a> {
    pub(super) sad: &'a mut OutboundSad,
    pub(super) codec: &'a mut Codec,
    /// Where tasks of a unit that answers later go; `None`: the cipher's part is done at once.
    pub(super) tasks: Option<&'a mut Vec<SealTask>>,
    /// What the graph knows of a packet that stops between two members with a key; `None`: it does not stop.
    pub(super) stops: Option<qos::Meta>,
}

/// Seal a packet by the member whose round it is, by those without a key around it, and by all others that follow if it
/// does not stop in between. Returns it where it stops; otherwise it has left, has ended, or is in a task.
pub(super) fn seal(
    parts: &mut BundleParts<'_>,
    mut packet: Packet<Scheduled>,
    mut progress: BundleProgress,
    turn: Turn,
    cx: &mut Cx<'_, Outcome>,
) -> Option<BundledPacket> {
    let BundleParts { sad, codec, tasks, stops } = parts;
    let mut has_sealed = false;
    loop {
        let limit = limit(sad, &progress.chain, progress.round);
        let index = progress.member();
        let sa = index.and_then(|index| sad.get_mut(index));
        let (Ok(limit), Some(index), Some(sa)) = (limit, index, sa) else {
            cx.pool.put(packet.into_buf());
            progress.end(DropReason::ChainMissing, cx);
            return None;
        };
        let is_keyed = sa.config().options.protocol.is_keyed();
        let job = ipsec::prepare_seal_member(sa, &mut packet, limit, codec);
        let sealed = match (job, tasks.as_deref_mut()) {
            (Ok(job), Some(tasks)) if is_keyed => {
                tasks.push(later::member_task((index, sa), job, packet, progress));
                return None;
            }
            (job, _) => job.and_then(|job| job.compute(sa.key(), packet.bytes_mut())),
        };
        has_sealed |= is_keyed;
        let outer = finish(sa, packet, sealed, &mut progress, cx)?;
        let Some(next) = progress.member() else {
            leave(outer, &progress, cx);
            return None;
        };
        let is_next_keyed = sad.get(next).is_none_or(|sa| sa.config().options.protocol.is_keyed());
        if stops.is_some() && has_sealed && is_next_keyed {
            return Some(BundledPacket { packet: outer, progress });
        }
        packet = seam::schedule_bundled(outer, turn);
    }
}

/// Go on with a packet that stopped between two members. A bundle that has changed meanwhile loses it.
pub(super) fn go_on(
    parts: &mut BundleParts<'_>,
    bundled: BundledPacket,
    turn: Turn,
    cx: &mut Cx<'_, Outcome>,
) -> Option<BundledPacket> {
    let BundledPacket { packet, mut progress } = bundled;
    progress.known = parts.stops.unwrap_or(progress.known);
    if !progress.is_valid(parts.sad) {
        cx.pool.put(packet.into_buf());
        progress.end(DropReason::ChainMissing, cx);
        return None;
    }
    seal(parts, seam::schedule_bundled(packet, turn), progress, turn, cx)
}

/// The configurations of the members, in the order in which a packet passes them.
fn configs<'a>(
    sad: &'a OutboundSad,
    chain: &Chain,
) -> Result<([&'a SaConfig; MAX_CHAIN], usize), DropReason> {
    let mut members = chain.members().iter().map(|index| sad.get(*index).map(|sa| sa.config()));
    let first = members.next().flatten().ok_or(DropReason::ChainMissing)?;
    let (mut all, mut len) = ([first; MAX_CHAIN], 1);
    for member in members {
        *all.get_mut(len).ok_or(DropReason::ChainTooLong)? = member.ok_or(DropReason::ChainMissing)?;
        len += 1;
    }
    Ok((all, len))
}

/// The largest inner packet with `own` octets of headers ([`ipsec::own_header`]) that fits the way through all members.
///
/// # Errors
/// [`DropReason::ChainMissing`], [`DropReason::ChainDead`].
fn mtu(sad: &OutboundSad, chain: &Chain, own: usize) -> Result<usize, DropReason> {
    if chain.members().iter().any(|index| sad.get(*index).is_some_and(|sa| !sa.is_alive())) {
        return Err(DropReason::ChainDead);
    }
    let (all, len) = configs(sad, chain)?;
    Ok(ipsec::bundle_mtu(all.get(..len).unwrap_or(&all), own))
}

/// The largest inner packet that fits the way through all members, in octets, and the way on for this packet.
///
/// # Errors
/// [`DropReason::ChainMissing`], [`DropReason::ChainDead`].
pub(super) fn fit<S>(
    sad: &OutboundSad,
    chain: &Chain,
    packet: &mut Packet<S>,
    headers: &Headers,
) -> Result<(usize, Result<Fit, DropReason>), DropReason> {
    let mtu = mtu(sad, chain, ipsec::own_header(packet.bytes()))?;
    let first = chain.members().first().and_then(|first| sad.get(*first));
    let first = first.ok_or(DropReason::ChainMissing)?;
    let mut found = fit::tunnel(packet, headers, mtu, first.config());
    // A later member does not fragment, and an earlier one need not take fragments.
    let mut later = chain.members().iter().skip(1).filter_map(|index| sad.get(*index));
    if found == Ok(Fit::Whole)
        && packet.bytes().len() > mtu
        && headers.version == 4
        && later.any(|sa| sa.config().forbids_fragments())
    {
        found = Err(DropReason::TooBig);
    }
    Ok((mtu, found))
}

/// The largest packet in octets that the way behind this member carries.
fn limit(sad: &OutboundSad, chain: &Chain, round: usize) -> Result<usize, DropReason> {
    let (all, len) = configs(sad, chain)?;
    let (member, rest) = (all.get(round), all.get(round + 1..len).unwrap_or_default());
    let path = member.map_or(0, |config| usize::from(config.path_mtu));
    let own = member.map_or(0, |config| if config.endpoints.remote.is_ipv4() { 20 } else { 40 });
    Ok(path.min(ipsec::bundle_mtu(rest, own)))
}
