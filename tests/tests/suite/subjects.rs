//! Subjects of policies, end to end: a block for each qualifier, a process of each kind, and one that is none of them
//! (docs/design/0012). `ravelin policy plan` is asked about the processes, too: it finds out by itself whose they would
//! be.

use std::path::{Path, PathBuf};

use lab::rig::{Rig, RigOptions};
use lab::{Capture, CaptureOptions, Program, Running, Side};
use netio::cgroup::{Cgroup, unified_root};
use serde_json::Value;
use tests::{PATIENCE, binary, copy_of_python, wait_for};

const PORT: u16 = 7300;
/// The unit in whose control group everything runs that the daemon watches.
const WATCHED: &str = "rvlsubjects.slice";
/// A unit below the watched one.
const UNIT: &str = "rvlsubjects-unit.slice";

/// A process that becomes the user in its first argument (a number). It sends a word in clear or not to a peer
/// (address, port) from a socket that stays open, then a datagram to each further address; it says `said`, its number
/// and what came of those.
const TALK: &str = r#"
import errno, os, socket, sys, time
user, word, peer, port, *others = sys.argv[1:]
os.setresuid(int(user), int(user), int(user))
live = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
live.connect((peer, int(port)))
def send(address):
    try:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (address, 9))
        return "sent"
    except OSError as error:
        return "EPERM" if error.errno == errno.EPERM else "sent"
answers = [send(address) for address in others]
live.send(word.encode())
print("said", os.getpid(), *answers, flush=True)
time.sleep(3600)
"#;

/// Starts a program and waits for its end.
const PARENT: &str = "import subprocess, sys; subprocess.run(sys.argv[1:])";

/// Becomes the program in its first argument by a copy that has no name: never had one (`memfd`), or was removed.
const NAMELESS: &str = r#"
import os, sys
how, path, *args = sys.argv[1:]
octets = open(path, "rb").read()
if how == "memfd":
    fd = os.memfd_create("copy")
    os.write(fd, octets)
else:
    copy = path + "-copy"
    with open(copy, "wb") as file:
        file.write(octets)
    os.chmod(copy, 0o755)
    fd = os.open(copy, os.O_RDONLY | os.O_CLOEXEC)
    os.unlink(copy)
os.execve(fd, ["python3", *args], {**os.environ, "PYTHONHOME": "/usr"})
"#;

/// The control groups of the test; they go with this value, and what a crashed run left with the next.
struct Groups {
    root: PathBuf,
}

impl Groups {
    fn new() -> Groups {
        let root = unified_root().unwrap().join(WATCHED);
        let groups = Groups { root };
        groups.remove();
        for name in ["x", UNIT, "other"] {
            Cgroup::create(&groups.root, name).unwrap();
        }
        groups
    }

    fn at(&self, name: &str) -> String {
        self.root.join(name).display().to_string()
    }

    fn remove(&self) {
        if let Ok(cgroup) = Cgroup::open(&self.root) {
            cgroup.kill().unwrap();
            cgroup.remove().unwrap();
        }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        self.remove();
    }
}

/// One block of alice's policy: lines of it that tests look for begin where the block does.
struct Block {
    name: &'static str,
    header: String,
    /// Lines of it: its header, and what it says of bob and of the address that it alone refuses.
    line: usize,
    refuses: String,
}

impl Block {
    fn text(&self, bob: &str) -> String {
        let protection =
            if bob.starts_with("protected") { "protection P { encryption mandatory; }" } else { "" };
        format!(
            "{} {{\n  network {} {bob};\n  network {} untrusted;\n  {protection}\n}}\n",
            self.header,
            Side::Bob.v4(),
            self.refuses
        )
    }
}

/// The blocks with these headers, the first at line 1.
fn blocks(headers: &[(&'static str, String)]) -> Vec<Block> {
    let block = |(at, (name, header)): (usize, &(&'static str, String))| Block {
        name,
        header: header.clone(),
        line: 1 + 5 * at,
        refuses: format!("203.0.113.{}", 1 + at),
    };
    headers.iter().enumerate().map(block).collect()
}

/// A process of one kind, and what it said.
struct Process {
    kind: &'static str,
    pid: u64,
    _running: Running,
}

struct Stage {
    blocks: Vec<Block>,
    app: PathBuf,
    /// Starts the program, and is started itself by the other.
    parent: PathBuf,
    grandparent: PathBuf,
    // Dropped behind the rig, whose daemon has a control group among them.
    rig: Rig,
    groups: Groups,
}

impl Stage {
    fn talk(&self, program: &Path, before: &[&str], group: &str, user: u32, word: &str) -> Program {
        self.talk_anywhere(program, before, user, word).in_cgroup(&self.groups.at(group))
    }

    /// In the control group of the test, which the daemon does not watch.
    fn talk_anywhere(&self, program: &Path, before: &[&str], user: u32, word: &str) -> Program {
        let (user, port) = (user.to_string(), PORT.to_string());
        let bob = Side::Bob.v4().to_string();
        let others = self.blocks.iter().map(|block| block.refuses.as_str());
        Program::new(program).args(before).args(["-c", TALK, &user, word, &bob, &port]).args(others)
    }

    /// Start it; it must be refused what the block of this name refuses, and nothing else.
    fn is(&self, wire: &Capture, block: &'static str, word: &str, program: Program) -> Process {
        let running = self.rig.lab.alice().spawn(program).unwrap();
        // A whole line: what is read of a pipe may end within one.
        let line = wait_for("said", PATIENCE, || {
            let out = running.output();
            let whole = out.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
            whole.filter_map(|line| line.strip_prefix("said ")).map(str::to_owned).next().ok_or(out)
        });
        let (pid, answers) = line.split_once(' ').unwrap();
        let wanted = self.blocks.iter().map(|b| if b.name == block { "EPERM" } else { "sent" });
        assert_eq!(answers.trim(), wanted.collect::<Vec<_>>().join(" "), "{word}: {:?}", self.blocks_named());
        if block != "default" {
            wait_for(word, PATIENCE, || {
                let is_there = wire.look(|evidence| evidence.contains_bytes(word.as_bytes())).unwrap();
                if is_there { Ok(()) } else { Err("not on the wire") }
            });
        }
        let process = Process { kind: block, pid: pid.parse().unwrap(), _running: running };
        self.is_explained(&process);
        process
    }

    fn blocks_named(&self) -> Vec<&str> {
        self.blocks.iter().map(|block| block.name).collect()
    }

    fn block(&self, name: &str) -> &Block {
        self.blocks.iter().find(|block| block.name == name).unwrap()
    }

    /// `ravelin explain` names the block and the line for the socket that is open.
    fn is_explained(&self, process: &Process) {
        let told = self.rig.json(Side::Alice, &["explain", "--pid", &process.pid.to_string()]).unwrap();
        let block = self.block(process.kind);
        let remote = format!("{}:{PORT}", Side::Bob.v4());
        let sockets = told["sockets"].as_array().unwrap();
        let live = sockets.iter().find(|socket| socket["flow"]["remote"] == remote.as_str());
        let decision = &live.unwrap_or_else(|| panic!("{told}"))["decision"];
        assert_eq!(told["process"]["application"]["block"]["line"], block.line, "{told}");
        let lines = [&decision["block"]["line"], &decision["network"]["line"]];
        assert_eq!(lines, [block.line, block.line + 1], "{told}");
        let verdict = if process.kind == "default" { "protect" } else { "bypass" };
        assert_eq!(decision["verdict"], verdict, "{told}");
    }

    /// What a policy of these blocks would change for the flows to bob: process, verdict and line of what would be.
    fn plan(&self, blocks: &[Block], bob: impl Fn(&Block) -> &'static str) -> Vec<(u64, String, u64)> {
        let file = self.rig.folder().join("candidate.policy");
        let text: String = blocks.iter().map(|block| block.text(bob(block))).collect();
        std::fs::write(&file, text).unwrap();
        let (file, instance) = (file.display().to_string(), self.rig.instance(Side::Alice));
        let args = ["policy", "plan", &file, "--json", "--instance", &instance];
        let done = self.rig.command(Side::Alice, &args, "").unwrap();
        let plan: Value = serde_json::from_str(&done.out()).unwrap_or_else(|_| panic!("{}", done.err()));
        let change = |socket: &Value| {
            let after = &socket["after"];
            let line = after["line"]["line"].as_u64().unwrap_or(0);
            (socket["pid"].as_u64().unwrap(), after["verdict"].as_str().unwrap().to_owned(), line)
        };
        let mut out: Vec<_> = plan["sockets"].as_array().unwrap().iter().map(change).collect();
        out.sort();
        out
    }
}

fn bob_is(block: &Block) -> &'static str {
    if block.name == "default" { "protected P" } else { "trusted" }
}

#[test]
fn each_qualifier_tells_processes_apart() {
    let groups = Groups::new();
    let options =
        RigOptions { name: "rvl-subjects".to_owned(), binary: binary(), daemon: None, segmentation: false };
    let mut rig = Rig::build(&options).unwrap();
    let [app, parent, grandparent] =
        ["app", "parent", "grandparent"].map(|name| copy_of_python(rig.folder(), name));
    let headers = |from: &Path, group: &str, user: &str, rest: &str| {
        [
            ("from", format!("application from {:?}{rest}", from.display().to_string())),
            ("cgroup", format!("application cgroup \"/{WATCHED}/{group}\"{rest}")),
            ("uid", format!("application uid {user}")),
            ("anonymous", format!("application anonymous{rest}")),
            ("unit", format!("application unit \"{UNIT}\"{rest}")),
            ("default", "default".to_owned()),
        ]
    };
    let blocks_in_force = blocks(&headers(&parent, "x", "65534", ""));
    let policy: String = blocks_in_force.iter().map(|block| block.text(bob_is(block))).collect();
    rig.set_policy(Side::Alice, &policy).unwrap();
    rig.watch(Side::Alice, groups.root.clone());
    rig.start(Side::Alice).unwrap();
    let stage = Stage { blocks: blocks_in_force, app, parent, grandparent, rig, groups };
    let wire = stage.rig.lab.capture(CaptureOptions { keep: 1 << 20, watch: Vec::new() }).unwrap();

    // The program that is none of them first: when the others have been seen, it has not been.
    let app = stage.app.display().to_string();
    let plain = stage.talk(&stage.app, &[], "other", 0, "word-of-the-rest");
    let rest = stage.is(&wire, "default", "word-of-the-rest", plain);
    let user = stage.talk(&stage.app, &[], "other", 65533, "word-of-another-user");
    let other_user = stage.is(&wire, "default", "word-of-another-user", user);
    let parent = stage.parent.display().to_string();
    let line = ["-c", PARENT, &parent, "-c", PARENT, &app];
    let of_parent = stage.talk(&stage.grandparent, &line, "other", 0, "word-of-a-child");
    let in_group = stage.talk(&stage.app, &[], "x", 0, "word-of-the-group");
    let by_user = stage.talk(&stage.app, &[], "other", 65534, "word-of-the-user");
    let nameless =
        |how: &str, word: &str| stage.talk(&stage.app, &["-c", NAMELESS, how, &app], "other", 0, word);
    let in_unit = stage.talk(&stage.app, &[], UNIT, 0, "word-of-the-unit");
    let kinds = [
        stage.is(&wire, "from", "word-of-a-child", of_parent),
        stage.is(&wire, "cgroup", "word-of-the-group", in_group),
        stage.is(&wire, "uid", "word-of-the-user", by_user),
        stage.is(&wire, "anonymous", "word-of-memory", nameless("memfd", "word-of-memory")),
        stage.is(&wire, "anonymous", "word-of-what-is-gone", nameless("unlinked", "word-of-what-is-gone")),
        stage.is(&wire, "unit", "word-of-the-unit", in_unit),
    ];
    // A socket that policy does not reach, of a process in another control group, is no part of a plan.
    let outside =
        stage.rig.lab.alice().spawn(stage.talk_anywhere(&stage.app, &[], 0, "word-from-outside")).unwrap();
    outside.wait_for_output("said", PATIENCE).unwrap();
    let evidence = wire.finish().unwrap();
    assert!(evidence.is_complete());
    for word in ["word-of-the-rest", "word-of-another-user"] {
        assert!(!evidence.contains_bytes(word.as_bytes()), "{word} in clear");
    }

    // The same policy changes nothing. With each qualifier another one, all are of the rest.
    assert_eq!(stage.plan(&stage.blocks, bob_is), []);
    let away = blocks(&headers(&program_without_children(), "y", "65532", " uid 7"));
    let line = stage.block("default").line as u64 + 3;
    let mut wanted: Vec<_> =
        kinds.iter().map(|kind| (kind.pid, "encryption mandatory".to_owned(), line)).collect();
    wanted.sort();
    assert_eq!(stage.plan(&away, bob_is), wanted);

    // With subjects that nobody has yet, and that fit the same processes, each is of its own block, as /proc tells; without `default`
    // the rest is in clear.
    let mut renamed = blocks(&headers(&stage.grandparent, "x", "65534-65535", " uid 0-9"));
    renamed.pop();
    let line = |kind: &Process| renamed.iter().find(|b| b.name == kind.kind).unwrap().line as u64 + 1;
    let refused = kinds.iter().map(|kind| (kind.pid, "refused".to_owned(), line(kind)));
    let clear = [&rest, &other_user].map(|process| (process.pid, "clear".to_owned(), 0));
    let mut wanted: Vec<_> = refused.chain(clear).collect();
    wanted.sort();
    assert_eq!(stage.plan(&renamed, |_| "untrusted"), wanted);
}

/// One that started nothing here.
fn program_without_children() -> PathBuf {
    tests::program("true")
}

/// What is put into a directory that was not there when the policy was loaded, as the first version of a program that is installed into
/// a directory of its own, is that program from its first instruction, as soon as the daemon has seen the directory.
#[test]
fn a_program_in_a_directory_that_comes_later_is_known() {
    let name = "rvl-later".to_owned();
    let options = RigOptions { name, binary: binary(), daemon: None, segmentation: false };
    let mut rig = Rig::build(&options).unwrap();
    let folder = rig.folder().join("opt/later");
    let bob = Side::Bob.v4();
    let text = format!("application \"{}/app\" {{ network {bob} untrusted; }}\n", folder.display());
    rig.set_policy(Side::Alice, &text).unwrap();
    rig.start(Side::Alice).unwrap();
    let said = "the kernel half has the executables of the policy as they are now";
    let send = |app: &Path| {
        let script = format!("import socket; socket.socket(2, 2).sendto(b'x', ('{bob}', {PORT}))");
        let done = rig.lab.alice().run_program(Program::new(app).args(["-c", &script]), PATIENCE).unwrap();
        if done.status.success() { "sent".to_owned() } else { done.err() }
    };

    std::fs::create_dir_all(&folder).unwrap();
    rig.daemon(Side::Alice).unwrap().wait_for_output(said, PATIENCE).unwrap();
    let app = copy_of_python(&folder, "app");
    assert!(send(&app).contains("Operation not permitted"), "{}", send(&app));

    // The directory moves away, with the program, and another one comes.
    let times = || rig.daemon(Side::Alice).unwrap().output().matches(said).count();
    std::fs::rename(&folder, rig.folder().join("opt/before")).unwrap();
    let before = times();
    std::fs::create_dir(&folder).unwrap();
    wait_for("the other directory to be known", PATIENCE, || {
        let now = times();
        if now > before { Ok(()) } else { Err(now) }
    });
    let app = copy_of_python(&folder, "app");
    assert!(send(&app).contains("Operation not permitted"), "{}", send(&app));
}
