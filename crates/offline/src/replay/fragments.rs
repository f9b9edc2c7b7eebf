//! Fragments of a capture: which half of the engine they are for, and what became of those that waited.
//!
//! Ports are in the first fragment of a UDP datagram only, and what stands behind extension headers of IPv6 in the first of any, so one
//! that comes before it waits here until the first says whose it is. A fragment that the engine holds gets a second line if its packet never becomes whole: the packet that does become
//! whole has its verdict on the line of the fragment that completed it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use api::{ReplayDirection, ReplayLine, ReplayVerdict, Spi};
use wire::ip::Headers;
use wire::{DropReason, Time, protocol, reassembly};

/// Datagrams whose way is remembered.
const MAX_WAYS: usize = 4096;
/// Fragments that wait here for the first one.
const MAX_PARKED: usize = 1024;

/// What the fragments of one packet have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    src: IpAddr,
    dst: IpAddr,
    id: u32,
    protocol: u8,
}

impl Key {
    /// The key of the packet that a fragment belongs to; `None`: it is a whole packet.
    pub fn of(headers: &Headers) -> Option<Key> {
        let id = headers.fragment?.id;
        // In IPv6 the first fragment alone says it, and others may say something else (RFC 8200 section 4.5).
        let protocol = if headers.version == 6 { 0 } else { headers.protocol };
        Some(Key { src: headers.src, dst: headers.dst, id, protocol })
    }
}

/// What a held fragment waits with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Set {
    /// Fragments of the capture.
    Outer(Key),
    /// Fragments that came out of an association: source and destination inside. Their identification the engine keeps for
    /// itself, so several packets of one association at once are one set here.
    Inner(u32, IpAddr, IpAddr),
}

/// A fragment that waits for its first one.
#[derive(Debug)]
pub(super) struct Parked {
    /// The key of the packet that the fragment belongs to.
    pub key: Key,
    /// The time when the fragment came.
    pub at: Time,
    /// The octets of the fragment.
    pub bytes: Vec<u8>,
    /// The line of the replay about this fragment.
    pub line: ReplayLine,
}

/// A fragment with a line that says "hold".
#[derive(Debug)]
struct HeldFragments {
    set: Set,
    /// The half of the engine that holds it.
    side: ReplayDirection,
    at: Time,
    line: ReplayLine,
}

/// The fragments that wait, and what is known of their packets.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    /// Whether packets under way are protected, and since when.
    ways: BTreeMap<Key, (bool, Time)>,
    parked: Vec<Parked>,
    held: Vec<HeldFragments>,
    /// Second lines that were not asked for yet.
    ended: Vec<ReplayLine>,
}

impl Fragments {
    /// Whether none is known of.
    pub fn is_empty(&self) -> bool {
        self.ways.is_empty() && self.parked.is_empty() && self.held.is_empty()
    }

    /// Whether a fragment belongs to a packet that is protected; `says`: the first one says so. `None`: nobody knows yet.
    pub fn is_protected(&mut self, key: Key, headers: &Headers, says: bool, now: Time) -> Option<bool> {
        let first = headers.fragment.is_some_and(|fragment| fragment.offset == 0);
        if !first {
            return self.ways.get(&key).map(|(protected, _)| *protected);
        }
        if self.ways.len() < MAX_WAYS {
            self.ways.insert(key, (says, now));
        }
        Some(says)
    }

    /// Keep a fragment until its first one comes; `false`: there is no room.
    pub fn park(&mut self, parked: Parked) -> bool {
        let room = self.parked.len() < MAX_PARKED;
        if room {
            self.parked.push(parked);
        }
        room
    }

    /// Those that waited for this datagram, in their order.
    pub fn unpark(&mut self, key: Key) -> Vec<Parked> {
        if self.parked.is_empty() {
            return Vec::new();
        }
        let (ready, rest) =
            std::mem::take(&mut self.parked).into_iter().partition(|parked| parked.key == key);
        self.parked = rest;
        ready
    }

    /// The engine holds the fragment of this line.
    pub fn hold(&mut self, set: Set, side: ReplayDirection, at: Time, line: ReplayLine) {
        self.held.push(HeldFragments { set, side, at, line });
    }

    /// The packet of this set is whole.
    pub fn complete(&mut self, set: &Set) {
        self.held.retain(|held| held.set != *set);
    }

    /// The fragments of this set are of no use any more.
    pub fn fail(&mut self, set: &Set, reason: &str) {
        let ended = &mut self.ended;
        self.held.retain(|held| {
            let keep = held.set != *set;
            if !keep {
                ended.push(second_line(&held.line, reason));
            }
            keep
        });
    }

    /// A line for what ended without one.
    pub fn end(&mut self, line: ReplayLine) {
        self.ended.push(line);
    }

    /// The engine gave up `count` fragments of this half to make room: the oldest sets.
    pub fn evict(&mut self, side: ReplayDirection, count: u64) {
        let mut gone = 0;
        while gone < count {
            let oldest = self.held.iter().find(|held| held.side == side);
            let Some(set) = oldest.map(|held| held.set.clone()) else { return };
            gone += self.held.iter().filter(|held| held.set == set).count() as u64;
            self.fail(&set, DropReason::FragmentLimit.name());
        }
    }

    /// Let time pass: what waited too long ends. `lost`: how many held fragments each half of the engine gave up just now.
    pub fn expire(&mut self, now: Time, lost: impl Fn(ReplayDirection) -> u64) {
        let timeout = reassembly::Limits::default().timeout;
        let over = |since: Time| now.since(since) >= timeout;
        self.ways.retain(|_, (_, since)| !over(*since));
        while let Some(parked) = self.parked.iter().position(|parked| over(parked.at)) {
            let parked = self.parked.remove(parked);
            self.ended.push(second_line(&parked.line, DropReason::FragmentTimeout.name()));
        }
        // The first of a set says how old it is.
        while let Some(old) = self.held.iter().find(|held| over(held.at)) {
            let set = old.set.clone();
            match lost(old.side) {
                // It was whole after all, or is newer than it looks here.
                0 => self.complete(&set),
                _ => self.fail(&set, DropReason::FragmentTimeout.name()),
            }
        }
    }

    /// The capture is over, and nothing can complete any more. `lost`: how many each half of the engine still held.
    pub fn finish(&mut self, lost: impl Fn(ReplayDirection) -> u64) {
        for side in [ReplayDirection::Inbound, ReplayDirection::Outbound] {
            let held = self.held.iter().filter(|held| held.side == side).count() as u64;
            // Older ones than the engine had were whole.
            let mut whole = held.saturating_sub(lost(side));
            self.held.retain(|held| {
                let keep = held.side != side || whole == 0;
                whole -= u64::from(!keep);
                keep
            });
        }
        let parked = self.parked.drain(..).map(|parked| parked.line);
        let left = self.held.drain(..).map(|held| held.line).chain(parked);
        self.ended.extend(left.map(|line| second_line(&line, DropReason::FragmentTimeout.name())));
        self.ended.sort_by_key(|line| line.index);
    }

    /// The second lines since this was last asked.
    pub fn take_ended(&mut self) -> Vec<ReplayLine> {
        std::mem::take(&mut self.ended)
    }
}

/// Later than every fragment's time.
pub(super) fn much_later(now: Time) -> Time {
    now + reassembly::Limits::default().timeout + Duration::from_secs(1)
}

fn second_line(line: &ReplayLine, reason: &str) -> ReplayLine {
    ReplayLine {
        verdict: ReplayVerdict::Drop,
        reason: Some(reason.to_owned()),
        written: 0,
        packets: Vec::new(),
        ..line.clone()
    }
}

/// Whether ports say that this is ESP in UDP; meaningless behind the first fragment.
pub(super) fn is_udp_to(headers: &Headers, bytes: &[u8], port: u16) -> bool {
    let flow = wire::ip::flow(bytes, headers, false);
    headers.protocol == protocol::UDP && (flow.local_port == port || flow.remote_port == port)
}

/// The association that a line names, as a number.
pub(super) fn spi_of(line: &ReplayLine) -> u32 {
    line.spi.map_or(0, |Spi(spi)| spi)
}
