//! A replay by the paths that the daemon uses (`--gather`): packets that follow one another are gathered into bursts on their way
//! out, and received as bursts on their way in, so that whoever tests the engine from outside tests what runs.
//!
//! Enters: frames, one after the other. Those that could come in one receive batch of the daemon are kept until the batch ends, and
//! then go through the engine together. Leaves: the lines and the packets that each would have had by itself, in the same order. A
//! batch ends where the next frame goes another way, is a fragment, or meets something that the passing of time may change.

use api::{ReplayDirection, ReplayLine};
use engine::{Delivery, InboundOutcome, Outcome, Traced};
use netio::pcap::Frame;
use wire::burst::MAX_DATAGRAMS;
use wire::esp::{self, UdpPayload};
use wire::ip::{self, Headers};
use wire::stage::Outer;
use wire::udp::{self, Udp};
use wire::{Buf, Burst, DropReason, Meta, OuterHeader, Packet, checksum, protocol, record};

use super::batch::Common;
use super::error::{ReplayError, WriteAt};
use super::{Half, Replay, fragments};

/// Packets of one batch: what one call of the outbound thread reads at most.
const MOST: usize = MAX_DATAGRAMS;

impl Replay {
    /// How many packets went through the engine together with others.
    pub fn together(&self) -> u64 {
        self.batch.together
    }

    /// Take one frame more. What comes back is the lines of the frames whose batch has ended with it, in order; their
    /// packets have gone to `write`.
    ///
    /// # Errors
    /// If `write` does not take them.
    pub fn gather(
        &mut self,
        index: u64,
        frame: Frame,
        write: &mut WriteAt<'_>,
    ) -> Result<Vec<ReplayLine>, ReplayError> {
        let common = self.common(&frame);
        let mut lines = Vec::new();
        let joins = self.batch.frames.len() < MOST
            && match (self.batch.way, common) {
                (Some(Common::Out), Some(Common::Out)) => true,
                (
                    Some(Common::In { header, stride, closed: false }),
                    Some(Common::In { header: other, stride: len, .. }),
                ) => header == other && len <= stride,
                _ => false,
            };
        if !joins {
            lines = self.flush(write)?;
            self.batch.way = common;
        } else if let (Some(Common::In { stride, closed, .. }), Some(Common::In { stride: len, .. })) =
            (&mut self.batch.way, common)
        {
            *closed = len < *stride;
        }
        if common.is_none() {
            let time = frame.time;
            lines.push(self.frame(index, &frame, &mut |bytes| write(time, bytes))?);
        } else {
            self.batch.frames.push((index, frame));
        }
        Ok(lines)
    }

    /// The batch ends here.
    ///
    /// # Errors
    /// As [`Self::gather`].
    pub fn flush(&mut self, write: &mut WriteAt<'_>) -> Result<Vec<ReplayLine>, ReplayError> {
        let frames = std::mem::take(&mut self.batch.frames);
        let Some((_, first)) = frames.first() else { return Ok(Vec::new()) };
        if frames.len() > 1 {
            self.batch.together += frames.len() as u64;
        }
        self.pass_time(first.clock());
        let lines = match self.batch.way.take() {
            Some(Common::In { header, stride, .. }) => self.receive(&frames, header, stride, write),
            _ => self.send_together(&frames, write),
        };
        if let Some((_, last)) = frames.last() {
            self.now = last.clock();
        }
        lines
    }

    /// What a frame may have in common with others; `None`: it goes alone.
    fn common(&self, frame: &Frame) -> Option<Common> {
        let bytes = frame.said_ip()?;
        let headers = Headers::parse(bytes).ok()?;
        if fragments::Key::of(&headers).is_some() || !self.fragments.is_empty() || !self.is_timeless() {
            return None;
        }
        let is_bundled = |next: Option<_>, keyed: bool| next.is_some() || !keyed;
        match self.half_of_whole(bytes, &headers) {
            Half::Send => Some(Common::Out),
            Half::Arrive => None,
            Half::Open => {
                let mut all = self.inbound.sad().list().map(|sa| &sa.config().options);
                if all.any(|options| is_bundled(options.next, options.protocol.is_keyed())) {
                    return None;
                }
                self.datagram(bytes, &headers)
            }
        }
    }

    /// Whether nothing of what the engine knows changes by itself as time goes by.
    fn is_timeless(&self) -> bool {
        let unlimited = sadb::sa::Lifetime::default();
        let mut out = self.outbound.sad().list();
        let mut inb = self.inbound.sad().list();
        out.all(|(_, sa)| sa.config().options.lifetime == unlimited && sa.path().learned().is_none())
            && inb.all(|sa| sa.config().options.lifetime == unlimited)
    }

    /// ESP in UDP as a socket would have received it.
    fn datagram(&self, bytes: &[u8], headers: &Headers) -> Option<Common> {
        let upper = headers.upper(bytes);
        if headers.protocol != protocol::UDP || headers.has_options || !ip::checksum_ok(bytes, headers) {
            return None;
        }
        let view = Udp::new_checked(upper).ok()?;
        let payload = upper.get(udp::HEADER_LEN..)?;
        let whole = view.len() == upper.len() && view.dst_port() == self.esp_port;
        // Zero is no checksum, over IPv4.
        let right = match view.checksum() {
            0 => headers.version == 4,
            _ => checksum::verify_transport(bytes.get(..headers.total_len)?, headers) == Some(true),
        };
        if !whole || !right || esp::classify(payload) != UdpPayload::Esp {
            return None;
        }
        let header = OuterHeader {
            src: headers.src,
            dst: headers.dst,
            src_port: view.src_port(),
            dst_port: view.dst_port(),
            tos: headers.tos,
            ttl: headers.ttl,
            may_fragment: false,
        };
        Some(Common::In { header, stride: payload.len(), closed: false })
    }

    /// Frames of programs, gathered.
    fn send_together(
        &mut self,
        frames: &[(u64, Frame)],
        write: &mut WriteAt<'_>,
    ) -> Result<Vec<ReplayLine>, ReplayError> {
        let mut became: Vec<Vec<Outcome>> = frames.iter().map(|_| Vec::new()).collect();
        // Of packets that wait in the open burst: whose they are, and by which rule.
        let mut open = std::collections::VecDeque::new();
        for (place, (_, frame)) in frames.iter().enumerate() {
            let mark = record::STAMPED | u32::from(self.app.0);
            let meta = Meta { app: self.app, mark, ..Meta::default() };
            let packet = Packet::from_host(self.buffer(frame.said_ip().unwrap_or_default()), meta);
            self.outbound.handle(frame.clock(), packet, &mut self.pool, &mut self.sent);
            open.push_back((place, self.outbound.gathered_rule()));
            let outcomes = std::mem::take(&mut self.sent);
            let alone = self.sort(outcomes, &mut open, &mut became);
            if !alone.is_empty() {
                open.pop_back();
                if let Some(own) = became.get_mut(place) {
                    own.extend(alone);
                }
            }
        }
        let before: Vec<_> = self.outbound.stats().drops().collect();
        self.outbound.flush(&mut self.pool, &mut self.sent);
        let outcomes = std::mem::take(&mut self.sent);
        let _ = self.sort(outcomes, &mut open, &mut became);
        let lost = self.outbound.stats().drops().find(|drop| !before.contains(drop));
        let mut lines = Vec::new();
        for ((index, frame), outcomes) in frames.iter().zip(became) {
            let bytes = frame.said_ip().unwrap_or_default();
            let headers = Headers::parse(bytes).ok();
            let mut line = super::line(*index, frame, headers.as_ref());
            line.direction = ReplayDirection::Outbound;
            if outcomes.is_empty() {
                // The burst could not be sealed.
                let reason = lost.map_or(DropReason::NoRoom, |(reason, _)| reason);
                self.refused(&mut line, reason, None);
            }
            self.sent = outcomes;
            let time = frame.time;
            self.report_outbound(bytes, headers.as_ref(), &mut line, &mut |bytes| write(time, bytes))?;
            lines.push(line);
        }
        Ok(lines)
    }

    /// Give the datagrams of bursts to the packets they were made of; the other outcomes.
    fn sort(
        &mut self,
        outcomes: Vec<Outcome>,
        open: &mut std::collections::VecDeque<(usize, u32)>,
        became: &mut [Vec<Outcome>],
    ) -> Vec<Outcome> {
        let mut others = Vec::new();
        for outcome in outcomes {
            let Outcome::Burst(burst) = outcome else {
                others.push(outcome);
                continue;
            };
            for packet in burst.packets(&mut self.pool) {
                let Some((place, rule)) = open.pop_front() else { break };
                if let (Ok(mut packet), Some(own)) = (packet, became.get_mut(place)) {
                    packet.meta.rule = rule;
                    without_checksum(&mut packet);
                    own.push(Outcome::Send(packet));
                }
            }
            self.pool.put(burst.into_buf());
        }
        others
    }

    /// Datagrams of one peer, received in one piece.
    fn receive(
        &mut self,
        frames: &[(u64, Frame)],
        header: OuterHeader,
        stride: usize,
        write: &mut WriteAt<'_>,
    ) -> Result<Vec<ReplayLine>, ReplayError> {
        let mut lines = Vec::new();
        let mut buf =
            Buf::with_capacity(engine::HEADROOM + engine::TAILROOM + frames.len() * stride, engine::HEADROOM);
        for (index, frame) in frames {
            let bytes = frame.said_ip().unwrap_or_default();
            let headers = Headers::parse(bytes).ok();
            let upper = headers.as_ref().map(|headers| headers.upper(bytes)).unwrap_or_default();
            let payload = upper.get(udp::HEADER_LEN..).unwrap_or_default();
            if let Some(room) = buf.push_back(payload.len()) {
                room.copy_from_slice(payload);
            }
            let mut line = super::line(*index, frame, headers.as_ref());
            line.direction = ReplayDirection::Inbound;
            lines.push(line);
        }
        let Some(now) = frames.first().map(|(_, frame)| frame.clock()) else { return Ok(lines) };
        let Some(burst) = Burst::raw(buf, header, stride, now) else { return Ok(lines) };
        let mut delivery = Delivery::tracing();
        let before = self.lost();
        self.inbound.handle_burst(now, burst, &mut self.pool, &mut delivery);
        let lost = self.lost().of(ReplayDirection::Inbound) - before.of(ReplayDirection::Inbound);
        let mut became: Vec<Vec<InboundOutcome>> = frames.iter().map(|_| Vec::new()).collect();
        for (place, traced) in delivery.traced() {
            let Some(own) = became.get_mut(place) else { continue };
            own.push(match traced {
                Traced::Deliver(bytes, mark, meta) => {
                    let copy = Buf::from_slice(bytes, engine::HEADROOM, engine::TAILROOM);
                    InboundOutcome::Deliver(Packet::made_for_host(copy, meta), mark)
                }
                Traced::Drop(dropped) => InboundOutcome::Drop(dropped),
            });
        }
        delivery.clear(&mut self.pool);
        let last = frames.len() - 1;
        for (place, ((_, frame), outcomes)) in frames.iter().zip(became).enumerate() {
            let Some(line) = lines.get_mut(place) else { continue };
            let headers = frame.said_ip().and_then(|bytes| Headers::parse(bytes).ok());
            self.opened = outcomes;
            let (at, time) = (frame.clock(), frame.time);
            self.report_inbound(at, headers.as_ref(), line, &mut |bytes| write(time, bytes))?;
            // What the burst lost of fragments that had waited is told with its last datagram.
            let lost = if place == last { lost } else { 0 };
            self.settle_fragments(at, headers.as_ref(), line, ReplayDirection::Inbound, lost);
        }
        Ok(lines)
    }
}

/// Over IPv4 ESP leaves without a checksum of UDP, as RFC 3948 section 2.1 wants it, where it leaves alone; in a burst it is the
/// kernel that writes it.
pub(super) fn without_checksum(packet: &mut Packet<Outer>) {
    let Ok(headers) = Headers::parse(packet.bytes()) else { return };
    let upper = packet.bytes_mut().get_mut(headers.header_len..).unwrap_or_default();
    if headers.version == 4
        && let Ok(mut view) = Udp::new_checked(upper)
    {
        view.clear_checksum();
    }
}
