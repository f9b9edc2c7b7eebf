//! Memory that holds keys: wiped when it is freed, and a kind that only those who hold its descriptor can map, for keys on their way
//! to another process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// The system's allocator, which wipes what is given back: texts of keys in buffers of libraries included. A program declares it:
/// `#[global_allocator] static MEMORY: Wiping = Wiping;`.
#[derive(Clone, Copy, Debug)]
pub struct Wiping;

// SAFETY: memory comes from the system's allocator and goes back to it, with the layout that it came with.
unsafe impl GlobalAlloc for Wiping {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: `memory` has `layout.size()` octets, which nobody uses any more. What they are set to is looked at, as far as the
        // compiler knows, so that it is not left out; then they go back as they came.
        unsafe {
            memory.write_bytes(0, layout.size());
            System.dealloc(black_box(memory), layout);
        }
    }

    // `realloc` is that of the trait: it allocates, copies, and gives the old memory to `dealloc`.
}

/// Memory of so many octets that the kernel itself does not map (memfd_secret(2)): it is in no swap, no core and no other process.
///
/// # Errors
/// If this kernel has none; then [`io::ErrorKind::Unsupported`] or the kernel's answer.
pub fn share(octets: &[u8]) -> io::Result<OwnedFd> {
    let length = libc::off_t::try_from(octets.len()).map_err(io::Error::other)?;
    // SAFETY: no pointer is passed.
    let fd = unsafe { libc::syscall(libc::SYS_memfd_secret, libc::O_CLOEXEC) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel has just returned it to us.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: no pointer is passed.
    if unsafe { libc::ftruncate(fd.as_raw_fd(), length) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mapping = Mapping::of(&fd, octets.len())?;
    // SAFETY: the mapping has that many octets, is ours alone, and does not overlap with `octets`.
    unsafe { ptr::copy_nonoverlapping(octets.as_ptr(), mapping.at.cast(), octets.len()) };
    Ok(fd)
}

/// Copy what is in such memory to `out`, which has as many octets; it is wiped then.
///
/// # Errors
/// If it cannot be mapped, as ordinary files cannot that are shorter.
pub fn take(fd: BorrowedFd<'_>, out: &mut [u8]) -> io::Result<()> {
    let mapping = Mapping::of(&fd, out.len())?;
    // SAFETY: the mapping has that many octets: the size of such memory never changes. Nothing else in this process refers to it.
    unsafe {
        ptr::copy_nonoverlapping(mapping.at.cast::<u8>(), out.as_mut_ptr(), out.len());
        mapping.at.cast::<u8>().write_bytes(0, out.len());
    }
    Ok(())
}

/// A shared mapping of some octets; goes with the value.
struct Mapping {
    at: *mut libc::c_void,
    length: usize,
}

impl Mapping {
    fn of(fd: &impl AsRawFd, length: usize) -> io::Result<Mapping> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: the kernel chooses the address, so nothing that is there is touched.
        let at = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, fd.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { at, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: ours, of this length, and nobody refers to it after this value.
        unsafe { libc::munmap(self.at, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_shared_is_taken_once_and_is_no_file() {
        let octets: Vec<u8> = (0..10_000).map(|n| n as u8).collect();
        let fd = match share(&octets) {
            Ok(fd) => fd,
            Err(error) => return println!("skipped: no memfd_secret here: {error}"),
        };
        let mut file = std::fs::File::from(fd.try_clone().unwrap());
        assert!(io::Read::read(&mut file, &mut [0; 1]).is_err());
        let mut out = vec![0; octets.len()];
        take(fd.as_fd(), &mut out).unwrap();
        assert_eq!(out, octets);
        take(fd.as_fd(), &mut out).unwrap();
        assert!(out.iter().all(|octet| *octet == 0));
    }

    #[test]
    fn memory_is_wiped_as_it_is_given_back() {
        let layout = Layout::from_size_align(4096, 8).unwrap();
        // SAFETY: the layout is not empty; the memory is written before it is given back. It is looked at afterwards by way of
        // /proc/self/mem, in which the kernel reads.
        let (address, first) = unsafe {
            let memory = Wiping.alloc(layout);
            memory.write_bytes(0x5a, layout.size());
            Wiping.dealloc(memory, layout);
            (memory as u64, 1024)
        };
        let mut octets = vec![0; 1024];
        let memory = std::fs::File::open("/proc/self/mem").unwrap();
        // The system's allocator keeps its own notes at the start.
        if std::os::unix::fs::FileExt::read_exact_at(&memory, &mut octets, address + first).is_ok() {
            assert!(octets.iter().all(|octet| *octet != 0x5a));
        }
    }
}
