//! The memory of a key: pages of its own between guard pages, locked, in no core file and in no child, read-only behind
//! `setkey`, wiped before anything else can have them.
//!
//! Making such memory costs five system calls. A cipher keeps a few that were used and wiped, so that changing keys
//! costs two: `mprotect` before use and after.

use std::ffi::c_void;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mlock, mmap_anonymous, mprotect, munmap,
};
use zeroize::Zeroize;

/// Memories that a cipher keeps for its next keys.
const SPARE: usize = 16;

/// Pages between two guard pages. Their last octet is the last that can be touched.
#[derive(Debug)]
pub(crate) struct Guarded {
    /// The first guard page.
    base: NonNull<u8>,
    /// Octets of a page.
    page: usize,
    /// Octets between the guard pages.
    len: usize,
}

// SAFETY: the memory belongs to this value alone; what shares it has its own rules.
unsafe impl Send for Guarded {}

impl Guarded {
    /// At least so many octets of zeros that can be read and written.
    pub(crate) fn new(octets: usize) -> io::Result<Guarded> {
        let page = rustix::param::page_size();
        let len = octets.max(1).next_multiple_of(page);
        // SAFETY: a new mapping takes nobody's memory.
        let base = unsafe {
            mmap_anonymous(ptr::null_mut(), len + 2 * page, ProtFlags::empty(), MapFlags::PRIVATE)?
        };
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| io::Error::other("memory at address 0"))?;
        let guarded = Guarded { base, page, len };
        guarded.protect(MprotectFlags::READ | MprotectFlags::WRITE)?;
        Ok(guarded)
    }

    /// The same, locked, and left out of core files and children.
    fn secret(octets: usize) -> io::Result<Guarded> {
        let guarded = Guarded::new(octets)?;
        // SAFETY: the pages are this value's own. A child without them ends where it would touch a key; with zeros in
        // their place it would encrypt under a key that is none.
        unsafe {
            mlock(guarded.start().cast(), guarded.len)?;
            madvise(guarded.start().cast(), guarded.len, Advice::LinuxDontDump)?;
            madvise(guarded.start().cast(), guarded.len, Advice::LinuxDontFork)?;
        }
        Ok(guarded)
    }

    fn start(&self) -> *mut u8 {
        // SAFETY: the first guard page is part of the mapping.
        unsafe { self.base.as_ptr().add(self.page) }
    }

    fn protect(&self, flags: MprotectFlags) -> io::Result<()> {
        // SAFETY: the pages are this value's own, and no reference into them is held across the call.
        Ok(unsafe { mprotect(self.start().cast(), self.len, flags) }?)
    }

    /// Everything between the guard pages.
    pub(crate) fn octets(&mut self) -> &mut [u8] {
        // SAFETY: the pages are initialised and belong to this value. They can be written: `Context` keeps its pages
        // read-only and never calls this before `give_back` has made them writable again.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.len) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and it ends with it.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len + 2 * self.page) };
    }
}

/// The size of a cipher's contexts, and memory for the next ones.
#[derive(Debug)]
pub(crate) struct Pool {
    size: usize,
    align: usize,
    /// Whether contexts stay writable, so that a check of something else is not ended by a library that writes them.
    writable: bool,
    spare: Mutex<Vec<Guarded>>,
}

/// The prepared key of a cipher. Nobody can write it.
pub(crate) struct Context {
    /// Present until the value is dropped.
    memory: Option<Guarded>,
    at: NonNull<c_void>,
    pool: Arc<Pool>,
}

// SAFETY: the memory is read-only from its making to its end.
unsafe impl Send for Context {}
// SAFETY: as above; many threads may read it.
unsafe impl Sync for Context {}

/// The reason why there is no context.
#[derive(Debug)]
pub(crate) enum ContextError {
    /// The system has no such memory: more keys than may be locked (RLIMIT_MEMLOCK).
    Memory(io::Error),
    /// `setkey` wrote outside of the octets that the description asks for.
    Outside,
}

impl Pool {
    /// A pool for contexts of `size` octets at multiples of `align`, which is a power of two.
    pub(crate) fn new(size: usize, align: usize) -> Arc<Pool> {
        Arc::new(Pool { size, align, writable: false, spare: Mutex::new(Vec::new()) })
    }

    /// Another pool, whose contexts stay writable behind `setkey` if that is asked for: for checks alone.
    pub(crate) fn again(&self, writable: bool) -> Arc<Pool> {
        let (size, align) = (self.size, self.align);
        Arc::new(Pool { size, align, writable, spare: Mutex::new(Vec::new()) })
    }

    /// Octets from the start of a context to the end of its pages.
    pub(crate) fn span(&self) -> usize {
        self.size.next_multiple_of(self.align)
    }

    /// Whether all memory that was given back has zeros alone.
    pub(crate) fn is_wiped(&self) -> bool {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        spare.iter_mut().all(|memory| memory.octets().iter().all(|octet| *octet == 0))
    }

    /// The first octet of the context in its memory: as near to the guard page behind it as its alignment allows.
    fn offset(&self, memory: &Guarded) -> usize {
        memory.len - self.span()
    }

    fn give_back(&self, mut memory: Guarded) {
        if memory.protect(MprotectFlags::READ | MprotectFlags::WRITE).is_err() {
            // Unmapping gives the pages to the kernel, which wipes what it hands out.
            return;
        }
        memory.octets().zeroize();
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE {
            spare.push(memory);
        }
    }
}

impl Context {
    /// A context that `setkey` has filled, and what it answered.
    pub(crate) fn new(
        pool: &Arc<Pool>,
        setkey: impl FnOnce(*mut c_void) -> i32,
    ) -> Result<(Context, i32), ContextError> {
        let spare = pool.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut memory = match spare {
            Some(memory) => memory,
            None => Guarded::secret(pool.size.next_multiple_of(pool.align)).map_err(ContextError::Memory)?,
        };
        let offset = pool.offset(&memory);
        // SAFETY: the offset lies in the pages, since their length is at least the size of a context.
        let at = unsafe { memory.start().add(offset) };
        let answer = setkey(at.cast());
        let (front, rest) = memory.octets().split_at(offset);
        let behind = rest.get(pool.size..).unwrap_or_default();
        let outside = front.iter().chain(behind).any(|octet| *octet != 0);
        // From here on dropping the context gives the memory back, wiped.
        let context = Context {
            at: NonNull::new(at.cast()).unwrap_or(NonNull::dangling()),
            memory: Some(memory),
            pool: pool.clone(),
        };
        if outside {
            return Err(ContextError::Outside);
        }
        if let Some(memory) = context.memory.as_ref().filter(|_| !pool.writable) {
            memory.protect(MprotectFlags::READ).map_err(ContextError::Memory)?;
        }
        Ok((context, answer))
    }

    /// The address that the cipher's functions are handed.
    pub(crate) fn at(&self) -> *const c_void {
        self.at.as_ptr()
    }

    /// The first address of the pages, and the first behind them.
    pub(crate) fn pages(&self) -> (usize, usize) {
        self.memory.as_ref().map_or((0, 0), |memory| {
            let start = memory.start() as usize;
            (start, start + memory.len)
        })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.pool.give_back(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(pool: &Arc<Pool>, size: usize) -> (Context, i32) {
        let fill = |at: *mut c_void| {
            // SAFETY: the context has so many octets.
            unsafe { at.cast::<u8>().write_bytes(0xa5, size) };
            7
        };
        Context::new(pool, fill).expect("a context")
    }

    /// The line of this address in the kernel's list, and the lines behind it to the next mapping.
    fn smaps(at: usize) -> String {
        let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut found = String::new();
        let mut within = false;
        for line in text.lines() {
            let range = line.split(' ').next().and_then(|word| word.split_once('-'));
            if let Some((from, to)) = range {
                let hex = |word| usize::from_str_radix(word, 16).unwrap_or(0);
                within = (hex(from)..hex(to)).contains(&at);
            }
            if within {
                found.push_str(line);
                found.push('\n');
            }
        }
        found
    }

    #[test]
    fn a_context_is_aligned_locked_read_only_and_between_guard_pages() {
        for (size, align) in [(1, 1), (240, 16), (500, 64), (4096, 8), (65536, 64)] {
            let pool = Pool::new(size, align);
            let (context, answer) = made(&pool, size);
            assert_eq!(answer, 7);
            let at = context.at() as usize;
            assert!(at.is_multiple_of(align));
            let (start, end) = context.pages();
            assert!(end - (at + size) < align, "{size} {align}");
            let text = smaps(at);
            assert!(text.lines().next().unwrap().contains(" r--p "), "{text}");
            let flags = text.lines().find(|line| line.starts_with("VmFlags:")).unwrap();
            for flag in [" lo", " dd", " dc"] {
                assert!(flags.contains(flag), "{flag}: {flags}");
            }
            assert!(smaps(start - 1).contains(" ---p ") && smaps(end).contains(" ---p "));
        }
    }

    #[test]
    fn memory_is_wiped_and_used_again() {
        let pool = Pool::new(48, 16);
        let (context, _) = made(&pool, 48);
        let at = context.at();
        drop(context);
        let see = |now: *mut c_void| {
            assert_eq!(now.cast_const(), at);
            // SAFETY: the context has 48 octets, and setkey may read them.
            let octets = unsafe { std::slice::from_raw_parts(now.cast::<u8>(), 48) };
            i32::from(octets.iter().any(|octet| *octet != 0))
        };
        assert_eq!(Context::new(&pool, see).unwrap().1, 0);
    }

    #[test]
    fn who_writes_beside_its_octets_gets_no_context() {
        for (offset, size) in [(-1, 40), (40, 40), (47, 40)] {
            let pool = Pool::new(size, 16);
            let write = |at: *mut c_void| {
                // SAFETY: the page goes on in front of the context, and 8 octets behind it.
                unsafe { at.cast::<u8>().offset(offset).write(1) };
                0
            };
            assert!(matches!(Context::new(&pool, write), Err(ContextError::Outside)), "{offset}");
            // What was written is not left for the next key.
            assert!(Context::new(&pool, |_| 0).is_ok());
        }
    }
}
