//! One plain packet as a datagram of its own, sealed where it lies: what is too long to be copied into a burst.
//!
//! The same packet as that of [`super::encap`], with the frame of [`super::slot`]: headers are written straight from
//! its values, without the layout that serves every mode and protocol.

use super::encap::EspSeal;
use super::slot::{self, Frame};
use crate::proof::SealProof;
use crate::{mtu, udp_encap};
use sadb::{Mode, OutboundSa};
use std::net::IpAddr;
use wire::ipv4::{self, Ipv4Repr};
use wire::plain::Plain;
use wire::stage::{Inner, Scheduled, Selected};
use wire::{DropReason, Evidence, Packet, protocol, udp};

/// Headers in front of ESP.
const FRONT: usize = ipv4::HEADER_LEN + udp::HEADER_LEN;

/// Whether [`seal_large_packet`] is for this packet: a tunnel over IPv4 whose datagrams a burst could hold, and a
/// packet that fits its path and asks for no more than to be sealed.
#[inline]
pub fn takes_large_packet(sa: &OutboundSa, plain: &Plain) -> bool {
    let config = sa.config();
    config.mode == Mode::Tunnel
        && config.endpoints.remote.is_ipv4()
        && slot::serves(config)
        && !plain.syn
        && plain.total_len <= mtu::inner_mtu(config)
}

/// Seal a packet that [`takes_large_packet`] and fills its buffer exactly. The evidence is that its turn has come. It
/// is an outer packet afterwards, and `meta` says the same as after [`super::encap`].
///
/// `None` if the association's limits, its sequence numbers or the room in the buffer do not allow it. Nothing is
/// counted then and the packet is as it was: [`super::encap`] would refuse it too.
///
/// # Errors
/// The packet has taken its number and is counted as dropped, and what is in its buffer must not leave:
/// [`DropReason::UnitFailed`] if the crypto unit failed, which leaves no octet of the payload.
#[inline]
pub fn seal_large_packet(
    sa: &mut OutboundSa,
    plain: &Plain,
    packet: &mut Packet<Inner>,
    _: &impl Evidence<Selected, Scheduled>,
) -> Option<Result<SealProof, DropReason>> {
    let frame = Frame::tunnel(sa, protocol::IPV4, plain.tos, plain.ttl, plain.dont_fragment);
    let (len, now) = (plain.total_len, packet.meta.received);
    let datagram = frame.slot_len(len);
    let (front, behind) = (FRONT + frame.front(), datagram - frame.front() - len);
    if packet.buf().headroom() < front || packet.buf().tailroom() < behind {
        return None;
    }
    let sequence = sa.next_packet(now, len).ok()?;
    // The packet is counted when it takes its number, whatever the unit makes of it.
    sa.counters.carried(now, len);
    let job = enclose(sa, &frame, packet, (len, datagram), sequence);
    let sealed = job.and_then(|job| job.compute(sa.key(), packet.bytes_mut()));
    Some(sealed.inspect_err(|reason| sa.counters.dropped(*reason)))
}

/// Headers and trailer around a payload of `len` octets, so that there is an ESP packet of `datagram` octets.
#[inline]
fn enclose(
    sa: &mut OutboundSa,
    frame: &Frame,
    packet: &mut Packet<Inner>,
    (len, datagram): (usize, usize),
    sequence: u64,
) -> Result<EspSeal, DropReason> {
    let (front, behind) = (FRONT + frame.front(), datagram - frame.front() - len);
    let outer = frame.outer(sa, false);
    let meta = &mut packet.meta;
    (meta.spi, meta.sequence, meta.services) = (sa.spi().0, sequence, sa.config().services());
    (meta.tos, meta.may_fragment) = (outer.tos, outer.may_fragment);
    let buf = packet.buf_mut();
    buf.push_front(front).ok_or(DropReason::NoRoom)?;
    buf.push_back(behind).ok_or(DropReason::NoRoom)?;
    let (head, slot) = buf.as_mut_slice().split_at_mut_checked(FRONT).ok_or(DropReason::NoRoom)?;
    let (IpAddr::V4(src), IpAddr::V4(dst)) = (outer.src, outer.dst) else {
        return Err(DropReason::BadHeader);
    };
    let df = !outer.may_fragment;
    // An atomic datagram needs no identification (RFC 6864 section 4.1).
    let id = if df { 0 } else { sa.next_identification() };
    let payload_len = udp::HEADER_LEN + datagram;
    let number = protocol::UDP;
    let repr = Ipv4Repr { src, dst, protocol: number, ttl: outer.ttl, tos: outer.tos, id, df, payload_len };
    ipv4::emit(head, &repr)?;
    let (_, head) = head.split_at_mut_checked(ipv4::HEADER_LEN).ok_or(DropReason::NoRoom)?;
    udp_encap::write(head, &sa.config().endpoints, payload_len)?;
    frame.write(slot, len, sequence)?;
    Ok(EspSeal { sequence, at: FRONT, shape: sa.shape(), checksum: None })
}
