//! MPTCP: whose a connection is holds for all its subflows, also for those on which a worker of the kernel sends first
//! (docs/design/0028). Needs root.

use lab::rig::{Pair, Rig, RigOptions};
use lab::{CaptureOptions, Program, Running, Side};
use tests::sites::sh;
use tests::{PATIENCE, binary, copy_of_python, program};

const PORT: u16 = 7300;
const SECRET: &[u8] = b"SECRET of the protected program";

/// Listens for MPTCP at an address and port, and starts a program with the connection as its standard input.
const ACTIVATOR: &str = r#"
import socket, subprocess, sys, time
address, port, *command = sys.argv[1:]
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind((address, int(port)))
listener.listen()
print("listens", flush=True)
connection, _ = listener.accept()
time.sleep(1)
subprocess.run(command, stdin=connection)
"#;

/// Reads a question, answers with a secret for some seconds, and says what else it has read.
const SERVICE: &str = r#"
import socket, sys
s = socket.socket(fileno=0)
s.settimeout(8)
print("asked", s.recv(50), flush=True)
s.send(sys.argv[1].encode() * 20)
try:
    print("read", s.recv(50), flush=True)
except OSError as error:
    print("nothing", error, flush=True)
"#;

/// Connects, asks, and says `got` and what comes back; then says something else.
const CLIENT: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
s.settimeout(10)
s.connect((sys.argv[1], int(sys.argv[2])))
s.send(b"hello")
try:
    print("got", s.recv(60), flush=True)
except OSError as error:
    print("nothing", error, flush=True)
s.send(b"in clear")
"#;

fn question(rig: &Rig, service: &std::path::Path, second: &str) -> (String, Running) {
    let python = program("python3");
    let address = Side::Alice.v4().to_string();
    let (port, word) = (PORT.to_string(), String::from_utf8(SECRET.to_vec()).unwrap());
    let service = service.display().to_string();
    let args = ["-c", ACTIVATOR, &address, &port, &service, "-c", SERVICE, &word];
    let activator = rig.lab.alice().spawn(Program::new(&python).args(args)).unwrap();
    activator.wait_for_output("listens", PATIENCE).unwrap();
    let add = format!("ip mptcp endpoint flush; ip mptcp endpoint add {second} dev eth0 subflow");
    sh(rig.lab.bob().netns(), &add).unwrap();
    let client = Program::new(&python).args(["-c", CLIENT, &address, &port]);
    let done = rig.lab.bob().run_program(client, PATIENCE).unwrap();
    assert!(done.status.success(), "{}", done.err());
    (done.out(), activator)
}

#[test]
fn what_a_worker_of_the_kernel_sends_first_on_a_subflow_is_no_way_out() {
    let options =
        RigOptions { name: "rvl-subflows".to_owned(), binary: binary(), daemon: None, segmentation: false };
    let mut rig = Rig::build(&options).unwrap();
    let service = copy_of_python(rig.folder(), "service");
    let network = "network 198.51.100.0/24";
    let policy =
        |class: &str| format!("application {:?} {{ {network} {class} }}\n", service.display().to_string());
    let second = "198.51.100.77";
    sh(rig.lab.bob().netns(), &format!("ip addr add {second}/24 dev eth0")).unwrap();
    for side in Side::BOTH {
        sh(rig.lab.host(side).netns(), "ip mptcp limits set subflow 2 add_addr_accepted 2").unwrap();
    }
    rig.set_policy(Side::Alice, &policy("trusted;")).unwrap();
    rig.start(Side::Alice).unwrap();
    // The control: where it may leave in clear, it does, and can be seen.
    let wire = rig.lab.capture(CaptureOptions { keep: 1 << 20, watch: vec![SECRET.to_vec()] }).unwrap();
    let (client, activator) = question(&rig, &service, second);
    assert!(client.contains("got") && client.contains("SECRET"), "{client}");
    activator.wait_for_output("read", PATIENCE).unwrap();
    assert!(wire.finish().unwrap().contains_bytes(SECRET));
    drop(activator);
    rig.set_policy(Side::Alice, &policy("protected P; protection P { encryption mandatory; }")).unwrap();
    rig.reload(Side::Alice).unwrap();
    let wire = rig.lab.capture(CaptureOptions { keep: 1 << 20, watch: vec![SECRET.to_vec()] }).unwrap();
    let (client, activator) = question(&rig, &service, second);
    assert!(client.contains("nothing"), "{client}");
    activator.wait_for_output("nothing", PATIENCE).unwrap();
    assert!(activator.output().contains("asked b'hello'"), "{}", activator.output());
    assert!(!wire.finish().unwrap().contains_bytes(SECRET));
}

/// Another address of bob's host, in a network that alice's policy says nothing about.
const FURTHER: &str = "203.0.113.77";

/// Listens for MPTCP at a port; reads what comes to its end, says how much it was, and answers with a word, so many times.
const ANSWERS: &str = r#"
import socket, sys
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("", int(sys.argv[1])))
listener.listen()
print("listens", flush=True)
s, _ = listener.accept()
s.settimeout(15)
got = 0
while data := s.recv(65536):
    got += len(data)
print("got", got, flush=True)
s.sendall(sys.argv[2].encode() * int(sys.argv[3]))
"#;

/// Connects to such a server, says something, waits for further subflows, sends a word, so many times, and reads.
const ASKS: &str = r#"
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
s.settimeout(15)
s.connect((sys.argv[1], int(sys.argv[2])))
s.send(b"!")
time.sleep(1)
s.sendall(sys.argv[3].encode() * int(sys.argv[4]))
s.shutdown(socket.SHUT_WR)
got = 0
try:
    while data := s.recv(65536):
        got += len(data)
finally:
    print("got", got, flush=True)
"#;

/// Words that alice sends.
const WORDS: usize = 100_000;

/// How many packets of alice's to bob's further address hold the secret in clear, and what her program's peer has read.
fn to_the_further_address(rig: &Rig, python: &std::path::Path, alice_asks: bool) -> (usize, String) {
    let word = String::from_utf8(SECRET.to_vec()).unwrap();
    let (port, count) = (PORT.to_string(), WORDS.to_string());
    let (asks, answers) = if alice_asks { (Side::Alice, Side::Bob) } else { (Side::Bob, Side::Alice) };
    let address = answers.v4().to_string();
    let of = |side: Side| if side == Side::Alice { &word } else { "something else, of its length..." };
    let kind = if alice_asks { "signal" } else { "subflow" };
    let add = format!("ip mptcp endpoint flush; ip mptcp endpoint add {FURTHER} dev eth0 {kind}");
    sh(rig.lab.bob().netns(), &add).unwrap();
    let wire = rig.lab.capture(CaptureOptions { keep: 1 << 26, watch: Vec::new() }).unwrap();
    let server = Program::new(python).args(["-c", ANSWERS, &port, of(answers), &count]);
    let server = rig.lab.host(answers).spawn(server).unwrap();
    server.wait_for_output("listens", PATIENCE).unwrap();
    let client = Program::new(python).args(["-c", ASKS, &address, &port, of(asks), &count]);
    let done = rig.lab.host(asks).run_program(client, PATIENCE * 2).unwrap();
    let read = if alice_asks {
        server.wait_for_output("got", PATIENCE).unwrap();
        server.output()
    } else {
        done.out()
    };
    let further: std::net::IpAddr = FURTHER.parse().unwrap();
    let seen = wire.finish().unwrap();
    let clear = seen.clear_packets(|flow| flow.remote == further);
    let secret =
        clear.iter().filter(|packet| packet.packet().windows(SECRET.len()).any(|w| w == SECRET)).count();
    (secret, read)
}

/// Octets that alice's program has got in clear.
fn in_clear(rig: &Rig) -> u64 {
    let figures = rig.json(Side::Alice, &["stats", "--per-app"]).unwrap();
    figures["applications"][0]["inbound"]["clear"]["bytes"].as_u64().unwrap()
}

/// Data of a program whose peer must be reached protected: not even where the peer announces, or joins from, an address that policy does not
/// speak of.
fn a_further_address_is_no_way_out(name: &str, alice_asks: bool) {
    let options = RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: false };
    let mut rig = Rig::build(&options).unwrap();
    let python = copy_of_python(rig.folder(), "python");
    let policy = |class: &str| {
        format!("application {:?} {{ network 198.51.100.0/24 {class} }}\n", python.display().to_string())
    };
    sh(rig.lab.bob().netns(), &format!("ip addr add {FURTHER}/24 dev eth0")).unwrap();
    sh(rig.lab.alice().netns(), "ip route add 203.0.113.0/24 dev eth0").unwrap();
    for side in Side::BOTH {
        sh(rig.lab.host(side).netns(), "ip mptcp limits set subflow 2 add_addr_accepted 2").unwrap();
    }
    rig.set_policy(Side::Alice, &policy("trusted;")).unwrap();
    rig.set_policy(Side::Bob, &policy("protected P; protection P { encryption optional; }")).unwrap();
    rig.start(Side::Alice).unwrap();
    rig.start(Side::Bob).unwrap();
    // The control: where it may, it leaves by the second subflow too.
    let (secret, read) = to_the_further_address(&rig, &python, alice_asks);
    assert!(secret > 0, "{read}");
    rig.set_policy(Side::Alice, &policy("protected P; protection P { encryption mandatory; }")).unwrap();
    rig.reload(Side::Alice).unwrap();
    rig.associate(&Pair::default()).unwrap();
    let before = in_clear(&rig);
    assert!(before > 0);
    let (secret, read) = to_the_further_address(&rig, &python, alice_asks);
    assert_eq!(secret, 0, "{read}");
    // Alice takes nothing of what bob sends by the second subflow: only its handshake comes in clear.
    let taken = in_clear(&rig) - before;
    assert!(taken < 1000, "{taken} octets");
    // And all of it came by the first one.
    let got = WORDS * SECRET.len() + usize::from(alice_asks);
    assert!(read.contains(&format!("got {got}\n")), "{read}, not {got}");
}

#[test]
fn an_address_that_the_peer_announces_has_what_the_first_has() {
    a_further_address_is_no_way_out("rvl-sub-announced", true);
}

#[test]
fn an_address_that_the_peer_joins_from_has_what_the_first_has() {
    a_further_address_is_no_way_out("rvl-sub-joined", false);
}

/// Opens a socket, and has the protected program connect it. With a port: has used it for a connection of its own before.
const OPENS: &str = r#"
import ctypes, os, socket, sys, time
port, address, *command = sys.argv[1:]
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
if int(port):
    s.connect((address, int(port)))
    for _ in range(2):
        s.send(b"0" * 10)
        time.sleep(0.5)
    assert ctypes.CDLL(None).connect(s.fileno(), b"\0" * 16, 16) == 0  # AF_UNSPEC
    time.sleep(0.5)
os.dup2(s.fileno(), 9)
os.set_inheritable(9, True)
os.execv(command[0], command)
"#;

/// Connects what it has, hears something, waits for further subflows, and sends a word, so many times, in one call.
const CONNECTS: &str = r#"
import socket, sys, time
s = socket.socket(fileno=9)
s.connect((sys.argv[1], int(sys.argv[2])))
s.recv(100)
time.sleep(1)
s.sendall(sys.argv[3].encode() * int(sys.argv[4]))
s.shutdown(socket.SHUT_WR)
time.sleep(1)
"#;

/// Takes one connection and reads what comes.
const SINK: &str = r#"
import socket, sys
l = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
l.bind(("", int(sys.argv[1])))
l.listen()
print("listens", flush=True)
s, _ = l.accept()
s.send(b"banner")
while s.recv(65536): pass
"#;

/// A connection is whose program connects it, with all of its subflows, whoever has opened or used its socket before.
#[test]
fn who_opened_the_socket_of_a_connection_is_no_way_out() {
    let options =
        RigOptions { name: "rvl-sub-opened".to_owned(), binary: binary(), daemon: None, segmentation: false };
    let mut rig = Rig::build(&options).unwrap();
    let python = copy_of_python(rig.folder(), "python");
    let system = program("python3");
    let policy = |level: &str| {
        let app = python.display().to_string();
        format!(
            "application {app:?} {{ network 198.51.100.0/24 protected P; protection P {{ encryption {level}; }} }}\n"
        )
    };
    sh(rig.lab.bob().netns(), &format!("ip addr add {FURTHER}/24 dev eth0")).unwrap();
    sh(rig.lab.alice().netns(), "ip route add 203.0.113.0/24 dev eth0").unwrap();
    for side in Side::BOTH {
        sh(rig.lab.host(side).netns(), "ip mptcp limits set subflow 2 add_addr_accepted 2").unwrap();
    }
    sh(rig.lab.bob().netns(), &format!("ip mptcp endpoint add {FURTHER} dev eth0 signal")).unwrap();
    rig.set_policy(Side::Alice, &policy("mandatory")).unwrap();
    rig.set_policy(Side::Bob, &policy("optional")).unwrap();
    rig.start(Side::Alice).unwrap();
    rig.start(Side::Bob).unwrap();
    rig.associate(&Pair::default()).unwrap();
    let further: std::net::IpAddr = FURTHER.parse().unwrap();
    let word = String::from_utf8(SECRET.to_vec()).unwrap();
    let (address, count, own) = (Side::Bob.v4().to_string(), WORDS.to_string(), python.display().to_string());
    let sink = |python: &std::path::Path, port: u16| {
        let server = Program::new(python).args(["-c", SINK, &port.to_string()]);
        let server = rig.lab.bob().spawn(server).unwrap();
        server.wait_for_output("listens", PATIENCE).unwrap();
        server
    };
    for (port, used) in [(PORT + 10, 0), (PORT + 11, PORT + 12)] {
        let _servers = [sink(&python, port), sink(&system, if used == 0 { PORT + 13 } else { used })];
        let wire = rig.lab.capture(CaptureOptions { keep: 1 << 26, watch: Vec::new() }).unwrap();
        let args = [
            "-c",
            OPENS,
            &used.to_string(),
            &address,
            &own,
            "-c",
            CONNECTS,
            &address,
            &port.to_string(),
            &word,
            &count,
        ];
        let done = rig.lab.alice().run_program(Program::new(&system).args(args), PATIENCE * 2).unwrap();
        assert!(done.status.success(), "{}", done.err());
        let seen = wire.finish().unwrap();
        let clear = seen.clear_packets(|flow| flow.remote == further);
        let secret = clear.iter().filter(|p| p.packet().windows(SECRET.len()).any(|w| w == SECRET)).count();
        assert_eq!(secret, 0, "used before: {used}");
    }
}
