//! The memory that a library was mapped to, as the kernel tells it (proc_pid_maps(5)).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{major, minor};

use crate::sealed::Sealed;

/// The list of this process's mappings, opened before a filter forbids it. Each reading tells what is there then.
#[derive(Debug)]
pub(crate) struct Maps(File);

/// Octets of the list that are read: some thousand mappings.
const MOST: usize = 4 << 20;

impl Maps {
    /// Open the list of this process.
    pub(crate) fn open() -> io::Result<Maps> {
        File::open("/proc/self/maps").map(Maps)
    }

    /// The descriptor of the list.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// The places where this process has a sealed library.
    pub(crate) fn of(&self, library: &Sealed) -> io::Result<Ranges> {
        let (device, inode) = library.identity()?;
        let text = self.text()?;
        Ok(Ranges(text.lines().filter_map(|line| range(line, device, inode)).collect()))
    }

    /// The memory of this process that can be written, parted into these places and all others.
    pub(crate) fn writable(&self, places: &[Range<usize>]) -> io::Result<Writable> {
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for line in self.text()?.lines() {
            let mut words = line.split_ascii_whitespace();
            let Some(mut at) = words.next().and_then(addresses) else { continue };
            let rights = words.next().unwrap_or_default();
            // Behind offset, device and inode. What the kernel itself maps has a name that begins so.
            let kernel = words.nth(3).is_some_and(|name| name.starts_with("[v"));
            if !rights.starts_with("rw") || kernel {
                continue;
            }
            for place in places {
                let (start, end) = (place.start.max(at.start), place.end.min(at.end));
                if start < end {
                    others.push(at.start..start);
                    own.push(start..end);
                    at.start = end;
                }
            }
            others.push(at);
        }
        others.retain(|at| !at.is_empty());
        Ok(Writable { own, others })
    }

    fn text(&self) -> io::Result<String> {
        let mut text = Vec::new();
        let mut piece = vec![0; 64 << 10];
        while text.len() < MOST {
            let len = self.0.read_at(&mut piece, text.len() as u64)?;
            if len == 0 {
                break;
            }
            text.extend_from_slice(piece.get(..len).unwrap_or_default());
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Memory that can be written.
#[derive(Clone, Debug)]
pub(crate) struct Writable {
    /// The places that were asked about.
    pub(crate) own: Vec<Range<usize>>,
    /// All other memory of this process.
    pub(crate) others: Vec<Range<usize>>,
}

fn hex(word: &str) -> Option<usize> {
    usize::from_str_radix(word, 16).ok()
}

fn addresses(word: &str) -> Option<Range<usize>> {
    let (from, to) = word.split_once('-')?;
    Some(hex(from)?..hex(to)?)
}

/// A line of the list, if it is about this file.
fn range(line: &str, device: u64, inode: u64) -> Option<Mapped> {
    let mut words = line.split_ascii_whitespace();
    let at = addresses(words.next()?)?;
    let rights = words.next()?;
    let _offset = words.next()?;
    let (device_major, device_minor) = words.next()?.split_once(':')?;
    let device_of = (hex(device_major)?, hex(device_minor)?);
    let same = device_of == (usize::try_from(major(device)).ok()?, usize::try_from(minor(device)).ok()?);
    if !same || words.next()?.parse::<u64>().ok()? != inode || !rights.starts_with('r') {
        return None;
    }
    Some(Mapped { at, code: rights.as_bytes().get(2) == Some(&b'x') })
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapped {
    at: Range<usize>,
    code: bool,
}

/// The places of one library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<Mapped>);

impl Ranges {
    /// The first address of all.
    pub(crate) fn start(&self) -> Option<usize> {
        self.0.iter().map(|mapped| mapped.at.start).min()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Octets of the library that can be read from this address on; 0 outside of it.
    pub(crate) fn readable(&self, address: usize) -> usize {
        self.0.iter().find(|mapped| mapped.at.contains(&address)).map_or(0, |mapped| mapped.at.end - address)
    }

    /// Whether an address is code of the library.
    pub(crate) fn is_code(&self, address: usize) -> bool {
        self.0.iter().any(|mapped| mapped.code && mapped.at.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_another_file_or_without_the_right_to_read_do_not_count() {
        let line = |rights: &str, device: &str, inode: u32| {
            format!("7f0000001000-7f0000003000 {rights} 00001000 {device} {inode}   /memfd:x (deleted)")
        };
        let device = rustix::fs::makedev(0, 1);
        let code = range(&line("r-xp", "00:01", 42), device, 42).unwrap();
        assert_eq!(code, Mapped { at: 0x7f00_0000_1000..0x7f00_0000_3000, code: true });
        assert!(!range(&line("rw-p", "00:01", 42), device, 42).unwrap().code);
        assert_eq!(range(&line("---p", "00:01", 42), device, 42), None);
        assert_eq!(range(&line("r-xp", "00:01", 43), device, 42), None);
        assert_eq!(range(&line("r-xp", "08:01", 42), device, 42), None);
        assert_eq!(range("", device, 42), None);
        let ranges = Ranges(vec![code]);
        assert_eq!(ranges.readable(0x7f00_0000_2fff), 1);
        assert_eq!(ranges.readable(0x7f00_0000_3000), 0);
        assert!(ranges.is_code(0x7f00_0000_1000) && !ranges.is_code(0x7f00_0000_0fff));
    }
}
