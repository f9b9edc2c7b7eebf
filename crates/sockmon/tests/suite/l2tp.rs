//! Sessions of L2TP (RFC 2661) that any program may open over a UDP socket of its own: what it sends by one is no packet of that socket's to
//! the kernel. Needs root, and a kernel with `l2tp_ppp`.

use crate::common;

use common::*;
use std::os::unix::process::CommandExt;
use std::process::Command;

const SESSION: &str = r#"
import ctypes, os, socket, struct, time
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
print("sent")
"#;

#[test]
fn a_session_over_a_socket_is_its_callers() {
    let mut world = World::new("l2tp");
    world.attach();
    let python = std::fs::canonicalize("/usr/bin/python3").unwrap();
    world.sockmon().load_policy(&usual(), &programs(&[(STRICT, python)]), &usual_orders()).unwrap();
    world.wire();
    let procs = world.cgroup.join("app").join("cgroup.procs");
    let out = world.alice.run(move || {
        let mut client = Command::new("/usr/bin/python3");
        client.args(["-c", SESSION]);
        // SAFETY: one write, in the child of a thread that does nothing else.
        unsafe { client.pre_exec(move || std::fs::write(&procs, "0")) };
        client.output().unwrap()
    });
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    if said.contains("no L2TP") {
        println!("skipped: this kernel has no L2TP");
        return;
    }
    assert!(said.contains("sent"), "{said}{}", String::from_utf8_lossy(&out.stderr));
    let secret = |packet: &[u8]| packet.windows(6).any(|word| word == b"SECRET");
    assert!(!world.wire().iter().any(|packet| secret(packet)), "in clear");
    let redirected = world.drain();
    let marks: Vec<u32> =
        redirected.iter().filter(|seen| secret(&seen.packet)).map(|seen| seen.mark).collect();
    assert_eq!(marks, [stamp(STRICT); 3]);
}
