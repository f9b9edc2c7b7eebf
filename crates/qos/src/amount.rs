//! Amounts of waiting work in the three measures of paper 002: packets, octets, and the time that they cost.

use std::ops::{AddAssign, SubAssign};

/// One of the three measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Measure {
    /// The number of packets. A super-packet counts as its pieces.
    Packets,
    /// Octets of the packets.
    Octets,
    /// Nanoseconds of a processor that the packets will cost.
    Nanoseconds,
}

/// An amount of work in all three measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// The number of packets. A super-packet counts as its pieces.
    pub packets: u64,
    /// Octets of the packets.
    pub octets: u64,
    /// Nanoseconds of a processor that the packets will cost.
    pub ns: u64,
}

impl Amount {
    /// The amount in one measure.
    pub const fn of(&self, measure: Measure) -> u64 {
        match measure {
            Measure::Packets => self.packets,
            Measure::Octets => self.octets,
            Measure::Nanoseconds => self.ns,
        }
    }
}

impl Amount {
    /// The amount of one packet, if so many packets have this amount together; `None` if there is none.
    pub const fn mean(&self) -> Option<Amount> {
        match self.packets {
            0 => None,
            packets => Some(Amount { packets: 1, octets: self.octets / packets, ns: self.ns / packets }),
        }
    }
}

/// Octets and nanoseconds of packets that are counted elsewhere. They are exact modulo 2^64, and cost no comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Burden {
    octets: u64,
    ns: u64,
}

impl Burden {
    #[inline]
    pub(crate) fn add(&mut self, amount: &Amount) {
        self.octets = self.octets.wrapping_add(amount.octets);
        self.ns = self.ns.wrapping_add(amount.ns);
    }

    #[inline]
    pub(crate) fn take(&mut self, amount: &Amount) {
        self.octets = self.octets.wrapping_sub(amount.octets);
        self.ns = self.ns.wrapping_sub(amount.ns);
    }

    /// The amount of so many packets that have this burden.
    pub(crate) const fn of(self, packets: u64) -> Amount {
        Amount { packets, octets: self.octets, ns: self.ns }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Amount) {
        self.packets = self.packets.saturating_add(other.packets);
        self.octets = self.octets.saturating_add(other.octets);
        self.ns = self.ns.saturating_add(other.ns);
    }
}

impl SubAssign for Amount {
    fn sub_assign(&mut self, other: Amount) {
        self.packets = self.packets.saturating_sub(other.packets);
        self.octets = self.octets.saturating_sub(other.octets);
        self.ns = self.ns.saturating_sub(other.ns);
    }
}

/// The most that may wait, in all three measures. [`u64::MAX`] is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The most packets that may wait.
    pub packets: u64,
    /// The most octets that may wait.
    pub octets: u64,
    /// The most nanoseconds of a processor.
    pub ns: u64,
}

impl Limit {
    /// No limit in any measure.
    pub const NONE: Limit = Limit { packets: u64::MAX, octets: u64::MAX, ns: u64::MAX };

    /// Whether `more` beside `now` is within the limit in each measure. What a packet costs is a guess, and on a busy
    /// machine a high one: where nothing is, nanoseconds keep nothing out. A super-packet of a slow cipher would find an
    /// empty queue full else, each time.
    pub const fn admits(&self, now: Amount, more: Amount) -> bool {
        now.packets.saturating_add(more.packets) <= self.packets
            && now.octets.saturating_add(more.octets) <= self.octets
            && (now.packets == 0 || now.ns.saturating_add(more.ns) <= self.ns)
    }
}

impl Limit {
    /// The number of packets like `each` for which there is room beside `now`; [`u64::MAX`] where there is no limit.
    pub fn room(&self, now: Amount, each: Amount) -> u64 {
        let measures = [Measure::Packets, Measure::Octets, Measure::Nanoseconds];
        let room = measures.map(|measure| match self.of(measure) {
            u64::MAX => u64::MAX,
            most => most.saturating_sub(now.of(measure)) / each.of(measure).max(1),
        });
        room.into_iter().min().unwrap_or(u64::MAX)
    }

    /// The most in one measure.
    const fn of(&self, measure: Measure) -> u64 {
        match measure {
            Measure::Packets => self.packets,
            Measure::Octets => self.octets,
            Measure::Nanoseconds => self.ns,
        }
    }
}

impl Default for Limit {
    fn default() -> Limit {
        Limit::NONE
    }
}
