//! What strangers on the host do while no daemon runs: attach to its TUN, take its port (docs/design/0002).

use lab::rig::{Rig, RigOptions};
use lab::{Eavesdropper, Program, Running, Side};
use netio::link::Links;
use serde_json::Value;
use tests::{PATIENCE, Scratch, binary, copy_of_python, protected_rig, wait_until};

/// The kernel's answer to user 65534, who has no capability, and attaches to the TUN `rvl0`, whether of several queues or of one.
const ATTACH: &str = r#"
import errno, fcntl, os, struct
os.setgroups([]); os.setgid(65534); os.setuid(65534)
assert "CapEff:\t0000000000000000" in open("/proc/self/status").read()
for flags in (0x5101, 0x5001):
    try:
        fcntl.ioctl(os.open("/dev/net/tun", os.O_RDWR), 0x400454ca, struct.pack("16sH22x", b"rvl0", flags))
        print("attached")
        break
    except OSError as error:
        if error.errno != errno.EINVAL: # of the other kind
            print(errno.errorcode[error.errno])
            break
"#;

/// The TUN `rvl0` made anew, persistent, as earlier versions made it: nobody's.
const OLD: &str = r#"
import fcntl, os, struct, subprocess
subprocess.run(["ip", "link", "delete", "rvl0"], check=True)
device = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(device, 0x400454ca, struct.pack("16sH22x", b"rvl0", 0x5001))
fcntl.ioctl(device, 0x400454cb, 1)
"#;

/// Attach to the TUN `rvl0`, as one of several queues and as the only one, again and again as user 65534 until SIGTERM; then how
/// often it was refused a TUN that was there, and how often it got a queue.
const TRIES: &str = r#"
import errno, fcntl, os, signal, socket, struct
os.setgroups([]); os.setgid(65534); os.setuid(65534)
assert "CapEff:\t0000000000000000" in open("/proc/self/status").read()
ends = []
signal.signal(signal.SIGTERM, lambda *_: ends.append(1))
print("tries", flush=True)
refused = got = 0
while not ends:
    there = "rvl0" in [name for _, name in socket.if_nameindex()]
    for flags in (0x5101, 0x5001):
        device = os.open("/dev/net/tun", os.O_RDWR)
        try:
            fcntl.ioctl(device, 0x400454ca, struct.pack("16sH22x", b"rvl0", flags))
            got += 1
        except OSError as error:
            refused += there and error.errno == errno.EPERM
        os.close(device)
print(refused, got, flush=True)
"#;

/// One further queue of the TUN `rvl0` as root, as a daemon attaches it; until killed.
const FURTHER: &str = r#"
import fcntl, os, signal, struct
device = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(device, 0x400454ca, struct.pack("16sH22x", b"rvl0", 0x5101))
print("attached", flush=True)
signal.pause()
"#;

/// The TUN `rvl0` made anew, persistent and root's, with one queue, as versions before several queues left it.
const OF_ONE: &str = r#"
import fcntl, os, struct, subprocess
subprocess.run(["ip", "link", "delete", "rvl0"], check=True)
device = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(device, 0x400454ca, struct.pack("16sH22x", b"rvl0", 0x5001))
for request in (0x400454cc, 0x400454ce):
    fcntl.ioctl(device, request, 0)
fcntl.ioctl(device, 0x400454cb, 1)
"#;

/// Datagrams to port 7100 of an address until killed, whatever becomes of each.
const TALKS: &str = r#"
import socket, sys, time
print("talks", flush=True)
while True:
    try:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"CONFIDENTIAL", (sys.argv[1], 7100))
    except OSError:
        pass
    time.sleep(0.005)
"#;

/// Hold a UDP port as user 65534 until killed.
const HOLD: &str = r#"
import os, signal, socket
os.setgroups([]); os.setgid(65534); os.setuid(65534)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 4500))
print("held", flush=True)
signal.pause()
"#;

/// Frames to the TUN `rvl0` past the program in front of it (PACKET_QDISC_BYPASS), each with a record of its own: UDP from the first
/// address to the second, port 7100, in the name of applications 1 to 4. As user 65534 with CAP_NET_RAW alone.
const FORGE: &str = r#"
import ctypes, errno, os, socket, struct, sys
libc = ctypes.CDLL(None)
libc.prctl(8, 1, 0, 0, 0) # PR_SET_KEEPCAPS
os.setgroups([]); os.setgid(65534); os.setuid(65534)
libc.capset(struct.pack("=Ii", 0x20080522, 0), struct.pack("=6I", 1 << 13, 1 << 13, 0, 0, 0, 0))
assert "CapEff:\t0000000000002000" in open("/proc/self/status").read()
ends = b"".join(socket.inet_aton(end) for end in sys.argv[1:])
def checksum(octets):
    total = sum(struct.unpack("!%dH" % (len(octets) // 2), octets))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return struct.pack("!H", ~total & 0xffff)
datagram = struct.pack("!HHHH", 7099, 7100, 14, 0) + b"FORGED"
datagram = datagram[:6] + checksum(ends + struct.pack("!HH", 17, 14) + datagram) + datagram[8:]
header = struct.pack("!BBHHHBBH", 0x45, 0, 34, 7, 0, 64, 17, 0) + ends
header = header[:10] + checksum(header) + header[12:]
by = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0008)
by.setsockopt(263, 20, 1)
by.bind(("rvl0", 0x0800))
for application in range(1, 5):
    record = b"\x40RVL" + struct.pack("=IQ", 1 << 16 | application, 12345)
    try:
        print(by.send(record + header + datagram))
    except OSError as error:
        print(errno.errorcode[error.errno])
"#;

/// What arrives at port 7100, up to "after".
const HEAR: &str = r#"
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 7100))
s.settimeout(60)
print("hears", flush=True)
word = ""
while word != "after":
    word = s.recv(100).decode()
    print(word, flush=True)
"#;

/// One word to port 7100.
const TELL: &str = r#"
import socket, sys
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(sys.argv[2].encode(), (sys.argv[1], 7100))
"#;

fn rig(name: &str) -> Rig {
    let options = RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation: false };
    let rig = Rig::build(&options).unwrap();
    let app = copy_of_python(rig.folder(), "app");
    let policy =
        format!("application {:?} {{ network 203.0.113.0/24 untrusted; }}\n", app.display().to_string());
    rig.set_policy(Side::Alice, &policy).unwrap();
    rig
}

fn python(rig: &Rig, script: &str) -> String {
    let done = rig.lab.alice().run_program(Program::new("python3").args(["-c", script]), PATIENCE).unwrap();
    assert!(done.status.success(), "{}", done.err());
    done.out().trim().to_owned()
}

fn status(rig: &Rig) -> Value {
    // Degraded is exit status 1.
    let out = rig.command(Side::Alice, &["status", "--json"], "").unwrap().out();
    serde_json::from_str(&out).unwrap()
}

/// What `doctor` says of who may attach.
fn owner(rig: &Rig) -> String {
    let config = rig.config_file(Side::Alice);
    let doctor = Program::new(binary()).args(["doctor", "--json", "--config"]).arg(&config);
    let done = rig.lab.alice().run_program(doctor, PATIENCE).unwrap();
    let checks: Value = serde_json::from_str(&done.out()).unwrap();
    let list = checks.as_array().or_else(|| checks["checks"].as_array()).expect("a list of checks");
    let check = list.iter().find(|check| check["name"] == "tun owner").expect("there is a TUN");
    format!("{}: {}", check["state"].as_str().unwrap(), check["found"].as_str().unwrap())
}

#[test]
fn nobody_attaches_to_the_tun_of_a_daemon_that_is_dead() {
    let mut rig = rig("rvl-strangers");
    // Between `boot` and `run`.
    let booted = rig.boot(Side::Alice).unwrap();
    assert!(booted.status.success(), "{}", booted.err());
    assert_eq!(python(&rig, ATTACH), "EPERM");
    rig.start(Side::Alice).unwrap();
    assert_eq!(python(&rig, ATTACH), "EPERM");
    assert_eq!(status(&rig)["state"], "ok", "{}", status(&rig));
    // Between a crash and the restart.
    rig.kill(Side::Alice).unwrap();
    assert_eq!(python(&rig, ATTACH), "EPERM");
    assert!(owner(&rig).starts_with("ok: "), "{}", owner(&rig));

    // A device of an earlier version is anybody's, `doctor` says so, and a start mends it.
    python(&rig, OLD);
    assert_eq!(python(&rig, ATTACH), "attached");
    let found = owner(&rig);
    assert!(found.starts_with("fail: ") && found.contains("belongs to nobody"), "{found}");
    rig.start(Side::Alice).unwrap();
    assert_eq!(status(&rig)["state"], "ok", "{}", status(&rig));
    // At a hand-over: the giver's descriptors are there as long as the giver.
    let giver = rig.release(Side::Alice).unwrap();
    rig.start_with(Side::Alice, &["--take-over"]).unwrap();
    giver.finish(PATIENCE).unwrap();
    rig.kill(Side::Alice).unwrap();
    assert_eq!(python(&rig, ATTACH), "EPERM");
    assert!(owner(&rig).starts_with("ok: "), "{}", owner(&rig));
    let link = rig.lab.alice().run(|| Links::open().unwrap().find("rvl0").unwrap()).unwrap();
    let owner = link.tun_owner.expect("a TUN");
    assert_eq!((owner.user, owner.group, owner.several_queues), (Some(0), Some(0), true));
}

#[test]
fn who_tries_at_every_moment_never_gets_a_queue() {
    let mut rig = rig("rvl-tries");
    let tries = rig.lab.alice().spawn(Program::new("python3").args(["-c", TRIES])).unwrap();
    tries.wait_for_output("tries", PATIENCE).unwrap();
    // It is made, and a daemon takes it.
    rig.start(Side::Alice).unwrap();
    assert_eq!(status(&rig)["state"], "ok", "{}", status(&rig));
    // A further queue, which `status` tells of, for it is not the daemon's.
    let further = rig.lab.alice().spawn(Program::new("python3").args(["-c", FURTHER])).unwrap();
    further.wait_for_output("attached", PATIENCE).unwrap();
    let problems = status(&rig).to_string();
    assert!(problems.contains("2 queues of the TUN rvl0 are held, 1 by this daemon"), "{problems}");
    further.kill().unwrap();
    assert_eq!(status(&rig)["state"], "ok", "{}", status(&rig));
    // It is handed over.
    let giver = rig.release(Side::Alice).unwrap();
    rig.start_with(Side::Alice, &["--take-over"]).unwrap();
    giver.finish(PATIENCE).unwrap();
    assert_eq!(status(&rig)["state"], "ok", "{}", status(&rig));
    // The daemon dies, and another one starts.
    rig.kill(Side::Alice).unwrap();
    rig.start(Side::Alice).unwrap();
    assert_eq!(status(&rig)["state"], "ok", "{}", status(&rig));
    // A device of before several queues is replaced.
    rig.kill(Side::Alice).unwrap();
    python(&rig, OF_ONE);
    rig.start(Side::Alice).unwrap();
    assert_eq!(status(&rig)["state"], "ok", "{}", status(&rig));
    rig.kill(Side::Alice).unwrap();
    tries.signal(libc::SIGTERM).unwrap();
    let answer = tries.finish(PATIENCE).unwrap();
    let numbers: Vec<u64> =
        answer.out().split_whitespace().skip(1).map(|word| word.parse().unwrap()).collect();
    assert!(numbers[0] > 0, "it never met the TUN: {}{}", answer.out(), answer.err());
    assert_eq!(numbers[1], 0, "it got a queue");
}

#[test]
fn a_tun_of_one_queue_is_replaced_and_nothing_leaves_in_clear_meanwhile() {
    let scratch = Scratch::new("tun-of-one");
    let app = copy_of_python(&scratch, "app");
    let mut rig = protected_rig("rvl-tun-of-one", false, &[&app]).unwrap();
    let bob = Side::Bob.v4().to_string();
    let wire = Eavesdropper::listen(&rig.lab, &[b"CONFIDENTIAL"]);
    let talks = rig.lab.alice().spawn(Program::new(&app).args(["-c", TALKS, &bob])).unwrap();
    talks.wait_for_output("talks", PATIENCE).unwrap();
    wait_until("protected traffic", PATIENCE, || wire.evidence().esp > 10);

    let index = |rig: &Rig| rig.lab.alice().run(|| Links::open().unwrap().find("rvl0").unwrap()).unwrap();
    rig.kill(Side::Alice).unwrap();
    python(&rig, OF_ONE);
    let old = index(&rig);
    assert_eq!(old.tun_owner.map(|owner| owner.several_queues), Some(false));
    let found = owner(&rig);
    assert!(found.starts_with("ok: ") && found.contains("made with one queue"), "{found}");
    rig.start(Side::Alice).unwrap();
    let new = index(&rig);
    assert_eq!(new.tun_owner.map(|owner| owner.several_queues), Some(true));
    assert_ne!(new.index, old.index);
    assert_eq!(status(&rig)["state"], "ok", "{}", status(&rig));
    assert!(owner(&rig).contains("can have several queues"), "{}", owner(&rig));
    // New keys: it flows again, through the new device.
    tests::forget_keys(&rig);
    tests::associate(&rig).unwrap();
    let before = wire.evidence().esp;
    wait_until("protected traffic again", PATIENCE, || wire.evidence().esp > before + 10);
    wire.assert_unreadable("while the TUN was replaced", b"CONFIDENTIAL");
    wire.assert_no_clear("while the TUN was replaced", |flow| flow.remote_port == 7100);
    talks.kill().unwrap();
}

fn hold(rig: &Rig) -> Running {
    let holder = rig.lab.alice().spawn(Program::new("python3").args(["-c", HOLD])).unwrap();
    holder.wait_for_output("held", PATIENCE).unwrap();
    holder
}

#[test]
fn who_holds_the_port_is_named_and_the_start_goes_on_when_it_is_free() {
    let mut rig = rig("rvl-port-held");
    let holder = hold(&rig);
    let daemon = rig.launch(Side::Alice, &[]).unwrap();
    let who = format!("UDP port 4500 is held by process {} (", holder.pid());
    daemon.wait_for_output(&who, PATIENCE).unwrap();
    assert!(daemon.output().contains(", user 65534)"), "{}", daemon.output());
    holder.kill().unwrap();
    rig.adopt(Side::Alice, daemon).unwrap();
    rig.stop(Side::Alice).unwrap();

    // It does not wait for ever.
    let holder = hold(&rig);
    let done = rig.launch(Side::Alice, &[]).unwrap().finish(PATIENCE).unwrap();
    assert!(!done.status.success());
    let why = format!("{}{}", done.out(), done.err());
    assert!(why.contains(&format!("held by process {} (", holder.pid())) && why.contains("[esp]"), "{why}");
    holder.kill().unwrap();
}

#[test]
fn nobody_writes_records_of_his_own_to_the_tun() {
    let scratch = Scratch::new("forged-record");
    let app = copy_of_python(&scratch, "app");
    let rig = protected_rig("rvl-forged-record", false, &[&app]).unwrap();
    let (alice, bob) = (Side::Alice.v4().to_string(), Side::Bob.v4().to_string());
    let hears = rig.lab.bob().spawn(Program::new(&app).args(["-c", HEAR])).unwrap();
    hears.wait_for_output("hears", PATIENCE).unwrap();
    let tell = |word| {
        let tells = Program::new(&app).args(["-c", TELL, &bob, word]);
        assert!(rig.lab.alice().run_program(tells, PATIENCE).unwrap().status.success());
    };
    tell("before");
    let forge = Program::new("python3").args(["-c", FORGE, &alice, &bob]);
    let done = rig.lab.alice().run_program(forge, PATIENCE).unwrap();
    assert_eq!(done.out(), "ENOBUFS\n".repeat(4), "{}", done.err());
    tell("after");
    let heard = hears.finish(PATIENCE).unwrap();
    assert_eq!(heard.out(), "hears\nbefore\nafter\n", "{}", heard.err());
    let counters = rig.json(Side::Alice, &["counters"]).unwrap();
    let kernel = counters["kernel"].as_array().unwrap();
    let unseen = kernel.iter().find(|counter| counter["reason"] == "tun_unseen");
    assert_eq!(unseen.expect("it counted")["count"], 4, "{counters}");
}
