//! The trial of a library that is no cipher: the process is confined in the same way, and another room says what it does
//! with the library there.

use std::ffi::CStr;
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use super::child::{Answer, described, descriptors, fit, keep_memory};
use super::filter::Filter;
use super::record::{LIBRARY_ORDER, LIBRARY_VARIABLE, Record};
use crate::confined::{Limits, outside};
use crate::library::Mapped;
use crate::maps::Maps;
use crate::sealed::Sealed;
use crate::shared::MappedLibrary;

/// Octets of address space.
const MEMORY: u64 = 1 << 30;

/// What a child does with a library: it gets the order of its parent, tells what it does next by the function, and
/// answers with what it found, or with the name of a check and what was wrong.
pub type AnyTask = fn(&MappedLibrary, &str, &dyn Fn(&str)) -> Result<String, (&'static str, String)>;

/// The child's side of [`super::run_library`]: the hidden command calls it first thing, before it starts threads. It ends the
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
    let order = std::env::var(LIBRARY_ORDER).unwrap_or_default();
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
