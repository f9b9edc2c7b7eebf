//! Sessions of L2TP (RFC 2661) that any program may open over a UDP socket of its own: what it sends by one is no packet of that socket's to
//! the kernel, and what comes for one is not either. Needs root, and a kernel with `l2tp_ppp`.

use crate::common;

use common::*;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

/// Opens a tunnel and a session, as nobody. Then it sends ("send"), hears as well ("hear"), or leaves both to a program that policy names,
/// which it executes ("exec").
const SESSION: &str = r#"
import ctypes, os, socket, struct, sys, time
way = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)
def connect(s, address):
    if libc.connect(s.fileno(), address, len(address)):
        raise OSError(ctypes.get_errno(), "connect")
def end(fd, tunnel, session):
    return struct.pack("=HIii16sHHHH", 24, 1, 0, fd, b"\0" * 16, tunnel, session, tunnel, session)
if way == "handed":
    s = socket.socket(fileno=int(sys.argv[2]))
else:
    os.setgroups([])
    os.setresuid(65534, 65534, 65534)
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    u.bind(("10.99.0.1", 1701))
    u.connect(("10.99.0.2", 1701))
    try:
        tunnel = socket.socket(24, socket.SOCK_DGRAM, 1)
    except OSError:
        print("no L2TP")
        raise SystemExit
    try:
        connect(tunnel, end(u.fileno(), 7, 0))
        s = socket.socket(24, socket.SOCK_DGRAM, 1)
        connect(s, end(u.fileno(), 7, 9))
    except OSError as error:
        print("refused", error.errno)
        raise SystemExit
if way == "exec":
    for held in (u, tunnel, s):
        os.set_inheritable(held.fileno(), True)
    os.execv("/usr/bin/python3", ["python3", "-c", sys.argv[2], "handed", str(s.fileno())])
try:
    for _ in range(3):
        s.send(b"SECRET OF A PROTECTED PROGRAM")
        time.sleep(0.1)
    print("sent", flush=True)
except OSError as error:
    print("refused", error.errno)
if way == "hear":
    s.settimeout(20)
    print("heard", s.recv(100).decode(errors="replace"))
"#;

/// The programs of the kernel half that keep sessions from programs of policy, where the kernel takes them.
const AT_CALLS: [&str; 5] = ["sender_lsm", "sender_entry", "sender_return", "session_lsm", "session_return"];

/// What the peer sends for the session: a data message of version 2 with the tunnel's and the session's number (RFC 2661 section 3.1).
fn message(text: &str) -> Vec<u8> {
    let header = [0x00, 0x02, 0, 7, 0, 9];
    packets::udp(("10.99.0.2", 1701), ("10.99.0.1", 1701), &[&header[..], text.as_bytes()].concat())
}

/// Runs [`SESSION`] by this Python in the control group of the test and reads its first line. `None`: there is no L2TP here.
fn session(world: &World, python: &Path, way: &str) -> Option<(String, Child, BufReader<ChildStdout>)> {
    let procs = world.cgroup.join("app").join("cgroup.procs");
    let (python, way) = (python.to_owned(), way.to_owned());
    let mut child = world.alice.run(move || {
        let mut client = Command::new(python);
        client.args(["-c", SESSION, &way, SESSION]).stdout(Stdio::piped());
        // SAFETY: one write, in the child of a thread that does nothing else.
        unsafe { client.pre_exec(move || std::fs::write(&procs, "0")) };
        client.spawn().unwrap()
    });
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    if line.contains("no L2TP") {
        child.wait().unwrap();
        println!("skipped: this kernel has no L2TP");
        return None;
    }
    Some((line, child, out))
}

/// A world whose policy names the Python of this host, without these programs of the kernel half.
fn strict_python(name: &str, omit: &[&str]) -> (World, PathBuf) {
    let mut world = World::new(name);
    world.attach_with(|options| options.omit.extend(omit.iter().map(|program| String::from(*program))));
    let python = std::fs::canonicalize("/usr/bin/python3").unwrap();
    let subjects = programs(&[(STRICT, python.clone())]);
    world.sockmon().load_policy(&usual(), &subjects, &usual_orders()).unwrap();
    world.wire();
    (world, python)
}

fn is_secret_on_the_wire(world: &World) -> bool {
    world.wire().iter().any(|packet| packet.windows(6).any(|word| word == b"SECRET"))
}

/// A program of policy gets no session that it asks for, and cannot send by one that another program has opened.
#[test]
fn programs_of_policy_have_no_session() {
    if sockmon::option_hook().is_none() {
        println!("skipped: this kernel takes no program at its security hooks");
        return;
    }
    let (mut world, python) = strict_python("l2tp-call", &[]);
    let Some((said, mut child, _)) = session(&world, &python, "send") else { return };
    assert_eq!(said, format!("refused {}\n", libc::EPERM));
    child.wait().unwrap();
    assert_eq!(world.counter("l2tp_refused"), 1);
    let other = world.files.join("other");
    std::fs::copy(&python, &other).unwrap();
    let (said, mut child, _) = session(&world, &other, "exec").unwrap();
    assert_eq!(said, format!("refused {}\n", libc::EPERM));
    child.wait().unwrap();
    assert_eq!(world.counter("l2tp_refused"), 2);
    assert!(!is_secret_on_the_wire(&world));
    assert_eq!(world.drain(), []);
}

/// Where nothing stands at the call, nobody can tell at the device whose it is.
#[test]
fn what_a_session_sends_is_nobodys_at_the_device() {
    let (mut world, python) = strict_python("l2tp-out", &AT_CALLS);
    let Some((said, mut child, _)) = session(&world, &python, "send") else { return };
    assert_eq!(said, "sent\n");
    assert!(child.wait().unwrap().success());
    assert!(!is_secret_on_the_wire(&world), "in clear");
    assert_eq!((world.drain(), world.counter("egress_unclaimed")), (vec![], 3));
}

/// The encapsulation takes what comes for a session before the hook of the tunnel's socket is asked: it is judged at the device.
#[test]
fn a_session_hears_nothing_without_proof() {
    let (mut world, python) = strict_python("l2tp-in", &AT_CALLS);
    let Some((said, mut child, mut out)) = session(&world, &python, "hear") else { return };
    assert_eq!(said, "sent\n");
    world.bob_sends(&message("FORGED BY ANYBODY ON THE WIRE"));
    world.inject(0x8100_0000, &message("ONLY AUTHENTICATED"));
    let end = Instant::now() + SOON * 4;
    while world.counter("ingress_no_proof") + world.counter("ingress_services") < 2 {
        assert!(Instant::now() < end, "nobody has judged them");
        std::thread::sleep(NEVER);
    }
    world.inject(0x8300_0000, &message("PROVEN BY AN ASSOCIATION"));
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "heard PROVEN BY AN ASSOCIATION\n");
    assert!(child.wait().unwrap().success());
}

/// Over IP there is no such look, so that programs of policy have no such socket. Nobody else is kept from it.
#[test]
fn programs_of_policy_have_no_session_over_ip() {
    let mut world = usual_world("l2tp-ip");
    let mut named = world.start("strict");
    let other = world.start("unnamed").ask("open i l2tpip4");
    if other != "ok" {
        println!("skipped: this kernel has no L2TP over IP ({other})");
        return;
    }
    assert_eq!(named.ask("open i l2tpip4"), "EPERM");
    assert_eq!(world.counter("l2tp_refused"), 1);
    let told = world.sockmon().events().unwrap();
    assert!(
        told.iter().any(|event| event.attempt == sockmon::Attempt::Create && event.protocol == 115),
        "{told:?}"
    );
}
