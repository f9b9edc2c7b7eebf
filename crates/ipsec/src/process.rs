//! One association, one packet, one result, whatever the protocol: at once, or in the three parts prepare, compute and
//! finish.

use crate::ipcomp::{self, Codec};
use crate::job::{Open, OpenJob, Seal, SealJob};
use crate::proof::{IcvProof, InnerProof, SealProof};
use crate::udp_encap::Outer;
use crate::{ah, esp, ipip};
use sadb::sa::SaProtocol;
use sadb::{InboundSa, OutboundSa};
use wire::stage::{self, Inner, Scheduled};
use wire::{DropReason, Packet, Pool};

/// Protect a packet by this association: number, encrypt, authenticate, and put the outer headers in front.
///
/// The buffer must hold exactly one IP packet, its checksums complete, with [`crate::HEADROOM`] and [`crate::TAILROOM`]
/// around it. `meta` gets SPI, sequence number, services and the type of service of the outer header, and
/// `may_fragment` says afterwards whether that header allows fragmentation. On a drop the buffer goes to `pool`. IPComp
/// needs state: [`encap_member`].
#[inline]
pub fn encap(
    sa: &mut OutboundSa,
    mut packet: Packet<Scheduled>,
    pool: &mut Pool,
) -> Result<Packet<stage::Outer>, DropReason> {
    let limit = usize::from(sa.config().path_mtu);
    let done = match sa.config().options.protocol {
        SaProtocol::Esp => esp::encap::seal(sa, &mut packet, limit),
        SaProtocol::Ah => ah::sign(sa, &mut packet, limit),
        SaProtocol::IpIp => ipip::wrap(sa, &mut packet, limit).map(|()| SealProof::done()),
        SaProtocol::IpComp => Err(DropReason::WrongProtocol),
    };
    finish_seal(sa, packet, done, pool)
}

/// Protect a packet by this association, as a member of a bundle and of any protocol. `limit` is what the rest of the
/// way carries, in octets; everything else is like [`encap`].
pub fn encap_member(
    sa: &mut OutboundSa,
    mut packet: Packet<Scheduled>,
    limit: usize,
    codec: &mut Codec,
    pool: &mut Pool,
) -> Result<Packet<stage::Outer>, DropReason> {
    let done = prepare_seal_member(sa, &mut packet, limit, codec)
        .and_then(|job| job.compute(sa.key(), packet.bytes_mut()));
    finish_seal(sa, packet, done, pool)
}

/// The owner's first part of [`encap`]: sequence number, lifetime, headers and trailer. The outer packet should not be
/// longer than `limit` octets. After [`SealJob::compute`], [`finish_seal`] must follow, also if the packet was refused
/// here.
///
/// # Errors
/// The reasons for which [`encap`] drops a packet. The packet is of no use then.
pub fn prepare_seal(
    sa: &mut OutboundSa,
    packet: &mut Packet<Scheduled>,
    limit: usize,
) -> Result<SealJob, DropReason> {
    let job = match sa.config().options.protocol {
        SaProtocol::Esp => Seal::Esp(esp::encap::prepare(sa, packet, limit)?),
        SaProtocol::Ah => Seal::Ah(ah::prepare_seal(sa, packet, limit)?),
        SaProtocol::IpIp => {
            ipip::wrap(sa, packet, limit)?;
            Seal::Done
        }
        SaProtocol::IpComp => return Err(DropReason::WrongProtocol),
    };
    Ok(SealJob(job))
}

/// The owner's first part of [`encap_member`]. A member without a key leaves nothing to compute.
///
/// # Errors
/// The reasons for which [`encap_member`] drops a packet. The packet is of no use then.
pub fn prepare_seal_member(
    sa: &mut OutboundSa,
    packet: &mut Packet<Scheduled>,
    limit: usize,
    codec: &mut Codec,
) -> Result<SealJob, DropReason> {
    // What other members have put around it may have used up the room that a device leaves.
    if !packet.buf_mut().make_room(crate::HEADROOM, crate::TAILROOM) {
        return Err(DropReason::NoRoom);
    }
    if sa.config().options.protocol == SaProtocol::IpComp {
        ipcomp::compress(sa, packet, limit, codec)?;
        return Ok(SealJob(Seal::Done));
    }
    prepare_seal(sa, packet, limit)
}

/// The owner's last part of [`encap`]: the outer packet, or a counted drop.
///
/// # Errors
/// The reason that `done` has. The buffer has gone to `pool` then.
#[inline]
pub fn finish_seal(
    sa: &mut OutboundSa,
    packet: Packet<Scheduled>,
    done: Result<SealProof, DropReason>,
    pool: &mut Pool,
) -> Result<Packet<stage::Outer>, DropReason> {
    match done {
        Ok(sealed) => Ok(packet.advance(&sealed)),
        Err(reason) => {
            sa.counters.dropped(reason);
            pool.put(packet.into_buf());
            Err(reason)
        }
    }
}

/// Open a packet of this association, which has a key, and leave its inner packet.
///
/// One path for all: lengths, replay check, ICV, replay commit, trailer, inner packet. Nothing in the payload is looked
/// at before the ICV was right, and nothing after it tells a forger more. `outer` is what was read from this very
/// packet. `meta` gets SPI, sequence number, services, application and the outer type of service. On a drop the buffer
/// goes to `pool`.
#[inline]
pub fn decap(
    sa: &mut InboundSa,
    mut packet: Packet<Scheduled>,
    outer: &Outer,
    pool: &mut Pool,
) -> Result<Packet<Inner>, DropReason> {
    let done = match sa.config().options.protocol {
        SaProtocol::Esp => esp::decap::open(sa, &mut packet, outer),
        SaProtocol::Ah => ah::verify(sa, &mut packet, outer),
        SaProtocol::IpComp | SaProtocol::IpIp => Err(DropReason::Unkeyed),
    };
    inbound(sa, packet, pool, done)
}

/// The owner's first part of [`decap`]: lengths, sequence number, replay window. After [`OpenJob::compute`],
/// [`finish_open`] must follow.
///
/// # Errors
/// The reasons for which [`decap`] drops a packet that it does not decrypt. The packet is as it was, and the drop is
/// counted.
pub fn prepare_open(
    sa: &mut InboundSa,
    packet: &Packet<Scheduled>,
    outer: &Outer,
) -> Result<OpenJob, DropReason> {
    let job = match sa.config().options.protocol {
        SaProtocol::Esp => esp::decap::prepare(sa, packet.bytes(), outer).map(Open::Esp),
        SaProtocol::Ah => ah::prepare_open(sa, packet.bytes(), outer).map(Open::Ah),
        SaProtocol::IpComp | SaProtocol::IpIp => Err(DropReason::Unkeyed),
    };
    job.map(OpenJob).inspect_err(|reason| sa.counters.dropped(*reason))
}

/// The owner's last part of [`decap`]: the replay window takes the sequence number, trailer and inner packet are looked
/// at, the packet is counted. `authentic` is the answer of [`OpenJob::compute`].
///
/// # Errors
/// The reasons for which [`decap`] drops a packet that it has decrypted. The buffer has gone to `pool` then.
pub fn finish_open(
    sa: &mut InboundSa,
    mut packet: Packet<Scheduled>,
    outer: &Outer,
    job: &OpenJob,
    authentic: Result<IcvProof, DropReason>,
    pool: &mut Pool,
) -> Result<Packet<Inner>, DropReason> {
    let done = match (authentic, &job.0) {
        (Ok(authentic), Open::Esp(job)) => esp::decap::finish(sa, &mut packet, outer, job, authentic),
        (Ok(authentic), Open::Ah(job)) => ah::finish_open(sa, &mut packet, outer, job, authentic),
        // Another packet may have taken its number, or moved the window past it, before it was its turn.
        (Err(reason @ (DropReason::AuthFailed | DropReason::UnitFailed)), job) => {
            Err(sa.replay.check(job.sequence()).err().unwrap_or(reason))
        }
        (Err(reason), _) => Err(reason),
    };
    inbound(sa, packet, pool, done)
}

/// Open a packet of this association like [`decap`], also for members without a key. The packet must have come out of
/// an association which has one: [`Packet::nested`] is the only way here.
pub fn decap_member(
    sa: &mut InboundSa,
    mut packet: Packet<Scheduled>,
    outer: &Outer,
    codec: &mut Codec,
    pool: &mut Pool,
) -> Result<Packet<Inner>, DropReason> {
    let done = match sa.config().options.protocol {
        SaProtocol::Esp => esp::decap::open(sa, &mut packet, outer),
        SaProtocol::Ah => ah::verify(sa, &mut packet, outer),
        SaProtocol::IpIp => ipip::unwrap(sa, &mut packet, outer),
        SaProtocol::IpComp => ipcomp::decompress(sa, &mut packet, outer, codec),
    };
    inbound(sa, packet, pool, done)
}

#[inline]
fn inbound(
    sa: &mut InboundSa,
    packet: Packet<Scheduled>,
    pool: &mut Pool,
    done: Result<InnerProof, DropReason>,
) -> Result<Packet<Inner>, DropReason> {
    match done {
        Ok(restored) => Ok(packet.advance(&restored)),
        Err(reason) => {
            sa.counters.dropped(reason);
            pool.put(packet.into_buf());
            Err(reason)
        }
    }
}
