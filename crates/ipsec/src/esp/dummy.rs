//! Dummy packets (RFC 4303 section 2.6): they hide when there is nothing to say, and ask whether packets of their length arrive
//! (docs/design/0029).

use super::{HEADER, encap, pad};
use crate::frame::Layout;
use crate::inner::Inner;
use crate::mtu;
use sadb::sa::{DontFragment, SaProtocol};
use sadb::{Mode, OutboundSa};
use wire::probe::Message;
use wire::stage::{Outer, Selected};
use wire::{Buf, DropReason, Packet, Pool, Time};

/// A packet that its receiver drops, around `content`, which should be random and as long as what it imitates. Its buffer comes
/// from `pool`, which leaves [`crate::HEADROOM`].
///
/// # Errors
/// The reasons for which [`crate::encap`] refuses an association for; [`DropReason::WrongProtocol`] for one that is not ESP in
/// tunnel mode.
pub fn dummy(
    sa: &mut OutboundSa,
    now: Time,
    content: &[u8],
    pool: &mut Pool,
) -> Result<Packet<Outer>, DropReason> {
    if sa.config().mode != Mode::Tunnel {
        sa.counters.dropped(DropReason::WrongProtocol);
        return Err(DropReason::WrongProtocol);
    }
    let limit = sa.config().path_mtu.into();
    build(sa, now, content.len(), limit, pool, |place| place.copy_from_slice(content))
}

/// A packet that holds `message`, and filler up to an outer packet of `size` octets, or as near below it as the cipher's alignment
/// allows; never shorter than the message. It must not be fragmented on the way.
///
/// # Errors
/// The reasons for which [`crate::encap`] refuses an association for; [`DropReason::WrongProtocol`] for one that is not ESP, or lets
/// routers fragment its packets.
pub fn probe(
    sa: &mut OutboundSa,
    now: Time,
    message: &Message,
    size: usize,
    pool: &mut Pool,
) -> Result<Packet<Outer>, DropReason> {
    let config = sa.config();
    if config.options.headers.df == DontFragment::Clear && config.endpoints.remote.is_ipv4() {
        return Err(DropReason::WrongProtocol);
    }
    let octets = message.octets();
    let len = mtu::dummy_room(config, size).max(octets.len());
    build(sa, now, len, size, pool, |place| {
        place.fill(0);
        place.iter_mut().zip(octets).for_each(|(to, from)| *to = from);
    })
}

/// A packet around `len` octets that `write` writes, whose outer packet should not be longer than `limit`.
fn build(
    sa: &mut OutboundSa,
    now: Time,
    len: usize,
    limit: usize,
    pool: &mut Pool,
    write: impl FnOnce(&mut [u8]),
) -> Result<Packet<Outer>, DropReason> {
    let mut buf: Buf = pool.take();
    let written = buf.push_back(len).map(write).ok_or(DropReason::NoRoom);
    let meta = wire::Meta { received: now, ..wire::Meta::default() };
    let mut packet = Packet::from_host(buf, meta).advance::<Selected>().advance();
    let sealed = written.and_then(|()| {
        let config = sa.config();
        if config.options.protocol != SaProtocol::Esp {
            return Err(DropReason::WrongProtocol);
        }
        let inner = Inner {
            next_header: pad::DUMMY,
            tos: 0,
            ttl: 64,
            df: true,
            body: 0,
            kept: 0,
            named_at: 0,
            label: 0,
        };
        let shape = sa.shape();
        let icv = usize::from(shape.icv);
        let layout = Layout::new(config, &inner, len, HEADER + usize::from(shape.iv), |layout| {
            let limit = if layout.udp > 0 { limit } else { 0 };
            let room = limit.saturating_sub(layout.total() + icv);
            pad::within(layout.body, shape, room) + pad::TRAILER + icv
        })?;
        layout.check_room(&packet)?;
        let sequence = sa.next_packet(now, 0)?;
        let job = encap::enclose(sa, &mut packet, &inner, &layout, 0, sequence)?;
        // Not data: packets count for the lifetime, octets do not.
        sa.counters.carried(now, 0);
        job.compute(sa.key(), packet.bytes_mut())
    });
    match sealed {
        Ok(_) => Ok(packet.advance()),
        Err(reason) => {
            sa.counters.dropped(reason);
            pool.put(packet.into_buf());
            Err(reason)
        }
    }
}
