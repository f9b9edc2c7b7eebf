//! A hand-over between two threads, and the refusals.

use super::*;
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
    let taken = take(&folder.0, &request, &crypto::Suites::standard(), |_| Ok(())).unwrap();
    old.join().unwrap();
    assert_eq!(taken.state, state());
    assert_eq!(taken.udp.len(), 2);
}

/// What the new daemon cannot go on with is found while the old one still has everything.
#[test]
fn rules_are_shown_before_anything_is_given_and_who_cannot_have_them_leaves_the_old_daemon_as_it_is() {
    for (name, look, verdict) in
        [("fit", true, Ok(())), ("unfit", true, Err("no such interface")), ("blind", false, Err("not asked"))]
    {
        let folder = Folder::new(name);
        let listener = UnixListener::bind(socket(&folder.0)).unwrap();
        let have = Request::new("main", "rvl0", 4500);
        let request = Request { look, ..have.clone() };
        let old = thread::spawn(move || {
            let giving = Giving::answer(listener.accept().unwrap().0, &have).unwrap();
            let giving = giving.show(b"[rules]")?;
            let devices = UnixStream::pair().unwrap();
            drop(giving.give(state(), devices.0.as_fd(), &[devices.1.as_fd()]).unwrap());
            Ok::<(), String>(())
        });
        let mut shown = Vec::new();
        let taken = take(&folder.0, &request, &crypto::Suites::standard(), |rules| {
            shown = rules.to_vec();
            verdict.map_err(str::to_owned)
        });
        let given = old.join().unwrap();
        assert_eq!(shown, if look { &b"[rules]"[..] } else { b"" }, "{name}");
        if look && let Err(reason) = verdict {
            assert!(matches!(&taken, Err(TakeError::Unfit(text)) if text == reason), "{name}");
            assert!(given.unwrap_err().ends_with(reason), "{name}");
        } else {
            assert_eq!(taken.unwrap().state, state(), "{name}");
            assert_eq!(given, Ok(()), "{name}");
        }
    }
}

#[test]
fn who_goes_away_when_the_rules_are_shown_leaves_the_old_daemon_as_it_is() {
    let (a, b) = UnixStream::pair().unwrap();
    let have = Request::new("main", "rvl0", 4500);
    control::handover::send(&a, &serde_json::to_vec(&have).unwrap(), &[]).unwrap();
    let giving = Giving::answer(b, &have).unwrap();
    drop(a);
    assert!(giving.show(b"[rules]").map(drop).unwrap_err().contains("did not say"));
}

/// The other end of a hand-over whose request was sent and read.
fn asked(request: &Request) -> (UnixStream, Giving) {
    let (a, b) = UnixStream::pair().unwrap();
    control::handover::send(&a, &serde_json::to_vec(request).unwrap(), &[]).unwrap();
    let giving = Giving::answer(b, &Request::new("main", "rvl0", 4500)).unwrap();
    (a, giving)
}

/// What is shown, answered with this.
fn answered_with(verdict: &[u8]) -> Result<Giving, String> {
    let (a, giving) = asked(&Request::new("main", "rvl0", 4500));
    control::handover::send(&a, verdict, &[]).unwrap();
    giving.show(b"[rules]")
}

#[test]
fn only_a_clear_yes_is_one() {
    assert!(answered_with(br#"{"takes":true}"#).is_ok());
    for verdict in [
        &b"{}"[..],
        b"[]",
        b"[true]",
        b"null",
        b"true",
        b"",
        br#"{"refused":null}"#,
        br#"{"takes":false}"#,
        br#"{"takes":1}"#,
        br#"{"takes":true,"refused":""}"#,
        br#"{"takes":true,"refused":"no"}"#,
        br#"{"takes":false,"refused":""}"#,
        br#"{"takes":true,"but":"later"}"#,
        br#"{"error":"no such interface"}"#,
    ] {
        let text = String::from_utf8_lossy(verdict);
        assert!(answered_with(verdict).is_err(), "{text} is no yes");
    }
    let refused = answered_with(br#"{"takes":false,"refused":"no such interface"}"#).map(drop).unwrap_err();
    assert!(refused.ends_with("cannot: no such interface"), "{refused}");
}

#[test]
fn who_asked_and_has_gone_since_takes_nothing() {
    let request = Request::new("main", "rvl0", 4500);
    for look in [false, true] {
        let request = Request { look, ..request.clone() };
        let (a, giving) = asked(&request);
        control::handover::send(&a, br#"{"takes":true}"#, &[]).unwrap();
        let giving = giving.show(b"[rules]").unwrap().is_awaited().unwrap();
        drop(a);
        assert!(giving.is_awaited().map(drop).unwrap_err().contains("has gone"), "{look}");
    }
    // It will say nothing, though it may still listen.
    let (a, giving) = asked(&Request { look: false, ..request });
    a.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(giving.show(b"[rules]").unwrap().is_awaited().is_err());
}

#[test]
fn who_is_in_another_network_namespace_is_refused_and_who_does_not_say_is_not() {
    let own = Request { netns: Some(7), ..Request::new("main", "rvl0", 4500) };
    for (netns, refused) in [(Some(7), false), (None, false), (Some(8), true)] {
        let other = Request { netns, ..own.clone() };
        let differs = own.differs(&other);
        assert_eq!(differs.is_some_and(|text| text.contains("network namespace")), refused, "{netns:?}");
    }
    assert_eq!(Request::new("main", "rvl0", 4500).netns, Some(netio::netns::cookie().unwrap()));
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
        let taken = take(&folder.0, &request, &crypto::Suites::standard(), |_| Ok(())).unwrap();
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
        matches!(take(&folder.0, &request, &crypto::Suites::standard(), |_| Ok(())), Err(TakeError::Refused(text)) if text.contains("101 octets"))
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
        assert!(
            matches!(
                take(&folder.0, &request, &crypto::Suites::standard(), |_| Ok(())),
                Err(TakeError::Refused(_))
            ),
            "{name}"
        );
        old.join().unwrap();
    }
}

#[test]
fn without_a_daemon_there_is_nothing_to_take() {
    let folder = Folder::new("nobody");
    let refused =
        take(&folder.0, &Request::new("main", "rvl0", 4500), &crypto::Suites::standard(), |_| Ok(()))
            .map(drop)
            .unwrap_err();
    assert!(refused.to_string().contains("start without --take-over"), "{refused}");
}

#[test]
fn a_connection_that_says_nothing_sensible_ends_the_attempt_only() {
    let (a, b) = UnixStream::pair().unwrap();
    control::handover::send(&a, b"{}", &[]).unwrap();
    assert!(Giving::answer(b, &Request::new("main", "rvl0", 4500)).is_err());
    let (text, _) = control::handover::receive(&a).unwrap();
    assert!(String::from_utf8(text).unwrap().contains("refused"));
}

#[test]
fn ciphers_of_ones_own_that_the_new_daemon_has_otherwise_or_without_room_are_refused() {
    let used = |keys| {
        let used = UsedCipher { fingerprint: "aa".to_owned(), keys };
        UsedCiphers::from([("house256".to_owned(), used)])
    };
    let request = |fingerprint: Option<&str>, room: Option<usize>| {
        let mut request = Request::new("main", "rvl0", 4500);
        request.ciphers.extend(fingerprint.map(|text| ("house256".to_owned(), text.to_owned())));
        request.key_rooms.extend(room.map(|room| ("house256".to_owned(), room)));
        request
    };
    let outcome = |request: &Request, keys| {
        let (a, giving) = asked(request);
        let outcome = giving.has_ciphers(&used(keys)).map(drop);
        if let Err(text) = &outcome {
            let (told, _) = control::handover::receive(&a).unwrap();
            let told = String::from_utf8(told).unwrap();
            assert!(told.contains(text), "{told}");
        }
        outcome
    };
    assert_eq!(outcome(&request(Some("aa"), Some(512)), 512), Ok(()));
    // A cipher that is compiled in or runs in the daemon has no bound.
    assert_eq!(outcome(&request(Some("aa"), None), 100_000), Ok(()));
    let refused = outcome(&request(Some("aa"), Some(512)), 513).unwrap_err();
    assert_eq!(
        refused,
        "513 associations use the cipher house256, and its worker in the new daemon has room for 512 keys"
    );
    assert!(outcome(&request(Some("bb"), Some(512)), 1).unwrap_err().contains("computes something else"));
    assert!(outcome(&request(None, None), 1).unwrap_err().contains("which the new daemon does not have"));
}
