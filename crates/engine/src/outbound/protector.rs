//! Stages 5 and 6: who carries a decision out.
//!
//! What enters: a packet at the stage [`Scheduled`] with the association that the [`Decider`](super::decider::Decider)
//! chose. What leaves: outer packets, alone or in bursts, and drops. The outbound associations belong to the
//! [`Protector`]: it takes their sequence numbers and counts for their lifetimes. Deciding borrows them.

mod bundle;
mod bundled_packet;
mod fit;
mod gather;
mod later;
mod mss;
mod originated;
mod path_mtu;
mod pieces;
mod probes;
mod timers;

use bundle::BundleParts;
use bundled_packet::BundleProgress;
use ipsec::{Codec, SealProof, slot};
use sadb::{Chain, OutboundSa, OutboundSad, SaIndex};
use wire::ip::Headers;
use wire::plain::Plain;
use wire::stage::{Inner, Scheduled};
use wire::{DropReason, Flow, Packet, SegmentPosition, Services, Time, segment};

use super::outcome::{Outcome, reply};
use crate::answers::Answers;
use crate::cx::Cx;
use crate::icmp::IcmpLimits;
use crate::probes::Orders;
use crate::seam::{self, Turn};
use crate::stats::About;
use fit::Fit;
use gather::Gather;
use pieces::PacketFit;
use timers::Timers;

pub(super) use bundled_packet::BundledPacket;
pub(super) use gather::LONGEST_COPY;
pub(super) use later::SealTask;
pub use later::SealWork;
pub(super) use pieces::{clear, cut_again};
pub use timers::Timeout;

/// The reason why a packet does not go through, the octets of the longest one that does, and the services that an
/// answer to its sender has.
pub(super) type Unfit = (DropReason, usize, Services);

/// What became of a super-packet of which some pieces were to be protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Pieces are left, from this place on.
    More(SegmentPosition),
    /// Each of its pieces has gone.
    Done,
    /// Nothing was done: it goes through whole, or in a way that does not stop between pieces.
    Whole,
}

/// The state that protects outbound packets.
pub(super) struct Protector {
    sad: OutboundSad,
    /// The burst that is built; `None`: every packet leaves by itself, at once.
    gather: Option<Gather>,
    /// The compression state for bundles that compress.
    codec: Codec,
    icmp_limits: IcmpLimits,
    answers: Answers,
    timers: Timers,
    orders: Orders,
    /// Whether the cipher's part of what comes is left to a unit that answers later.
    is_later: bool,
    /// What is left to it.
    tasks: Vec<SealTask>,
    /// What the graph knows of the packet that comes next, which stops between the members of its bundle to wait for its
    /// turn with each. `None`: it goes through all of them at once.
    stops_between: Option<qos::Meta>,
    /// The packets that stopped so since they were taken last.
    bundled: Vec<BundledPacket>,
}

impl Protector {
    /// A protector without associations. `seed` is random.
    pub(super) fn new(seed: u64) -> Protector {
        Protector {
            sad: OutboundSad::new(seed),
            gather: None,
            codec: Codec::default(),
            icmp_limits: IcmpLimits::default(),
            answers: Answers::new(seed.rotate_left(17)),
            timers: Timers::new(seed),
            orders: Orders::default(),
            is_later: false,
            tasks: Vec::new(),
            stops_between: None,
            bundled: Vec::new(),
        }
    }

    /// Build bursts from now on.
    pub(super) fn gather(&mut self) {
        self.gather = Some(Gather::default());
    }

    /// The associations, to decide by.
    #[inline]
    pub(super) fn sad(&self) -> &OutboundSad {
        &self.sad
    }

    /// The associations, to change them. An association that is added must be [watched](Protector::watch).
    #[inline]
    pub(super) fn sad_mut(&mut self) -> &mut OutboundSad {
        &mut self.sad
    }

    /// What is told to senders.
    pub(super) fn answers(&mut self) -> &mut Answers {
        &mut self.answers
    }

    /// Whether one more sender may be told that its packet is refused.
    pub(super) fn may_refuse(&mut self, now: Time) -> bool {
        self.icmp_limits.may_refuse(now)
    }

    /// Let an association that was added send packets by itself.
    pub(super) fn watch(&mut self, index: SaIndex) {
        if let Some(sa) = self.sad.get(index) {
            self.timers.watch(index, sa);
        }
    }

    /// The time at which an association has something to send by itself, and the reason; `None`: never, as things are.
    pub(super) fn poll_timeout(&self) -> Option<(Time, Timeout)> {
        self.timers.poll()
    }

    /// Send the keepalives and dummy packets that are due.
    pub(super) fn handle_timeout(&mut self, now: Time, cx: &mut Cx<'_, Outcome>) {
        if self.timers.poll().is_none_or(|(next, _)| now < next) {
            return;
        }
        // What was gathered has its sequence numbers already.
        self.flush(cx);
        self.timers.send_due(now, &mut self.sad, cx);
    }

    /// Send what was gathered.
    #[inline]
    pub(super) fn flush(&mut self, cx: &mut Cx<'_, Outcome>) {
        if let Some(gather) = &mut self.gather {
            gather.close(&mut self.sad, cx);
        }
    }

    /// Leave the cipher's part of what comes to a unit that answers later, or to none.
    #[inline]
    pub(super) fn leave_to_unit(&mut self, is_later: bool, cx: &mut Cx<'_, Outcome>) {
        if self.is_later != is_later {
            self.flush(cx);
            self.is_later = is_later;
            if let Some(gather) = &mut self.gather {
                gather.leave_to_unit(is_later);
            }
        }
    }

    /// Whether the cipher's part of what comes is left to a unit.
    #[inline]
    pub(super) fn is_left_to_unit(&self) -> bool {
        self.is_later
    }

    /// Have packets of bundles, of which the graph knows this, stop between their members from now on. `None`: have them
    /// go through all members at once.
    #[inline]
    pub(super) fn stop_between_members(&mut self, known: Option<qos::Meta>) {
        self.stops_between = known;
    }

    /// The packets that stopped between two members since the last call, in their order. The list is given back by
    /// [`Protector::keep_list`].
    pub(super) fn take_bundled(&mut self) -> Vec<BundledPacket> {
        std::mem::take(&mut self.bundled)
    }

    /// Put further packets that stop between two members into this empty list.
    pub(super) fn keep_list(&mut self, empty: Vec<BundledPacket>) {
        self.bundled = empty;
    }

    /// Whether packets have stopped between two members.
    #[inline]
    pub(super) fn has_bundled(&self) -> bool {
        !self.bundled.is_empty()
    }

    /// The association whose cryptography comes first for packets of this one: itself, or a later member if the first ones
    /// of its bundle have no key.
    #[inline]
    pub(super) fn keyed<'s>(&'s self, sa: &'s OutboundSa) -> &'s OutboundSa {
        match sa.config().options.protocol.is_keyed() {
            true => sa,
            false => self.sad.bundle(sa).find(|sa| sa.config().options.protocol.is_keyed()).unwrap_or(sa),
        }
    }

    /// Seal a packet of a bundle by the member whose turn it is.
    #[cold]
    pub(super) fn go_on_with(&mut self, bundled: BundledPacket, turn: Turn, cx: &mut Cx<'_, Outcome>) {
        // What was gathered has its numbers already, and what is left to a unit stays in its order.
        self.flush(cx);
        self.keep_order();
        let tasks = self.is_later.then_some(&mut self.tasks);
        let stops = self.stops_between;
        let mut parts = BundleParts { sad: &mut self.sad, codec: &mut self.codec, tasks, stops };
        self.bundled.extend(bundle::go_on(&mut parts, bundled, turn, cx));
    }

    /// Take the bursts that are left to a unit into the tasks, so that what follows stays behind them.
    fn keep_order(&mut self) {
        if let Some(gather) = self.gather.as_mut().filter(|_| self.is_later) {
            self.tasks.extend(gather.tasks().drain(..).map(SealTask::Burst));
        }
    }

    /// Take what was left to the unit since the last call, in its order, and put further tasks into this empty list.
    /// The burst that is open must be flushed.
    pub(super) fn take_tasks(&mut self, empty: Vec<SealTask>) -> Vec<SealTask> {
        let mut tasks = std::mem::replace(&mut self.tasks, empty);
        if let Some(gather) = &mut self.gather {
            tasks.extend(gather.tasks().drain(..).map(SealTask::Burst));
        }
        tasks
    }

    /// Stage 6 for what a unit has answered.
    pub(super) fn finish(&mut self, task: SealTask, cx: &mut Cx<'_, Outcome>) {
        task.finish(&mut self.sad, &mut self.bundled, cx);
    }

    /// The rule that decided about the packet that was gathered last.
    pub(super) fn gathered_rule(&self) -> u32 {
        self.gather.as_ref().map_or(0, Gather::last_rule)
    }

    /// Whether the fast path leaves out no stage that this protector has. Each field stands here with the reason why it
    /// may be left out, so that a new one does not compile until somebody has given a reason.
    #[inline]
    pub(super) fn may_use_fast_path(&self) -> bool {
        let Protector {
            // The fast path has the burst that is built.
            gather,
            // The epoch of the route cache says that associations are as they were.
            sad: _,
            // An association in a bundle has no open burst, and no packet goes alone in one.
            codec: _,
            // What does not fit is not taken, so it is not answered.
            answers: _,
            // A plain packet is TCP or UDP, never an ICMP error.
            icmp_limits: _,
            // Timers and orders send packets of their own.
            timers: _,
            orders: _,
            // Without a graph nothing is left to units, and nothing stops between members.
            is_later: _,
            tasks: _,
            stops_between: _,
            bundled: _,
        } = self;
        gather.is_some()
    }

    /// The association whose burst is open, if this packet, which has the mark of its flow, fits it as it is.
    #[inline]
    pub(super) fn open_for(&self, plain: &Plain) -> Option<SaIndex> {
        self.gather.as_ref()?.takes(plain)
    }

    /// Add a packet to the burst that is [open for](Protector::open_for) it.
    #[inline]
    pub(super) fn append<S>(
        &mut self,
        packet: &Packet<S>,
        plain: &Plain,
        turn: Turn,
        cx: &mut Cx<'_, Outcome>,
    ) {
        if let Some(gather) = &mut self.gather {
            gather.append(packet, plain, turn, &mut self.sad, cx);
        }
    }

    /// Seal a plain packet that is too long for a copy where it lies. `None`: the packet is as it was.
    ///
    /// # Errors
    /// The reason for which the packet ends, which its association has counted. Nothing of it may leave.
    #[inline]
    pub(super) fn seal_large_packet(
        &mut self,
        index: SaIndex,
        plain: &Plain,
        packet: &mut Packet<Inner>,
        turn: Turn,
        cx: &mut Cx<'_, Outcome>,
    ) -> Option<Result<SealProof, DropReason>> {
        if !self.sad.chain(index).is_ok_and(|chain| chain.is_single()) {
            return None;
        }
        let fits = |sa: &OutboundSa| ipsec::takes_large_packet(sa, plain);
        if !self.sad.get(index).is_some_and(fits) {
            return None;
        }
        // It must not overtake what was before it.
        self.flush(cx);
        let (app, need) = (packet.meta.app, packet.meta.services);
        let sa = self.sad.get_mut(index)?;
        // Where it cannot be begun, the stages find the same reason, and tell it.
        let sealed = ipsec::seal_large_packet(sa, plain, packet, &turn)?;
        if sealed.is_ok() {
            cx.stats.left(app, sa.config().services(), need, 1, plain.total_len as u64);
        }
        Some(sealed)
    }

    /// Stages 5 and 6 for one packet.
    #[inline]
    pub(super) fn protect(
        &mut self,
        index: SaIndex,
        mut packet: Packet<Scheduled>,
        headers: &Headers,
        flow: &Flow,
        cx: &mut Cx<'_, Outcome>,
    ) {
        let known = match &self.gather {
            Some(gather) if !headers.has_options => gather.mtu(index),
            _ => None,
        };
        if known.is_none() {
            match self.sad.chain(index) {
                Ok(chain) if chain.is_single() => {}
                Ok(chain) => return self.protect_by_bundle(&chain, packet, headers, flow, cx),
                Err(reason) => return cx.discard(packet, reason, Some(flow)),
            }
        }
        let Some(sa) = self.sad.get_mut(index) else {
            return cx.discard(packet, DropReason::NoSa, Some(flow));
        };
        let mtu = match known {
            Some(mtu) => mtu,
            None if headers.has_options => {
                ipsec::bundle_mtu(&[sa.config()], ipsec::own_header(packet.bytes()))
            }
            None => ipsec::inner_mtu(sa.config()),
        };
        mss::clamp(&mut packet, headers, mtu);
        let fit = fit::tunnel(&mut packet, headers, mtu, sa.config());
        if let (Some(gather), Ok(fit)) = (&mut self.gather, fit) {
            let serves = known.is_some() || slot::serves(sa.config());
            let frame = if serves { gather.frame(sa, &packet, headers, fit) } else { None };
            if let Some(frame) = frame {
                let fitted = PacketFit { headers, fit, flow };
                return gather.take(index, &frame, packet, &fitted, &mut self.sad, cx);
            }
            // It must not overtake what was before it.
            gather.close(&mut self.sad, cx);
        }
        self.keep_order();
        let Some(sa) = self.sad.get_mut(index) else {
            return cx.discard(packet, DropReason::NoSa, Some(flow));
        };
        let (is_later, tasks) = (self.is_later, &mut self.tasks);
        match fit {
            Ok(fit) => pieces::cut(packet, &PacketFit { headers, fit, flow }, cx, |piece, cx| {
                if is_later {
                    later::prepare((index, sa), piece, flow, tasks, cx);
                } else {
                    seal(sa, piece, flow, cx);
                }
            }),
            Err(reason) => {
                packet.meta.spi = sa.spi().0;
                let services = sa.config().services();
                self.end_unfit(packet, headers, (reason, mtu, services), flow, cx);
            }
        }
    }

    /// Stage 5 for a packet that is to wait for its turn: the number of pieces in which it will leave.
    ///
    /// # Errors
    /// The reason why it does not go through, as [`Protector::end_unfit`] wants it.
    #[inline]
    pub(super) fn measure<S>(
        &self,
        index: SaIndex,
        packet: &mut Packet<S>,
        headers: &Headers,
    ) -> Result<usize, Unfit> {
        let services = packet.meta.services;
        let chain = self.sad.chain(index).map_err(|reason| (reason, 0, services))?;
        let (mtu, fit, services) = if chain.is_single() {
            let sa = self.sad.get(index).ok_or((DropReason::NoSa, 0, services))?;
            packet.meta.spi = sa.spi().0;
            let config = sa.config();
            let mtu = match headers.has_options {
                true => ipsec::bundle_mtu(&[config], ipsec::own_header(packet.bytes())),
                false => ipsec::inner_mtu(config),
            };
            mss::clamp(packet, headers, mtu);
            (mtu, fit::tunnel(packet, headers, mtu, config), config.services())
        } else {
            let fitted = bundle::fit(&self.sad, &chain, packet, headers);
            let (mtu, fit) = fitted.map_err(|reason| (reason, 0, services))?;
            (mtu, fit, services)
        };
        match fit.map_err(|reason| (reason, mtu, services))? {
            Fit::Whole => Ok(1),
            Fit::Fragments(longest) => Ok(packet.bytes().len().div_ceil(longest.max(1))),
            Fit::Cut(longest) => {
                let pieces = segment::segments(packet.bytes(), headers, &packet.meta.gso, longest);
                pieces.map(|pieces| pieces.remaining()).map_err(|error| (error.into(), mtu, services))
            }
        }
    }

    /// Stages 5 and 6 for pieces of a super-packet: so many at most, from this place on.
    #[allow(
        clippy::too_many_arguments,
        reason = "a packet, what is known of it, and what is lent for the call"
    )]
    pub(super) fn protect_pieces<S>(
        &mut self,
        index: SaIndex,
        packet: &mut Packet<S>,
        headers: &Headers,
        flow: &Flow,
        pieces: (SegmentPosition, usize),
        turn: Turn,
        cx: &mut Cx<'_, Outcome>,
    ) -> Progress {
        let is_single = self.sad.chain(index).is_ok_and(|chain| chain.is_single());
        let (Some(gather), Some(sa)) = (&mut self.gather, self.sad.get(index)) else {
            return Progress::Whole;
        };
        if !is_single || headers.has_options || !slot::serves(sa.config()) {
            return Progress::Whole;
        }
        let fit = fit::tunnel(packet, headers, ipsec::inner_mtu(sa.config()), sa.config());
        let Ok(fit @ Fit::Cut(_)) = fit else { return Progress::Whole };
        let Some(frame) = gather.frame(sa, packet, headers, fit) else { return Progress::Whole };
        let fitted = PacketFit { headers, fit, flow };
        match gather.pieces(index, &frame, packet, &fitted, pieces, turn, &mut self.sad, cx) {
            Ok(None) => Progress::Done,
            Ok(Some(place)) => Progress::More(place),
            // It was measured before: it goes the way of all packets, and ends there with its reason.
            Err(_) => Progress::Whole,
        }
    }

    /// Stages 5 and 6 for a bundle.
    #[cold]
    fn protect_by_bundle(
        &mut self,
        chain: &Chain,
        mut packet: Packet<Scheduled>,
        headers: &Headers,
        flow: &Flow,
        cx: &mut Cx<'_, Outcome>,
    ) {
        let (mtu, fit) = match bundle::fit(&self.sad, chain, &mut packet, headers) {
            Ok(found) => found,
            Err(reason) => return cx.discard(packet, reason, Some(flow)),
        };
        // It must not overtake what was before it.
        self.flush(cx);
        self.keep_order();
        let Protector { sad, codec, tasks, is_later, stops_between, bundled, .. } = self;
        let mut parts = BundleParts { sad, codec, tasks: is_later.then_some(tasks), stops: *stops_between };
        let through = |packet: Packet<Scheduled>, cx: &mut Cx<'_, Outcome>| {
            let progress = BundleProgress::start(chain, &packet, flow, parts.stops);
            let turn = seam::turn_of(&packet);
            bundled.extend(bundle::seal(&mut parts, packet, progress, turn, cx));
        };
        match fit {
            Ok(fit) => pieces::cut(packet, &PacketFit { headers, fit, flow }, cx, through),
            Err(reason) => {
                let services = packet.meta.services;
                self.end_unfit(packet, headers, (reason, mtu, services), flow, cx);
            }
        }
    }

    /// End a packet that does not go through, and tell its sender if that is since it is too long for `mtu` octets. The
    /// answer has the mark of these services.
    #[cold]
    pub(super) fn end_unfit<S>(
        &mut self,
        packet: Packet<S>,
        headers: &Headers,
        (reason, mtu, services): Unfit,
        flow: &Flow,
        cx: &mut Cx<'_, Outcome>,
    ) {
        if reason == DropReason::TooBig
            && let Some(error) = self.answers.too_big(&packet.meta, packet.bytes(), headers, mtu)
        {
            cx.stats.replies.count(error.len());
            cx.out.push(reply(error, &packet.meta, services));
        }
        cx.discard(packet, reason, Some(flow));
    }
}

/// Stage 6 for one packet that fits.
#[inline]
fn seal(sa: &mut OutboundSa, packet: Packet<Scheduled>, flow: &Flow, cx: &mut Cx<'_, Outcome>) {
    let (about, need, len) = (About::of(&packet.meta), packet.meta.services, packet.bytes().len());
    let outer = ipsec::encap(sa, packet, cx.pool);
    later::leave(sa, outer, (&about, need, len), flow, cx);
}
