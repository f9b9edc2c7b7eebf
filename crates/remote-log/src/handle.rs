//! What the owner of a sender has of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::RemoteLogError;
use crate::message::{Entry, Mark, Sender, Severity, hex};
use crate::settings::Settings;
use crate::worker::Worker;
use crate::{spool, tls};

/// Entries that wait for the disk at most.
const DEPTH: usize = 1024;

/// The sender of audit lines to a collector.
#[derive(Debug)]
pub struct RemoteLog;

/// An end for whoever has something to tell. All clones are of one sender.
#[derive(Clone, Debug)]
pub struct Handle {
    entries: SyncSender<Entry>,
    shared: Arc<Shared>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

/// What a sender knows of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Whether there is a connection with a collector that has proved who it is.
    pub connected: bool,
    /// When the collector was last known to have read everything until then, as a time since 1970.
    pub confirmed: Option<Duration>,
    /// How long ago that was, or how long ago the sender was started, if it never was.
    pub silent_for: Duration,
    /// The octets of the spool that are not known to be read.
    pub spooled: u64,
    /// Entries that were left out since the start: the queue or the spool was full, or the disk refused.
    pub lost: u64,
    /// The number of the last message; 0: there was none.
    pub sequence: u64,
    /// The SHA-256 of the last message in hexadecimal: what the collector's file must end with.
    pub hash: String,
    /// What is wrong now, or was wrong last; `None` after a confirmation.
    pub error: Option<String>,
}

/// What the thread and its owners share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) may_connect: AtomicBool,
    pub(crate) stop: AtomicBool,
    pub(crate) lost: AtomicU64,
    pub(crate) known: Mutex<SharedState>,
}

/// What the thread last knew of its connection and its spool.
#[derive(Debug)]
pub(crate) struct SharedState {
    pub(crate) connected: bool,
    pub(crate) confirmed: Option<Duration>,
    pub(crate) heard: Instant,
    pub(crate) spooled: u64,
    pub(crate) head: Mark,
    pub(crate) error: Option<String>,
}

impl RemoteLog {
    /// Look at the settings and the files that they name, and begin to take entries. No connection is made before
    /// [`Handle::connect`]: a daemon may first have to be where its own traffic is let pass.
    ///
    /// # Errors
    /// [`RemoteLogError`], if a file cannot be used or there is no thread to be had. A collector that is not there is
    /// no error.
    pub fn start(settings: Settings) -> Result<Handle, RemoteLogError> {
        let settings = Settings { size: settings.size.max(Settings::LEAST), ..settings };
        drop(tls::connection(&settings)?);
        spool::folder(&settings.spool)?;
        let (entries, queue) = sync_channel(DEPTH);
        let known = SharedState {
            connected: false,
            confirmed: None,
            heard: Instant::now(),
            spooled: 0,
            head: Mark::BEGIN,
            error: None,
        };
        let shared = Arc::new(Shared {
            may_connect: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            known: Mutex::new(known),
        });
        let at_start = settings.at_start;
        let sender = Sender::new(&settings.app_name);
        let worker = Worker::new(settings, sender, queue, Arc::clone(&shared));
        let thread = std::thread::Builder::new().name("rvl-remote".to_owned()).spawn(move || {
            at_start();
            worker.run();
        });
        let thread = Arc::new(Mutex::new(Some(thread.map_err(RemoteLogError::Thread)?)));
        Ok(Handle { entries, shared, thread })
    }
}

impl Handle {
    /// From here on the sender may connect.
    pub fn connect(&self) {
        self.shared.may_connect.store(true, Ordering::Relaxed);
    }

    /// Tell something, without waiting. What does not fit into the queue is counted, and said in a message later.
    /// `id` is the MSGID of RFC 5424; control characters in `json_text` become spaces or U+FFFD, and what makes the
    /// message longer than [`LONGEST`](crate::LONGEST) octets is cut off, with a mark.
    pub fn log(&self, severity: Severity, id: &str, json_text: &str) {
        if self.entries.try_send(Entry::now(severity, id, json_text)).is_err() {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What the sender knows of itself.
    pub fn state(&self) -> State {
        let known = self.shared.known.lock().unwrap_or_else(PoisonError::into_inner);
        State {
            connected: known.connected,
            confirmed: known.confirmed,
            silent_for: known.heard.elapsed(),
            spooled: known.spooled,
            lost: self.shared.lost.load(Ordering::Relaxed),
            sequence: known.head.seq,
            hash: hex(&known.head.hash),
            error: known.error.clone(),
        }
    }

    /// Write down what was told, try for two seconds to have it confirmed, and end the thread. What is not confirmed
    /// stays in the spool for the next start.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}
