//! Folders, settings and waiting for what must come.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use remote_log::{Handle, RemoteLog, Settings, Severity, State};

use crate::authority::{Authority, Papers};

/// The name of the collector in its certificate.
pub const COLLECTOR: &str = "collector.example";
/// The name of the sender in its certificate.
pub const GATE: &str = "gate.example";

/// A folder that goes when the test does.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ravelin-remote-log-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A file with this mode.
pub fn write(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A port of the loopback interface that nobody has.
pub fn free_port() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

/// A collector's place and a sender's settings, with certificates of one authority.
pub struct Pair {
    pub folder: Folder,
    pub authority: Authority,
    pub collector: Papers,
    pub settings: Settings,
}

impl Pair {
    pub fn new() -> Pair {
        let folder = Folder::new();
        let authority = Authority::new("authority of the test");
        let collector = authority.papers(folder.path(), COLLECTOR);
        let gate = authority.papers(folder.path(), GATE);
        let settings = quick(free_port(), &gate, folder.path().join("spool"));
        Pair { folder, authority, collector, settings }
    }

    pub fn start(&self) -> Handle {
        let handle = RemoteLog::start(self.settings.clone()).unwrap();
        handle.connect();
        handle
    }
}

/// Settings with times for a test.
pub fn quick(server: SocketAddr, papers: &Papers, spool: PathBuf) -> Settings {
    let files = [papers.ca.clone(), papers.certificate.clone(), papers.key.clone(), spool];
    Settings {
        heartbeat: Duration::from_millis(400),
        patience: Duration::from_millis(500),
        back_off: (Duration::from_millis(20), Duration::from_millis(200)),
        ..Settings::new(server, COLLECTOR, files)
    }
}

/// Tell so many numbered things.
pub fn tell(handle: &Handle, numbers: std::ops::Range<u32>) {
    for number in numbers {
        handle.log(Severity::Notice, "action", &format!(r#"{{"event":"test","number":{number}}}"#));
    }
}

/// Wait for something that must come; the bound only keeps a test that fails from hanging.
pub fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(15);
    while !is_there() {
        assert!(Instant::now() < end, "it did not come: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Wait until the state of a sender is such; the state.
pub fn wait_state(handle: &Handle, what: &str, is_it: impl Fn(&State) -> bool) -> State {
    let end = Instant::now() + Duration::from_secs(15);
    loop {
        let state = handle.state();
        if is_it(&state) {
            return state;
        }
        assert!(Instant::now() < end, "it did not come: {what}; {state:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The numbers that [`tell`] told, in the order in which lines have them first.
pub fn numbers(lines: &[String]) -> Vec<u32> {
    let mut seen = std::collections::BTreeSet::new();
    let number = |line: &String| {
        let text = line.split_once(r#""event":"test","number":"#)?.1;
        text.trim_end_matches('}').parse().ok()
    };
    lines.iter().filter_map(number).filter(|number| seen.insert(*number)).collect()
}
