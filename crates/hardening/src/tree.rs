//! The files of a host, read below its root: bounded, and by no link that leads out of it.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2, readlinkat};
use rustix::io::Errno;

use crate::host::Host;

/// The most octets that are read of a text: modules.dep of a distribution's kernel has less than one MiB.
const MOST_TEXT: u64 = 8 << 20;
/// The most octets of a file whose digest is computed.
const MOST_DIGESTED: u64 = 512 << 20;
/// The most names that are read of a folder.
const MOST_NAMES: usize = 65_536;
/// How often a path is walked anew when a folder was moved meanwhile.
const ATTEMPTS: usize = 4;
/// A time stamp that lies this many seconds ahead of the clock says nothing about an age.
const AHEAD: u64 = 86_400;

/// The files of a host.
#[derive(Debug)]
pub(crate) struct Tree {
    root: OwnedFd,
    owner: u32,
    now: u64,
}

/// The reason why something could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// Nothing has this name.
    Absent(PathBuf),
    /// Something has the name, and the text says why it could not be read.
    Other(PathBuf, String),
}

impl ReadError {
    /// Whether nothing has the name.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, ReadError::Absent(_))
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Absent(path) => write!(f, "{} is not there", path.display()),
            ReadError::Other(path, why) => write!(f, "{}: {why}", path.display()),
        }
    }
}

/// What is known of a file beside its content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) kind: FileType,
    /// The permission bits of the file.
    pub(crate) mode: u32,
    pub(crate) owner: u32,
    /// The number of the device and of the inode: two paths with equal ones lead to one file.
    pub(crate) file: (u64, u64),
    /// The number of octets.
    pub(crate) len: u64,
    /// Seconds since 1970 of the last change of the content.
    modified: i64,
}

impl From<Stat> for Facts {
    fn from(stat: Stat) -> Facts {
        Facts {
            kind: FileType::from_raw_mode(stat.st_mode),
            mode: stat.st_mode & 0o7777,
            owner: stat.st_uid,
            file: (stat.st_dev, stat.st_ino),
            len: u64::try_from(stat.st_size).unwrap_or(0),
            modified: stat.st_mtime,
        }
    }
}

impl Tree {
    /// Opens the root of a host.
    pub(crate) fn open(host: &Host) -> io::Result<Tree> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, &host.root, flags, Mode::empty())?;
        Ok(Tree { root, owner: host.owner, now: host.now.as_secs() })
    }

    fn at(&self, path: &Path, flags: OFlags, resolve: ResolveFlags) -> Result<OwnedFd, ReadError> {
        let resolve = resolve | ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let mut tried = Err(Errno::AGAIN);
        for _ in 0..ATTEMPTS {
            tried = openat2(&self.root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve);
            if !matches!(tried, Err(Errno::AGAIN)) {
                break;
            }
        }
        tried.map_err(|error| unread(path, error))
    }

    fn facts_at(&self, path: &Path, flags: OFlags, resolve: ResolveFlags) -> Result<Facts, ReadError> {
        let open = self.at(path, OFlags::PATH | flags, resolve)?;
        fstat(&open).map(Facts::from).map_err(|error| unread(path, error))
    }

    /// The facts about a file, at the end of its links.
    pub(crate) fn facts(&self, path: impl AsRef<Path>) -> Result<Facts, ReadError> {
        self.facts_at(path.as_ref(), OFlags::empty(), ResolveFlags::empty())
    }

    /// Whether there is something at the end of the links of a path.
    pub(crate) fn has(&self, path: impl AsRef<Path>) -> Result<bool, ReadError> {
        match self.facts(path) {
            Ok(_) => Ok(true),
            Err(error) if error.is_absent() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Where a link leads, as it is written; `None` for what is no link.
    pub(crate) fn link(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        let path = path.as_ref();
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let open = self.at(path, flags, ResolveFlags::empty()).ok()?;
        let target = readlinkat(&open, "", Vec::new()).ok()?;
        Some(PathBuf::from(target.to_string_lossy().into_owned()))
    }

    /// A regular file, open. What is none is not opened, since opening a pipe waits and opening a device may do things.
    fn regular(&self, path: &Path, most: u64) -> Result<File, ReadError> {
        let other = |why: &str| ReadError::Other(path.to_owned(), why.to_owned());
        if self.facts(path)?.kind != FileType::RegularFile {
            return Err(other("this is no regular file"));
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let open = self.at(path, flags, ResolveFlags::empty())?;
        let facts = fstat(&open).map(Facts::from).map_err(|error| unread(path, error))?;
        match facts.kind {
            FileType::RegularFile if facts.len <= most => Ok(File::from(open)),
            FileType::RegularFile => Err(other(&format!("it has more than {most} octets"))),
            _ => Err(other("this is no regular file")),
        }
    }

    /// The octets of a file that has at most so many.
    pub(crate) fn octets(&self, path: impl AsRef<Path>, most: u64) -> Result<Vec<u8>, ReadError> {
        let path = path.as_ref();
        let other = |why: String| ReadError::Other(path.to_owned(), why);
        let mut octets = Vec::new();
        let file = self.regular(path, most)?;
        file.take(most.saturating_add(1))
            .read_to_end(&mut octets)
            .map_err(|error| other(error.to_string()))?;
        if u64::try_from(octets.len()).is_ok_and(|len| len <= most) {
            return Ok(octets);
        }
        Err(other(format!("it has more than {most} octets")))
    }

    /// The first octets of a file, at most so many.
    pub(crate) fn head(&self, path: impl AsRef<Path>, most: u64) -> Result<Vec<u8>, ReadError> {
        let path = path.as_ref();
        let mut octets = Vec::new();
        let file = self.regular(path, u64::MAX)?;
        let read = file.take(most).read_to_end(&mut octets);
        read.map_err(|error| ReadError::Other(path.to_owned(), error.to_string()))?;
        Ok(octets)
    }

    /// The text of a file; octets that are no UTF-8 are replaced.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Result<String, ReadError> {
        let octets = self.octets(path, MOST_TEXT)?;
        Ok(String::from_utf8_lossy(&octets).into_owned())
    }

    /// The text of a file, or none where nothing has the name.
    pub(crate) fn text_if_there(&self, path: impl AsRef<Path>) -> Result<Option<String>, ReadError> {
        match self.text(path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives the content of a file to `take`, piece by piece.
    pub(crate) fn pieces(
        &self,
        path: impl AsRef<Path>,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), ReadError> {
        let path = path.as_ref();
        let other = |why: String| ReadError::Other(path.to_owned(), why);
        let mut file = self.regular(path, MOST_DIGESTED)?;
        let mut buffer = vec![0; 1 << 16];
        let mut sum = 0_u64;
        loop {
            let count = file.read(&mut buffer).map_err(|error| other(error.to_string()))?;
            sum = sum.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
            match buffer.get(..count) {
                Some([]) | None => return Ok(()),
                Some(_) if sum > MOST_DIGESTED => {
                    return Err(other(format!("it has more than {MOST_DIGESTED} octets")));
                }
                Some(piece) => take(piece),
            }
        }
    }

    /// The names in a folder, in order, without those of itself and the one above.
    pub(crate) fn names(&self, path: impl AsRef<Path>) -> Result<Vec<String>, ReadError> {
        let path = path.as_ref();
        let open = self.at(path, OFlags::RDONLY | OFlags::DIRECTORY, ResolveFlags::empty())?;
        let mut names = Vec::new();
        for entry in Dir::new(open).map_err(|error| unread(path, error))? {
            let entry = entry.map_err(|error| unread(path, error))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
            if names.len() > MOST_NAMES {
                let why = format!("it has more than {MOST_NAMES} names");
                return Err(ReadError::Other(path.to_owned(), why));
            }
        }
        names.sort();
        Ok(names)
    }

    /// The names in a folder; none where nothing has its name.
    pub(crate) fn names_if_there(&self, path: impl AsRef<Path>) -> Result<Vec<String>, ReadError> {
        match self.names(path) {
            Err(error) if error.is_absent() => Ok(Vec::new()),
            names => names,
        }
    }

    /// The seconds since the content of a file or folder changed.
    pub(crate) fn age(&self, path: impl AsRef<Path>) -> Result<u64, ReadError> {
        let path = path.as_ref();
        let modified = u64::try_from(self.facts(path)?.modified).unwrap_or(0);
        self.since(path, modified)
    }

    /// The seconds since a time, in seconds since 1970, that a file or its content has.
    pub(crate) fn since(&self, path: &Path, time: u64) -> Result<u64, ReadError> {
        if time > self.now.saturating_add(AHEAD) {
            let why = "its time stamp lies ahead of the clock";
            return Err(ReadError::Other(path.to_owned(), why.to_owned()));
        }
        Ok(self.now.saturating_sub(time))
    }

    /// Whether only the owner of this host can change a file: it and each folder above belong to the owner, neither group
    /// nor others may write them, and no link leads there. The outer error says what could not be read, the inner one
    /// what is wrong.
    pub(crate) fn is_guarded(&self, path: &Path) -> Result<Result<(), String>, ReadError> {
        let mut walked = PathBuf::from("/");
        let mut all = vec![walked.clone()];
        for part in path.components() {
            match part {
                Component::Normal(name) => walked.push(name),
                Component::RootDir | Component::CurDir => continue,
                Component::ParentDir | Component::Prefix(_) => {
                    return Ok(Err(format!("{} is not written without ..", path.display())));
                }
            }
            all.push(walked.clone());
        }
        for at in &all {
            if self.link(at).is_some() {
                return Ok(Err(format!("{} is a link", at.display())));
            }
            let facts = self.facts_at(at, OFlags::NOFOLLOW, ResolveFlags::NO_SYMLINKS)?;
            if let Err(why) = self.judge(&facts) {
                return Ok(Err(format!("{} {why}", at.display())));
            }
        }
        Ok(Ok(()))
    }

    /// Whether the owner of this host owns something, and neither group nor others may write it.
    pub(crate) fn judge(&self, facts: &Facts) -> Result<(), String> {
        if facts.owner != self.owner {
            return Err(format!("belongs to user {}, not to root", facts.owner));
        }
        if facts.mode & 0o022 != 0 {
            return Err(format!("may be written by group or others (mode {:04o})", facts.mode));
        }
        Ok(())
    }
}

fn unread(path: &Path, error: Errno) -> ReadError {
    match error {
        // A name below something that is no folder is not there either.
        Errno::NOENT | Errno::NOTDIR => ReadError::Absent(path.to_owned()),
        other => ReadError::Other(path.to_owned(), io::Error::from(other).to_string()),
    }
}
