//! A process that runs a library and can do nothing else: what the child of a trial and a worker have in common.
//!
//! The process gives up capabilities and limits itself; then the filter of system calls of a trial is put in force, and
//! only then the library is mapped, so that its constructors run under it (docs/design/0035). Behind the mapping a
//! second filter takes away what the dynamic loader needed.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use cipher_manifest::Manifest;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal, setrlimit};
use rustix::thread::CapabilitySet;

use crate::elf;
use crate::library::{LoadedCipher, Mapped};
use crate::maps::Maps;
use crate::sealed::Sealed;
use crate::trial::filter::{self, Filter};
use crate::trial::{Answer, Record, described, short};

/// What a process hands to [`load`].
#[derive(Debug)]
pub struct Handed {
    /// The sealed library ([`crate::Examined::library`]).
    pub library: OwnedFd,
    /// The manifest of the library in sealed memory ([`crate::Examined::sealed_manifest`]).
    pub manifest: OwnedFd,
    /// The pipe on which the end of the process is explained ([`crate::trial::explain`] reads it). Nothing else can be
    /// written to from here on.
    pub answer: OwnedFd,
}

/// The reason stands on the pipe: the process has nothing left to do but to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explained;

/// Give up everything, then map the library and find its cipher.
///
/// From here on the process can compute, wait on futexes, write to the pipe and end; for any other call to the kernel a
/// handler names the call on the pipe and ends the process. `memory` bounds the address space, in octets. The process
/// dies with its parent. Call it in a process with one thread.
///
/// # Errors
/// [`Explained`]: the library or the description cannot be used, or the process could not limit itself.
pub fn load(handed: Handed, memory: u64) -> Result<LoadedCipher, Explained> {
    // Closing it at the end would need a call that the filter refuses.
    let answer = ManuallyDrop::new(Answer(File::from(handed.answer)));
    mapped(handed.library, handed.manifest, &answer, memory).map_err(|record| {
        // A parent that is gone has no use for it.
        let _ = answer.write(&record);
        Explained
    })
}

/// Explain on the pipe why a process never came to [`load`].
pub fn tell(answer: OwnedFd, why: &dyn std::fmt::Display) {
    // A parent that is gone has no use for it.
    let _ = Answer(File::from(answer)).write(&Record::System(short(why)));
}

fn mapped(library: OwnedFd, manifest: OwnedFd, answer: &Answer, memory: u64) -> Result<LoadedCipher, Record> {
    let system =
        |what: &str, error: &dyn std::fmt::Display| Record::System(format!("{what}: {}", short(error)));
    let library = Sealed::inherited(library).map_err(|error| system("the library", &error))?;
    let manifest = Sealed::inherited(manifest).and_then(|sealed| sealed.octets());
    let manifest = manifest.map_err(|error| system("the manifest", &error))?;
    let manifest = Manifest::parse(&manifest).map_err(|error| system("the manifest", &error))?;
    outside(&library, elf::SYMBOL).map_err(|error| system("the libraries outside", &error))?;
    // The first call asks the kernel, which the filter would refuse.
    let _ = rustix::param::page_size();
    // Closing it would need one call more.
    let maps = ManuallyDrop::new(Maps::open().map_err(|error| system("/proc/self/maps", &error))?);
    Limits { memory, seconds: None }.apply().map_err(|error| system("limits", &error))?;
    let filter = Filter::new(&library, answer.0.as_fd().as_raw_fd(), maps.as_fd().as_raw_fd(), false)
        .map_err(|error| system("the filter", &error))?;
    answer.stage("constructors");
    filter.begin().map_err(|error| system("the filter", &error))?;
    let mapped = Mapped::open(library, &manifest.library.file, &maps).map_err(|error| described(&error))?;
    filter.close().map_err(|error| system("the second filter", &error))?;
    answer.stage("description");
    let cipher = mapped.cipher(&manifest).map_err(|error| described(&error))?;
    answer.stage("packets");
    Ok(cipher)
}

/// Load what the library may need from outside while files can still be opened.
pub(crate) fn outside(library: &Sealed, symbol: &'static CStr) -> Result<(), String> {
    let octets = library.octets().map_err(|error| error.to_string())?;
    for name in elf::check(&octets, symbol).map_err(|error| error.to_string())? {
        // SAFETY: these are the C library's own files, and the names are this program's.
        let loaded = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) };
        // It stays.
        std::mem::forget(loaded.map_err(|error| error.to_string())?);
    }
    Ok(())
}

/// What a process may use.
pub(crate) struct Limits {
    /// Octets of address space.
    pub(crate) memory: u64,
    /// Seconds of processor time, if they are limited.
    pub(crate) seconds: Option<u64>,
}

impl Limits {
    /// Give up everything that can be given up, for good.
    pub(crate) fn apply(&self) -> io::Result<()> {
        bare(self.seconds)?;
        for (resource, most) in [
            (Resource::As, self.memory),
            (Resource::Fsize, 0),
            (Resource::Nproc, 0),
            (Resource::Nofile, filter::MOST_FILES),
        ] {
            setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
        }
        Ok(())
    }
}

/// Give up what a program that is watched by another one can do without as well, for good: rights, and time without end.
pub(crate) fn bare(seconds: Option<u64>) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let none = CapabilitySet::empty();
    let sets = rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::clear_ambient_capability_set()?;
    rustix::thread::set_capabilities(None, sets)?;
    rustix::thread::set_no_new_privs(true)?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    if let Some(seconds) = seconds {
        // At the second limit the kernel sends SIGKILL, which does not say why.
        let limit = Rlimit { current: Some(seconds), maximum: Some(seconds.saturating_add(1)) };
        setrlimit(Resource::Cpu, limit)?;
    }
    Ok(())
}
