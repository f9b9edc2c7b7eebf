//! Work of sliced units: the thread that dispatches does it in steps, and expedited packets get in between (paper 002
//! section III.E; docs/design/0046).
//!
//! What enters: work that is prepared, as for a unit that answers later. What leaves: the same work, done, in the order in
//! which it came. One piece is in progress at a time, whatever unit it is for, since there is one thread. The shell says
//! when a step begins and when what it brought is carried out, from which the length of further steps is learned.

use std::collections::VecDeque;

use ipsec::Steps;
use qos::unit::UnitId;
use wire::Time;

use super::Flight;

/// Costs are kept for so many octets, so that a fast cipher's is no fraction.
const UNIT_OCTETS: u64 = 1024;

/// The nanoseconds that [`UNIT_OCTETS`] of a suite take of which nothing is known: those of a slow cipher.
const UNKNOWN: u64 = 200 * UNIT_OCTETS;

/// Work that can be done in steps.
pub(crate) trait Stepped {
    /// The unit that it is for.
    fn unit(&self) -> UnitId;

    /// The nanoseconds that it is expected to take.
    fn expected(&self) -> u64;

    /// The number of octets in its packets.
    fn octets(&self) -> u64;

    /// Do as much as about so many octets take, which what was done is taken off. Returns whether all is done.
    fn step(&mut self, steps: &mut Steps, octets: &mut usize) -> bool;

    /// The nanoseconds that it took so far.
    fn spent(&self) -> u64;

    /// It took so many nanoseconds more.
    fn add_spent(&mut self, ns: u64);
}

/// Work of sliced units that is in progress, or done and not settled.
pub(crate) struct Sliced<W> {
    works: VecDeque<W>,
    /// The units that have work here, a bit for each.
    units: u32,
    /// How far the first piece of work has come.
    steps: Steps,
    /// The nanoseconds that [`UNIT_OCTETS`] of the first piece take; 0 before its first step.
    pace: u64,
    /// The time at which the step began that is under way, and the octets that it did.
    under_way: Option<(Time, u64)>,
    /// Work that is done, with the nanoseconds that it took before the step that is under way.
    done: Vec<(Flight<W>, u64)>,
}

impl<W> Default for Sliced<W> {
    fn default() -> Self {
        Sliced {
            works: VecDeque::new(),
            units: 0,
            steps: Steps::default(),
            pace: 0,
            under_way: None,
            done: Vec::new(),
        }
    }
}

impl<W: Stepped> Sliced<W> {
    /// Whether no work is in progress.
    pub(crate) fn is_empty(&self) -> bool {
        self.works.is_empty()
    }

    /// The unit whose work is in progress.
    pub(crate) fn unit(&self) -> Option<UnitId> {
        self.works.front().map(Stepped::unit)
    }

    /// The unit of work of which a step is done, and not the last.
    pub(crate) fn begun(&self) -> Option<UnitId> {
        self.unit().filter(|_| self.pace != 0)
    }

    /// The units that have work here.
    pub(crate) fn units(&self) -> impl Iterator<Item = UnitId> + use<W> {
        let units = self.units;
        (0..32).filter(move |at| units >> at & 1 == 1).map(UnitId)
    }

    /// Add work behind the other.
    pub(crate) fn push(&mut self, work: W) {
        self.units |= bit(work.unit());
        self.works.push_back(work);
    }

    /// Do about so many nanoseconds of the first piece of work. Returns the work if that is all of it.
    pub(crate) fn step(&mut self, now: Time, most: u64) -> Option<W> {
        let work = self.works.front_mut()?;
        if self.pace == 0 {
            let pace = work.expected().saturating_mul(UNIT_OCTETS) / work.octets().max(1);
            self.pace = if pace == 0 { UNKNOWN } else { pace };
        }
        let allowed =
            usize::try_from(most.saturating_mul(UNIT_OCTETS) / self.pace).unwrap_or(usize::MAX).max(1);
        let mut left = allowed;
        let is_done = work.step(&mut self.steps, &mut left);
        self.under_way = Some((now, allowed.saturating_sub(left) as u64));
        if is_done { self.pop() } else { None }
    }

    /// Do all that is left of the first piece of work, and take it. It counts as what it was expected to take, at least.
    pub(crate) fn finish(&mut self) -> Option<W> {
        let work = self.works.front_mut()?;
        while !work.step(&mut self.steps, &mut { usize::MAX }) {}
        work.add_spent(work.expected().saturating_sub(work.spent()));
        self.pop()
    }

    /// Take the work of a unit that was given up, with no step of it done any more.
    pub(crate) fn give_up(&mut self, unit: UnitId) -> Vec<W> {
        if self.unit() == Some(unit) {
            self.steps.clear();
            self.pace = 0;
        }
        let (gone, stays) = self.works.drain(..).partition(|work| work.unit() == unit);
        self.works = stays;
        self.units &= !bit(unit);
        Vec::from(gone)
    }

    fn pop(&mut self) -> Option<W> {
        let work = self.works.pop_front();
        self.units = self.works.iter().fold(0, |units, work| units | bit(work.unit()));
        self.steps.clear();
        self.pace = 0;
        work
    }

    /// Keep work that is done until it is known what its last step took.
    pub(crate) fn keep(&mut self, flight: Flight<W>, spent: u64) {
        self.done.push((flight, spent));
    }

    /// The step that was under way is over, and what it brought is carried out. Returns whether there was one.
    pub(crate) fn settle(&mut self, now: Time) -> bool {
        let Some((began, octets)) = self.under_way.take() else { return false };
        let spent = now.since(began).as_nanos().min(u64::MAX.into()) as u64;
        if let Some((_, before)) = self.done.first_mut() {
            *before = before.saturating_add(spent);
        } else if let Some(work) = self.works.front_mut() {
            work.add_spent(spent);
            self.learn(octets, spent);
        }
        true
    }

    /// Learn the length of further steps of the work in progress. One that was too long counts more than one that was too
    /// short: the MAC alone, which comes first in opening, takes less time than the cipher behind it.
    fn learn(&mut self, octets: u64, spent: u64) {
        let Some(each) = spent.saturating_mul(UNIT_OCTETS).checked_div(octets) else { return };
        // A step in which the thread was not run for long says nothing of what an octet takes.
        let each = each.min(self.pace.saturating_mul(4));
        let next = if each > self.pace { (self.pace + each) / 2 } else { (self.pace * 15 + each) / 16 };
        self.pace = next.max(1);
    }

    /// Work that is done, with the nanoseconds that it took.
    pub(crate) fn next_done(&mut self) -> Option<(Flight<W>, u64)> {
        self.done.pop()
    }
}

fn bit(unit: UnitId) -> u32 {
    1 << (unit.0 & 31)
}
