//! What the threads of the host share about one worker: memories, lanes, keys, counts.

use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crypto::UnitFailed;
use crypto::custom::CustomDescription;

use crate::ahead::Ahead;
use crate::futex;
use crate::layout::{self, LANES, Op, Status, lane, spare};
use crate::link::Link;
use crate::locked::Locked;
use crate::memory::Outside;
use crate::report::Failure;

/// Turns of a spinning thread between two looks at the clock.
const TURNS: u32 = 64;
/// The time for a batch or a key while the daemon starts, at most.
const PATIENT: Duration = Duration::from_secs(1);
/// The time that all of them together may take beyond what they may otherwise: the start is over within this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time for a known answer while the daemon runs, at least.
const ANSWER: Duration = Duration::from_millis(100);

/// The host's half of a worker.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) description: CustomDescription,
    pub(crate) link: Link,
    pub(crate) keys: Box<[Mutex<Key>]>,
    pub(crate) secrets: Mutex<Locked>,
    /// Held by the thread that gives indices of keys back.
    pub(crate) reclaiming: Mutex<()>,
    lanes: [Lane; LANES],
    times: Times,
    /// Microseconds that batches and keys may still take beyond their time: not 0 while the daemon starts.
    patience: AtomicU64,
    /// Whether batches are taken.
    up: AtomicBool,
    /// The number of starts. A key that was prepared before the last one is no key.
    pub(crate) epoch: AtomicU32,
    pub(crate) counts: Counts,
    /// The first failure since the worker came up, for the thread that restarts it.
    pub(crate) failure: Mutex<Option<Failure>>,
    /// Told when that thread has something to do.
    pub(crate) bell: Bell,
}

/// What a key of the worker is on this side.
#[derive(Debug, Default)]
pub(crate) struct Key {
    pub(crate) state: KeyState,
    /// Whether the worker that runs now has it.
    pub(crate) ready: bool,
    pub(crate) ahead: Ahead,
}

/// Whether an index of a key is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum KeyState {
    /// The index is nobody's.
    #[default]
    Free,
    /// A key that is in use.
    Live,
    /// A key that nobody uses any more and that the worker may still have.
    Dropped,
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// The time for a batch.
    pub(crate) batch: Duration,
    /// The time for the preparation of a key.
    pub(crate) key: Duration,
    /// The time of spinning before a thread sleeps.
    pub(crate) spin: Duration,
}

/// Counts since the start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) ahead: AtomicU64,
    pub(crate) called: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) late: AtomicU64,
}

#[derive(Debug, Default)]
struct Lane {
    taken: AtomicBool,
    request: AtomicU32,
    /// The request before the first one of this worker.
    old: AtomicU32,
    /// Octets of the lane's data that batches used since it was wiped.
    used: AtomicUsize,
}

/// An eventfd, or nothing where nobody listens.
#[derive(Debug, Default)]
pub(crate) struct Bell(Option<std::os::fd::OwnedFd>);

impl Bell {
    pub(crate) fn new() -> io::Result<Bell> {
        use rustix::event::{EventfdFlags, eventfd};
        Ok(Bell(Some(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    pub(crate) fn ring(&self) {
        if let Some(fd) = &self.0 {
            // It fails where the count is full: then it rings already.
            let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
        }
    }

    pub(crate) fn clear(&self) {
        if let Some(fd) = &self.0 {
            let _ = rustix::io::read(fd, &mut [0; 8]);
        }
    }

    pub(crate) fn fd(&self) -> Option<&std::os::fd::OwnedFd> {
        self.0.as_ref()
    }
}

/// A lane that this thread has, for one batch after another.
pub(crate) struct Claim<'a> {
    core: &'a Core,
    pub(crate) index: usize,
    /// Whether it belongs to the thread that starts a worker, which uses it while nothing is up.
    starting: bool,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if let Some(lane) = self.core.lanes.get(self.index) {
            lane.taken.store(false, Release);
        }
    }
}

impl Core {
    /// Be patient with the worker until [`Core::settle`], or until the patience is used up.
    pub(crate) fn be_patient(&self) {
        self.patience.store(u64::try_from(PATIENCE.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Be patient no longer.
    pub(crate) fn settle(&self) {
        self.patience.store(0, Relaxed);
    }

    /// The time that is left of the patience.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_micros(self.patience.load(Relaxed))
    }

    /// So much of the patience was used.
    pub(crate) fn use_patience(&self, spent: Duration) {
        let spent = u64::try_from(spent.as_micros()).unwrap_or(u64::MAX);
        let _ = self
            .patience
            .fetch_update(Relaxed, Relaxed, |left| (left > 0).then_some(left.saturating_sub(spent)));
    }

    /// The time that something may take now which takes `time` otherwise.
    fn time(&self, time: Duration) -> Duration {
        time.max(self.patience().min(PATIENT))
    }

    /// New memories and nothing in them.
    pub(crate) fn new(
        description: CustomDescription,
        keys: usize,
        times: Times,
        bell: Bell,
    ) -> io::Result<Core> {
        Ok(Core {
            description,
            link: Link::new(keys)?,
            keys: (0..keys).map(|_| Mutex::default()).collect(),
            secrets: Mutex::new(Locked::new(keys)?),
            reclaiming: Mutex::new(()),
            lanes: Default::default(),
            times,
            patience: AtomicU64::new(0),
            up: AtomicBool::new(false),
            epoch: AtomicU32::new(0),
            counts: Counts::default(),
            failure: Mutex::new(None),
            bell,
        })
    }

    /// Whether batches are taken.
    pub(crate) fn is_up(&self) -> bool {
        self.up.load(Acquire)
    }

    /// Take batches from here on.
    pub(crate) fn come_up(&self) {
        self.up.store(true, Release);
    }

    /// Take no batch from here on, and wake who waits for one.
    pub(crate) fn go_down(&self) {
        self.up.store(false, SeqCst);
        for index in 0..LANES {
            if let Ok(reply) = self.link.worker.word(layout::lane(index) + lane::REPLY) {
                futex::wake(reply);
            }
        }
    }

    /// The worker failed: take no batch, and have it restarted. The first failure is the one that is told.
    pub(crate) fn fail(&self, why: Failure) {
        if self.up.swap(false, SeqCst) {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
            self.bell.ring();
        }
    }

    /// A key's side of the host. `None` for an index that is none.
    pub(crate) fn key(&self, index: usize) -> Option<MutexGuard<'_, Key>> {
        self.keys.get(index).map(|key| key.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A lane that nobody has, for a thread that can wait for it until the deadline.
    pub(crate) fn claim(&self) -> Result<Claim<'_>, UnitFailed> {
        let mut end = None;
        loop {
            if !self.is_up() {
                return Err(UnitFailed);
            }
            if let Some(claim) = self.try_claim(false) {
                return Ok(claim);
            }
            let end = *end.get_or_insert_with(|| Instant::now() + self.time(self.times.batch));
            if Instant::now() >= end {
                return Err(UnitFailed);
            }
            std::thread::yield_now();
        }
    }

    fn try_claim(&self, starting: bool) -> Option<Claim<'_>> {
        (0..LANES).find_map(|index| self.try_claim_at(index, starting))
    }

    fn try_claim_at(&self, index: usize, starting: bool) -> Option<Claim<'_>> {
        let lane = self.lanes.get(index)?;
        let free = !lane.taken.load(Relaxed) && !lane.taken.swap(true, Acquire);
        // Not `then_some`: a claim that is made and not handed out would free the lane of its owner.
        free.then(|| Claim { core: self, index, starting })
    }

    /// Overwrite what packets left in the lanes, on both sides. A lane that is in use is left to the next time.
    pub(crate) fn wipe_lanes(&self) -> io::Result<()> {
        for (index, lane) in self.lanes.iter().enumerate() {
            let Some(_claim) = self.try_claim_at(index, false) else { continue };
            let used = lane.used.load(Relaxed);
            if used > 0 {
                let at = layout::lane_data(index);
                self.link.host.clear(at, used).map_err(io::Error::other)?;
                self.link.worker.give_back(at, used.next_multiple_of(layout::PAGE))?;
                // Nobody else has the lane meanwhile.
                lane.used.store(0, Relaxed);
            }
        }
        Ok(())
    }

    /// Note that a batch used so many octets of a lane.
    pub(crate) fn note_used(&self, index: usize, octets: usize) {
        if let Some(lane) = self.lanes.get(index) {
            lane.used.fetch_max(octets, Relaxed);
        }
    }

    /// Whether the worker has answered everything that it was asked.
    pub(crate) fn is_idle(&self) -> bool {
        self.lanes.iter().enumerate().all(|(index, lane)| {
            let reply = self.link.worker.word(layout::lane(index) + lane::REPLY);
            let request = lane.request.load(Relaxed);
            let unused = lane.old.load(Relaxed) == request;
            unused || reply.is_ok_and(|reply| reply.load(Acquire) == request)
        })
    }

    /// What was asked so far is nothing that the next worker answers.
    pub(crate) fn forget_requests(&self) {
        for lane in &self.lanes {
            lane.old.store(lane.request.load(Relaxed), Relaxed);
        }
    }

    /// Every lane, for the thread that starts a worker; each is free within a deadline. Nothing is up meanwhile.
    pub(crate) fn claim_all(&self) -> [Claim<'_>; LANES] {
        std::array::from_fn(|_| {
            loop {
                if let Some(claim) = self.try_claim(true) {
                    break claim;
                }
                std::thread::sleep(Duration::from_micros(50));
            }
        })
    }
}

impl Claim<'_> {
    /// Hand a batch over and wait for its end. The entries and their data are written already.
    ///
    /// # Errors
    /// [`UnitFailed`]: the worker is late, gone, or answered something that has no meaning.
    pub(crate) fn run(&self, op: Op, key: usize, count: usize) -> Result<Status, UnitFailed> {
        let core = self.core;
        let mut time = if op == Op::SetKey { core.times.key } else { core.times.batch };
        if key == spare(core.keys.len()) {
            // No packet waits for it, and a busy machine is no wrong answer.
            time = time.max(ANSWER);
        }
        let begin = (!core.patience().is_zero()).then(Instant::now);
        let answer = self.exchange(op, key, count, core.time(time));
        if let Some(begin) = begin {
            core.use_patience(begin.elapsed().saturating_sub(time));
        }
        match answer {
            Ok(Some(status)) => Ok(status),
            Ok(None) | Err(Outside) => Err(UnitFailed),
        }
    }

    fn exchange(&self, op: Op, key: usize, count: usize, time: Duration) -> Result<Option<Status>, Outside> {
        let core = self.core;
        let base = layout::lane(self.index);
        let number = |number: usize| u32::try_from(number).map_err(|_| Outside);
        core.link.host.word(base + lane::OP)?.store(op as u32, Relaxed);
        core.link.host.word(base + lane::KEY)?.store(number(key)?, Relaxed);
        core.link.host.word(base + lane::COUNT)?.store(number(count)?, Relaxed);
        let request =
            core.lanes.get(self.index).ok_or(Outside)?.request.fetch_add(1, Relaxed).wrapping_add(1);
        core.link.host.word(base + lane::REQUEST)?.store(request, Release);
        core.link.ring_worker()?;
        if !self.wait(base, request, time)? {
            return Ok(None);
        }
        let status = core.link.worker.word(base + lane::STATUS)?.load(Relaxed);
        let known = [Status::Ok, Status::Length, Status::Weak, Status::Failed];
        let status = known.into_iter().find(|known| *known as u32 == status);
        if status.is_none() {
            core.fail(Failure::Answer);
        }
        Ok(status)
    }

    /// Whether the reply came in time.
    fn wait(&self, base: usize, request: u32, time: Duration) -> Result<bool, Outside> {
        let core = self.core;
        let reply = core.link.worker.word(base + lane::REPLY)?;
        let begin = Instant::now();
        loop {
            for _ in 0..TURNS {
                if reply.load(Acquire) == request {
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
            if begin.elapsed() >= core.times.spin {
                break;
            }
        }
        let waiting = core.link.host.word(base + lane::WAITING)?;
        waiting.store(1, SeqCst);
        let answered = loop {
            let seen = reply.load(SeqCst);
            if seen == request {
                break true;
            }
            if !self.starting && !core.is_up() {
                break false;
            }
            let left = time.saturating_sub(begin.elapsed());
            if left.is_zero() {
                core.fail(Failure::Late);
                break false;
            }
            futex::wait(reply, seen, Some(left));
        };
        waiting.store(0, Relaxed);
        Ok(answered)
    }
}
