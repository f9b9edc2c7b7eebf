//! The audit log as a file: one JSON object a line, mode 0600 (`[audit]` in the configuration).
//!
//! What enters: ends of packets from the data threads, and what somebody had the daemon do. Both go into a bounded channel
//! that is never waited for; a thread of its own writes. What does not fit, or cannot be written, is counted and said in the
//! log. No key is ever among it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use engine::{Audited, Dropped};
use netio::clock;
use serde_json::{Map, Value, json};
use wire::Time;

use crate::config::AuditConfig;

/// Entries that wait for the disk at most.
const DEPTH: usize = 4096;
/// Entries that are written with one call.
const BATCH: usize = 64;

/// What was counted since the daemon's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditCounts {
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
pub struct Auditor {
    entries: Option<SyncSender<Entry>>,
    counters: Arc<Counters>,
}

/// One line to be, with the wall clock's time since 1970.
#[derive(Debug)]
struct Entry {
    at: Duration,
    fields: Map<String, Value>,
}

impl Auditor {
    /// Open the file and begin to write; without a configuration there is none.
    ///
    /// # Errors
    /// If the file cannot be opened, or there is no thread to be had.
    pub fn start(config: Option<&AuditConfig>) -> io::Result<Auditor> {
        let Some(config) = config else { return Ok(Auditor::default()) };
        let mut log = LogFile { path: config.file.clone(), size: config.size, file: None, len: 0 };
        log.open()?;
        let (sender, receiver) = sync_channel(DEPTH);
        let counters = Arc::<Counters>::default();
        let auditor = Auditor { entries: Some(sender), counters: Arc::clone(&counters) };
        std::thread::Builder::new()
            .name("rvl-audit".to_owned())
            .spawn(move || write_all(&receiver, &mut log, &counters))?;
        Ok(auditor)
    }

    /// Whether anybody listens.
    pub fn is_on(&self) -> bool {
        self.entries.is_some()
    }

    /// What was counted.
    pub fn counts(&self) -> AuditCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { written, failed, lost } = &*self.counters;
        AuditCounts { written: read(written), failed: read(failed), lost: read(lost) }
    }

    /// Packets ended on their way `out` or `in`; `now` is the data threads' clock.
    pub fn packet(&self, way: &'static str, now: Time, audited: &Audited) {
        let (at, fields) = match audited {
            Audited::Packet(dropped) => (dropped.at, of_packet(way, dropped)),
            Audited::LeftOut(reason, count) => {
                let text = "more of these in a second than are told one by one";
                (
                    now,
                    fields(
                        json!({ "event": "left_out", "of": reason.name(), "direction": way, "count": count, "text": text }),
                    ),
                )
            }
        };
        let age = Duration::from_nanos(now.0.saturating_sub(at.0));
        self.tell(Entry { at: clock::wall().saturating_sub(age), fields });
    }

    /// Somebody had the daemon do something.
    pub fn action(&self, action: &str, uid: u32, pid: Option<i32>, detail: &str) {
        let mut fields = fields(json!({ "event": action, "uid": uid, "detail": detail }));
        if let Some(pid) = pid {
            fields.insert("pid".to_owned(), pid.into());
        }
        self.tell(Entry { at: clock::wall(), fields });
    }

    /// The kernel half refused a call or a packet of an application.
    pub fn refusal(&self, application: &str, event: &sockmon::Event) {
        let way = if event.attempt == sockmon::Attempt::PacketIn { "in" } else { "out" };
        let mut fields = fields(json!({
            "event": event.reason, "direction": way, "application": application, "protocol": event.protocol,
            "attempt": crate::denials::attempt(event.attempt), "peer": event.peer.ip(), "peer_port": event.peer.port(),
        }));
        if let Some(text) = crate::kernel_counters::text(event.reason) {
            fields.insert("text".to_owned(), text.into());
        }
        if event.pid != 0 {
            fields.extend(self::fields(json!({ "pid": event.pid, "uid": event.uid, "program": event.comm })));
        }
        self.tell(Entry { at: clock::wall(), fields });
    }

    /// Something about an executable file whose digest policy asks for.
    pub fn executable(&self, event: &str, path: &str, text: &str) {
        let fields = fields(json!({ "event": event, "path": path, "text": text }));
        self.tell(Entry { at: clock::wall(), fields });
    }

    /// A process executed a file that policy does not take for what it names.
    pub fn executed(&self, event: &sockmon::Event) {
        let mut fields = fields(json!({
            "event": event.reason, "pid": event.pid, "uid": event.uid, "program": event.comm,
        }));
        if let Some(text) = crate::kernel_counters::text(event.reason) {
            fields.insert("text".to_owned(), text.into());
        }
        self.tell(Entry { at: clock::wall(), fields });
    }

    /// So many more of a kind could not be told one by one.
    pub fn left_out(&self, of: &str, count: u64, text: &str) {
        let fields = fields(json!({ "event": "left_out", "of": of, "count": count, "text": text }));
        self.tell(Entry { at: clock::wall(), fields });
    }

    fn tell(&self, entry: Entry) {
        if let Some(entries) = &self.entries
            && entries.try_send(entry).is_err()
        {
            self.counters.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// What RFC 4303 section 4 and RFC 4301 section 5 want said, as far as it is known.
fn of_packet(way: &'static str, dropped: &Dropped) -> Map<String, Value> {
    let mut out = fields(json!({
        "event": dropped.reason.name(), "direction": way, "text": dropped.reason.text(), "octets": dropped.len,
    }));
    let mut put = |name: &str, value: Value| out.insert(name.to_owned(), value);
    if dropped.spi != 0 {
        put("spi", format!("{:#010x}", dropped.spi).into());
        put("sequence", dropped.sequence.into());
    }
    if let Some(flow) = &dropped.flow {
        let (src, dst, ports) = match way {
            "out" => (flow.local, flow.remote, (flow.local_port, flow.remote_port)),
            _ => (flow.remote, flow.local, (flow.remote_port, flow.local_port)),
        };
        put(
            "inner",
            json!({
                "src": src, "dst": dst, "protocol": flow.protocol, "src_port": ports.0, "dst_port": ports.1,
            }),
        );
        if dropped.outer.is_none() {
            put("src", json!(src));
            put("dst", json!(dst));
        }
    }
    if let Some((src, dst)) = dropped.outer {
        put("src", json!(src));
        put("dst", json!(dst));
    }
    if dropped.flow_label != 0 {
        put("flow_label", format!("{:#07x}", dropped.flow_label).into());
    }
    out
}

/// Until the last auditor is gone.
fn write_all(entries: &Receiver<Entry>, log: &mut LogFile, counters: &Counters) {
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
                    tracing::info!("the audit log {} works again", log.path.display());
                }
            }
            Err(error) => {
                let failed = counters.failed.fetch_add(count, Ordering::Relaxed) + count;
                if !std::mem::replace(&mut broken, true) {
                    tracing::error!(
                        "the audit log {}: {error}; {failed} entries are not in it, and packets go on",
                        log.path.display()
                    );
                }
            }
        }
    }
}

/// One line: the time first.
fn line(out: &mut Vec<u8>, entry: Entry) {
    let mut whole = Map::new();
    whole.insert("time".to_owned(), utc(entry.at).into());
    whole.extend(entry.fields);
    if serde_json::to_writer(&mut *out, &whole).is_ok() {
        out.push(b'\n');
    }
}

/// A file that is renamed to `NAME.1` when it is full.
#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    size: u64,
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

    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        // Taken away by hand or by logrotate: a new one.
        if !self.path.exists() {
            self.file = None;
        }
        if self.len > 0 && self.len + lines.len() as u64 > self.size {
            std::fs::rename(&self.path, rotated(&self.path))?;
            self.file = None;
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

fn rotated(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

/// RFC 3339, UTC, microseconds.
pub(crate) fn utc(since_epoch: Duration) -> String {
    const DAY: u64 = 86_400;
    let seconds = since_epoch.as_secs();
    let (mut day, clock) = (seconds / DAY, seconds % DAY);
    let mut year = 1970;
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    let micros = since_epoch.subsec_micros();
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z", day + 1)
}

#[cfg(test)]
mod tests;
