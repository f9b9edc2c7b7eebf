//! A file of JSON objects, one a line, mode 0600, of bounded size: the audit log, the flow log.
//!
//! What enters: fields and a time, into a bounded channel that is never waited for. What leaves: lines, written by a thread of its
//! own. What does not fit, or cannot be written, is counted and said in the log.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use jiff::Timestamp;
use netio::clock;
use serde_json::{Map, Value, json};

/// Entries that wait for the disk at most.
const DEPTH: usize = 4096;
/// Entries that are written with one call.
const BATCH: usize = 64;

/// Where, and how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The path of the log file.
    pub file: PathBuf,
    /// Octets behind which it is rotated.
    pub size: u64,
    /// Full files that are kept beside it, from 1.
    pub files: u32,
}

/// What was counted since the daemon's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Entries in the file.
    pub written: u64,
    /// Entries that the disk did not take.
    pub failed: u64,
    /// Entries that found the channel full.
    pub lost: u64,
}

#[derive(Debug, Default)]
struct Counters {
    written: AtomicU64,
    failed: AtomicU64,
    lost: AtomicU64,
}

/// An end for whoever has something to tell. Without a file it takes nothing.
#[derive(Clone, Debug, Default)]
pub struct JsonLog {
    entries: Option<SyncSender<Entry>>,
    counters: Arc<Counters>,
}

/// One line to be, with the wall clock's time since 1970.
#[derive(Debug)]
struct Entry {
    at: Duration,
    fields: Map<String, Value>,
}

impl JsonLog {
    /// Open the file and begin to write, by a thread of this name.
    ///
    /// # Errors
    /// If the file cannot be opened, or there is no thread to be had.
    pub fn start(thread: &str, what: &'static str, options: LogOptions) -> io::Result<JsonLog> {
        let LogOptions { file: path, size, files } = options;
        let mut log = LogFile { path, size, files, file: None, len: 0 };
        log.open()?;
        let (sender, receiver) = sync_channel(DEPTH);
        let counters = Arc::<Counters>::default();
        let out = JsonLog { entries: Some(sender), counters: Arc::clone(&counters) };
        std::thread::Builder::new().name(thread.to_owned()).spawn(move || {
            control::privileges::give_up_all();
            write_all(&receiver, &mut log, &counters, what);
        })?;
        Ok(out)
    }

    /// Whether there is a log file that takes entries.
    pub fn is_on(&self) -> bool {
        self.entries.is_some()
    }

    /// What was counted since the daemon's start.
    pub fn counts(&self) -> LogCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { written, failed, lost } = &*self.counters;
        LogCounts { written: read(written), failed: read(failed), lost: read(lost) }
    }

    /// One line, of a time since 1970.
    pub fn tell(&self, at: Duration, fields: Map<String, Value>) {
        if let Some(entries) = &self.entries
            && entries.try_send(Entry { at, fields }).is_err()
        {
            self.counters.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The fields of an object.
pub fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Until nobody tells any more.
fn write_all(entries: &Receiver<Entry>, log: &mut LogFile, counters: &Counters, what: &str) {
    let mut lines = Vec::new();
    let (mut lost_before, mut broken) = (0, false);
    while let Ok(first) = entries.recv() {
        lines.clear();
        let mut count = 0;
        for entry in std::iter::once(first).chain(entries.try_iter()).take(BATCH) {
            line(&mut lines, entry);
            count += 1;
        }
        let lost = counters.lost.load(Ordering::Relaxed);
        if lost > lost_before {
            let text = "the disk was too slow for them";
            let fields = fields(json!({ "event": "left_out", "count": lost - lost_before, "text": text }));
            line(&mut lines, Entry { at: clock::wall(), fields });
            lost_before = lost;
        }
        match log.append(&lines) {
            Ok(()) => {
                counters.written.fetch_add(count, Ordering::Relaxed);
                if std::mem::take(&mut broken) {
                    tracing::info!("the {what} {} works again", log.path.display());
                }
            }
            Err(error) => {
                let failed = counters.failed.fetch_add(count, Ordering::Relaxed) + count;
                if !std::mem::replace(&mut broken, true) {
                    tracing::error!(
                        "the {what} {}: {error}; {failed} entries are not in it, and packets go on",
                        log.path.display()
                    );
                }
            }
        }
    }
}

/// One line of the log.
fn line(out: &mut Vec<u8>, entry: Entry) {
    out.extend_from_slice(text(entry.at, entry.fields).as_bytes());
    out.push(b'\n');
}

/// The JSON text of an entry: the time first.
pub fn text(at: Duration, fields: Map<String, Value>) -> String {
    let mut whole = Map::new();
    whole.insert("time".to_owned(), utc(at).into());
    whole.extend(fields);
    Value::Object(whole).to_string()
}

/// A file that is renamed to `NAME.1` when it is full, that one to `NAME.2`, and so on.
#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    size: u64,
    /// Full ones that are kept.
    files: u32,
    /// `None`: it could not be opened, or written.
    file: Option<File>,
    len: u64,
}

impl LogFile {
    fn open(&mut self) -> io::Result<&mut File> {
        if let Some(folder) = self.path.parent().filter(|folder| !folder.exists()) {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600);
        // Neither a link that somebody left there, nor a pipe that nobody reads.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let file = options.custom_flags(flags.bits().cast_signed()).open(&self.path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        self.len = about.len();
        Ok(self.file.insert(file))
    }

    /// The oldest gives way to the one before it.
    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..self.files).rev() {
            match std::fs::rename(rotated(&self.path, number), rotated(&self.path, number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        std::fs::rename(&self.path, rotated(&self.path, 1))?;
        self.file = None;
        Ok(())
    }

    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        // Taken away by hand or by logrotate: a new one.
        if !self.path.exists() {
            self.file = None;
        }
        if self.len > 0 && self.len + lines.len() as u64 > self.size {
            self.rotate()?;
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => self.open()?,
        };
        match file.write_all(lines) {
            Ok(()) => {
                self.len += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                self.file = None;
                Err(error)
            }
        }
    }
}

fn rotated(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// RFC 3339, UTC, microseconds. A time that is too late for a timestamp is shown as the latest.
pub fn utc(since_epoch: Duration) -> String {
    let time = i64::try_from(since_epoch.as_micros())
        .ok()
        .and_then(|micros| Timestamp::from_microsecond(micros).ok());
    time.unwrap_or(Timestamp::MAX).strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

#[cfg(test)]
pub(crate) mod tests;
