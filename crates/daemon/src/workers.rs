//! Processes for ciphers of one's own (docs/design/0037): started before the daemon forbids itself to start programs.
//!
//! What enters: a library that was examined. What leaves: a cipher whose code runs in another process, and changes of it
//! for the log, the audit log and the event stream.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

use api::{CipherChange, CipherChanged};
use cipher_loader::{Examined, Trial};
use cipher_worker::{Event, Failure, Isolated, Report, Settings, State};
use crypto::{Provider, WorkerCounts, WorkerState};
use documents::ciphers::{StartedWorker, WORKER_COMMAND};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// The most changes that wait for the control plane.
const DEPTH: usize = 64;
/// The most changes of one cipher that are told in a [`WINDOW`]: a worker that crashes at each start is told, and fills no
/// disk.
const MOST: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);

/// What the threads that watch workers tell the control plane.
#[derive(Clone, Debug)]
pub struct ChangeSender(Sender<CipherChanged>);

/// The control plane's end of the channel of changes.
#[derive(Debug)]
pub struct ChangeReceiver {
    receiver: Receiver<CipherChanged>,
    /// For known answers that are asked for later.
    sender: ChangeSender,
}

/// Make the end of the threads that watch workers, and the control plane's end.
pub fn changes() -> (ChangeSender, ChangeReceiver) {
    let (sender, receiver) = channel(DEPTH);
    let sender = ChangeSender(sender);
    (sender.clone(), ChangeReceiver { receiver, sender })
}

impl ChangeReceiver {
    /// Wait for the next change.
    pub(crate) async fn next(&mut self) -> CipherChanged {
        match self.receiver.recv().await {
            Some(change) => change,
            // It never comes to this while this end has a sender itself.
            None => std::future::pending().await,
        }
    }

    /// Who asks for known answers, and tells changes here.
    pub(crate) fn known_answers(&self) -> KnownAnswers {
        KnownAnswers { changes: self.sender.clone(), running: Arc::default() }
    }
}

/// The changes of one cipher that may still be told.
#[derive(Debug)]
struct Allowance {
    since: Instant,
    told: u32,
    left_out: u64,
}

impl Allowance {
    const fn new(now: Instant) -> Allowance {
        Allowance { since: now, told: 0, left_out: 0 }
    }

    /// Whether one more is told at this time; if so, how many were left out before it.
    fn take(&mut self, now: Instant) -> Option<u64> {
        if now.duration_since(self.since) >= WINDOW {
            (self.since, self.told) = (now, 0);
        }
        if self.told == MOST {
            self.left_out += 1;
            return None;
        }
        self.told += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Start a worker for a cipher. Its failures and restarts go to `changes`.
///
/// # Errors
/// Why there is none, for `status`.
pub fn start(
    examined: &Examined,
    deadline: Duration,
    changes: &ChangeSender,
) -> Result<StartedWorker, String> {
    let cipher = examined.manifest.description.name.clone();
    let program = Trial::own([WORKER_COMMAND]);
    let changes = changes.0.clone();
    let allowance = std::sync::Mutex::new(Allowance::new(Instant::now()));
    let told = move |event: &Event| {
        let mut allowance = allowance.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let is_last = matches!(event, Event::Failed(Failure::Spawner));
        let left_out = match allowance.take(Instant::now()) {
            Some(left_out) => left_out,
            // Nothing comes behind it that could tell.
            None if is_last => std::mem::take(&mut allowance.left_out) - 1,
            None => return,
        };
        let (change, text) = in_words(event);
        let told = CipherChanged { cipher: cipher.clone(), change, text, left_out };
        if let Err(error) = changes.try_send(told) {
            // It counts as one that was left out, and those before it still are.
            allowance.left_out = left_out.saturating_add(1);
            if is_last {
                let lost = error.into_inner();
                tracing::error!(
                    "cipher {}: {}; the audit log and the event stream do not have it",
                    lost.cipher,
                    lost.text
                );
            }
        }
    };
    let default = Settings::default();
    let settings = Settings {
        deadline,
        // A key never has less time than a batch.
        key_deadline: default.key_deadline.max(deadline),
        at_start: control::privileges::begin_without_any,
        ..default
    };
    let isolated = Isolated::start(&program, examined, settings, told);
    let isolated = Arc::new(isolated.map_err(|error| error.to_string())?);
    isolated.be_patient();
    let (asked, settled) = (Arc::clone(&isolated), Arc::clone(&isolated));
    let state = move || {
        let report = asked.report();
        let Report { restarts, ahead, called, late, failed, .. } = report;
        WorkerState {
            is_up: report.state == State::Up,
            text: report.to_string(),
            counts: WorkerCounts { restarts, ahead, called, late, failed },
        }
    };
    let settle = move || settled.settle();
    let keys = isolated.keys();
    let answers = isolated.for_answers();
    Ok(StartedWorker { cipher: isolated, answers, state: Box::new(state), settle: Box::new(settle), keys })
}

/// Puts known answers to ciphers of one's own, one at a time, in a thread that has no right: a cipher may take long for
/// them, and its code may run in that thread.
#[derive(Debug)]
pub(crate) struct KnownAnswers {
    changes: ChangeSender,
    running: Arc<AtomicBool>,
}

impl KnownAnswers {
    /// Ask a cipher, unless one is being asked. A change that comes of it goes the way of a worker's.
    pub(crate) fn ask(&self, cipher: Arc<dyn Provider>) {
        if self.running.swap(true, Acquire) {
            tracing::warn!(
                "another cipher is still being asked for known answers; {} is not asked",
                cipher.name()
            );
            return;
        }
        let (changes, running) = (self.changes.clone(), Running(Arc::clone(&self.running)));
        let ask = move || {
            let _running = running;
            control::privileges::give_up_all();
            let outcome = cipher.check_again();
            if let Err(error) = outcome {
                let text = format!("{error}; {}", error.remedy().unwrap_or_default());
                let cipher = cipher.name().to_owned();
                let changed = CipherChanged { cipher, change: CipherChange::Withdrawn, text, left_out: 0 };
                // Where nobody listens any more, the daemon ends.
                let _ = changes.0.blocking_send(changed);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("rvl-answers".to_owned()).spawn(ask) {
            tracing::warn!(%error, "known answers of a cipher are not asked for");
        }
    }
}

/// A cipher is being asked as long as this value is there, also where the thread panics.
struct Running(Arc<AtomicBool>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}

fn in_words(event: &Event) -> (CipherChange, String) {
    match event {
        Event::Failed(why) => {
            let text = format!("its worker failed: {why}; its packets are dropped (unit_failed)");
            (CipherChange::Failed, text)
        }
        Event::Restarted { restarts } => (
            CipherChange::Restarted,
            format!("its worker is back, after {restarts} restarts since the start"),
        ),
        other => (CipherChange::Failed, format!("its worker: {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_fails_all_the_time_is_told_of_ten_times_a_minute() {
        let start = Instant::now();
        let mut allowance = Allowance::new(start);
        let told =
            (0..300).filter(|n| allowance.take(start + Duration::from_millis(100 * n)).is_some()).count();
        assert_eq!(told, 10);
        assert_eq!(allowance.take(start + WINDOW), Some(290));
        assert_eq!(allowance.take(start + WINDOW), Some(0));
    }
}
