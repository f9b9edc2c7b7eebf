//! The trial of a library that is no cipher: the process is confined in the same way, and another room says what it does
//! with the library there.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::pipe::{PipeFlags, pipe_with};

use super::child::{Answer, described, descriptors, fit, keep_memory};
use super::filter::Filter;
use super::record::Record;
use super::{LONGEST, Trial, clean, followed};
use crate::confined::{Limits, outside};
use crate::library::Mapped;
use crate::maps::Maps;
use crate::sealed::Sealed;
use crate::shared::{MappedLibrary, SharedLibrary};
use crate::trial_error::TrialError;

/// The variable that names the descriptors of a child with a library that is no cipher.
pub const LIBRARY_VARIABLE: &str = "RAVELIN_LIBRARY_TRIAL";
/// The variable that says what the child does with it.
const ORDER: &str = "RAVELIN_LIBRARY_ORDER";
/// Octets of address space.
const MEMORY: u64 = 1 << 30;

/// What a child does with a library: it gets the order of its parent, tells what it does next by the function, and
/// answers with what it found, or with the name of a check and what was wrong.
pub type AnyTask = fn(&MappedLibrary, &str, &dyn Fn(&str)) -> Result<String, (&'static str, String)>;

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
    command.env(ORDER, format!("{seconds},{order}"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match followed(command, numbers, (from, to), seconds.saturating_mul(5))? {
        Record::Done(detail) => Ok(clean(&detail, LONGEST)),
        _ => Err(TrialError::Answer("the end".to_owned())),
    }
}

/// The child's side of [`run_library`]: the hidden command calls it first thing, before it starts threads. It ends the
/// process.
pub fn library_child_main(symbol: &'static CStr, task: AnyTask) -> ! {
    static ONCE: AtomicBool = AtomicBool::new(false);
    let status = match descriptors(LIBRARY_VARIABLE) {
        // Twice would take descriptors that somebody else has by now.
        Some(numbers) if !ONCE.swap(true, Ordering::SeqCst) => {
            // SAFETY: the parent handed these descriptors over by number, and nothing else here knows of them.
            let [library, answer] = numbers.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
            // Closing it at the end would need a call that the filter refuses.
            let answer = ManuallyDrop::new(Answer(File::from(answer)));
            let record = tried(library, symbol, &answer, task).unwrap_or_else(|record| record);
            i32::from(answer.write(&record).is_err())
        }
        _ => 2,
    };
    // SAFETY: the process ends here, without what the library registered for its end.
    unsafe { libc::_exit(status) }
}

fn tried(library: OwnedFd, symbol: &'static CStr, answer: &Answer, task: AnyTask) -> Result<Record, Record> {
    let system = |what: &str, error: &dyn std::fmt::Display| Record::System(format!("{what}: {error}"));
    let library = Sealed::inherited(library).map_err(|error| system("the library", &error))?;
    let order = std::env::var(ORDER).unwrap_or_default();
    let (seconds, order) = order.split_once(',').unwrap_or_default();
    let seconds: u64 = seconds.parse().map_err(|error| system("the order", &error))?;
    outside(&library, symbol).map_err(|error| system("the libraries outside", &error))?;
    keep_memory();
    // The first call asks the kernel, which the filter would refuse.
    let _ = rustix::param::page_size();
    // Closing it would need one call more.
    let maps = ManuallyDrop::new(Maps::open().map_err(|error| system("/proc/self/maps", &error))?);
    let limits = Limits { memory: MEMORY, seconds: Some(seconds) };
    limits.apply().map_err(|error| system("limits", &error))?;
    let (answer_fd, list) = (answer.0.as_fd().as_raw_fd(), maps.as_fd().as_raw_fd());
    let filter =
        Filter::new(&library, answer_fd, list, false).map_err(|error| system("the filter", &error))?;
    answer.stage("constructors");
    // From here on the kernel does nothing for this process that the filter does not list.
    filter.begin().map_err(|error| system("the filter", &error))?;
    let mapped = Mapped::open(library, "the library", &maps).map_err(|error| described(&error))?;
    filter.close().map_err(|error| system("the second filter", &error))?;
    match task(&MappedLibrary(mapped), order, &|stage| answer.stage(stage)) {
        Ok(detail) => Ok(Record::Done(fit(&detail))),
        Err((check, why)) => Err(Record::Check { check: check.to_owned(), why: fit(&why) }),
    }
}
