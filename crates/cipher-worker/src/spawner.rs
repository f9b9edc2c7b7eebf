//! The process that starts workers, and the first steps of a worker.
//!
//! The daemon forbids itself to start programs soon after its own start. So this process is started before, holds the
//! sealed library and the shared memories, and forks: each worker is a copy of it, which gives up what is left and maps
//! the library. It runs no code of the library, has no capability, and ends where its socket is closed.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use cipher_loader::confined::{self, Handed};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, Resource, Rlimit, Signal, pidfd_open, setrlimit};
use rustix::thread::CapabilitySet;

use crate::layout;
use crate::memory::Memory;
use crate::message::{Command, LONGEST, Notice, Numbers, VARIABLE};
use crate::serve;

/// Octets of address space that a worker may have beside the shared memories and its keys.
const MEMORY: usize = 256 << 20;
/// Octets of address space that a key may have: the longest context and the guard pages around it.
const KEY: usize = (64 + 16) << 10;
/// How much sooner than others a worker is ended where the machine has no memory left (proc_pid_oom_score_adj(5)).
const OOM_SCORE: i32 = 500;
/// The exit status of a worker whose reason is on its pipe.
const REASON: i32 = 98;

/// The side of the spawner: the hidden command calls it first thing, before it starts threads. It ends the process.
pub fn child_main() -> ! {
    static ONCE: AtomicBool = AtomicBool::new(false);
    let numbers = std::env::var(VARIABLE).ok().and_then(|text| Numbers::parse(&text));
    let status = match numbers {
        // Twice would take descriptors that somebody else has by now.
        Some(numbers) if !ONCE.swap(true, Ordering::SeqCst) => {
            // SAFETY: the parent handed these descriptors over by number, and nothing else here knows of them.
            let fds = numbers.all().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
            let [library, manifest, socket, host, worker] = fds;
            let spawner = Spawner { library, manifest, socket, host, worker };
            i32::from(spawner.run().is_err())
        }
        _ => 2,
    };
    // SAFETY: the process ends here; nothing is registered for its end.
    unsafe { libc::_exit(status) }
}

struct Spawner {
    library: OwnedFd,
    manifest: OwnedFd,
    socket: OwnedFd,
    host: OwnedFd,
    worker: OwnedFd,
}

/// A worker that runs.
struct Running {
    pid: Pid,
    pidfd: OwnedFd,
    answer: OwnedFd,
}

impl Spawner {
    /// Start and end workers until the host is gone.
    fn run(&self) -> io::Result<()> {
        give_up()?;
        loop {
            match self.command()? {
                None => return Ok(()),
                Some(Command::Kill) => {}
                Some(Command::Start) => match self.start() {
                    Ok(running) => {
                        self.tell(&Notice::Started(running.pid.as_raw_pid().cast_unsigned()))?;
                        let (told, host) = self.watch(running)?;
                        if !host {
                            return Ok(());
                        }
                        self.tell(&told)?;
                    }
                    Err(error) => self.tell(&Notice::Failed(error.raw_os_error().unwrap_or(0)))?,
                },
            }
        }
    }

    /// The next command; `None` where the host is gone.
    fn command(&self) -> io::Result<Option<Command>> {
        loop {
            let mut octets = [0; 16];
            match recv(&self.socket, &mut octets, RecvFlags::empty()) {
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::CONNRESET) | Ok((0, _)) => return Ok(None),
                Err(error) => return Err(error.into()),
                Ok((len, _)) => {
                    let command = Command::parse(octets.get(..len).unwrap_or_default());
                    return command.map(Some).ok_or_else(|| io::Error::other("a command that is none"));
                }
            }
        }
    }

    fn tell(&self, told: &Notice) -> io::Result<()> {
        send(&self.socket, &told.octets(), SendFlags::NOSIGNAL)?;
        Ok(())
    }

    fn start(&self) -> io::Result<Running> {
        // A library that fills the pipe fails and does not wait.
        let (from, to) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let own = rustix::process::getpid();
        // SAFETY: this process has one thread, so a copy of it can go on. (A test program may have a second one, which
        // sleeps.)
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(from);
                let status = self.become_worker(own, to);
                // SAFETY: the process ends here, without what the library registered for its end.
                unsafe { libc::_exit(status) }
            }
            pid => {
                let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("no process id"))?;
                let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
                Ok(Running { pid, pidfd, answer: from })
            }
        }
    }

    /// Wait for the end of a worker, and end it where the host says so or is gone. Whether the host is there.
    fn watch(&self, running: Running) -> io::Result<(Notice, bool)> {
        let mut here = true;
        loop {
            let mut fds =
                [PollFd::new(&running.pidfd, PollFlags::IN), PollFd::new(&self.socket, PollFlags::IN)];
            let watched = if here { fds.as_mut_slice() } else { fds.get_mut(..1).unwrap_or_default() };
            match poll(watched, None) {
                Err(rustix::io::Errno::INTR) => continue,
                polled => polled?,
            };
            let [ended, asked] = fds.each_ref().map(|fd| !fd.revents().is_empty());
            if ended {
                break;
            }
            if asked && here {
                here = self.command()?.is_some();
                // One command makes sense while a worker runs.
                rustix::process::kill_process(running.pid, Signal::KILL)?;
            }
        }
        let mut status = 0;
        // SAFETY: the status is written to this variable, and the child is this process's own.
        let pid = unsafe { libc::waitpid(running.pid.as_raw_pid(), &raw mut status, 0) };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut text = vec![0; LONGEST - 5];
        let len = rustix::io::read(&running.answer, &mut text).unwrap_or(0);
        text.truncate(len);
        Ok((Notice::Ended(status, text), here))
    }

    /// From the fork to the library. The result is an exit status.
    fn become_worker(&self, parent: Pid, answer: OwnedFd) -> i32 {
        let (host, worker) = match self.memories(parent) {
            // Unmapping them would need calls that the filter refuses.
            Ok((host, worker)) => (ManuallyDrop::new(host), ManuallyDrop::new(worker)),
            Err(error) => {
                confined::tell(answer, &error);
                return REASON;
            }
        };
        let copies = self.library.try_clone().and_then(|library| Ok((library, self.manifest.try_clone()?)));
        let (library, manifest) = match copies {
            Ok(copies) => copies,
            Err(error) => {
                confined::tell(answer, &error);
                return REASON;
            }
        };
        // The last that could reach anybody else.
        for fd in [&self.library, &self.manifest, &self.socket, &self.host, &self.worker] {
            // SAFETY: this process is the copy that uses none of them; the values are never dropped.
            unsafe { libc::close(fd.as_raw_fd()) };
        }
        let octets = MEMORY + KEY * self.keys(&host) + host.len() + worker.len();
        let handed = Handed { library, manifest, answer };
        let Ok(cipher) = confined::load(handed, u64::try_from(octets).unwrap_or(u64::MAX)) else {
            return REASON;
        };
        // Nobody says stop: the worker is ended.
        let done = serve::serve(&cipher, &host, &worker, &AtomicBool::new(false));
        std::mem::forget(cipher);
        i32::from(done.is_err())
    }

    /// The number of keys that the host wants room for.
    fn keys(&self, host: &Memory) -> usize {
        let keys = host.word(layout::host::KEYS).map_or(0, |word| word.load(Ordering::Relaxed));
        (keys as usize).min(layout::MOST_KEYS)
    }

    /// The shared memories in this process, which dies with its parent from here on.
    fn memories(&self, parent: Pid) -> io::Result<(Memory, Memory)> {
        die_first();
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // A parent that ended before the line above sent no signal.
        if rustix::process::getppid() != Some(parent) {
            return Err(io::Error::other("the process that starts workers is gone"));
        }
        // Under a limit some later mapping would fail. Contexts are locked by themselves, and what is shared by the host.
        if rustix::process::getrlimit(Resource::Memlock).current.is_none() {
            // SAFETY: locking the memory of this process changes nothing in it.
            let locked = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) };
            if locked != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        let open = |fd: &OwnedFd, writable| {
            let len = usize::try_from(rustix::fs::fstat(fd)?.st_size).map_err(io::Error::other)?;
            Memory::open(fd.try_clone()?, len, writable)
        };
        Ok((open(&self.host, false)?, open(&self.worker, true)?))
    }
}

/// Be ended before others where the machine has no memory left. The process that starts workers stays as it is, since
/// nobody replaces it.
fn die_first() {
    const FILE: &str = "/proc/self/oom_score_adj";
    let now = std::fs::read_to_string(FILE).ok().and_then(|text| text.trim().parse::<i32>().ok());
    if now.is_none_or(|now| now < OOM_SCORE) {
        // Where there is no such file the kernel's own order holds.
        let _ = std::fs::write(FILE, OOM_SCORE.to_string());
    }
}

/// Keep what starting workers needs.
fn give_up() -> io::Result<()> {
    // Signals to the daemon's group are for the daemon; this process ends with it.
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGPIPE] {
        // SAFETY: ignoring a signal runs no code.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // Workers lock what they have; without the right to it the limit counts as it is.
    let _ = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    let sets = rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets)?;
    rustix::thread::set_no_new_privs(true)?;
    Ok(())
}
