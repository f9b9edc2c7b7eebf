//! Stages 2 to 8 for a burst: datagrams that one system call received, opened where they lie.
//!
//! The association is found, and its peer compared, once for each run of datagrams with one SPI. A burst with anything
//! but ESP of associations that [`slot::opens_with`] accepts goes through the stages packet by packet.

use std::net::IpAddr;
use std::ops::Range;

use ipsec::slot::{self, Opened};
use sadb::{InboundSa, SaName, Spi};
use wire::burst::MAX_DATAGRAMS;
use wire::esp::{self, Esp, UdpPayload};
use wire::ip::{self, Headers};
use wire::plain::Plain;
use wire::stage::{Classed, Clean, Inner, Raw, Scheduled};
use wire::{
    AppId, Burst, DropReason, Evidence, Flow, Meta, Packet, Pool, Reassembler, ScrubId, Services, Time,
    protocol,
};

use super::permit::Permit;
use super::{Delivery, Inbound, InboundOutcome, Parts, Stages, admit, check_selectors, join_inner};
use crate::cx::Cx;
use crate::nest::Members;
use crate::quoted::InnerIcmp;
use crate::scrubbing::Scrubbing;
use crate::seam::{self, Turn};
use crate::stats::{About, Dropped, Stats};

/// The length of the checksum, the last field of a UDP header, in octets.
const CHECKSUM_LEN: usize = 2;

/// A run of datagrams with one SPI, one behind the other.
#[derive(Clone, Copy, Default)]
pub(super) struct Run {
    pub(super) spi: u32,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// The runs of a burst. There are no more than there may be datagrams.
pub(super) struct Runs {
    list: [Run; MAX_DATAGRAMS],
    count: usize,
    /// The number of octets that one of them needs in front of each datagram.
    lead: usize,
}

/// The association of each run was looked for, and datagrams without one are refused where they lie.
impl Evidence<Clean, Classed> for Runs {}

impl Runs {
    /// Count the next datagram, of this SPI, to the last run; `false` if it begins a new one.
    #[inline]
    fn goes_on(&mut self, spi: u32) -> bool {
        let last = self.count.checked_sub(1).and_then(|last| self.list.get_mut(last));
        match last.filter(|run| run.spi == spi) {
            Some(run) => {
                run.to += 1;
                true
            }
            None => false,
        }
    }

    /// Begin a run with the next datagram; `None` if there are too many.
    fn begin(&mut self, spi: u32) -> Option<()> {
        let from = self.iter().last().map_or(0, |run| run.to);
        *self.list.get_mut(self.count)? = Run { spi, from, to: from + 1 };
        self.count += 1;
        Some(())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Run> {
        self.list().iter()
    }

    #[inline]
    fn list(&self) -> &[Run] {
        self.list.get(..self.count).unwrap_or_default()
    }

    /// Whether all datagrams are of one association.
    pub(super) fn is_single(&self) -> bool {
        self.count == 1
    }

    /// The number of octets that are to be free in front of each datagram.
    pub(super) fn lead(&self) -> usize {
        self.lead
    }
}

/// The facts that all packets of a run have in common.
struct Common {
    now: Time,
    spi: u32,
    app: AppId,
    services: Services,
    mark: u32,
    /// The type of service of the outer header.
    tos: u8,
    outer: (IpAddr, IpAddr),
}

impl Common {
    fn meta(&self, sequence: u64) -> Meta {
        let Common { now, spi, app, services, tos, .. } = *self;
        Meta { received: now, spi, app, services, sequence, tos, ..Meta::default() }
    }

    fn about(&self, sequence: u64) -> About {
        let outer = Some(self.outer);
        About { at: self.now, app: self.app, spi: self.spi, sequence, outer, ..About::default() }
    }
}

impl Inbound {
    /// Take a received burst all the way. Packets for the host are added to `delivery`; those that end are in the
    /// stats. Buffers come from `pool` and go back to it. The buffer of the burst goes back through [`Delivery::clear`]
    /// if a packet in it is for the host.
    pub fn handle_burst(&mut self, now: Time, burst: Burst<Raw>, pool: &mut Pool, delivery: &mut Delivery) {
        let Inbound { stages, stats, events, singly } = self;
        debug_assert!(stages.queues.is_none(), "with a graph, bursts come by `receive_burst`");
        let mut cx = Cx { pool, out: singly, stats, events };
        stages.take_burst(now, burst, Turn::at_once(), &mut cx, delivery);
    }
}

impl Stages {
    /// Stages 2 to 9 for a burst that has this turn.
    #[inline]
    pub(super) fn take_burst(
        &mut self,
        now: Time,
        burst: Burst<Raw>,
        turn: Turn,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let mut open = |stages: &mut Stages, packet, cx: &mut Cx<'_, InboundOutcome>| {
            stages.whole(packet, |stages, packet, headers, cx| stages.open(packet, headers, turn, cx), cx);
        };
        let Some(runs) = self.runs(&burst) else {
            return self.singly(now, burst, &mut open, cx, delivery);
        };
        match burst.spread(runs.lead, cx.pool) {
            Ok(burst) => self.open_burst(now, burst, (&runs, turn), cx, delivery),
            Err(burst) => self.singly(now, burst, &mut open, cx, delivery),
        }
    }

    /// Whether a burst of this engine may be opened as a whole: the fast path leaves out no stage that this engine has.
    /// Each field stands here with the reason why it may be left out, so that a new stage does not compile until
    /// somebody has given one.
    #[inline]
    fn may_use_fast_path(&self) -> bool {
        let Stages {
            // Entries are looked up packet by packet.
            entries,
            // Associations that rules look at are asked for in `runs`, one by one.
            rules: _,
            sad: _,
            // The port is compared in `runs`.
            port: _,
            // `Admission` has these, and does with each packet what the stages do.
            members: _,
            icmp: _,
            inner_fragments: _,
            scrubbing: _,
            members_waiting: _,
            // A burst is of datagrams whose outer headers are whole, without options or fragments, and which nobody
            // passes on (docs/scrubbed-flows.md): what else arrives in frames comes as single packets.
            outer_fragments: _,
            outer_scrubber: _,
            tunnels_from: _,
            // Who has a graph calls `Inbound::receive_burst`, where bursts wait as a whole.
            queues: _,
            // Only what waits in a graph is there.
            nested: _,
        } = self;
        entries.is_none()
    }

    /// The runs of a burst; `None` if it is to be taken packet by packet.
    #[inline]
    pub(super) fn runs(&self, burst: &Burst<Raw>) -> Option<Runs> {
        if !self.may_use_fast_path()
            || burst.header.dst_port != self.port
            || burst.bytes().is_empty()
            || burst.count() > MAX_DATAGRAMS
        {
            return None;
        }
        let mut runs = Runs { list: [Run::default(); MAX_DATAGRAMS], count: 0, lead: 0 };
        for datagram in burst.datagrams() {
            if esp::classify(datagram) != UdpPayload::Esp {
                return None;
            }
            let spi = Esp::new_checked(datagram).ok()?.spi();
            if runs.goes_on(spi) {
                continue;
            }
            // Rules look at whole packets.
            let ruled = |sa: &InboundSa| self.rules.is_some() && sa.config().selectors.app.is_none();
            // A peer in another place is noticed packet by packet.
            let (src, port) = (burst.header.src, burst.header.src_port);
            if let Some(sa) = self.sad.find(Spi(spi), src, burst.header.dst) {
                runs.lead = runs.lead.max(slot::opens_with(sa.config())?);
                if ruled(sa) || !sa.is_settled(src, port) {
                    return None;
                }
            }
            runs.begin(spi)?;
        }
        Some(runs)
    }

    #[inline]
    fn open_burst(
        &mut self,
        now: Time,
        burst: Burst<Raw>,
        (runs, turn): (&Runs, Turn),
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let mut opened = [Opened::NONE; MAX_DATAGRAMS];
        let header = burst.header;
        let burst: Burst<Clean> = burst.advance(&header);
        let mut burst = seam::schedule_burst(burst.advance(runs), turn);
        for run in runs.iter() {
            self.open_run(now, &mut burst, run, opened.get_mut(run.from..run.to).unwrap_or_default());
        }
        self.admit_burst(now, burst, runs.list(), &opened, cx, delivery);
    }

    /// Stages 5 to 8 for a burst, of whose datagrams each was opened, or ended with the reason that stands here.
    #[inline]
    pub(super) fn admit_burst(
        &mut self,
        now: Time,
        burst: Burst<Scheduled>,
        runs: &[Run],
        opened: &[Opened],
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let burst: Burst<Inner> = burst.advance(&slot::restored(opened));
        let before = delivery.len();
        for run in runs {
            let opened = opened.get(run.from..run.to).unwrap_or_default();
            self.admit_run(now, &burst, (run, opened), cx, delivery);
        }
        if delivery.len() > before {
            // Each of its packets that the host is given was admitted by itself.
            delivery.push_burst(burst.advance(&Permit::granted()));
        } else {
            cx.pool.put(burst.into_buf());
        }
    }

    /// Stages 3 and 4 for one run.
    #[inline]
    fn open_run(&mut self, now: Time, burst: &mut Burst<Scheduled>, run: &Run, opened: &mut [Opened]) {
        let (header, stride, lead, len) = (burst.header, burst.stride(), burst.lead(), burst.bytes().len());
        let octets = run.from * stride..len.min(run.to * stride);
        let datagrams = burst.bytes_mut().get_mut(octets).unwrap_or_default();
        let reason = match self.sad.find_mut(Spi(run.spi), header.src, header.dst) {
            Some(sa) if sa.is_peer(header.src, header.dst, None) => {
                return slot::open(sa, now, &header, datagrams, (stride, lead), opened);
            }
            Some(sa) => {
                opened.iter().for_each(|_| sa.counters.dropped(DropReason::WrongPeer));
                DropReason::WrongPeer
            }
            None => super::unknown(run.spi),
        };
        for (datagram, opened) in datagrams.chunks(stride).zip(opened) {
            *opened = Opened::refused(datagram.get(lead..).unwrap_or_default(), reason);
        }
    }

    /// End datagrams of one SPI that are not opened.
    #[cold]
    pub(super) fn refuse<S>(
        &mut self,
        now: Time,
        burst: &Burst<S>,
        run: Run,
        reason: DropReason,
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let header = &burst.header;
        let about =
            About { at: now, spi: run.spi, outer: Some((header.src, header.dst)), ..About::default() };
        for datagram in burst.datagrams().skip(run.from).take(run.to - run.from) {
            let about = About { sequence: Opened::refused(datagram, reason).sequence, ..about };
            let dropped = Dropped::new(reason, &about, header.len() + datagram.len(), None);
            cx.stats.dropped(dropped);
            delivery.ended(&dropped);
        }
    }

    /// Stages 5 to 8 for one run.
    #[inline]
    fn admit_run(
        &mut self,
        now: Time,
        burst: &Burst<Inner>,
        (run, opened): (&Run, &[Opened]),
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let Stages { sad, members, icmp, inner_fragments, members_waiting, scrubbing, .. } = self;
        let header = &burst.header;
        let sa = sad.find_mut(Spi(run.spi), header.src, header.dst);
        let sa = sa.filter(|sa| sa.is_peer(header.src, header.dst, None));
        let (app, services) = match &sa {
            Some(sa) => (sa.config().selectors.app.unwrap_or_default(), sa.config().services()),
            None => (AppId::NONE, Services::NONE),
        };
        let mark = crate::mark(services, app);
        let outer = (header.src, header.dst);
        let common = Common { now, spi: run.spi, app, services, mark, tos: header.tos, outer };
        let mut admission = Admission {
            common,
            members,
            icmp,
            burst,
            fragments: inner_fragments,
            nested: members_waiting,
            scrubbing: scrubbing.as_deref_mut(),
            cx,
            delivery,
        };
        let name = sa.as_ref().map(|sa| sa.name());
        let mut sa = sa;
        let mut dummies = false;
        let mut datagrams = burst.datagrams().skip(run.from);
        for (index, opened) in opened.iter().enumerate() {
            let len = datagrams.next().map_or(0, |datagram| datagram.len().saturating_sub(burst.lead()));
            admission.delivery.at(run.from + index);
            match (opened.dropped, &mut sa) {
                (None, Some(sa)) => {
                    let at = (run.from + index) * burst.stride();
                    let octets = opened.octets();
                    admission.admit(sa, at + octets.start..at + octets.end, opened.sequence);
                }
                (reason, _) => {
                    // Without an association there is always a reason.
                    let reason = reason.unwrap_or(DropReason::UnknownSpi);
                    dummies |= reason == DropReason::EspDummy;
                    admission.end(opened.sequence, reason, header.len() + len, None);
                }
            }
        }
        if dummies && let Some(sa) = sa {
            crate::probes::hear(now, sa, cx.events);
        }
        if !self.members_waiting.is_empty() {
            let name = name.unwrap_or(Spi(run.spi).into());
            self.nest_waiting(name, cx, delivery);
        }
    }

    /// Take the next rounds of bundles whose outermost member came in this run.
    #[cold]
    fn nest_waiting(&mut self, name: SaName, cx: &mut Cx<'_, InboundOutcome>, delivery: &mut Delivery) {
        let mut waiting = std::mem::take(&mut self.members_waiting);
        for (packet, headers) in waiting.drain(..) {
            self.nest(packet, headers, name, cx);
        }
        self.members_waiting = waiting;
        hand_over(cx.out, delivery);
    }

    /// Take a burst apart and do this with each of its packets, whose outer headers are whole.
    #[cold]
    pub(super) fn singly(
        &mut self,
        now: Time,
        burst: Burst<Raw>,
        mut each: impl FnMut(&mut Stages, Packet<Raw>, &mut Cx<'_, InboundOutcome>),
        cx: &mut Cx<'_, InboundOutcome>,
        delivery: &mut Delivery,
    ) {
        let (len, stride) = (burst.bytes().len(), burst.stride().max(1));
        let meta = Meta { received: now, tos: burst.header.tos, ..Meta::default() };
        let refuse = |stats: &mut Stats, delivery: &mut Delivery, reason, len| {
            let dropped = Dropped::new(reason, &About::of(&meta), burst.header.len() + len, None);
            stats.dropped(dropped);
            delivery.ended(&dropped);
        };
        if len == 0 {
            refuse(cx.stats, delivery, DropReason::NotEsp, 0);
        }
        for at in (0..len).step_by(stride) {
            let octets = at..len.min(at + stride);
            delivery.at(at / stride);
            let Some(mut packet) = burst.extract(octets.clone(), meta, cx.pool) else {
                refuse(cx.stats, delivery, DropReason::NoRoom, octets.len());
                continue;
            };
            match burst.header.push(packet.buf_mut()) {
                // The host's own stack, or the device, has read these headers; nothing is left of them. What was just
                // computed is not verified: without a checksum there is nothing to verify.
                Ok(()) => {
                    let end = burst.header.len();
                    if let Some(checksum) = packet.bytes_mut().get_mut(end - CHECKSUM_LEN..end) {
                        checksum.fill(0);
                    }
                    each(self, packet, cx);
                    hand_over(cx.out, delivery);
                }
                Err(error) => {
                    refuse(cx.stats, delivery, error.into(), octets.len());
                    cx.pool.put(packet.into_buf());
                }
            }
        }
        cx.pool.put(burst.into_buf());
    }
}

/// Add the results for packets that left their burst to what the host is given.
pub(super) fn hand_over(outcomes: &mut Vec<InboundOutcome>, delivery: &mut Delivery) {
    for outcome in outcomes.drain(..) {
        match outcome {
            InboundOutcome::Deliver(packet, mark) => delivery.push_packet(packet, mark),
            // It is in the stats.
            InboundOutcome::Drop(dropped) => delivery.ended(&dropped),
        }
    }
}

/// The state for the packets of a run on their way to the host.
struct Admission<'a, 'c> {
    common: Common,
    members: &'a Members,
    icmp: &'a InnerIcmp,
    burst: &'a Burst<Inner>,
    fragments: &'a mut Reassembler,
    /// The packets that are themselves packets of an association with this host.
    nested: &'a mut Vec<(Packet<Inner>, Headers)>,
    scrubbing: Option<&'a mut Scrubbing>,
    /// The context; its outcomes are those of packets that left the burst.
    cx: &'a mut Cx<'c, InboundOutcome>,
    delivery: &'a mut Delivery,
}

impl Admission<'_, '_> {
    /// Stages 5 to 8 for the packet at `octets`.
    #[inline]
    fn admit(&mut self, sa: &mut InboundSa, octets: Range<usize>, sequence: u64) {
        let bytes = self.burst.bytes().get(octets.clone()).unwrap_or_default();
        if self.is_scrubbed(sa, bytes) {
            return self.admit_alone(sa, octets, sequence);
        }
        if let Some(len) = self.admits_plainly(sa, bytes) {
            self.cx.stats.protected.count(len);
            let octets = octets.start..octets.start + len;
            let Admission { delivery, common, .. } = self;
            return delivery.push_octets(&octets, common.mark, || common.meta(sequence));
        }
        let parsed = Headers::parse(bytes);
        let headers = match &parsed {
            Ok(headers) => headers,
            Err(error) => return self.end(sequence, (*error).into(), bytes.len(), None),
        };
        if !ip::checksum_ok(bytes, headers) {
            sa.counters.dropped(DropReason::BadChecksum);
            return self.end(sequence, DropReason::BadChecksum, headers.total_len, None);
        }
        let octets = octets.start..octets.start + headers.total_len;
        if headers.fragment.is_some() {
            return self.join(sa, octets, sequence, headers);
        }
        let flow = ip::flow(bytes, headers, false);
        match check_selectors(sa, self.icmp, bytes, headers, &flow, self.members) {
            // `check_inner` says what it counts as.
            Ok(false) if self.common.services == Services::CUSTOM => self.admit_alone(sa, octets, sequence),
            Ok(false) => {
                self.cx.stats.protected.count(headers.total_len);
                let Admission { delivery, common, .. } = self;
                delivery.push_octets(&octets, common.mark, || common.meta(sequence));
            }
            Ok(true) => match self.burst.extract(octets, self.common.meta(sequence), self.cx.pool) {
                Some(packet) => self.nested.push((packet, *headers)),
                None => self.end(sequence, DropReason::NoRoom, headers.total_len, None),
            },
            Err(reason) => {
                sa.counters.dropped(reason);
                self.end(sequence, reason, headers.total_len, Some(&flow));
            }
        }
    }

    /// Whether the scrubber is to see the packet. It may have to see a fragment once that is whole.
    #[inline]
    fn is_scrubbed(&mut self, sa: &InboundSa, bytes: &[u8]) -> bool {
        let Some(scrubbing) = &mut self.scrubbing else { return false };
        let app = sa.config().selectors.app.unwrap_or_default();
        if let Some(plain) = Plain::read(bytes) {
            return scrubbing.profile(app, &plain.flow(false)) != ScrubId::NONE;
        }
        match Headers::parse(bytes) {
            Ok(headers) if headers.fragment.is_none() => {
                scrubbing.profile(app, &ip::flow(bytes, &headers, false)) != ScrubId::NONE
            }
            Ok(_) => scrubbing.is_needed(),
            Err(_) => false,
        }
    }

    /// Take the packet out of the burst, through stages 5 to 9 by itself.
    #[cold]
    fn admit_alone(&mut self, sa: &mut InboundSa, octets: Range<usize>, sequence: u64) {
        let len = octets.len();
        let meta = self.common.meta(sequence);
        let Some(packet) = self.burst.extract(octets, meta, self.cx.pool) else {
            return self.end(sequence, DropReason::NoRoom, len, None);
        };
        let parts = Parts {
            // Bursts of associations that rules or entries look at are taken packet by packet.
            rules: &mut None,
            icmp: self.icmp,
            entries: None,
            scrubbing: self.scrubbing.as_deref_mut(),
            members: self.members,
            fragments: self.fragments,
            around: &[],
        };
        let nested = admit(sa, packet, parts, self.cx);
        self.nested.extend(nested);
        hand_over(self.cx.out, self.delivery);
    }

    /// The length of the packet if it is a plain one that stages 5 to 8 let pass; `None` sends it through the stages
    /// one by one, which find out why.
    #[inline]
    fn admits_plainly(&self, sa: &InboundSa, bytes: &[u8]) -> Option<usize> {
        let plain = Plain::read(bytes)?;
        let flow = plain.flow(false);
        // Perhaps ESP in UDP.
        let to_us = plain.protocol == protocol::UDP && flow.local_port == self.members.port();
        (!to_us && plain.checksum_ok && sa.admits(&flow).is_ok()).then_some(plain.total_len)
    }

    /// Take a fragment out of the burst; the whole packet may come back.
    #[cold]
    fn join(&mut self, sa: &mut InboundSa, octets: Range<usize>, sequence: u64, headers: &Headers) {
        let mark = self.common.mark;
        let meta = self.common.meta(sequence);
        let len = octets.len();
        let Some(mut packet) = self.burst.extract(octets, meta, self.cx.pool) else {
            return self.end(sequence, DropReason::NoRoom, len, None);
        };
        let mut flow = ip::flow(packet.bytes(), headers, false);
        let joined = join_inner(sa, &mut packet, headers, &flow, self.fragments, self.cx.pool);
        self.cx.stats.lost_fragments(self.fragments.take_lost());
        let answer = joined.and_then(|headers| {
            flow = ip::flow(packet.bytes(), &headers, false);
            Ok((check_selectors(sa, self.icmp, packet.bytes(), &headers, &flow, self.members)?, headers))
        });
        match answer {
            Ok((false, _)) => {
                self.cx.stats.protected.count(packet.bytes().len());
                self.delivery.push_packet(packet.advance(&Permit::granted()), mark);
            }
            Ok((true, headers)) => self.nested.push((packet, headers)),
            Err(reason) => {
                sa.counters.dropped(reason);
                self.end(sequence, reason, packet.bytes().len(), Some(&flow));
                self.cx.pool.put(packet.into_buf());
            }
        }
    }

    #[cold]
    fn end(&mut self, sequence: u64, reason: DropReason, len: usize, flow: Option<&Flow>) {
        let dropped = Dropped::new(reason, &self.common.about(sequence), len, flow);
        self.cx.stats.dropped(dropped);
        self.delivery.ended(&dropped);
    }
}
