//! Sessions of L2TP (RFC 2661) that any program may open over a UDP socket of its own: what it sends by one is no packet of that socket's to
//! the kernel, and what comes for one is not either. Needs root, and a kernel with `l2tp_ppp`.

use crate::common;

use common::*;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

const SESSION: &str = r#"
import ctypes, os, socket, struct, sys, time
os.setgroups([])
os.setresuid(65534, 65534, 65534)
libc = ctypes.CDLL(None, use_errno=True)
def connect(s, address):
    if libc.connect(s.fileno(), address, len(address)):
        raise OSError(ctypes.get_errno(), "connect")
def end(fd, tunnel, session):
    return struct.pack("=HIii16sHHHH", 24, 1, 0, fd, b"\0" * 16, tunnel, session, tunnel, session)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.bind(("10.99.0.1", 1701))
u.connect(("10.99.0.2", 1701))
try:
    tunnel = socket.socket(24, socket.SOCK_DGRAM, 1)
except OSError:
    print("no L2TP")
    raise SystemExit
connect(tunnel, end(u.fileno(), 7, 0))
s = socket.socket(24, socket.SOCK_DGRAM, 1)
connect(s, end(u.fileno(), 7, 9))
for _ in range(3):
    s.send(b"SECRET OF A PROTECTED PROGRAM")
    time.sleep(0.1)
print("sent", flush=True)
if len(sys.argv) > 1:
    s.settimeout(20)
    print("heard", s.recv(100).decode(errors="replace"))
"#;

/// What the peer sends for the session: a data message of version 2 with the tunnel's and the session's number (RFC 2661 section 3.1).
fn message(text: &str) -> Vec<u8> {
    let header = [0x00, 0x02, 0, 7, 0, 9];
    packets::udp(("10.99.0.2", 1701), ("10.99.0.1", 1701), &[&header[..], text.as_bytes()].concat())
}

/// The program with a session, as a child in the control group of the test. `None`: there is no L2TP here.
fn session(world: &World, hears: bool) -> Option<(Child, BufReader<ChildStdout>)> {
    let procs = world.cgroup.join("app").join("cgroup.procs");
    let mut child = world.alice.run(move || {
        let mut client = Command::new("/usr/bin/python3");
        client.args(["-c", SESSION]).args(hears.then_some("hear")).stdout(Stdio::piped());
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
    assert_eq!(line, "sent\n");
    Some((child, out))
}

fn strict_python(name: &str) -> World {
    let mut world = World::new(name);
    world.attach();
    let python = std::fs::canonicalize("/usr/bin/python3").unwrap();
    world.sockmon().load_policy(&usual(), &programs(&[(STRICT, python)]), &usual_orders()).unwrap();
    world.wire();
    world
}

#[test]
fn a_session_over_a_socket_is_its_callers() {
    let world = strict_python("l2tp");
    let Some((mut child, _)) = session(&world, false) else { return };
    assert!(child.wait().unwrap().success());
    let secret = |packet: &[u8]| packet.windows(6).any(|word| word == b"SECRET");
    assert!(!world.wire().iter().any(|packet| secret(packet)), "in clear");
    let redirected = world.drain();
    let marks: Vec<u32> =
        redirected.iter().filter(|seen| secret(&seen.packet)).map(|seen| seen.mark).collect();
    assert_eq!(marks, [stamp(STRICT); 3]);
}

/// The encapsulation takes what comes for a session before the hook of the tunnel's socket is asked: it is judged at the device.
#[test]
fn a_session_hears_nothing_without_proof() {
    let mut world = strict_python("l2tp-in");
    let Some((mut child, mut out)) = session(&world, true) else { return };
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
    assert_eq!(world.counter("create_l2tp"), 1);
    let told = world.sockmon().events().unwrap();
    assert!(
        told.iter().any(|event| event.attempt == sockmon::Attempt::Create && event.protocol == 115),
        "{told:?}"
    );
}
