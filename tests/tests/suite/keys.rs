//! The life of keys and sequence numbers (docs/design/0003), seen from outside.

use lab::rig::Rig;
use lab::{CaptureOptions, Finished, Program, Side, Transport};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tests::{PATIENCE, binary, program, programs, protected_rig, wait_for};

const KEY: &str = "00112233445566778899aabbccddeeff00112233";
const OTHER_KEY: &str = "102132435465768798a9bacbdcedfe0f10213243";
const THIRD_KEY: &str = "2031425364758697a8b9cadbecfd0e1f20314253";
const PORT: u16 = 7010;
const SIZE: u64 = 2 << 30;

fn sas(document: &Value) -> &Vec<Value> {
    document["sas"].as_array().expect("a list of associations")
}

fn add_one(rig: &Rig, direction: &str, spi: &str, key: &str) -> Finished {
    let (local, remote) = (Side::Alice.v4().to_string(), Side::Bob.v4().to_string());
    let args = ["sa", "add", "--direction", direction, "--spi", spi, "--local", &local, "--remote", &remote];
    let args: Vec<&str> = args.into_iter().chain(["--mode", "tunnel", "--suite", "aes128gcm"]).collect();
    rig.command(Side::Alice, &args, key).unwrap()
}

#[test]
fn a_key_serves_one_association_once_and_shows_nowhere() {
    let python = program("python3");
    let mut rig = protected_rig("rvl-keys", true, &[&python]).unwrap();
    let (local, remote) = (Side::Alice.v4().to_string(), Side::Bob.v4().to_string());
    let add = |direction: &str, spi: &str, key: &str| add_one(&rig, direction, spi, key);
    let first = add("in", "0x1001", KEY);
    assert!(first.status.success(), "{}", first.err());
    for (direction, spi) in [("in", "0x1002"), ("out", "0x1003")] {
        let again = add(direction, spi, KEY);
        assert_eq!(again.status.code(), Some(1), "the same key for {direction} {spi}: {}", again.out());
        assert!(again.err().contains("key") && !again.err().contains(KEY), "{}", again.err());
    }
    rig.ravelin(Side::Alice, &["sa", "del", "0x1001", "--direction", "in"], "").unwrap();
    assert_eq!(add("in", "0x1004", KEY).status.code(), Some(1), "a key that was used before");

    // Too short, not hexadecimal, in the arguments: refused, and not repeated.
    assert_eq!(add("in", "0x1005", &KEY[2..]).status.code(), Some(2));
    assert_eq!(add("in", "0x1006", "not a key").status.code(), Some(2));
    let args =
        ["sa", "add", "--direction", "in", "--spi", "auto", "--local", &local, "--remote", &remote, "--mode"];
    let args: Vec<&str> = args.into_iter().chain(["tunnel", "--suite", "aes128gcm", KEY]).collect();
    let refused = rig.command(Side::Alice, &args, "").unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(!refused.err().contains(KEY), "{}", refused.err());

    let list = rig.ravelin(Side::Alice, &["sa", "list", "--json"], "").unwrap();
    assert!(!list.contains(KEY) && !list.to_lowercase().contains("keymat"), "{list}");
    let socket = format!("/run/ravelin/{}/control.sock", rig.instance(Side::Alice));
    let mode = std::fs::metadata(socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    // A crash ends every association, and nothing brings one back.
    let printed = rig.kill(Side::Alice).unwrap();
    assert!(!format!("{}{}", printed.out(), printed.err()).contains(KEY));
    rig.start(Side::Alice).unwrap();
    assert!(sas(&rig.json(Side::Alice, &["sa", "list"]).unwrap()).is_empty());

    // Nor does it make a key new: its counter would start again under the nonces of the first time.
    let book = format!("/run/ravelin-state/{}/used-keys", rig.instance(Side::Alice));
    assert_eq!(std::fs::metadata(&book).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(
        add_one(&rig, "in", "0x1007", KEY).status.code(),
        Some(1),
        "a key that was used before the crash"
    );
    assert!(add_one(&rig, "in", "0x1008", OTHER_KEY).status.success(), "a new key");

    // A book that cannot be read takes no key, not even a new one, and says what to do.
    rig.kill(Side::Alice).unwrap();
    let octets = std::fs::read(&book).unwrap();
    std::fs::write(&book, &octets[..octets.len() - 32]).unwrap();
    rig.start(Side::Alice).unwrap();
    let refused = add_one(&rig, "in", "0x1009", THIRD_KEY);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        refused.err().contains("used-keys") && refused.err().contains("ravelin detach"),
        "{}",
        refused.err()
    );
    let health = rig.command(Side::Alice, &["status"], "").unwrap();
    assert!(health.status.code() == Some(1) && health.out().contains("used-keys"), "{}", health.out());

    // Taking the instance off the host forgets the book.
    rig.stop(Side::Alice).unwrap();
    rig.ravelin(Side::Alice, &["detach", "--yes"], "").unwrap();
    assert!(!std::path::Path::new(&book).exists());
    rig.start(Side::Alice).unwrap();
    assert!(add_one(&rig, "in", "0x100a", THIRD_KEY).status.success());
}

/// Tries every door behind which keys are: the sockets, the book of used keys, the daemon's memory. Prints a line for each.
const DOORS: &str = r#"
import ctypes, os, socket, sys
instance, pid, binary = sys.argv[1], int(sys.argv[2]), sys.argv[3]
libc = ctypes.CDLL(None, use_errno=True)

def connect(path):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)

def read(path):
    os.read(os.open(path, os.O_RDONLY), 1)

def trace():
    if libc.ptrace(16, pid, None, None) != 0:  # PTRACE_ATTACH
        raise OSError(ctypes.get_errno(), "ptrace")
    os.waitpid(pid, 0x40000000)  # __WALL
    libc.ptrace(17, pid, None, None)  # PTRACE_DETACH

def steal():
    if libc.syscall(438, libc.syscall(434, pid, 0), 0, 0) < 0:  # pidfd_getfd, pidfd_open
        raise OSError(ctypes.get_errno(), "pidfd_getfd")

doors = {
    "control.sock": lambda: connect(f"/run/ravelin/{instance}/control.sock"),
    "handover.sock": lambda: connect(f"/run/ravelin-state/{instance}/handover.sock"),
    "used-keys": lambda: read(f"/run/ravelin-state/{instance}/used-keys"),
    "maps": lambda: read(f"/proc/{pid}/maps"),
    "mem": lambda: os.open(f"/proc/{pid}/mem", os.O_RDONLY),
    "fd": lambda: os.listdir(f"/proc/{pid}/fd"),
    "pidfd_getfd": steal,
    "ptrace": trace,
}
for name, door in doors.items():
    try:
        door()
        print(name, "open")
    except OSError as error:
        print(name, "refused" if error.errno in (1, 13) else f"errno {error.errno}")
"#;

/// Paper 001, note 4: "imperative that this information is not accessible by a normal user".
#[test]
fn another_user_reads_no_keys() {
    let python = program("python3");
    let rig = protected_rig("rvl-nokeys", true, &[&python]).unwrap();
    assert!(add_one(&rig, "in", "0x1001", KEY).status.success());
    let instance = rig.instance(Side::Alice);
    let daemon = rig.daemon(Side::Alice).unwrap().pid().to_string();
    let ours = binary().display().to_string();
    let script = [python.to_str().unwrap(), "-c", DOORS, &instance, &daemon, &ours];
    let run = |program: Program| rig.lab.alice().run_program(program, PATIENCE).unwrap();
    let nobody = |args: &[&str]| {
        let user = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set=-all"];
        run(Program::new(program("setpriv")).args(user).args(args))
    };
    // The control: root opens every door, so what is refused below is refused for who asks.
    let root = run(Program::new(&python).args(&script[1..]));
    let doors = ["control.sock", "handover.sock", "used-keys", "maps", "mem", "fd", "pidfd_getfd", "ptrace"];
    let all = |word: &str| doors.map(|door| format!("{door} {word}\n")).concat();
    assert_eq!(root.out(), all("open"), "{}", root.err());
    let user = nobody(&script);
    assert_eq!(user.out(), all("refused"), "{}", user.err());
    // By our own command, too.
    let export = [&*ours, "sa", "export", "--wireshark", "--show-keys", "--instance", &instance];
    let refused = nobody(&export);
    assert!(!refused.status.success() && !format!("{}{}", refused.out(), refused.err()).contains(KEY));
    let shown = run(Program::new(&ours).args(&export[1..]));
    assert!(shown.status.success() && shown.out().contains(KEY), "{} {}", shown.out(), shown.err());
}

/// Whether these octets are anywhere in the memory of a process that can be read.
fn is_in_memory(pid: u32, wanted: &[u8]) -> bool {
    use std::os::unix::fs::FileExt;
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let ranges = maps.lines().filter(|line| line.contains(" rw")).filter_map(|line| {
        let (from, to) = line.split(' ').next()?.split_once('-')?;
        Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?))
    });
    const CHUNK: u64 = 1 << 20;
    let mut octets = vec![0; CHUNK as usize + wanted.len()];
    for (from, to) in ranges {
        for at in (from..to).step_by(CHUNK as usize) {
            let room = usize::try_from(to - at).unwrap().min(octets.len());
            // Pages that a device has, or nobody.
            let Ok(n) = memory.read_at(&mut octets[..room], at) else { continue };
            if octets[..n].windows(wanted.len()).any(|window| window == wanted) {
                return true;
            }
        }
    }
    false
}

#[test]
fn no_text_of_a_key_stays_in_the_daemon() {
    const TEXT: &str = "9f8e7d6c5b4a39281706f5e4d3c2b1a00fedcba9";
    let python = program("python3");
    let rig = protected_rig("rvl-keytext", true, &[&python]).unwrap();
    let added = add_one(&rig, "in", "0x1101", TEXT);
    assert!(added.status.success(), "{}", added.err());
    let pid = rig.daemon(Side::Alice).unwrap().pid();
    // What is looked for can be found: the association has its key.
    let key: Vec<u8> = TEXT
        .as_bytes()
        .chunks(2)
        .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
        .collect();
    assert!(is_in_memory(pid, &key[..16]));
    // The command may have its answer before the daemon has closed the connection, whose buffer is wiped then. Two places of sixteen
    // digits each, so that the end of a copy is found as well.
    for part in [&TEXT[..16], &TEXT[24..]] {
        wait_for(part, PATIENCE, || match is_in_memory(pid, part.as_bytes()) {
            true => Err("it is in the daemon's memory"),
            false => Ok(()),
        });
    }
}

#[test]
fn a_hand_over_keeps_keys_numbers_and_connections() {
    let python = program("python3");
    let mut rig = protected_rig("rvl-over", true, &[&python]).unwrap();
    let address = Side::Bob.v4().to_string();
    let script = ["-c", programs::BULK_SERVER, &PORT.to_string(), &SIZE.to_string()];
    let mut server = rig.lab.bob().spawn(Program::new(&python).args(script)).unwrap();
    // It hashes what it will send before it listens, which takes its time on a busy machine.
    rig.lab.bob().wait_for_listener(Transport::Tcp, PORT, &mut server, 6 * PATIENCE).unwrap();
    let capture = rig.lab.capture(CaptureOptions { keep: 1 << 20, watch: Vec::new() }).unwrap();
    let client = Program::new(&python).args(["-c", programs::BULK_CLIENT, &address, &PORT.to_string()]);
    let client = rig.lab.alice().spawn(client).unwrap();
    for side in [Side::Bob, Side::Alice] {
        let esp = capture.look(|wire| wire.esp).unwrap();
        capture.wait_for(PATIENCE, |wire| (wire.esp > esp + 100).then_some(())).unwrap().expect("traffic");
        let before = rig.json(side, &["sa", "list"]).unwrap();
        let old = rig.release(side).unwrap();
        let new = rig.launch(side, &["--take-over"]).unwrap();
        let ended = old.finish(PATIENCE).unwrap();
        assert!(ended.status.success(), "{}", ended.err());
        rig.adopt(side, new).unwrap();
        let after = rig.json(side, &["sa", "list"]).unwrap();
        assert_eq!(sas(&before).len(), sas(&after).len());
        for (old, new) in sas(&before).iter().zip(sas(&after)) {
            assert_eq!((&old["spi"], &old["direction"]), (&new["spi"], &new["direction"]));
            assert!(new["sequence"].as_u64() >= old["sequence"].as_u64(), "{old} {new}");
        }
    }
    let done = client.finish(Duration::from_secs(120)).unwrap();
    assert_eq!(done.out().trim(), format!("{} {SIZE}", server.output().trim()), "{}", done.err());
    let wire = capture.finish().unwrap();
    assert_eq!(wire.clear, 0);
    // Had a number been used twice, the other end would have dropped it.
    for side in Side::BOTH {
        for sa in sas(&rig.json(side, &["sa", "list"]).unwrap()) {
            assert_eq!(sa["counters"]["replayed"].as_u64(), Some(0), "{sa}");
        }
    }
}

#[test]
fn who_cannot_take_the_pins_over_leaves_the_other_daemon_its_keys() {
    let python = program("python3");
    let mut rig = protected_rig("rvl-otherabi", true, &[&python]).unwrap();
    assert!(add_one(&rig, "in", "0x1020", KEY).status.success());
    let before = rig.json(Side::Alice, &["sa", "list"]).unwrap();
    // Pins that this version does not know: another map in the place of the configuration. The daemon that runs would put its own back.
    let old = rig.release(Side::Alice).unwrap();
    old.signal(libc::SIGSTOP).unwrap();
    let pins = std::path::Path::new("/sys/fs/bpf/ravelin").join(rig.instance(Side::Alice));
    let swap = |from: &str, to: &str| std::fs::rename(pins.join(from), pins.join(to)).unwrap();
    swap("config", "aside");
    swap("counters", "config");
    let refused = rig.launch(Side::Alice, &["--take-over"]).unwrap().finish(PATIENCE).unwrap();
    swap("config", "counters");
    swap("aside", "config");
    old.signal(libc::SIGCONT).unwrap();
    assert!(!refused.status.success());
    assert!(refused.err().contains("ABI") && refused.err().contains("ravelin detach"), "{}", refused.err());
    rig.adopt(Side::Alice, old).unwrap();
    let after = rig.json(Side::Alice, &["sa", "list"]).unwrap();
    assert!(!sas(&after).is_empty());
    assert_eq!(sas(&before).len(), sas(&after).len());
}

/// A configuration that cannot be is said before the daemon that works is asked to end.
#[test]
fn who_cannot_have_its_files_leaves_the_other_daemon_its_keys() {
    let python = program("python3");
    let mut rig = protected_rig("rvl-nofiles", true, &[&python]).unwrap();
    let before = rig.json(Side::Alice, &["sa", "list"]).unwrap();
    assert!(!sas(&before).is_empty());
    // Below a plain file.
    let nowhere = rig.policy_file(Side::Alice).join("below");
    let nowhere = nowhere.display();
    for (lines, word) in [
        (format!("[audit]\nfile = \"{nowhere}\"\n"), "audit log"),
        (format!("[flows]\nlog = \"{nowhere}\"\n"), "flow log"),
        (format!("control_socket = \"{nowhere}/c.sock\"\n"), "control_socket"),
    ] {
        rig.configure(Side::Alice, &lines);
        let refused = rig.launch(Side::Alice, &["--take-over"]).unwrap().finish(PATIENCE).unwrap();
        let said = refused.err();
        assert!(!refused.status.success() && said.contains(word) && said.contains("name another"), "{said}");
        assert!(!said.contains("handed over"), "{said}");
        let after = rig.json(Side::Alice, &["sa", "list"]).unwrap();
        assert_eq!(sas(&before).len(), sas(&after).len(), "{word}");
    }
}

/// What a start needs is tried while the other daemon still works: behind the hand-over it would end both.
#[test]
fn what_a_start_cannot_have_is_found_before_the_other_daemon_gives_its_keys_away() {
    let python = program("python3");
    let mut rig = protected_rig("rvl-tried", true, &[&python]).unwrap();
    let before = rig.json(Side::Alice, &["sa", "list"]).unwrap();
    assert!(!sas(&before).is_empty());
    let folder = rig.folder().display().to_string();
    let record = std::path::Path::new("/run/ravelin-state").join(rig.instance(Side::Alice)).join("host.json");
    let kept = std::fs::read(&record).unwrap();
    for (lines, is_torn, words) in [
        // A folder lies in the socket's place.
        (format!("control_socket = \"{folder}\"\n"), false, ["control_socket", "directory"]),
        (String::new(), true, ["what an earlier daemon changed", "line 1"]),
    ] {
        rig.configure(Side::Alice, &lines);
        if is_torn {
            std::fs::write(&record, "{").unwrap();
        }
        let refused = rig.launch(Side::Alice, &["--take-over"]).unwrap().finish(PATIENCE).unwrap();
        std::fs::write(&record, &kept).unwrap();
        let said = refused.err();
        assert!(!refused.status.success() && words.iter().all(|word| said.contains(word)), "{said}");
        assert!(!said.contains("handed over and ended"), "{said}");
        let after = rig.json(Side::Alice, &["sa", "list"]).unwrap();
        assert_eq!(sas(&before).len(), sas(&after).len(), "{words:?}");
    }
    // And the next one takes over.
    rig.configure(Side::Alice, "");
    let old = rig.release(Side::Alice).unwrap();
    let new = rig.launch(Side::Alice, &["--take-over"]).unwrap();
    assert!(old.finish(PATIENCE).unwrap().status.success());
    rig.adopt(Side::Alice, new).unwrap();
    assert_eq!(sas(&before).len(), sas(&rig.json(Side::Alice, &["sa", "list"]).unwrap()).len());
}

/// A kernel half keeps its marks and has so much room; which of it a configuration and a policy need is planned first.
#[test]
fn what_does_not_fit_the_kernel_half_is_found_before_the_other_daemon_gives_its_keys_away() {
    let python = program("python3");
    let mut rig = protected_rig("rvl-nofit", true, &[&python]).unwrap();
    let before = rig.json(Side::Alice, &["sa", "list"]).unwrap();
    assert!(!sas(&before).is_empty());
    let good = std::fs::read_to_string(rig.policy_file(Side::Alice)).unwrap();
    let blocks = |numbers: std::ops::Range<u32>, header: &dyn Fn(u32) -> String| -> String {
        let terms = "localport=any remoteport=any encryption mandatory;";
        let rest = format!("{{\n  network 203.0.113.1 protected P;\n  protection P {{ {terms} }}\n}}\n");
        numbers.map(|n| format!("application {} {rest}", header(n))).collect()
    };
    let behind = |numbers| blocks(numbers, &|n| format!("from \"program-{n}\""));
    let groups = blocks(0..300, &|n| format!("cgroup \"/program-{n}\""));
    let choices = blocks(0..33, &|n| format!("\"/usr/bin/env\" uid {n}"));
    let same = String::new();
    for (lines, policy, word) in [
        ("mark_mask = 0x003fffff\n", &same, "mark_mask = 0x8307ffff"),
        ("", &behind(0..80), "80 programs behind `from`, at most 64 fit"),
        ("", &groups, "300 control groups"),
        ("", &choices, "33 subjects with qualifiers"),
    ] {
        rig.configure(Side::Alice, lines);
        rig.set_policy(Side::Alice, &format!("{good}{policy}")).unwrap();
        let refused = rig.launch(Side::Alice, &["--take-over"]).unwrap().finish(PATIENCE).unwrap();
        let said = refused.err();
        assert!(!refused.status.success() && said.contains(word), "{said}");
        assert!(!said.contains("handed over and ended"), "{said}");
        let after = rig.json(Side::Alice, &["sa", "list"]).unwrap();
        assert_eq!(sas(&before).len(), sas(&after).len(), "{word}");
    }
}

/// Who is somewhere else, or would get a device that is gone, leaves the other daemon as it is.
#[test]
fn a_take_over_from_another_namespace_or_without_the_tun_leaves_the_other_daemon_its_keys() {
    let python = program("python3");
    let rig = protected_rig("rvl-elsewhere", true, &[&python]).unwrap();
    let before = sas(&rig.json(Side::Alice, &["sa", "list"]).unwrap()).len();
    assert!(before > 0);
    let run =
        Program::new(binary()).args(["run", "--config"]).arg(rig.config_file(Side::Alice)).arg("--take-over");
    let refused = rig.lab.bob().run_program(run, PATIENCE).unwrap();
    assert!(
        !refused.status.success() && refused.err().contains("another network namespace"),
        "{}",
        refused.err()
    );
    assert_eq!(before, sas(&rig.json(Side::Alice, &["sa", "list"]).unwrap()).len());
    // Another mount namespace, where nothing is pinned.
    let line = "mount -t bpf bpf /sys/fs/bpf && exec \"$0\" run --config \"$1\" --take-over";
    let run = Program::new(program("unshare")).args(["-m", "sh", "-c", line]);
    let run = run.arg(binary()).arg(rig.config_file(Side::Alice));
    let said = rig.lab.alice().run_program(run, PATIENCE).unwrap().err();
    assert!(
        said.contains("its kernel half (the pins under /sys/fs/bpf/ravelin) cannot be seen from here"),
        "{said}"
    );
    assert_eq!(before, sas(&rig.json(Side::Alice, &["sa", "list"]).unwrap()).len());
    tests::sites::sh(rig.lab.alice().netns(), "ip link del rvl0").unwrap();
    let refused = rig.launch(Side::Alice, &["--take-over"]).unwrap().finish(PATIENCE).unwrap();
    let said = refused.err();
    assert!(!refused.status.success() && said.contains("without its TUN"), "{said}");
    assert!(!said.contains("handed over and ended"), "{said}");
    assert_eq!(before, sas(&rig.json(Side::Alice, &["sa", "list"]).unwrap()).len());
}
