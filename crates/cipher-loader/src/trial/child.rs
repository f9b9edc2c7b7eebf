//! The child of a trial.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use cipher_manifest::{Manifest, Vectors, vectors};
use crypto::custom::{CustomCipher, CustomDescription, CustomKey, SetKeyError};

use super::answer::{Answer, described, short};
use super::filter::{self, Filter};
use super::record::{Record, VARIABLE};
use super::registers::Control;
use crate::checks::{Checks, Memory};
use crate::confined::{Limits, outside};
use crate::library::{KeyError, LoadedCipher, Mapped};
use crate::maps::Maps;
use crate::sealed::Sealed;

/// Octets of address space.
const MEMORY: u64 = 1 << 30;
/// Seconds of processor time.
const SECONDS: u64 = 2;

/// The child's side of [`super::run`]: the hidden command calls it first thing, before it starts threads. It ends the
/// process.
pub fn child_main() -> ! {
    static ONCE: AtomicBool = AtomicBool::new(false);
    let status = match descriptors() {
        // Twice would take descriptors that somebody else has by now.
        Some(numbers) if !ONCE.swap(true, Ordering::SeqCst) => {
            // SAFETY: the parent handed these descriptors over by number, and nothing else here knows of them.
            let [library, manifest, vectors, answer] = numbers.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
            // Closing it at the end would need a call that the filter refuses.
            let answer = ManuallyDrop::new(Answer(File::from(answer)));
            let record = tried(library, manifest, vectors, &answer).unwrap_or_else(|record| record);
            i32::from(answer.write(&record).is_err())
        }
        _ => 2,
    };
    // SAFETY: the process ends here, without what the library registered for its end.
    unsafe { libc::_exit(status) }
}

fn descriptors() -> Option<[RawFd; 4]> {
    let text = std::env::var(VARIABLE).ok()?;
    let numbers: Option<Vec<RawFd>> = text.split(',').map(|word| word.parse().ok()).collect();
    let numbers = <[RawFd; 4]>::try_from(numbers?).ok()?;
    // Not those of the program itself, and none twice.
    let apart =
        |(at, number): (usize, &RawFd)| *number > 2 && !numbers.iter().skip(at + 1).any(|n| n == number);
    numbers.iter().enumerate().all(apart).then_some(numbers)
}

fn tried(library: OwnedFd, manifest: OwnedFd, vectors: OwnedFd, answer: &Answer) -> Result<Record, Record> {
    let system = |what: &str, error: &dyn std::fmt::Display| Record::System(format!("{what}: {error}"));
    let library = Sealed::inherited(library).map_err(|error| system("the library", &error))?;
    let text =
        |fd, what| Sealed::inherited(fd).and_then(|sealed| sealed.octets()).map_err(|e| system(what, &e));
    let manifest =
        Manifest::parse(&text(manifest, "the manifest")?).map_err(|e| system("the manifest", &e))?;
    let vectors = Vectors::parse(&text(vectors, "the vectors")?).map_err(|e| system("the vectors", &e))?;
    outside(&library).map_err(|error| system("the libraries outside", &error))?;
    // The first call asks the kernel, which the filter would refuse.
    let _ = rustix::param::page_size();
    // Closing it would need one call more.
    let maps = ManuallyDrop::new(Maps::open().map_err(|error| system("/proc/self/maps", &error))?);
    Limits { memory: MEMORY, seconds: Some(SECONDS) }.apply().map_err(|error| system("limits", &error))?;
    let filter = Filter::new(&library, answer.0.as_fd().as_raw_fd(), maps.as_fd().as_raw_fd())
        .map_err(|e| system("the filter", &e))?;
    answer.stage("constructors");
    let control = Control::now();
    filter.begin().map_err(|error| system("the filter", &error))?;
    // The filter is in force. From here on the kernel does nothing for this process that `filter` does not list.
    let mapped = Mapped::open(library, &manifest, &maps).map_err(|error| described(&error))?;
    filter.close().map_err(|error| system("the second filter", &error))?;
    same(control, "constructors")?;
    answer.stage("description");
    let cipher = mapped.cipher(&manifest).map_err(|error| described(&error))?;
    answer.stage("vectors");
    let watched = Watched { cipher: &cipher, refusal: Mutex::new(None) };
    let counts = vectors::run(&vectors, &watched).map_err(|error| Record::Vector {
        tc_id: error.tc_id,
        why: watched.refusal().map_or_else(|| short(&error.why), |refusal| short(&refusal)),
    })?;
    same(control, "vectors")?;
    let begin = |check: &'static str| answer.stage(&format!("check {check}"));
    Checks { cipher: &cipher, begin: &begin, watch: &filter::watch }
        .run()
        .map_err(|error| Record::Check { check: error.check.to_owned(), why: short(&error.why) })?;
    same(control, "checks")?;
    Ok(Record::Passed(counts))
}

/// Whether the control of floating point is what it was.
fn same(before: Control, during: &str) -> Result<(), Record> {
    if Control::now() == before {
        return Ok(());
    }
    let why = format!("it changed the floating point control (MXCSR, x87) during {during}");
    Err(Record::Check { check: "registers".to_owned(), why })
}

/// A cipher whose contexts are watched, and whose refusals of keys are kept in the library's own words.
struct Watched<'a> {
    cipher: &'a LoadedCipher,
    refusal: Mutex<Option<KeyError>>,
}

impl Watched<'_> {
    fn refusal(&self) -> Option<KeyError> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl CustomCipher for Watched<'_> {
    fn description(&self) -> &CustomDescription {
        self.cipher.description()
    }

    fn set_key(&self, key: &[u8]) -> Result<CustomKey, SetKeyError> {
        let made = self.cipher.try_key(key);
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = made.as_ref().err().cloned();
        let (key, pages) = made?;
        filter::watch(Memory::Context, pages);
        Ok(key)
    }
}
