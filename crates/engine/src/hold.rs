//! Packets that wait for an association (RFC 4301 section 4.4.1; DESIGN section 4).
//!
//! Packets of one application between one pair of hosts that need the same services wait together, behind one acquire,
//! in the order in which they came. Everything is bounded: acquires, packets behind each, packets in all, and the time.
//! A packet that finds no room is refused itself. Those before it keep their places, so that the first packet of a
//! connection is never the one that is lost.
//!
//! No application takes all of it (paper 000 section 5: optional policies need isolation of resources). Each has its
//! share of acquires and packets and may ask a limited number of times in a second. Acquires for traffic that passes
//! meanwhile leave half of the acquires to those that hold packets. Sockets of no application that ask for protection
//! themselves (`RAVELIN_REQUIRE`, which any user may) share like one application. Only packets that no socket of this
//! host sends (rules, gateways) have all of it.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use sadb::PacketKey;
use sadb::rules::RuleKey;
use sadb::spd::{Failure, Negotiating, Terms};
use wire::stage::Inner;
use wire::{AcquireId, AppId, DropReason, Flow, Packet, Services, Time};

/// The bounds of what may wait, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldLimits {
    /// The largest number of acquires at a time.
    pub acquires: usize,
    /// The largest number of packets behind one acquire.
    pub each: usize,
    /// The largest number of packets that wait.
    pub packets: usize,
    /// The largest number of acquires of one application at a time.
    pub app_acquires: usize,
    /// The largest number of waiting packets of one application.
    pub app_packets: usize,
    /// The largest number of new acquires of one application in a second.
    pub app_asks: u32,
    /// The time that a packet waits, and during which an acquire is not asked again.
    pub age: Duration,
}

impl Default for HoldLimits {
    fn default() -> HoldLimits {
        HoldLimits {
            acquires: 256,
            each: 16,
            packets: 512,
            app_acquires: 64,
            app_packets: 128,
            app_asks: 64,
            age: Duration::from_secs(10),
        }
    }
}

/// The key of an acquire: packets with the same key wait together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub app: AppId,
    /// Whether a socket of this host sends the packets, so that the application's share counts. Without an application
    /// it is the share of all such sockets.
    shares: bool,
    pub local: IpAddr,
    pub remote: IpAddr,
    pub services: Services,
    terms: Terms,
    /// The rule of the SPD that asks, and the values that it populates from the packet.
    rule: Option<(RuleKey, PacketKey)>,
}

impl Key {
    pub(crate) fn new(app: AppId, flow: &Flow, services: Services, terms: &Terms) -> Key {
        let shares = app != AppId::NONE;
        Key { app, shares, local: flow.local, remote: flow.remote, services, terms: *terms, rule: None }
    }

    /// The key for packets from a socket with a stamp, though perhaps without an application.
    pub(crate) fn stamped(self) -> Key {
        Key { shares: true, ..self }
    }

    /// Whether both keys count against the same share.
    fn is_beside(&self, other: &Key) -> bool {
        (self.app, self.shares) == (other.app, other.shares)
    }

    /// The key for packets for which a rule asks.
    pub(crate) fn ruled(self, rule: RuleKey, share: PacketKey) -> Key {
        Key { rule: Some((rule, share)), ..self }
    }

    pub(crate) fn is_ruled(&self) -> bool {
        self.rule.is_some()
    }

    /// Whether packets wait behind an acquire of this key.
    fn holds(&self) -> bool {
        self.terms.negotiating == Negotiating::Hold
    }

    /// Whether packets are treated differently once the acquire has failed than while it was asked, so that the failure
    /// must be remembered.
    fn changes_on_failure(&self) -> bool {
        matches!(
            (self.terms.negotiating, self.terms.failure),
            (Negotiating::Pass, Failure::Drop) | (Negotiating::Hold | Negotiating::Drop, Failure::Pass)
        )
    }
}

struct Pending {
    id: AcquireId,
    key: Key,
    asked: Time,
    /// Whether there was no answer, or a bad one; nothing waits here then.
    failed: bool,
    /// Whether nobody has answered since it was last asked.
    open: bool,
    packets: VecDeque<Packet<Inner>>,
}

impl Pending {
    /// Give the acquire up: there will be no association, and its packets leave with what is to become of them.
    fn fail(&mut self, out: &mut Vec<(Packet<Inner>, Failure)>) {
        self.failed = self.key.changes_on_failure();
        self.open = false;
        let failure = self.key.terms.failure;
        out.extend(self.packets.drain(..).map(|packet| (packet, failure)));
    }
}

/// The packets that wait for an association.
pub(crate) struct Holds {
    limits: HoldLimits,
    pending: Vec<Pending>,
    packets: usize,
    /// The time at which each application's second began, and the number of its acquires since.
    asks: BTreeMap<AppId, (Time, u32)>,
    next: u32,
    /// The state of the databases when the acquires were last examined.
    seen: u64,
}

/// The acquire for a key, and whether it must be announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AcquireState {
    pub id: AcquireId,
    pub new: bool,
    /// Whether the previous acquire for the same key had no good end.
    pub failed: bool,
}

impl Holds {
    pub(crate) fn new(limits: HoldLimits) -> Holds {
        Holds { limits, pending: Vec::new(), packets: 0, asks: BTreeMap::new(), next: 0, seen: 0 }
    }

    /// The acquire for this key, which is made if there is none.
    ///
    /// # Errors
    /// [`DropReason::HoldFull`] if there are too many.
    pub(crate) fn ask(&mut self, key: Key, now: Time) -> Result<AcquireState, DropReason> {
        let next = AcquireId(self.next.wrapping_add(1).max(1));
        if let Some(pending) = self.pending.iter_mut().find(|pending| pending.key == key) {
            let again = pending.failed && now.since(pending.asked) >= self.limits.age;
            if again {
                (pending.id, pending.asked, pending.open) = (next, now, true);
                self.next = next.0;
            }
            return Ok(AcquireState { id: pending.id, new: again, failed: pending.failed });
        }
        self.make_room(&key)?;
        self.count_ask(&key, now)?;
        self.next = next.0;
        self.pending.push(Pending {
            id: next,
            key,
            asked: now,
            failed: false,
            open: true,
            packets: VecDeque::new(),
        });
        Ok(AcquireState { id: next, new: true, failed: false })
    }

    /// Make room for one more acquire; failures that are only remembered go first.
    fn make_room(&mut self, key: &Key) -> Result<(), DropReason> {
        let limits = self.limits;
        let full = |pending: &[Pending], most: usize, of: &dyn Fn(&Pending) -> bool| {
            pending.iter().filter(|pending| of(pending)).count() >= most
        };
        let own = |pending: &Pending| pending.key.is_beside(key);
        if key.shares && full(&self.pending, limits.app_acquires, &own) {
            let stale = self.pending.iter().position(|pending| pending.failed && own(pending));
            self.pending.remove(stale.ok_or(DropReason::HoldFull)?);
        }
        let asks_only = |pending: &Pending| !pending.key.holds();
        if !key.holds() && full(&self.pending, limits.acquires.div_ceil(2), &asks_only) {
            let stale = self.pending.iter().position(|pending| pending.failed && asks_only(pending));
            self.pending.remove(stale.ok_or(DropReason::HoldFull)?);
        }
        if self.pending.len() >= limits.acquires {
            let stale = self.pending.iter().position(|pending| pending.failed);
            self.pending.remove(stale.ok_or(DropReason::HoldFull)?);
        }
        Ok(())
    }

    /// Check that the application may ask once more in this second, and count it.
    fn count_ask(&mut self, key: &Key, now: Time) -> Result<(), DropReason> {
        if !key.shares {
            return Ok(());
        }
        let (begun, asked) = self.asks.entry(key.app).or_insert((now, 0));
        if now.since(*begun) >= Duration::from_secs(1) {
            (*begun, *asked) = (now, 0);
        }
        *asked += 1;
        if *asked > self.limits.app_asks { Err(DropReason::HoldFull) } else { Ok(()) }
    }

    /// Let a packet wait behind this acquire; it is given back if there is no room.
    pub(crate) fn push(&mut self, id: AcquireId, packet: Packet<Inner>) -> Result<(), Packet<Inner>> {
        let Some(at) = self.pending.iter().position(|pending| pending.id == id) else {
            return Err(packet);
        };
        let key = self.pending[at].key;
        let own = self.pending.iter().filter(|pending| pending.key.is_beside(&key));
        let own: usize = own.map(|pending| pending.packets.len()).sum();
        let pending = &mut self.pending[at];
        if pending.packets.len() >= self.limits.each
            || self.packets >= self.limits.packets
            || (key.shares && own >= self.limits.app_packets)
        {
            return Err(packet);
        }
        pending.packets.push_back(packet);
        self.packets += 1;
        Ok(())
    }

    /// Whether nothing waits, or nothing has changed since the last look.
    #[inline]
    pub(crate) fn is_quiet(&self, state: u64) -> bool {
        self.pending.is_empty() || self.seen == state
    }

    /// Remove every acquire that `served` says is answered, the oldest first, and return its packets in order. The
    /// others go on waiting.
    pub(crate) fn answered(
        &mut self,
        state: u64,
        mut served: impl FnMut(&Key, Option<&Packet<Inner>>) -> bool,
    ) -> VecDeque<Packet<Inner>> {
        self.seen = state;
        let mut out = VecDeque::new();
        self.pending.retain_mut(|pending| {
            let answered = served(&pending.key, pending.packets.front());
            if answered {
                out.append(&mut pending.packets);
            }
            !answered
        });
        self.packets -= out.len();
        out
    }

    /// Whether this acquire has had no answer yet.
    pub(crate) fn awaits(&self, id: AcquireId) -> bool {
        self.pending.iter().any(|pending| pending.id == id && pending.open)
    }

    /// Give up an acquire. Returns its packets, with what is to become of them.
    pub(crate) fn refuse(&mut self, id: AcquireId) -> Vec<(Packet<Inner>, Failure)> {
        let Some(at) = self.pending.iter().position(|pending| pending.id == id) else {
            return Vec::new();
        };
        let mut out = Vec::new();
        self.pending[at].fail(&mut out);
        if !self.pending[at].failed {
            self.pending.remove(at);
        }
        self.packets -= out.len();
        out
    }

    /// Remove the packets that waited too long, and return them with what is to become of them. An acquire without
    /// packets is forgotten at the same age, so that the next packet asks again. A failure that matters is forgotten at
    /// twice that age.
    pub(crate) fn expire(&mut self, now: Time) -> Vec<(Packet<Inner>, Failure)> {
        let age = self.limits.age;
        self.asks.retain(|_, (begun, _)| now.since(*begun) < Duration::from_secs(1));
        let mut out = Vec::new();
        self.pending.retain_mut(|pending| {
            let first = pending.packets.front();
            let late = first.is_some_and(|packet| now.since(packet.meta.received) >= age);
            let old = now.since(pending.asked);
            if pending.key.changes_on_failure() {
                if late || (!pending.failed && pending.packets.is_empty() && old >= age) {
                    pending.fail(&mut out);
                }
                return old < age * 2 || !pending.packets.is_empty();
            }
            while pending.packets.front().is_some_and(|packet| now.since(packet.meta.received) >= age) {
                let failure = pending.key.terms.failure;
                out.extend(pending.packets.pop_front().map(|packet| (packet, failure)));
            }
            !pending.packets.is_empty() || old < age
        });
        self.packets -= out.len();
        out
    }

    /// Close the list: no packet finds room any more, and those that wait are late at once.
    pub(crate) fn close(&mut self) {
        self.limits = HoldLimits { acquires: 0, each: 0, packets: 0, age: Duration::ZERO, ..self.limits };
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.limits.packets == 0 && self.packets == 0
    }

    /// The number of packets that wait.
    pub(crate) fn len(&self) -> usize {
        self.packets
    }
}
