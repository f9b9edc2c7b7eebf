//! An sshd with keys of its own, and a client that gets through by them.

use lab::{Program, Side};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A key pair, in both directions' roles, and a configuration, in `folder`: the client's key and sshd's file.
///
/// # Panics
/// If they cannot be made.
pub fn files(folder: &Path) -> (PathBuf, PathBuf) {
    std::fs::create_dir_all("/run/sshd").unwrap();
    for name in ["hostkey", "id"] {
        let done = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(folder.join(name))
            .status();
        assert!(done.unwrap().success());
    }
    let config = folder.join("sshd_config");
    let text = format!(
        "HostKey {0}/hostkey\nAuthorizedKeysFile {0}/id.pub\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n\
         PidFile none\nLogLevel VERBOSE\nIPQoS lowdelay throughput\n",
        folder.display()
    );
    std::fs::write(&config, text).unwrap();
    (folder.join("id"), config)
}

/// A session with bob that says `through`, `300000`, and as many octets.
pub fn session(client: &Path, key: &Path, port: u16) -> Program {
    Program::new(client)
        .args(["-F", "none", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"])
        .args(["-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-i"])
        .arg(key)
        .args(["-p", &port.to_string(), &format!("root@{}", Side::Bob.v4())])
        .arg("echo through; head -c 300000 /dev/zero | wc -c; head -c 300000 /dev/zero")
}
