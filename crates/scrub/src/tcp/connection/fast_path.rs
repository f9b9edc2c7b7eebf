//! The part of the fast path that one connection decides ([`crate::tcp::FastPath`]).

use super::{Connection, EndFlags, State, millis, protects};
use crate::config::Config;
use crate::tcp::seq;
use crate::tcp::store::Arena;
use crate::verdict::Side;
use wire::plain::PlainSegment;
use wire::{Gso, Time, checksum};

impl Connection {
    /// Take in a plain segment that is in order and whose acknowledgment fits. `None`: nothing was done.
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "all of them are the one packet at work")]
    pub(in crate::tcp) fn fast_path(
        &mut self,
        config: &Config,
        now: Time,
        from: Side,
        arena: &mut Arena,
        segment: &PlainSegment<'_>,
        gso: &Gso,
    ) -> Option<()> {
        let half = self.half(from);
        let theirs = self.half(from.other());
        let data = segment.data();
        let end = segment.seq().wrapping_add(data.len() as u32);
        let window = self.window_of(from, segment.window());
        let edge = segment.ack().wrapping_add(window);
        let most = if protects(config, from) { theirs.next } else { theirs.nxt };
        let fits = self.state == State::Estab
            && !half.end_flags.has(EndFlags::FIN | EndFlags::SIGNED | EndFlags::SHIFTED)
            // Segments of these addresses came from here before, by the full path, and lived no longer.
            && half.ttl != 0
            && segment.ttl() >= half.ttl
            // In order, and in the window.
            && segment.seq() == half.nxt
            && half.next == half.nxt
            && !seq::before(half.edge, end)
            // What it acknowledges was sent and is not old, and the window does not shrink.
            && !seq::before(segment.ack(), theirs.una)
            && !seq::before(most, segment.ack())
            && !seq::before(edge, theirs.edge)
            && (segment.tos() & 3 == 0 || self.agreed(EndFlags::ECN));
        if !fits {
            return None;
        }
        match segment.timestamps() {
            Some((value, _)) if !self.agreed(EndFlags::TIMESTAMPS) || seq::before(value, half.ts_recent) => {
                return None;
            }
            None if self.agreed(EndFlags::TIMESTAMPS) => return None,
            _ => {}
        }
        if protects(config, from.other()) && !data.is_empty() {
            let place = &mut self.stores[from.index()];
            let store = place.get_or_insert_with(|| arena.store());
            let (sum, mark) = store.append(arena, segment.seq(), data)?;
            if !gso.needs_checksum && checksum::fold(segment.sum() + sum) != 0xffff {
                store.undo(arena, mark);
                if store.is_empty()
                    && let Some(store) = place.take()
                {
                    store.close(arena);
                }
                return None;
            }
        } else if !gso.needs_checksum && !segment.verify() {
            return None;
        }
        self.note_plain(arena, from, segment, end, now, window);
        self.half_mut(from).ttl = segment.ttl();
        self.last = millis(now);
        self.probes = 0;
        Some(())
    }
}
