//! Outbound: an inner IP packet becomes an outer one (RFC 4303 section 3.3).

use super::{HEADER, pad};
use crate::{ecn, mtu, transport, tunnel, udp_encap};
use crypto::SealOp;
use sadb::sa::{Key, Shape};
use sadb::{Mode, OutboundSa};
use std::net::IpAddr;
use wire::ipv4::{self, Ipv4, Ipv4Repr};
use wire::ipv6::{self, Ipv6, Ipv6Repr};
use wire::stage::{Outer, Scheduled};
use wire::{DropReason, Packet, Pool, Verdict, protocol};

/// The most that one IPv4 packet, or one IPv6 payload, can hold.
const LONGEST: usize = u16::MAX as usize;

/// Protect a packet by this association: number, encrypt, authenticate, and put the outer headers in front.
///
/// The buffer must hold exactly one IP packet, its checksums complete, with [`super::HEADROOM`] and
/// [`super::TAILROOM`] around it. The outer header forbids fragmentation unless `meta.may_fragment`. `meta` gets SPI, sequence
/// number, services and the type of service of the outer header. On a drop the buffer goes to `pool`.
#[inline]
pub fn encap(sa: &mut OutboundSa, mut packet: Packet<Scheduled>, pool: &mut Pool) -> Verdict<Packet<Outer>> {
    match seal(sa, &mut packet) {
        Ok(()) => Verdict::Pass(packet.advance()),
        Err(reason) => {
            sa.counters.dropped(reason);
            pool.put(packet.into_buf());
            Verdict::Drop(reason)
        }
    }
}

/// The lengths of one packet, all known before a sequence number is taken.
struct Layout {
    /// The outer IP header.
    ip: usize,
    /// The UDP header, or nothing.
    udp: usize,
    /// New octets in front of the buffer.
    front: usize,
    /// Padding, pad length and next header.
    trailer: usize,
    /// Everything behind the outer IP header.
    payload: usize,
}

impl Layout {
    fn new(sa: &OutboundSa, shape: Shape, inner: &Inner, len: usize) -> Result<Layout, DropReason> {
        let (ip, udp) = (mtu::outer_header(sa.config()), mtu::udp_header(sa.config()));
        let body = len - inner.header;
        let trailer = pad::length(body, usize::from(shape.align)) + pad::TRAILER;
        let around = udp + HEADER + usize::from(shape.iv);
        let payload = around + body + trailer + usize::from(shape.icv);
        let limit = if ip == ipv4::HEADER_LEN { LONGEST - ip } else { LONGEST };
        if payload > limit {
            return Err(DropReason::TooLong);
        }
        Ok(Layout { ip, udp, front: ip - inner.header + around, trailer, payload })
    }

    /// The protocol that the outer IP header names.
    fn protocol(&self) -> u8 {
        if self.udp > 0 { protocol::UDP } else { protocol::ESP }
    }
}

/// What the headers of the inner packet say to the outer ones.
pub(crate) struct Inner {
    /// What ESP carries.
    pub next_header: u8,
    /// DSCP and ECN.
    pub tos: u8,
    /// Octets of its IP header that become the outer one: none in tunnel mode.
    pub header: usize,
}

fn seal(sa: &mut OutboundSa, packet: &mut Packet<Scheduled>) -> Result<(), DropReason> {
    let len = packet.bytes().len();
    let inner = match sa.config().mode {
        Mode::Tunnel => tunnel::read(packet.bytes())?,
        Mode::Transport | Mode::Beet => transport::read(packet.bytes(), &sa.config().endpoints)?,
    };
    let shape = sa.shape();
    let icv = usize::from(shape.icv);
    let layout = Layout::new(sa, shape, &inner, len)?;
    if packet.buf().headroom() < layout.front || packet.buf().tailroom() < layout.trailer + icv {
        return Err(DropReason::NoRoom);
    }
    let now = packet.meta.received;
    sa.life.carry(now, sa.counters.packets + 1, sa.counters.bytes + len as u64)?;
    let sequence = sa.take_sequence()?;

    let buf = packet.buf_mut();
    let back = buf.push_back(layout.trailer + icv).ok_or(DropReason::NoRoom)?;
    if let Some(trailer) = back.get_mut(..layout.trailer) {
        pad::write(trailer, inner.next_header);
    }
    buf.push_front(layout.front).ok_or(DropReason::NoRoom)?;

    // Written before the cipher runs, so that the packet can be moved right after it.
    let meta = &mut packet.meta;
    (meta.spi, meta.sequence) = (sa.spi().0, sequence);
    (meta.services, meta.tos) = (sa.config().services(), inner.tos);

    write_outer_ip(sa, packet, &inner, &layout, sequence)?;
    let (_, datagram) = packet.bytes_mut().split_at_mut_checked(layout.ip).ok_or(DropReason::NoRoom)?;
    let (udp, esp) = datagram.split_at_mut_checked(layout.udp).ok_or(DropReason::NoRoom)?;
    if layout.udp > 0 {
        udp_encap::write(udp, &sa.config().endpoints, layout.payload)?;
    }
    seal_esp(sa, shape, esp, sequence)?;
    if layout.udp > 0 {
        udp_encap::fill_checksum(datagram, &sa.config().endpoints)?;
    }

    sa.counters.carried(now, len);
    Ok(())
}

/// The outer IP header: a new one, or the packet's own moved to the front.
fn write_outer_ip(
    sa: &OutboundSa,
    packet: &mut Packet<Scheduled>,
    inner: &Inner,
    layout: &Layout,
    sequence: u64,
) -> Result<(), DropReason> {
    let df = !packet.meta.may_fragment;
    let bytes = packet.bytes_mut();
    if inner.header > 0 {
        bytes.copy_within(layout.front..layout.front + inner.header, 0);
        if layout.ip == ipv4::HEADER_LEN {
            let mut ip = Ipv4::new_checked(bytes)?;
            ip.set_protocol(layout.protocol());
            ip.set_unfragmented(df);
            ip.set_total_len((layout.ip + layout.payload) as u16);
            ip.fill_checksum();
        } else {
            let mut ip = Ipv6::new_checked(bytes)?;
            ip.set_next_header(layout.protocol());
            ip.set_payload_len(layout.payload as u16);
        }
        return Ok(());
    }
    let ends = &sa.config().endpoints;
    let tos = ecn::encap(inner.tos);
    match (ends.local, ends.remote) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => ipv4::emit(
            bytes,
            &Ipv4Repr {
                src,
                dst,
                protocol: layout.protocol(),
                ttl: tunnel::TTL,
                tos,
                // An atomic datagram needs no identification (RFC 6864 section 4.1).
                id: if df { 0 } else { sequence as u16 },
                df,
                payload_len: layout.payload,
            },
        )?,
        (IpAddr::V6(src), IpAddr::V6(dst)) => ipv6::emit(
            bytes,
            &Ipv6Repr {
                src,
                dst,
                next_header: layout.protocol(),
                hop_limit: tunnel::TTL,
                traffic_class: tos,
                flow_label: 0,
                payload_len: layout.payload,
            },
        )?,
        // The configuration was checked: both ends are of one family.
        _ => return Err(DropReason::BadHeader),
    }
    Ok(())
}

/// The ESP packet around a payload that is already in place.
fn seal_esp(sa: &OutboundSa, shape: Shape, esp: &mut [u8], sequence: u64) -> Result<(), DropReason> {
    let Key::Esp(key) = sa.key() else { return Err(DropReason::WrongProtocol) };
    let (header, rest) = esp.split_first_chunk_mut::<HEADER>().ok_or(DropReason::NoRoom)?;
    let (iv, rest) = rest.split_at_mut_checked(shape.iv.into()).ok_or(DropReason::NoRoom)?;
    let data_len = rest.len().checked_sub(shape.icv.into()).ok_or(DropReason::NoRoom)?;
    let (data, icv) = rest.split_at_mut_checked(data_len).ok_or(DropReason::NoRoom)?;
    wire::esp::emit(header, sa.spi().0, sequence as u32)?;
    key.seal(SealOp { sequence, header, iv, data, icv });
    Ok(())
}
