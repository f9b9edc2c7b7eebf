//! A shaper: packets leave no faster than a rate (RFC 2475 section 2.3.3.3), counted as they will stand on the link.
//!
//! A packet counts with the octets of its outer header and, for each piece, the overhead of the link below, as ATM cells
//! or Ethernet framing add it. Over any time `T`, no more than `rate * T + burst` and one packet leave: a packet is due
//! while the debt of those before it is within the burst, so that a packet greater than the burst leaves too.

use wire::Time;

use super::{SettingsError, live};
use crate::component::{About, Behaviour, Cause, Context, Entry, Verdict};
use crate::meta::Meta;

/// The settings of a shaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapeSettings {
    /// Octets a second on the link.
    pub rate: u64,
    /// Octets that may leave at once after silence.
    pub burst: u64,
    /// Octets that the link adds to each packet.
    pub overhead: u32,
    /// The longest that a packet may have to wait, in nanoseconds. One that would wait longer is dropped.
    pub limit_ns: u64,
}

/// The arithmetic of a shaper: when the next packet is due. It is exact; parts of nanoseconds are carried on.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    settings: ShapeSettings,
    burst_ns: u64,
    /// The time at which the link would have sent all that left, and parts of a nanosecond beyond it, `1 / rate` each.
    busy: u64,
    part: u64,
}

impl Pacer {
    /// A pacer of an idle link.
    pub fn new(settings: ShapeSettings) -> Result<Pacer, SettingsError> {
        if settings.rate == 0 {
            return Err(SettingsError::NoRate);
        }
        let burst_ns = u128::from(settings.burst) * 1_000_000_000 / u128::from(settings.rate);
        let burst_ns = u64::try_from(burst_ns).unwrap_or(u64::MAX);
        Ok(Pacer { settings, burst_ns, busy: 0, part: 0 })
    }

    /// The settings of the pacer.
    pub const fn settings(&self) -> &ShapeSettings {
        &self.settings
    }

    /// The octets that a packet has on the link.
    pub const fn size(&self, meta: &Meta) -> u64 {
        meta.amount.octets.saturating_add(meta.amount.packets.saturating_mul(self.settings.overhead as u64))
    }

    /// The time from which the next packet may leave.
    pub const fn due(&self) -> Time {
        Time(self.busy.saturating_sub(self.burst_ns))
    }

    /// Count a packet that leaves now.
    pub fn charge(&mut self, now: Time, meta: &Meta) {
        if self.busy < now.0 {
            (self.busy, self.part) = (now.0, 0);
        }
        let rate = u128::from(self.settings.rate);
        let parts = u128::from(self.size(meta)) * 1_000_000_000 + u128::from(self.part);
        self.busy = self.busy.saturating_add(u64::try_from(parts / rate).unwrap_or(u64::MAX));
        self.part = (parts % rate) as u64;
    }

    /// A packet that was charged, or a part of it, did not leave.
    pub fn credit(&mut self, meta: &Meta) {
        let ns = u128::from(self.size(meta)) * 1_000_000_000 / u128::from(self.settings.rate);
        self.busy = self.busy.saturating_sub(u64::try_from(ns).unwrap_or(u64::MAX));
    }

    /// The settings in one line.
    pub(crate) fn line(&self) -> String {
        let ShapeSettings { rate, burst, overhead, limit_ns } = self.settings;
        format!("{rate} octets/s, burst {burst}, overhead {overhead}, limit {limit_ns} ns")
    }
}

/// A shaper as a behaviour. It passes a batch, and [`Behaviour::eligible_at`] tells until when the hook holds the next
/// one. Packets that would be due later than the limit are dropped.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pacer: Pacer,
    now: Time,
}

impl Shape {
    /// A shaper of an idle link.
    pub fn new(settings: ShapeSettings) -> Result<Shape, SettingsError> {
        Ok(Shape { pacer: Pacer::new(settings)?, now: Time(0) })
    }
}

impl Behaviour for Shape {
    fn run(&mut self, batch: &mut [Entry], context: &Context) {
        self.now = self.now.max(context.now);
        for entry in live(batch) {
            if self.pacer.due().0.saturating_sub(self.now.0) > self.pacer.settings.limit_ns {
                entry.verdict = Verdict::Drop(Cause::ShapedOut);
            } else {
                self.pacer.charge(self.now, &entry.meta);
            }
        }
    }

    fn eligible_at(&self) -> Option<Time> {
        Some(self.pacer.due()).filter(|due| *due > self.now)
    }

    fn about(&self) -> About {
        About { kind: "shape", settings: self.pacer.line() }
    }
}
