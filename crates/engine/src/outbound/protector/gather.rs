//! Stage 6 for many packets at once: ESP in the slots of a burst.
//!
//! The segments of a super-packet, and packets of the same association that follow one another, are put where they will
//! be sent from, sealed there in batches, and leave together. Each takes its sequence number, is counted and asked
//! against the association's lifetime by itself, as if it went alone.

use ipsec::slot::{self, Frame};
use ipsec::{SealProof, Steps};
use sadb::sa::{Key, Shape};
use sadb::{OutboundSa, OutboundSad, SaIndex};
use wire::ip::Headers;
use wire::plain::Plain;
use wire::stage::Scheduled;
use wire::{
    AppId, Buf, Burst, BurstMeta, DropReason, Flow, Meta, Packet, SegmentPosition, Services, burst, segment,
};

use super::fit::Fit;
use super::pieces::PacketFit;
use crate::cx::Cx;
use crate::outbound::outcome::Outcome;
use crate::queued::burst_in_cell;
use crate::seam::{self, Turn};
use crate::stats::{About, Dropped};

/// The length of the longest packet that is copied to go with others, in octets. A longer one (there are few:
/// super-packets are cut) is sealed where it lies.
pub(in crate::outbound) const LONGEST_COPY: usize = 2048;

/// The length of the longest piece of a super-packet that goes with others, in octets: several of them must fit one
/// burst.
const LONGEST_PIECE: usize = 16 * 1024;

/// A packet, or a segment of one, on its way into a burst.
struct Piece<'a> {
    index: SaIndex,
    frame: &'a Frame,
    meta: &'a Meta,
    /// The number of octets of the inner packet.
    len: usize,
    /// The largest number of octets of an inner packet among those that it goes with.
    longest: usize,
    turn: Turn,
}

/// The burst that is being built, if there is one.
#[derive(Default)]
pub(super) struct Gather {
    open: Option<Open>,
    /// The rule that decided about the packet that was taken last. A burst does not say it of each of its packets.
    last_rule: u32,
    /// Whether bursts are left to a unit that answers later.
    is_later: bool,
    /// Bursts that are left to it.
    tasks: Vec<BurstTask>,
}

/// A burst that is complete but for the cipher's part, which is done in another place.
pub(in crate::outbound) struct BurstTask {
    key: Key,
    shape: Shape,
    open: Open,
    sealed: Option<Result<SealProof, DropReason>>,
}

impl BurstTask {
    /// Seal the datagrams of the burst.
    pub(super) fn compute(&mut self) {
        let BurstTask { key, shape, open, sealed } = self;
        *sealed = Some(slot::seal(key, *shape, open.burst.meta.sequence, open.burst.datagrams_mut()));
    }

    /// Seal about so many octets of the datagrams. Returns whether all are sealed, or failed.
    pub(super) fn step(&mut self, steps: &mut Steps, octets: &mut usize) -> bool {
        let BurstTask { key, shape, open, sealed } = self;
        let first = open.burst.meta.sequence;
        let step = slot::seal_step(key, *shape, first, open.burst.datagrams_mut(), steps, octets);
        *sealed = step.transpose();
        sealed.is_some()
    }

    /// The number of octets in the datagrams.
    pub(super) fn octets(&self) -> usize {
        self.open.burst.bytes().len()
    }

    /// Give the buffer back. Nothing of the burst may leave.
    pub(super) fn into_buf(self) -> Buf {
        self.open.burst.into_buf()
    }

    /// Send it, or drop it if it was not sealed.
    pub(super) fn finish(self, sad: &mut OutboundSad, cx: &mut Cx<'_, Outcome>) {
        leave(self.open, self.sealed.unwrap_or(Err(DropReason::UnitFailed)), sad, cx);
    }
}

/// A burst that is being built.
struct Open {
    index: SaIndex,
    app: AppId,
    /// The services that were demanded of the first packet. All packets name a suite, or none does.
    need: Services,
    /// The frame of the first packet.
    frame: Frame,
    burst: Burst<Scheduled>,
    /// The number of its datagrams that are sealed.
    sealed: usize,
    /// The number of octets in its inner packets.
    inner: u64,
    /// The longest inner packet without options that the association carries, in octets.
    mtu: usize,
    /// The first packet, in whose name the burst is reported if it ends here.
    first: First,
}

/// What is known of the first packet of a burst, beside what the burst says of it.
#[derive(Clone, Copy)]
struct First {
    flow: Flow,
    rule: u32,
    cookie: u64,
    mark: u32,
    /// The number of octets of the inner packet.
    len: usize,
}

impl Open {
    /// Seal the datagrams that are not sealed yet.
    fn seal(&mut self, sa: &OutboundSa) -> Result<SealProof, DropReason> {
        let first = self.burst.meta.sequence + self.sealed as u64;
        let slots = self.burst.datagrams_mut().skip(self.sealed);
        let sealed = slot::seal(sa.key(), sa.shape(), first, slots)?;
        self.sealed = self.burst.count();
        Ok(sealed)
    }
}

impl Gather {
    /// Leave bursts to a unit that answers later, or to none. No burst may be open.
    pub(super) fn leave_to_unit(&mut self, is_later: bool) {
        self.is_later = is_later;
    }

    /// The bursts that were left to the unit, in their order.
    pub(super) fn tasks(&mut self) -> &mut Vec<BurstTask> {
        &mut self.tasks
    }

    /// The rule that decided about the packet that was taken last.
    pub(super) fn last_rule(&self) -> u32 {
        self.last_rule
    }

    /// The [`ipsec::inner_mtu`] of this association if its burst is open. The association then stands alone and is one
    /// that [`slot::serves`]; nothing of that changes before the burst has left.
    #[inline]
    pub(super) fn mtu(&self, index: SaIndex) -> Option<usize> {
        self.open.as_ref().filter(|open| open.index == index).map(|open| open.mtu)
    }

    /// The association whose burst is open, if this packet, which has the mark of its flow, fits it as it is.
    #[inline]
    pub(super) fn takes(&self, plain: &Plain) -> Option<SaIndex> {
        let open = self.open.as_ref()?;
        let fits = plain.total_len <= open.mtu.min(LONGEST_COPY) && !plain.syn && open.frame.is_of(plain);
        fits.then_some(open.index)
    }

    /// Add a packet that [`Gather::takes`].
    #[inline]
    pub(super) fn append<S>(
        &mut self,
        packet: &Packet<S>,
        plain: &Plain,
        turn: Turn,
        sad: &mut OutboundSad,
        cx: &mut Cx<'_, Outcome>,
    ) {
        let Some(Open { index, frame, .. }) = self.open else { return };
        let bytes = packet.bytes();
        let (frame, len) = (&frame, bytes.len());
        let piece = Piece { index, frame, meta: &packet.meta, len, longest: len, turn };
        let write = |slot: &mut [u8]| slot.get_mut(..bytes.len()).map(|slot| slot.copy_from_slice(bytes));
        self.piece(&piece, || plain.flow(true), write, sad, cx);
    }

    /// The frame for the datagrams of this packet; `None` if it is to go alone.
    #[inline]
    pub(super) fn frame<S>(
        &self,
        sa: &OutboundSa,
        packet: &Packet<S>,
        headers: &Headers,
        fit: Fit,
    ) -> Option<Frame> {
        let fits = match fit {
            Fit::Whole => packet.bytes().len() <= LONGEST_COPY,
            Fit::Cut(longest) => longest.min(packet.meta.gso.size.into()) <= LONGEST_PIECE,
            Fit::Fragments(_) => false,
        };
        if !fits {
            return None;
        }
        // One that the mode refuses is refused there.
        Frame::new(sa, packet.bytes(), headers).ok()
    }

    /// Add a packet for which [`Gather::frame`] has a frame.
    pub(super) fn take(
        &mut self,
        index: SaIndex,
        frame: &Frame,
        packet: Packet<Scheduled>,
        fitted: &PacketFit<'_>,
        sad: &mut OutboundSad,
        cx: &mut Cx<'_, Outcome>,
    ) {
        let turn = seam::turn_of(&packet);
        match self.pieces(
            index,
            frame,
            &packet,
            fitted,
            (SegmentPosition::default(), usize::MAX),
            turn,
            sad,
            cx,
        ) {
            Ok(_) => cx.pool.put(packet.into_buf()),
            Err(reason) => cx.discard(packet, reason, Some(fitted.flow)),
        }
    }

    /// Add pieces of a packet for which [`Gather::frame`] has a frame: so many at most, from this place on. Returns the
    /// place behind them; `None` if no piece is left.
    ///
    /// # Errors
    /// The reason why it cannot be cut.
    #[allow(
        clippy::too_many_arguments,
        reason = "a packet, what is known of it, and what is lent for the call"
    )]
    pub(super) fn pieces<S>(
        &mut self,
        index: SaIndex,
        frame: &Frame,
        packet: &Packet<S>,
        fitted: &PacketFit<'_>,
        (from, most): (SegmentPosition, usize),
        turn: Turn,
        sad: &mut OutboundSad,
        cx: &mut Cx<'_, Outcome>,
    ) -> Result<Option<SegmentPosition>, DropReason> {
        let PacketFit { headers, fit, flow } = *fitted;
        let (meta, bytes) = (&packet.meta, packet.bytes());
        match fit {
            Fit::Whole => {
                let body = bytes.get(frame.left_out()..).unwrap_or_default();
                let write =
                    |slot: &mut [u8]| slot.get_mut(..body.len()).map(|slot| slot.copy_from_slice(body));
                let len = bytes.len();
                let piece = Piece { index, frame, meta, len, longest: len, turn };
                self.piece(&piece, || *flow, write, sad, cx);
                Ok(None)
            }
            // There is no frame for it.
            Fit::Fragments(_) => Err(DropReason::TooLong),
            Fit::Cut(longest) => {
                let mut pieces = segment::segments(bytes, headers, &meta.gso, longest)?;
                let longest = pieces.segment_len();
                pieces.resume(from);
                let mut left = most;
                while left > 0
                    && let Some(len) = pieces.next_len()
                {
                    left -= 1;
                    let mut written = false;
                    let write = |slot: &mut [u8]| {
                        written = true;
                        let piece = if frame.left_out() == 0 {
                            pieces.next_slice(slot)
                        } else {
                            pieces.next_upper(slot)
                        };
                        piece?.ok().map(drop)
                    };
                    let piece = Piece { index, frame, meta, len, longest, turn };
                    self.piece(&piece, || *flow, write, sad, cx);
                    if !written {
                        pieces.pass();
                    }
                }
                Ok(pieces.position())
            }
        }
    }

    /// Add one piece, which `write` writes.
    #[inline]
    fn piece(
        &mut self,
        piece: &Piece<'_>,
        flow: impl Fn() -> Flow,
        write: impl FnOnce(&mut [u8]) -> Option<()>,
        sad: &mut OutboundSad,
        cx: &mut Cx<'_, Outcome>,
    ) {
        if let Err(reason) = self.put(piece, &flow, write, sad, cx) {
            refuse(piece, reason, &flow(), sad, cx);
        }
    }

    #[inline]
    fn put(
        &mut self,
        piece: &Piece<'_>,
        flow: impl Fn() -> Flow,
        write: impl FnOnce(&mut [u8]) -> Option<()>,
        sad: &mut OutboundSad,
        cx: &mut Cx<'_, Outcome>,
    ) -> Result<(), DropReason> {
        let Piece { index, frame, meta, len, .. } = *piece;
        let slot_len = frame.slot_len(len);
        let belongs = self.open.as_ref().is_some_and(|open| {
            open.index == index
                && open.app == meta.app
                && open.need.is_named() == meta.services.is_named()
                && open.frame.joins(frame)
                && open.burst.header.may_fragment == meta.may_fragment
                && open.burst.takes(slot_len)
        });
        if !belongs {
            self.close(sad, cx);
            self.begin(piece, flow(), sad, cx)?;
        }
        let (Some(open), Some(sa)) = (&mut self.open, sad.get_mut(index)) else {
            return Err(DropReason::NoSa);
        };
        let slot = open.burst.next_slot(slot_len).ok_or(DropReason::NoRoom)?;
        // Before a number is taken: nothing can fail behind that.
        slot.get_mut(frame.front()..).and_then(write).ok_or(DropReason::NoRoom)?;
        let now = meta.received;
        let sequence = sa.next_packet(now, len)?;
        let framed = frame.write(slot, len, sequence);
        if open.burst.is_empty() {
            open.burst.meta.sequence = sequence;
        }
        if framed.is_err() || !open.burst.commit(slot_len) {
            // The numbers of those behind it would not follow those before it.
            self.close(sad, cx);
            return Err(DropReason::NoRoom);
        }
        sa.counters.carried(now, len);
        self.last_rule = meta.rule;
        open.inner += len as u64;
        if open.burst.is_full() {
            self.close(sad, cx);
        } else if open.burst.count() - open.sealed >= slot::BATCH
            && !self.is_later
            && let Err(reason) = open.seal(sa)
        {
            self.discard(reason, sad, cx);
        }
        Ok(())
    }

    fn begin(
        &mut self,
        piece: &Piece<'_>,
        flow: Flow,
        sad: &OutboundSad,
        cx: &mut Cx<'_, Outcome>,
    ) -> Result<(), DropReason> {
        let Piece { index, frame, meta, len, longest, turn } = *piece;
        let sa = sad.get(index).ok_or(DropReason::NoSa)?;
        let outer = frame.outer(sa, meta.may_fragment);
        let room = if outer.dst.is_ipv4() { burst::MAX_LEN_V4 } else { burst::MAX_LEN_V6 };
        if frame.slot_len(longest) > room {
            return Err(DropReason::TooLong);
        }
        let burst = Burst::begin(&turn, cx.pool.take(), outer, frame.slot_len(longest));
        let mut burst = burst.ok_or(DropReason::NoRoom)?;
        burst.meta = BurstMeta {
            received: meta.received,
            spi: sa.spi().0,
            app: meta.app,
            aggregate: meta.aggregate,
            ..BurstMeta::default()
        };
        let mtu = ipsec::inner_mtu(sa.config());
        let (app, need) = (meta.app, meta.services);
        let first = First { flow, rule: meta.rule, cookie: meta.cookie, mark: meta.mark, len };
        self.open = Some(Open { index, app, need, frame: *frame, burst, sealed: 0, inner: 0, mtu, first });
        Ok(())
    }

    /// Seal and send what was gathered.
    #[inline]
    pub(super) fn close(&mut self, sad: &mut OutboundSad, cx: &mut Cx<'_, Outcome>) {
        if self.is_later {
            return self.close_later(sad, cx);
        }
        let Some(open) = &mut self.open else { return };
        let sealed = match sad.get(open.index) {
            Some(sa) => open.seal(sa),
            None => Err(DropReason::NoSa),
        };
        let Some(open) = self.open.take() else { return };
        leave(open, sealed, sad, cx);
    }

    /// Leave what was gathered to the unit. A short burst does not keep a buffer of full size while it is away.
    fn close_later(&mut self, sad: &mut OutboundSad, cx: &mut Cx<'_, Outcome>) {
        let Some(mut open) = self.open.take() else { return };
        open.burst = burst_in_cell(open.burst, cx.pool);
        match sad.get(open.index) {
            Some(_) if open.burst.is_empty() => cx.pool.put(open.burst.into_buf()),
            Some(sa) => {
                let (key, shape) = (sa.key().clone(), sa.shape());
                self.tasks.push(BurstTask { key, shape, open, sealed: None });
            }
            None => end(open, DropReason::NoSa, sad, cx),
        }
    }

    /// Drop the burst that is open, since it could not be sealed.
    #[cold]
    fn discard(&mut self, reason: DropReason, sad: &mut OutboundSad, cx: &mut Cx<'_, Outcome>) {
        if let Some(open) = self.open.take() {
            end(open, reason, sad, cx);
        }
    }
}

/// Send a burst that was sealed, or drop it.
#[inline]
fn leave(open: Open, sealed: Result<SealProof, DropReason>, sad: &mut OutboundSad, cx: &mut Cx<'_, Outcome>) {
    let services = sad.get(open.index).map(|sa| sa.config().services()).ok_or(DropReason::NoSa);
    let (sealed, services) = match sealed.and_then(|sealed| Ok((sealed, services?))) {
        Ok(done) => done,
        Err(reason) => return end(open, reason, sad, cx),
    };
    let Open { mut burst, inner, app, need, .. } = open;
    if burst.is_empty() {
        return cx.pool.put(burst.into_buf());
    }
    burst.meta.inner_len = inner as u32;
    cx.stats.left(app, services, need, burst.count() as u64, inner);
    cx.out.push(Outcome::Burst(burst.advance(&sealed)));
}

/// Drop a burst, since it could not be sealed and nothing of it may leave. Each packet is counted, and the first one is
/// reported for all of them.
#[cold]
fn end(open: Open, reason: DropReason, sad: &mut OutboundSad, cx: &mut Cx<'_, Outcome>) {
    let Open { index, burst, first, app, .. } = open;
    for _ in 0..burst.count() {
        if let Some(sa) = sad.get_mut(index) {
            sa.counters.dropped(reason);
        }
    }
    if let Some(others) = burst.count().checked_sub(1) {
        let BurstMeta { received: at, spi, sequence, .. } = burst.meta;
        let First { flow, rule, cookie, mark, len } = first;
        let about = About { at, app, rule, spi, sequence, cookie, mark, ..About::default() };
        cx.report(Dropped::new(reason, &about, len, Some(&flow)));
        cx.stats.lost(reason, others as u64);
    }
    cx.pool.put(burst.into_buf());
}

#[cold]
fn refuse(
    piece: &Piece<'_>,
    reason: DropReason,
    flow: &Flow,
    sad: &mut OutboundSad,
    cx: &mut Cx<'_, Outcome>,
) {
    let Piece { index, meta, len, .. } = *piece;
    let mut about = About::of(meta);
    if let Some(sa) = sad.get_mut(index) {
        sa.counters.dropped(reason);
        about.spi = sa.spi().0;
    }
    let dropped = Dropped::new(reason, &about, len, Some(flow));
    cx.report(dropped);
}
