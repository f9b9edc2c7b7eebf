//! Messages on the disk until the collector is known to have read them.
//!
//! One file, `spool`: a line with the last message that is in it no more (`ravelin-spool 1 SEQ HASH`), then messages in
//! the form in which they are sent. A message counts once it is written and synchronised (`fdatasync`, one for each
//! batch), and only then may it be sent: after a loss of power no number is used for a second message. The file is
//! written anew without the messages that are confirmed, and renamed over the old one. `lock` says whose it is.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::error::RemoteLogError;
use crate::frames::{self, Frame};
use crate::message::{LONGEST, Mark, hex};

/// Octets that are read from the file at once: some of the longest frames.
const CHUNK: usize = 4 * (LONGEST + 8);
/// The first word of the file, and the version of its form.
const FIRST: &str = "ravelin-spool 1 ";
/// The octets of the first line at most.
const LONGEST_LINE: usize = 120;

/// There is no room for a message.
#[derive(Debug)]
pub(crate) struct SpoolFull;

/// What was wrong with the file that an earlier sender left.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Repairs {
    /// The octets of a message that was not whole: it was not sent.
    pub(crate) torn: u64,
    /// Where the file was put that somebody changed.
    pub(crate) damaged: Option<PathBuf>,
}

/// A place in the file.
#[derive(Clone, Copy, Debug)]
struct Position {
    offset: u64,
    mark: Mark,
}

/// The spool of this process.
#[derive(Debug)]
pub(crate) struct Spool {
    folder: PathBuf,
    file: File,
    limit: u64,
    /// Behind the first line.
    begin: Position,
    /// What was given to the connection.
    sent: Position,
    /// What is on the disk.
    end: Position,
    /// Messages that are to be written.
    pending: Vec<u8>,
    /// The last one of these.
    head: Mark,
    count: u64,
    _lock: File,
}

/// Make the folder of a spool, or look whether the one that is there belongs to root alone.
///
/// # Errors
/// [`RemoteLogError`], if it cannot be made, or others may write to it.
pub(crate) fn folder(path: &Path) -> Result<(), RemoteLogError> {
    let what = "folder of the spool";
    let failed = |source| RemoteLogError::File { what, path: path.to_owned(), source };
    if std::fs::symlink_metadata(path).is_err() {
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    }
    let about = std::fs::symlink_metadata(path).map_err(failed)?;
    let refused = |why: String| Err(RemoteLogError::Unsafe { what, path: path.to_owned(), why });
    if !about.is_dir() {
        return refused("it is no folder".to_owned());
    }
    if about.uid() != 0 {
        return refused(format!("it belongs to user {}: chown root:root it", about.uid()));
    }
    if about.mode() & 0o022 != 0 {
        return refused(format!("mode {:04o} lets others write to it: chmod 0700 it", about.mode() & 0o7777));
    }
    Ok(())
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} is no regular file", path.display()),
        ));
    }
    Ok(file)
}

/// A file that has the first line alone, on the disk.
fn begun(path: &Path, after: Mark) -> io::Result<(File, Position)> {
    let mut file = open(path)?;
    file.set_len(0)?;
    let line = format!("{FIRST}{} {}\n", after.seq, hex(&after.hash));
    file.write_all(line.as_bytes())?;
    Ok((file, Position { offset: line.len() as u64, mark: after }))
}

impl Spool {
    /// Take the spool; `None`: another process has it.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(crate) fn take(folder: &Path, limit: u64) -> io::Result<Option<(Spool, Repairs)>> {
        let lock = open(&folder.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let path = folder.join("spool");
        let file = open(&path)?;
        let mut repairs = Repairs::default();
        let len = file.metadata()?.len();
        let (file, begin) = match first_line(&file)? {
            Some(begin) => (file, begin),
            None => {
                if len > 0 {
                    repairs.damaged = Some(set_aside(&path)?);
                }
                let (file, begin) = begun(&path, Mark::BEGIN)?;
                file.sync_all()?;
                File::open(folder)?.sync_all()?;
                (file, begin)
            }
        };
        let mut spool = Spool {
            folder: folder.to_owned(),
            file,
            limit,
            begin,
            sent: begin,
            end: begin,
            pending: Vec::new(),
            head: begin.mark,
            count: 0,
            _lock: lock,
        };
        spool.scan(&mut repairs)?;
        Ok(Some((spool, repairs)))
    }

    /// Find the end of the messages; what is behind it is taken away.
    fn scan(&mut self, repairs: &mut Repairs) -> io::Result<()> {
        let len = self.file.metadata()?.len();
        let rest = loop {
            let octets = self.read(self.end.offset, len)?;
            let mut used = 0;
            let rest = loop {
                match octets.get(used..).map_or(Frame::Part, frames::first) {
                    Frame::Whole(message, len) if frames::follows(message, self.end.mark) => {
                        self.end = Position {
                            offset: self.end.offset + len as u64,
                            mark: self.end.mark.then(message),
                        };
                        used += len;
                    }
                    Frame::Part => break Frame::Part,
                    _ => break Frame::Bad,
                }
            };
            if used == 0 || rest == Frame::Bad {
                break rest;
            }
        };
        self.head = self.end.mark;
        let left = len.saturating_sub(self.end.offset);
        if rest == Frame::Bad {
            // What somebody changed is evidence itself.
            let path = self.folder.join("spool");
            let aside = aside(&path);
            std::fs::copy(&path, &aside)?;
            repairs.damaged = Some(aside);
        } else {
            repairs.torn = left;
        }
        if left > 0 {
            self.file.set_len(self.end.offset)?;
            self.file.sync_all()?;
        }
        Ok(())
    }

    /// The octets from here on, up to `end`, a chunk at most.
    fn read(&self, from: u64, end: u64) -> io::Result<Vec<u8>> {
        let len = usize::try_from(end.saturating_sub(from)).unwrap_or(CHUNK).min(CHUNK);
        let mut octets = vec![0; len];
        self.file.read_exact_at(&mut octets, from)?;
        Ok(octets)
    }

    /// The last message that is in the spool or was.
    pub(crate) fn head(&self) -> Mark {
        self.head
    }

    /// The octets of messages that are not confirmed.
    pub(crate) fn octets(&self) -> u64 {
        self.end.offset.saturating_sub(self.begin.offset) + self.pending.len() as u64
    }

    /// The octets that were sent and are not confirmed.
    pub(crate) fn in_doubt(&self) -> u64 {
        self.sent.offset.saturating_sub(self.begin.offset)
    }

    /// The octets for which there is room.
    pub(crate) fn room(&self) -> u64 {
        self.limit.saturating_sub(self.end.offset + self.pending.len() as u64)
    }

    /// Put a message in line for [`Spool::commit`]; `message` makes it from the one before it.
    ///
    /// # Errors
    /// [`SpoolFull`].
    pub(crate) fn append(&mut self, message: impl FnOnce(Mark) -> String) -> Result<(), SpoolFull> {
        let message = message(self.head);
        let frame = frames::framed(&message);
        if frame.len() as u64 > self.room() {
            return Err(SpoolFull);
        }
        self.pending.extend_from_slice(frame.as_bytes());
        self.head = self.head.then(message.as_bytes());
        self.count += 1;
        Ok(())
    }

    /// Write what is in line, and have it on the disk.
    ///
    /// # Errors
    /// How many messages the disk did not take, and why: none of them is in the spool.
    pub(crate) fn commit(&mut self) -> Result<(), (u64, io::Error)> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let (pending, count) = (std::mem::take(&mut self.pending), std::mem::take(&mut self.count));
        // An earlier failure may have left something behind the end.
        let written = self.file.set_len(self.end.offset).and_then(|()| {
            self.file.write_all_at(&pending, self.end.offset)?;
            self.file.sync_data()
        });
        match written {
            Ok(()) => {
                self.end = Position { offset: self.end.offset + pending.len() as u64, mark: self.head };
                Ok(())
            }
            Err(error) => {
                self.head = self.end.mark;
                let _ = self.file.set_len(self.end.offset);
                Err((count, error))
            }
        }
    }

    /// Messages that were not sent yet, as they are to be sent; empty: none.
    ///
    /// # Errors
    /// If the disk refuses, or the file is not what was written.
    pub(crate) fn next(&mut self) -> io::Result<Vec<u8>> {
        let mut octets = self.read(self.sent.offset, self.end.offset)?;
        let (len, mark) = frames::whole(&octets, self.sent.mark);
        if len == 0 && !octets.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the spool was changed under way"));
        }
        octets.truncate(len);
        self.sent = Position { offset: self.sent.offset + len as u64, mark };
        Ok(octets)
    }

    /// The connection broke: what is not confirmed is to be sent again.
    pub(crate) fn rewind(&mut self) {
        self.sent = self.begin;
    }

    /// What was sent is confirmed, and leaves the spool.
    ///
    /// # Errors
    /// If the disk refuses: everything stays.
    pub(crate) fn confirm(&mut self) -> io::Result<()> {
        if self.in_doubt() == 0 {
            return Ok(());
        }
        let (path, new) = (self.folder.join("spool"), self.folder.join("spool.new"));
        let (mut file, begin) = begun(&new, self.sent.mark)?;
        self.file.seek(SeekFrom::Start(self.sent.offset))?;
        let left = self.end.offset - self.sent.offset;
        let copied = io::copy(&mut (&self.file).take(left), &mut file)?;
        if copied != left {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.sync_all()?;
        std::fs::rename(&new, &path)?;
        self.file = file;
        self.end.offset = begin.offset + left;
        (self.begin, self.sent) = (begin, begin);
        File::open(&self.folder)?.sync_all()
    }
}

/// The place behind the first line, if there is one.
fn first_line(file: &File) -> io::Result<Option<Position>> {
    let mut octets = Vec::new();
    let mut file = file;
    file.seek(SeekFrom::Start(0))?;
    file.take(LONGEST_LINE as u64).read_to_end(&mut octets)?;
    let Some(line) =
        octets.split_inclusive(|octet| *octet == b'\n').next().filter(|line| line.ends_with(b"\n"))
    else {
        return Ok(None);
    };
    let read = || {
        let text = std::str::from_utf8(line).ok()?.strip_prefix(FIRST)?.strip_suffix('\n')?;
        let (seq, hash) = text.split_once(' ')?;
        if hash.len() != 64 || !hash.is_ascii() {
            return None;
        }
        let mut mark = Mark { seq: seq.parse().ok()?, ..Mark::BEGIN };
        for (at, octet) in mark.hash.iter_mut().enumerate() {
            *octet = u8::from_str_radix(hash.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(Position { offset: line.len() as u64, mark })
    };
    Ok(read())
}

/// A name beside a file that is in nobody's way.
fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".damaged-{}", crate::clock::wall().as_millis()));
    name.into()
}

fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let aside = aside(path);
    std::fs::rename(path, &aside)?;
    Ok(aside)
}

#[cfg(test)]
mod tests;
