//! What the cross-room tests share: a pair of hosts with daemons, the policies they use, and the unmodified programs that
//! run on them.
//!
//! The tests are in `tests/tests/`, one file for each kind of truth. They need root and a kernel with TUN, BPF and
//! network namespaces, and say so if it is missing.

pub mod attacks;
pub mod dns;
pub mod exchange;
mod figures;
pub mod ftp;
pub mod inside;
pub mod kinds;
pub mod line;
pub mod middle;
mod packet_socket;
pub mod programs;
pub mod router;
pub mod sites;
pub mod ssh;
pub mod strongswan;
pub mod systemd;
pub mod verdicts;
pub mod voices;
mod wait;

pub use figures::{counted, monitor, retransmitted};
pub use packet_socket::PacketSocket;
pub use wait::{try_wait_until, wait_for, wait_until};

use std::path::{Path, PathBuf};
use std::time::Duration;

use lab::rig::{Pair, Rig, RigOptions};
use lab::{Program, Running, Side};

/// How long a program may take that has little to do.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The `ravelin` program that was built with these tests. What its commands print with `--json` is compared with the
/// schemas from now on, where a rig runs them.
///
/// # Panics
/// If it is not there.
pub fn binary() -> PathBuf {
    lab::rig::tell(conform::command);
    // target/debug/deps/test-hash -> target/debug/ravelin
    let test = std::env::current_exe().expect("this test has a path");
    let folder = test.parent().and_then(Path::parent).expect("a test is in target/PROFILE/deps");
    let binary = folder.join("ravelin");
    assert!(
        binary.is_file(),
        "{} is missing: build it first (cargo build --package ravelin)",
        binary.display()
    );
    binary
}

/// A program with its links followed, as policy must name it.
///
/// # Panics
/// If it is not installed.
pub fn program(name: &str) -> PathBuf {
    let folders = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];
    let found = folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file());
    let path = found.unwrap_or_else(|| panic!("{name} is not installed; `make deps` installs it"));
    path.canonicalize().expect("an installed program has a path")
}

/// A block that protects everything a program does with the peer, over IPv4 and IPv6.
pub fn protect(program: &Path, peer: Side) -> String {
    format!(
        "application \"{}\" {{\n  network {} protected P;\n  network {} protected P;\n  \
         protection P {{ localport=any remoteport=any encryption mandatory; }}\n}}\n",
        program.display(),
        peer.v4(),
        peer.v6(),
    )
}

/// A folder for the files of one test; goes with this value, also in a panic, for it may hold keys.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Make the folder, with the test's name and the process id in its own.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("ravelin-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for the test's files");
        Scratch(path)
    }
}

impl std::ops::Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The documents of a file of JSON lines that may be written to meanwhile: a line that has not ended yet is left out.
///
/// # Panics
/// If a line is no JSON.
pub fn json_lines(file: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

/// Python as a program with an inode, so a policy, of its own.
///
/// # Panics
/// If it cannot be copied.
pub fn copy_of_python(folder: &Path, name: &str) -> PathBuf {
    let copy = folder.join(name);
    std::fs::copy(program("python3"), &copy).expect("a copy of python3");
    copy
}

/// A [`programs::TCP_SERVER`] on bob, which is ready.
///
/// # Panics
/// If it does not start.
pub fn tcp_server(rig: &Rig, python: &Path, port: u16) -> Running {
    let server = Program::new(python).args(["-c", programs::TCP_SERVER, &port.to_string()]);
    let server = rig.lab.bob().spawn(server).unwrap();
    server.wait_for_output("ready", PATIENCE).unwrap();
    server
}

/// A line of so many octets from alice to that server and back ([`programs::ONE_LINE`]): `same`, and what went wrong.
///
/// # Panics
/// If it takes too long.
pub fn one_line(rig: &Rig, python: &Path, address: &str, port: u16, octets: usize) -> (String, String) {
    let args = ["-c", programs::ONE_LINE, address, &port.to_string(), &octets.to_string()];
    let done = rig.lab.alice().run_program(Program::new(python).args(args), PATIENCE).unwrap();
    (done.out(), done.err())
}

/// A block that protects everything a program does with one IPv4 address.
pub fn protect_network(program: &Path, address: &str) -> String {
    format!(
        "application \"{}\" {{\n  network {address} protected P;\n  protection P {{ localport=any remoteport=any \
         encryption mandatory; }}\n}}\n",
        program.display(),
    )
}

/// Two hosts on which `programs` are protected from each other, with daemons and keys.
///
/// # Errors
/// If it cannot be built.
pub fn protected_rig(name: &str, segmentation: bool, programs: &[&Path]) -> anyhow::Result<Rig> {
    let options = RigOptions { name: name.to_owned(), binary: binary(), daemon: None, segmentation };
    let mut rig = Rig::build(&options)?;
    for (side, peer) in [(Side::Alice, Side::Bob), (Side::Bob, Side::Alice)] {
        let policy: String = programs.iter().map(|program| protect(program, peer)).collect();
        rig.set_policy(side, &policy)?;
    }
    rig.start_both()?;
    associate(&rig)?;
    Ok(rig)
}

/// Fresh keys for IPv4 (transport mode) and IPv6 (tunnel mode).
///
/// # Errors
/// If a daemon refuses.
pub fn associate(rig: &Rig) -> anyhow::Result<()> {
    rig.associate(&Pair::default())?;
    rig.associate(&Pair { v6: true, mode: "tunnel", suite: "chacha20poly1305", ..Pair::default() })
}

/// Take every association away from both daemons: a peer may still have those of one that died.
///
/// # Panics
/// If a daemon refuses.
pub fn forget_keys(rig: &Rig) {
    for side in Side::BOTH {
        let list = rig.json(side, &["sa", "list"]).unwrap();
        for sa in list["sas"].as_array().unwrap() {
            let (spi, direction) = (sa["spi"].as_str().unwrap(), sa["direction"].as_str().unwrap());
            rig.ravelin(side, &["sa", "del", spi, "--direction", direction], "").unwrap();
        }
    }
}
