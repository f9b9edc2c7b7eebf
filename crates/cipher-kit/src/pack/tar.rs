//! Tar archives (POSIX ustar) of regular files and folders, always alike; and the reader for them, which takes nothing
//! else.

/// Octets of a block.
const BLOCK: usize = 512;
/// The longest name without a prefix.
const NAME: usize = 100;
/// The most files of an archive that is read.
const MOST_FILES: usize = 8;
/// The most octets of an archive that is read.
const MOST: usize = 96 << 20;

/// An archive that is written.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Add a folder; its name ends with a slash.
    pub fn folder(&mut self, name: &str) {
        self.header(name, 0, 0o755, b'5');
    }

    /// Add a file.
    pub fn file(&mut self, name: &str, content: &[u8]) {
        self.header(name, content.len(), 0o644, b'0');
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
    }

    /// Time, owner and group are zero, which is root's.
    fn header(&mut self, name: &str, len: usize, mode: u32, kind: u8) {
        let mut block = [0; BLOCK];
        let mut put = |at: usize, octets: &[u8]| {
            if let Some(place) = block.get_mut(at..at + octets.len()) {
                place.copy_from_slice(octets);
            }
        };
        let name = name.as_bytes();
        put(0, name.get(..name.len().min(NAME)).unwrap_or_default());
        put(100, format!("{mode:07o}").as_bytes());
        put(108, b"0000000");
        put(116, b"0000000");
        put(124, format!("{len:011o}").as_bytes());
        put(136, b"00000000000");
        put(148, b"        ");
        put(156, &[kind]);
        put(257, b"ustar\x0000");
        put(265, b"root");
        put(297, b"root");
        let sum: u32 = block.iter().map(|octet| u32::from(*octet)).sum();
        let sum = format!("{sum:06o}\0 ");
        if let Some(place) = block.get_mut(148..156) {
            place.copy_from_slice(sum.as_bytes());
        }
        self.0.extend_from_slice(&block);
    }

    /// The octets of the archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 2 * BLOCK, 0);
        self.0
    }
}

/// The files of an archive: names and contents. Folders are passed over; links, devices, other names than plain ones, and
/// whatever else a tar archive may have are refused.
///
/// # Errors
/// What is wrong, as a part of a sentence.
pub fn read(archive: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
    if archive.len() > MOST {
        return Err(format!("it has {} octets, and at most {MOST} are read", archive.len()));
    }
    let mut files = Vec::new();
    let mut rest = archive;
    while let Some((header, behind)) = rest.split_at_checked(BLOCK) {
        if header.iter().all(|octet| *octet == 0) {
            break;
        }
        let (name, len, kind) = entry(header)?;
        let padded = len.checked_next_multiple_of(BLOCK).ok_or("a file in it is too long")?;
        let (content, next) = behind.split_at_checked(padded).ok_or(format!("{name:?} is cut short"))?;
        match kind {
            b'5' if len == 0 => {}
            b'0' if files.len() < MOST_FILES => {
                files.push((name, content.get(..len).unwrap_or_default().to_vec()));
            }
            b'0' => return Err(format!("it has more than {MOST_FILES} files")),
            _ => return Err(format!("{name:?} is neither a file nor a folder")),
        }
        rest = next;
    }
    if files.is_empty() { Err("there is no file in it".to_owned()) } else { Ok(files) }
}

/// Name, length and kind of an entry whose checksum is right.
fn entry(header: &[u8]) -> Result<(String, usize, u8), String> {
    let field = |from: usize, len: usize| header.get(from..from + len).unwrap_or_default();
    let octal = |octets: &[u8]| {
        let text = std::str::from_utf8(octets).ok()?.trim_matches(|c| c == ' ' || c == '\0');
        usize::from_str_radix(text, 8).ok()
    };
    let sum = header.iter().enumerate().map(|(at, octet)| match at {
        148..156 => usize::from(b' '),
        _ => usize::from(*octet),
    });
    if octal(field(148, 8)) != Some(sum.sum()) {
        return Err("a header in it has a wrong checksum".to_owned());
    }
    let name: Vec<u8> = field(0, NAME).iter().copied().take_while(|octet| *octet != 0).collect();
    let name = String::from_utf8(name).map_err(|_| "a name in it is no text")?;
    let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.chars().any(char::is_control);
    let is_prefixed = field(345, 155).iter().any(|octet| *octet != 0);
    if is_prefixed || !name.trim_end_matches('/').split('/').all(plain) {
        return Err(format!("{name:?} is no plain name"));
    }
    let len = octal(field(124, 12)).ok_or("a length in it is no number")?;
    Ok((name, len, *header.get(156).unwrap_or(&0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_always_alike() {
        let write = || {
            let mut archive = Writer::default();
            archive.folder("a/");
            archive.file("a/empty", b"");
            archive.file("a/one", b"1");
            archive.file("a/long", &[7; 1025]);
            archive.finish()
        };
        let files = read(&write()).unwrap();
        let names: Vec<_> = files.iter().map(|(name, content)| (name.as_str(), content.len())).collect();
        assert_eq!(names, [("a/empty", 0), ("a/one", 1), ("a/long", 1025)]);
        assert_eq!(write(), write());
    }

    #[test]
    fn nothing_but_plain_files_is_taken() {
        let with = |name: &str, kind: u8| {
            let mut archive = Writer::default();
            archive.header(name, 0, 0o644, kind);
            read(&archive.finish()).unwrap_err()
        };
        for name in ["../a", "/etc/passwd", "a/../../b", "a//b", ""] {
            assert!(with(name, b'0').contains("no plain name"), "{name:?}");
        }
        for kind in *b"12346xgL" {
            assert!(with("a/b", kind).contains("neither a file nor a folder"), "{kind}");
        }
        let mut archive = Writer::default();
        archive.file("a/b", &[1; 600]);
        let whole = archive.finish();
        for cut in [BLOCK + 1, BLOCK + 600] {
            assert!(read(&whole[..cut]).is_err(), "{cut}");
        }
        for at in [0, 100, 124, 150, 156, 345] {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(read(&changed).is_err(), "{at}");
        }
        let mut many = Writer::default();
        (0..=MOST_FILES).for_each(|number| many.file(&format!("a/{number}"), b""));
        assert!(read(&many.finish()).unwrap_err().contains("more than"));
    }
}
