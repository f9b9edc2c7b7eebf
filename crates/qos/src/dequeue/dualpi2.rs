//! DualPI2 (RFC 9332 appendix A): one controller for two queues, low latency and classic, that share a link.
//!
//! A proportional and integral controller follows the time that packets wait, to a base probability `p'`. Classic packets
//! are dropped or marked with `p_C = p'^2`, packets of the low latency queue are marked with `p_CL = k * p'` or by their
//! own ramp, whichever is more. Drops and marks are not random but spread evenly (`recur` of Figure 4).
//!
//! The controller owns no packet. [`DualQueue`](super::DualQueue) puts it together with its two queues, so that nothing is
//! shared and nothing is locked: the controller, its scheduler and the queues have one owner.

use wire::Time;

use crate::behaviour::SettingsError;
use crate::component::{Cause, Leave};
use crate::meta::Meta;

/// The parameters of Figure 2 of RFC 9332.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DualPi2Settings {
    /// The target for the time that packets wait, in nanoseconds.
    pub target: u64,
    /// The longest round trip time that is expected, in nanoseconds.
    pub rtt_max: u64,
    /// The coupling factor `k`.
    pub coupling: f64,
    /// The waiting time at which the low latency queue begins to mark, in nanoseconds.
    pub ramp_start: u64,
    /// The width of the ramp from no marks to all marks, in nanoseconds. A width of zero is a step.
    pub ramp_range: u64,
    /// The most packets in the low latency queue for which its own ramp is not asked.
    pub ramp_packets: u64,
    /// The share of the classic queue while both have packets: one octet of so many.
    pub classic_share: u32,
}

impl Default for DualPi2Settings {
    fn default() -> DualPi2Settings {
        DualPi2Settings {
            target: 15_000_000,
            rtt_max: 100_000_000,
            coupling: 2.0,
            ramp_start: 800_000,
            ramp_range: 400_000,
            ramp_packets: 1,
            classic_share: 16,
        }
    }
}

/// One of the two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Branch {
    /// The queue of packets with ECT(1) or CE.
    Low,
    /// The queue of all other packets.
    Classic,
}

impl Branch {
    /// The queue that a packet belongs to (Figure 3, lines 6 to 9).
    pub const fn of(meta: &Meta) -> Branch {
        if meta.ecn & 1 == 1 { Branch::Low } else { Branch::Classic }
    }
}

/// The controller of Figures 4 to 8 of RFC 9332.
#[derive(Clone, Copy, Debug)]
pub struct DualPi2 {
    settings: DualPi2Settings,
    /// The time between updates in nanoseconds, and the gains of one update, for each second of waiting.
    update_every: u64,
    alpha: f64,
    beta: f64,
    base: f64,
    previous: f64,
    next_update: Time,
    /// What is owed to each queue in marks: the `count` of Figure 4.
    owed: [f64; 2],
}

/// The seconds of a number of nanoseconds.
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl DualPi2 {
    /// A controller of two empty queues.
    pub fn new(settings: DualPi2Settings) -> Result<DualPi2, SettingsError> {
        let DualPi2Settings { target, rtt_max, coupling, classic_share, .. } = settings;
        if target == 0 || rtt_max < 3 {
            return Err(SettingsError::NoInterval);
        }
        if !(coupling > 0.0 && coupling.is_finite()) || classic_share < 2 {
            return Err(SettingsError::NoProbability);
        }
        let update_every = target.min(rtt_max / 3);
        let alpha = 0.1 * seconds(update_every) / (seconds(rtt_max) * seconds(rtt_max));
        let beta = 0.3 / seconds(rtt_max);
        let (next_update, owed) = (Time(0), [0.0; 2]);
        Ok(DualPi2 { settings, update_every, alpha, beta, base: 0.0, previous: 0.0, next_update, owed })
    }

    /// The parameters of the controller.
    pub const fn settings(&self) -> &DualPi2Settings {
        &self.settings
    }

    /// The nanoseconds between two updates: `Tupdate` of Figure 2.
    pub const fn update_every(&self) -> u64 {
        self.update_every
    }

    /// The base probability `p'`.
    pub const fn base(&self) -> f64 {
        self.base
    }

    /// The probability for classic packets, `p_C = p'^2`.
    pub const fn classic(&self) -> f64 {
        self.base * self.base
    }

    /// The probability that is coupled to the low latency queue, `p_CL = k * p'`, and 1 at most.
    pub const fn coupled(&self) -> f64 {
        (self.settings.coupling * self.base).min(1.0)
    }

    /// The classic probability from which on ECN is not heeded: `p_Cmax` of Figure 2.
    pub const fn overload(&self) -> f64 {
        (1.0 / (self.settings.coupling * self.settings.coupling)).min(1.0)
    }

    /// The probability of the ramp of the low latency queue (Figure 5).
    pub fn ramp(&self, waiting: u64) -> f64 {
        let DualPi2Settings { ramp_start, ramp_range, .. } = self.settings;
        if waiting >= ramp_start.saturating_add(ramp_range) {
            1.0
        } else if waiting > ramp_start {
            (waiting - ramp_start) as f64 / ramp_range as f64
        } else {
            0.0
        }
    }

    /// Bring `p'` up to date (Figure 8), with the waiting time of the queue that waits longer. Updates that nobody called
    /// for are made up for at once, as if that time had not changed since.
    pub fn update(&mut self, now: Time, low: Option<&Meta>, classic: Option<&Meta>) {
        if now < self.next_update {
            return;
        }
        let missed = (now.0 - self.next_update.0) / self.update_every;
        let updates = missed.saturating_add(1);
        let waiting = |head: Option<&Meta>| head.map_or(0, |meta| now.0.saturating_sub(meta.arrived.0));
        let current = seconds(waiting(low).max(waiting(classic)));
        let integral = self.alpha * (current - seconds(self.settings.target)) * updates as f64;
        let proportional = self.beta * (current - self.previous);
        self.base = (self.base + integral + proportional).clamp(0.0, 1.0);
        self.previous = current;
        self.next_update = Time(self.next_update.0.saturating_add(updates.saturating_mul(self.update_every)));
    }

    /// The function `recur` of Figure 4: true with this likelihood, evenly spread.
    fn recur(&mut self, branch: Branch, likelihood: f64) -> bool {
        let owed = &mut self.owed[branch as usize];
        *owed += likelihood;
        let is_time = *owed > 1.0;
        if is_time {
            *owed -= 1.0;
        }
        is_time
    }

    /// What becomes of the packet that leaves this queue (Figure 7). `packets` are those in the queue, it among them.
    pub fn decide(&mut self, branch: Branch, head: &Meta, packets: u64, now: Time) -> Leave {
        let (classic, coupled) = (self.classic(), self.coupled());
        if branch == Branch::Classic {
            return match self.recur(branch, classic) {
                false => Leave::Give,
                true if head.is_ecn_capable() && classic < self.overload() => Leave::Mark,
                true => Leave::Drop(Cause::Aqm),
            };
        }
        if coupled < 1.0 {
            let is_short = packets <= self.settings.ramp_packets;
            let native = if is_short { 0.0 } else { self.ramp(now.0.saturating_sub(head.arrived.0)) };
            return if self.recur(branch, native.max(coupled)) { Leave::Mark } else { Leave::Give };
        }
        if self.recur(branch, classic) {
            return Leave::Drop(Cause::Aqm);
        }
        if self.recur(branch, coupled) { Leave::Mark } else { Leave::Give }
    }
}
