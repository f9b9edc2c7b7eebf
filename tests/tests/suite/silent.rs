//! A file system that never answers, mounted over the directory of a program that policy names: the daemon goes on, and a daemon that
//! starts then starts. Needs root.

use std::path::{Path, PathBuf};
use std::process::Command;

use netio::lab::{Program, Running, Side};
use ravelin::rig::{Rig, RigOptions};
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

struct Silent {
    _server: Running,
    folder: PathBuf,
}

impl Silent {
    fn mount(rig: &Rig, folder: &Path) -> Silent {
        let args = ["-c", SILENT, &folder.display().to_string()];
        let server = rig.lab.alice().spawn(Program::new(program("python3")).args(args)).unwrap();
        server.wait_for_output("mounted", PATIENCE).unwrap();
        Silent { _server: server, folder: folder.to_owned() }
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
    let _silent = Silent::mount(&rig, &folder);
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
