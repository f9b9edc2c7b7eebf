//! A hand-over between two threads, and the refusals.

use super::*;
use netio::link::Links;
use netio::netns::Netns;
use netio::tun::{Tun, TunConfig, TunOptions};
use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::net::UnixListener;
use std::process::Command;
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
        let open =
            giving.give(state(), &[devices.0.as_fd()], (&[devices.1.as_fd(), devices.0.as_fd()], 1)).unwrap();
        drop(open);
    });
    let taken = take(&folder.0, &request, &crypto::Suites::standard(), |_| Ok(())).unwrap();
    old.join().unwrap();
    assert_eq!(taken.state, state());
    assert_eq!((taken.tun.len(), taken.udp.len()), (1, 2));
}

/// The inode of what a descriptor is of.
fn inode(fd: BorrowedFd<'_>) -> u64 {
    rustix::fs::fstat(fd).unwrap().st_ino
}

#[test]
fn every_queue_arrives_in_its_order_and_the_sockets_behind_them() {
    let folder = Folder::new("queues");
    let listener = UnixListener::bind(socket(&folder.0)).unwrap();
    let request = Request::new("main", "rvl0", 4500);
    let have = request.clone();
    let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
    let queues = [0, 1, 2].map(|at: usize| inode(pairs[at].0.as_fd()));
    let sockets = [0, 1].map(|at: usize| inode(pairs[at].1.as_fd()));
    let old = thread::spawn(move || {
        let giving = Giving::answer(listener.accept().unwrap().0, &have).unwrap();
        let giving = giving.takes_queues(Queues::Several, 3, 2).unwrap();
        let tun: Vec<_> = pairs.iter().map(|pair| pair.0.as_fd()).collect();
        let udp: Vec<_> = pairs.iter().take(2).map(|pair| pair.1.as_fd()).collect();
        drop(giving.give(state(), &tun, (&udp, 2)).unwrap());
    });
    let taken = take(&folder.0, &request, &crypto::Suites::standard(), |_| Ok(())).unwrap();
    old.join().unwrap();
    assert_eq!(taken.tun.iter().map(|fd| inode(fd.as_fd())).collect::<Vec<_>>(), queues);
    assert_eq!(taken.udp.iter().map(|fd| inode(fd.as_fd())).collect::<Vec<_>>(), sockets);
    assert_eq!(taken.sockets, 2);
}

#[test]
fn more_udp_sockets_than_the_other_end_takes_are_refused_before_anything_is_given() {
    let request = Request::new("main", "rvl0", 4500);
    assert!(asked(&request).1.takes_sockets(netio::udp::MOST_QUEUES).is_ok());
    // A daemon of an earlier version has one, and does not say so.
    let earlier = Request { sockets: None, ..request.clone() };
    assert!(asked(&earlier).1.takes_sockets(1).is_ok());
    let (other_end, giving) = asked(&earlier);
    let refused = giving.takes_sockets(5).map(drop).unwrap_err();
    assert!(refused.contains("5 UDP sockets") && refused.contains("without [qos]"), "{refused}");
    let (told, _) = control::handover::receive(&other_end).unwrap();
    assert!(String::from_utf8(told).unwrap().contains("5 UDP sockets"));
}

/// The address of the host of the TUN in the tests below.
const ME: Ipv4Addr = Ipv4Addr::new(169, 254, 77, 1);

/// IPv4 and UDP from `src`, port 4242, to port 7000 of this host.
fn datagram(src: Ipv4Addr) -> Vec<u8> {
    let mut packet = vec![0; 28];
    let udp = wire::udp::UdpRepr { src_port: 4242, dst_port: 7000, payload_len: 0 };
    wire::udp::emit(&mut packet[20..], &udp).unwrap();
    let repr =
        wire::ipv4::Ipv4Repr { src, dst: ME, protocol: 17, ttl: 64, tos: 0, id: 1, df: true, payload_len: 8 };
    wire::ipv4::emit(&mut packet, &repr).unwrap();
    wire::udp::Udp::new_checked(&mut packet[20..]).unwrap().fill_checksum(src.into(), ME.into());
    packet
}

/// Each queue writes a packet that a socket gets, and the answer comes into that queue: the kernel sends what belongs to a flow
/// to the queue that wrote of it last.
fn each_works(queues: [&Tun; 3], round: u8) {
    let socket = UdpSocket::bind((ME, 7000)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    for (at, queue) in (0..).zip(queues) {
        let peer = Ipv4Addr::new(192, 0, 2, 10 * round + at);
        let mut file = File::from(queue.as_fd().try_clone_to_owned().unwrap());
        file.write_all(&[&[0; 10][..], &datagram(peer)].concat()).unwrap();
        let (_, from) = socket.recv_from(&mut [0; 8]).unwrap();
        assert_eq!(from.ip(), peer);
        let answer = [b"answer", &[round, at][..]].concat();
        socket.send_to(&answer, from).unwrap();
        let ready = netio::poll::readable(queues.map(Tun::as_fd), Some(PATIENCE)).unwrap();
        assert_eq!(ready, [0, 1, 2].map(|other| other == at), "queue {at} in round {round}");
        let mut octets = [0; 200];
        let len = file.read(&mut octets).unwrap();
        assert!(octets[..len].ends_with(&answer), "queue {at} in round {round}");
    }
}

/// The folder of a hand-over, for the process that takes it.
const FOLDER: &str = "RAVELIN_TEST_HANDOVER";

#[test]
#[ignore = "the test below runs it, in a process of its own"]
fn a_process_takes_three_queues() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("the folder"));
    let request = Request::new("main", "rvl0", 4500);
    let taken = take(&folder, &request, &crypto::Suites::standard(), |_| Ok(())).unwrap();
    let (first, others) = Tun::from_fds(taken.tun).unwrap();
    each_works([&first, &others[0], &others[1]], 3);
}

#[test]
fn three_queues_work_in_the_process_that_takes_them_over() {
    let folder = Folder::new("three-queues");
    Netns::remove("rvl-three-queues").expect("root is needed");
    let namespace = Netns::create("rvl-three-queues").expect("root is needed");
    namespace
        .run(|| {
            let first = Tun::open("rvl0", &TunOptions::default()).unwrap();
            first.configure(&TunConfig { address: ME, mtu: 1400 }).unwrap();
            Links::open().unwrap().add_route("192.0.2.0".parse().unwrap(), 24, None, first.index()).unwrap();
            let (second, third) = (first.attach_queue().unwrap(), first.attach_queue().unwrap());
            each_works([&first, &second, &third], 2);

            let listener = UnixListener::bind(socket(&folder.0)).unwrap();
            let have = Request::new("main", "rvl0", 4500);
            let new = Command::new(std::env::current_exe().unwrap())
                .args(["--ignored", "--exact", "handover::tests::a_process_takes_three_queues"])
                .env(FOLDER, &folder.0)
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap();
            let [comes] = netio::poll::readable([listener.as_fd()], Some(PATIENCE)).unwrap();
            assert!(comes, "the other process asks for nothing");
            let giving = Giving::answer(listener.accept().unwrap().0, &have).unwrap();
            let giving = giving.takes_queues(first.queues(), 3, 0).unwrap();
            let open =
                giving.give(state(), &[first.as_fd(), second.as_fd(), third.as_fd()], (&[], 1)).unwrap();
            drop((first, second, third));
            drop(open);
            let done = new.wait_with_output().unwrap();
            assert!(done.status.success(), "{done:?}");
        })
        .unwrap();
}

/// What a daemon from before several queues answers, and what it asks for.
#[test]
fn a_daemon_that_says_nothing_of_queues_gives_one_and_takes_a_tun_of_one() {
    let answer: Answer = serde_json::from_str("{}").unwrap();
    assert_eq!((answer.shown, answer.queues), (false, None));
    let folder = Folder::new("old-gives");
    let listener = UnixListener::bind(socket(&folder.0)).unwrap();
    let old = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        control::handover::receive(&stream).unwrap();
        let memory = control::handover::seal(&state().to_bytes()).unwrap();
        let devices = UnixStream::pair().unwrap();
        let fds = [memory.as_fd(), devices.0.as_fd(), devices.1.as_fd()];
        control::handover::send(&stream, b"{}", &fds).unwrap();
    });
    let request = Request::new("main", "rvl0", 4500);
    let taken = take(&folder.0, &request, &crypto::Suites::standard(), |_| Ok(())).unwrap();
    old.join().unwrap();
    assert_eq!((taken.tun.len(), taken.udp.len()), (1, 1));

    let text = r#"{"version":2,"instance":"main","tun":"rvl0","esp_port":4500}"#;
    let earlier: Request = serde_json::from_str(text).unwrap();
    assert_eq!(earlier.queues, None);
    assert!(asked(&earlier).1.takes_queues(Queues::One, 1, 4).is_ok());
    let (other_end, giving) = asked(&earlier);
    let refused = giving.takes_queues(Queues::Several, 1, 4).map(drop).unwrap_err();
    assert!(refused.contains("earlier version") && refused.contains("ip link delete"), "{refused}");
    let (told, _) = control::handover::receive(&other_end).unwrap();
    assert!(String::from_utf8(told).unwrap().contains("earlier version"));
}

#[test]
fn more_queues_than_the_other_end_takes_or_a_message_carries_are_refused_before_anything_is_given() {
    let request = Request::new("main", "rvl0", 4500);
    assert!(asked(&request).1.takes_queues(Queues::Several, 32, 4).is_ok());
    let refused = |request: &Request, queues, sockets| {
        asked(request).1.takes_queues(Queues::Several, queues, sockets).map(drop).unwrap_err()
    };
    assert!(refused(&request, 33, 4).contains("33 queues, 32 are taken"));
    assert!(refused(&Request { queues: Some(2), ..request.clone() }, 3, 4).contains("3 queues, 2 are taken"));
    assert!(refused(&request, 32, 32).contains("at most 64 descriptors"));
}

#[test]
fn an_answer_that_counts_more_queues_than_it_brings_is_no_hand_over() {
    for (name, queues) in [("none", 0), ("more", 3)] {
        let folder = Folder::new(&format!("queues-{name}"));
        let listener = UnixListener::bind(socket(&folder.0)).unwrap();
        let old = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            control::handover::receive(&stream).unwrap();
            let memory = control::handover::seal(&state().to_bytes()).unwrap();
            let devices = UnixStream::pair().unwrap();
            let text = format!("{{\"queues\":{queues}}}");
            let fds = [memory.as_fd(), devices.0.as_fd(), devices.1.as_fd()];
            control::handover::send(&stream, text.as_bytes(), &fds).unwrap();
        });
        let request = Request::new("main", "rvl0", 4500);
        let error = take(&folder.0, &request, &crypto::Suites::standard(), |_| Ok(())).map(drop).unwrap_err();
        old.join().unwrap();
        assert!(error.to_string().contains("descriptors are missing"), "{name}: {error}");
    }
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
            drop(giving.give(state(), &[devices.0.as_fd()], (&[devices.1.as_fd()], 1)).unwrap());
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
            drop(giving.give(given, &[devices.0.as_fd()], (&[devices.1.as_fd()], 1)).unwrap());
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
