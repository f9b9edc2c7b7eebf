//! A limit that tunes itself, as the dynamic queue limits of Linux do for the rings of network devices, in nanoseconds.
//!
//! The limit should be the least with which the unit does not run dry before it gets more work. If it ran dry while
//! work was held back, the limit was too low by what was held back or more, and grows by that. If it did not for a hold
//! time, the limit falls by the least slack of that time: what it exceeded twice the work of one round by.

use wire::Time;

/// The time in nanoseconds for which the least slack is watched before the limit falls.
const HOLD: u64 = 100_000_000;

/// A limit of committed work that tunes itself.
#[derive(Clone, Debug)]
pub struct Dql {
    limit: u64,
    least: u64,
    most: u64,
    /// Work given and work answered since the start.
    given: u64,
    answered: u64,
    /// The most by which work that was held back would have exceeded the limit, in this round and in the one before.
    held: u64,
    held_before: u64,
    /// What had been given when the last round ended.
    given_before: u64,
    slack: u64,
    slack_since: Option<Time>,
}

impl Dql {
    /// A limit between these nanoseconds, which starts at the least.
    pub fn new(least: u64, most: u64) -> Dql {
        Dql {
            limit: least.min(most),
            least: least.min(most),
            most,
            given: 0,
            answered: 0,
            held: 0,
            held_before: 0,
            given_before: 0,
            slack: u64::MAX,
            slack_since: None,
        }
    }

    /// The limit in nanoseconds.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The unit got this much work.
    pub fn give(&mut self, ns: u64) {
        self.given = self.given.saturating_add(ns);
    }

    /// The unit gives back this much of what it got, unworked.
    pub fn take_back(&mut self, ns: u64) {
        self.given = self.given.saturating_sub(ns);
    }

    /// Work was held back since it would have exceeded the limit by this much.
    pub fn hold_back(&mut self, ns: u64) {
        self.held = self.held.max(ns);
    }

    /// The unit answered this much work since the last round: a round ends.
    pub fn answer(&mut self, ns: u64, now: Time) {
        let answered = self.answered.saturating_add(ns);
        let is_dry = self.given <= answered;
        let was_dry = self.given_before <= self.answered;
        let answered_all_before = answered >= self.given_before;
        let since = *self.slack_since.get_or_insert(now);
        let mut limit = self.limit;
        if (self.held > 0 && is_dry) || (self.held_before > 0 && answered_all_before) {
            let beyond = answered.saturating_sub(self.given_before);
            limit = limit.saturating_add(beyond).saturating_add(self.held_before).max(limit + 1);
            self.watch_slack_from(now);
        } else if !is_dry && !was_dry && !answered_all_before {
            let needed = (answered - self.answered).saturating_mul(2);
            self.slack = self.slack.min(limit.saturating_add(self.held_before).saturating_sub(needed));
            if now.0.saturating_sub(since.0) > HOLD {
                limit = limit.saturating_sub(self.slack);
                self.watch_slack_from(now);
            }
        }
        limit = limit.clamp(self.least, self.most);
        // What exceeded the old limit says nothing of the new one.
        self.held_before = if limit == self.limit { self.held } else { 0 };
        (self.limit, self.held) = (limit, 0);
        (self.answered, self.given_before) = (answered, self.given);
    }

    fn watch_slack_from(&mut self, now: Time) {
        self.slack = u64::MAX;
        self.slack_since = Some(now);
    }
}
