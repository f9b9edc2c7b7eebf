//! The last packets that rules met, for whoever asks why.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::{InlineEvent, InlineEvents, InlineQuery};
use scrub::{Outcome, Side, Verdict};
use wire::Time;
use wire::ip::Headers;

use crate::scrub_changes::between;
use crate::scrub_report::{self, ScrubRun};
use crate::text::hex;

/// Connections of a worker that are listed.
pub const FLOWS: usize = 1000;
/// Events that are told unless more are asked for.
pub const EVENTS: usize = 100;
/// Packets of a worker that are kept.
pub const KEPT: usize = 1024;
/// Packets of a worker that are written down in a second; where rules meet every packet, this is not what slows the line.
const PER_SECOND: u32 = 1000;
/// Octets of a packet that are kept: headers, and where its data begin.
const HEAD: usize = 160;

/// The beginning of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    octets: [u8; HEAD],
    kept: u8,
    /// Octets of the packet.
    pub whole: u32,
}

impl Head {
    /// That of a packet.
    #[inline]
    pub fn of(packet: &[u8]) -> Head {
        Head::part(packet, packet.len())
    }

    /// That of a packet of which these are the first octets, and which has so many.
    #[inline]
    pub fn part(packet: &[u8], whole: usize) -> Head {
        let kept = packet.len().min(HEAD);
        let mut octets = [0; HEAD];
        if let (Some(to), Some(from)) = (octets.get_mut(..kept), packet.get(..kept)) {
            to.copy_from_slice(from);
        }
        Head { octets, kept: kept as u8, whole: whole as u32 }
    }

    /// The packet with zeros where it was not kept: its headers can be read like those of any other.
    fn padded(&self) -> Vec<u8> {
        let mut packet = self.octets().to_vec();
        packet.resize(self.whole as usize, 0);
        packet
    }

    /// The octets of the packet that are kept.
    pub fn octets(&self) -> &[u8] {
        self.octets.get(..usize::from(self.kept)).unwrap_or_default()
    }
}

/// A packet that a rule met.
#[derive(Clone, Debug)]
struct KeptRecord {
    number: u64,
    time: Duration,
    from: Side,
    verdict: Verdict,
    came: Head,
    went: Option<Head>,
}

/// The ring of one worker.
#[derive(Debug)]
pub struct Ring {
    worker: usize,
    /// The number of the last packet that was kept, one count for all workers: so their rings have one order.
    next: Arc<AtomicU64>,
    kept: VecDeque<KeptRecord>,
    second: Time,
    this_second: u32,
    /// Packets that came too fast to be written down.
    pub unrecorded: u64,
}

impl Ring {
    /// An empty ring of this worker.
    pub fn new(worker: usize, next: Arc<AtomicU64>) -> Ring {
        let kept = VecDeque::with_capacity(KEPT);
        Ring { worker, next, kept, second: Time::default(), this_second: 0, unrecorded: 0 }
    }

    /// Keep what became of a packet; `went`: as it went, if it did.
    pub fn note(&mut self, now: Time, from: Side, verdict: Verdict, came: &Head, went: Option<&[u8]>) {
        if now.since(self.second) >= Duration::from_secs(1) {
            (self.second, self.this_second) = (now, 0);
        }
        self.this_second += 1;
        if self.this_second > PER_SECOND {
            self.unrecorded += 1;
            return;
        }
        self.keep(netio::clock::wall(), from, verdict, came, went.map(Head::of));
    }

    /// Keep what became of a packet at this time of the clock on the wall, however many there are in a second.
    pub fn keep(&mut self, time: Duration, from: Side, verdict: Verdict, came: &Head, went: Option<Head>) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        self.kept.push_back(KeptRecord { number, time, from, verdict, came: *came, went });
    }

    /// Those behind a number that fit, the oldest first, at most so many of the latest.
    pub fn since(&self, after: u64, most: usize, fits: &dyn Fn(&InlineEvent) -> bool) -> Vec<InlineEvent> {
        let newer = self.kept.iter().rev().take_while(|kept| kept.number > after);
        let mut out: Vec<InlineEvent> =
            newer.map(|kept| self.tell(kept)).filter(|event| fits(event)).take(most).collect();
        out.reverse();
        out
    }

    fn tell(&self, kept: &KeptRecord) -> InlineEvent {
        let KeptRecord { number, time, from, verdict, came, went } = kept;
        let packet = came.padded();
        let mut line = scrub_report::line(*number, time.as_secs_f64(), &packet, verdict, *from);
        line.written = u32::from(went.is_some());
        if let (Some(went), Outcome::Forward) = (went, verdict.outcome) {
            line.reassembled = Headers::parse(&packet).is_ok_and(|headers| headers.fragment.is_some());
            if !line.reassembled {
                (line.changes, line.more_changes) = between(&packet, &went.padded());
            }
        }
        let mut explained = scrub_report::explain(&ScrubRun { line: &line, came: &packet, went: &[] });
        explained.came = hex(came.octets());
        explained.went = went.iter().map(|head| hex(head.octets())).collect();
        InlineEvent { worker: self.worker, octets: came.whole, explained }
    }
}

/// What several rings have, in the order of their numbers: the latest.
pub fn newest(found: impl Iterator<Item = (Vec<InlineEvent>, u64)>, most: usize) -> InlineEvents {
    let (mut events, mut unrecorded) = (Vec::new(), 0);
    for (more, too_fast) in found {
        events.extend(more);
        unrecorded += too_fast;
    }
    events.sort_by_key(|event: &InlineEvent| event.explained.line.index);
    let events = events.split_off(events.len().saturating_sub(most));
    InlineEvents { events, unrecorded }
}

/// Whether a query asks for this event.
pub fn fits(query: &InlineQuery, event: &InlineEvent) -> bool {
    let line = &event.explained.line;
    let flow = line.flow.as_ref();
    query.number.is_none_or(|number| line.index == number)
        && (query.drops != Some(true) || line.verdict == api::ScrubVerdict::Drop)
        && query.host.is_none_or(|host| flow.is_some_and(|f| f.source == host || f.destination == host))
        && query.port.is_none_or(|port| {
            flow.is_some_and(|f| f.source_port == Some(port) || f.destination_port == Some(port))
        })
}
