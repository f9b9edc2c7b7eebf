//! COBALT, CoDel with BLUE, after the public description of CAKE (Høiland-Jørgensen, Täht and Morton, "Piece of CAKE",
//! 2018, and tc-cake(8)): CoDel answers senders that heed it, a drop probability those that do not.
//!
//! It differs from RFC 8289 in these points. The drop state is entered as soon as a packet waited longer than the target,
//! and the first drop of a queue that was calm is an interval later. The count is not forgotten when the state ends: it
//! falls by one at each instant of the control law, so that a queue that is soon too long again goes on at nearly the
//! same rate. BLUE raises its probability by 1/256 when the queue is full and lowers it by 1/4096 when the queue is
//! empty, each at most once a target, and does not heed ECN.
//!
//! It differs from CAKE in one point: instants of the control law that are late are not made up for by a run of drops. At
//! most one packet is dropped by the law for each that leaves, and BLUE takes over where that is too little, so that
//! losses stay spread after a pause of whoever serves the queue (paper 002 section VI).
//!
//! A queue counts as full when a packet of it ended since there was no room, or when one of the size of the one that is
//! next would not fit beside what waits, and as empty when nothing is behind that one. The last packet of a queue may be
//! marked and is never dropped.

use wire::Time;

use super::{CodelSettings, step};
use crate::behaviour::SettingsError;
use crate::component::{About, Backlog, Cause, Context, Dequeue, Leave};
use crate::draw::Draws;
use crate::meta::Meta;

/// The step by which the probability rises, in parts of 2^32: 1/256.
const UP: u32 = 1 << 24;

/// The step by which the probability falls, in parts of 2^32: 1/4096.
const DOWN: u32 = 1 << 20;

/// The most instants of the control law that one packet makes up for one by one.
const STEPS: u32 = 64;

/// The state of COBALT, one for each queue; flow queues have one each ([`super::PerFlow`]).
#[derive(Clone, Copy, Debug)]
pub struct Cobalt {
    settings: CodelSettings,
    dropping: bool,
    drop_next: Time,
    count: u32,
    /// The probability of BLUE in parts of 2^32, and the time at which it changed.
    probability: u32,
    changed: Option<Time>,
    draws: Draws,
    now: Time,
}

impl Cobalt {
    /// The state of an empty queue.
    pub fn new(settings: CodelSettings) -> Result<Cobalt, SettingsError> {
        Ok(Cobalt {
            settings: settings.check()?,
            dropping: false,
            drop_next: Time(0),
            count: 0,
            probability: 0,
            changed: None,
            draws: Draws::default(),
            now: Time(0),
        })
    }

    /// The drop probability of BLUE, in parts of 2^32.
    pub const fn probability(&self) -> u32 {
        self.probability
    }

    /// The number of drops that the control law counts.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The time of the next drop by the control law, or of the next decrement of the count.
    pub const fn drop_next(&self) -> Time {
        self.drop_next
    }

    /// The queue was full when a packet came.
    pub fn queue_full(&mut self, now: Time) {
        self.now = self.now.max(now);
        if self.may_change() {
            self.probability = self.probability.saturating_add(UP);
            self.changed = Some(self.now);
        }
        self.dropping = true;
        self.drop_next = self.now;
        self.count = self.count.max(1);
    }

    /// The queue was empty when a packet was asked for.
    pub fn queue_empty(&mut self, now: Time) {
        self.now = self.now.max(now);
        if self.probability != 0 && self.may_change() {
            self.probability = self.probability.saturating_sub(DOWN);
            self.changed = Some(self.now);
        }
        self.dropping = false;
        if self.is_due() {
            self.decay();
        }
    }

    /// Whether a target has passed since the probability changed.
    fn may_change(&self) -> bool {
        self.changed.is_none_or(|changed| self.now.0.saturating_sub(changed.0) > self.settings.target)
    }

    /// Whether the instant of the control law has come.
    fn is_due(&self) -> bool {
        self.count != 0 && self.now >= self.drop_next
    }

    /// Go on to the next instant of the control law.
    fn advance(&mut self) {
        self.drop_next = Time(self.drop_next.0.saturating_add(step(self.settings.interval, self.count)));
    }

    /// Count one drop or mark. If the next one would be late already, packets leave more slowly than the law drops: then
    /// the count stays, and the law goes on from now.
    fn signal(&mut self) {
        let before = *self;
        self.count = self.count.saturating_add(1);
        self.advance();
        if self.is_due() {
            *self = Cobalt { drop_next: self.now, ..before };
            self.advance();
        }
    }

    /// Forget one drop, at an instant at which none was right.
    fn decay(&mut self) {
        self.count -= 1;
        self.advance();
    }

    /// Make up for the instants that passed without a drop: one by one, and those of a long silence at once. The sum of
    /// `1 / sqrt(n)` up to `count` is near `2 * sqrt(count)`.
    fn make_up(&mut self) {
        for _ in 0..STEPS {
            if !self.is_due() {
                return;
            }
            self.decay();
        }
        if self.is_due() {
            let late = self.now.0.saturating_sub(self.drop_next.0) / 2 / self.settings.interval;
            let root = u64::from(self.count.isqrt()).saturating_sub(late);
            self.count = (root * root).min(u64::from(self.count)) as u32;
            self.drop_next = self.now;
            self.advance();
        }
    }

    /// Whether the control law or BLUE ends this packet; `Mark` where it is marked.
    fn judge(&mut self, head: &Meta, behind: u64, random: u64) -> Leave {
        let sojourn = self.now.0.saturating_sub(head.arrived.0);
        let is_above = sojourn > self.settings.target && behind > self.settings.max_packet;
        let was_due = self.is_due();
        if is_above && !self.dropping {
            self.drop_next = Time(self.now.0.saturating_add(step(self.settings.interval, self.count)));
        }
        if is_above {
            self.count = self.count.max(1);
        }
        self.dropping = is_above;
        let mut leave = Leave::Give;
        if self.dropping && was_due {
            self.signal();
            leave = if self.settings.marks(head) { Leave::Mark } else { Leave::Drop(Cause::Aqm) };
        } else if !self.dropping {
            self.make_up();
        }
        if self.probability != 0 && (self.draws.next(random) as u32) < self.probability {
            leave = Leave::Drop(Cause::Aqm);
        }
        if self.count == 0 {
            self.drop_next = Time(self.now.0.saturating_add(self.settings.interval));
        }
        leave
    }
}

impl Dequeue for Cobalt {
    fn decide(&mut self, head: &Meta, backlog: &Backlog, context: &Context) -> Leave {
        self.now = self.now.max(context.now);
        if !backlog.limit.admits(backlog.now, head.amount) {
            self.queue_full(self.now);
        }
        let behind = backlog.now.octets.saturating_sub(head.amount.octets);
        let leave = self.judge(head, behind, context.random);
        if backlog.now.packets > head.amount.packets {
            return leave;
        }
        self.queue_empty(self.now);
        // Without this a flood that answers to no drop brings the probability of BLUE to one, and nothing leaves any more.
        match leave {
            Leave::Drop(_) => Leave::Give,
            leave => leave,
        }
    }

    fn overflowed(&mut self, _queue: u32, now: Time) {
        self.queue_full(now);
    }

    fn about(&self) -> About {
        About { kind: "cobalt", settings: self.settings.line() }
    }
}
