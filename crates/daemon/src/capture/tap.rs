//! The data threads' side: copies of packets on their way, while somebody wants them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use engine::{Dropped, InboundOutcome, Outcome};
use wire::ip::{self, Headers};
use wire::{AppId, DropReason, Gso, GsoKind, Meta, Packet, stage};

use super::{Direction, Facts, Fate, Record};

/// The most octets that wait for one capture's thread; a super-packet has 64 KiB.
const ROOM: usize = 16 << 20;

/// What a capture looks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter {
    /// Only packets of this application. A packet out of an association that is not bound to one passes here: its flow
    /// decides later.
    pub app: Option<AppId>,
    /// Only packets of associations with this SPI.
    pub spi: Option<u32>,
    /// Whether only dropped packets are copied. Keepalives and dummy packets are not among them.
    pub dropped: bool,
    /// The most octets that are kept of each packet. A super-packet is kept whole until it is cut.
    pub snaplen: usize,
}

impl Filter {
    fn passes(&self, facts: &Facts) -> bool {
        let routine = |reason| matches!(reason, DropReason::Keepalive | DropReason::EspDummy);
        let dropped = matches!(facts.fate, Fate::Dropped(reason) if !routine(reason));
        let unknown = facts.way == Direction::In && facts.app == AppId::NONE;
        (!self.dropped || dropped)
            && self.app.is_none_or(|app| app == facts.app || unknown)
            && self.spi.is_none_or(|spi| spi == facts.spi)
    }
}

/// What the taps of a capture and its thread share.
#[derive(Debug, Default)]
pub struct Gauge {
    /// Packets that found no room, by interface: inner, outer.
    pub lost: [AtomicU64; 2],
    /// The octets that wait for the capture's thread.
    pub waiting: AtomicUsize,
}

/// One capture, as a data thread sees it.
#[derive(Clone, Debug)]
pub struct Tap {
    pub(crate) id: u64,
    pub(crate) filter: Filter,
    pub(crate) records: SyncSender<Record>,
    pub(crate) gauge: Arc<Gauge>,
}

impl Tap {
    fn offer(&self, facts: &Facts, octets: &[u8], time: Duration) {
        // A super-packet is cut where nobody waits for it, and that needs all of it.
        let keep = match facts.gso.kind {
            GsoKind::None => octets.len().min(self.filter.snaplen),
            GsoKind::Tcp | GsoKind::Udp => octets.len(),
        };
        let gauge = &self.gauge;
        let lost = || {
            if let Some(lost) = gauge.lost.get(usize::from(facts.outer)) {
                lost.fetch_add(1, Ordering::Relaxed);
            }
        };
        // Two threads may both find the last room: then there is a packet more.
        if gauge.waiting.load(Ordering::Relaxed) + keep > ROOM {
            return lost();
        }
        let len = octets.len();
        let octets = octets.get(..keep).unwrap_or_default().to_vec();
        let record = Record { time, octets, len, facts: *facts };
        gauge.waiting.fetch_add(keep, Ordering::Relaxed);
        let refused = self.records.try_send(record).err();
        if refused.is_some() {
            gauge.waiting.fetch_sub(keep, Ordering::Relaxed);
        }
        // A capture that has ended loses nothing, though its tap is there for a moment yet.
        if let Some(TrySendError::Full(_)) = refused {
            lost();
        }
    }
}

/// The taps of one data thread. Owned by it: the control plane adds and removes them with its commands.
#[derive(Debug, Default)]
pub struct Taps {
    list: Vec<Tap>,
    /// The packet before the engine had it.
    before: Vec<u8>,
    meta: Meta,
}

impl Taps {
    /// Whether there is any.
    #[inline]
    pub fn is_on(&self) -> bool {
        !self.list.is_empty()
    }

    /// Copy packets for this capture too from now on.
    pub fn add(&mut self, tap: Tap) {
        self.list.push(tap);
    }

    /// Copy no more packets for this capture.
    pub fn remove(&mut self, id: u64) {
        self.list.retain(|tap| tap.id != id);
    }

    /// Remember a packet as it is before the engine seals, opens or drops it: what became of it is known only then.
    pub fn keep<S>(&mut self, packet: &Packet<S>) {
        self.keep_copy(packet.bytes(), packet.meta);
    }

    /// Remember the octets and the metadata of a packet as it was before the engine took it up.
    pub fn keep_copy(&mut self, octets: &[u8], meta: Meta) {
        self.before.clear();
        self.before.extend_from_slice(octets);
        self.meta = meta;
    }

    /// What became of the outbound packet that was kept; `outcomes` are its own.
    #[cold]
    pub fn outbound(&mut self, outcomes: &[Outcome]) {
        let Meta { app, rule, spi, sequence, gso, .. } = self.meta;
        let headers = Headers::parse(&self.before).ok();
        let flow = headers.map(|headers| ip::flow(&self.before, &headers, true));
        let (way, outer, peer, local, fate) = (Direction::Out, false, None, None, Fate::Clear);
        let kept = Facts { way, outer, gso, app, rule, spi, sequence, peer, local, flow, fate };
        // What ended is what somebody looks for, even if other parts of the packet went on.
        let facts = outcomes.iter().filter_map(|outcome| sent(outcome, &kept));
        if let Some(facts) = facts.max_by_key(|facts| matches!(facts.fate, Fate::Dropped(_))) {
            self.offer(&facts, &self.before);
        }
    }

    /// What became of the inbound packet that was kept; `outcomes` are its own.
    #[cold]
    pub fn inbound(&mut self, outcomes: &[InboundOutcome]) {
        let ends = Headers::parse(&self.before).ok().map(|headers| (headers.src, headers.dst));
        let kept = Facts {
            way: Direction::In,
            outer: true,
            gso: Gso::default(),
            app: AppId::NONE,
            rule: 0,
            spi: 0,
            sequence: 0,
            peer: ends.map(|(src, _)| src),
            local: ends.map(|(_, dst)| dst),
            flow: None,
            fate: Fate::Waiting,
        };
        for outcome in outcomes {
            match outcome {
                InboundOutcome::Deliver(packet, _) => self.offer(&delivered(packet, &kept), packet.bytes()),
                InboundOutcome::Drop(dropped) => self.offer(&ended(dropped, &kept), &self.before),
            }
        }
    }

    fn offer(&self, facts: &Facts, octets: &[u8]) {
        let time = netio::clock::wall();
        for tap in self.list.iter().filter(|tap| tap.filter.passes(facts)) {
            tap.offer(facts, octets, time);
        }
    }
}

/// The facts of a packet by one of its outcomes; `None` if the outcome says nothing of the packet itself.
fn sent(outcome: &Outcome, kept: &Facts) -> Option<Facts> {
    Some(match outcome {
        Outcome::Send(packet) => {
            let Meta { app, rule, spi, sequence, .. } = packet.meta;
            let peer = Headers::parse(packet.bytes()).ok().map(|headers| headers.dst);
            Facts { app, rule, spi, sequence, peer, fate: Fate::Protected, ..*kept }
        }
        Outcome::Burst(burst) => Facts {
            app: burst.meta.app,
            spi: burst.meta.spi,
            sequence: burst.meta.sequence,
            peer: Some(burst.header.dst),
            fate: Fate::Protected,
            ..*kept
        },
        Outcome::Clear(packet) => Facts { rule: packet.meta.rule, fate: Fate::Clear, ..*kept },
        Outcome::Held(id) => Facts { fate: Fate::Held(*id), ..*kept },
        Outcome::Drop(dropped) => ended(dropped, kept),
        Outcome::Reply(..) => return None,
    })
}

fn delivered(packet: &Packet<stage::Admitted>, kept: &Facts) -> Facts {
    let Meta { app, rule, spi, sequence, .. } = packet.meta;
    let bytes = packet.bytes();
    let flow = Headers::parse(bytes).ok().map(|headers| ip::flow(bytes, &headers, false));
    Facts { outer: false, app, rule, spi, sequence, flow, fate: Fate::Protected, ..*kept }
}

fn ended(dropped: &Dropped, kept: &Facts) -> Facts {
    let Dropped { reason, app, rule, spi, sequence, flow, .. } = *dropped;
    Facts { app, rule, spi, sequence, flow: flow.or(kept.flow), fate: Fate::of(reason), ..*kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_slow_reader_has_no_room_for_is_lost_and_what_comes_behind_the_end_is_not() {
        let facts = Facts {
            way: Direction::Out,
            outer: false,
            gso: Gso::default(),
            app: AppId::NONE,
            rule: 0,
            spi: 0,
            sequence: 0,
            peer: None,
            local: None,
            flow: None,
            fate: Fate::Dropped(DropReason::NoSa),
        };
        let (records, reader) = std::sync::mpsc::sync_channel(1);
        let gauge = Arc::new(Gauge::default());
        let filter = Filter { snaplen: 100, ..Filter::default() };
        let tap = Tap { id: 1, filter, records, gauge: Arc::clone(&gauge) };
        let counts = || (gauge.lost[0].load(Ordering::Relaxed), gauge.waiting.load(Ordering::Relaxed));
        tap.offer(&facts, &[7; 10], Duration::ZERO);
        assert_eq!(counts(), (0, 10));
        tap.offer(&facts, &[7; 10], Duration::ZERO);
        assert_eq!(counts(), (1, 10), "the channel has room for one");
        drop(reader);
        tap.offer(&facts, &[7; 10], Duration::ZERO);
        assert_eq!(counts(), (1, 10), "the capture has ended");
    }
}
