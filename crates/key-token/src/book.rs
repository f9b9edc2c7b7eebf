//! The book of used key files: `/var/lib/ravelin/used-key-files`, which outlives a reboot.
//!
//! The file is 32 octets of head and 32 octets for each key file that was opened on this host, in order: SHA-256 over
//! a word and the file's id, neither of which is secret. It grows only at its end. An entry is on the disk, and the
//! file's name in its folder, before [`UsedBook::enter`] returns. Whatever is not as it was written refuses every key
//! file: the book never counts as shorter than it is.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ring::digest::{Context, SHA256};
use rustix::fs::{CWD, FlockOperation, FsWord, OFlags, RenameFlags, flock, fstatfs, renameat_with};
use rustix::io::Errno;

use crate::error::{Fault, TokenError};
use crate::file::FileId;

/// Octets of an entry, and of the head.
const ENTRY: usize = 32;
const HEAD: &[u8; ENTRY] = b"ravelin used key files, v1\n\0\0\0\0\0";
/// What is hashed in front of a file's id.
const WORD: &[u8] = b"ravelin used key file v1";
/// How often a lock is tried that another process has, and how long between two times.
const TRIES: u32 = 100;
/// The numbers of tmpfs and ramfs (linux/magic.h).
const IN_MEMORY: [FsWord; 2] = [0x0102_1994, 0x8584_58f6];
const BETWEEN: Duration = Duration::from_millis(50);

/// The book of used key files on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedBook {
    path: PathBuf,
    most: u64,
    must_last: bool,
}

impl UsedBook {
    /// The path where the book is unless another one is named.
    pub const PATH: &str = "/var/lib/ravelin/used-key-files";
    /// The most entries: a key file each second for twelve days, and 32 MiB.
    pub const MOST: u64 = 1 << 20;

    /// The book at a path. It is made at the first entry, with its folder, where the folder above is there.
    pub fn at(path: impl Into<PathBuf>) -> UsedBook {
        UsedBook { path: path.into(), most: UsedBook::MOST, must_last: false }
    }

    /// The same book, refused where its file system is one of memory, which ends with a reboot.
    pub fn that_lasts(self) -> UsedBook {
        UsedBook { must_last: true, ..self }
    }

    /// The same book with room for fewer entries.
    pub fn with_most(self, entries: u64) -> UsedBook {
        UsedBook { most: entries.min(UsedBook::MOST), ..self }
    }

    /// Whether a key file may still be opened. Nothing is written, and another process may be faster:
    /// [`UsedBook::enter`] has the last word.
    ///
    /// # Errors
    /// The file was used ([`Fault::Used`]), or the book cannot be read, is damaged or full.
    pub fn check(&self, id: FileId) -> Result<(), TokenError> {
        match self.open(OpenOptions::new().read(true)) {
            Ok(mut book) => {
                self.lock(&book, FlockOperation::NonBlockingLockShared)?;
                self.search(&mut book, id).map(drop)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(self.failed("be opened", &error)),
        }
    }

    /// Enter a key file. When this returns, the entry outlives a crash and a reboot.
    ///
    /// # Errors
    /// As [`UsedBook::check`], or the book cannot be written or synced. The keying material must then not be used.
    pub fn enter(&self, id: FileId) -> Result<(), TokenError> {
        let folder = self.folder()?;
        self.make(&folder)?;
        let mut book = self
            .open(OpenOptions::new().read(true).append(true))
            .map_err(|error| self.failed("be opened for writing", &error))?;
        self.lock(&book, FlockOperation::NonBlockingLockExclusive)?;
        // Somebody may have exchanged it in the meantime: the lock is then on a file without a name.
        self.check_name(&book)?;
        let end = self.search(&mut book, id)?;
        let written = book.write_all(&fingerprint(id));
        if written.is_err() {
            // A part of an entry would make the book unusable; where it stays, the book says so.
            let _ = book.set_len(end);
        }
        let written = written.and_then(|()| book.sync_all()).and_then(|()| folder.sync_all());
        written.map_err(|error| self.failed("be written", &error))
    }

    /// Make the book where there is none, whole from the first moment on: an empty file is a damaged book.
    fn make(&self, folder: &File) -> Result<(), TokenError> {
        let failed = |error: io::Error| self.failed("be made", &error);
        let is_there = || match fs::symlink_metadata(&self.path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed(error)),
        };
        if is_there()? {
            return Ok(());
        }
        // Of several that make it at once, one does; the lock ends with the descriptor.
        self.lock(folder, FlockOperation::NonBlockingLockExclusive)?;
        if is_there()? {
            return self.unlock(folder);
        }
        let aside = self.path.with_extension("new");
        match fs::remove_file(&aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let mut book =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside).map_err(failed)?;
        book.write_all(HEAD).and_then(|()| book.sync_all()).map_err(failed)?;
        renameat_with(CWD, &aside, CWD, &self.path, RenameFlags::NOREPLACE)
            .map_err(|error| failed(error.into()))?;
        folder.sync_all().map_err(failed)?;
        self.unlock(folder)
    }

    /// Open the book: a file of this user's that nobody else writes, and no link.
    fn open(&self, options: &mut OpenOptions) -> io::Result<File> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let book = options.custom_flags(flags.bits() as i32).open(&self.path)?;
        let status = book.metadata()?;
        if !status.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        owned(&status).map_err(io::Error::other)?;
        if self.must_last && IN_MEMORY.contains(&fstatfs(&book)?.f_type) {
            return Err(io::Error::other(
                "its file system is in memory and ends with a reboot (tmpfs, ramfs)",
            ));
        }
        Ok(book)
    }

    /// The folder of the book, made where it is missing.
    fn folder(&self) -> Result<File, TokenError> {
        let above =
            self.path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let failed = |error: io::Error| self.failed("have its folder", &error);
        match fs::DirBuilder::new().mode(0o700).create(above) {
            Ok(()) => {
                let over =
                    above.parent().filter(|over| !over.as_os_str().is_empty()).unwrap_or(Path::new("."));
                File::open(over).and_then(|over| over.sync_all()).map_err(failed)?;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
        let folder = File::open(above).map_err(failed)?;
        let status = folder.metadata().map_err(failed)?;
        owned(&status).map_err(|why| failed(io::Error::other(format!("in its folder, {why}"))))?;
        Ok(folder)
    }

    fn lock(&self, book: &File, how: FlockOperation) -> Result<(), TokenError> {
        for _ in 0..TRIES {
            match flock(book, how) {
                Ok(()) => return Ok(()),
                Err(Errno::WOULDBLOCK) => std::thread::sleep(BETWEEN),
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.failed("be locked", &error.into())),
            }
        }
        let text = format!("{}: another process holds the book of used key files", self.path.display());
        Err(TokenError::new(
            Fault::Book,
            text,
            "end the process that hangs (`fuser` names it), and try again",
        ))
    }

    fn unlock(&self, folder: &File) -> Result<(), TokenError> {
        flock(folder, FlockOperation::Unlock).map_err(|error| self.failed("be unlocked", &error.into()))
    }

    fn check_name(&self, book: &File) -> Result<(), TokenError> {
        let same = || {
            let (held, named) = (book.metadata()?, fs::symlink_metadata(&self.path)?);
            Ok(held.dev() == named.dev() && held.ino() == named.ino())
        };
        match same() {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err(self.failed("be written", &io::Error::other("it was exchanged at the same time")))
            }
            Err(error) => Err(self.failed("be written", &error)),
        }
    }

    /// Look for a file; the length of the book where it is not there and there is room for it.
    fn search(&self, book: &mut File, id: FileId) -> Result<u64, TokenError> {
        let place = self.path.display();
        let failed = |error: io::Error| self.failed("be read", &error);
        // What is longer than a full book is refused without reading it.
        let length = book.metadata().map_err(failed)?.len();
        let entry = ENTRY as u64;
        if length % entry != 0 {
            let whole = length - length % entry;
            let text = format!("{place}: the book of used key files is damaged: its last entry is not whole");
            let remedy = format!(
                "a key file whose entry is not whole was not used: where nothing but a crash can have cut it, run \
                 `truncate -s {whole} {place}`"
            );
            return Err(TokenError::new(Fault::Book, text, remedy));
        }
        if length > (UsedBook::MOST + 1) * entry {
            return Err(self.failed("be read", &io::Error::other("it is longer than it can be")));
        }
        let mut octets = Vec::with_capacity(length as usize);
        book.seek(SeekFrom::Start(0)).map_err(failed)?;
        Read::by_ref(book).take(length).read_to_end(&mut octets).map_err(failed)?;
        let (entries, rest) = octets.as_chunks::<ENTRY>();
        let Some((head, entries)) = entries.split_first() else {
            return Err(self.failed("be read", &io::Error::other("it became shorter")));
        };
        if head != HEAD || !rest.is_empty() || octets.len() as u64 != length {
            let text = format!("{place}: this is no book of used key files, or it is damaged");
            let remedy = "restore the book; where it is lost, remove the file, and delete every key file that this host ever had";
            return Err(TokenError::new(Fault::Book, text, remedy));
        }
        if entries.contains(&fingerprint(id)) {
            let text = format!("the key file {id} was used on this host before (entry in {place})");
            let remedy = "make a new one with `ravelin key wrap`: a key file serves one association once, since sequence \
                          numbers start again and would repeat under one key";
            return Err(TokenError::new(Fault::Used, text, remedy));
        }
        if entries.len() as u64 >= self.most {
            let text = format!("{place}: the book of used key files is full ({} entries)", self.most);
            let remedy = "make a new key on the token, remove the old one from it and every key file that is sealed to the \
                          old one, and then remove the book";
            return Err(TokenError::new(Fault::Book, text, remedy));
        }
        Ok(length)
    }

    fn failed(&self, what: &str, error: &io::Error) -> TokenError {
        let text = format!("{}: the book of used key files cannot {what}: {error}", self.path.display());
        let remedy = "no key file is opened without it: run as root, on a file system that can be written, where only \
                      root writes file and folder";
        TokenError::new(Fault::Book, text, remedy)
    }
}

/// Whether a file or folder belongs to this user, and nobody else may write it.
fn owned(status: &fs::Metadata) -> Result<(), String> {
    let own = rustix::process::geteuid().as_raw();
    if status.uid() != own {
        return Err(format!("it belongs to user {}, not to user {own}", status.uid()));
    }
    if status.mode() & 0o022 != 0 {
        return Err(format!("others may write it (mode {:o})", status.mode() & 0o7777));
    }
    Ok(())
}

fn fingerprint(id: FileId) -> [u8; ENTRY] {
    let mut context = Context::new(&SHA256);
    context.update(WORD);
    context.update(&id.0);
    let mut octets = [0; ENTRY];
    octets.copy_from_slice(context.finish().as_ref());
    octets
}
