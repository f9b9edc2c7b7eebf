//! CoDel (RFC 8289): packets are dropped or marked once the time that they wait stays above a target for an interval,
//! and the sooner after one another the longer that lasts.
//!
//! The pseudocode of section 5.5 takes packets from the queue itself. Here each packet that is next is a call, so the
//! loop of the pseudocode goes over calls: the call for the packet behind one that was dropped schedules the next drop.
//! A marked packet leaves, and the next drop or mark is due from then on, as Linux does it.

use wire::Time;

use super::step;
use crate::behaviour::SettingsError;
use crate::component::{About, Backlog, Cause, Context, Dequeue, Leave};
use crate::meta::Meta;

/// The constants of RFC 8289 section 5.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelSettings {
    /// The target for the time that packets wait, in nanoseconds.
    pub target: u64,
    /// The interval for which it must be exceeded, in nanoseconds.
    pub interval: u64,
    /// The octets of the largest packet: with no more than these behind the packet that is next, nothing is dropped.
    pub max_packet: u64,
    /// Whether packets that can carry a congestion mark are marked instead of dropped.
    pub ecn: bool,
}

impl Default for CodelSettings {
    fn default() -> CodelSettings {
        CodelSettings { target: 5_000_000, interval: 100_000_000, max_packet: 1500, ecn: true }
    }
}

impl CodelSettings {
    /// Refuse a target or an interval of zero.
    pub(crate) const fn check(self) -> Result<CodelSettings, SettingsError> {
        if self.target == 0 || self.interval == 0 { Err(SettingsError::NoInterval) } else { Ok(self) }
    }

    /// Whether this packet is marked rather than dropped.
    pub(crate) const fn marks(&self, meta: &Meta) -> bool {
        self.ecn && meta.is_ecn_capable()
    }

    /// The settings in one line.
    pub(crate) fn line(&self) -> String {
        let CodelSettings { target, interval, max_packet, ecn } = self;
        format!("target {target} ns, interval {interval} ns, largest packet {max_packet}, ecn {ecn}")
    }
}

/// The state of RFC 8289 section 5.2, one for each queue; flow queues have one each ([`super::PerFlow`]).
#[derive(Clone, Copy, Debug)]
pub struct Codel {
    settings: CodelSettings,
    first_above: Option<Time>,
    drop_next: Time,
    count: u32,
    last_count: u32,
    dropping: bool,
    /// Whether a packet was dropped in the drop state: the call for the next one schedules the drop after it.
    unscheduled: bool,
    now: Time,
}

impl Codel {
    /// The state of an empty queue.
    pub fn new(settings: CodelSettings) -> Result<Codel, SettingsError> {
        Ok(Codel {
            settings: settings.check()?,
            first_above: None,
            drop_next: Time(0),
            count: 0,
            last_count: 0,
            dropping: false,
            unscheduled: false,
            now: Time(0),
        })
    }

    /// Whether packets are being dropped now and then, as the queue has been too long for an interval.
    pub const fn is_dropping(&self) -> bool {
        self.dropping
    }

    /// The time of the next drop, while packets are dropped.
    pub const fn drop_next(&self) -> Time {
        self.drop_next
    }

    /// The number of drops that the control law counts.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The helper `dodequeue` of section 5.6: whether it is right to drop this packet.
    fn ok_to_drop(&mut self, head: &Meta, backlog: &Backlog) -> bool {
        let behind = backlog.now.octets.saturating_sub(head.amount.octets);
        let sojourn = self.now.0.saturating_sub(head.arrived.0);
        if sojourn < self.settings.target || behind <= self.settings.max_packet {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(self.after(self.now, 1));
                false
            }
            Some(first_above) => self.now >= first_above,
        }
    }

    /// The time of the drop that follows one at `from`, by the control law of section 5.6.
    fn after(&self, from: Time, count: u32) -> Time {
        Time(from.0.saturating_add(step(self.settings.interval, count)))
    }

    /// Enter the drop state: the rate of the last time is taken up again if that was not long ago.
    fn enter(&mut self, head: &Meta) -> Leave {
        self.dropping = true;
        let delta = self.count.saturating_sub(self.last_count);
        let recent = self.now.0.saturating_sub(self.drop_next.0) < self.settings.interval.saturating_mul(16);
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = self.after(self.now, self.count);
        self.last_count = self.count;
        if self.settings.marks(head) { Leave::Mark } else { Leave::Drop(Cause::Aqm) }
    }

    /// Drop or mark in the drop state if the time has come.
    fn drop_if_due(&mut self, head: &Meta) -> Leave {
        if self.now < self.drop_next {
            return Leave::Give;
        }
        self.count = self.count.saturating_add(1);
        if self.settings.marks(head) {
            self.drop_next = self.after(self.drop_next, self.count);
            return Leave::Mark;
        }
        self.unscheduled = true;
        Leave::Drop(Cause::Aqm)
    }
}

impl Dequeue for Codel {
    fn decide(&mut self, head: &Meta, backlog: &Backlog, context: &Context) -> Leave {
        self.now = self.now.max(context.now);
        let ok = self.ok_to_drop(head, backlog);
        if std::mem::take(&mut self.unscheduled) && ok {
            self.drop_next = self.after(self.drop_next, self.count);
        }
        if self.dropping {
            self.dropping = ok;
            if ok { self.drop_if_due(head) } else { Leave::Give }
        } else if ok {
            self.enter(head)
        } else {
            Leave::Give
        }
    }

    fn about(&self) -> About {
        About { kind: "codel", settings: self.settings.line() }
    }
}
