//! A cipher in a worker process, as the host has it.

use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use cipher_loader::{Examined, Trial};
use crypto::custom::{CustomCipher, CustomDescription, CustomKey, SetKeyError};

use crate::core::{Bell, Core, Times};
use crate::keys::{self, Use};
use crate::layout::{MOST_KEYS, spare};
use crate::memory::Memory;
use crate::report::{Event, Failure, Report, State};
use crate::supervisor::{OnEvent, Shared, Spawner, Supervisor};

/// What a worker may have and how long it may take.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Keys that it has room for, beside one for known answers. Each has a ring of 1 MiB, of which only what is used takes
    /// memory.
    pub keys: usize,
    /// The time for a batch.
    pub deadline: Duration,
    /// The time for the preparation of a key.
    pub key_deadline: Duration,
    /// The time that a thread of the host spins before it sleeps.
    pub spin: Duration,
    /// The time after which a worker counts as one that works. The pause before the next start is 10 ms then; otherwise
    /// it doubles, up to 1 s.
    pub settled: Duration,
    /// Called first in the thread that watches the worker, which needs no right that the process may have.
    pub at_start: fn(),
}

impl Default for Settings {
    /// 512 keys; 2 ms for a batch, 20 ms for a key; no spinning on a machine with one processor; settled after 10 s.
    fn default() -> Settings {
        let several = std::thread::available_parallelism().is_ok_and(|count| count.get() > 1);
        Settings {
            keys: 512,
            deadline: Duration::from_millis(2),
            key_deadline: Duration::from_millis(20),
            spin: if several { Duration::from_micros(30) } else { Duration::ZERO },
            settled: Duration::from_secs(10),
            at_start: || {},
        }
    }
}

/// The reason why a cipher has no worker.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The number of keys is none that a worker can have.
    #[error("a worker has room for 1 to {most} keys, not for {0}", most = MOST_KEYS - 1)]
    Keys(usize),
    /// The system gave no memory.
    #[error("no memory for the worker of {name}: {why}; raise the limit of locked memory (LimitMEMLOCK=)")]
    Memory {
        /// The name of the cipher.
        name: String,
        /// What the system said.
        why: std::io::Error,
    },
    /// The process that starts workers could not be started.
    #[error("the worker of {name} has no process: {why}; start it before system calls are forbidden")]
    Process {
        /// The name of the cipher.
        name: String,
        /// What the system said.
        why: std::io::Error,
    },
    /// The first worker was not ready.
    #[error("the worker of {name} is not ready: {why}")]
    First {
        /// The name of the cipher.
        name: String,
        /// What it did instead.
        why: Failure,
    },
}

/// A cipher whose library runs in a process of its own.
///
/// Its keys make the same packets as those of a library in this process. Dropping it ends the process; keys that are
/// left fail from then on.
#[derive(Debug)]
pub struct Isolated {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Isolated {
    /// Start a worker for a library that was examined and passed its trial, and a thread that keeps it running.
    ///
    /// `program` is what comes to [`crate::child_main`]. It is started here and lives as long as the value; call this
    /// before the process forbids itself to start programs. `on_event` is called in a thread of this room.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn start(
        program: &Trial,
        examined: &Examined,
        settings: Settings,
        on_event: impl Fn(&Event) + Send + 'static,
    ) -> Result<Isolated, WorkerError> {
        let description = examined.manifest.description.clone();
        let name = || description.name.clone();
        let memory = |why| WorkerError::Memory { name: name(), why };
        let process = |why| WorkerError::Process { name: name(), why };
        let bell = Bell::new().map_err(memory)?;
        let core = core(description.clone(), settings, bell)?;
        let spawner = Spawner::start(program, examined, &core).map_err(process)?;
        let shared = Arc::new(Shared::new(Arc::new(core)));
        let on_event: OnEvent = Box::new(on_event);
        let supervisor = Supervisor { shared: shared.clone(), spawner, on_event, settled: settings.settled };
        supervisor.first().map_err(|why| WorkerError::First { name: name(), why })?;
        let thread = std::thread::Builder::new().name("rvl-cipher".to_owned());
        let run = move || {
            (settings.at_start)();
            supervisor.run();
        };
        let thread = thread.spawn(run).map_err(process)?;
        Ok(Isolated { shared, thread: Some(thread) })
    }

    /// The host's half alone: whoever has the memories is the worker, a thread of a test or a device. Nobody restarts
    /// it. It takes packets at once.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub fn detached(description: CustomDescription, settings: Settings) -> Result<Isolated, WorkerError> {
        let core = core(description, settings, Bell::default())?;
        core.come_up();
        let shared = Arc::new(Shared::new(Arc::new(core)));
        Ok(Isolated { shared, thread: None })
    }

    /// Take packets again behind a failure, where nobody restarts the worker; otherwise nothing happens.
    pub fn resume(&self) {
        if self.thread.is_none() {
            self.shared.core.come_up();
        }
    }

    /// Give the worker up to a second for each batch and each key, and ten seconds for all of them: for the start of a
    /// machine that starts everything at once. [`Isolated::settle`] ends it.
    pub fn be_patient(&self) {
        self.shared.core.be_patient();
    }

    /// Give the worker the times of its settings from here on.
    pub fn settle(&self) {
        self.shared.core.settle();
    }

    /// The same cipher for known answers: it has one key at a time, which is there when all others are in use, more time,
    /// and small batches, so that packets do not wait long behind it.
    #[must_use]
    pub fn for_answers(self: &Arc<Self>) -> Arc<dyn CustomCipher> {
        Arc::new(Answers(Arc::clone(self)))
    }

    /// The number of keys that the worker has room for, beside the one for known answers.
    #[must_use]
    pub fn keys(&self) -> usize {
        spare(self.shared.core.keys.len())
    }

    /// The memory that the host writes.
    #[must_use]
    pub fn host_memory(&self) -> &Memory {
        &self.shared.core.link.host
    }

    /// The memory that the worker writes.
    #[must_use]
    pub fn worker_memory(&self) -> &Memory {
        &self.shared.core.link.worker
    }

    /// How the worker is, for `status`.
    #[must_use]
    pub fn report(&self) -> Report {
        let core = &self.shared.core;
        let (state, last) = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Report {
            state: if state == State::Up && !core.is_up() { State::Restarting } else { state },
            pid: Some(self.shared.pid.load(Relaxed)).filter(|pid| *pid != 0),
            restarts: self.shared.restarts.load(Relaxed),
            ahead: core.counts.ahead.load(Relaxed),
            called: core.counts.called.load(Relaxed),
            late: core.counts.late.load(Relaxed),
            failed: core.counts.failed.load(Relaxed),
            last,
        }
    }
}

fn core(description: CustomDescription, settings: Settings, bell: Bell) -> Result<Core, WorkerError> {
    // One more is for known answers.
    if !(1..MOST_KEYS).contains(&settings.keys) {
        return Err(WorkerError::Keys(settings.keys));
    }
    let times = Times { batch: settings.deadline, key: settings.key_deadline, spin: settings.spin };
    let name = description.name.clone();
    Core::new(description, settings.keys + 1, times, bell).map_err(|why| WorkerError::Memory { name, why })
}

impl CustomCipher for Isolated {
    fn description(&self) -> &CustomDescription {
        &self.shared.core.description
    }

    fn set_key(&self, key: &[u8]) -> Result<CustomKey, SetKeyError> {
        keys::set_key(&self.shared.core, key, Use::Packets)
    }
}

/// The cipher as known answers are put to it.
struct Answers(Arc<Isolated>);

impl CustomCipher for Answers {
    fn description(&self) -> &CustomDescription {
        self.0.description()
    }

    fn set_key(&self, key: &[u8]) -> Result<CustomKey, SetKeyError> {
        keys::set_key(&self.0.shared.core, key, Use::Answers)
    }
}

impl Drop for Isolated {
    fn drop(&mut self) {
        self.shared.stop.store(true, Release);
        self.shared.core.go_down();
        self.shared.core.bell.ring();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has told so.
            let _ = thread.join();
        }
    }
}
