//! A cipher in the child of a trial, for the checks of a room that has more of them (`cipher-kit`).
//!
//! What enters: the cipher that the child has mapped. What leaves: ways to call it, its short checks by name, buffers
//! at the edge of memory, threads, and answers about what must not change: control words, the library's own memory, and
//! copies of keys. What needs unsafe code for that is here, so that the checks themselves need none.

mod crew;
mod leftovers;

use std::ops::Range;

use cipher_manifest::{Manifest, Vectors, vectors};
use crypto::custom::CustomKey;

use crate::checks::{Checks, Memory};
use crate::library::{Form, LoadedCipher};
use crate::maps::Maps;
use crate::registers::Control;
use crate::trial::filter;

pub(crate) use crew::Crew;
pub use crew::Job;
pub use leftovers::Leftover;

/// The cipher of this child, and what belongs to it.
pub struct Subject<'a> {
    manifest: &'a Manifest,
    vectors: &'a Vectors,
    cipher: &'a LoadedCipher,
    written: Vec<Range<usize>>,
    maps: &'a Maps,
    crew: &'a Crew,
    control: Control,
    mask: libc::sigset_t,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(
        manifest: &'a Manifest,
        vectors: &'a Vectors,
        cipher: &'a LoadedCipher,
        written: Vec<Range<usize>>,
        maps: &'a Maps,
        crew: &'a Crew,
    ) -> Subject<'a> {
        Subject { manifest, vectors, cipher, written, maps, crew, control: Control::now(), mask: blocked() }
    }

    /// The manifest of the cipher.
    pub fn manifest(&self) -> &Manifest {
        self.manifest
    }

    /// The vectors that the child was handed.
    pub fn vectors(&self) -> &Vectors {
        self.vectors
    }

    /// The cipher as the daemon calls it.
    pub fn cipher(&self) -> &LoadedCipher {
        self.cipher
    }

    /// The cipher called in another way.
    pub fn in_form(&self, form: Form) -> LoadedCipher {
        self.cipher.in_form(form)
    }

    /// A short check of the loader's own, by its name, of the cipher called in this way.
    ///
    /// # Errors
    /// What was wrong, in words for the author.
    pub fn short(&self, name: &str, form: Form) -> Result<(), String> {
        let cipher = self.in_form(form);
        Checks { cipher: &cipher, begin: &|_| (), watch: &filter::watch }.one(name)
    }

    /// The vectors that the child was handed, before the cipher called in this way; how many it passed.
    ///
    /// # Errors
    /// The first that it does not pass, by its number.
    pub fn run_vectors(&self, form: Form) -> Result<vectors::Counts, String> {
        vectors::run(self.vectors, &self.in_form(form)).map_err(|error| error.to_string())
    }

    /// A key of this cipher, in whose context a write is told as such.
    ///
    /// # Errors
    /// What `setkey` answered.
    pub fn watched_key(&self, cipher: &LoadedCipher, key: &[u8]) -> Result<CustomKey, String> {
        let (key, pages) = cipher.try_key(key).map_err(|error| error.to_string())?;
        filter::watch(Memory::Context, pages);
        Ok(key)
    }

    /// Do all of this at once, on threads that were started before the library was there.
    ///
    /// # Errors
    /// The first error of a job.
    pub fn together(&self, jobs: Vec<Job>) -> Result<(), String> {
        self.crew.together(jobs)
    }

    /// What belongs to the host and is not as it was when the child began, if anything: control words of the processor,
    /// signals that are blocked. The direction is forward afterwards.
    pub fn disturbed(&self) -> Option<&'static str> {
        let changed = Control::now().changed(self.control);
        let mask = blocked();
        // SAFETY: asking whether a signal is in a set reads the set alone.
        let other = |signal| unsafe { libc::sigismember(&raw const mask, signal) } != self.member(signal);
        changed.or_else(|| (1..=64).any(other).then_some("the signals that are blocked"))
    }

    fn member(&self, signal: libc::c_int) -> libc::c_int {
        // SAFETY: as above.
        unsafe { libc::sigismember(&raw const self.mask, signal) }
    }

    /// The library's own memory that can be written, as it is now: a copy to compare with.
    ///
    /// # Errors
    /// The list of mappings cannot be read.
    pub fn own_memory(&self) -> Result<Vec<u8>, String> {
        let writable = self.maps.writable(&self.written).map_err(|error| error.to_string())?;
        Ok(writable.own.into_iter().flat_map(copy).collect())
    }
}

/// The octets of a mapping that can be read.
fn copy(at: Range<usize>) -> Vec<u8> {
    // SAFETY: the kernel's list says that this process has the mapping and may read it, and no other thread is at work.
    // The octets may be anything, and are read as such.
    (at.start..at.end).map(|address| unsafe { (address as *const u8).read_volatile() }).collect()
}

/// The signals that this thread blocks.
fn blocked() -> libc::sigset_t {
    // SAFETY: all zeros are a set of signals, and asking for the mask changes nothing.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut set);
        set
    }
}
