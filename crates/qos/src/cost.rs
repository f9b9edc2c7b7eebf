//! What packets cost: learned from what units take.
//!
//! A line gives the cost of a packet on a unit before anything is measured. What is measured moves a factor on the
//! line, one for short packets and one for long ones, since the parts of the line are wrong in different ways. The
//! factor is a moving average (EWMA) in which a measurement below it has a weight of one eighth, and one above it of a
//! thirty-second part.
//!
//! Time is measured by the wall clock, so a thread that the host stops, or that soft interrupts run on top of, takes
//! longer than its packets cost. With equal weights and a cap of four times, one turn of five that is stopped for long
//! would let a packet count four times of what it costs, and one of four without end: a policer in nanoseconds drops its
//! class for that. With these weights the first is 1.07, and one turn of two is 1.33.

use crate::amount::Amount;
use crate::meta::Direction;
use crate::unit::UnitId;

/// The cost of packets, as start-up measures it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Nanoseconds for each packet.
    pub base_ns: u32,
    /// Nanoseconds for 1024 octets.
    pub ns_per_1024: u32,
    /// Nanoseconds that a packet costs less when it joins a batch.
    pub batch_saves_ns: u32,
}

impl Line {
    /// Nanoseconds of the amount, of whose packets so many join a batch.
    pub fn ns(&self, amount: &Amount, joining: u64) -> u64 {
        let base = amount.packets.saturating_mul(u64::from(self.base_ns));
        let octets = amount.octets.saturating_mul(u64::from(self.ns_per_1024)) / 1024;
        let saved = joining.min(amount.packets).saturating_mul(u64::from(self.batch_saves_ns));
        base.saturating_add(octets).saturating_sub(saved).max(1)
    }
}

/// The factor of a line that is right, with 16 bits behind the point.
const ONE: u64 = 1 << 16;
/// The weight of a measurement below the average is one part in so many.
const FALL: i64 = 8;
/// The weight of one above it: a thread that the host stopped for a while says nothing of the packet.
const RISE: i64 = 32;
/// A measurement counts as no more than this many times what was expected.
const HIGHEST: u64 = 2;
/// A measurement counts as no less than this part of what was expected.
const LOWEST: u64 = 4;
/// Packets of fewer octets than this are short.
const SHORT: u64 = 512;

#[derive(Clone, Copy, Debug)]
struct Learned {
    line: Line,
    /// The factors of short and of long packets.
    factors: [u64; 2],
}

impl Learned {
    const fn new(line: Line) -> Learned {
        Learned { line, factors: [ONE; 2] }
    }
}

/// The kind of work whose cost is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The unit that does it.
    pub unit: UnitId,
    /// The number of the suite.
    pub suite: u16,
    /// Whether packets are sealed or opened.
    pub direction: Direction,
    /// The packets of it that join a batch, and cost less for it.
    pub joining: u64,
}

/// The costs of each suite on each unit in each direction.
#[derive(Clone, Debug)]
pub struct CostModel {
    units: usize,
    suites: usize,
    lines: Vec<Learned>,
}

impl CostModel {
    /// A model for this many units and suites, all of which cost as the line says until they are set or learned. Units
    /// and suites beyond them cost as the last ones do.
    pub fn new(units: u8, suites: u16, line: Line) -> CostModel {
        let (units, suites) = (usize::from(units.max(1)), usize::from(suites.max(1)));
        CostModel { units, suites, lines: vec![Learned::new(line); units * suites * 2] }
    }

    /// Set the line of a suite on a unit, and forget what was learned of it.
    pub fn set(&mut self, unit: UnitId, suite: u16, direction: Direction, line: Line) {
        let at = self.place(&Work { unit, suite, direction, joining: 0 });
        self.lines[at] = Learned::new(line);
    }

    /// Let a unit cost what another one costs in a model of the same suites.
    pub(crate) fn copy_unit(&mut self, unit: UnitId, from: &CostModel, of: UnitId) {
        let row = self.suites.min(from.suites) * 2;
        let start =
            |model: &CostModel, unit: UnitId| usize::from(unit.0).min(model.units - 1) * model.suites * 2;
        let (to, source) = (start(self, unit), start(from, of));
        self.lines[to..to + row].copy_from_slice(&from.lines[source..source + row]);
    }

    /// The nanoseconds that the amount costs; at least 1.
    pub fn ns(&self, work: &Work, amount: &Amount) -> u64 {
        let learned = &self.lines[self.place(work)];
        let ns = u128::from(learned.line.ns(amount, work.joining));
        let factor = u128::from(learned.factors[length(amount)]);
        u64::try_from((ns * factor) >> 16).unwrap_or(u64::MAX).max(1)
    }

    /// Learn from work that took this many nanoseconds.
    pub fn learn(&mut self, work: &Work, amount: &Amount, spent: u64) {
        let at = self.place(work);
        let learned = &mut self.lines[at];
        let factor = &mut learned.factors[length(amount)];
        let expected = learned.line.ns(amount, work.joining);
        // What took longer than three days is an outlier in any case.
        let measured = (spent.min(u64::MAX >> 16) << 16) / expected;
        *factor = follow(*factor, measured).clamp(1, ONE << 20);
    }

    fn place(&self, work: &Work) -> usize {
        let unit = usize::from(work.unit.0).min(self.units - 1);
        let suite = usize::from(work.suite).min(self.suites - 1);
        (unit * self.suites + suite) * 2 + usize::from(work.direction == Direction::Inbound)
    }
}

/// An average of what packets cost that follows a measurement: slowly where that is above it. At least 1.
pub fn follow(average: u64, measured: u64) -> u64 {
    let measured = measured.clamp((average / LOWEST).max(1), average.saturating_mul(HIGHEST).max(1));
    // A difference smaller than the weight still moves the average, so that it does not stop short.
    let difference = measured as i64 - average as i64;
    let weight = if difference > 0 { RISE } else { FALL };
    let step = difference / weight + (difference % weight).signum();
    average.saturating_add_signed(step).max(1)
}

/// The place of the factor for packets of this length.
fn length(amount: &Amount) -> usize {
    usize::from(amount.octets >= SHORT * amount.packets.max(1))
}
