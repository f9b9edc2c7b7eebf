//! What most segments are: the next octets of an established connection, to which no rule has anything to say. They are summed up
//! while they are recorded, so that they are touched once.

use super::connection::{Connection, Said, State, millis, protects};
use super::segment::Segment;
use super::seq;
use super::store::Arena;
use crate::rule::Rule;
use crate::scrubber::Desk;
use crate::verdict::Job;
use wire::ip::Headers;
use wire::tcp::Flags;
use wire::{Buf, checksum};

impl Connection {
    /// Take a segment that needs no look at it; the highest time to live of its sender. `None`: nothing was done, it needs one.
    #[inline]
    pub(super) fn express(
        &mut self,
        job: &Job<'_>,
        desk: &Desk<'_>,
        arena: &mut Arena,
        buf: &Buf,
        headers: &Headers,
        segment: &Segment,
    ) -> Option<u8> {
        let from = desk.arrival.from;
        let flags = segment.flags.without(Flags::PSH);
        let half = self.half(from);
        let theirs = self.half(from.other());
        let end = segment.seq.wrapping_add(segment.len);
        let window = self.window_of(from, segment.window);
        let edge = segment.ack.wrapping_add(window);
        let most = if protects(job.config, from) { theirs.next } else { theirs.nxt };
        let plain = self.state == State::Estab
            && flags.0 == Flags::ACK.0
            && segment.urgent == 0
            && !half.said.has(Said::FIN | Said::SIGNED)
            // In order, and in the window.
            && segment.seq == half.nxt
            && half.next == half.nxt
            && !seq::before(half.edge, end)
            // What it acknowledges was sent and is not old, and the window does not shrink.
            && !seq::before(segment.ack, theirs.una)
            && !seq::before(most, segment.ack)
            && !seq::before(edge, theirs.edge)
            && (headers.tos & 3 == 0 || self.agreed(Said::ECN))
            && job.is_on(Rule::TcpChecksum);
        if !plain {
            return None;
        }
        let mut segment = *segment;
        segment.options = segment.plain_options(buf, headers)?;
        match segment.options.timestamps {
            Some((value, echo)) => {
                let fits = self.agreed(Said::TIMESTAMPS)
                    && !seq::before(value, half.ts_recent)
                    && !seq::before(theirs.ts_latest, echo);
                if !fits {
                    return None;
                }
            }
            None if self.agreed(Said::TIMESTAMPS) => return None,
            None => {}
        }
        let protected = protects(job.config, from.other());
        if protected && segment.len > 0 {
            let at = headers.total_len.checked_sub(segment.len as usize)?;
            let data = buf.as_slice().get(at..headers.total_len)?;
            let place = &mut self.stores[from.index()];
            let store = place.get_or_insert_with(|| arena.store());
            let (sum, mark) = store.append(arena, segment.seq, data)?;
            if !segment.is_partial()
                && checksum::verify_summed(buf.as_slice(), headers, at, sum) != Some(true)
            {
                store.undo(arena, mark);
                if store.is_empty()
                    && let Some(store) = place.take()
                {
                    store.close(arena);
                }
                return None;
            }
        } else if !segment.is_partial() && checksum::verify_transport(buf.as_slice(), headers) != Some(true) {
            return None;
        }
        self.note_plain(arena, from, &segment, desk.now, window);
        let half = self.half_mut(from);
        half.ttl = half.ttl.max(headers.ttl);
        let ttl = half.ttl;
        self.last = millis(desk.now);
        self.probes = 0;
        Some(ttl)
    }
}
