//! The trial of a library: a child process runs it first, where it can open, send and start nothing.
//!
//! The child is this program again, by a command that calls [`child_main`]. It is handed sealed memory with library,
//! manifest and vectors, and a pipe. It gives up capabilities and limits itself; then a filter of system calls is put
//! in force, and only then the library is mapped, so that constructors run under it. The parent reads at most 64 KiB,
//! and ends the child at a deadline. A library that fails, ends the process or asks the kernel for something is named
//! with what it did.

mod any;
mod child;
pub(crate) mod filter;
mod record;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use cipher_manifest::vectors::{Counts, VectorError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::examined::Examined;
use crate::sealed::Sealed;
use crate::shared::SharedLibrary;
use crate::trial_error::TrialError;
use record::{LIBRARY_ORDER, LIBRARY_VARIABLE, MOST, TASK, VARIABLE};

pub use any::{AnyTask, library_child_main};
pub(crate) use child::{Answer, described, short};
pub use child::{Task, child_main, child_main_with};
pub(crate) use record::Record;

/// The time that a trial may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// The command that is started for a process of its own: a trial, or the spawner of workers.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The path of the program.
    pub program: PathBuf,
    /// The arguments with which it comes to [`child_main`], or to the `child_main` of the room that starts it.
    pub arguments: Vec<OsString>,
}

impl Trial {
    /// The program that runs now, with these arguments.
    pub fn own<T: Into<OsString>>(arguments: impl IntoIterator<Item = T>) -> Trial {
        Trial {
            program: PathBuf::from("/proc/self/exe"),
            arguments: arguments.into_iter().map(Into::into).collect(),
        }
    }
}

/// Try a library that was examined.
///
/// # Errors
/// [`TrialError`]: what it did, and during what.
pub fn run(trial: &Trial, examined: &Examined) -> Result<Counts, TrialError> {
    match child(trial, examined, None)? {
        Record::Passed(counts) => Ok(counts),
        _ => Err(TrialError::Answer("the end".to_owned())),
    }
}

/// What a child is to do in place of the trial ([`child_main_with`]).
#[derive(Clone, Debug)]
pub struct Assignment {
    /// The name of the task.
    pub name: String,
    /// Seconds of processor time; five times as many may pass.
    pub seconds: u64,
    /// Other vectors than those that were examined.
    pub vectors: Option<Vec<u8>>,
    /// A program and its arguments that runs the child: one that watches memory. The child is then under no filter, and
    /// what is written to standard error comes back.
    pub wrapper: Vec<OsString>,
}

/// What a task said, and what was written to standard error behind a wrapper.
#[derive(Clone, Debug)]
pub struct Report {
    /// The words of the task, or what ended it.
    pub result: Result<String, TrialError>,
    /// The text of standard error; empty without a wrapper.
    pub errors: String,
}

/// Have a child do this with a library that was examined.
///
/// # Errors
/// [`TrialError::Start`]: there was no child.
pub fn assign(trial: &Trial, examined: &Examined, assignment: &Assignment) -> Result<Report, TrialError> {
    let errors = tempfile().map_err(|error| TrialError::Start(error.to_string()))?;
    let result = match child(trial, examined, Some((assignment, &errors))) {
        Ok(Record::Done(detail)) => Ok(clean(&detail, LONGEST)),
        Ok(_) => Err(TrialError::Answer(assignment.name.clone())),
        Err(start @ TrialError::Start(_)) => return Err(start),
        Err(error) => Err(error),
    };
    let mut text = vec![0; MOST];
    let len = errors.read_at(&mut text, 0).unwrap_or(0);
    Ok(Report { result, errors: String::from_utf8_lossy(text.get(..len).unwrap_or_default()).into_owned() })
}

/// Memory that another program can write to.
fn tempfile() -> io::Result<File> {
    Ok(File::from(rustix::fs::memfd_create("ravelin-errors", rustix::fs::MemfdFlags::CLOEXEC)?))
}

/// Run a child, and read what it says last.
fn child(
    trial: &Trial,
    examined: &Examined,
    task: Option<(&Assignment, &File)>,
) -> Result<Record, TrialError> {
    let started = |error: io::Error| TrialError::Start(error.to_string());
    let text = task.and_then(|(task, _)| task.vectors.as_ref()).unwrap_or(&examined.texts.vectors);
    let manifest = Sealed::new("ravelin-manifest", &examined.texts.manifest).map_err(started)?;
    let vectors = Sealed::new("ravelin-vectors", text).map_err(started)?;
    let (from, to) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| started(error.into()))?;
    let numbers =
        [examined.library.as_fd(), manifest.as_fd(), vectors.as_fd(), to.as_fd()].map(|fd| fd.as_raw_fd());
    let [library, manifest_fd, vectors_fd, answer] = numbers;
    let mut words = task.map(|(task, _)| task.wrapper.clone()).unwrap_or_default();
    words.push(trial.program.clone().into());
    words.extend(trial.arguments.iter().cloned());
    let mut words = words.into_iter();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).env_clear();
    command.env(VARIABLE, format!("{library},{manifest_fd},{vectors_fd},{answer}"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut seconds = DEADLINE.as_secs();
    if let Some((task, errors)) = task {
        let free = !task.wrapper.is_empty();
        seconds = task.seconds.saturating_mul(5);
        command.env(TASK, format!("{},{}{}", task.name, task.seconds, if free { ",free" } else { "" }));
        if free {
            command.stderr(errors.try_clone().map_err(started)?);
        }
    }
    followed(command, numbers, (from, to), seconds)
}

/// Have a child map a library and do its task. It has so many seconds of processor time, and five times as many may
/// pass. `order` is for the task.
///
/// # Errors
/// [`TrialError`]: what the library did that it must not do, or what was wrong with it.
pub fn run_library(
    trial: &Trial,
    library: &SharedLibrary,
    order: &str,
    seconds: u64,
) -> Result<String, TrialError> {
    let started = |error: io::Error| TrialError::Start(error.to_string());
    let (from, to) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| started(error.into()))?;
    let numbers = [library.as_fd(), to.as_fd()].map(|fd| fd.as_raw_fd());
    let [image, answer] = numbers;
    let mut command = Command::new(&trial.program);
    command.args(&trial.arguments).env_clear();
    command.env(LIBRARY_VARIABLE, format!("{image},{answer}"));
    command.env(LIBRARY_ORDER, format!("{seconds},{order}"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match followed(command, numbers, (from, to), seconds.saturating_mul(5))? {
        Record::Done(detail) => Ok(clean(&detail, LONGEST)),
        _ => Err(TrialError::Answer("the end".to_owned())),
    }
}

/// Start the command with these descriptors and no others, and read what it says until it ends.
fn followed<const N: usize>(
    mut command: Command,
    numbers: [i32; N],
    (from, to): (OwnedFd, OwnedFd),
    seconds: u64,
) -> Result<Record, TrialError> {
    let started = |error: io::Error| TrialError::Start(error.to_string());
    // SAFETY: between fork and exec only close_range and fcntl are called, which are safe there.
    unsafe { command.pre_exec(move || inherit(&numbers)) };
    let child = command.spawn().map_err(started)?;
    drop(to);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (text, status) = watch(child, File::from(from), end).map_err(started)?;
    verdict(&text, status, seconds)
}

/// Let the next program have these descriptors, and none of the others that this process has.
fn inherit(numbers: &[i32]) -> io::Result<()> {
    // SAFETY: marking descriptors to be closed at the next program touches no memory.
    if unsafe { libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC as libc::c_int) } != 0 {
        return Err(io::Error::last_os_error());
    }
    for number in numbers {
        // SAFETY: the parent holds these descriptors open while it starts the child.
        let fd = unsafe { BorrowedFd::borrow_raw(*number) };
        rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?;
    }
    Ok(())
}

/// Read what the child says until it ends; `None` for its status: the deadline ended it.
fn watch(mut child: Child, from: File, end: Instant) -> io::Result<(Vec<u8>, Option<ExitStatus>)> {
    let mut text = Vec::new();
    let watched = follow(&child, from, end, &mut text);
    let in_time = matches!(watched, Ok(true));
    if !in_time {
        child.kill()?;
    }
    let status = child.wait()?;
    watched?;
    Ok((text, in_time.then_some(status)))
}

/// Whether the child ended in time.
fn follow(child: &Child, mut from: File, end: Instant, text: &mut Vec<u8>) -> io::Result<bool> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pidfd = pidfd_open(pid.ok_or_else(|| io::Error::other("no pid"))?, PidfdFlags::empty())?;
    let mut open = true;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(0),
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut wait = vec![PollFd::new(&pidfd, PollFlags::IN)];
        if open {
            wait.push(PollFd::new(&from, PollFlags::IN));
        }
        match poll(&mut wait, Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => continue,
            polled => polled?,
        };
        let ready: Vec<bool> = wait.iter().map(|fd| !fd.revents().is_empty()).collect();
        if ready.get(1) == Some(&true) {
            let mut piece = [0; 4096];
            let len = from.read(&mut piece)?;
            text.extend_from_slice(piece.get(..len.min(MOST - text.len())).unwrap_or_default());
            open = len > 0 && text.len() < MOST;
        } else if ready.first() == Some(&true) {
            return Ok(true);
        }
    }
}

/// Characters of a reason that are repeated.
const LONGEST: usize = 1024;

/// A text of the child for people. A library can write to the pipe itself, so nothing in it moves a cursor or begins a
/// line.
fn clean(text: &str, most: usize) -> String {
    text.chars().filter(|c| !c.is_control()).take(most).collect()
}

/// What the child's lines and its end mean. What it says last counts.
fn verdict(text: &[u8], status: Option<ExitStatus>, seconds: u64) -> Result<Record, TrialError> {
    let mut stage = "the start".to_owned();
    let mut last = None;
    for line in text.split(|octet| *octet == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line) {
            Ok(Record::Stage(next)) => stage = clean(&next, 40),
            Ok(record) => last = Some(record),
            Err(_) => return Err(TrialError::Answer(stage)),
        }
    }
    let Some(status) = status else { return Err(TrialError::Deadline { stage, seconds }) };
    let ended = |stage: String| match (status.signal(), status.code()) {
        (Some(signal), _) => TrialError::Signal { stage, signal, place: None },
        (None, code) => TrialError::Exit { stage, status: code.unwrap_or(-1) },
    };
    match last {
        Some(last @ (Record::Passed(_) | Record::Done(_))) if status.success() => Ok(last),
        Some(Record::Refused(call)) => Err(TrialError::Refused { stage, call }),
        Some(Record::Fault { signal, place }) => {
            Err(TrialError::Signal { stage, signal, place: Some(place) })
        }
        Some(Record::System(why)) => Err(TrialError::Start(clean(&why, LONGEST))),
        Some(Record::Description(why)) => Err(TrialError::Description(clean(&why, LONGEST))),
        Some(Record::Vector { tc_id, why }) => {
            Err(TrialError::Vector(VectorError { tc_id, why: clean(&why, LONGEST), no_answer: false }))
        }
        Some(Record::Check { check, why }) => {
            Err(TrialError::Check { check: clean(&check, 40), why: clean(&why, LONGEST) })
        }
        _ => Err(ended(stage)),
    }
}

/// What ended a process that [`crate::confined::load`] confined: what it wrote to its pipe, of which 64 KiB count, and
/// how it ended.
pub fn explain(text: &[u8], status: ExitStatus) -> TrialError {
    match verdict(text.get(..MOST).unwrap_or(text), Some(status), 0) {
        Err(why) => why,
        // It claims to have passed a trial, which nobody asked for.
        Ok(_) => TrialError::Exit { stage: "packets".to_owned(), status: status.code().unwrap_or(-1) },
    }
}

/// Let the next program have these descriptors, and none of the others that this process has. Only for the time between
/// fork and exec.
///
/// # Errors
/// A descriptor is not open.
pub fn keep_only(numbers: &[i32]) -> io::Result<()> {
    inherit(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A status as `wait` gives it: the exit status in the second octet, or a signal in the first.
    fn status(raw: i32) -> Option<ExitStatus> {
        Some(ExitStatus::from_raw(raw))
    }

    #[test]
    fn only_a_pass_and_a_good_end_together_are_a_pass() {
        let passed = b"{\"stage\":\"vectors\"}\n{\"passed\":{\"block\":100,\"ctr\":0,\"cbc\":0,\"gcm\":0,\
            \"stream\":0,\"aead\":0,\"invalid\":0}}\n";
        assert!(matches!(verdict(passed, status(0), 5), Ok(Record::Passed(counts)) if counts.block == 100));
        let exit = TrialError::Exit { stage: "vectors".to_owned(), status: 3 };
        assert_eq!(verdict(passed, status(3 << 8), 5), Err(exit));
        assert_eq!(
            verdict(passed, None, 5),
            Err(TrialError::Deadline { stage: "vectors".to_owned(), seconds: 5 })
        );
        let signal = TrialError::Signal { stage: "vectors".to_owned(), signal: 11, place: None };
        assert_eq!(verdict(passed, status(11), 5), Err(signal));
        let exit = TrialError::Exit { stage: "the start".to_owned(), status: 0 };
        assert_eq!(verdict(b"", status(0), 5), Err(exit));
        let escape = b"{\"description\":\"\\u001b[2J\\nravelin: loaded\"}\n";
        assert_eq!(
            verdict(escape, status(0), 5),
            Err(TrialError::Description("[2Jravelin: loaded".to_owned()))
        );
        let more = [passed.as_slice(), b"garbage"].concat();
        assert_eq!(verdict(&more, status(0), 5), Err(TrialError::Answer("vectors".to_owned())));
    }
}
