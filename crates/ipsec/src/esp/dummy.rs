//! Dummy packets (RFC 4303 section 2.6): they hide when there is nothing to say, and ask whether packets of their
//! length arrive (docs/design/0029).

use super::{HEADER, encap, pad};
use crate::frame::Layout;
use crate::inner::Inner;
use crate::mtu;
use crate::process::finish_seal;
use sadb::sa::{DontFragment, SaProtocol};
use sadb::{Mode, OutboundSa};
use wire::probe::Message;
use wire::stage::{Outer, Scheduled};
use wire::{DropReason, Packet, Pool};

/// A packet that its receiver drops, around `content`, which should be random and as long as what it imitates. `packet`
/// is empty, its buffer comes from `pool`, which leaves [`crate::HEADROOM`].
///
/// # Errors
/// The reasons for which [`crate::encap`] refuses an association; [`DropReason::WrongProtocol`] for one that is not ESP
/// in tunnel mode. The buffer has gone to `pool` then.
pub fn dummy(
    sa: &mut OutboundSa,
    packet: Packet<Scheduled>,
    content: &[u8],
    pool: &mut Pool,
) -> Result<Packet<Outer>, DropReason> {
    if sa.config().mode != Mode::Tunnel {
        return finish_seal(sa, packet, Err(DropReason::WrongProtocol), pool);
    }
    let limit = sa.config().path_mtu.into();
    build(sa, packet, (content.len(), limit), pool, |place| place.copy_from_slice(content))
}

/// A packet that holds `message`, and filler up to an outer packet of `size` octets, or as near below it as the
/// cipher's alignment allows; never shorter than the message. It must not be fragmented on the way. `packet` is empty,
/// its buffer comes from `pool`.
///
/// # Errors
/// The reasons for which [`crate::encap`] refuses an association; [`DropReason::WrongProtocol`] for one that is not
/// ESP, or lets routers fragment its packets. The buffer has gone to `pool` then.
pub fn probe(
    sa: &mut OutboundSa,
    packet: Packet<Scheduled>,
    message: &Message,
    size: usize,
    pool: &mut Pool,
) -> Result<Packet<Outer>, DropReason> {
    let config = sa.config();
    if config.options.headers.df == DontFragment::Clear && config.endpoints.remote.is_ipv4() {
        pool.put(packet.into_buf());
        return Err(DropReason::WrongProtocol);
    }
    let octets = message.octets();
    let len = mtu::dummy_room(config, size).max(octets.len());
    build(sa, packet, (len, size), pool, |place| {
        place.fill(0);
        place.iter_mut().zip(octets).for_each(|(to, from)| *to = from);
    })
}

/// A packet around `len` octets that `write` writes, whose outer packet should not be longer than `limit`.
fn build(
    sa: &mut OutboundSa,
    mut packet: Packet<Scheduled>,
    (len, limit): (usize, usize),
    pool: &mut Pool,
    write: impl FnOnce(&mut [u8]),
) -> Result<Packet<Outer>, DropReason> {
    let now = packet.meta.received;
    let written = packet.buf_mut().push_back(len).map(write).ok_or(DropReason::NoRoom);
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
    finish_seal(sa, packet, sealed, pool)
}
