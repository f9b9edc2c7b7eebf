//! The parent's side of each check: the child that is started, the reference that is asked, the program that watches
//! memory.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cipher_loader::trial::{self, Assignment, Trial};
use cipher_loader::{Examined, LoadError, TrialError};
use cipher_manifest::{Manifest, Vectors};

use crate::calls::Verdict;
use crate::name::{CheckName, REFERENCE};
use crate::options::Options;

/// The program beside a manifest that computes the same in Python.
const REFERENCE_FILE: &str = "reference.py";
/// The tests that it is asked for, from a seed that the vector file does not have.
const REFERENCE_ARGUMENTS: [&str; 3] = ["vectors", "--seed", "agreement"];
/// Seconds of processor time of what only loads the library.
const SECONDS_TO_LOAD: u64 = 2;
/// The time that a reference has.
const REFERENCE_TIME: Duration = Duration::from_secs(120);
/// Octets of its standard error that are read.
const MOST_ERRORS: usize = 64 * 1024;
/// The exit status of the program that watches memory if it saw a fault.
const SEEN: i32 = 77;

/// A cipher, and how its children are started.
pub(crate) struct Parent<'a> {
    examined: &'a Examined,
    trial: &'a Trial,
    manifest: &'a Path,
    /// Seconds of processor time of a check.
    seconds: u64,
    /// Whether the library has asked the kernel for something, in any child.
    refused: AtomicBool,
    /// Whether a child did not end in time.
    endless: AtomicBool,
}

/// The check that a fault of the files belongs to.
pub(crate) fn classify(error: &LoadError, manifest: &Manifest) -> CheckName {
    let file = match error {
        LoadError::File { path: file, .. }
        | LoadError::Digest { file, .. }
        | LoadError::Document { file, .. } => file,
        _ => return CheckName::Descriptor,
    };
    let is_vectors = file.file_name().is_some_and(|name| name == manifest.vectors.file.as_str());
    if is_vectors { CheckName::Vectors } else { CheckName::Descriptor }
}

impl<'a> Parent<'a> {
    pub(crate) fn new(examined: &'a Examined, options: &'a Options) -> Parent<'a> {
        let Options { trial, manifest, seconds, without: _ } = options;
        let (refused, endless) = (AtomicBool::new(false), AtomicBool::new(false));
        Parent { examined, trial, manifest, seconds: *seconds, refused, endless }
    }
}

impl Parent<'_> {
    /// Run one check of the cipher.
    pub(crate) fn run(&self, check: CheckName) -> Verdict {
        match check {
            // Each further one would take as long.
            _ if self.endless.load(Ordering::Relaxed) => {
                Err("not run, because another check did not end in time".to_owned())
            }
            CheckName::Memory => self.memory(),
            CheckName::Agreement => self.agreement(),
            CheckName::Descriptor => self.child(check.word(), SECONDS_TO_LOAD, None),
            _ => self.child(check.word(), self.seconds, None),
        }
    }

    fn child(&self, name: &str, seconds: u64, vectors: Option<Vec<u8>>) -> Verdict {
        let assignment = Assignment { name: name.to_owned(), seconds, vectors, wrapper: Vec::new() };
        let report =
            trial::assign(self.trial, self.examined, &assignment).map_err(|error| error.to_string())?;
        report.result.map_err(|error| {
            self.refused.fetch_or(matches!(error, TrialError::Refused { .. }), Ordering::Relaxed);
            self.endless.fetch_or(error.is_time(), Ordering::Relaxed);
            said(&error)
        })
    }

    /// With the reference beside the manifest, if there is one.
    fn agreement(&self) -> Verdict {
        let reference = self.manifest.with_file_name(REFERENCE_FILE);
        match std::fs::symlink_metadata(&reference) {
            Err(_) => self.child(CheckName::Agreement.word(), self.seconds, None),
            Ok(_) => {
                let text = ask(&reference).map_err(|why| format!("{REFERENCE_FILE}: {why}"))?;
                Vectors::parse(&text).map_err(|error| {
                    format!("what {REFERENCE_FILE} makes is no vector file: {error}; {}", error.remedy())
                })?;
                self.child(REFERENCE, self.seconds, Some(text))
            }
        }
    }

    /// Under no filter, so that it comes behind all others, and not for a library that asked for anything there.
    fn memory(&self) -> Verdict {
        if self.refused.load(Ordering::Relaxed) {
            let why =
                "not run: the library asks the kernel for something, and this check runs it without a filter";
            return Err(why.to_owned());
        }
        let valgrind = find("valgrind").ok_or_else(|| {
            "valgrind is not installed: install Debian's package valgrind, or leave the check out with --without memory"
                .to_owned()
        })?;
        let mut wrapper = vec![OsString::from(&valgrind)];
        let status = format!("--error-exitcode={SEEN}");
        wrapper.extend(["-q", "--leak-check=no", &status].map(OsString::from));
        // Behind a wrapper /proc/self/exe would be the wrapper.
        let program = std::fs::read_link(&self.trial.program).unwrap_or_else(|_| self.trial.program.clone());
        let trial = Trial { program, arguments: self.trial.arguments.clone() };
        let name = CheckName::Memory.word().to_owned();
        let assignment = Assignment { name, seconds: self.seconds, vectors: None, wrapper };
        let report = trial::assign(&trial, self.examined, &assignment).map_err(|error| error.to_string())?;
        let seen =
            report.errors.lines().filter(|line| line.starts_with("==")).take(4).map(told).collect::<Vec<_>>();
        match report.result {
            Ok(detail) if seen.is_empty() => {
                Ok(format!("{detail}; {} saw no fault", version(&valgrind).unwrap_or("valgrind".to_owned())))
            }
            Ok(_) | Err(TrialError::Exit { status: SEEN, .. }) => {
                Err(format!("valgrind: {}", seen.join("; ")))
            }
            Err(error) if seen.is_empty() => Err(said(&error)),
            Err(error) => Err(format!("{}; valgrind: {}", said(&error), seen.join("; "))),
        }
    }
}

/// What a trial found, without the name of the check, which the report has already.
fn said(error: &TrialError) -> String {
    match error {
        TrialError::Check { check, why } if check != "registers" => why.clone(),
        other => other.to_string(),
    }
}

/// A line of valgrind's without the process in front, and without what steers a terminal.
fn told(line: &str) -> String {
    let text = line.trim_start_matches(|c: char| c == '=' || c.is_ascii_digit());
    text.trim().chars().filter(|c| !c.is_control()).take(200).collect()
}

/// What the program says of its version, on one line.
fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(told)
}

/// A program in the folders where programs are.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// The vectors that the reference makes now.
fn ask(reference: &Path) -> Result<Vec<u8>, String> {
    let python = find("python3").ok_or("python3 is not installed, and the reference needs it")?;
    let mut command = Command::new(python);
    command.arg("-B").arg(reference).args(REFERENCE_ARGUMENTS);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A group of its own, so that what it starts ends with it.
    command.process_group(0);
    let mut child = command.spawn().map_err(|error| format!("it cannot be started: {error}"))?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        // Both are read while the child runs, so that neither fills up.
        let text = scope.spawn(move || read(output, Vectors::MOST_OCTETS));
        let errors = scope.spawn(move || read(errors, MOST_ERRORS));
        let status = wait(&mut child);
        end_group(&child);
        let (text, errors) = (text.join().unwrap_or_default(), errors.join().unwrap_or_default());
        match status? {
            status if status.success() => Ok(text),
            status => {
                let errors = String::from_utf8_lossy(&errors);
                Err(format!("it ended with {status}: {}", told(errors.lines().last().unwrap_or_default())))
            }
        }
    })
}

/// What comes, up to one octet more than so many.
fn read(from: Option<impl Read>, most: usize) -> Vec<u8> {
    let mut text = Vec::new();
    if let Some(from) = from {
        // What could not be read is missing, and the reader of the text says so.
        let _ = from.take(most as u64 + 1).read_to_end(&mut text);
    }
    text
}

/// End what a child started and left behind: it would keep the pipes open.
fn end_group(child: &Child) {
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(group) = group {
        // Nobody may be left in it.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

/// The end of a child, which comes in time or is brought about.
fn wait(child: &mut Child) -> Result<ExitStatus, String> {
    let end = Instant::now() + REFERENCE_TIME;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(10)),
            waited => {
                // It may have ended by itself; what counts is that it has.
                let _ = child.kill();
                let _ = child.wait();
                let late = format!("it was not ready within {} seconds", REFERENCE_TIME.as_secs());
                return Err(waited.err().map_or(late, |error| error.to_string()));
            }
        }
    }
}
