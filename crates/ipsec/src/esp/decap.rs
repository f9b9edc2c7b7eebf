//! Inbound: an outer IP packet becomes an inner one (RFC 4303 section 3.4).

use super::{HEADER, pad};
use crate::udp_encap::Outer;
use crate::{transport, tunnel};
use crypto::OpenOp;
use sadb::sa::Key;
use sadb::{InboundSa, Mode};
use wire::stage::{Inner, Scheduled};
use wire::{DropReason, Packet, Pool, Verdict};

/// Open a packet of this association and leave its inner packet.
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
) -> Verdict<Packet<Inner>> {
    match open(sa, &mut packet, outer) {
        Ok(()) => Verdict::Pass(packet.advance()),
        Err(reason) => {
            sa.counters.dropped(reason);
            pool.put(packet.into_buf());
            Verdict::Drop(reason)
        }
    }
}

fn open(sa: &mut InboundSa, packet: &mut Packet<Scheduled>, outer: &Outer) -> Result<(), DropReason> {
    let Key::Esp(key) = sa.key() else { return Err(DropReason::WrongProtocol) };
    let shape = sa.shape();
    let (iv_len, icv_len) = (usize::from(shape.iv), usize::from(shape.icv));
    let sequence = sa.whole_sequence(outer.sequence);
    let esp = packet.bytes_mut().get_mut(outer.at..outer.end).ok_or(DropReason::EspTooShort)?;
    let (header, rest) = esp.split_first_chunk_mut::<HEADER>().ok_or(DropReason::EspTooShort)?;
    let (iv, rest) = rest.split_at_mut_checked(iv_len).ok_or(DropReason::EspTooShort)?;
    let data_len = rest.len().checked_sub(icv_len).ok_or(DropReason::EspTooShort)?;
    let (data, icv) = rest.split_at_mut_checked(data_len).ok_or(DropReason::EspTooShort)?;
    if data.is_empty() || data.len() & (usize::from(shape.align) - 1) != 0 {
        return Err(DropReason::EspTooShort);
    }
    sa.replay.check(sequence)?;
    if !key.open(OpenOp { sequence, header, iv, data, icv, ok: false }) {
        return Err(DropReason::AuthFailed);
    }
    sa.replay.commit(sequence)?;
    let trailer = pad::read(data)?;
    if trailer.next_header == pad::DUMMY {
        return Err(DropReason::EspDummy);
    }

    let payload = outer.at + HEADER + iv_len;
    match sa.config().mode {
        Mode::Tunnel => tunnel::restore(packet.buf_mut(), payload, trailer, outer.tos)?,
        Mode::Transport | Mode::Beet => transport::restore(packet.buf_mut(), payload, trailer, outer)?,
    }
    let (now, len) = (packet.meta.received, packet.bytes().len());
    sa.life.carry(now, sa.counters.packets + 1, sa.counters.bytes + len as u64)?;
    packet.meta.spi = outer.spi;
    packet.meta.sequence = sequence;
    packet.meta.services = sa.config().services();
    packet.meta.app = sa.config().selectors.app.unwrap_or_default();
    packet.meta.tos = outer.tos;
    sa.counters.carried(now, len);
    Ok(())
}
