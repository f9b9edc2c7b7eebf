//! The lab with real programs: what the eavesdropper sees, and that nothing is left. Needs root.

use lab::{CaptureOptions, Class, Lab, LabOptions, Program, Side, Transport};
use netio::cgroup;
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

fn lab(name: &str) -> Lab {
    Lab::build(&LabOptions { name: name.into(), segmentation: true }).expect("root is needed")
}

fn nothing_left(name: &str) {
    for part in ["alice", "bob", "wire"] {
        assert!(!Path::new("/run/netns").join(format!("{name}-{part}")).exists(), "{part}");
    }
    assert!(!cgroup::unified_root().unwrap().join(name).exists());
}

#[test]
fn a_clear_transfer_is_read_on_the_wire() {
    let name = "nt-lab";
    let folder = std::env::temp_dir().join(format!("netio-lab-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("page"), b"the secret of the lab").unwrap();
    let lab = lab(name);
    let needle = b"secret of the lab".to_vec();
    let capture =
        lab.capture(CaptureOptions { watch: vec![needle.clone()], ..CaptureOptions::default() }).unwrap();
    for (bind, url) in
        [("0.0.0.0", "http://198.51.100.2:8080/page"), ("::", "http://[2001:db8:51::2]:8080/page")]
    {
        let program = Program::new("python3").args(["-u", "-m", "http.server", "8080", "--bind", bind]);
        let mut server = lab.bob().spawn(program.directory(&folder)).unwrap();
        lab.bob().wait_for_listener(Transport::Tcp, 8080, &mut server, PATIENCE).unwrap();
        assert!(lab.bob().cgroup().processes().unwrap().contains(&server.pid()));
        let curl = Program::new("curl").args(["-s", "-S", "--max-time", "10", url]);
        let fetched = lab.alice().run_program(curl, PATIENCE).unwrap();
        assert_eq!(fetched.out(), "the secret of the lab", "{}", fetched.err());
        server.wait_for_output("GET /page", PATIENCE).unwrap();
        assert!(!server.kill().unwrap().status.success());
    }
    let evidence = capture.evidence().unwrap();
    assert!(evidence.is_complete());
    assert_eq!(evidence.found, std::slice::from_ref(&needle));
    assert!(evidence.contains_bytes(&needle) && !evidence.contains_bytes(b"no such text"));
    assert!(evidence.esp_packets().is_empty() && evidence.esp == 0);
    let to_server = evidence.clear_packets(|flow| flow.protocol == 6 && flow.remote_port == 8080);
    assert!(to_server.len() >= 8, "{} packets", to_server.len());
    assert!(to_server.iter().all(|seen| seen.from == Side::Alice && seen.class == Class::Clear));
    let path = folder.join("wire.pcap");
    evidence.write_pcap(&path).unwrap();
    assert_eq!(netio::pcap::Reader::open(&path).unwrap().count(), evidence.frames.len());
    capture.clear().unwrap();
    assert_eq!(capture.finish().unwrap().frames.len(), 0);
    std::fs::remove_dir_all(&folder).unwrap();
    drop(lab);
    nothing_left(name);
}

#[test]
fn each_frame_is_seen_once_and_named() {
    let lab = lab("nt-lab-once");
    let capture = lab.capture(CaptureOptions::default()).unwrap();
    let socket = lab.alice().run(|| std::net::UdpSocket::bind("198.51.100.1:4500").unwrap()).unwrap();
    // One whole, one that is cut into three fragments.
    socket.send_to(&[1; 100], "198.51.100.2:4500").unwrap();
    socket.send_to(&[2; 4000], "198.51.100.2:4500").unwrap();
    let clear = lab.alice().run(|| std::net::UdpSocket::bind("198.51.100.1:0").unwrap()).unwrap();
    clear.send_to(b"clear", "198.51.100.2:9").unwrap();
    let seen = capture
        .wait_for(PATIENCE, |e| {
            (e.esp >= 4 && !e.clear_packets(|f| f.remote_port == 9).is_empty()).then(|| e.clone())
        })
        .unwrap()
        .expect("the packets are on the wire");
    assert_eq!(seen.esp, 4, "{:?}", seen.frames.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(seen.clear_packets(|f| f.remote_port == 9).len(), 1);
    assert!(seen.housekeeping >= 2, "ARP goes both ways");
    // Bob's refusal quotes the clear packet, and is clear itself.
    let refusals = capture
        .wait_for(PATIENCE, |e| {
            let found =
                e.clear_packets(|f| f.protocol == 1 && f.local == std::net::IpAddr::V4(Side::Bob.v4()));
            (!found.is_empty()).then_some(found.len())
        })
        .unwrap();
    assert!(refusals.is_some());
}

#[test]
fn memory_is_bounded_and_says_so() {
    let lab = lab("nt-lab-bound");
    let watch = vec![b"at the very end".to_vec()];
    let capture = lab.capture(CaptureOptions { keep: 10_000, watch }).unwrap();
    let socket = lab.alice().run(|| std::net::UdpSocket::bind("198.51.100.1:4500").unwrap()).unwrap();
    for _ in 0..100 {
        socket.send_to(&[0; 1000], "198.51.100.2:4500").unwrap();
    }
    socket.send_to(b"at the very end", "198.51.100.2:4500").unwrap();
    let seen = capture.wait_for(PATIENCE, |e| (e.esp >= 101).then(|| e.clone())).unwrap().unwrap();
    assert!(seen.not_kept >= 90, "{}", seen.not_kept);
    assert!(seen.frames.iter().map(|f| f.frame.len()).sum::<usize>() <= 20_000);
    assert!(seen.contains_bytes(b"at the very end"), "watched in frames that were not kept");
}

#[test]
fn segmentation_can_be_switched() {
    let lab = lab("nt-lab-tso");
    for on in [true, false] {
        lab.alice().set_segmentation(on).unwrap();
        lab.bob().set_segmentation(on).unwrap();
        let capture = lab.capture(CaptureOptions::default()).unwrap();
        let listener = lab.bob().run(|| std::net::TcpListener::bind("198.51.100.2:7000").unwrap()).unwrap();
        let mut stream =
            lab.alice().run(|| std::net::TcpStream::connect("198.51.100.2:7000").unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let reader = std::thread::spawn(move || std::io::copy(&mut peer, &mut std::io::sink()).unwrap());
        std::io::Write::write_all(&mut stream, &vec![0; 1 << 20]).unwrap();
        drop(stream);
        assert_eq!(reader.join().unwrap(), 1 << 20);
        let longest = capture.look(|e| e.frames.iter().map(|f| f.frame.len()).max().unwrap()).unwrap();
        assert_eq!(longest > 1514, on, "{longest}");
    }
}

#[test]
fn programs_get_input_signals_and_a_cgroup() {
    let lab = lab("nt-lab-prog");
    let cat = Program::new("sh").args(["-c", "cat; grep ^0:: /proc/self/cgroup; echo lost >&2; exit 3"]);
    let done = lab.alice().run_program(cat.input("given\n").in_cgroup("one"), PATIENCE).unwrap();
    assert_eq!((done.status.code(), done.out().as_str()), (Some(3), "given\n0::/nt-lab-prog/alice/one\n"));
    assert_eq!(done.err(), "lost\n");

    let trap = Program::new("sh")
        .args(["-c", "trap 'echo caught; exit 0' TERM; echo ready; while :; do sleep 0.05; done"]);
    let running = lab.alice().spawn(trap).unwrap();
    running.wait_for_output("ready", PATIENCE).unwrap();
    running.signal(15).unwrap();
    assert_eq!(running.finish(PATIENCE).unwrap().out(), "ready\ncaught\n");

    let slow =
        lab.alice().run_program(Program::new("sleep").arg("1000"), Duration::from_millis(50)).unwrap_err();
    assert!(slow.to_string().contains("did not end"), "{slow}");
    let missing = lab.alice().spawn(Program::new("no-such-program")).unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    let mut dead = lab.bob().spawn(Program::new("sh").args(["-c", "echo reason; exit 1"])).unwrap();
    let error = lab.bob().wait_for_listener(Transport::Udp, 53, &mut dead, PATIENCE).unwrap_err();
    assert!(error.to_string().contains("reason"), "{error}");
}

#[test]
fn output_can_go_to_a_file() {
    let lab = lab("nt-lab-log");
    let path = std::env::temp_dir().join(format!("netio-log-{}", std::process::id()));
    let program = Program::new("sh").args(["-c", "echo one; echo two >&2; sleep 1000"]).log_to(&path);
    let running = lab.alice().spawn(program).unwrap();
    running.wait_for_output("two", PATIENCE).unwrap();
    let pid = running.pid();
    running.leave();
    assert_eq!(lab.alice().cgroup().processes().unwrap().first(), Some(&pid), "still there");
    drop(lab);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    std::fs::remove_file(&path).unwrap();
}

/// The eavesdropper must keep up with a transfer, or its evidence is worth nothing.
#[test]
fn nothing_is_missed_in_a_bulk_transfer() {
    let lab = lab("nt-lab-bulk");
    let options = CaptureOptions { watch: vec![b"needle in the hay".to_vec()], ..CaptureOptions::default() };
    let capture = lab.capture(options).unwrap();
    for segmentation in [true, false] {
        lab.alice().set_segmentation(segmentation).unwrap();
        let listener = lab.bob().run(|| std::net::TcpListener::bind("198.51.100.2:7000").unwrap()).unwrap();
        let mut stream =
            lab.alice().run(|| std::net::TcpStream::connect("198.51.100.2:7000").unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let reader = std::thread::spawn(move || std::io::copy(&mut peer, &mut std::io::sink()).unwrap());
        let chunk = vec![0; 1 << 20];
        for _ in 0..256 {
            std::io::Write::write_all(&mut stream, &chunk).unwrap();
        }
        drop(stream);
        assert_eq!(reader.join().unwrap(), 256 << 20);
    }
    let (lost, clear, not_kept) = capture.look(|e| (e.lost, e.clear, e.not_kept)).unwrap();
    println!("{clear} clear frames, {not_kept} not kept, {lost} lost");
    assert_eq!(lost, 0);
    assert!(clear > 100_000 && not_kept > 0, "{clear} {not_kept}");
}

#[test]
fn a_lab_that_was_left_is_replaced_and_a_panic_leaves_nothing() {
    let name = "nt-lab-left";
    let left = lab(name);
    // Grandchildren too: a shell that starts another program and goes.
    let orphan = Program::new("sh").args(["-c", "sleep 1000 & echo $!"]);
    let pid = left.alice().run_program(orphan, PATIENCE).unwrap().out().trim().to_owned();
    left.keep();
    assert!(Path::new("/proc").join(&pid).exists());
    let again = lab(name);
    let state = std::fs::read_to_string(Path::new("/proc").join(&pid).join("stat")).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "the orphan is dead: {state}");
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _sleeper = again.bob().spawn(Program::new("sleep").arg("1000")).unwrap();
        panic!("in the middle");
    }));
    assert!(panic.is_err());
    nothing_left(name);
    assert!(Lab::build(&LabOptions { name: "a/b".into(), segmentation: true }).is_err());
}

#[test]
fn a_name_that_is_in_use_is_refused_and_the_lab_that_has_it_notices_nothing() {
    let name = "nt-lab-twice";
    let first = lab(name);
    let error = Lab::build(&LabOptions { name: name.into(), segmentation: true }).unwrap_err().to_string();
    assert!(error.contains("a lab named `nt-lab-twice` is in use"), "{error}");
    assert!(Lab::clean(name).is_err());
    let ping = Program::new("ping").args(["-c", "1", "-W", "5", "198.51.100.2"]);
    let done = first.alice().run_program(ping, PATIENCE).unwrap();
    assert!(done.status.success(), "{}", done.err());
    drop(first);
    Lab::clean(name).unwrap();
    nothing_left(name);
}
