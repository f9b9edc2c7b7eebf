//! A file system that never answers, mounted over the directory of a program that policy names: the daemon goes on, and a daemon that
//! starts then starts. Needs root.

use std::path::{Path, PathBuf};
use std::process::Command;

use lab::rig::{Rig, RigOptions};
use lab::{Program, Running, Side};
use tests::{PATIENCE, binary, copy_of_python, program, protect};

/// Mounts a file system whose server reads no request (folder), says `mounted`, and stays.
const SILENT: &str = r#"
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
folder = sys.argv[1].encode()
server = os.open("/dev/fuse", os.O_RDWR)
options = b"fd=%d,rootmode=40000,user_id=0,group_id=0" % server
if libc.mount(b"silent", folder, b"fuse", 0, options) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
print("mounted", flush=True)
time.sleep(3600)
"#;

/// Mounts a file system (folder) with one program in it, `app`, and serves it until SIGUSR1: from then on no request is read.
const DYING: &str = r#"
import ctypes, os, signal, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
folder = sys.argv[1].encode()
server = os.open("/dev/fuse", os.O_RDWR)
options = b"fd=%d,rootmode=40000,user_id=0,group_id=0" % server
if libc.mount(b"dying", folder, b"fuse", 0, options) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
def dies(*_):
    print("silent", flush=True)
    time.sleep(3600)
signal.signal(signal.SIGUSR1, dies)
print("mounted", flush=True)
def attributes(node):
    mode, size = (0o040755, 0) if node == 1 else (0o100755, 4)
    return struct.pack("=6Q10I", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
while True:
    request = os.read(server, 1 << 20)
    _, opcode, unique, node = struct.unpack_from("=IIQQ", request)
    error, body = 0, b""
    if opcode == 26:  # INIT, in version 7.31
        body = struct.pack("=IIIIHHIIHHI7I", 7, 31, 0, 0, 0, 0, 65536, 1, 0, 0, 0, *[0] * 7)
    elif opcode == 1:  # LOOKUP
        if request[40:].rstrip(b"\0") == b"app":
            body = struct.pack("=4QII", 2, 0, 0, 0, 0, 0) + attributes(2)
        else:
            error = -2
    elif opcode == 3:  # GETATTR
        body = struct.pack("=QII", 0, 0, 0) + attributes(node)
    elif opcode == 14:  # OPEN
        body = struct.pack("=QII", 0, 0, 0)
    elif opcode == 15:  # READ
        body = b"\x7fELF"
    elif opcode in (2, 42):  # FORGET, BATCH_FORGET: no answer
        continue
    elif opcode not in (18, 25):  # RELEASE, FLUSH
        error = -38
    os.write(server, struct.pack("=IiQ", 16 + len(body), error, unique) + body)
"#;

struct Silent {
    server: Running,
    folder: PathBuf,
}

impl Silent {
    fn mount(rig: &Rig, script: &str, folder: &Path) -> Silent {
        let args = ["-c", script, &folder.display().to_string()];
        let server = rig.lab.alice().spawn(Program::new(program("python3")).args(args)).unwrap();
        server.wait_for_output("mounted", PATIENCE).unwrap();
        Silent { server, folder: folder.to_owned() }
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        let _ = Command::new(program("umount")).arg("--lazy").arg(&self.folder).status();
    }
}

#[test]
fn a_daemon_answers_reloads_and_starts_while_the_directory_of_a_named_program_does_not_answer() {
    let options =
        RigOptions { name: "rvl-silent".to_owned(), binary: binary(), daemon: None, segmentation: false };
    let mut rig = Rig::build(&options).unwrap();
    let folder = rig.folder().join("u");
    std::fs::create_dir(&folder).unwrap();
    let [there, away] = [rig.folder(), &folder].map(|folder| copy_of_python(folder, "app"));
    let policy = format!("{}{}", protect(&there, Side::Bob), protect(&away, Side::Bob));
    rig.set_policy(Side::Alice, &policy).unwrap();
    rig.start(Side::Alice).unwrap();
    let _silent = Silent::mount(&rig, SILENT, &folder);
    for _ in 0..2 {
        // Nobody knows now whether the file is there, so it is not called missing.
        let status = rig.json(Side::Alice, &["status"]).unwrap();
        assert!(status["policy"]["missing"].as_array().is_none_or(Vec::is_empty), "{status}");
        rig.reload(Side::Alice).unwrap();
        // Another daemon starts behind one that was killed.
        rig.kill(Side::Alice).unwrap();
        rig.start(Side::Alice).unwrap();
    }
}

/// A mount that answered while the policy was loaded and then dies: what the daemon holds open there does not answer either.
#[test]
fn a_daemon_answers_and_starts_when_the_mount_of_a_named_program_dies_later() {
    let options =
        RigOptions { name: "rvl-dying".to_owned(), binary: binary(), daemon: None, segmentation: false };
    let mut rig = Rig::build(&options).unwrap();
    let folder = rig.folder().join("u");
    std::fs::create_dir(&folder).unwrap();
    let there = copy_of_python(rig.folder(), "app");
    let mount = Silent::mount(&rig, DYING, &folder);
    let policy = format!("{}{}", protect(&there, Side::Bob), protect(&folder.join("app"), Side::Bob));
    rig.set_policy(Side::Alice, &policy).unwrap();
    rig.start(Side::Alice).unwrap();
    let status = rig.json(Side::Alice, &["status"]).unwrap();
    assert!(status["policy"]["missing"].as_array().is_none_or(Vec::is_empty), "it is there: {status}");
    mount.server.signal(libc::SIGUSR1).unwrap();
    mount.server.wait_for_output("silent", PATIENCE).unwrap();
    for _ in 0..4 {
        // The daemon looks every five seconds.
        std::thread::sleep(std::time::Duration::from_secs(2));
        rig.json(Side::Alice, &["status"]).unwrap();
    }
    rig.kill(Side::Alice).unwrap();
    rig.start(Side::Alice).unwrap();
    rig.json(Side::Alice, &["status"]).unwrap();
}
