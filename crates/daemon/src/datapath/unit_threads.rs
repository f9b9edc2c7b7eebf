//! Threads of crypto units: the units of a graph whose kind is `worker` or `async` (docs/design/0045).
//!
//! What enters: work that the engine has put together. What leaves: the same work, computed. Each unit has a thread and
//! two rings, and shares nothing else with the data thread but a flag: whether that waits. No hardware accelerator is
//! known to the daemon, so a thread takes the place of a unit of the kind `async` too.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::thread::Thread;

use control::privileges;
use engine::{OpenWork, SealWork};
use netio::clock;
use netio::eventfd::Wake;
use qos::graph::Description;
use qos::graph::description::UnitKind;
use qos::unit::UnitId;
use rtrb::{Consumer, Producer, RingBuffer};

mod wait_flag;

use wait_flag::WaitFlag;

/// The most pieces of work that a unit's thread has at a time; further ones wait in front of it.
const DEPTH: usize = 256;

/// Work that a unit does apart from the data thread.
pub trait UnitWork: Send + 'static {
    /// The unit that it is for.
    fn unit(&self) -> UnitId;
    /// Do the cipher's part.
    fn compute(&mut self);
    /// Say how many nanoseconds it took.
    fn set_spent(&mut self, ns: u64);
}

impl UnitWork for SealWork {
    fn unit(&self) -> UnitId {
        SealWork::unit(self)
    }

    fn compute(&mut self) {
        SealWork::compute(self);
    }

    fn set_spent(&mut self, ns: u64) {
        SealWork::set_spent(self, ns);
    }
}

impl UnitWork for OpenWork {
    fn unit(&self) -> UnitId {
        OpenWork::unit(self)
    }

    fn compute(&mut self) {
        OpenWork::compute(self);
    }

    fn set_spent(&mut self, ns: u64) {
        OpenWork::set_spent(self, ns);
    }
}

/// How a unit's thread tells the data thread that it has an answer.
struct Bell {
    /// Whether the data thread waits.
    flag: WaitFlag,
    wake: Wake,
}

impl Bell {
    /// An answer is in its ring: wake the data thread, if it waits.
    fn ring(&self) {
        if self.flag.take_waiting() {
            self.wake.wake();
        }
    }
}

/// The thread of one unit, as the data thread sees it. It ends when this is dropped.
pub struct UnitThread<W> {
    name: String,
    unit: Option<UnitId>,
    /// `None` only while it is dropped.
    work: Option<Producer<W>>,
    answers: Consumer<W>,
    bell: Arc<Bell>,
    thread: Thread,
    /// The number of pieces of work that the thread has.
    count: usize,
    /// Work for which the thread has no room yet.
    further: VecDeque<W>,
}

impl<W: UnitWork> UnitThread<W> {
    /// Start a thread for the unit of this name. `wake` wakes the data thread; `first` gives up the capabilities of the
    /// new one.
    fn start(name: &str, wake: Wake, first: fn()) -> netio::Result<UnitThread<W>> {
        let (work, to_do) = RingBuffer::new(DEPTH);
        let (done, answers) = RingBuffer::new(DEPTH);
        let bell = Arc::new(Bell { flag: WaitFlag::new(), wake });
        let rung = Arc::clone(&bell);
        let serve = move || {
            first();
            serve(to_do, done, &rung);
        };
        let spawned = std::thread::Builder::new().name(thread_name(name)).spawn(serve);
        let spawned = spawned.map_err(|source| netio::Error::System {
            doing: format!("starting the thread of the unit {name}"),
            source,
        })?;
        let thread = spawned.thread().clone();
        let (name, further) = (name.to_owned(), VecDeque::new());
        Ok(UnitThread { name, unit: None, work: Some(work), answers, bell, thread, count: 0, further })
    }

    /// Give the thread what it has room for.
    fn pass_on(&mut self) {
        let Some(ring) = &mut self.work else { return };
        let mut any = false;
        while self.count < DEPTH
            && let Some(work) = self.further.pop_front()
        {
            if let Err(rtrb::PushError::Full(work)) = ring.push(work) {
                self.further.push_front(work);
                break;
            }
            self.count += 1;
            any = true;
        }
        if any {
            self.thread.unpark();
        }
    }

    fn next_answer(&mut self) -> Option<W> {
        let answer = self.answers.pop().ok()?;
        self.count = self.count.saturating_sub(1);
        Some(answer)
    }

    fn is_idle(&self) -> bool {
        self.count == 0 && self.further.is_empty()
    }

    /// Whether the thread is of use: it has not ended, and what it has is awaited. One that hangs has work that was given up.
    fn works(&self, is_awaited: impl Fn(UnitId) -> bool) -> bool {
        !self.has_ended() && (self.is_idle() || self.unit.is_some_and(is_awaited))
    }

    /// Whether the thread has ended by itself, so that no answer comes any more.
    fn has_ended(&self) -> bool {
        if !self.answers.is_abandoned() {
            return false;
        }
        // What the thread answered before it ended is seen behind this.
        fence(Ordering::Acquire);
        self.answers.is_empty()
    }
}

impl<W> Drop for UnitThread<W> {
    /// The thread must hear that nothing comes any more: first the ring closes, then it wakes.
    fn drop(&mut self) {
        self.work = None;
        self.thread.unpark();
    }
}

/// The name of the thread of a unit, of which the kernel shows 15 octets.
fn thread_name(unit: &str) -> String {
    format!("rvl-unit-{unit}").replace('\0', "?")
}

/// Compute what comes, in its order, until nobody can give any more.
fn serve<W: UnitWork>(mut to_do: Consumer<W>, mut done: Producer<W>, bell: &Bell) {
    loop {
        let Ok(mut work) = to_do.pop() else {
            if to_do.is_abandoned() {
                return;
            }
            std::thread::park();
            continue;
        };
        let began = clock::monotonic();
        work.compute();
        work.set_spent(clock::monotonic().0.saturating_sub(began.0));
        // It has room for everything that this thread can have.
        let _ = done.push(work);
        bell.ring();
    }
}

/// The threads of the units of both directions: those that seal, and those that open.
pub type ThreadsOfUnits = (Vec<UnitThread<SealWork>>, Vec<UnitThread<OpenWork>>);

/// Start the threads that the units of a graph need. The arguments behind it give what wakes the outbound thread and the
/// inbound one.
///
/// # Errors
/// If the system has no thread or descriptor to give.
pub fn unit_threads(
    description: &Description,
    outbound: impl Fn() -> netio::Result<Wake>,
    inbound: impl Fn() -> netio::Result<Wake>,
) -> netio::Result<ThreadsOfUnits> {
    Ok((of_direction(description, outbound)?, of_direction(description, inbound)?))
}

fn of_direction<W: UnitWork>(
    description: &Description,
    wake: impl Fn() -> netio::Result<Wake>,
) -> netio::Result<Vec<UnitThread<W>>> {
    let needs = |kind| matches!(kind, UnitKind::Worker | UnitKind::Async(_));
    let units = description.units.iter().filter(|unit| needs(unit.kind.value));
    units.map(|unit| UnitThread::start(&unit.name.value, wake()?, privileges::give_up_all)).collect()
}

/// The threads of the units of one direction.
pub struct UnitThreads<W> {
    active: Vec<UnitThread<W>>,
    /// Threads whose units left the graph with work in flight.
    leaving: Vec<UnitThread<W>>,
    /// The thread whose answers are asked for first.
    turn: usize,
}

impl<W> Default for UnitThreads<W> {
    fn default() -> Self {
        UnitThreads { active: Vec::new(), leaving: Vec::new(), turn: 0 }
    }
}

impl<W: UnitWork> UnitThreads<W> {
    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.active.is_empty() && self.leaving.is_empty()
    }

    /// Go on with the threads of another graph. A unit of the same name keeps the thread that it has, unless that has
    /// failed. `number` says which unit has a name in the graph that is in force now, and
    /// `is_awaited` whether answers of a unit are awaited.
    pub(super) fn adopt(
        &mut self,
        fresh: Vec<UnitThread<W>>,
        number: impl Fn(&str) -> Option<UnitId>,
        is_awaited: impl Fn(UnitId) -> bool,
    ) {
        let mut before = std::mem::take(&mut self.active);
        for mut thread in fresh {
            thread.unit = number(&thread.name);
            let same = |old: &UnitThread<W>| {
                old.name == thread.name && old.unit == thread.unit && old.works(&is_awaited)
            };
            let kept = before.iter().position(same).map(|at| before.swap_remove(at));
            self.active.push(kept.unwrap_or(thread));
        }
        self.leaving.extend(before.into_iter().filter(|thread| !thread.is_idle()));
    }

    /// Give a piece of work to the thread of its unit. `Err`: there is none.
    pub(super) fn submit(&mut self, work: W) -> Result<(), W> {
        let unit = work.unit();
        let Some(thread) = self.active.iter_mut().find(|thread| thread.unit == Some(unit)) else {
            return Err(work);
        };
        thread.further.push_back(work);
        thread.pass_on();
        Ok(())
    }

    /// The next answer of any thread.
    pub(super) fn next_answer(&mut self) -> Option<W> {
        let count = self.active.len();
        for at in (self.turn..count).chain(0..self.turn.min(count)) {
            if let Some(thread) = self.active.get_mut(at)
                && let Some(work) = thread.next_answer()
            {
                thread.pass_on();
                self.turn = at + 1;
                return Some(work);
            }
        }
        let answer = self.leaving.iter_mut().find_map(UnitThread::next_answer);
        self.leaving.iter_mut().for_each(UnitThread::pass_on);
        self.leaving.retain(|thread| !thread.is_idle() && !thread.has_ended());
        answer
    }

    /// The unit of a thread that has ended by itself, once.
    pub(super) fn next_ended(&mut self) -> Option<UnitId> {
        let at = self.active.iter().position(UnitThread::has_ended)?;
        self.active.remove(at).unit
    }

    /// Say that the data thread is about to wait. Returns whether it need not, since there is an answer.
    pub(super) fn begin_waiting(&self) -> bool {
        self.each().for_each(|thread| thread.bell.flag.begin_waiting());
        self.each().any(|thread| !thread.answers.is_empty() || thread.has_ended())
    }

    /// Say that the data thread waits no more.
    pub(super) fn end_waiting(&self) {
        self.each().for_each(|thread| thread.bell.flag.end_waiting());
    }

    /// Whether no thread has work.
    pub(super) fn is_idle(&self) -> bool {
        self.each().all(UnitThread::is_idle)
    }

    fn each(&self) -> impl Iterator<Item = &UnitThread<W>> {
        self.active.iter().chain(&self.leaving)
    }
}

#[cfg(test)]
mod tests;
