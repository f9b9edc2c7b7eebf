//! Network namespaces, named as iproute2 names them: a bind mount /run/netns/NAME, so that `ip netns` and
//! `nsenter --net=/run/netns/NAME` work on ours. Entered by setns(2), never by `ip netns exec`, which hides cgroups and pins.

use crate::cgroup::Cgroup;
use crate::error::{Error, IoContext, Result, check};
use crate::sockopt;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const HOME: &str = "/run/netns";

/// A network namespace, held open by a descriptor. One that was made by [`Netns::create`] is removed on drop (the
/// kernel keeps it while a process or a socket is in it).
#[derive(Debug)]
pub struct Netns {
    path: PathBuf,
    fd: OwnedFd,
    ours: bool,
}

impl Netns {
    /// A new namespace called `name`, its loopback device up. An existing one of that name is an error; see [`Netns::remove`].
    pub fn create(name: &str) -> Result<Netns> {
        let path = path_of(name)?;
        fs::create_dir_all(HOME).doing(|| format!("making {HOME}"))?;
        File::create_new(&path).doing(|| format!("making the namespace {name}"))?;
        let made = on_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).doing(|| format!("making the namespace {name}"))?;
            let source = Path::new("/proc/thread-self/ns/net");
            mount(Some(source), &path, None::<&str>, MsFlags::MS_BIND, None::<&str>)
                .doing(|| format!("naming the namespace {name}"))?;
            let mut links = crate::link::Links::open()?;
            let loopback = links.index("lo")?;
            links.set_up(loopback, true)
        });
        if let Err(error) = made {
            let _ = remove_path(&path);
            return Err(error);
        }
        let mut namespace = Netns::open(&path)?;
        namespace.ours = true;
        Ok(namespace)
    }

    /// The namespace behind a path such as `/run/netns/NAME` or `/proc/PID/ns/net`. Not removed on drop.
    pub fn open(path: impl Into<PathBuf>) -> Result<Netns> {
        let path = path.into();
        let file = File::open(&path).doing(|| format!("opening the namespace {}", path.display()))?;
        Ok(Netns { path, fd: file.into(), ours: false })
    }

    /// The calling thread's namespace.
    pub fn current() -> Result<Netns> {
        Netns::open("/proc/thread-self/ns/net")
    }

    /// Remove the name `name`, if it is there (left by a crash). Processes inside keep the namespace itself alive.
    pub fn remove(name: &str) -> Result<()> {
        let path = path_of(name)?;
        remove_path(&path).doing(|| format!("removing the namespace {name}"))
    }

    /// Run `work` on a thread of its own in a new namespace that has no name, and answer what it answers; a panic goes on
    /// here. The namespace ends with the last socket or device in it.
    ///
    /// # Errors
    /// The kernel makes no namespace for this process (CAP_SYS_ADMIN; RestrictNamespaces= of a systemd unit); `work` has not
    /// run then.
    pub fn run_apart<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            Ok(work())
        })
    }

    /// The path of the file by which the namespace can be opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Run `work` on a thread of its own inside the namespace and answer what it answers; a panic goes on here. Sockets
    /// and TUN devices that `work` opens belong to the namespace for good.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        on_thread(|| {
            self.enter_thread()?;
            Ok(work())
        })
    }

    /// Move the calling thread in, for good.
    pub fn enter_thread(&self) -> Result<()> {
        setns(&self.fd, CloneFlags::CLONE_NEWNET).doing(|| format!("entering {}", self.path.display()))
    }

    /// Let `command`, once spawned, run inside the namespace and, if given, inside `cgroup`: it is there before its
    /// first instruction, so before its first socket.
    pub fn prepare<'a>(&self, command: &'a mut Command, cgroup: Option<&Cgroup>) -> Result<&'a mut Command> {
        let fd = self.fd.try_clone().doing(|| "duplicating a namespace's descriptor".into())?;
        let door = cgroup.map(Cgroup::door).transpose()?;
        let enter = move || -> io::Result<()> {
            // SAFETY: setns takes no pointer; `fd` is owned by this closure.
            check(unsafe { libc::setns(fd.as_raw_fd(), libc::CLONE_NEWNET) })?;
            match &door {
                Some(door) => (&*door).write_all(b"0"),
                None => Ok(()),
            }
        };
        // SAFETY: between fork and exec the closure only makes the system calls setns and write; it neither
        // allocates nor takes a lock.
        Ok(unsafe { command.pre_exec(enter) })
    }

    /// The kernel's cookie of the namespace (SO_NETNS_COOKIE), as BPF programs see it.
    pub fn cookie(&self) -> Result<u64> {
        self.run(cookie)?
    }
}

/// The cookie of the calling thread's namespace.
pub fn cookie() -> Result<u64> {
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::DGRAM, None);
    let socket = socket.doing(|| "opening a socket".into())?;
    // SAFETY: the option writes a u64 and every pattern is one.
    unsafe { sockopt::get(&socket, libc::SOL_SOCKET, libc::SO_NETNS_COOKIE) }
        .doing(|| "asking for the namespace's cookie".into())
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        if self.ours {
            let _ = remove_path(&self.path);
        }
    }
}

/// Namespaces belong to threads: whoever changes one does it on a thread that ends afterwards.
fn on_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(answer) => answer,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

fn path_of(name: &str) -> Result<PathBuf> {
    if name.is_empty() || name.contains('/') || name == "." || name == ".." {
        return Err(Error::unfit(
            format!("`{name}` cannot name a namespace"),
            "use letters, digits and dashes",
        ));
    }
    Ok(Path::new(HOME).join(name))
}

fn remove_path(path: &Path) -> io::Result<()> {
    // Each mount stacked on the name has to go before the file can; EINVAL: not a mount point (any more).
    while umount2(path, MntFlags::MNT_DETACH).is_ok() {}
    match fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::ResourceBusy => remove_hidden(path),
        other => other,
    }
}

/// Remove a name whose mount is hidden: `ip netns add` mounts /run/netns over itself if it is no mount yet, with copies of what is
/// mounted in it. A name from before is mounted twice then, and the one below cannot be reached by its path. In a mount namespace of our
/// own the upper ones can be taken away; the kernel detaches the mounts of a removed name everywhere.
fn remove_hidden(path: &Path) -> io::Result<()> {
    let work = || -> io::Result<()> {
        unshare(CloneFlags::CLONE_NEWNS)?;
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
        while umount2(HOME, MntFlags::MNT_DETACH).is_ok() {}
        while umount2(path, MntFlags::MNT_DETACH).is_ok() {}
        fs::remove_file(path)
    };
    on_thread(work)
}
