//! Packets that a program of root's holds (NFQUEUE) until their socket is gone. Needs root, and a kernel with NFQUEUE.

use crate::common;

use common::*;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Takes the packets of a queue, starts an unprivileged client, and gives the packets back when its socket has been destroyed.
const QUEUE: &str = r#"
import select, socket, struct, subprocess, sys, time
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
s.bind((0, 0))
def attribute(kind, data):
    length = 4 + len(data)
    return struct.pack("HH", length, kind) + data + b"\0" * (-length % 4)
def send(kind, data):
    body = struct.pack(">BBH", 0, 0, 0) + data
    s.send(struct.pack("IHHII", 16 + len(body), 3 << 8 | kind, 1, 0, 0) + body)
send(2, attribute(1, struct.pack(">BBH", 1, 0, 0)))  # bind
send(2, attribute(2, struct.pack(">IB", 0, 1)))  # copy no octets
client = subprocess.Popen(["/usr/bin/setpriv", "--reuid", "65534", "--clear-groups", "/usr/bin/python3", "-c", sys.argv[1], *sys.argv[2:]])
held, end = [], time.time() + 2
while (left := end - time.time()) > 0:
    if not select.select([s], [], [], left)[0]:
        break
    data = s.recv(65536)
    length, kind = struct.unpack_from("IH", data)
    at = 20
    while kind == 3 << 8 and at + 4 <= length:
        size, name = struct.unpack_from("HH", data, at)
        if name & 0x3fff == 1:
            held.append(struct.unpack_from(">I", data, at + 4)[0])
        at += size + 3 & ~3
client.wait()
time.sleep(2)  # behind the grace period that frees what the socket pointed to
for packet in held:
    send(1, attribute(2, struct.pack(">II", 1, packet)))  # accept
time.sleep(0.5)
print("held", len(held))
"#;

const CLIENT: &str = r#"
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, int(sys.argv[1]))
s.setblocking(False)
s.connect_ex(("10.99.0.2", 8080))
time.sleep(0.3)
s.close()
"#;

/// A subflow that has been destroyed still says that it is one, and leads to memory that was given back. The drill's guests fill such memory
/// (`slub_debug`), so that whoever follows it ends the kernel.
#[test]
fn a_packet_whose_socket_is_gone_is_of_no_connection() {
    let mut world = usual_world("queued");
    world.alice.run(|| {
        let _ = std::fs::write("/proc/sys/net/mptcp/enabled", "1");
    });
    let rule = "add table inet q; add chain inet q out { type filter hook output priority 0; }; \
                add rule inet q out tcp dport 8080 queue num 0";
    let takes = world
        .alice
        .run(move || Command::new("nft").arg(rule).output().is_ok_and(|done| done.status.success()));
    if !takes {
        println!("skipped: this kernel has no NFQUEUE, or there is no nft");
        return;
    }
    for protocol in ["262", "6"] {
        let procs = world.cgroup.join("app").join("cgroup.procs");
        let out = world.alice.run(move || {
            let mut queue = Command::new("/usr/bin/python3");
            queue.args(["-c", QUEUE, CLIENT, protocol]);
            // SAFETY: one write, which allocates nothing that a lock could hold: the child of a thread that does nothing else.
            unsafe { queue.pre_exec(move || std::fs::write(&procs, "0")) };
            queue.output().unwrap()
        });
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(
            said.starts_with("held ") && !said.starts_with("held 0"),
            "{said}{}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
    assert_eq!(world.counter("stamp_failed"), 0);
}
