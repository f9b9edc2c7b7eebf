//! Outbound bundles: a packet goes through one association after the other (RFC 4301 section 4.1; paper 001 section
//! 2.1: the SPI chain). There are at most [`MAX_CHAIN`] rounds, and every member is examined before any of them
//! computes anything.

use super::fit::{self, Fit};
use crate::seam;
use ipsec::Codec;
use sadb::{Chain, MAX_CHAIN, OutboundSad, SaConfig};
use wire::ip::Headers;
use wire::stage::{Outer, Scheduled};
use wire::{DropReason, Packet, Pool, Services};

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

/// Seal a packet by every member. On a drop the buffer has gone to `pool`.
///
/// # Errors
/// The errors of [`ipsec::encap_member`]; a member that ended since [`mtu`] looked is [`DropReason::ChainMissing`].
pub(super) fn seal(
    sad: &mut OutboundSad,
    chain: &Chain,
    packet: Packet<Scheduled>,
    codec: &mut Codec,
    pool: &mut Pool,
) -> Result<Packet<Outer>, DropReason> {
    let mut scheduled = packet;
    let mut services = Services::NONE;
    let members = chain.members();
    for (round, index) in members.iter().enumerate() {
        let limit = limit(sad, chain, round);
        let (Ok(limit), Some(sa)) = (limit, sad.get_mut(*index)) else {
            pool.put(scheduled.into_buf());
            return Err(DropReason::ChainMissing);
        };
        services = services.union(sa.config().services());
        match ipsec::encap_member(sa, scheduled, limit, codec, pool) {
            Ok(mut outer) if round + 1 == members.len() => {
                outer.meta.services = services;
                return Ok(outer);
            }
            Ok(outer) => scheduled = seam::schedule_bundled(outer),
            Err(reason) => return Err(reason),
        }
    }
    pool.put(scheduled.into_buf());
    Err(DropReason::ChainMissing)
}

/// The largest packet in octets that the way behind this member carries.
fn limit(sad: &OutboundSad, chain: &Chain, round: usize) -> Result<usize, DropReason> {
    let (all, len) = configs(sad, chain)?;
    let (member, rest) = (all.get(round), all.get(round + 1..len).unwrap_or_default());
    let path = member.map_or(0, |config| usize::from(config.path_mtu));
    let own = member.map_or(0, |config| if config.endpoints.remote.is_ipv4() { 20 } else { 40 });
    Ok(path.min(ipsec::bundle_mtu(rest, own)))
}
