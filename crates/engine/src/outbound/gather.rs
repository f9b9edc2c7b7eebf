//! Stage 6 for many packets at once: ESP in the slots of a burst.
//!
//! The segments of a super-packet, and packets of the same association that follow one another, are put where they will
//! be sent from, sealed there in batches, and leave together. Each takes its sequence number, is counted and asked
//! against the association's lifetime by itself, as if it went alone.

use ipsec::slot::{self, Frame};
use sadb::{OutboundSa, OutboundSad, SaIndex};
use wire::ip::Headers;
use wire::plain::Plain;
use wire::stage::{Inner, Scheduled};
use wire::{AppId, Burst, BurstMeta, DropReason, Flow, Meta, Packet, Pool, burst, segment};

use super::outcome::{Outcome, end};
use crate::fit::Fit;
use crate::tally::{About, Dropped, Tally};

/// The length of the longest packet that is copied to go with others, in octets. A longer one (there are few:
/// super-packets are cut) is sealed where it lies.
pub(super) const LONGEST_COPY: usize = 2048;

/// The length of the longest piece of a super-packet that goes with others, in octets: several of them must fit one
/// burst.
const LONGEST_PIECE: usize = 16 * 1024;

/// The parts of an outbound half that work on a packet.
pub(super) struct Hands<'a> {
    pub sad: &'a mut OutboundSad,
    pub tally: &'a mut Tally,
    pub pool: &'a mut Pool,
    pub out: &'a mut Vec<Outcome>,
}

/// The burst that is being built, if there is one.
#[derive(Default)]
pub(super) struct Gather {
    open: Option<Open>,
    /// The rule that decided about the packet that was taken last. A burst does not say it of each of its packets.
    last_rule: u32,
}

struct Open {
    index: SaIndex,
    app: AppId,
    /// The frame of the first packet.
    frame: Frame,
    burst: Burst<Scheduled>,
    /// The number of its datagrams that are sealed.
    sealed: usize,
    /// The number of octets in its inner packets.
    inner: u64,
    /// The longest inner packet without options that the association carries, in octets.
    mtu: usize,
}

impl Open {
    /// Seal the datagrams that are not sealed yet.
    fn seal(&mut self, sa: &OutboundSa) -> Result<(), DropReason> {
        let first = self.burst.meta.sequence + self.sealed as u64;
        slot::seal(sa, first, self.burst.datagrams_mut().skip(self.sealed))?;
        self.sealed = self.burst.count();
        Ok(())
    }
}

impl Gather {
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
    pub(super) fn append(&mut self, packet: &Packet<Inner>, plain: &Plain, hands: &mut Hands<'_>) {
        let Some(Open { index, frame, .. }) = self.open else { return };
        let (meta, bytes) = (&packet.meta, packet.bytes());
        let write = |slot: &mut [u8]| slot.get_mut(..bytes.len()).map(|slot| slot.copy_from_slice(bytes));
        self.piece(index, &frame, meta, bytes.len(), bytes.len(), || plain.flow(true), hands, write);
    }

    /// The frame for the datagrams of this packet; `None` if it is to go alone.
    #[inline]
    pub(super) fn frame(
        &self,
        sa: &OutboundSa,
        packet: &Packet<Inner>,
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
    #[expect(clippy::too_many_arguments, reason = "a packet, what is known of it, and the hands")]
    pub(super) fn take(
        &mut self,
        index: SaIndex,
        frame: &Frame,
        packet: Packet<Inner>,
        headers: &Headers,
        fit: Fit,
        flow: &Flow,
        hands: &mut Hands<'_>,
    ) {
        let (meta, bytes) = (&packet.meta, packet.bytes());
        match fit {
            Fit::Whole => {
                let body = bytes.get(frame.left_out()..).unwrap_or_default();
                let write =
                    |slot: &mut [u8]| slot.get_mut(..body.len()).map(|slot| slot.copy_from_slice(body));
                self.piece(index, frame, meta, bytes.len(), bytes.len(), || *flow, hands, write);
            }
            // There is no frame for it.
            Fit::Fragments(_) => {
                return end(hands.tally, packet, DropReason::TooLong, Some(flow), hands.pool, hands.out);
            }
            Fit::Cut(longest) => {
                let mut pieces = match segment::segments(bytes, headers, &meta.gso, longest) {
                    Ok(pieces) => pieces,
                    Err(error) => {
                        return end(hands.tally, packet, error.into(), Some(flow), hands.pool, hands.out);
                    }
                };
                let longest = pieces.segment_len();
                while let Some(len) = pieces.next_len() {
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
                    self.piece(index, frame, meta, len, longest, || *flow, hands, write);
                    if !written {
                        pieces.pass();
                    }
                }
            }
        }
        hands.pool.put(packet.into_buf());
    }

    /// Add one packet of `len` octets, which `write` writes, among others of at most `longest` octets.
    #[expect(clippy::too_many_arguments, reason = "a piece, what is known of its packet, and the hands")]
    #[inline]
    fn piece(
        &mut self,
        index: SaIndex,
        frame: &Frame,
        meta: &Meta,
        len: usize,
        longest: usize,
        flow: impl FnOnce() -> Flow,
        hands: &mut Hands<'_>,
        write: impl FnOnce(&mut [u8]) -> Option<()>,
    ) {
        if let Err(reason) = self.put(index, frame, meta, len, longest, hands, write) {
            refuse(index, meta, len, reason, &flow(), hands);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "as above")]
    #[inline]
    fn put(
        &mut self,
        index: SaIndex,
        frame: &Frame,
        meta: &Meta,
        len: usize,
        longest: usize,
        hands: &mut Hands<'_>,
        write: impl FnOnce(&mut [u8]) -> Option<()>,
    ) -> Result<(), DropReason> {
        let slot_len = frame.slot_len(len);
        let belongs = self.open.as_ref().is_some_and(|open| {
            open.index == index
                && open.app == meta.app
                && open.frame.joins(frame)
                && open.burst.header.may_fragment == meta.may_fragment
                && open.burst.takes(slot_len)
        });
        if !belongs {
            self.close(hands);
            self.begin(index, frame, meta, longest, hands)?;
        }
        let (Some(open), Some(sa)) = (&mut self.open, hands.sad.get_mut(index)) else {
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
            self.close(hands);
            return Err(DropReason::NoRoom);
        }
        sa.counters.carried(now, len);
        self.last_rule = meta.rule;
        open.inner += len as u64;
        if open.burst.is_full() {
            self.close(hands);
        } else if open.burst.count() - open.sealed >= slot::BATCH
            && let Err(reason) = open.seal(sa)
        {
            self.discard(reason, hands);
        }
        Ok(())
    }

    fn begin(
        &mut self,
        index: SaIndex,
        frame: &Frame,
        meta: &Meta,
        longest: usize,
        hands: &mut Hands<'_>,
    ) -> Result<(), DropReason> {
        let sa = hands.sad.get(index).ok_or(DropReason::NoSa)?;
        let outer = frame.outer(sa, meta.may_fragment);
        let room = if outer.dst.is_ipv4() { burst::MAX_LEN_V4 } else { burst::MAX_LEN_V6 };
        if frame.slot_len(longest) > room {
            return Err(DropReason::TooLong);
        }
        let burst = Burst::begin(hands.pool.take(), outer, frame.slot_len(longest));
        let mut burst = burst.ok_or(DropReason::NoRoom)?;
        burst.meta =
            BurstMeta { received: meta.received, spi: sa.spi().0, app: meta.app, ..BurstMeta::default() };
        let mtu = ipsec::inner_mtu(sa.config());
        self.open = Some(Open { index, app: meta.app, frame: *frame, burst, sealed: 0, inner: 0, mtu });
        Ok(())
    }

    /// Seal and send what was gathered.
    #[inline]
    pub(super) fn close(&mut self, hands: &mut Hands<'_>) {
        let Some(open) = &mut self.open else { return };
        let sealed = match hands.sad.get(open.index) {
            Some(sa) => open.seal(sa).map(|()| sa.config().services()),
            None => Err(DropReason::NoSa),
        };
        let services = match sealed {
            Ok(services) => services,
            Err(reason) => return self.discard(reason, hands),
        };
        let Some(Open { mut burst, inner, app, .. }) = self.open.take() else { return };
        if burst.is_empty() {
            return hands.pool.put(burst.into_buf());
        }
        burst.meta.inner_len = inner as u32;
        hands.tally.left(app, services, burst.count() as u64, inner);
        hands.out.push(Outcome::Burst(burst.advance()));
    }

    /// Drop the burst, since it could not be sealed and nothing of it may leave.
    #[cold]
    fn discard(&mut self, reason: DropReason, hands: &mut Hands<'_>) {
        let Some(Open { index, burst, .. }) = self.open.take() else { return };
        for _ in 0..burst.count() {
            if let Some(sa) = hands.sad.get_mut(index) {
                sa.counters.dropped(reason);
            }
        }
        hands.tally.lost(reason, burst.count() as u64);
        hands.pool.put(burst.into_buf());
    }
}

#[cold]
fn refuse(index: SaIndex, meta: &Meta, len: usize, reason: DropReason, flow: &Flow, hands: &mut Hands<'_>) {
    let mut about = About::of(meta);
    if let Some(sa) = hands.sad.get_mut(index) {
        sa.counters.dropped(reason);
        about.spi = sa.spi().0;
    }
    let dropped = Dropped::new(reason, &about, len, Some(flow));
    hands.tally.dropped(dropped);
    hands.out.push(Outcome::Drop(dropped));
}
