//! Memory that nobody can change: what was hashed is what is mapped.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::io::Errno;

/// A file in memory whose content and length are fixed for good.
#[derive(Debug)]
pub(crate) struct Sealed(File);

/// Every change of content, length and seals.
const SEALS: SealFlags =
    SealFlags::WRITE.union(SealFlags::GROW).union(SealFlags::SHRINK).union(SealFlags::SEAL);

impl Sealed {
    /// A sealed copy of these octets.
    pub(crate) fn new(name: &str, octets: &[u8]) -> io::Result<Sealed> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Kernels before 6.3 do not know the flag, and give memory that can be executed without it.
        let made = match memfd_create(name, flags | MemfdFlags::EXEC) {
            Err(Errno::INVAL) => memfd_create(name, flags),
            made => made,
        };
        let mut file = File::from(made?);
        file.write_all(octets)?;
        fcntl_add_seals(&file, SEALS)?;
        Sealed::inherited(file.into())
    }

    /// A descriptor that another process gave, if it is sealed.
    pub(crate) fn inherited(from: OwnedFd) -> io::Result<Sealed> {
        if fcntl_get_seals(&from)?.contains(SEALS) {
            return Ok(Sealed(File::from(from)));
        }
        Err(io::Error::other("the memory is not sealed"))
    }

    /// All octets of the memory.
    pub(crate) fn octets(&self) -> io::Result<Vec<u8>> {
        let len = usize::try_from(self.0.metadata()?.len()).map_err(io::Error::other)?;
        let mut octets = vec![0; len];
        self.0.read_exact_at(&mut octets, 0)?;
        Ok(octets)
    }

    /// The path by which this process opens it.
    pub(crate) fn path(&self) -> CString {
        // A number has no NUL.
        CString::new(format!("/proc/self/fd/{}", self.0.as_raw_fd())).unwrap_or_default()
    }

    /// Device and inode, which no other file has.
    pub(crate) fn identity(&self) -> io::Result<(u64, u64)> {
        let stat = rustix::fs::fstat(&self.0)?;
        Ok((stat.st_dev, stat.st_ino))
    }
}

impl AsFd for Sealed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Sealed> for OwnedFd {
    fn from(sealed: Sealed) -> OwnedFd {
        sealed.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_memory_cannot_be_changed_in_any_way() {
        let sealed = Sealed::new("test", b"what was hashed").unwrap();
        assert_eq!(sealed.octets().unwrap(), b"what was hashed");
        assert!(sealed.0.write_at(b"W", 0).is_err());
        assert!(sealed.0.set_len(3).is_err() && sealed.0.set_len(100).is_err());
        assert!(fcntl_add_seals(&sealed.0, SealFlags::empty()).is_err());
        let again = std::fs::OpenOptions::new().write(true).open(sealed.path().to_str().unwrap()).unwrap();
        assert!(again.write_at(b"W", 0).is_err());
        assert_eq!(sealed.octets().unwrap(), b"what was hashed");
    }

    #[test]
    fn memory_without_seals_is_not_taken() {
        let open = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        fcntl_add_seals(&open, SealFlags::GROW | SealFlags::SHRINK).unwrap();
        assert!(Sealed::inherited(open).is_err());
    }
}
