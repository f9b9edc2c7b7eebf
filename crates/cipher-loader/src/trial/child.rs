//! The child of a trial.

use std::fs::File;
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use cipher_manifest::{Manifest, Vectors, vectors};
use crypto::custom::{CustomCipher, CustomDescription, CustomKey, SetKeyError};

use super::filter::{self, Filter};
use super::record::{LONGEST_TEXT, MOST, Record, TASK, VARIABLE};
use crate::checks::{Checks, Memory};
use crate::confined::{Limits, bare, outside};
use crate::elf;
use crate::error::LoadError;
use crate::library::{KeyError, LoadedCipher, Mapped};
use crate::maps::Maps;
use crate::registers::Control;
use crate::sealed::Sealed;
use crate::subject::{Crew, Subject};

/// Octets of address space.
const MEMORY: u64 = 1 << 30;
/// Seconds of processor time.
const SECONDS: u64 = 2;
/// Octets that one line may have.
const LONGEST: usize = MOST / 16;

/// What a program does with a cipher beyond the trial: it is handed the name of what is to be done, and answers with
/// what it found, or with what was wrong.
pub type Task = fn(&str, &Subject<'_>) -> Result<String, String>;

/// The child's side of [`super::run`]: the hidden command calls it first thing, before it starts threads. It ends the
/// process.
pub fn child_main() -> ! {
    child_main_with(|name, _| Err(format!("this program has no check {name:.40}")))
}

/// The same for a program that has checks of its own, which [`super::assign`] asks for.
pub fn child_main_with(task: Task) -> ! {
    static ONCE: AtomicBool = AtomicBool::new(false);
    let status = match descriptors(VARIABLE) {
        // Twice would take descriptors that somebody else has by now.
        Some(numbers) if !ONCE.swap(true, Ordering::SeqCst) => {
            // SAFETY: the parent handed these descriptors over by number, and nothing else here knows of them.
            let [library, manifest, vectors, answer] = numbers.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
            // Closing it at the end would need a call that the filter refuses.
            let answer = ManuallyDrop::new(Answer(File::from(answer)));
            let record = tried(library, manifest, vectors, &answer, task).unwrap_or_else(|record| record);
            i32::from(answer.write(&record).is_err())
        }
        _ => 2,
    };
    // SAFETY: the process ends here, without what the library registered for its end.
    unsafe { libc::_exit(status) }
}

/// The descriptors that the parent handed over, by the text of a variable.
pub(super) fn descriptors<const N: usize>(variable: &str) -> Option<[RawFd; N]> {
    let text = std::env::var(variable).ok()?;
    let numbers: Option<Vec<RawFd>> = text.split(',').map(|word| word.parse().ok()).collect();
    let numbers = <[RawFd; N]>::try_from(numbers?).ok()?;
    // Not those of the program itself, and none twice.
    let apart =
        |(at, number): (usize, &RawFd)| *number > 2 && !numbers.iter().skip(at + 1).any(|n| n == number);
    numbers.iter().enumerate().all(apart).then_some(numbers)
}

/// The pipe to the parent.
pub(crate) struct Answer(pub(crate) File);

impl Answer {
    pub(crate) fn write(&self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record).map_err(io::Error::other)?;
        line.push(b'\n');
        (&self.0).write_all(&line)
    }

    pub(crate) fn stage(&self, stage: &str) {
        // A parent that is gone has no use for it.
        let _ = self.write(&Record::Stage(stage.to_owned()));
    }
}

/// What a child is asked for beyond the trial, as its parent wrote it.
struct Order {
    name: String,
    /// Seconds of processor time.
    seconds: u64,
    /// Whether the process keeps what it may do, because a program that watches it needs that.
    free: bool,
}

impl Order {
    fn read() -> Result<Option<Order>, Record> {
        let Ok(text) = std::env::var(TASK) else { return Ok(None) };
        let mut words = text.split(',');
        let mut word = || words.next().unwrap_or_default().to_owned();
        let (name, seconds, free) = (word(), word().parse(), word() == "free");
        match seconds {
            Ok(seconds) => Ok(Some(Order { name, seconds, free })),
            Err(_) => Err(Record::System("the order has no number of seconds".to_owned())),
        }
    }
}

fn tried(
    library: OwnedFd,
    manifest: OwnedFd,
    vectors: OwnedFd,
    answer: &Answer,
    task: Task,
) -> Result<Record, Record> {
    let system = |what: &str, error: &dyn std::fmt::Display| Record::System(format!("{what}: {error}"));
    let library = Sealed::inherited(library).map_err(|error| system("the library", &error))?;
    let text =
        |fd, what| Sealed::inherited(fd).and_then(|sealed| sealed.octets()).map_err(|e| system(what, &e));
    let manifest =
        Manifest::parse(&text(manifest, "the manifest")?).map_err(|e| system("the manifest", &e))?;
    let vectors = Vectors::parse(&text(vectors, "the vectors")?).map_err(|e| system("the vectors", &e))?;
    outside(&library, elf::SYMBOL).map_err(|error| system("the libraries outside", &error))?;
    let octets = library.octets().map_err(|error| system("the library", &error))?;
    keep_memory();
    // The first call asks the kernel, which the filter would refuse.
    let _ = rustix::param::page_size();
    // Closing it would need one call more.
    let maps = ManuallyDrop::new(Maps::open().map_err(|error| system("/proc/self/maps", &error))?);
    let order = Order::read()?;
    let free = order.as_ref().is_some_and(|order| order.free);
    // Threads, while they can be started.
    let crew = match &order {
        Some(_) if !free => Crew::new().map_err(|error| system("threads", &error))?,
        _ => Crew::none(),
    };
    let crew = ManuallyDrop::new(crew);
    let mut filter = None;
    let seconds = order.as_ref().map_or(SECONDS, |order| order.seconds);
    if free {
        bare(Some(seconds)).map_err(|error| system("limits", &error))?;
    } else {
        Limits { memory: MEMORY, seconds: Some(seconds) }
            .apply()
            .map_err(|error| system("limits", &error))?;
        let (answer, list) = (answer.0.as_fd().as_raw_fd(), maps.as_fd().as_raw_fd());
        let made = Filter::new(&library, answer, list, order.is_some());
        filter = Some(made.map_err(|error| system("the filter", &error))?);
    }
    answer.stage("constructors");
    let control = Control::now();
    if let Some(filter) = &filter {
        // From here on the kernel does nothing for this process that `filter` does not list.
        filter.begin().map_err(|error| system("the filter", &error))?;
    }
    let mapped = Mapped::open(library, &manifest.library.file, &maps).map_err(|error| described(&error))?;
    if let Some(filter) = &filter {
        filter.close().map_err(|error| system("the second filter", &error))?;
    }
    same(control, "constructors")?;
    answer.stage("description");
    let cipher = mapped.cipher(&manifest).map_err(|error| described(&error))?;
    if let Some(order) = order {
        answer.stage(&format!("check {}", order.name));
        let written = mapped.written(&octets);
        let subject = Subject::new(&manifest, &vectors, &cipher, written, &maps, &crew);
        return match task(&order.name, &subject) {
            Ok(detail) => Ok(Record::Done(fit(&detail))),
            Err(why) => Err(Record::Check { check: order.name, why: fit(&why) }),
        };
    }
    checked(&cipher, &vectors, answer, control)
}

/// The trial itself: vectors, then short checks.
fn checked(
    cipher: &LoadedCipher,
    vectors: &Vectors,
    answer: &Answer,
    control: Control,
) -> Result<Record, Record> {
    answer.stage("vectors");
    let watched = Watched { cipher, refusal: Mutex::new(None) };
    let counts = vectors::run(vectors, &watched).map_err(|error| Record::Vector {
        tc_id: error.tc_id,
        why: watched.refusal().map_or_else(|| short(&error.why), |refusal| short(&refusal)),
    })?;
    same(control, "vectors")?;
    let begin = |check: &'static str| answer.stage(&format!("check {check}"));
    Checks { cipher, begin: &begin, watch: &filter::watch }
        .run()
        .map_err(|error| Record::Check { check: error.check.to_owned(), why: short(&error.why) })?;
    same(control, "checks")?;
    Ok(Record::Passed(counts))
}

/// Whether the control of floating point is what it was.
fn same(before: Control, during: &str) -> Result<(), Record> {
    let Some(what) = Control::now().changed(before) else { return Ok(()) };
    let why = format!("it changed {what} during {during}");
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

/// What the parent says behind the library's name.
pub(crate) fn described(error: &LoadError) -> Record {
    Record::Description(match error {
        LoadError::Link { why, .. } => format!("the dynamic loader refuses it: {}", short(why)),
        LoadError::Abi { why, .. } => short(why),
        other => short(other),
    })
}

pub(crate) fn short(text: &dyn std::fmt::Display) -> String {
    text.to_string().chars().filter(|c| !c.is_control()).take(LONGEST / 4).collect()
}

/// Have the C library give no memory back: it looks at a file before it does so.
pub(super) fn keep_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: setting a threshold touches no memory of this program's.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
    }
}

/// A text of a task, on one line.
pub(super) fn fit(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST_TEXT).collect()
}
