//! One plain packet that is sealed in place as a datagram of its own, because it is too long to be copied into a burst.
//!
//! The result is the packet that [`super::encap`] would make. The headers are written from the values of a
//! [`super::slot`] frame, without the layout that serves every mode and protocol.

use super::slot::{self, Frame};
use crate::{mtu, udp_encap};
use sadb::sa::Key;
use sadb::{Mode, OutboundSa};
use std::net::IpAddr;
use wire::ipv4::{self, Ipv4Repr};
use wire::plain::Plain;
use wire::stage::Inner;
use wire::{DropReason, Packet, protocol, udp};

/// The octets of the outer headers in front of ESP.
const FRONT: usize = ipv4::HEADER_LEN + udp::HEADER_LEN;

/// Whether [`seal_alone`] may seal this packet. The association is a tunnel over IPv4 whose datagrams a burst could
/// hold, and the packet fits its path and needs nothing but sealing.
#[inline]
pub fn goes_alone(sa: &OutboundSa, plain: &Plain) -> bool {
    let config = sa.config();
    config.mode == Mode::Tunnel
        && config.endpoints.remote.is_ipv4()
        && slot::serves(config)
        && !plain.syn
        && plain.total_len <= mtu::inner_mtu(config)
}

/// Seal a packet for which [`goes_alone`] is true and which fills its buffer exactly. The result is an outer packet
/// with the same `meta` as after [`super::encap`].
///
/// # Errors
/// The association is at its limits, its sequence numbers are used up, or the buffer has too little room. Nothing is
/// counted then and the packet is unchanged; [`super::encap`] would refuse it as well.
#[inline]
pub fn seal_alone(sa: &mut OutboundSa, plain: &Plain, packet: &mut Packet<Inner>) -> Result<(), DropReason> {
    let frame = Frame::tunnel(sa, protocol::IPV4, plain.tos, plain.ttl, plain.dont_fragment);
    let (len, now) = (plain.total_len, packet.meta.received);
    let datagram = frame.slot_len(len);
    let (front, behind) = (FRONT + frame.front(), datagram - frame.front() - len);
    if packet.buf().headroom() < front || packet.buf().tailroom() < behind {
        return Err(DropReason::NoRoom);
    }
    let sequence = sa.next_packet(now, len)?;

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
    let Key::Esp(key) = sa.key() else { return Err(DropReason::WrongProtocol) };
    key.seal(slot::seal_op(sa.shape(), slot, sequence)?);
    sa.counters.carried(now, len);
    Ok(())
}
