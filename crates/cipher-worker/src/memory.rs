//! Memory that two processes share, and the only ways to touch it.
//!
//! What another process can write at any time is read by atomic loads alone, each octet once, into memory of one's own:
//! what was looked at is what is used. Every access is within the mapping, or it is refused.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, ftruncate,
    memfd_create,
};
use rustix::mm::{Advice, MapFlags, MlockFlags, ProtFlags, madvise, mlock_with, mmap, munmap};

/// A mapping of shared memory.
#[derive(Debug)]
pub struct Memory {
    base: NonNull<u8>,
    len: usize,
    writable: bool,
    file: Option<OwnedFd>,
}

// SAFETY: the mapping lives as long as the value; every access through a shared reference is atomic, or is one that the
// callers keep apart (see `put`).
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// An access that leaves the mapping, or is not aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an access leaves the shared memory")]
pub struct Outside;

/// What was found while key stream was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Used {
    /// Eight octets of it in a row were zero: what they met is unchanged.
    pub(crate) unchanged: bool,
}

impl Memory {
    /// New memory of so many octets of zero, whose length is fixed for good. With `sealed`, this mapping is the only one
    /// that can ever write it.
    ///
    /// # Errors
    /// The system has no such memory.
    pub fn create(name: &str, len: usize, sealed: bool) -> io::Result<Memory> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Kernels before 6.3 do not know the flag, and need none.
        let file = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
            Err(rustix::io::Errno::INVAL) => memfd_create(name, flags),
            made => made,
        }?;
        ftruncate(&file, len as u64)?;
        let memory = Memory::map(file, len, true)?;
        let file = memory.file.as_ref().ok_or_else(|| io::Error::other("no descriptor"))?;
        let mut seals = SealFlags::SHRINK | SealFlags::GROW;
        if sealed {
            seals |= SealFlags::FUTURE_WRITE;
        }
        fcntl_add_seals(file, seals)?;
        fcntl_add_seals(file, SealFlags::SEAL)?;
        Ok(memory)
    }

    /// Map memory that another process made.
    ///
    /// # Errors
    /// It has another length, it can shrink, or the system does not map it.
    pub fn open(file: OwnedFd, len: usize, writable: bool) -> io::Result<Memory> {
        let have = usize::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or(0);
        if have != len || !fcntl_get_seals(&file)?.contains(SealFlags::SHRINK) {
            return Err(io::Error::other(format!(
                "shared memory has {have} octets and not {len}, or can shrink"
            )));
        }
        Memory::map(file, len, writable)
    }

    fn map(file: OwnedFd, len: usize, writable: bool) -> io::Result<Memory> {
        let rights = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: a new mapping takes nobody's memory; the file cannot shrink below it, or is sealed next.
        let base = unsafe { mmap(ptr::null_mut(), len, rights, MapFlags::SHARED, &file, 0)? };
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("memory at address 0"))?;
        let memory = Memory { base, len, writable, file: Some(file) };
        // SAFETY: the pages are this value's own. They hold keys and key stream, which belong in no core file.
        unsafe { madvise(base.as_ptr().cast(), len, Advice::LinuxDontDump)? };
        Ok(memory)
    }

    /// Keep the pages out of swap, each from its first use on.
    ///
    /// # Errors
    /// More than may be locked (RLIMIT_MEMLOCK).
    pub fn lock(&self) -> io::Result<()> {
        // SAFETY: the pages are this value's own, and locking changes nothing in them.
        Ok(unsafe { mlock_with(self.base.as_ptr().cast(), self.len, MlockFlags::ONFAULT) }?)
    }

    /// The descriptor, for another process.
    pub fn file(&self) -> Option<impl AsFd> {
        self.file.as_ref()
    }

    /// The number of octets that are mapped.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is mapped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn at(&self, offset: usize, len: usize, align: usize) -> Result<*mut u8, Outside> {
        let end = offset.checked_add(len).ok_or(Outside)?;
        if end > self.len || !offset.is_multiple_of(align) {
            return Err(Outside);
        }
        // SAFETY: the offset is within the mapping.
        Ok(unsafe { self.base.as_ptr().add(offset) })
    }

    fn writable_at(&self, offset: usize, len: usize) -> Result<*mut u8, Outside> {
        if self.writable { self.at(offset, len, 1) } else { Err(Outside) }
    }

    /// A word of four octets. Only one that this process can write may be stored to.
    ///
    /// # Errors
    /// [`Outside`].
    pub fn word(&self, offset: usize) -> Result<&AtomicU32, Outside> {
        let at = self.at(offset, 4, 4)?;
        // SAFETY: within the mapping and aligned; others touch it by atomic accesses alone, or are other processes.
        Ok(unsafe { AtomicU32::from_ptr(at.cast()) })
    }

    /// A word of eight octets. Only one that this process can write may be stored to.
    ///
    /// # Errors
    /// [`Outside`].
    pub fn long(&self, offset: usize) -> Result<&AtomicU64, Outside> {
        let at = self.at(offset, 8, 8)?;
        // SAFETY: as in `word`.
        Ok(unsafe { AtomicU64::from_ptr(at.cast()) })
    }

    /// Write octets into the memory. Memory that this side alone writes; no two threads write one place at a time, since each owns its
    /// lane or its key.
    ///
    /// # Errors
    /// [`Outside`].
    pub fn put(&self, offset: usize, from: &[u8]) -> Result<(), Outside> {
        let at = self.writable_at(offset, from.len())?;
        // SAFETY: within the mapping, which no Rust reference but those of atomics points into.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), at, from.len()) };
        Ok(())
    }

    /// Write zeros into the memory.
    ///
    /// # Errors
    /// [`Outside`].
    pub fn clear(&self, offset: usize, len: usize) -> Result<(), Outside> {
        let at = self.writable_at(offset, len)?;
        // SAFETY: as in `put`; volatile, so that it is not left out for memory that nobody reads again.
        (0..len).for_each(|octet| unsafe { at.add(octet).write_volatile(0) });
        Ok(())
    }

    /// Octets that the other side does not write meanwhile: only for a worker, which believes the host.
    pub(crate) fn view(&self, offset: usize, len: usize) -> Result<&[u8], Outside> {
        let at = self.at(offset, len, 1)?;
        // SAFETY: within the mapping; the host writes no lane before it has its reply.
        Ok(unsafe { std::slice::from_raw_parts(at, len) })
    }

    /// Octets of the worker's own memory, which nobody else writes: only for a worker, which has one thread and asks for
    /// each place once at a time.
    #[expect(clippy::mut_from_ref, reason = "the memory is shared with a process; see the comment above")]
    pub(crate) fn view_mut(&self, offset: usize, len: usize) -> Result<&mut [u8], Outside> {
        let at = self.writable_at(offset, len)?;
        // SAFETY: within the mapping; its callers ask for places that do not overlap.
        Ok(unsafe { std::slice::from_raw_parts_mut(at, len) })
    }

    /// Give pages back to the kernel, which wipes what it hands out; they read as zeros from here on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn give_back(&self, offset: usize, len: usize) -> io::Result<()> {
        let file = self.file.as_ref().ok_or_else(|| io::Error::other("no descriptor"))?;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(file, flags, offset as u64, len as u64)?)
    }

    /// Call `each` with each eight octets of `data` and those of the memory, and with whether there are eight of them in
    /// `data`: the last may have fewer.
    fn words(
        &self,
        offset: usize,
        data: &mut [u8],
        mut each: impl FnMut(u64, u64, bool) -> u64,
    ) -> Result<(), Outside> {
        let at = self.at(offset, data.len().next_multiple_of(8), 8)?.cast::<u64>();
        // SAFETY: within the mapping and aligned, for every index below the number of words.
        let word = |index: usize| unsafe { AtomicU64::from_ptr(at.add(index)) }.load(Relaxed);
        let (whole, rest) = data.as_chunks_mut::<8>();
        let count = whole.len();
        for (index, octets) in whole.iter_mut().enumerate() {
            *octets = each(u64::from_ne_bytes(*octets), word(index), true).to_ne_bytes();
        }
        if !rest.is_empty() {
            let mut octets = [0; 8];
            octets.iter_mut().zip(&*rest).for_each(|(to, from)| *to = *from);
            let octets = each(u64::from_ne_bytes(octets), word(count), false).to_ne_bytes();
            rest.iter_mut().zip(octets).for_each(|(to, from)| *to = from);
        }
        Ok(())
    }

    /// Read octets of the other side, each once.
    ///
    /// # Errors
    /// [`Outside`]: `data` is as it was.
    pub fn take(&self, offset: usize, data: &mut [u8]) -> Result<(), Outside> {
        self.words(offset, data, |_, theirs, _| theirs)
    }

    /// The same for what the other side made of `data`, with whether eight octets in a row are what they were.
    pub(crate) fn replace(&self, offset: usize, data: &mut [u8]) -> Result<Used, Outside> {
        let mut unchanged = false;
        self.words(offset, data, |ours, theirs, whole| {
            unchanged |= whole && ours == theirs;
            theirs
        })?;
        Ok(Used { unchanged })
    }

    /// XOR octets of the other side into `data`, each read once.
    pub(crate) fn xor(&self, offset: usize, data: &mut [u8]) -> Result<Used, Outside> {
        let mut unchanged = false;
        self.words(offset, data, |ours, theirs, whole| {
            unchanged |= whole && theirs == 0;
            ours ^ theirs
        })?;
        Ok(Used { unchanged })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own and ends with it.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(memory: &Memory, writable: bool) -> io::Result<Memory> {
        let file = memory.file().unwrap().as_fd().try_clone_to_owned()?;
        Memory::open(file, memory.len(), writable)
    }

    #[test]
    fn sealed_memory_has_one_writer_and_one_length() {
        let ours = Memory::create("test", 8192, true).unwrap();
        assert!(again(&ours, true).is_err());
        let theirs = again(&ours, false).unwrap();
        ours.put(100, b"from the host").unwrap();
        let mut seen = [0; 13];
        theirs.take(96, &mut [0; 4]).unwrap();
        assert_eq!(theirs.view(100, 13).unwrap(), b"from the host");
        assert_eq!(theirs.put(0, &[1]), Err(Outside));
        assert!(theirs.view_mut(0, 1).is_err() && theirs.clear(0, 1).is_err());
        assert!(
            ftruncate(ours.file().unwrap(), 4096).is_err() && ftruncate(ours.file().unwrap(), 16384).is_err()
        );
        // The other memory is the worker's to write, and the host's to empty.
        let both = Memory::create("test", 8192, false).unwrap();
        again(&both, true).unwrap().put(4096, b"from the worker").unwrap();
        both.take(4096, &mut seen).unwrap();
        assert_eq!(&seen, b"from the work");
        both.give_back(4096, 4096).unwrap();
        both.take(4096, &mut seen).unwrap();
        assert_eq!(seen, [0; 13]);
    }

    #[test]
    fn memory_of_another_length_or_that_can_shrink_is_not_taken() {
        let ours = Memory::create("test", 4096, false).unwrap();
        let file = || ours.file().unwrap().as_fd().try_clone_to_owned().unwrap();
        assert!(Memory::open(file(), 8192, true).is_err() && Memory::open(file(), 4095, true).is_err());
        let open = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&open, 4096).unwrap();
        assert!(Memory::open(open, 4096, true).is_err());
    }

    #[test]
    fn no_access_leaves_the_mapping() {
        let memory = Memory::create("test", 4096, false).unwrap();
        assert!(memory.word(4092).is_ok() && memory.word(4096).is_err() && memory.word(2).is_err());
        assert!(
            memory.long(4088).is_ok() && memory.long(4092).is_err() && memory.long(usize::MAX - 7).is_err()
        );
        assert!(memory.put(4090, &[0; 6]).is_ok() && memory.put(4090, &[0; 7]).is_err());
        assert!(memory.take(4088, &mut [0; 8]).is_ok() && memory.take(4088, &mut [0; 9]).is_err());
        assert!(memory.take(4, &mut [0; 8]).is_err() && memory.clear(1, 4096).is_err());
        assert!(memory.view(usize::MAX, 2).is_err());
    }

    #[test]
    fn eight_octets_that_would_stay_are_found_and_fewer_are_not() {
        let memory = Memory::create("test", 4096, false).unwrap();
        memory.put(0, &[0xff; 100]).unwrap();
        let mut data = [1; 37];
        assert!(!memory.xor(0, &mut data).unwrap().unchanged);
        assert_eq!(data, [0xfe; 37]);
        memory.put(24, &[0; 8]).unwrap();
        assert!(memory.xor(0, &mut data).unwrap().unchanged);
        memory.put(24, &[0, 0, 0, 0, 0, 0, 0, 1]).unwrap();
        assert!(!memory.xor(0, &mut data).unwrap().unchanged);
        memory.put(32, &[0; 8]).unwrap();
        assert!(!memory.xor(0, &mut data).unwrap().unchanged, "five octets at the end can be zeros");
        let mut same = [0xff; 24];
        assert!(memory.replace(0, &mut same).unwrap().unchanged);
        let mut other = [0; 24];
        assert!(!memory.replace(0, &mut other).unwrap().unchanged);
        assert_eq!(other, [0xff; 24]);
    }
}
