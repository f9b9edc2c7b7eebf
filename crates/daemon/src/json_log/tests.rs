//! That the file stays small, and that a disk that takes nothing stops nobody.

use std::fs;
use std::time::Instant;

use super::*;

/// A folder of a test's own.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ravelin-log-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// A log in it, whose folder is not there yet.
    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("log").join("audit.jsonl")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Wait until the thread has dealt with so many.
pub(crate) fn settled(log: &JsonLog, entries: u64) {
    let begun = Instant::now();
    while log.counts().written + log.counts().failed < entries {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", log.counts());
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn number(n: u64) -> Map<String, Value> {
    fields(json!({ "number": n, "text": "of some length, so that the file is full soon" }))
}

#[test]
fn so_many_full_files_are_kept_and_no_more() {
    let folder = Folder::new("files");
    let options = LogOptions { file: folder.file(), size: 500, files: 3 };
    let log = JsonLog::start("rvl-test", "test log", options).unwrap();
    for n in 0..60 {
        log.tell(clock::wall(), number(n));
        settled(&log, n + 1);
    }
    let mut names: Vec<_> =
        fs::read_dir(folder.0.join("log")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2", "audit.jsonl.3"]);
    // From the oldest to the newest without a gap.
    let all: Vec<u64> = [3, 2, 1]
        .map(|number| rotated(&folder.file(), number))
        .iter()
        .chain([&folder.file()])
        .flat_map(|file| lines(file))
        .map(|line| line["number"].as_u64().unwrap())
        .collect();
    assert_eq!(all.last(), Some(&59));
    assert!(all.windows(2).all(|two| two[0] + 1 == two[1]), "{all:?}");
}

#[test]
fn what_cannot_be_written_is_counted_and_nobody_waits() {
    let folder = Folder::new("broken");
    // A folder in the place of the file: it cannot be opened.
    fs::create_dir_all(folder.file()).unwrap();
    let mut log = LogFile { path: folder.file(), size: 1000, files: 1, file: None, len: 0 };
    assert!(log.append(b"{}\n").is_err());
    let mut deaf = OpenOptions::new();
    let file = deaf.write(true).open("/dev/full").ok();
    let mut full = LogFile { path: "/dev/full".into(), size: 1000, files: 1, file, len: 0 };
    let (sender, receiver) = sync_channel(DEPTH);
    let stuck = JsonLog { entries: Some(sender), counters: Arc::default() };
    for n in 0..DEPTH as u64 + 7 {
        stuck.tell(clock::wall(), number(n));
    }
    assert_eq!(stuck.counts().lost, 7);
    let counters = Arc::clone(&stuck.counters);
    drop(stuck);
    write_all(&receiver, &mut full, &counters, "test log");
    assert_eq!(counters.failed.load(Ordering::Relaxed), DEPTH as u64);
    assert_eq!(counters.written.load(Ordering::Relaxed), 0);
}

#[test]
fn times_are_those_of_the_calendar() {
    for (seconds, text) in [
        (0, "1970-01-01T00:00:00.000000Z"),
        (951_782_399, "2000-02-28T23:59:59.000000Z"),
        (951_782_400, "2000-02-29T00:00:00.000000Z"),
        (1_709_251_200, "2024-03-01T00:00:00.000000Z"),
        (4_107_542_399, "2100-02-28T23:59:59.000000Z"),
        (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
    ] {
        assert_eq!(utc(Duration::from_secs(seconds)), text);
    }
    assert_eq!(utc(Duration::from_micros(1_500_000)), "1970-01-01T00:00:01.500000Z");
    assert!(utc(Duration::MAX).starts_with("9999-12-"));
}
