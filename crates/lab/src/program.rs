//! Unmodified programs, run on a host of the lab with their output kept.

use netio::cgroup::Cgroup;
use netio::netns::Netns;
use netio::poll;
use netio::{Error, IoContext, Result, check};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Output that is kept of one stream; what is behind it is read and forgotten, so that the program never blocks.
const KEEP: usize = 16 << 20;

/// How long the pipes of an ended program are read on: a child of it may hold them, and its output is not awaited.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A program to run.
#[derive(Debug)]
pub struct Program {
    command: Command,
    name: String,
    input: Option<Vec<u8>>,
    cgroup: Option<String>,
    log: Option<PathBuf>,
}

impl Program {
    /// A program by name or path.
    pub fn new(program: impl AsRef<OsStr>) -> Program {
        let name = program.as_ref().to_string_lossy().into_owned();
        Program { command: Command::new(program), name, input: None, cgroup: None, log: None }
    }

    /// Append an argument to the command line.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Program {
        self.command.arg(arg);
        self
    }

    /// Append several arguments to the command line.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Program {
        self.command.args(args);
        self
    }

    /// Set a variable of its environment.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Program {
        self.command.env(name, value);
        self
    }

    /// Start it in this folder.
    pub fn directory(mut self, path: impl AsRef<Path>) -> Program {
        self.command.current_dir(path);
        self
    }

    /// Give it this on its standard input (else that is empty).
    pub fn input(mut self, octets: impl Into<Vec<u8>>) -> Program {
        self.input = Some(octets.into());
        self
    }

    /// Run it in this cgroup below the host's, made if need be, instead of in the host's own.
    pub fn in_cgroup(mut self, name: &str) -> Program {
        self.cgroup = Some(name.to_owned());
        self
    }

    /// Write both streams to this file instead of keeping them here, so that the program can outlive this process.
    pub fn log_to(mut self, path: impl Into<PathBuf>) -> Program {
        self.log = Some(path.into());
        self
    }

    pub(crate) fn spawn(mut self, netns: &Netns, host: &Cgroup) -> Result<Running> {
        let cgroup = match &self.cgroup {
            Some(name) => Cgroup::create(host.path(), name)?,
            None => host.clone(),
        };
        let what = || format!("starting {}", self.name);
        let stdin = if self.input.is_some() { Stdio::piped() } else { Stdio::null() };
        netns.prepare(&mut self.command, Some(&cgroup))?;
        let [stdout, stderr] = self.streams()?;
        let mut child = self.command.stdin(stdin).stdout(stdout).stderr(stderr).spawn().doing(what)?;
        let pid = child.id();
        // SAFETY: pidfd_open takes no pointer; the child is ours and not yet waited for, so the id is its.
        let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let pidfd = check(raw as libc::c_int).map(|fd| {
            // SAFETY: the descriptor was just made and nobody else owns it.
            unsafe { OwnedFd::from_raw_fd(fd) }
        });
        if let (Some(octets), Some(mut pipe)) = (self.input.take(), child.stdin.take()) {
            // A program may end without reading its input: a broken pipe is its right.
            std::thread::spawn(move || drop(pipe.write_all(&octets)));
        }
        let out = Arc::new(KeptOutput::default());
        let err = Arc::new(KeptOutput::default());
        if let Some(pipe) = child.stdout.take() {
            keep(pipe, &out);
        }
        if let Some(pipe) = child.stderr.take() {
            keep(pipe, &err);
        }
        let (name, log) = (self.name.clone(), self.log.take());
        let mut running = Running { child, pidfd: None, name, out, err, log, status: None };
        // From here on a failure kills the child by dropping `running`.
        running.pidfd = Some(pidfd.doing(what)?);
        Ok(running)
    }

    fn streams(&self) -> Result<[Stdio; 2]> {
        let Some(path) = &self.log else { return Ok([Stdio::piped(), Stdio::piped()]) };
        let open = || -> io::Result<[Stdio; 2]> {
            let file = File::options().create(true).append(true).open(path)?;
            Ok([file.try_clone()?.into(), file.into()])
        };
        open().doing(|| format!("opening {}", path.display()))
    }
}

/// A program that runs. Dropping it kills it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    pidfd: Option<OwnedFd>,
    name: String,
    out: Arc<KeptOutput>,
    err: Arc<KeptOutput>,
    log: Option<PathBuf>,
    status: Option<ExitStatus>,
}

/// A program that has ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The exit status of the program.
    pub status: ExitStatus,
    /// Octets that the program wrote to standard output.
    pub stdout: Vec<u8>,
    /// Octets that the program wrote to standard error.
    pub stderr: Vec<u8>,
}

impl Finished {
    /// Standard output as text.
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

impl Running {
    /// The process id of the program.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The name of the program, as it was given to [`Program::new`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Everything it printed up to now, errors last (in the order of printing, if it goes to a file).
    pub fn output(&self) -> String {
        if let Some(octets) = self.logged() {
            return String::from_utf8_lossy(&octets).into_owned();
        }
        // What a program printed last is still in the pipes when it has ended.
        let patience = if self.status.is_some() { LAST_WORDS } else { Duration::ZERO };
        let (out, err) = (self.out.all(patience), self.err.all(patience));
        format!("{}{}", String::from_utf8_lossy(&out), String::from_utf8_lossy(&err))
    }

    /// Wait until it printed a line that has `text` in it, to its end, on either stream; an error if the program ends or
    /// `patience` does before that. A line may arrive in parts (`python3 -u` writes a word and its end of line one after
    /// the other): whoever acts on the first part finds the rest of it missing, or stops the program between the two.
    pub fn wait_for_output(&self, text: &str, patience: Duration) -> Result<()> {
        let deadline = netio::clock::monotonic() + patience;
        let slice = Duration::from_millis(50);
        while !self.has_printed(text) {
            let ended = self.log.is_none() && self.out.lock().ended && self.err.lock().ended;
            // What came between the first look and the end is looked at once more.
            if (ended && !self.has_printed(text)) || netio::clock::monotonic() >= deadline {
                return Err(Error::unfit(
                    format!("{} did not print a line with `{text}`: {}", self.name, self.output()),
                    "see what it printed",
                ));
            }
            // The other stream may be the one that says it: look at it again after a slice.
            let state = self.err.lock();
            drop(self.err.changed.wait_timeout(state, slice).unwrap_or_else(PoisonError::into_inner));
        }
        Ok(())
    }

    fn has_printed(&self, text: &str) -> bool {
        if let Some(octets) = self.logged() {
            return has_line(&octets, false, text);
        }
        [&self.out, &self.err].into_iter().any(|stream| {
            let state = stream.lock();
            has_line(&state.octets, state.ended, text)
        })
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> Result<bool> {
        if self.status.is_none() {
            self.status = self.child.try_wait().doing(|| format!("looking after {}", self.name))?;
        }
        Ok(self.status.is_some())
    }

    /// Send it a signal.
    pub fn signal(&self, signal: libc::c_int) -> Result<()> {
        let Some(pidfd) = &self.pidfd else { return Ok(()) };
        let none = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: pidfd_send_signal with a null siginfo; the descriptor is ours.
        let answer =
            unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, none, 0) };
        check(answer as libc::c_int).map(drop).doing(|| format!("sending signal {signal} to {}", self.name))
    }

    /// Kill it (SIGKILL) and wait for its end.
    pub fn kill(mut self) -> Result<Finished> {
        // It may have ended by itself.
        let _ = self.child.kill();
        self.finish(Duration::from_secs(10))
    }

    /// Wait for its end, at most `patience`; then it is killed and that is an error.
    pub fn finish(mut self, patience: Duration) -> Result<Finished> {
        let deadline = netio::clock::monotonic() + patience;
        while !self.has_ended()? {
            let left = deadline.since(netio::clock::monotonic());
            if left.is_zero() {
                return Err(Error::unfit(
                    format!("{} did not end within {patience:?}: {}", self.name, self.output()),
                    "see what it printed",
                ));
            }
            if let Some(pidfd) = &self.pidfd {
                poll::readable([pidfd.as_fd()], Some(left)).doing(|| format!("waiting for {}", self.name))?;
            }
        }
        let ended = || Error::unfit(format!("{} has no status", self.name), "run it again");
        let status = self.status.ok_or_else(ended)?;
        let stdout = self.logged().unwrap_or_else(|| self.out.all(LAST_WORDS));
        Ok(Finished {
            status,
            stdout,
            stderr: if self.log.is_some() { Vec::new() } else { self.err.all(LAST_WORDS) },
        })
    }

    /// Let it go on when this process ends. Only a program that writes to a file ([`Program::log_to`]) survives that unharmed.
    pub fn leave(self) {
        std::mem::forget(self);
    }

    fn logged(&self) -> Option<Vec<u8>> {
        let file = File::open(self.log.as_ref()?).ok()?;
        let mut octets = Vec::new();
        file.take(KEEP as u64).read_to_end(&mut octets).ok()?;
        Some(octets)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.status.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Output of one stream.
#[derive(Debug, Default)]
struct KeptOutput {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    octets: Vec<u8>,
    ended: bool,
}

impl KeptOutput {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything, once the stream has ended (or `patience` has).
    fn all(&self, patience: Duration) -> Vec<u8> {
        let waited = self.changed.wait_timeout_while(self.lock(), patience, |state| !state.ended);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.octets.clone()
    }
}

/// Whether `text` is in `octets`, and the line in which it ends is complete: by its end of line, or because the stream
/// has `ended`.
fn has_line(octets: &[u8], ended: bool, text: &str) -> bool {
    let printed = String::from_utf8_lossy(octets);
    let Some(start) = printed.find(text) else { return false };
    ended || text.ends_with('\n') || printed[start + text.len()..].contains('\n')
}

/// Read a stream until it ends: with the program, or with the last of its children that holds it.
fn keep(mut pipe: impl Read + Send + 'static, kept: &Arc<KeptOutput>) {
    let kept = Arc::clone(kept);
    std::thread::spawn(move || {
        let mut chunk = vec![0; 64 * 1024];
        loop {
            let read = match pipe.read(&mut chunk) {
                Ok(n) if n > 0 => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                _ => break,
            };
            let mut state = kept.lock();
            let room = KEEP.saturating_sub(state.octets.len()).min(read);
            state.octets.extend_from_slice(&chunk[..room]);
            kept.changed.notify_all();
        }
        kept.lock().ended = true;
        kept.changed.notify_all();
    });
}

#[cfg(test)]
mod tests {
    use super::has_line;

    #[test]
    fn a_line_counts_when_it_is_complete() {
        assert!(!has_line(b"first\nready", false, "ready"), "its end is still to come");
        assert!(!has_line(b"first\nread", true, "ready"));
        assert!(has_line(b"first\nready", true, "ready"), "nothing follows any more");
        assert!(has_line(b"first\nready on 7\n", false, "ready"));
        assert!(has_line(b"first\n", false, "\n"));
        assert!(has_line(b"1\n2\n", false, "1\n2"));
    }
}
