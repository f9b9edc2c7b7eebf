//! The host's own copies of keys, which a new worker is given again: locked, in no core file and in no child, wiped.

use std::io;
use std::ptr::{self, NonNull};

use crypto::custom::CustomDescription;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap_anonymous, munmap};
use zeroize::Zeroize;

/// Octets that the longest key has.
const LONGEST: usize = *CustomDescription::KEY_LENGTHS.end();

/// Room for some keys. It hands out no reference that outlives a call.
#[derive(Debug)]
pub(crate) struct Locked {
    base: NonNull<u8>,
    keys: usize,
}

// SAFETY: the pages are this value's own, and it is used through a lock.
unsafe impl Send for Locked {}

impl Locked {
    /// Room for so many keys.
    pub(crate) fn new(keys: usize) -> io::Result<Locked> {
        let len = (keys * LONGEST).max(1);
        // SAFETY: a new mapping takes nobody's memory.
        let base = unsafe {
            mmap_anonymous(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("memory at address 0"))?;
        let locked = Locked { base, keys };
        // SAFETY: the pages are this value's own.
        unsafe {
            mlock(base.as_ptr().cast(), len)?;
            madvise(base.as_ptr().cast(), len, Advice::LinuxDontDump)?;
            madvise(base.as_ptr().cast(), len, Advice::LinuxDontFork)?;
        }
        Ok(locked)
    }

    fn all(&mut self) -> &mut [u8] {
        // SAFETY: the pages are initialised, and borrowed as this value is.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.keys * LONGEST) }
    }

    /// The octets of one key, of which the first are used.
    pub(crate) fn key(&mut self, index: usize) -> &mut [u8] {
        self.all().chunks_exact_mut(LONGEST).nth(index).unwrap_or_default()
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.all().zeroize();
        let len = (self.keys * LONGEST).max(1);
        // SAFETY: the mapping is this value's own and ends with it.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), len) };
    }
}
