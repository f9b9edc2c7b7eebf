//! The kernel half of a running daemon, damaged from outside: nothing opens, and the daemon puts it right (docs/design/0002).

use std::path::PathBuf;

use lab::rig::{Rig, RigOptions};
use lab::{Program, Side};
use serde_json::Value;
use tests::{PATIENCE, binary, copy_of_python, wait_for};

/// Sends a datagram to a refused address: `sent`, or the error's name.
const SEND: &str = r#"
import errno, socket
try:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("203.0.113.9", 9))
    print("sent")
except OSError as error:
    print(errno.errorcode.get(error.errno, error))
"#;

fn status(rig: &Rig) -> Value {
    // Degraded is exit status 1.
    let out = rig.command(Side::Alice, &["status", "--json"], "").unwrap().out();
    serde_json::from_str(&out).unwrap()
}

#[test]
fn pins_that_somebody_removed_come_back_with_the_policy_in_force() {
    let options =
        RigOptions { name: "rvl-repair".to_owned(), binary: binary(), daemon: None, segmentation: false };
    let mut rig = Rig::build(&options).unwrap();
    let app = copy_of_python(rig.folder(), "app");
    let policy =
        format!("application {:?} {{ network 203.0.113.0/24 untrusted; }}\n", app.display().to_string());
    rig.set_policy(Side::Alice, &policy).unwrap();
    rig.start(Side::Alice).unwrap();
    let send = |rig: &Rig| {
        let done = rig.lab.alice().run_program(Program::new(&app).args(["-c", SEND]), PATIENCE).unwrap();
        done.out().trim().to_owned()
    };
    assert_eq!(send(&rig), "EPERM");
    let generation = status(&rig)["policy"]["generation"].clone();

    let pins = PathBuf::from("/sys/fs/bpf/ravelin").join(rig.instance(Side::Alice));
    std::fs::remove_dir_all(&pins).unwrap();
    assert_eq!(send(&rig), "EPERM", "nothing has looked yet");
    wait_for("the pins", PATIENCE, || {
        let status = status(&rig);
        match status["state"] == "ok" && pins.join("config").exists() {
            true => Ok(()),
            false => Err(status["problems"].to_string()),
        }
    });
    assert_eq!(send(&rig), "EPERM");
    assert_eq!(status(&rig)["policy"]["generation"], generation);
    // They hold without the daemon, and the next one finds them.
    rig.kill(Side::Alice).unwrap();
    assert_eq!(send(&rig), "EPERM");
    rig.start(Side::Alice).unwrap();
    assert_eq!(send(&rig), "EPERM");
}
