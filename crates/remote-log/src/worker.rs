//! The thread of a sender: from the queue to the disk, from the disk to the collector.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crate::clock;
use crate::handle::{Shared, SharedState};
use crate::link::{Link, Progress};
use crate::message::{Entry, Sender, Severity, hex};
use crate::settings::Settings;
use crate::spool::{Repairs, Spool};

/// Entries that are written with one call at most.
const BATCH: usize = 256;
/// Between two looks at a connection on which something is awaited.
const SOON: Duration = Duration::from_millis(10);
/// Between two looks at a connection on which nothing is.
const IDLE: Duration = Duration::from_millis(250);
/// How long an end may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// What the thread owns.
#[derive(Debug)]
pub(crate) struct Worker {
    settings: Settings,
    sender: Sender,
    queue: Receiver<Entry>,
    shared: Arc<Shared>,
    /// Entries that were left out, of which a message says so.
    told: u64,
    /// Those of which a message on the disk says so.
    written: u64,
    /// The connection is known to be broken, which was logged.
    broken: bool,
}

impl Worker {
    pub(crate) fn new(
        settings: Settings,
        sender: Sender,
        queue: Receiver<Entry>,
        shared: Arc<Shared>,
    ) -> Worker {
        Worker { settings, sender, queue, shared, told: 0, written: 0, broken: false }
    }

    /// Until it is told to stop, or nobody is left to tell anything.
    pub(crate) fn run(mut self) {
        let Some((mut spool, repairs)) = self.take_spool() else { return };
        let mut link = Link::new(&self.settings, Instant::now());
        self.begin(&mut spool, &repairs);
        let mut beat = Instant::now() + self.settings.heartbeat;
        let mut end = None;
        loop {
            let pause =
                if link.is_busy() || end.is_some() { SOON } else { IDLE.min(self.settings.heartbeat / 4) };
            let first = match self.queue.recv_timeout(pause) {
                Ok(entry) => Some(entry),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    self.shared.stop.store(true, Ordering::Relaxed);
                    std::thread::sleep(pause);
                    None
                }
            };
            let now = Instant::now();
            self.write(&mut spool, first);
            if now >= beat && end.is_none() {
                beat = now + self.settings.heartbeat;
                self.heartbeat(&mut spool);
            }
            if end.is_none() && self.shared.stop.load(Ordering::Relaxed) {
                end = Some(now + FAREWELL);
                let text = r#"{"event":"remote_log_stopped"}"#;
                self.append(&mut spool, &Entry::now(Severity::Notice, "stop", text));
                self.commit(&mut spool);
            }
            let may_connect = self.shared.may_connect.load(Ordering::Relaxed);
            if may_connect {
                let done = link.advance(&self.settings, &mut spool, now, end.is_some());
                self.hear(done, &mut spool);
            }
            self.tell(&link, &spool);
            let is_over = |end: Instant| now >= end || !may_connect || spool.octets() == 0 || self.broken;
            if end.is_some_and(is_over) {
                return;
            }
        }
    }

    /// The spool, as soon as no other process has it; `None`: the end came first.
    fn take_spool(&self) -> Option<(Spool, Repairs)> {
        while !self.shared.stop.load(Ordering::Relaxed) {
            let taken = Spool::take(&self.settings.spool, self.settings.size);
            let error = match taken {
                Ok(Some(taken)) => return Some(taken),
                Ok(None) => "another process has the spool".to_owned(),
                Err(error) => format!("the spool {}: {error}", self.settings.spool.display()),
            };
            self.known(|known| {
                if known.error.as_ref() != Some(&error) {
                    tracing::warn!("the remote audit log waits: {error}");
                }
                known.error = Some(error);
            });
            std::thread::sleep(IDLE);
        }
        None
    }

    /// The first message of a start says which was the last one before it.
    fn begin(&mut self, spool: &mut Spool, repairs: &Repairs) {
        let last = spool.head();
        let mut text = format!(
            r#"{{"event":"remote_log_started","last_seq":{},"last_hash":"{}","spooled":{}"#,
            last.seq,
            hex(&last.hash),
            spool.octets()
        );
        if repairs.torn > 0 {
            text.push_str(&format!(r#","torn_octets":{}"#, repairs.torn));
        }
        if repairs.damaged.is_some() {
            text.push_str(r#","damaged":true"#);
        }
        text.push('}');
        if let Some(damaged) = &repairs.damaged {
            tracing::error!(
                "somebody changed the spool of the remote audit log; what was there is {}",
                damaged.display()
            );
        }
        let severity = if repairs.damaged.is_some() { Severity::Error } else { Severity::Notice };
        self.append(spool, &Entry::now(severity, "start", &text));
        self.commit(spool);
        self.known(|known| known.error = None);
    }

    /// What waits in the queue, and before it how many could not.
    fn write(&mut self, spool: &mut Spool, first: Option<Entry>) {
        let mut count = 0;
        let mut next = first;
        while let Some(entry) = next {
            self.append(spool, &entry);
            count += 1;
            next = if count < BATCH { self.queue.try_recv().ok() } else { None };
        }
        self.gap(spool);
        self.commit(spool);
    }

    /// Say how many entries were left out, as soon as there is room for more than that; whether nothing is left to say.
    fn gap(&mut self, spool: &mut Spool) -> bool {
        let lost = self.shared.lost.load(Ordering::Relaxed);
        if lost == self.told {
            return true;
        }
        if spool.room() < self.settings.size / 8 {
            return false;
        }
        let text = format!(
            r#"{{"event":"left_out","count":{},"text":"the queue or the spool was full, or the disk refused"}}"#,
            lost - self.told
        );
        let entry = Entry::now(Severity::Error, "gap", &text);
        let is_said = spool.append(|before| self.sender.message(&entry, before)).is_ok();
        if is_said {
            self.told = lost;
        }
        is_said
    }

    /// Put an entry behind those before it. Behind one that was left out none follows without a message that says so.
    fn append(&mut self, spool: &mut Spool, entry: &Entry) {
        let is_open = self.gap(spool);
        if !is_open || spool.append(|before| self.sender.message(entry, before)).is_err() {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Have on the disk what was put in line.
    fn commit(&mut self, spool: &mut Spool) {
        match spool.commit() {
            Ok(()) => self.written = self.told,
            Err((count, error)) => {
                // A message about those that were left out may be among what the disk refused.
                self.told = self.written;
                self.shared.lost.fetch_add(count, Ordering::Relaxed);
                let error = format!("the spool {}: {error}", self.settings.spool.display());
                self.known(|known| known.error = Some(error));
            }
        }
    }

    /// A heartbeat for which there is no room is nothing that was lost.
    fn heartbeat(&mut self, spool: &mut Spool) {
        let lost = self.shared.lost.load(Ordering::Relaxed);
        let text = format!(r#"{{"event":"heartbeat","spooled":{},"left_out":{lost}}}"#, spool.octets());
        let entry = Entry::now(Severity::Informational, "heartbeat", &text);
        if self.gap(spool) && spool.append(|before| self.sender.message(&entry, before)).is_ok() {
            self.commit(spool);
        }
    }

    /// What the connection came to.
    fn hear(&mut self, done: Result<Progress, String>, spool: &mut Spool) {
        let server = self.settings.server;
        match done {
            Ok(Progress::None) => {}
            Ok(Progress::Confirmed) => {
                let error = spool.confirm().err().map(|error| format!("the spool: {error}"));
                if error.is_some() {
                    // It stays as it was, and is sent again.
                    spool.rewind();
                }
                if std::mem::take(&mut self.broken) {
                    tracing::info!("the collector of audit lines {server} has what was kept for it");
                }
                self.known(|known| {
                    (known.confirmed, known.heard) = (Some(clock::wall()), Instant::now());
                    known.error = error;
                });
            }
            Err(error) => {
                if !std::mem::replace(&mut self.broken, true) {
                    tracing::warn!("the collector of audit lines {server}: {error}; they are kept for it");
                }
                self.known(|known| known.error = Some(error));
            }
        }
    }

    fn tell(&self, link: &Link, spool: &Spool) {
        self.known(|known| {
            known.connected = link.is_up();
            known.spooled = spool.octets();
            known.head = spool.head();
        });
    }

    fn known(&self, change: impl FnOnce(&mut SharedState)) {
        change(&mut self.shared.known.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
