//! The rules for a segment of an established connection (rules T.4, O.4 to O.6, Q.5 to Q.13).

use super::{Connection, EndFlags, State, Work, millis, protects, seconds};
use crate::rule::Rule;
use crate::tcp::segment::{Segment, clear_ecn};
use crate::tcp::seq;
use crate::tcp::store::{Arena, Room};
use crate::verdict::{Side, Stop};
use wire::Time;
use wire::plain::PlainSegment;
use wire::tcp::{self, Flags, TcpOption, TcpRepr};

/// The silence in seconds after which timestamps prove nothing, since they may have wrapped (RFC 7323 section 5.5).
const TIMESTAMPS_LAST: u32 = 24 * 24 * 3600;
/// The least time between two challenges of one connection, in milliseconds (RFC 5961 section 7 asks for a bound; one
/// for each connection tells nobody about another).
const CHALLENGE_EVERY: u32 = 500;
/// The time to live of a segment in the name of an end that has sent none.
const TTL: u8 = 64;
/// The distance in octets behind which a segment is too old to be a duplicate. The largest window counts where it is
/// larger.
const OLD: u32 = 1 << 16;

impl Connection {
    /// Check a segment that is neither SYN nor RST, and take it in.
    pub(in crate::tcp) fn established(&mut self, work: &mut Work<'_, '_, '_>) -> Result<(), Stop> {
        if !work.segment.flags.contains(Flags::ACK) {
            work.job.refuse(Rule::TcpFlags)?;
        }
        self.signature(work)?;
        self.acknowledgment(work)?;
        self.timestamps(work)?;
        let protected = protects(work.job.config, work.from().other());
        if protected {
            self.window(work)?;
            self.fin(work)?;
        }
        self.ecn(work);
        self.sack(work);
        self.shrinking(work);
        if protected && work.segment.len > 0 {
            self.record(work)?;
        }
        self.unchanged_if_signed(work)?;
        self.note(work);
        Ok(())
    }

    /// Rule O.6: either all segments of a connection are signed, or none.
    pub(in crate::tcp) fn signature(&self, work: &mut Work<'_, '_, '_>) -> Result<(), Stop> {
        let signed = self.half(self.opener).end_flags.has(EndFlags::SIGNED);
        if work.segment.options.signed != signed && !self.picked_up {
            work.job.refuse(Rule::OptionAuthentication)?;
        }
        Ok(())
    }

    /// Refuse a signed segment that was changed, since only its sender could sign it anew.
    pub(in crate::tcp) fn unchanged_if_signed(&self, work: &mut Work<'_, '_, '_>) -> Result<(), Stop> {
        if work.segment.changed && work.segment.options.signed {
            work.job.refuse(Rule::OptionAuthentication)?;
        }
        Ok(())
    }

    /// Rule Q.7: check the acknowledgment by RFC 5961 section 5.2, and that the data can have arrived.
    fn acknowledgment(&self, work: &mut Work<'_, '_, '_>) -> Result<(), Stop> {
        if !work.segment.flags.contains(Flags::ACK) {
            return Ok(());
        }
        if !self.is_fit_ack(work) {
            work.job.refuse(Rule::Acknowledgment)?;
        } else if work.job.watches(Rule::Acknowledgment) && self.is_over_hole(work) {
            work.job.met.would.insert(Rule::Acknowledgment);
        }
        Ok(())
    }

    /// Whether a segment acknowledges data that were not seen here, where packets may have passed unseen.
    fn is_over_hole(&self, work: &Work<'_, '_, '_>) -> bool {
        let theirs = self.half(work.from().other());
        work.job.config.may_miss && !self.picked_up && seq::before(theirs.next, work.segment.ack)
    }

    fn is_fit_ack(&self, work: &Work<'_, '_, '_>) -> bool {
        let (from, ack) = (work.from(), work.segment.ack);
        let theirs = self.half(from.other());
        // Of what is in store the holes are known.
        let most = match protects(work.job.config, from) {
            // The receiver offered that much, and a FIN has a number, too.
            _ if work.job.config.may_miss => seq::max(theirs.nxt, theirs.edge.wrapping_add(1)),
            true => theirs.next,
            false => theirs.nxt,
        };
        let least = theirs.una.wrapping_sub(self.half(from).max_window.max(OLD));
        !seq::before(most, ack) && !seq::before(ack, least)
    }

    /// Rule O.5: check the timestamps (RFC 7323 section 5.3). An echo is not compared: the RFC has no such test, and
    /// the value that it echoes need not have passed here.
    fn timestamps(&self, work: &mut Work<'_, '_, '_>) -> Result<(), Stop> {
        let agreed = self.agreed(EndFlags::TIMESTAMPS);
        let Some((value, _)) = work.segment.options.timestamps else {
            // Keep-alives without them are seen; data without them are not.
            if agreed && (work.segment.len > 0 || work.segment.flags.contains(Flags::FIN)) {
                work.job.refuse(Rule::OptionTimestamps)?;
            }
            return Ok(());
        };
        if !agreed {
            if !self.picked_up && work.job.acts(Rule::OptionTimestamps) {
                work.segment.keep_options(work.buf, work.headers, |option| {
                    !matches!(option, TcpOption::Timestamps { .. })
                });
                work.segment.options.timestamps = None;
            }
            return Ok(());
        }
        let ours = self.half(work.from());
        let idle = seconds(work.now()).wrapping_sub(ours.ts_second) > TIMESTAMPS_LAST;
        if seq::before(value, ours.ts_recent) && !idle {
            work.job.refuse(Rule::OptionTimestamps)?;
        }
        Ok(())
    }

    /// Rules Q.5 and Q.9: keep what is in the receiver's window and not acknowledged yet.
    fn window(&self, work: &mut Work<'_, '_, '_>) -> Result<(), Stop> {
        let half = *self.half(work.from());
        let receiver = self.half(work.from().other());
        let segment = work.segment;
        let oldest = half.una.wrapping_sub(receiver.max_window.max(OLD));
        if seq::before(segment.seq, oldest) || seq::before(half.edge, segment.seq) {
            return work.job.refuse(Rule::Window);
        }
        let has_fin = segment.flags.contains(Flags::FIN);
        if segment.len == 0 && !has_fin {
            return Ok(());
        }
        if !seq::before(half.una, segment.end()) {
            if work.job.acts(Rule::Duplicate) {
                self.alone(work);
            }
            return Ok(());
        }
        if seq::before(segment.seq, half.una) && work.job.acts(Rule::Duplicate) {
            let front = seq::gap(segment.seq, half.una);
            work.segment.cut(work.buf, work.headers, front, segment.len.saturating_sub(front));
            work.segment.put_seq(work.buf, work.headers, half.una);
        }
        let (start, len) = (work.segment.seq, work.segment.len);
        // A closed window: one octet asks whether it still is (RFC 9293 section 3.8.6.1).
        let closed = half.edge == half.una && start == half.una;
        let room = if closed { 1 } else { seq::gap(start, half.edge) };
        if room == 0 && len > 0 {
            work.job.refuse(Rule::Window)?;
        } else if len > room && work.job.acts(Rule::Window) {
            work.segment.cut(work.buf, work.headers, 0, room);
            self.no_fin(work);
        }
        Ok(())
    }

    /// Rule Q.9: send the header alone, in the form of a keep-alive, which its receiver has to acknowledge.
    fn alone(&self, work: &mut Work<'_, '_, '_>) {
        let una = self.half(work.from()).una;
        work.segment.cut(work.buf, work.headers, 0, 0);
        work.segment.put_seq(work.buf, work.headers, una.wrapping_sub(1));
        let drops = Flags::FIN | Flags::PSH;
        if work.segment.flags.intersects(drops) {
            work.segment.clear(work.buf, work.headers, drops);
        }
    }

    fn no_fin(&self, work: &mut Work<'_, '_, '_>) {
        if work.segment.flags.contains(Flags::FIN) {
            work.segment.clear(work.buf, work.headers, Flags::FIN);
        }
    }

    /// Rule Q.12: there is one FIN, behind all data.
    fn fin(&self, work: &mut Work<'_, '_, '_>) -> Result<(), Stop> {
        let (half, fin) = (self.half(work.from()), self.bounds(work.from()).fin);
        let data_end = work.segment.seq.wrapping_add(work.segment.len);
        let has_fin = work.segment.flags.contains(Flags::FIN);
        if half.end_flags.has(EndFlags::FIN) {
            if work.segment.len > 0 && seq::before(fin, data_end) {
                if !seq::before(work.segment.seq, fin) {
                    return work.job.refuse(Rule::FinEdge);
                }
                if work.job.acts(Rule::FinEdge) {
                    work.segment.cut(work.buf, work.headers, 0, seq::gap(work.segment.seq, fin));
                    self.no_fin(work);
                }
            } else if has_fin && data_end != fin && work.job.acts(Rule::FinEdge) {
                self.no_fin(work);
            }
        } else if has_fin && seq::before(data_end, half.nxt) && work.job.acts(Rule::FinEdge) {
            self.no_fin(work);
        }
        Ok(())
    }

    /// Rule T.4 outside of the handshake.
    fn ecn(&self, work: &mut Work<'_, '_, '_>) {
        if self.agreed(EndFlags::ECN) || self.picked_up {
            return;
        }
        let ecn = Flags::ECE | Flags::CWR;
        if work.segment.flags.intersects(ecn) && work.job.acts(Rule::TcpEcn) {
            work.segment.clear(work.buf, work.headers, ecn);
        }
        if work.headers.tos & 3 != 0 && work.job.acts(Rule::TcpEcn) {
            clear_ecn(work.buf, work.headers);
        }
    }

    /// Rule O.4: SACK blocks must be about data that the other end has under way. The first may be about a duplicate
    /// (RFC 2883).
    fn sack(&self, work: &mut Work<'_, '_, '_>) {
        if !work.segment.options.has_sack {
            return;
        }
        let theirs = *self.half(work.from().other());
        let most = if work.job.config.may_miss { seq::max(theirs.nxt, theirs.edge) } else { theirs.nxt };
        let agreed = self.agreed(EndFlags::SACK);
        let is_wrong = |option: &TcpOption<'_>| {
            let TcpOption::Sack(blocks) = option else { return false };
            let (blocks, rest) = blocks.as_chunks::<8>();
            !agreed
                || !rest.is_empty()
                || blocks.iter().any(|block| {
                    let [a, b, c, d, e, f, g, h] = *block;
                    let (left, right) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
                    !seq::before(left, right)
                        || seq::before(most, right)
                        || seq::before(left, theirs.una.wrapping_sub(OLD << 4))
                })
        };
        if work.segment.has_option(work.buf, work.headers, is_wrong) && work.job.acts(Rule::OptionSack) {
            work.segment.keep_options(work.buf, work.headers, |option| !is_wrong(option));
        }
    }

    /// Rule Q.6: a window that was offered once stays offered.
    fn shrinking(&self, work: &mut Work<'_, '_, '_>) {
        let (from, segment) = (work.from(), work.segment);
        let theirs = self.half(from.other());
        // A host that has no memory left says so with a window of zero (Linux 6.5); its peer asks again, and is not told otherwise.
        if self.picked_up
            || segment.window == 0
            || seq::before(segment.ack, theirs.una)
            || !self.is_fit_ack(work)
        {
            return;
        }
        let edge = segment.ack.wrapping_add(self.window_of(from, segment.window));
        let missing = seq::gap(edge, theirs.edge);
        let unit = self.window_of(from, 1);
        // A window is offered in units of its scale: less than one is rounding.
        if missing < unit || !work.job.acts(Rule::WindowShrink) {
            return;
        }
        let whole = seq::gap(segment.ack, theirs.edge) / unit;
        work.segment.put_window(work.buf, work.headers, u16::try_from(whole).unwrap_or(u16::MAX));
    }

    /// Rules Q.8, Q.10, Q.15: record the data, so that whatever goes on is in store.
    pub(in crate::tcp) fn record(&mut self, work: &mut Work<'_, '_, '_>) -> Result<(), Stop> {
        let side = work.from();
        let (half, config) = (*self.half(side), work.job.config);
        let (start, len) = (work.segment.seq, work.segment.len as usize);
        let store = self.stores[side.index()].get_or_insert_with(|| work.arena.store());
        if seq::before(half.next, start) {
            let limit = match work.arena.fullness() {
                ..128 => usize::MAX,
                128..192 => config.store.beyond_hole,
                _ => 0,
            };
            if limit < usize::MAX && store.octets_behind(half.next, limit).saturating_add(len) > limit {
                work.job.refuse(Rule::BeyondHole)?;
            }
        }
        let unit = if work.segment.unit == 0 { len } else { usize::from(work.segment.unit) };
        let room = Room { pieces: config.store.pieces, next: half.next, unit };
        let rewrite = work.job.is_on(Rule::FirstWins);
        let done = work
            .segment
            .with_data(work.buf, work.headers, |data| store.record(work.arena, room, start, data, rewrite));
        if done.differs {
            work.segment.changed |= work.job.acts(Rule::FirstWins);
        }
        if done.unknown {
            return self.cold(work, done.kept as u32);
        }
        if done.wrong && done.kept == 0 {
            return work.job.refuse(Rule::FirstWins);
        }
        if done.kept < len {
            // The rest was not recorded, so it does not go on.
            let rule = if done.wrong {
                Rule::FirstWins
            } else if store.is_empty() || done.kept == 0 && work.arena.fullness() >= 128 {
                Rule::BeyondHole
            } else {
                Rule::SmallSegments
            };
            if done.kept == 0 {
                return work.job.refuse(rule);
            }
            if work.job.acts(rule) {
                work.segment.cut(work.buf, work.headers, 0, done.kept as u32);
                self.no_fin(work);
            }
        }
        Ok(())
    }

    /// Handle octets that come again and cannot be compared. Another scrubber let them pass before this one took over,
    /// or only the hash of more of them is known. In their place the receiver is asked how far it is: nobody needs to
    /// know what it has acknowledged.
    fn cold(&self, work: &mut Work<'_, '_, '_>, kept: u32) -> Result<(), Stop> {
        if !work.job.acts(Rule::FirstWins) {
            return Ok(());
        }
        if kept == 0 {
            self.alone(work);
        } else {
            work.segment.cut(work.buf, work.headers, 0, kept);
            self.no_fin(work);
        }
        Ok(())
    }

    /// Take in what a segment says that passes.
    fn note(&mut self, work: &mut Work<'_, '_, '_>) {
        let (from, segment, now) = (work.from(), work.segment, work.now());
        let window = self.window_of(from, segment.window);
        let fit_ack = segment.flags.contains(Flags::ACK) && self.is_fit_ack(work);
        let protected = protects(work.job.config, from.other());
        let at = from.index();
        let half = &mut self.halves[at];
        let had_hole = half.next != half.nxt;
        let end = segment.end();
        half.nxt = seq::max(half.nxt, end);
        if !protected {
            half.next = half.nxt;
        } else if seq::before(half.next, end) && !seq::before(half.next, segment.seq) {
            half.next = end;
            if had_hole && let Some(store) = &self.stores[at] {
                half.next = store.reaches(end);
            }
        }
        if segment.flags.contains(Flags::FIN) && !half.end_flags.has(EndFlags::FIN) {
            half.end_flags.add(EndFlags::FIN, true);
            self.bounds[at].fin = end.wrapping_sub(1);
        }
        if half.end_flags.has(EndFlags::FIN) && half.next == self.bounds[at].fin {
            // The FIN came in front of what was missing.
            half.next = half.nxt;
        }
        self.note_window(from, segment.seq, segment.options.timestamps, now, window);
        if fit_ack {
            if self.picked_up {
                self.hear(from, segment.ack);
            }
            if work.job.config.may_miss {
                self.pass_hole(from.other(), segment.ack);
            }
            self.note_ack(work.arena, from, segment.ack, window);
        }
    }

    /// Skip holes in front of `ack`: data that the other end has acknowledged have been there, whether they were seen
    /// here or not.
    pub(in crate::tcp) fn pass_hole(&mut self, side: Side, ack: u32) {
        if seq::before(self.half(side).next, ack) {
            let next = self.stores[side.index()].as_ref().map_or(ack, |store| store.reaches(ack));
            let half = self.half_mut(side);
            half.next = next;
            half.nxt = seq::max(half.nxt, next);
        }
    }

    /// Take in the first acknowledgment from that side in a connection that was picked up: the other end's first
    /// segment here may have been behind a hole.
    fn hear(&mut self, from: Side, ack: u32) {
        let theirs = self.half_mut(from.other());
        if !theirs.end_flags.has(EndFlags::HEARD) && seq::before(ack, theirs.una) {
            (theirs.una, theirs.next) = (ack, ack);
            self.bounds_mut(from.other()).isn = ack.wrapping_sub(1);
        }
        self.half_mut(from.other()).end_flags.add(EndFlags::HEARD, true);
    }

    /// Take in a plain segment that is in order, with an acknowledgment that fits.
    #[inline]
    pub(in crate::tcp) fn note_plain(
        &mut self,
        arena: &mut Arena,
        from: Side,
        segment: &PlainSegment<'_>,
        end: u32,
        now: Time,
        window: u32,
    ) {
        let half = self.half_mut(from);
        (half.nxt, half.next) = (end, end);
        self.note_window(from, segment.seq(), segment.timestamps(), now, window);
        self.note_ack(arena, from, segment.ack(), window);
    }

    #[inline]
    fn note_window(&mut self, from: Side, start: u32, stamps: Option<(u32, u32)>, now: Time, window: u32) {
        let half = self.half_mut(from);
        half.max_window = half.max_window.max(window);
        if let Some((value, _)) = stamps {
            half.ts_latest = seq::max(half.ts_latest, value);
            if !seq::before(half.una, start) && !seq::before(value, half.ts_recent) {
                (half.ts_recent, half.ts_second) = (value, seconds(now));
            }
        }
    }

    /// Take in an acknowledgment: data that it covers are forgotten.
    #[inline]
    fn note_ack(&mut self, arena: &mut Arena, from: Side, ack: u32, window: u32) {
        let side = from.other();
        let theirs = self.half_mut(side);
        theirs.edge = seq::max(theirs.edge, ack.wrapping_add(window));
        if !seq::before(theirs.una, ack) {
            return;
        }
        theirs.una = ack;
        let place = &mut self.stores[side.index()];
        let Some(store) = place else { return };
        store.forget(arena, ack);
        if store.is_empty()
            && let Some(store) = place.take()
        {
            store.close(arena);
        }
    }

    /// Rule Q.11: a reset must be at exactly the expected number: what the receiver waits for as far as is known, or
    /// the end of what came without a hole. Which of the two it is depends on what arrived behind; so the sender is
    /// held to it ([`Connection::lives`]).
    pub(in crate::tcp) fn reset(&mut self, work: &mut Work<'_, '_, '_>) -> Result<(), Stop> {
        let (half, segment) = (*self.half(work.from()), work.segment);
        self.signature(work)?;
        if segment.flags.contains(Flags::ACK) {
            self.acknowledgment(work)?;
        }
        let exact = segment.seq == half.una || segment.seq == half.next;
        if !exact {
            let inside = !seq::before(segment.seq, half.una) && seq::before(segment.seq, half.edge);
            if inside && work.job.is_on(Rule::ResetExact) {
                self.challenge(work, Rule::ResetExact);
            }
            work.job.refuse(Rule::ResetExact)?;
        }
        self.state = State::Closed;
        self.half_mut(work.from()).end_flags.add(EndFlags::RESET, true);
        Ok(())
    }

    /// Rule Q.13: check a SYN inside of a connection. The answer to the SYN may come again, because its acknowledgment
    /// was lost; it must say the same as before.
    pub(in crate::tcp) fn syn_inside(&mut self, work: &mut Work<'_, '_, '_>) -> Result<(), Stop> {
        let (from, segment) = (work.from(), work.segment);
        let answer = from != self.opener && segment.flags.contains(Flags::ACK);
        if answer
            && segment.seq == self.bounds(from).isn
            && self.bounds(self.opener).isn.wrapping_add(1) == segment.ack
            && segment.len == 0
            && self.half(from).end_flags.has(EndFlags::SYN)
        {
            self.signature(work)?;
            self.options_of_syn(work, true);
            self.as_first(work, true);
            return self.unchanged_if_signed(work);
        }
        if work.job.is_on(Rule::SynInside) {
            self.challenge(work, Rule::SynInside);
        }
        work.job.refuse(Rule::SynInside)
    }

    /// Whether this SYN from that side may open the next connection: no reader that missed the end of this one may take
    /// its segments for this one's. A host that uses a port again at once begins behind what it had sent. It may do so
    /// where both ends have closed (RFC 9293 section 3.6.1), with a later timestamp (RFC 6191), or where one of the two
    /// has said by a reset that this connection is over. A reader that missed the end then has a hole in front of the
    /// new connection that nothing ever fills.
    pub(in crate::tcp) fn may_reopen(&self, from: Side, syn: &Segment) -> bool {
        const APART: u32 = 1 << 26;
        let (half, start) = (self.half(from), syn.seq);
        let stamp = syn
            .options
            .timestamps
            .map(|(value, _)| value)
            .filter(|_| half.end_flags.has(EndFlags::TIMESTAMPS));
        let later = stamp.is_some_and(|value| seq::before(half.ts_latest, value));
        let older = stamp.is_some_and(|value| seq::before(value, half.ts_latest));
        let apart = later
            || self.has_closed() && !older
            || self.halves.iter().any(|half| half.end_flags.has(EndFlags::RESET));
        let window = self.half(from.other()).max_window.max(OLD);
        let refused = !self.half(from.other()).end_flags.has(EndFlags::SYN);
        self.state == State::Closed
            && (refused
                || apart && seq::before(half.nxt, start)
                || seq::before(half.edge, start) && seq::before(half.nxt, start)
                || seq::gap(start, half.una.wrapping_sub(window)) > APART)
    }

    /// Whether both ends have sent their FIN.
    fn has_closed(&self) -> bool {
        self.halves.iter().all(|half| half.end_flags.has(EndFlags::FIN))
    }

    /// Answer the sender in the receiver's name with an acknowledgment that only the true sender can make something of
    /// (RFC 5961).
    fn challenge(&mut self, work: &mut Work<'_, '_, '_>, why: Rule) {
        let now = millis(work.now());
        // A reset has ended it: the two hosts know nothing of it any more, and nobody speaks for them.
        let silent = self.state == State::Closed && !self.has_closed()
            || self.halves.iter().any(|half| half.end_flags.has(EndFlags::RESET));
        if silent || now.wrapping_sub(self.challenged) < CHALLENGE_EVERY {
            return;
        }
        self.challenged = now;
        // A word about the connection is a sign of life, also to whoever sees only what leaves here.
        if self.state != State::Closed {
            self.last = now;
        }
        let to = work.from();
        if let Some(buf) = self.bare(to, Flags::ACK, 0) {
            let sender = self.half_mut(to.other());
            if sender.ttl == 0 {
                sender.ttl = TTL;
            }
            work.context.emit(to, buf, why);
        }
    }

    /// A segment without data to the end on side `to`, as if the other end had sent it, `back` octets in front of what
    /// it sends next.
    pub(in crate::tcp) fn bare(&self, to: Side, flags: Flags, back: u32) -> Option<wire::Buf> {
        let (sender, receiver) = (self.half(to.other()), self.half(to));
        let stamped = self.agreed(EndFlags::TIMESTAMPS) && !self.picked_up;
        let window = seq::gap(receiver.una, receiver.edge);
        let shift = if self.agreed(EndFlags::SCALE) { sender.scale } else { 0 };
        tcp::packet(&TcpRepr {
            src: self.ends.end(to.other()),
            dst: self.ends.end(to),
            seq: sender.nxt.wrapping_sub(back).wrapping_add(if to == Side::Outside { self.shift } else { 0 }),
            ack: receiver.una,
            flags,
            window: u16::try_from(window >> shift).unwrap_or(u16::MAX),
            timestamps: stamped.then_some((sender.ts_latest, receiver.ts_recent)),
            ttl: if sender.ttl == 0 { TTL } else { sender.ttl },
        })
    }
}
