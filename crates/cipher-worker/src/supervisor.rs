//! The thread that keeps a worker running: it starts, watches, ends and starts again, and gives a new worker the keys.

mod spawned;

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cipher_loader::trial;
use crypto::custom::CustomDescription;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::core::{Claim, Core, KeyState};
use crate::keys;
use crate::layout::{self, Status, host, worker};
use crate::message::{Command, Notice};
use crate::report::{Event, Failure, State};

pub(crate) use spawned::Spawner;

/// The shortest pause before a start, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];
/// The time that a worker may take to be ready.
const READY: Duration = Duration::from_secs(5);
/// The time in which a late worker may catch up. It stays down for this time at most before it is ended.
const GRACE: Duration = Duration::from_millis(20);
/// The time in which it is excused once. So a worker that is always late costs others no more than one that hangs.
const EXCUSED: Duration = Duration::from_secs(1);
/// How often the state of a worker that starts is looked at.
const LOOK: Duration = Duration::from_micros(500);

/// What the thread and the handle share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) core: Arc<Core>,
    pub(crate) stop: AtomicBool,
    pub(crate) pid: AtomicU32,
    pub(crate) restarts: AtomicU64,
    pub(crate) state: Mutex<(State, Option<String>)>,
}

impl Shared {
    pub(crate) fn new(core: Arc<Core>) -> Shared {
        Shared {
            core,
            stop: AtomicBool::new(false),
            pid: AtomicU32::new(0),
            restarts: AtomicU64::new(0),
            state: Mutex::new((State::Restarting, None)),
        }
    }

    fn set(&self, state: State, last: Option<&Failure>) {
        let mut now = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        now.0 = state;
        if let Some(last) = last {
            now.1 = Some(last.to_string());
        }
    }
}

/// The function that is told of events, in the thread of this module.
pub(crate) type OnEvent = Box<dyn Fn(&Event) + Send>;

/// The thread that keeps a worker running.
pub(crate) struct Supervisor {
    pub(crate) shared: Arc<Shared>,
    pub(crate) spawner: Spawner,
    pub(crate) on_event: OnEvent,
    /// The time after which a worker counts as one that works.
    pub(crate) settled: Duration,
}

/// Why there is no worker any more.
enum Over {
    /// It failed; another one may be started.
    Failed(Failure),
    /// Nothing can be started any more.
    Gone,
    /// The host wants no more of it.
    Stop,
}

impl Supervisor {
    /// Start the first worker.
    ///
    /// # Errors
    /// What kept it from being ready.
    pub(crate) fn first(&self) -> Result<(), Failure> {
        match self.up() {
            Ok(()) => Ok(()),
            Err(Over::Failed(why)) => Err(why),
            Err(Over::Gone | Over::Stop) => Err(Failure::Spawner),
        }
    }

    /// Watch the worker that runs, and start the next one when it ended.
    pub(crate) fn run(self) {
        let mut pause = PAUSES[0];
        loop {
            let since = Instant::now();
            let mut over = self.watch();
            if since.elapsed() >= self.settled {
                pause = PAUSES[0];
            }
            loop {
                match over {
                    Over::Stop => break,
                    Over::Gone => {
                        self.down();
                        self.shared.set(State::Ended, Some(&Failure::Spawner));
                        (self.on_event)(&Event::Failed(Failure::Spawner));
                        break;
                    }
                    Over::Failed(why) => {
                        self.down();
                        self.shared.set(State::Restarting, Some(&why));
                        (self.on_event)(&Event::Failed(why));
                    }
                }
                self.wait(pause);
                pause = (pause * 2).min(PAUSES[1]);
                if self.shared.stop.load(Acquire) {
                    over = Over::Stop;
                    continue;
                }
                match self.up() {
                    Ok(()) => break,
                    Err(why) => over = why,
                }
            }
            if self.shared.stop.load(Acquire) || self.is_ended() {
                break;
            }
            let restarts = self.shared.restarts.fetch_add(1, Relaxed) + 1;
            (self.on_event)(&Event::Restarted { restarts });
        }
        self.down();
        self.shared.set(State::Ended, None);
    }

    fn is_ended(&self) -> bool {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).0 == State::Ended
    }

    /// Take no batch from here on. What is under way comes to its end by itself.
    fn down(&self) {
        self.shared.core.go_down();
    }

    /// Wait, unless the host wants to stop.
    fn wait(&self, most: Duration) {
        let end = Instant::now() + most;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.shared.stop.load(Acquire) {
                return;
            }
            self.look(left, false);
        }
    }

    /// Sleep until the bell rings or the spawner speaks, or the time is over.
    fn look(&self, most: Duration, spawner: bool) {
        let core = &self.shared.core;
        let time = Timespec {
            tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: most.subsec_nanos().into(),
        };
        let Some(bell) = core.bell.fd() else { return };
        let mut fds = [PollFd::new(bell, PollFlags::IN), PollFd::new(self.spawner.socket(), PollFlags::IN)];
        let watched = if spawner { fds.as_mut_slice() } else { fds.get_mut(..1).unwrap_or_default() };
        let _ = poll(watched, Some(&time));
        core.bell.clear();
    }

    /// Until the worker fails.
    fn watch(&self) -> Over {
        let core = &self.shared.core;
        let mut caught_up = None;
        loop {
            self.look(Duration::from_secs(60), true);
            match self.spawner.hear() {
                Err(_) => return Over::Gone,
                Ok(Some(told)) => return Over::Failed(self.reason(told)),
                Ok(None) => {}
            }
            if self.shared.stop.load(Acquire) {
                return Over::Stop;
            }
            if let Some(why) = self.failure() {
                let excused = caught_up.is_some_and(|at: Instant| at.elapsed() < EXCUSED);
                if why != Failure::Late || excused || !self.catches_up() {
                    return self.end(why);
                }
                caught_up = Some(Instant::now());
            }
            // Where it fails the worker failed, which the next turn finds.
            let _ = keys::reclaim(core);
        }
    }

    /// Whether a worker that was late has answered everything by now: on a busy machine it may not have run at all. Packets
    /// fail meanwhile without waiting.
    fn catches_up(&self) -> bool {
        let core = &self.shared.core;
        let end = Instant::now() + GRACE;
        while Instant::now() < end {
            if core.is_idle() {
                core.counts.late.fetch_add(1, Relaxed);
                core.come_up();
                return true;
            }
            std::thread::sleep(LOOK);
        }
        false
    }

    fn failure(&self) -> Option<Failure> {
        self.shared.core.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// End the worker, and wait until it is no more: nothing of it may run when the memory is used again.
    fn end(&self, why: Failure) -> Over {
        self.down();
        if self.spawner.say(Command::Kill).is_err() {
            return Over::Gone;
        }
        loop {
            match self.spawner.hear() {
                Err(_) => return Over::Gone,
                // It may have ended by itself before, which says more than that it was late.
                Ok(Some(Notice::Ended(status, text))) if status & 0x7f != libc::SIGKILL => {
                    return Over::Failed(self.reason(Notice::Ended(status, text)));
                }
                Ok(Some(Notice::Ended(..) | Notice::Failed(_))) => return Over::Failed(why),
                Ok(Some(Notice::Started(_)) | None) => {}
            }
            self.look(Duration::from_millis(100), true);
        }
    }

    fn reason(&self, told: Notice) -> Failure {
        Failure::Ended(match told {
            Notice::Ended(status, text) => trial::explain(&text, ExitStatus::from_raw(status)).to_string(),
            Notice::Failed(error) => {
                format!("it could not be started: {}", io::Error::from_raw_os_error(error))
            }
            Notice::Started(_) => "another worker was started".to_owned(),
        })
    }

    /// Start a worker, wait until it is ready, give it the keys, and take packets.
    fn up(&self) -> Result<(), Over> {
        let core = &self.shared.core;
        let lanes = core.claim_all();
        core.forget_requests();
        let cleared = self.clear();
        cleared.map_err(|_| Over::Gone)?;
        let _ = self.failure();
        let epoch = core.epoch.fetch_add(1, SeqCst).wrapping_add(1);
        let outside = |_| Over::Gone;
        core.link.host.word(host::EPOCH).map_err(outside)?.store(epoch, SeqCst);
        self.spawner.say(Command::Start).map_err(|_| Over::Gone)?;
        self.ready(epoch)?;
        let Some(lane) = lanes.first() else { return Err(Over::Gone) };
        if let Err(why) = self.give_keys(lane) {
            return Err(self.end(why));
        }
        let _ = self.failure();
        self.shared.set(State::Up, None);
        core.come_up();
        Ok(())
    }

    /// Nothing that a worker left is there for the next one, and no key is ready.
    fn clear(&self) -> io::Result<()> {
        let core = &self.shared.core;
        for index in 0..core.keys.len() {
            if let Some(mut key) = core.key(index) {
                key.ready = false;
                key.ahead.stop(&core.link, index).map_err(io::Error::other)?;
            }
        }
        core.link.worker.give_back(0, layout::worker_len(core.keys.len()))?;
        for index in 0..core.keys.len() {
            // No worker has it.
            keys::free(core, index);
        }
        Ok(())
    }

    fn ready(&self, epoch: u32) -> Result<(), Over> {
        let core = &self.shared.core;
        let end = Instant::now() + READY;
        let mut started = false;
        loop {
            match self.spawner.hear() {
                Err(_) => return Err(Over::Gone),
                Ok(Some(Notice::Started(pid))) => {
                    self.shared.pid.store(pid, Relaxed);
                    started = true;
                }
                Ok(Some(told)) => return Err(Over::Failed(self.reason(told))),
                Ok(None) => {}
            }
            let word = |at| core.link.worker.word(at).map(|word| word.load(Acquire)).map_err(|_| Over::Gone);
            if started && word(worker::STATE)? == worker::READY {
                let right = word(worker::VERSION)? == layout::VERSION && word(worker::EPOCH)? == epoch;
                return if right { Ok(()) } else { Err(self.end(Failure::Answer)) };
            }
            if Instant::now() >= end {
                return Err(self.end(Failure::Start));
            }
            if self.shared.stop.load(Acquire) {
                return Err(Over::Stop);
            }
            self.look(LOOK, true);
        }
    }

    /// Give the worker every key that is in use.
    fn give_keys(&self, lane: &Claim<'_>) -> Result<(), Failure> {
        let core = &self.shared.core;
        let mut octets = zeroize::Zeroizing::new([0; *CustomDescription::KEY_LENGTHS.end()]);
        for index in 0..core.keys.len() {
            let Some(key) = core.key(index) else { continue };
            if key.state != KeyState::Live {
                continue;
            }
            let mut secrets = core.secrets.lock().unwrap_or_else(PoisonError::into_inner);
            octets.iter_mut().zip(secrets.key(index)).for_each(|(to, from)| *to = *from);
            drop((secrets, key));
            let len = core.description.key_len;
            let status = keys::prepare(core, lane, index, octets.get(..len).unwrap_or_default());
            match status {
                Ok(Status::Ok) => {}
                Ok(_) => return Err(Failure::Key),
                Err(_) => return Err(Failure::Late),
            }
            if let Some(mut key) = core.key(index).filter(|key| key.state == KeyState::Live) {
                key.ready = true;
            }
        }
        Ok(())
    }
}
