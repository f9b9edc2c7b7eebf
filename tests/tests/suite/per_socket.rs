//! The paper's own translation in two real kernels: entries after each call as in Figures 4 and 5 of paper 000, the same
//! verdicts as the compiled one on the same calls, none left afterwards, nothing clear that must not be.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use lab::Eavesdropper;
use lab::rig::{Pair, Rig, RigOptions};
use lab::{Program, Running, Side};
use serde_json::Value;
use tests::{PATIENCE, binary, counted, program, wait_for, wait_until};

const PER_SOCKET: &str = "translation = \"per-socket\"\n[per_socket]\nttl = 6\ntime_wait = 2\n";

/// Does what it is told: lines of a FIFO, `NUMBER CODE`; says `#NUMBER` and `ok` or what went wrong.
const AGENT: &str = r##"
import socket, sys, threading, errno
def everything(s, n):
    got = b""
    while len(got) < n:
        more = s.recv(65536)
        if not more:
            break
        got += more
    return got
def answer(c):
    try:
        f = c.makefile("rb")
        for l in f:
            c.sendall(l)
    except OSError:
        pass
    c.close()
def echo(s):
    while True:
        try:
            c, _ = s.accept()
        except OSError:
            return
        threading.Thread(target=answer, args=(c,), daemon=True).start()
def uecho(s):
    while True:
        data, peer = s.recvfrom(65535)
        if not peer:
            return
        s.sendto(data, peer)
def stop(s):
    # Whoever waits in a call keeps the socket open.
    try:
        s.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    s.close()
def line(peer, port):
    with socket.create_connection((peer, port), 10) as s:
        s.sendall(b"a line\n")
        return "same" if everything(s, 7) == b"a line\n" else "another"
def dgram(peer, port, n, connected):
    with socket.socket(socket.AF_INET6 if ":" in peer else socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(3)
        if connected:
            s.connect((peer, port))
        good = 0
        for i in range(n):
            for attempt in range(3):
                try:
                    s.send(b"%d" % i) if connected else s.sendto(b"%d" % i, (peer, port))
                    good += s.recv(100) == b"%d" % i
                    break
                except TimeoutError:
                    pass
        return good
def many(n, work):
    good = []
    def run():
        good.append(str(work()))
    threads = [threading.Thread(target=run) for _ in range(n)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    return sorted(set(good)), len(good)
env = {"socket": socket, "threading": threading, "s": {}, "everything": everything, "echo": echo, "uecho": uecho, "stop": stop,
       "line": line, "dgram": dgram, "many": many}
print("ready", flush=True)
while True:
    with open(sys.argv[1]) as told:
        for line in told:
            number, code = line.rstrip("\n").split(" ", 1)
            try:
                exec(code, env)
                print(f"#{number} ok", env.pop("said", ""), ".", flush=True)
            except OSError as e:
                print(f"#{number}", errno.errorcode.get(e.errno, type(e).__name__), ".", flush=True)
"##;

/// A program on a host, call by call.
struct Agent {
    running: Running,
    fifo: PathBuf,
    calls: std::cell::Cell<u32>,
}

impl Agent {
    fn start(rig: &Rig, side: Side) -> Agent {
        let fifo = rig.folder().join(format!("{}.told", side.name()));
        let _ = fs::remove_file(&fifo);
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        let agent = Program::new(program("python3")).args(["-c", AGENT]).arg(&fifo);
        let running = rig.lab.host(side).spawn(agent).unwrap();
        running.wait_for_output("ready", PATIENCE).unwrap();
        Agent { running, fifo, calls: std::cell::Cell::new(0) }
    }

    /// What came of it: `ok` and what it said, or the error's name.
    fn call(&self, code: &str) -> String {
        let number = self.calls.get() + 1;
        self.calls.set(number);
        fs::write(&self.fifo, format!("{number} {code}\n")).unwrap();
        wait_for(code, PATIENCE, || {
            let output = self.running.output();
            let answer = output.lines().find_map(|line| line.strip_prefix(&format!("#{number} ")));
            match answer.and_then(|answer| answer.strip_suffix(" .")) {
                Some(answer) => Ok(answer.trim().to_owned()),
                None => Err(output),
            }
        })
    }

    #[track_caller]
    fn must(&self, code: &str) -> String {
        let answer = self.call(code);
        assert!(answer.starts_with("ok"), "{code}: {answer}");
        answer.trim_start_matches("ok").trim().to_owned()
    }
}

fn rig(name: &str, policies: [&str; 2], more: &str) -> Rig {
    let options = RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    for (side, policy) in Side::BOTH.into_iter().zip(policies) {
        let python = program("python3");
        rig.set_policy(side, &format!("application \"{}\" {{\n{policy}\n}}\n", python.display())).unwrap();
        rig.configure(side, more);
    }
    rig.start_both().unwrap();
    rig.associate(&Pair::default()).unwrap();
    rig
}

/// The entries of a host, as the figures draw them; without those of closed sockets, which serve what is on its way.
fn entries(rig: &Rig, side: Side) -> Vec<String> {
    let document = rig.json(side, &["spd", "list", "--per-socket"]).unwrap();
    let entries = document["entries"].as_array().unwrap().iter().filter(|entry| entry["closing"] != true);
    entries.map(text).collect()
}

fn text(entry: &Value) -> String {
    let word = |name: &str| entry[name].as_str().unwrap_or("any").to_owned();
    let proto = if entry["protocol"] == 6 { "tcp" } else { "udp" };
    let (local, port) = (word("local"), &entry["local_port"]);
    let (remote, far) = (word("remote"), word("remote_port"));
    format!("{} {proto} {local}:{port} {remote}:{far} {}", word("direction"), word("action"))
}

#[track_caller]
fn expect(rig: &Rig, side: Side, when: &str, want: &[String]) {
    let mut want = want.to_vec();
    want.sort();
    wait_for(&format!("{when}, on {}: {want:#?}", side.name()), Duration::from_secs(15), || {
        let mut got = entries(rig, side);
        got.sort();
        if got == want { Ok(()) } else { Err(format!("{got:#?}")) }
    });
}

/// Wait until no entry is left, those of closed sockets included.
#[track_caller]
fn expect_nothing_left(rig: &Rig, side: Side) {
    wait_until(&format!("no entry is left on {}", side.name()), Duration::from_secs(20), || {
        let document = rig.json(side, &["spd", "list", "--per-socket"]).unwrap();
        let state = &document["translation"];
        document["entries"].as_array().unwrap().is_empty() && state["entries"] == 0 && state["sockets"] == 0
    });
}

fn state(rig: &Rig, side: Side) -> Value {
    rig.json(side, &["status"]).unwrap()["translation"].clone()
}

fn ports() -> &'static str {
    "network 198.51.100.128/25 trusted; network 0.0.0.0/0 protected P;"
}

#[test]
fn figure_4_and_figure_5_in_two_kernels() {
    let client = format!(
        "{} protection P {{ localport=any remoteport=2121 encryption mandatory; localport=any remoteport=any authentication mandatory; }}",
        ports()
    );
    let server = format!(
        "{} protection P {{ localport=2121 remoteport=any encryption optional; localport=any remoteport=any authentication optional; }}",
        ports()
    );
    let rig = rig("rvl-psfig", [&client, &server], PER_SOCKET);
    let (a, b) = (Side::Alice.v4().to_string(), Side::Bob.v4().to_string());
    let ear = Eavesdropper::listen(&rig.lab, &[b"USER in clear"]);
    let (alice, bob) = (Agent::start(&rig, Side::Alice), Agent::start(&rig, Side::Bob));
    let listener = |port: u16, action: &str| {
        vec![
            format!("mirrored tcp any:{port} 198.51.100.128/25:any bypass"),
            format!("mirrored tcp any:{port} 0.0.0.0/0:any {action}"),
        ]
    };
    let connection = |own: &str, port: &str, far: &str, far_port: &str, action: &str| {
        format!("mirrored tcp {own}:{port} {far}:{far_port} {action}")
    };
    expect(&rig, Side::Bob, "at the start", &[]);

    // Figure 4.
    let listen = |name: &str, port: u16| {
        bob.must(&format!(
            "s['{name}'] = socket.socket(); s['{name}'].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); \
             s['{name}'].bind(('', {port})); s['{name}'].listen(8)"
        ));
    };
    listen("control", 2121);
    let control = listener(2121, "encryption optional");
    expect(&rig, Side::Bob, "listen", &control);
    let dial = |name: &str, port: u16| {
        alice.must(&format!(
            "s['{name}'] = socket.create_connection(('{b}', {port}), 10); said = s['{name}'].getsockname()[1]"
        ))
    };
    let first = dial("control", 2121);
    let control_end = connection(&a, &first, &b, "2121", "encryption mandatory");
    expect(&rig, Side::Alice, "connect", std::slice::from_ref(&control_end));
    bob.must("s['c'] = s['control'].accept()[0]");
    alice.must("s['control'].sendall(b'USER in clear')");
    assert_eq!(bob.must("said = s['c'].recv(100)"), "b'USER in clear'");
    expect(&rig, Side::Bob, "accept", &control);

    listen("data", 2333);
    let both = [control.clone(), listener(2333, "authentication optional")].concat();
    expect(&rig, Side::Bob, "the second listen", &both);
    let second = dial("data", 2333);
    let data_end = connection(&a, &second, &b, "2333", "authentication mandatory");
    expect(&rig, Side::Alice, "the second connect", &[control_end.clone(), data_end.clone()]);
    bob.must("s['d'] = s['data'].accept()[0]");
    bob.must("s['data'].close()");
    let own = connection(&b, "2333", &a, &second, "authentication optional");
    expect(&rig, Side::Bob, "close of a listener", &[control.clone(), vec![own]].concat());
    bob.must("s['d'].sendall(b'x' * 100000)");
    assert_eq!(alice.must("said = len(everything(s['data'], 100000))"), "100000");
    // Each closes its end: what is closed is gone, though the FINs and their answers were still served.
    bob.must("s['d'].close()");
    assert_eq!(alice.must("said = len(s['data'].recv(1)); s['data'].close()"), "0");
    expect(&rig, Side::Bob, "close of the second connection", &control);
    expect(&rig, Side::Alice, "close of the second connection", std::slice::from_ref(&control_end));
    alice.must("s['control'].close()");
    assert_eq!(bob.must("said = len(s['c'].recv(1)); s['c'].close()"), "0");
    expect(&rig, Side::Alice, "close of the first connection", &[]);
    expect(&rig, Side::Bob, "close of the first connection", &control);
    bob.must("s['control'].close()");
    expect(&rig, Side::Bob, "close of the listener", &[]);

    // Figure 5. `recvfrom` is seen when the socket has its port (docs/design/0011), so the client's inbound entries come with its
    // first datagram.
    let receiver = |port: &str, action: &str| {
        vec![
            format!("inbound udp any:{port} 198.51.100.128/25:any bypass"),
            format!("inbound udp any:{port} 0.0.0.0/0:any {action}"),
        ]
    };
    bob.must("s['u'] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s['u'].bind(('', 2345)); s['u'].settimeout(10)");
    let waiting = receiver("2345", "authentication optional");
    expect(&rig, Side::Bob, "recvfrom", &waiting);
    alice.must("s['u'] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s['u'].settimeout(10)");
    let port = alice.must(&format!("s['u'].sendto(b'one', ('{b}', 2345)); said = s['u'].getsockname()[1]"));
    let sent = format!("outbound udp {a}:{port} {b}:2345 authentication mandatory");
    // The item of port 2121 could match a datagram from there.
    let client_waits = [
        receiver(&port, "authentication mandatory"),
        vec![format!("inbound udp any:{port} 0.0.0.0/0:2121 encryption mandatory")],
    ]
    .concat();
    let client_side = [client_waits.clone(), vec![sent]].concat();
    expect(&rig, Side::Alice, "sendto", &client_side);
    bob.must("data, peer = s['u'].recvfrom(100); s['u'].sendto(data, peer)");
    let answered = format!("outbound udp {b}:2345 {a}:{port} authentication optional");
    expect(&rig, Side::Bob, "the answer", &[waiting.clone(), vec![answered]].concat());
    assert_eq!(alice.must("said = s['u'].recv(100)"), "b'one'");
    // The time to live of 6 s.
    expect(&rig, Side::Bob, "the end of its time", &waiting);
    expect(&rig, Side::Alice, "the end of its time", &client_waits);
    // A connected socket's `send` is the same.
    alice.must(&format!("s['u'].connect(('{b}', 2345)); s['u'].send(b'two')"));
    // It has an address of its own from then on.
    let from_any = format!("any:{port} ");
    let connected: Vec<String> =
        client_side.iter().map(|entry| entry.replace(&from_any, &format!("{a}:{port} "))).collect();
    expect(&rig, Side::Alice, "connect and send", &connected);
    assert_eq!(bob.must("said = s['u'].recv(100)"), "b'two'");
    alice.must("s['u'].close()");
    bob.must("s['u'].close()");
    for side in Side::BOTH {
        expect_nothing_left(&rig, side);
        let state = state(&rig, side);
        assert_eq!((&state["lost"], &state["refused"]), (&Value::from(0), &Value::from(0)), "{state}");
        assert_eq!(state["added"], state["deleted"], "{state}");
    }
    ear.assert_only_esp("all of it");
    ear.assert_unreadable("all of it", b"USER in clear");
}

/// What the calls of the trace said, in order.
fn trace(rig: &Rig) -> Vec<String> {
    let (b4, b6) = (Side::Bob.v4(), Side::Bob.v6());
    let (alice, bob) = (Agent::start(rig, Side::Alice), Agent::start(rig, Side::Bob));
    let mut said = Vec::new();
    let mut both = |agent: &Agent, code: &str| said.push(format!("{code}: {}", agent.call(code)));
    for (family, name) in [("AF_INET", "four"), ("AF_INET6", "six")] {
        both(
            &bob,
            &format!(
                "s['{name}'] = socket.create_server(('', 2121), family=socket.{family}, reuse_port=True, backlog=256); \
                 threading.Thread(target=echo, args=(s['{name}'],), daemon=True).start()"
            ),
        );
        both(
            &bob,
            &format!(
                "s['u{name}'] = socket.socket(socket.{family}, socket.SOCK_DGRAM); \
                 s['u{name}'].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1); \
                 s['u{name}'].bind(('', 2345)); threading.Thread(target=uecho, args=(s['u{name}'],), daemon=True).start()"
            ),
        );
    }
    let (protected, trusted) = (b4.to_string(), b6.to_string());
    for peer in [protected.as_str(), &trusted] {
        both(&alice, &format!("said = line('{peer}', 2121)"));
        both(&alice, &format!("said = dgram('{peer}', 2345, 3, False)"));
        both(&alice, &format!("said = dgram('{peer}', 2345, 3, True)"));
        // One after another, and many at a time.
        both(&alice, &format!("said = [line('{peer}', 2121) for _ in range(100)].count('same')"));
        both(&alice, &format!("said = many(64, lambda: line('{peer}', 2121))"));
        both(&alice, &format!("said = many(32, lambda: dgram('{peer}', 2345, 4, False))"));
    }
    // A port that no item covers, a network that is refused, a port nobody listens on.
    both(&alice, &format!("socket.create_connection(('{protected}', 99), 3)"));
    both(&alice, "socket.create_connection(('203.0.113.9', 2121), 3)");
    both(&alice, "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('203.0.113.9', 2345))");
    both(
        &alice,
        &format!("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('{protected}', 99))"),
    );
    both(&alice, &format!("socket.create_connection(('{protected}', 2222), 3)"));
    // A socket that gave up and tries again.
    both(
        &alice,
        &format!("s['r'] = socket.socket(); s['r'].settimeout(3); s['r'].connect(('{protected}', 2222))"),
    );
    both(&alice, "s['r'].close()");
    both(&bob, "[stop(x) for x in s.values()]; s.clear()");
    said
}

#[test]
fn both_translations_say_the_same_to_the_same_calls() {
    let client = format!(
        "network {} trusted; network 203.0.113.0/24 untrusted; network 0.0.0.0/0 protected P; \
         protection P {{ localport=any remoteport=2121-2345 encryption mandatory; }}",
        Side::Bob.v6()
    );
    let server = format!(
        "network {} trusted; network 0.0.0.0/0 protected P; \
         protection P {{ localport=2121-2345 remoteport=any encryption mandatory; }}",
        Side::Alice.v6()
    );
    let mut said = Vec::new();
    for (name, more) in [("rvl-pscomp", ""), ("rvl-psock", PER_SOCKET)] {
        let rig = rig(name, [&client, &server], more);
        let ear = Eavesdropper::listen(&rig.lab, &[]);
        said.push(trace(&rig));
        ear.assert_no_clear(name, |flow| flow.remote.is_ipv4());
        if more.is_empty() {
            // Nothing is told where nobody listens.
            let kernel = rig.json(Side::Alice, &["stats"]).unwrap()["kernel"].clone();
            let told = kernel.as_array().unwrap().iter().any(|count| count["reason"] == "socket_events");
            assert!(!told, "{kernel}");
            let refused = rig.command(Side::Alice, &["spd", "list", "--per-socket"], "").unwrap();
            assert!(
                !refused.status.success() && refused.err().contains("policy is compiled"),
                "{}",
                refused.err()
            );
            continue;
        }
        for side in Side::BOTH {
            expect_nothing_left(&rig, side);
            let state = state(&rig, side);
            println!("{}: {state}", side.name());
            assert_eq!((&state["lost"], &state["refused"]), (&Value::from(0), &Value::from(0)), "{state}");
            assert!(state["events"].as_u64().unwrap() > 300, "{state}");
            let stats = rig.json(side, &["stats"]).unwrap();
            let section = stats["sections"].as_array().unwrap().iter().find(|s| s["name"] == "translation");
            assert!(section.is_some_and(|s| s["lines"].as_array().unwrap().len() > 3), "{stats}");
        }
    }
    assert_eq!(said[0], said[1]);
    let good = |line: &String| line.contains(": ok");
    assert!(said[0].iter().filter(|line| good(line)).count() >= 18, "{:#?}", said[0]);
    assert!(said[0].iter().any(|line| line.ends_with(": EPERM")), "{:#?}", said[0]);
}

/// A daemon that comes later, or back, finds the sockets that are open; one that is gone takes no entry with it into the clear.
#[test]
fn sockets_older_than_the_daemon_have_entries_too() {
    let policy = format!("{} protection P {{ localport=any remoteport=any encryption mandatory; }}", ports());
    let mut rig = rig("rvl-psold", [&policy, &policy], PER_SOCKET);
    let ear = Eavesdropper::listen(&rig.lab, &[]);
    let (alice, bob) = (Agent::start(&rig, Side::Alice), Agent::start(&rig, Side::Bob));
    let b = Side::Bob.v4();
    bob.must("s['l'] = socket.create_server(('', 2121)); s['u'] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s['u'].bind(('', 2345)); s['u'].settimeout(10)");
    alice.must(&format!("s['c'] = socket.create_connection(('{b}', 2121), 10); s['u'] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s['u'].connect(('{b}', 2345))"));
    bob.must("s['c'] = s['l'].accept()[0]; s['l'].close()");
    for side in Side::BOTH {
        rig.kill(side).unwrap();
    }
    rig.start_both().unwrap();
    rig.associate(&Pair::default()).unwrap();
    alice.must("s['c'].sendall(b'still')");
    assert_eq!(bob.must("said = s['c'].recv(100)"), "b'still'");
    alice.must("s['u'].send(b'there')");
    assert_eq!(bob.must("said = s['u'].recv(100)"), "b'there'");
    alice.must("[s[name].close() for name in s]");
    bob.must("[s[name].close() for name in s]");
    ear.assert_only_esp("before and after");
}

/// The listener is of a program without policy, who accepts has one (socket activation): a connection has an entry of its own once
/// its program sends on it.
#[test]
fn a_connection_of_an_activated_program_has_an_entry() {
    const LISTENER: &str = r#"
import os, socket, sys
l = socket.create_server(("", 2122))
os.set_inheritable(l.fileno(), True)
os.execv(sys.argv[1], [sys.argv[1], "-c", sys.argv[2], str(l.fileno())])
"#;
    const SERVICE: &str = r#"
import socket, sys
l = socket.socket(fileno=int(sys.argv[1]))
print("ready", flush=True)
c = l.accept()[0]
for n in range(3):
    c.sendall(b"line %d\n" % n)
print("said", c.makefile().readline().strip(), flush=True)
c.close()
print("closed", flush=True)
l.accept()
"#;
    const CLIENT: &str = r#"
import socket, sys
c = socket.create_connection((sys.argv[1], 2122), 10)
f = c.makefile("rw")
print([f.readline().strip() for n in range(3)])
f.write("thanks\n"); f.flush()
print(repr(f.readline()))
"#;
    // Optional, without associations: nobody protects the handshake, so that is where activation works.
    let policy = format!("{} protection P {{ localport=any remoteport=any encryption optional; }}", ports());
    let rig = rig("rvl-psact", [&policy, &policy], PER_SOCKET);
    tests::forget_keys(&rig);
    let nobody = tests::copy_of_python(rig.folder(), "nobody");
    let python = program("python3");
    let args = ["-u", "-c", LISTENER, python.to_str().unwrap(), SERVICE];
    let service = rig.lab.bob().spawn(Program::new(&nobody).args(args)).unwrap();
    service.wait_for_output("ready", PATIENCE).unwrap();
    let client = Program::new(&nobody).args(["-c", CLIENT, &Side::Bob.v4().to_string()]);
    let done = rig.lab.alice().run_program(client, PATIENCE).unwrap();
    assert_eq!(done.out(), "['line 0', 'line 1', 'line 2']\n''\n", "{}", done.err());
    service.wait_for_output("said thanks", PATIENCE).unwrap();
    assert_eq!(counted(&rig, Side::Bob, "outbound", "no_entry"), 0);
    // Its entry goes when it has ended.
    wait_until("the entry goes", PATIENCE, || entries(&rig, Side::Bob).is_empty());
}
