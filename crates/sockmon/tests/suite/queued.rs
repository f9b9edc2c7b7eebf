//! Packets that a program of root's holds (NFQUEUE): until their socket is gone, or between who sends them and the hook of packets. Needs root,
//! and a kernel with NFQUEUE.

use crate::{activated, common};

use common::*;
use policy::Subjects;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

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
held, end = [], time.time() + 30
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
            end = min(end, time.time() + 2)
        at += size + 3 & ~3
client.wait()
time.sleep(2)  # behind the grace period that frees what the socket pointed to
for packet in held:
    send(1, attribute(2, struct.pack(">II", 1, packet)))  # accept
time.sleep(0.5)
print("held", len(held))
"#;

/// Gives each packet back at once. It says when it is there.
const PASSES: &str = r#"
import socket, struct
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
s.bind((0, 0))
def attribute(kind, data):
    length = 4 + len(data)
    return struct.pack("HH", length, kind) + data + b"\0" * (-length % 4)
def send(kind, data, flags=1):
    body = struct.pack(">BBH", 0, 0, 0) + data
    s.send(struct.pack("IHHII", 16 + len(body), 3 << 8 | kind, flags, 0, 0) + body)
send(2, attribute(1, struct.pack(">BBH", 1, 0, 0)))  # bind
send(2, attribute(2, struct.pack(">IB", 0, 1)), 5)  # copy no octets, and answer
s.recv(4096)
print("ready", flush=True)
passed = 0
while True:
    data = s.recv(65536)
    length, kind = struct.unpack_from("IH", data)
    at = 20
    while kind == 3 << 8 and at + 4 <= length:
        size, name = struct.unpack_from("HH", data, at)
        if name & 0x3fff == 1:
            send(1, attribute(2, struct.pack(">I", 1) + data[at + 4 : at + 8]))
            passed += 1
            print(passed, flush=True)
        at += size + 3 & ~3
"#;

const CLIENT: &str = r#"
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, int(sys.argv[1]))
s.setblocking(False)
s.connect_ex(("10.99.0.2", 8080))
time.sleep(0.3)
s.close()
"#;

/// Have what alice sends, and fits, wait in queue 0. False: that cannot be had here.
fn queues(world: &World, what: &str) -> bool {
    let rules = format!(
        "add table inet q; add chain inet q out {{ type filter hook output priority 0; }}; add rule inet q out {what} queue num 0"
    );
    let takes = world
        .alice
        .run(move || Command::new("nft").arg(rules).output().is_ok_and(|done| done.status.success()));
    if !takes {
        println!("skipped: this kernel has no NFQUEUE, or there is no nft");
    }
    takes
}

/// A subflow that has been destroyed still says that it is one, and leads to memory that was given back. The drill's guests fill such memory
/// (`slub_debug`), so that whoever follows it ends the kernel.
#[test]
fn a_packet_whose_socket_is_gone_is_of_no_connection() {
    let mut world = usual_world("queued");
    world.alice.run(|| {
        let _ = std::fs::write("/proc/sys/net/mptcp/enabled", "1");
    });
    if !queues(&world, "tcp dport 8080") {
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

/// A program that gives packets back, outside of every control group that is watched; it ends with the test.
struct Queue(Child, BufReader<ChildStdout>);

/// A file of its own that runs [`PASSES`], so that policy can name it.
fn own_file(world: &World) -> PathBuf {
    let file = world.files.join("queue");
    std::fs::copy("/usr/bin/python3", &file).unwrap();
    file
}

impl Queue {
    fn start(world: &World) -> Queue {
        Queue::start_as(world, "/usr/bin/python3".into())
    }

    fn start_as(world: &World, file: PathBuf) -> Queue {
        let procs = world.cgroup.join("app").join("cgroup.procs");
        let mut child = world.alice.run(move || {
            let mut queue = Command::new(file);
            queue.args(["-c", PASSES]).stdout(Stdio::piped());
            // SAFETY: one write, in the child of a thread that does nothing else.
            unsafe { queue.pre_exec(move || std::fs::write(&procs, "0")) };
            queue.spawn().unwrap()
        });
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Queue(child, out)
    }

    /// Wait until it has passed one more.
    fn passes(&mut self) {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        assert!(line.trim().parse::<u32>().is_ok(), "{line}");
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The hook of packets runs in the queue's program. Who has sent is noted before, by the call.
#[test]
fn what_a_queue_gives_back_is_its_senders() {
    let world = usual_world("queued-sender");
    if sockmon::option_hook().is_none() {
        println!("skipped: this kernel takes no program at its security hooks");
        return;
    }
    if !queues(&world, "meta l4proto {udp, icmp, tcp}") {
        return;
    }
    let mut queue = Queue::start(&world);
    world.wire();
    // Sockets that an unnamed program has opened and connected, in the hands of one that policy names.
    let mut program = world.start("unnamed");
    program.run(&["open u udp4", "connect u 10.99.0.2:9", "open r icmp4", "connect r 10.99.0.2:0"]);
    program.run(&["open t rawtcp4", "connect t 10.99.0.2:0"]);
    let path = world.executable("strict");
    assert_eq!(program.ask(&format!("exec {}", path.display())), "ready");
    for name in ["u", "r", "t"] {
        program.run(&[&format!("send {name} 100")]);
        queue.passes();
        let seen = world.seen_within(SOON * 4).expect("on the TUN");
        assert_eq!(seen.mark, stamp(STRICT), "{name}");
    }
    // Without room for a stamp nothing is sent, and nothing is left for somebody else to send on.
    let unnamed = world.executable("unnamed");
    assert_eq!(program.ask(&format!("exec {}", unnamed.display())), "ready");
    program.run(&["open f udp4", "connect f 10.99.0.2:9"]);
    assert!(program.ask("burden f").parse::<u32>().is_ok());
    assert_eq!(program.ask(&format!("exec {}", path.display())), "ready");
    assert_eq!(program.ask("more f 10"), "EPERM");
    // A datagram that STRICT leaves corked, and somebody else sends on.
    program.run(&["open d udp4", "connect d 10.99.0.2:9", "more d 10"]);
    let weak = world.executable("weak");
    assert_eq!(program.ask(&format!("exec {}", weak.display())), "ready");
    program.run(&["send d 10"]);
    queue.passes();
    assert_eq!(world.seen_within(SOON * 4).expect("on the TUN").mark, stamp(STRICT));
    assert_eq!(world.wire(), [] as [Vec<u8>; 0]);
}

/// Policy names the program that holds the queue, too: no socket becomes its own by that, whichever of the two policies is stricter.
#[test]
fn a_queue_whose_program_policy_names_has_no_socket_of_others() {
    let mut world = World::new("queued-named");
    world.attach();
    if !matches!(sockmon::option_hook(), Some(sockmon::OptionHook::Module)) {
        println!("skipped: BPF is no security module of this kernel");
        return;
    }
    if !queues(&world, "meta l4proto {udp, icmp}") {
        return;
    }
    let file = own_file(&world);
    let mut peer = world.start_in_bob("peer");
    peer.run(&["open u udp4", "bind u 10.99.0.2:9"]);
    let strict = world.executable("strict");
    let weak = world.executable("weak");
    let of = activated::program;
    for (queue_is, sender, sender_is) in
        [(STRICT, &weak, WEAK), (OTHER, &strict, STRICT), (WEAK, &strict, STRICT)]
    {
        let subjects = Subjects::new(vec![(of(&file), queue_is), (of(sender), sender_is)]);
        world.sockmon().load_policy(&usual(), &subjects, &usual_orders()).unwrap();
        let mut queue = Queue::start_as(&world, file.clone());
        world.wire();
        world.drain();
        let mut program = world.start(if sender_is == WEAK { "weak" } else { "strict" });
        program.run(&["open u udp4", "connect u 10.99.0.2:9", "open r icmp4", "connect r 10.99.0.2:0"]);
        for socket in ["u", "r", "u", "r"] {
            program.run(&[&format!("send {socket} 100")]);
            queue.passes();
            let on_the_tun = world.seen_within(SOON / 4).map(|seen| seen.mark);
            let on_the_wire = !world.wire().is_empty();
            let expected = if sender_is == WEAK { (None, true) } else { (Some(stamp(STRICT)), false) };
            assert_eq!((on_the_tun, on_the_wire), expected, "{queue_is:?} {socket}");
        }
    }
    assert_eq!(world.counter("handover_incomparable"), 0);
}

/// A verdict runs while another thread has the connection's socket, and policy names the queue's program: an acknowledgment in its hands says
/// nothing about whose the connection is.
#[test]
fn an_acknowledgment_that_a_queue_gives_back_is_no_first_writer() {
    let mut world = World::new("queued-ack");
    world.attach();
    if !queues(&world, "tcp sport 8080") {
        return;
    }
    let (file, service) = (own_file(&world), world.executable("service"));
    let of = activated::program;
    let subjects = Subjects::new(vec![(of(&file), WEAK), (of(&service), STRICT)]);
    world.sockmon().load_policy(&usual(), &subjects, &usual_orders()).unwrap();
    let mut queue = Queue::start_as(&world, file);
    let (mut program, mut peer) = activated::connected(&world, 8080);
    queue.passes();
    // The activator has it still: its own reads say nothing either.
    program.begin("collect a 2000");
    for _ in 0..2000 {
        peer.run(&["send c 1"]);
    }
    // A hash of what it read, and no error.
    assert!(u64::from_str_radix(&program.answer(), 16).is_ok());
    assert_eq!(program.ask(&format!("exec {}", service.display())), "ready");
    world.wire();
    world.drain();
    program.run(&["send a 5"]);
    assert_eq!(activated::redirected(&world, 8080), stamp(STRICT));
    assert_eq!(activated::in_clear(&world, 8080), 0);
}

/// A connection that came in, with data that its first writer writes.
#[test]
fn what_a_queue_gives_back_of_a_connection_is_its_writers() {
    let (mut world, service) = activated::world("queued-writer", |_| Vec::new());
    if !queues(&world, "tcp sport 8080") {
        return;
    }
    let mut queue = Queue::start(&world);
    let (mut program, _peer) = activated::connected(&world, 8080);
    queue.passes();
    assert_eq!(program.ask(&format!("exec {}", service.display())), "ready");
    world.wire();
    for _ in 0..20 {
        program.run(&["send a 5"]);
    }
    assert_eq!(activated::redirected(&world, 8080), stamp(STRICT));
    assert_eq!((activated::in_clear(&world, 8080), world.counter("connections_claimed")), (0, 1));
}
