//! The packets that an outbound association sends by itself: NAT keepalives when it is silent (RFC 3948 section 4), and
//! dummy packets so that it is not (RFC 4303 section 2.6).
//!
//! The module is pure: [`Timers::poll`] says when there is something to do, and the owner of the clock comes back then.

use super::originated::originate;
use crate::cx::Cx;
use crate::outbound::outcome::Outcome;
use crate::random::Random;
use ipsec::udp_encap;
use sadb::sa::Tfc;
use sadb::{OutboundSa, OutboundSad, SaIndex};
use std::time::Duration;
use wire::Time;

/// The length of the shortest dummy packet in octets, that of a small TCP segment.
const SHORTEST: usize = 40;
/// The length of the longest dummy packet in octets; a super-packet would stand out.
const LONGEST: usize = 9000;

/// The reason for a packet that an association sends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timeout {
    /// An association was added, and its timers begin.
    Start,
    /// A dummy packet is due if nothing else leaves.
    Dummy,
    /// A NAT keepalive is due if nothing else leaves.
    Keepalive,
}

/// The associations that send packets by themselves.
#[derive(Debug)]
pub(super) struct Timers {
    entries: Vec<Entry>,
    /// The time at which one of them has something to do, and the reason.
    next: Option<(Time, Timeout)>,
    /// The generator for lengths and contents of dummies. Dummies are encrypted, so it need not be hard to
    /// guess.
    random: Random,
    content: Vec<u8>,
}

#[derive(Debug)]
struct Entry {
    index: SaIndex,
    /// The silence after which a keepalive is sent; zero: none is.
    keepalive: Duration,
    /// The time between two dummies; zero: none is sent.
    dummy: Duration,
    /// The time of its first turn; `None`: it had none yet.
    started: Option<Time>,
    last_keepalive: Time,
    next_dummy: Time,
    /// The number of packets that it had carried at its last turn.
    packets: u64,
}

impl Timers {
    pub(super) fn new(seed: u64) -> Timers {
        Timers { entries: Vec::new(), next: None, random: Random::new(seed), content: Vec::new() }
    }

    /// Watch an association that was added.
    pub(super) fn watch(&mut self, index: SaIndex, sa: &OutboundSa) {
        let options = &sa.config().options;
        if options.keepalive == 0 && options.dummy == 0 {
            return;
        }
        let rate = u32::from(options.dummy);
        self.entries.push(Entry {
            index,
            keepalive: Duration::from_secs(options.keepalive.into()),
            dummy: if rate > 0 { Duration::from_secs(1) / rate } else { Duration::ZERO },
            started: None,
            last_keepalive: Time::default(),
            next_dummy: Time::default(),
            packets: sa.counters.packets,
        });
        self.next = Some((Time::default(), Timeout::Start));
    }

    /// The time at which there is something to do, and the reason; `None`: never, as things are.
    pub(super) fn poll(&self) -> Option<(Time, Timeout)> {
        self.next
    }

    /// Send the keepalives and dummy packets that are due.
    pub(super) fn send_due(&mut self, now: Time, sad: &mut OutboundSad, cx: &mut Cx<'_, Outcome>) {
        let mut entries = std::mem::take(&mut self.entries);
        let mut next = None;
        entries.retain_mut(|entry| {
            let Some(sa) = sad.get_mut(entry.index) else { return false };
            let at = entry.turn(now, sa, self, cx);
            next = earlier(next, at);
            true
        });
        self.entries = entries;
        self.next = next;
    }

    /// Random octets, as many as a packet of this association could have.
    fn content(&mut self, sa: &OutboundSa) -> &[u8] {
        let config = sa.config();
        let most = ipsec::inner_mtu(config).min(LONGEST);
        let any = SHORTEST + self.random.next() as usize % most.saturating_sub(SHORTEST).max(1);
        let len = match config.options.tfc {
            Tfc::None => any,
            Tfc::Multiple(octets) => any.next_multiple_of(usize::from(octets.max(1))).min(most),
            Tfc::Full => most,
        };
        self.content.clear();
        while self.content.len() < len {
            let octets = self.random.next().to_ne_bytes();
            self.content.extend_from_slice(&octets);
        }
        self.content.truncate(len);
        &self.content
    }
}

/// The earlier of two times with their reasons.
fn earlier(one: Option<(Time, Timeout)>, other: Option<(Time, Timeout)>) -> Option<(Time, Timeout)> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

impl Entry {
    /// Send what is due now. Returns the time of the next turn, and its reason.
    fn turn(
        &mut self,
        now: Time,
        sa: &mut OutboundSa,
        timers: &mut Timers,
        cx: &mut Cx<'_, Outcome>,
    ) -> Option<(Time, Timeout)> {
        if self.started.is_none() {
            (self.started, self.last_keepalive, self.next_dummy) = (Some(now), now, now + self.dummy);
            self.packets = sa.counters.packets;
        }
        let mut next = None;
        if !self.dummy.is_zero() {
            if now >= self.next_dummy {
                // Whatever left since the last turn did the dummy's work.
                if sa.counters.packets == self.packets && sa.is_alive() {
                    self.send_dummy(now, sa, timers, cx);
                }
                self.packets = sa.counters.packets;
                // Turns that were missed are not made up for: they would come as a burst.
                let following = self.next_dummy + self.dummy;
                self.next_dummy = if following > now { following } else { now + self.dummy };
            }
            next = earlier(next, Some((self.next_dummy, Timeout::Dummy)));
        }
        if !self.keepalive.is_zero() {
            if now >= self.keepalive_due(sa) {
                self.send_keepalive(now, sa, cx);
            }
            // One that could not be sent is tried again soon.
            let due = self.keepalive_due(sa).max(now + Duration::from_millis(1));
            next = earlier(next, Some((due, Timeout::Keepalive)));
        }
        next
    }

    /// The time at which the association will have been silent for too long.
    fn keepalive_due(&self, sa: &OutboundSa) -> Time {
        sa.counters.last_used.max(self.last_keepalive) + self.keepalive
    }

    fn send_keepalive(&mut self, now: Time, sa: &mut OutboundSa, cx: &mut Cx<'_, Outcome>) {
        let packet = originate(self.index, now, cx);
        if let Some(packet) = udp_encap::keepalive(sa.config(), packet, cx.pool) {
            sa.counters.keepalives += 1;
            self.last_keepalive = now;
            cx.out.push(Outcome::Send(packet));
        }
    }

    fn send_dummy(&self, now: Time, sa: &mut OutboundSa, timers: &mut Timers, cx: &mut Cx<'_, Outcome>) {
        let packet = originate(self.index, now, cx);
        // One that cannot be sent is counted at its association.
        if let Ok(packet) = ipsec::dummy(sa, packet, timers.content(sa), cx.pool) {
            sa.counters.dummies += 1;
            cx.out.push(Outcome::Send(packet));
        }
    }
}
