//! SHA-256 of files, through one descriptor, of one version of the file: what is changed meanwhile has no digest.

use crate::sys;
use host_files::sha256;
use policy::Digest;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

/// A file as fstat(2) shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Change time, nanoseconds since 1970.
    pub version: u64,
    /// The size of the file in octets.
    pub size: u64,
    /// Whether the file is on a local file system that gives every change of a file a change time, which no process can
    /// set.
    pub is_trusted: bool,
}

impl Stat {
    /// Reads the state of an open file. The kernel (from 6.13 on) gives the next change another change time, because
    /// somebody has seen this one.
    pub fn of(file: BorrowedFd<'_>) -> io::Result<Stat> {
        let (seconds, nanoseconds, size) = sys::change_time(file)?;
        let version = seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds);
        Ok(Stat { version, size, is_trusted: sys::keeps_change_times(file)? })
    }
}

/// The digest of a file as it was when `stat` was taken.
pub fn of_version(file: BorrowedFd<'_>, stat: &Stat) -> Result<Digest, String> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let digest = sha256(Path::new(&path)).map_err(|error| error.to_string())?;
    let after = Stat::of(file).map_err(|error| error.to_string())?;
    if after != *stat {
        return Err("it was changed while it was read".into());
    }
    Ok(digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn the_digest_of_a_file_is_that_of_the_standard() {
        let path = std::env::temp_dir().join(format!("ravelin-digest-{}", std::process::id()));
        std::fs::write(&path, "abc").unwrap();
        // FIPS 180-4, example of one block.
        let want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(&path).unwrap().to_string(), want);
        let file = File::open(&path).unwrap();
        let stat = Stat::of(file.as_fd()).unwrap();
        assert_eq!(of_version(file.as_fd(), &stat).unwrap().to_string(), want);
        let old = Stat { version: stat.version - 1, ..stat };
        assert!(of_version(file.as_fd(), &old).unwrap_err().contains("changed"));
        std::fs::remove_file(&path).unwrap();
        assert!(sha256(Path::new("/dev/null")).unwrap_err().to_string().contains("regular"));
    }
}
