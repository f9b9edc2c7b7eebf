//! One association, one packet, one verdict, whatever the protocol.

use crate::ipcomp::{self, Codec};
use crate::udp_encap::Outer;
use crate::{ah, esp, ipip};
use sadb::sa::SaProtocol;
use sadb::{InboundSa, OutboundSa};
use wire::stage::{self, Inner, Scheduled};
use wire::{DropReason, Packet, Pool};

/// Protect a packet by this association: number, encrypt, authenticate, and put the outer headers in front.
///
/// The buffer must hold exactly one IP packet, its checksums complete, with [`crate::HEADROOM`] and [`crate::TAILROOM`] around it.
/// `meta` gets SPI, sequence number, services and the type of service of the outer header, and `may_fragment` says
/// afterwards whether that header allows fragmentation. On a drop the buffer goes to `pool`. IPComp needs state:
/// [`encap_member`].
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
        SaProtocol::IpIp => ipip::wrap(sa, &mut packet, limit),
        SaProtocol::IpComp => Err(DropReason::WrongProtocol),
    };
    outbound(sa, packet, pool, done)
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
    let protocol = sa.config().options.protocol;
    let done = match protocol {
        // What other members have put around it may have used up the room that a device leaves.
        _ if !packet.buf_mut().make_room(crate::HEADROOM, crate::TAILROOM) => Err(DropReason::NoRoom),
        SaProtocol::Esp => esp::encap::seal(sa, &mut packet, limit),
        SaProtocol::Ah => ah::sign(sa, &mut packet, limit),
        SaProtocol::IpIp => ipip::wrap(sa, &mut packet, limit),
        SaProtocol::IpComp => ipcomp::compress(sa, &mut packet, limit, codec),
    };
    outbound(sa, packet, pool, done)
}

#[inline]
fn outbound(
    sa: &mut OutboundSa,
    packet: Packet<Scheduled>,
    pool: &mut Pool,
    done: Result<(), DropReason>,
) -> Result<Packet<stage::Outer>, DropReason> {
    match done {
        Ok(()) => Ok(packet.advance()),
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
    done: Result<(), DropReason>,
) -> Result<Packet<Inner>, DropReason> {
    match done {
        Ok(()) => Ok(packet.advance()),
        Err(reason) => {
            sa.counters.dropped(reason);
            pool.put(packet.into_buf());
            Err(reason)
        }
    }
}
