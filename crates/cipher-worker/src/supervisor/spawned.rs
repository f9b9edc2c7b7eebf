//! The process that starts workers, from the host's side.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use cipher_loader::{Examined, Trial, trial};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

use crate::core::Core;
use crate::message::{Command, LONGEST, Notice, Numbers, VARIABLE};

/// The process that starts workers, from the host's side.
pub(crate) struct Spawner {
    child: Child,
    socket: OwnedFd,
}

impl Spawner {
    /// Start it: the last moment for this is before the process forbids itself to start programs.
    pub(crate) fn start(program: &Trial, examined: &Examined, core: &Core) -> io::Result<Spawner> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let manifest = examined.sealed_manifest()?;
        let none = || io::Error::other("no descriptor");
        let (host, worker) =
            (core.link.host.file().ok_or_else(none)?, core.link.worker.file().ok_or_else(none)?);
        let numbers = Numbers {
            library: examined.library().as_raw_fd(),
            manifest: manifest.as_raw_fd(),
            socket: theirs.as_raw_fd(),
            host: host.as_fd().as_raw_fd(),
            worker: worker.as_fd().as_raw_fd(),
        };
        let mut command = std::process::Command::new(&program.program);
        command.args(&program.arguments).env_clear().env(VARIABLE, numbers.text());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let all = numbers.all();
        // SAFETY: between fork and exec only calls are made that are safe there.
        unsafe { command.pre_exec(move || trial::keep_only(&all)) };
        Ok(Spawner { child: command.spawn()?, socket: ours })
    }

    /// Give it a command.
    pub(super) fn say(&self, command: Command) -> io::Result<()> {
        send(&self.socket, command.octets(), SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The socket, on which it can be waited for.
    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// What it says, if it says anything; an error where it is gone.
    pub(super) fn hear(&self) -> io::Result<Option<Notice>> {
        let mut octets = [0; LONGEST];
        match recv(&self.socket, &mut octets, RecvFlags::DONTWAIT) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Ok((0, _)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => Err(error.into()),
            Ok((len, _)) => {
                let told = Notice::parse(octets.get(..len).unwrap_or_default());
                told.map(Some).ok_or_else(|| io::Error::other("a message that is none"))
            }
        }
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        // It ends the worker and itself then. Where this process may not wait, the system does it later.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        let _ = self.child.wait();
    }
}
