//! A hand-over between two threads, and the refusals.

use super::*;
use crypto::Secret;
use std::os::unix::net::UnixListener;
use std::thread;

fn state() -> HandOver {
    HandOver {
        fingerprint_key: Secret::new(vec![9; 32]),
        used_keys: vec![[1; 32], [2; 32]],
        inbound: Vec::new(),
        outbound: Vec::new(),
        rules: b"[]".to_vec(),
        scrubbed: vec![],
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ravelin-handover-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn state_and_descriptors_arrive_and_the_new_daemon_waits_for_the_end_of_the_old() {
    let folder = Folder::new("give");
    let listener = UnixListener::bind(socket(&folder.0)).unwrap();
    let request = Request::new("main", "rvl0", 4500);
    let have = request.clone();
    let old = thread::spawn(move || {
        let giving = Giving::answer(listener.accept().unwrap().0, &have).unwrap();
        let devices = UnixStream::pair().unwrap();
        let open = giving.give(state(), devices.0.as_fd(), &[devices.1.as_fd(), devices.0.as_fd()]).unwrap();
        drop(open);
    });
    let taken = take(&folder.0, &request).unwrap();
    old.join().unwrap();
    assert_eq!(taken.state, state());
    assert_eq!(taken.udp.len(), 2);
}

#[test]
fn what_is_too_long_is_left_out_before_anything_is_wiped() {
    let full = HandOver {
        scrubbed: vec![(wire::ScrubId(1), vec![1; 10_000]), (wire::ScrubId(2), vec![2; 90_000])],
        ..state()
    };
    let octets = |scrubbed: &[usize]| {
        let scrubbed = scrubbed.iter().map(|at| full.scrubbed[*at].clone()).collect();
        HandOver { scrubbed, ..state() }
    };
    for (name, most, want) in [("all", 200_000, vec![0, 1]), ("one", 20_000, vec![0]), ("none", 1000, vec![])]
    {
        let folder = Folder::new(name);
        let listener = UnixListener::bind(socket(&folder.0)).unwrap();
        let have = Request::new("main", "rvl0", 4500);
        let request = Request { most, ..have.clone() };
        let given = full.clone();
        let old = thread::spawn(move || {
            let giving = Giving::answer(listener.accept().unwrap().0, &have).unwrap();
            let devices = UnixStream::pair().unwrap();
            drop(giving.give(given, devices.0.as_fd(), &[devices.1.as_fd()]).unwrap());
        });
        let taken = take(&folder.0, &request).unwrap();
        old.join().unwrap();
        assert_eq!(taken.state, octets(&want), "{name}");
    }
}

#[test]
fn what_cannot_be_left_out_and_is_too_long_is_refused_and_the_old_daemon_goes_on() {
    let folder = Folder::new("long");
    let listener = UnixListener::bind(socket(&folder.0)).unwrap();
    let have = Request::new("main", "rvl0", 4500);
    let request = Request { most: 100, ..have.clone() };
    let old = thread::spawn(move || {
        let giving = Giving::answer(listener.accept().unwrap().0, &have).unwrap();
        giving.takes(101).map(drop).unwrap_err()
    });
    assert!(
        matches!(take(&folder.0, &request), Err(TakeError::Refused(text)) if text.contains("101 octets"))
    );
    old.join().unwrap();
}

#[test]
fn a_daemon_that_does_not_say_how_much_it_reads_reads_what_older_ones_do() {
    let text = r#"{"version":2,"instance":"main","tun":"rvl0","esp_port":4500}"#;
    let request: Request = serde_json::from_str(text).unwrap();
    assert_eq!(request.most, MAX_UNSAID);
    assert_eq!(Request::new("main", "rvl0", 4500).differs(&request), None);
}

#[test]
fn a_request_for_something_else_is_refused_and_nothing_is_given() {
    let mut other = Request::new("main", "rvl0", 4500);
    other.version += 1;
    for (name, request) in [
        ("instance", Request::new("bob", "rvl0", 4500)),
        ("tun", Request::new("main", "rvl1", 4500)),
        ("port", Request::new("main", "rvl0", 4501)),
        ("version", other),
    ] {
        let folder = Folder::new(name);
        let listener = UnixListener::bind(socket(&folder.0)).unwrap();
        let old = thread::spawn(move || {
            let have = Request::new("main", "rvl0", 4500);
            Giving::answer(listener.accept().unwrap().0, &have).map(drop).unwrap_err()
        });
        assert!(matches!(take(&folder.0, &request), Err(TakeError::Refused(_))), "{name}");
        old.join().unwrap();
    }
}

#[test]
fn without_a_daemon_there_is_nothing_to_take() {
    let folder = Folder::new("nobody");
    let refused = take(&folder.0, &Request::new("main", "rvl0", 4500)).map(drop).unwrap_err();
    assert!(refused.to_string().contains("start without --take-over"), "{refused}");
}

#[test]
fn a_connection_that_says_nothing_sensible_ends_the_attempt_only() {
    let (a, b) = UnixStream::pair().unwrap();
    channel::send(&a, b"{}", &[]).unwrap();
    assert!(Giving::answer(b, &Request::new("main", "rvl0", 4500)).is_err());
    let (text, _) = channel::receive(&a).unwrap();
    assert!(String::from_utf8(text).unwrap().contains("refused"));
}
