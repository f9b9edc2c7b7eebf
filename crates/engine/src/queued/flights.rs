//! Work that units do apart from the thread that dispatches, between its dispatch and its answer (paper 002 section
//! III.E; docs/design/0045).
//!
//! What enters: the jobs that make up one piece of work, and the work when it is answered. What leaves: answered work
//! with its jobs. For each unit it leaves in the order in which it was given, whatever the order of the answers.

use std::collections::VecDeque;

use qos::Meta;
use qos::dispatcher::JobId;
use qos::unit::UnitId;

use super::CopiedPacket;

/// A job of a unit whose packet is away.
#[derive(Clone, Copy)]
pub(crate) struct FlightJob {
    pub(crate) job: JobId,
    /// What is known of the packet, with the amount that is done in this job.
    pub(crate) meta: Meta,
    /// The nanoseconds that were expected, by which the time of the work is shared out.
    pub(crate) expected: u64,
}

/// A piece of work with its jobs.
pub(crate) struct Flight<W> {
    pub(crate) unit: UnitId,
    serial: u64,
    pub(crate) jobs: Vec<FlightJob>,
    /// Copies of the packets, for those who capture.
    pub(crate) copies: Vec<CopiedPacket>,
    /// The work, once it is answered.
    pub(crate) work: Option<W>,
}

impl<W> Flight<W> {
    /// The nanoseconds that were expected of all jobs; 1 at least.
    pub(crate) fn expected(&self) -> u64 {
        self.jobs.iter().map(|job| job.expected.max(1)).sum::<u64>().max(1)
    }
}

/// What an answer is for the order of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is the oldest work of its unit.
    InOrder,
    /// Older work of its unit is not answered yet, and goes first.
    OutOfOrder,
    /// The work had been given up before.
    Late,
}

/// All work in flight, in the order in which it was given.
pub(crate) struct Flights<W> {
    list: VecDeque<Flight<W>>,
    /// The work that is being put together. Its unit is that of its first job.
    open: Option<Flight<W>>,
    serial: u64,
    /// Lists without jobs, for further work.
    spare: Vec<Vec<FlightJob>>,
}

impl<W> Default for Flights<W> {
    fn default() -> Self {
        Flights { list: VecDeque::new(), open: None, serial: 0, spare: Vec::new() }
    }
}

impl<W> Flights<W> {
    /// Whether nothing is in flight, and nothing is put together.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.open.is_none()
    }

    /// The number of pieces of work of a unit that are not answered.
    pub(crate) fn unanswered(&self, unit: UnitId) -> usize {
        self.list.iter().filter(|flight| flight.unit == unit && flight.work.is_none()).count()
    }

    /// The units that have not answered all of their work.
    pub(crate) fn units(&self) -> Vec<UnitId> {
        let mut units: Vec<UnitId> = self.list.iter().map(|flight| flight.unit).collect();
        units.sort_unstable();
        units.dedup();
        units
    }

    /// What is known of each packet that is away.
    pub(crate) fn metas_mut(&mut self) -> impl Iterator<Item = &mut Meta> {
        let flights = self.list.iter_mut().chain(&mut self.open);
        flights.flat_map(|flight| &mut flight.jobs).map(|job| &mut job.meta)
    }

    /// The work that is being put together.
    pub(crate) fn open(&self) -> Option<&Flight<W>> {
        self.open.as_ref()
    }

    /// Add a job to the work that is being put together for its unit.
    pub(crate) fn add(&mut self, unit: UnitId, job: FlightJob) {
        let (serial, spare) = (&mut self.serial, &mut self.spare);
        let open = self.open.get_or_insert_with(|| {
            *serial += 1;
            let jobs = spare.pop().unwrap_or_default();
            Flight { unit, serial: *serial, jobs, copies: Vec::new(), work: None }
        });
        open.jobs.push(job);
    }

    /// Add the copies of packets to the work that is being put together.
    pub(crate) fn add_copies(&mut self, copies: Vec<CopiedPacket>) {
        if let Some(open) = &mut self.open {
            open.copies.extend(copies);
        }
    }

    /// Send off the work that was put together. Returns its number and its unit; `None` if there is none.
    pub(crate) fn depart(&mut self) -> Option<(u64, UnitId)> {
        let flight = self.open.take()?;
        let departed = (flight.serial, flight.unit);
        self.list.push_back(flight);
        Some(departed)
    }

    /// Take the answer for the work of this number. Work that was given up comes back.
    pub(crate) fn answer(&mut self, serial: u64, work: W) -> (Answer, Option<W>) {
        let Some(at) = self.list.iter().position(|flight| flight.serial == serial) else {
            return (Answer::Late, Some(work));
        };
        let unit = self.list.get(at).map(|flight| flight.unit);
        let is_older = |older: &&Flight<W>| Some(older.unit) == unit && older.work.is_none();
        let has_older = self.list.iter().take(at).any(|older| is_older(&older));
        if let Some(flight) = self.list.get_mut(at) {
            flight.work = Some(work);
        }
        (if has_older { Answer::OutOfOrder } else { Answer::InOrder }, None)
    }

    /// Take the first answered work that no unanswered work of its unit is in front of.
    pub(crate) fn next_answered(&mut self) -> Option<Flight<W>> {
        let mut busy = 0_u32;
        let at = self.list.iter().position(|flight| {
            let unit = 1_u32 << (flight.unit.0 & 31);
            let is_next = flight.work.is_some() && busy & unit == 0;
            busy |= unit;
            is_next
        })?;
        self.list.remove(at)
    }

    /// Take the work of a unit that was given up, whether it is answered or not.
    pub(crate) fn give_up(&mut self, unit: UnitId) -> Option<Flight<W>> {
        let at = self.list.iter().position(|flight| flight.unit == unit)?;
        self.list.remove(at)
    }

    /// Keep the list of jobs of work that is done, for further work.
    pub(crate) fn recycle(&mut self, mut jobs: Vec<FlightJob>) {
        jobs.clear();
        if self.spare.len() < SPARE {
            self.spare.push(jobs);
        }
    }
}

/// Lists without jobs that are kept.
const SPARE: usize = 64;
