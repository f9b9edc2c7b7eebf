//! The files of a cipher: opened by a walk from the root that follows no link, and trusted only if nobody but root can
//! change them.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;

use crate::error::{FileFault, LoadError};
use crate::sealed::Sealed;

/// The number of octets that a library may have.
pub(crate) const MOST_LIBRARY: usize = 64 * 1024 * 1024;

/// Who may have written the files of a cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Each file and each folder above belongs to root, and neither group nor others may write it: the daemon.
    Root,
    /// Whoever calls answers for them: a developer who checks a cipher in a folder of their own.
    Caller,
}

/// The folder of a manifest, open.
#[derive(Debug)]
pub(crate) struct Folder {
    open: OwnedFd,
    path: PathBuf,
    trust: Trust,
}

impl Folder {
    /// The folder of this file, and the file's name in it.
    pub(crate) fn of(file: &Path, trust: Trust) -> Result<(Folder, OsString), LoadError> {
        let wrong = |path: &Path, why| LoadError::File { path: path.to_owned(), why };
        let name = file.file_name().ok_or_else(|| wrong(file, FileFault::Path))?;
        let above = file.parent().unwrap_or(Path::new(""));
        let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        if trust == Trust::Root && !(above.is_absolute() && above.components().all(plain)) {
            return Err(wrong(file, FileFault::Path));
        }
        let mut path = PathBuf::from(if above.is_absolute() { "/" } else { "." });
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut open = openat(CWD, &path, flags, Mode::empty()).map_err(|error| fault(&path, error))?;
        judge(&open, trust, &path)?;
        for part in above.components().filter(|part| !matches!(part, Component::RootDir)) {
            path.push(part);
            open = match openat(&open, part.as_os_str(), flags, Mode::empty()) {
                // A link is no folder, and says so here.
                Err(Errno::NOTDIR) if is_link(&open, part.as_os_str()) => {
                    return Err(wrong(&path, FileFault::Link));
                }
                opened => opened.map_err(|error| fault(&path, error))?,
            };
            judge(&open, trust, &path)?;
        }
        Ok((Folder { open, path: above.to_owned(), trust }, name.to_owned()))
    }

    /// The path of a file in it, for messages.
    pub(crate) fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        self.path.join(file)
    }

    /// The content of a file, if it has at most so many octets.
    pub(crate) fn read(&self, name: &OsStr, most: usize) -> Result<Vec<u8>, LoadError> {
        let path = self.path(name);
        // A pipe would make the opening wait for somebody who writes.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = openat(&self.open, name, flags, Mode::empty()).map_err(|error| fault(&path, error))?;
        let stat = judge(&open, self.trust, &path)?;
        let wrong = |why| LoadError::File { path: path.clone(), why };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(wrong(FileFault::Kind));
        }
        let mut octets = Vec::new();
        let bound = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
        File::from(open).take(bound).read_to_end(&mut octets).map_err(|error| wrong(error.into()))?;
        if octets.len() > most {
            return Err(wrong(FileFault::Length(most)));
        }
        Ok(octets)
    }

    /// A library, read once into sealed memory.
    pub(crate) fn seal(&self, name: &OsStr) -> Result<Sealed, LoadError> {
        let octets = self.read(name, MOST_LIBRARY)?;
        Sealed::new("ravelin-cipher", &octets)
            .map_err(|error| LoadError::System("cannot seal a library", error))
    }
}

/// The error of an opening. The last part of a path that is a link gives ELOOP.
fn fault(path: &Path, error: Errno) -> LoadError {
    let why = match error {
        Errno::LOOP => FileFault::Link,
        other => FileFault::System(io::Error::from(other)),
    };
    LoadError::File { path: path.to_owned(), why }
}

fn is_link(folder: &OwnedFd, name: &OsStr) -> bool {
    rustix::fs::statat(folder, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

/// Whether what was opened, and not what has its name now, may be trusted.
fn judge(open: &OwnedFd, trust: Trust, path: &Path) -> Result<Stat, LoadError> {
    let stat = fstat(open).map_err(|error| fault(path, error))?;
    let wrong = |why| LoadError::File { path: path.to_owned(), why };
    match (trust, owned(stat.st_uid, stat.st_mode)) {
        (Trust::Root, Err(why)) => Err(wrong(why)),
        _ => Ok(stat),
    }
}

/// The rule of ownership.
fn owned(owner: u32, mode: u32) -> Result<(), FileFault> {
    if owner != 0 {
        return Err(FileFault::Owner(owner));
    }
    if mode & 0o022 != 0 {
        return Err(FileFault::Writable(mode & 0o7777));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_root_owns_and_nobody_else_writes_is_trusted() {
        assert!(owned(0, 0o100_644).is_ok() && owned(0, 0o040_755).is_ok());
        assert!(matches!(owned(1000, 0o100_644), Err(FileFault::Owner(1000))));
        // The sticky bit of /tmp does not keep others from adding names.
        for mode in [0o100_664, 0o100_646, 0o041_777] {
            assert!(matches!(owned(0, mode), Err(FileFault::Writable(_))), "{mode:o}");
        }
    }

    #[test]
    fn a_daemon_takes_whole_paths_alone() {
        for path in ["manifest.json", "./manifest.json", "/etc/../etc/passwd", "/"] {
            let error = Folder::of(Path::new(path), Trust::Root).unwrap_err();
            assert!(matches!(error, LoadError::File { why: FileFault::Path, .. }), "{path}: {error}");
        }
    }
}
