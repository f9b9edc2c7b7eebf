//! Dummy packets, which hide when there is nothing to say (RFC 4303 section 2.6).

use super::{HEADER, encap, pad};
use crate::frame::{Inner, Layout};
use sadb::sa::SaProtocol;
use sadb::{Mode, OutboundSa};
use wire::stage::{Outer, Selected};
use wire::{DropReason, Packet, Pool, Time, Verdict};

/// A packet that its receiver drops, around `content`, which should be random and as long as what it imitates. Its buffer comes
/// from `pool`, which leaves [`crate::HEADROOM`].
///
/// # Errors
/// As a verdict: what [`crate::encap`] refuses an association for; [`DropReason::WrongProtocol`] for one that is not ESP in
/// tunnel mode.
pub fn dummy(sa: &mut OutboundSa, now: Time, content: &[u8], pool: &mut Pool) -> Verdict<Packet<Outer>> {
    let mut buf = pool.take();
    let written = match buf.push_back(content.len()) {
        Some(place) => {
            place.copy_from_slice(content);
            Ok(())
        }
        None => Err(DropReason::NoRoom),
    };
    let meta = wire::Meta { received: now, ..wire::Meta::default() };
    let mut packet = Packet::from_host(buf, meta).advance::<Selected>().advance();
    let sealed = written.and_then(|()| {
        let config = sa.config();
        if config.options.protocol != SaProtocol::Esp || config.mode != Mode::Tunnel {
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
        let (limit, icv) = (usize::from(config.path_mtu), usize::from(shape.icv));
        let layout = Layout::new(config, &inner, content.len(), HEADER + usize::from(shape.iv), |layout| {
            let limit = if layout.udp > 0 { limit } else { 0 };
            let room = limit.saturating_sub(layout.total() + icv);
            pad::within(layout.body, shape, room) + pad::TRAILER + icv
        })?;
        layout.check_room(&packet)?;
        sa.life.carry(now, sa.counters.packets + 1, sa.counters.bytes)?;
        let sequence = sa.take_sequence()?;
        encap::enclose(sa, &mut packet, &inner, &layout, 0, sequence)?;
        // Not data: packets count for the lifetime, octets do not.
        sa.counters.carried(now, 0);
        Ok(())
    });
    match sealed {
        Ok(()) => Verdict::Pass(packet.advance()),
        Err(reason) => {
            sa.counters.dropped(reason);
            pool.put(packet.into_buf());
            Verdict::Drop(reason)
        }
    }
}
