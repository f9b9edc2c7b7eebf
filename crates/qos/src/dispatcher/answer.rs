//! The taking half of the dispatcher: answers of units, units that hang, units that leave.

use wire::Time;

use crate::cost::Work;
use crate::meta::Meta;
use crate::unit::{HANG, UnitFault, UnitId};

use super::station::{Station, Status};
use super::{Detached, Dispatcher, JobId};

impl<T: 'static> Dispatcher<T> {
    /// A unit answered a job, for which it spent so many nanoseconds. A fault that is told was accounted for: the job
    /// is in flight no more, and nothing is counted twice.
    pub fn done(&mut self, unit: UnitId, job: JobId, spent: u64, now: Time) -> Result<(), UnitFault> {
        let station = self.stations.get_mut(usize::from(unit.0)).ok_or(UnitFault::Unknown)?;
        let numbers = station.numbers();
        if job.unit != unit || job.number >= numbers.next {
            return Err(UnitFault::Unknown);
        }
        if (numbers.given_up.0..numbers.given_up.1).contains(&job.number) {
            return Err(UnitFault::Late);
        }
        let index = job.number.checked_sub(station.first_number()).ok_or(UnitFault::Twice)? as usize;
        let has_older = station.jobs.iter().take(index).any(|older| !older.is_answered);
        let entry = station.jobs.get_mut(index).ok_or(UnitFault::Unknown)?;
        if std::mem::replace(&mut entry.is_answered, true) {
            return Err(UnitFault::Twice);
        }
        let entry = *entry;
        station.busy = station.busy.saturating_add(spent);
        station.heard = now;
        let joining = station.joining(&entry.amount, entry.joins);
        while station.jobs.front().is_some_and(|oldest| oldest.is_answered) {
            station.jobs.pop_front();
        }
        station.committed -= entry.amount;
        station.in_flight -= 1;
        let answered = station.answered.map_or(0, |(ns, _)| ns);
        station.answered = Some((answered.saturating_add(entry.amount.ns), now));
        self.pins.land(entry.slot, station.status == Status::Active);
        if station.status == Status::Leaving && station.in_flight == 0 {
            station.status = Status::Gone;
        }
        if station.status == Status::Hung || now.0.saturating_sub(entry.given.0) >= HANG {
            return Err(UnitFault::Late);
        }
        let work = Work { unit, suite: entry.suite, direction: entry.direction, joining };
        self.cost.learn(&work, &entry.amount, spent);
        // A job that got in between another's steps is answered before it.
        if has_older && !entry.is_between { Err(UnitFault::Disordered) } else { Ok(()) }
    }

    /// A unit whose oldest job has been in flight for [`HANG`], once for each such unit. It gets no more work, and
    /// should be detached and its jobs given up.
    pub fn overdue(&mut self, now: Time) -> Option<UnitId> {
        let hangs = |station: &super::Station<T>| station.hangs_at().is_some_and(|at| at <= now);
        let at = self.stations.iter().position(hangs)?;
        if self.stations[at].status == Status::Active {
            self.part_jobs(at);
        }
        self.stations[at].hang();
        Some(UnitId(at as u8))
    }

    /// Take a unit out: it gets no more work, and the packets that wait for it come back in their order, to be offered
    /// again. Jobs in flight may still be answered, and what is offered again waits for them where order wants it.
    pub fn detach(&mut self, unit: UnitId, back: &mut Vec<(T, Meta)>) -> Option<Detached> {
        let at = usize::from(unit.0);
        self.stations.get(at).filter(|station| station.status != Status::Gone)?;
        if self.stations[at].status == Status::Active {
            self.part_jobs(at);
            self.stations[at].status = Status::Leaving;
        }
        let before = back.len();
        self.stations[at].queues.drain(back);
        for (_, meta) in &back[before..] {
            let slot = self.pins.slot(meta);
            self.pins.leave(slot);
            self.classes.leave(meta);
        }
        let station = &mut self.stations[at];
        station.waiting = Default::default();
        if station.in_flight == 0 {
            station.status = Status::Gone;
        }
        Some(Detached { in_flight: station.in_flight })
    }

    /// Give up the jobs in flight of a unit that was detached or hangs. The caller ends their packets; an answer that
    /// comes nevertheless is late.
    pub fn give_up(&mut self, unit: UnitId, lost: &mut Vec<JobId>) {
        let Some(station) = self.stations.get_mut(usize::from(unit.0)) else { return };
        if !matches!(station.status, Status::Leaving | Status::Hung) || !station.queues.is_empty() {
            return;
        }
        let first = station.first_number();
        for (number, job) in (first..).zip(&station.jobs).filter(|(_, job)| !job.is_answered) {
            self.pins.land(job.slot, false);
            lost.push(JobId { unit, number });
        }
        station.give_up();
    }

    /// Let a unit take work again that was given up, since it has answered everything. Returns whether its place is still
    /// its own.
    pub fn revive(&mut self, unit: UnitId) -> bool {
        self.stations.get_mut(usize::from(unit.0)).is_some_and(Station::revive)
    }

    /// What is in flight on a unit that takes no more goes ahead of what its pairs have elsewhere.
    fn part_jobs(&mut self, at: usize) {
        for job in self.stations[at].jobs.iter().filter(|job| !job.is_answered) {
            self.pins.part(job.slot);
        }
    }
}
