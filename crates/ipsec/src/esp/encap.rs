//! Outbound: an inner IP packet becomes an outer one (RFC 4303 section 3.3).

use super::{HEADER, pad};
use crate::frame::{self, Layout};
use crate::inner::Inner;
use crate::udp_encap;
use crypto::SealOp;
use sadb::OutboundSa;
use sadb::sa::{Key, Shape, Tfc};
use wire::stage::Scheduled;
use wire::{DropReason, Packet, protocol};

/// Seal a packet whose outer packet should not be longer than `limit` where that is ours to choose.
#[inline]
pub(crate) fn seal(
    sa: &mut OutboundSa,
    packet: &mut Packet<Scheduled>,
    limit: usize,
) -> Result<(), DropReason> {
    let len = packet.bytes().len();
    // Not moved out of the result: to copy what was just written field by field would wait for it.
    let read = frame::read(sa.config(), packet.bytes_mut());
    let inner = match &read {
        Ok(inner) => inner,
        Err(reason) => return Err(*reason),
    };
    let shape = sa.shape();
    let (iv, icv, align) = (usize::from(shape.iv), usize::from(shape.icv), usize::from(shape.align));
    let tfc = sa.config().options.tfc;
    let mut hiding = 0;
    let layout = Layout::new(sa.config(), inner, len, HEADER + iv, |layout| {
        if tfc != Tfc::None {
            hiding = pad::hiding(tfc, layout.body, limit.saturating_sub(layout.total() + icv), align);
        }
        // What goes through another member of a bundle must not grow for nothing.
        let limit = if layout.udp > 0 { limit } else { 0 };
        let room = limit.saturating_sub(layout.total() + icv + hiding);
        hiding + pad::within(layout.body + hiding, shape, room) + pad::TRAILER + icv
    })?;
    frame::check_df(sa.config(), packet, &layout, limit)?;
    if hiding > 0 && !packet.buf_mut().make_room(super::HEADROOM, layout.tail) {
        return Err(DropReason::NoRoom);
    }
    layout.check_room(packet)?;
    let now = packet.meta.received;
    let sequence = sa.next_packet(now, len)?;

    enclose(sa, packet, inner, &layout, hiding, sequence)?;
    sa.counters.carried(now, len);
    Ok(())
}

/// Everything around the payload: `hiding` octets and trailer behind it, headers in front, and the seal.
#[inline]
pub(crate) fn enclose(
    sa: &OutboundSa,
    packet: &mut Packet<Scheduled>,
    inner: &Inner,
    layout: &Layout,
    hiding: usize,
    sequence: u64,
) -> Result<(), DropReason> {
    let shape = sa.shape();
    let back = packet.buf_mut().push_back(layout.tail).ok_or(DropReason::NoRoom)?;
    let (hidden, back) = back.split_at_mut_checked(hiding).ok_or(DropReason::NoRoom)?;
    hidden.fill(0);
    let trailer = back.len().saturating_sub(shape.icv.into());
    if let Some(trailer) = back.get_mut(..trailer) {
        pad::write(trailer, inner.next_header);
    }

    // Written before the cipher runs, so that the packet can be moved right after it.
    let meta = &mut packet.meta;
    (meta.spi, meta.sequence, meta.services) = (sa.spi().0, sequence, sa.config().services());
    layout.open_front(sa, packet, inner, protocol::ESP)?;
    let (_, datagram) = packet.bytes_mut().split_at_mut_checked(layout.ip).ok_or(DropReason::NoRoom)?;
    let (_, esp) = datagram.split_at_mut_checked(layout.udp).ok_or(DropReason::NoRoom)?;
    seal_esp(sa, shape, esp, sequence)?;
    if layout.udp > 0 {
        udp_encap::fill_checksum(datagram, &sa.config().endpoints)?;
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
