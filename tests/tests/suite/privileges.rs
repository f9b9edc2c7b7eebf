//! What a running daemon may do (docs/design/0027): the rights of each of its threads as the kernel shows them, that each of its
//! doors works with them, and that no capability is kept that no door needs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use lab::rig::{Pair, Rig, RigOptions};
use lab::{Program, Running, Side};
use tests::line::LineRig;
use tests::sites::sh;
use tests::{
    PATIENCE, Scratch, associate, binary, copy_of_python, one_line, protect, tcp_server, try_wait_until,
};

const PORT: u16 = 7064;
/// Bits of capabilities, by their numbers in linux/capability.h.
const DAC_READ_SEARCH: u64 = 1 << 2;
const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;
const IPC_LOCK: u64 = 1 << 14;
const SYS_PTRACE: u64 = 1 << 19;
const PERFMON: u64 = 1 << 38;
const BPF: u64 = 1 << 39;

/// Gives up root, opens a socket, and sends with it whenever it is told to: `sent`, or the error's number.
const OLD_SOCKET: &str = r#"
import os, socket, sys
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 7065))
print("ready", flush=True)
for line in sys.stdin:
    try:
        s.sendto(b"x", (sys.argv[1], 9))
        print("sent", flush=True)
    except OSError as error:
        print("error", error.errno, flush=True)
"#;

/// Sends a datagram to a refused address: `sent`, or the error's number.
const SEND: &str = r#"
import socket
try:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("203.0.113.9", 9))
    print("sent")
except OSError as error:
    print(error.errno)
"#;

/// Something that a running daemon does for its operator, tried.
type Door<'a> = Box<dyn Fn() -> Result<(), String> + 'a>;

/// Gives up root, connects a socket to the argument, and waits.
const WAITS: &str = r#"
import os, signal, socket, sys
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect((sys.argv[1], 9))
print("ready", flush=True)
signal.pause()
"#;

struct Scene {
    rig: Rig,
    python: PathBuf,
    /// A program in a folder that is another user's alone.
    hidden: PathBuf,
    _server: Running,
}

impl Scene {
    /// Alice's daemon may do without the capabilities in `without`, as it says in its log.
    fn build(name: &str, without: &str) -> Scene {
        let folder = Scratch::new(name);
        let daemon = (!without.is_empty()).then(|| wrapper(&folder, without));
        let options = RigOptions { name: name.to_owned(), binary: binary(), daemon, segmentation: true };
        let mut rig = Rig::build(&options).unwrap();
        rig.guard(&["eth0", "late0"]);
        sh(
            rig.lab.alice().netns(),
            "ip link add late0 type veth peer name far0; ip link set far0 up; ip link set late0 up",
        )
        .unwrap();
        sh(
            rig.lab.bob().netns(),
            "ip link add late0 type veth peer name far0; ip link set far0 up; ip link set late0 up",
        )
        .unwrap();
        let python = copy_of_python(rig.folder(), "app");
        let folder = rig.folder().join("theirs");
        fs::create_dir(&folder).unwrap();
        let hidden = copy_of_python(&folder, "hidden");
        // His file, too: one of root's with a second name would not be taken for what policy names there.
        for path in [&hidden, &folder] {
            std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
            rig.set_policy(side, &protect(&python, peer)).unwrap();
        }
        rig.start_both().unwrap();
        associate(&rig).unwrap();
        let server = tcp_server(&rig, &python, PORT);
        Scene { rig, python, hidden, _server: server }
    }

    fn policy(&self) -> String {
        protect(&self.python, Side::Bob)
    }

    /// Protected traffic under keys that were given a moment ago.
    fn keys(&self) -> Result<(), String> {
        self.rig.associate(&Pair::default()).map_err(|error| error.to_string())?;
        let (said, fault) = one_line(&self.rig, &self.python, &Side::Bob.v4().to_string(), PORT, 100_000);
        if said == "same\n" { Ok(()) } else { Err(fault) }
    }

    /// A new policy that names a program in a folder of somebody else's: refused is what it says.
    fn reload(&self) -> Result<(), String> {
        let more =
            format!("application \"{}\" {{ network 203.0.113.0/24 untrusted; }}\n", self.hidden.display());
        self.rig.set_policy(Side::Alice, &(self.policy() + &more)).map_err(|error| error.to_string())?;
        let reload = ["policy", "reload", "--instance", &self.rig.instance(Side::Alice)];
        // A file that the daemon cannot look at would be a missing one, which is refused.
        self.rig.ravelin(Side::Alice, &reload, "").map_err(|error| error.to_string())?;
        // By another name: the kernel half knows it by what the daemon saw in that folder alone.
        let other = self.rig.folder().join("other");
        let _ = fs::remove_file(&other);
        fs::hard_link(&self.hidden, &other).unwrap();
        let send = Program::new(&other).args(["-c", SEND]);
        let done = self.rig.lab.alice().run_program(send, PATIENCE).unwrap();
        if done.out() == "1\n" { Ok(()) } else { Err(format!("{}{}", done.out(), done.err())) }
    }

    /// A socket of another user's that was open before policy named its program sends under the policy.
    fn adopt(&self) -> Result<(), String> {
        let app = copy_of_python(self.rig.folder(), "older");
        let bob = Side::Bob.v4().to_string();
        let fifo = self.rig.folder().join("tell");
        sh(self.rig.lab.alice().netns(), &format!("rm -f {0}; mkfifo -m 666 {0}", fifo.display())).unwrap();
        let script = format!("exec {} -c \"$1\" {bob} <>{}", app.display(), fifo.display());
        let old = Program::new("/bin/sh").args(["-c", &script, "sh", OLD_SOCKET]);
        let old = self.rig.lab.alice().spawn(old).unwrap();
        old.wait_for_output("ready", PATIENCE).unwrap();
        let policy = self.policy() + &protect(&app, Side::Bob);
        self.rig.set_policy(Side::Alice, &policy).map_err(|error| error.to_string())?;
        self.rig.reload(Side::Alice).map_err(|error| error.to_string())?;
        fs::write(&fifo, "now\n").unwrap();
        let sent = old.wait_for_output("sent", PATIENCE).map_err(|error| error.to_string());
        let shown = sh(self.rig.lab.alice().netns(), "ss -uane sport = :7065").unwrap();
        drop(old);
        sent?;
        if shown.contains("fwmark:") { Ok(()) } else { Err(format!("the socket has no mark: {shown}")) }
    }

    fn capture(&self) -> Result<(), String> {
        let file = self.rig.folder().join("out.pcapng");
        let _ = fs::remove_file(&file);
        let capture =
            Program::new(binary()).args(["capture", "--instance"]).arg(self.rig.instance(Side::Alice));
        let capture = self.rig.lab.alice().spawn(capture.arg("-w").arg(&file)).unwrap();
        let begun = within(|| fs::metadata(&file).is_ok_and(|file| file.len() > 0));
        if !begun {
            return Err(capture.output());
        }
        self.keys()?;
        capture.signal(libc::SIGINT).unwrap();
        let done = capture.finish(PATIENCE).unwrap();
        if done.status.success() && fs::metadata(&file).unwrap().len() > 100_000 {
            Ok(())
        } else {
            Err(done.err())
        }
    }

    /// Have `ravelin explain` say who a process of another user is, with its sockets.
    fn explain(&self) -> Result<(), String> {
        let waits = Program::new(&self.python).args(["-c", WAITS, &Side::Bob.v4().to_string()]);
        let waits = self.rig.lab.alice().spawn(waits).unwrap();
        waits.wait_for_output("ready", PATIENCE).unwrap();
        let pid = waits.pid().to_string();
        let said =
            self.rig.json(Side::Alice, &["explain", "--pid", &pid]).map_err(|error| error.to_string())?;
        let executable = said["process"]["executable"].as_str();
        let found = executable.is_some_and(|path| path == self.python.display().to_string())
            && said["sockets"][0]["effect"] == "protected";
        if found { Ok(()) } else { Err(said.to_string()) }
    }

    fn healthy(&self, what: &str) -> Result<(), String> {
        let mut last = String::new();
        let well = within(|| {
            last = self
                .rig
                .command(Side::Alice, &["status", "--json"], "")
                .map_or(String::new(), |done| done.out());
            let status: serde_json::Value = serde_json::from_str(&last).unwrap_or_default();
            let problems = status["problems"].as_array().cloned().unwrap_or_default();
            problems.iter().all(|problem| !problem.to_string().contains("late0"))
                && status["uplinks"].to_string().contains("late0")
        });
        if well { Ok(()) } else { Err(format!("{what}: {last}")) }
    }

    /// A guarded device goes and comes again.
    fn uplink(&self) -> Result<(), String> {
        let alice = self.rig.lab.alice().netns();
        sh(alice, "ip link del late0").unwrap();
        let gone = within(|| {
            let status = self.rig.command(Side::Alice, &["status", "--json"], "").unwrap().out();
            let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
            !status["uplinks"].to_string().contains("late0")
        });
        if !gone {
            return Err("late0 is guarded still".to_owned());
        }
        sh(alice, "ip link add late0 type veth peer name far0; ip link set far0 up; ip link set late0 up")
            .unwrap();
        self.healthy("the uplink")
    }

    /// Pins, a kernel setting and the TUN, damaged from outside.
    fn repair(&self) -> Result<(), String> {
        let alice = self.rig.lab.alice().netns();
        let pins = PathBuf::from("/sys/fs/bpf/ravelin").join(self.rig.instance(Side::Alice));
        let links = || fs::read_dir(pins.join("links")).map_or(0, Iterator::count);
        let before = links();
        fs::remove_dir_all(&pins).unwrap();
        sh(alice, "echo 0 >/proc/sys/net/ipv4/fwmark_reflect; ip link set rvl0 down").unwrap();
        let mut last = String::new();
        let right = within(|| {
            last = self.rig.command(Side::Alice, &["status"], "").map_or(String::new(), |done| done.out());
            let right =
                "test $(cat /proc/sys/net/ipv4/fwmark_reflect) = 1 && ip link show rvl0 up | grep -q rvl0";
            links() == before && pins.join("config").exists() && sh(alice, right).is_ok()
        });
        if right { Ok(()) } else { Err(format!("it is not repaired: {} of {before} links; {last}", links())) }
    }

    fn take_over(&mut self) -> Result<(), String> {
        let old = self.rig.release(Side::Alice).ok_or("no daemon")?;
        self.rig.start_with(Side::Alice, &["--take-over"]).map_err(|error| error.to_string())?;
        old.finish(PATIENCE).map_err(|error| error.to_string())?;
        self.keys()
    }

    /// Each door, by its name: something that a running daemon does for its operator.
    fn doors(&self) -> BTreeMap<&'static str, Door<'_>> {
        let mut out = BTreeMap::<_, Door<'_>>::new();
        out.insert("keys", Box::new(|| self.keys()));
        out.insert("reload", Box::new(|| self.reload()));
        out.insert("adopt", Box::new(|| self.adopt()));
        out.insert("capture", Box::new(|| self.capture()));
        out.insert("explain", Box::new(|| self.explain()));
        out.insert("uplink", Box::new(|| self.uplink()));
        out.insert("repair", Box::new(|| self.repair()));
        out
    }
}

/// The program under test without these capabilities, in debug builds.
fn wrapper(folder: &Path, without: &str) -> PathBuf {
    let wrapper = folder.join("ravelin");
    let script = format!("#!/bin/sh\nRAVELIN_TEST_WITHOUT={without} exec {} \"$@\"\n", binary().display());
    fs::write(&wrapper, script).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    wrapper
}

/// Whether it is so within the usual time.
fn within(mut done: impl FnMut() -> bool) -> bool {
    try_wait_until("", PATIENCE, || Ok(done())).is_ok()
}

/// A field of each thread's status: the thread's name, and the value.
fn threads(pid: u32, field: &str) -> Vec<(String, String)> {
    let of = |task: PathBuf| {
        let text = fs::read_to_string(task.join("status")).ok()?;
        let value = |field: &str| text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(":\t"));
        Some((value("Name")?.to_owned(), value(field)?.to_owned()))
    };
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks.filter_map(|task| of(task.unwrap().path())).collect()
}

#[track_caller]
fn has_the_rights_of_its_table(rig: &Rig) {
    has_the_rights(rig.daemon(Side::Alice).unwrap().pid());
}

#[track_caller]
pub(super) fn has_the_rights(pid: u32) {
    assert!(threads(pid, "Name").len() >= 3);
    have(pid, |thread| match thread {
        "rvl-look" | "rvl-digest" => DAC_READ_SEARCH,
        "rvl-outbound" => NET_RAW,
        other if other.starts_with("rvl-") => 0,
        _ => DAC_READ_SEARCH | NET_ADMIN | SYS_PTRACE | PERFMON | BPF,
    });
}

/// Every thread has the limits, and of capabilities those that belong to its name.
#[track_caller]
fn have(pid: u32, may: impl Fn(&str) -> u64) {
    for (thread, value) in threads(pid, "NoNewPrivs") {
        assert_eq!(value, "1", "{thread}");
    }
    for (thread, value) in threads(pid, "Seccomp") {
        assert_eq!(value, "2", "{thread} has a filter");
    }
    for set in ["CapInh", "CapBnd", "CapAmb"] {
        for (thread, value) in threads(pid, set) {
            assert_eq!(value, "0000000000000000", "{set} of {thread}");
        }
    }
    // Where locked memory has a limit that the daemon may not raise, each thread keeps the right to lock more.
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let limit = limits.lines().find(|line| line.starts_with("Max locked memory")).unwrap();
    let locks = if limit.contains("unlimited") { 0 } else { IPC_LOCK };
    for set in ["CapPrm", "CapEff"] {
        for (thread, value) in threads(pid, set) {
            let has = u64::from_str_radix(&value, 16).unwrap();
            assert_eq!(has, may(&thread) | locks, "{set} of {thread}: {value}");
        }
    }
}

#[test]
fn each_thread_has_the_rights_of_its_table_and_every_door_works() {
    let mut scene = Scene::build("rvl-rights", "");
    has_the_rights_of_its_table(&scene.rig);
    for (door, open) in scene.doors() {
        assert_eq!(open(), Ok(()), "{door}");
        has_the_rights_of_its_table(&scene.rig);
    }
    scene.take_over().unwrap();
    has_the_rights_of_its_table(&scene.rig);
    for (door, open) in scene.doors() {
        assert_eq!(open(), Ok(()), "{door} after the take-over");
    }
}

#[test]
fn a_daemon_with_its_limits_takes_itself_off_the_host() {
    let options =
        RigOptions { name: "rvl-leaves".to_owned(), binary: binary(), daemon: None, segmentation: true };
    let mut rig = Rig::build(&options).unwrap();
    let python = copy_of_python(rig.folder(), "app");
    rig.set_policy(Side::Alice, &protect(&python, Side::Bob)).unwrap();
    rig.start_with(Side::Alice, &["--detach-on-exit"]).unwrap();
    let instance = rig.instance(Side::Alice);
    let traces = [format!("/sys/fs/bpf/ravelin/{instance}"), format!("/run/ravelin-state/{instance}")];
    assert!(traces.iter().all(|path| PathBuf::from(path).exists()));
    let daemon = rig.release(Side::Alice).unwrap();
    has_the_rights(daemon.pid());
    daemon.signal(libc::SIGTERM).unwrap();
    let done = daemon.finish(PATIENCE).unwrap();
    let said = done.out() + &done.err();
    assert!(done.status.success() && said.contains("taken off the host"), "{said}");
    assert!(!said.contains("left behind"), "{said}");
    assert!(!traces.iter().any(|path| PathBuf::from(path).exists()), "{said}");
    let tun = sh(rig.lab.alice().netns(), "! ip link show rvl0 2>/dev/null");
    assert!(tun.is_ok(), "{tun:?} {said}");
}

/// Each capability of the control plane, and the door that is closed without it.
#[test]
fn no_capability_is_kept_that_no_door_needs() {
    let needed = [
        ("CAP_NET_ADMIN", "repair"),
        ("CAP_BPF", "repair"),
        ("CAP_PERFMON", "repair"),
        ("CAP_SYS_PTRACE", "adopt"),
        ("CAP_DAC_READ_SEARCH", "reload"),
    ];
    for (capability, door) in needed {
        let scene = Scene::build("rvl-without", capability);
        assert!(scene.doors()[door]().is_err(), "{door} works without {capability}");
    }
}

/// A line's main thread has two rights and its workers none; an interface that comes back is served by both of the two alone.
#[test]
fn a_line_keeps_two_rights_and_its_workers_none() {
    let folder = Scratch::new("rvl-line-rights");
    for (at, without) in ["", "CAP_NET_ADMIN", "CAP_NET_RAW"].into_iter().enumerate() {
        let run = if without.is_empty() { binary() } else { wrapper(&folder, without) };
        let mut rig = LineRig::of(&format!("rvl-lr{at}"), run).unwrap();
        rig.start(&[]).unwrap();
        if without.is_empty() {
            let workers = threads(rig.pid().unwrap(), "Name");
            assert!(workers.iter().any(|(name, _)| name.starts_with("rvl-line-")), "{workers:?}");
            have(rig.pid().unwrap(), |thread| match thread.starts_with("rvl-line-") {
                true => 0,
                false => NET_ADMIN | NET_RAW,
            });
        }
        rig.ip("link del alice").unwrap();
        assert!(within(|| rig.log().contains("alice is gone")), "{}", rig.log());
        rig.ip("link add alice type veth peer name there").unwrap();
        assert!(within(|| rig.log().contains("alice is there again")), "{without}: {}", rig.log());
        let served = rig.log().contains("it is closed and served");
        assert_eq!(served, without.is_empty(), "{without}: {}", rig.log());
    }
}
