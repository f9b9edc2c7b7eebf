//! A line goes from one process to the next, and connections do not notice (docs/design/0024, "Hand-over").

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use lab::{Program, Side};
use tests::line::LineRig;
use tests::{PATIENCE, Scratch, program, programs, wait_until};

const BOB: &str = "198.51.100.2";

/// Sends so many octets to a port, a piece every few milliseconds, and says how many came back the same.
const STEADY: &str = r#"
import hashlib, socket, sys, threading, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 4)
s.settimeout(60)
pieces = int(sys.argv[3])
sent, got = hashlib.sha256(), hashlib.sha256()
def read():
    left = pieces * 10000
    while left:
        data = s.recv(65536)
        if not data:
            break
        got.update(data)
        left -= len(data)
reader = threading.Thread(target=read)
reader.start()
print("ready", flush=True)
for piece in range(pieces):
    data = piece.to_bytes(4, "big") * 2500
    sent.update(data)
    s.sendall(data)
    if piece == pieces // 4:
        print("a quarter", flush=True)
    time.sleep(0.004)
reader.join()
print("same" if sent.digest() == got.digest() else "differs", flush=True)
"#;

/// Sends back what comes.
const ECHO: &str = r#"
import socket, sys, threading
s = socket.create_server(("", int(sys.argv[1])))
print("ready", flush=True)
def serve(c):
    while data := c.recv(65536):
        c.sendall(data)
while True:
    threading.Thread(target=serve, args=[s.accept()[0]], daemon=True).start()
"#;

/// A number of all workers together.
fn sum(rig: &LineRig, word: &str) -> u64 {
    let status = rig.json(&["status"]).unwrap();
    status["workers"].as_array().unwrap().iter().map(|worker| worker[word].as_u64().unwrap()).sum()
}

fn forwarded(rig: &LineRig) -> u64 {
    sum(rig, "forwarded")
}

/// Two upgrades under a transfer, to other numbers of workers: it goes on, and every octet arrives.
#[test]
fn a_transfer_survives_upgrades() {
    let mut rig = LineRig::with_line("inline-upgrade", &["--workers", "1"]).unwrap();
    rig.wait_for_ping(Side::Alice, BOB).unwrap();
    let _echo = rig.serve(Side::Bob, ECHO, &["7000"]).unwrap();
    let steady = rig.serve(Side::Alice, STEADY, &[BOB, "7000", "700"]).unwrap();
    steady.wait_for_output("a quarter", PATIENCE).unwrap();
    let before = forwarded(&rig);
    rig.take_over(&["--workers", "3"]).unwrap();
    assert!(rig.log().contains("taken over: 1 connections"), "{}", rig.log());
    // What rules and sides counted before is counted on.
    assert!(forwarded(&rig) >= before);
    rig.take_over(&["--workers", "2"]).unwrap();
    steady.wait_for_output("same", PATIENCE * 3).unwrap();
    let flows = rig.json(&["flows"]).unwrap();
    assert!(flows.to_string().contains(":7000"), "{flows}");
    // Nothing was let through that nobody knew: no rule about unknown connections has acted.
    assert_eq!(rig.rule("Q.14").unwrap(), [0; 3]);
    let line = rig.check().unwrap();
    assert!(line["interfaces"].as_array().unwrap().iter().all(|i| i["guarded"] == true), "{line}");
}

/// What lies behind a hole is known to the next process: another copy of it is rewritten.
#[test]
fn octets_that_nobody_has_acknowledged_are_handed_over() {
    let mut rig = LineRig::with_line("inline-octets", &[]).unwrap();
    rig.wait_for_ping(Side::Alice, BOB).unwrap();
    let folder = Scratch::new("inline-octets-files");
    let go = folder.join("go");
    let reader = rig.serve(Side::Bob, programs::FIRST_LINE, &["7000"]).unwrap();
    let wait = format!("wait {}", go.display());
    let steps = [BOB, "7000", "5 first\n", &wait, "5 OTHER\n", "0 begin"];
    let python = Program::new(program("python3")).args(["-c", programs::SEGMENTS]).args(steps);
    let attacker = rig.lab.alice().spawn(python).unwrap();
    attacker.wait_for_output("done 5 first", PATIENCE).unwrap();
    wait_until("the octets behind the hole are in store", PATIENCE, || sum(&rig, "stored") > 0);
    rig.take_over(&[]).unwrap();
    std::fs::write(&go, "").unwrap();
    reader.wait_for_output(r"read b'beginfirst\n'", PATIENCE).unwrap();
    assert_eq!(rig.rule("Q.8").unwrap()[1], 1, "the other copy was rewritten");
}

/// A process that is asked by somebody who cannot take over goes on.
#[test]
fn a_take_over_that_cannot_be_leaves_the_line_served() {
    let rig = LineRig::with_line("inline-refused", &[]).unwrap();
    rig.wait_for_ping(Side::Alice, BOB).unwrap();
    let other = ["inline", "run", "--outside", "alice", "--inside", "nowhere", "--take-over"];
    let error = rig.ravelin(&other).unwrap_err().to_string();
    assert!(error.contains("there is no interface nowhere"), "{error}");
    assert!(rig.pings(Side::Alice, BOB).unwrap());
}

/// A process that ends with this value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Another line, on interfaces where nothing happens, follows the first one. When that has died and packets come to the other, connections
/// go on, and so does what was under way.
#[test]
fn a_standby_goes_on() {
    const STANDBY: &str = "inline-standby-b";
    let mut rig = LineRig::with_line("inline-standby", &[]).unwrap();
    rig.wait_for_ping(Side::Alice, BOB).unwrap();
    for name in ["x0", "x1"] {
        rig.ip(&format!("link add {name} type veth peer name {name}p")).unwrap();
    }
    let folder = Scratch::new("inline-standby-files");
    let instance = ["--instance", STANDBY];
    let run = |rig: &LineRig, outside: &str, inside: &str, more: &[&str], log: &str| {
        let args = ["inline", "run", "--outside", outside, "--inside", inside];
        let log = folder.join(log);
        let mut command = rig.command(&[&args[..], &instance, more].concat()).unwrap();
        let file = File::create(&log).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let process = Process(command.spawn().unwrap());
        wait_until("the line is ready", PATIENCE, || {
            std::fs::read_to_string(&log).unwrap().contains("ready: ")
        });
        process
    };
    let standby = run(&rig, "x0", "x1", &["--workers", "3"], "standby");
    let feed = rig
        .command(&["inline", "feed", "--octets", "--instance", rig.lab.name()])
        .unwrap()
        .stdout(Stdio::piped())
        .spawn();
    let mut feed = Process(feed.unwrap());
    let octets = feed.0.stdout.take().unwrap();
    let follow = rig.command(&[&["inline", "follow"], &instance[..]].concat()).unwrap().stdin(octets).spawn();
    let _follow = Process(follow.unwrap());

    let go = folder.join("go");
    let reader = rig.serve(Side::Bob, programs::FIRST_LINE, &["7000"]).unwrap();
    let wait = format!("wait {}", go.display());
    let steps = [BOB, "7000", "5 first\n", &wait, "5 OTHER\n", "0 begin"];
    let python = Program::new(program("python3")).args(["-c", programs::SEGMENTS]).args(steps);
    let attacker = rig.lab.alice().spawn(python).unwrap();
    attacker.wait_for_output("done 5 first", PATIENCE).unwrap();
    let knows = |word: &str| {
        let done = rig
            .command(&[&["inline", "status", "--json"], &instance[..]].concat())
            .unwrap()
            .output()
            .unwrap();
        let status: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        status["workers"].as_array().unwrap().iter().map(|worker| worker[word].as_u64().unwrap()).sum::<u64>()
    };
    wait_until("the standby knows the connection and what is under way", PATIENCE, || {
        knows("connections") == 1 && knows("stored") > 0
    });
    // One line has one standby.
    let second = rig.ravelin(&["inline", "feed"]).unwrap_err().to_string();
    assert!(second.contains("another standby is fed already"), "{second}");

    rig.kill().unwrap();
    assert!(!rig.pings(Side::Alice, BOB).unwrap(), "a dead line is closed");
    rig.ravelin(&["inline", "detach"]).unwrap();
    let next = run(&rig, "alice", "bob", &["--take-over"], "next");
    std::fs::write(&go, "").unwrap();
    reader.wait_for_output(r"read b'beginfirst\n'", PATIENCE).unwrap();
    drop((standby, next));
    rig.command(&[&["inline", "detach"], &instance[..]].concat()).unwrap().status().unwrap();
}

/// A standby that reads nothing is given up, so that another can be told, and connections do not wait for it.
#[test]
fn a_standby_that_stops_reading_is_given_up() {
    let rig = LineRig::with_line("inline-deaf", &[]).unwrap();
    rig.wait_for_ping(Side::Alice, BOB).unwrap();
    let feed = || {
        let mut command = rig.command(&["inline", "feed", "--octets", "--instance", rig.lab.name()]).unwrap();
        Process(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
    };
    let listener = rig.lab.bob().run(|| TcpListener::bind((BOB, 7000))).unwrap().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Each connection is news, until no pipe and no socket takes any more of it.
        scope.spawn(|| {
            while let Ok((mut stream, _)) = listener.accept()
                && !done.load(Ordering::Relaxed)
            {
                stream.write_all(b"page").unwrap();
            }
        });
        let done = &done;
        let client = move || {
            let mut pages = 0;
            while !done.load(Ordering::Relaxed) {
                let mut page = Vec::new();
                let mut stream = TcpStream::connect((BOB, 7000)).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.read_to_end(&mut page).unwrap();
                assert!(page == b"page" || done.load(Ordering::Relaxed), "page {pages}");
                pages += 1;
            }
            drop(TcpStream::connect((BOB, 7000)));
        };
        let alice = rig.lab.alice();
        let clients = scope.spawn(move || alice.run(client).unwrap());
        let deaf = feed();
        let given_up = || rig.log().contains("the standby has read nothing for 5 s");
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_until("the standby is given up", PATIENCE * 2, given_up);
            drop(deaf);
            let mut head = [0; 7];
            let mut next = feed();
            next.0.stdout.take().unwrap().read_exact(&mut head).unwrap();
            assert_eq!(&head, b"RVLFEED");
        }));
        // Nobody waits for what has failed.
        done.store(true, Ordering::Relaxed);
        clients.join().unwrap();
        told.unwrap();
    });
}
