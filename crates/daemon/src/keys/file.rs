//! The book of used keys on disk: `used-keys` in the instance's run directory, which outlives the daemon and a crash, but not a
//! reboot (docs/design/0003 item 3).
//!
//! What enters and leaves: the key of the fingerprints and the fingerprints; never a key of an association. A magic, 32 octets
//! of fingerprint key, the entries in order, 32 octets each, and the fingerprint of all that: what is damaged or cut
//! off is never taken for a shorter book.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crypto::{Fingerprint, Secret};
use crypto_std::KeyedFingerprint;
use zeroize::Zeroizing;

const MAGIC: &[u8; 8] = b"rvlkeys1";
/// Octets of an entry, and of the fingerprint at the end.
const ENTRY: usize = 32;

/// Where the book of an instance is.
pub(super) fn path(run_dir: &Path) -> PathBuf {
    run_dir.join("used-keys")
}

/// The key of the fingerprints, and the fingerprints.
pub(super) type Book = (Secret, Vec<[u8; ENTRY]>);

/// Read a book; `None` if there is none.
///
/// # Errors
/// If it cannot be read, or is not what [`write`] wrote.
pub(super) fn read(path: &Path) -> io::Result<Option<Book>> {
    let octets = match fs::read(path) {
        Ok(octets) => Zeroizing::new(octets),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let book = parse(&octets).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is damaged"))?;
    Ok(Some(book))
}

fn parse(octets: &[u8]) -> Option<Book> {
    let (body, tag) = octets.split_last_chunk::<ENTRY>()?;
    let (key, entries) = body.strip_prefix(MAGIC)?.split_at_checked(KeyedFingerprint::KEY_LEN)?;
    let (entries, []) = entries.as_chunks::<ENTRY>() else { return None };
    let key = Secret::new(key.to_vec());
    let right = KeyedFingerprint::new(&key).ok()?.of(body);
    (right == *tag).then(|| (key, entries.to_vec()))
}

/// Exchange the book in one step. When this returns, it is there, also after a crash.
///
/// # Errors
/// If the system refuses; the book is then the one before or this one.
pub(super) fn write(path: &Path, fingerprint_key: &Secret, used: &[[u8; ENTRY]]) -> io::Result<()> {
    let size = MAGIC.len() + fingerprint_key.len() + (used.len() + 1) * ENTRY;
    let mut octets = Zeroizing::new(Vec::with_capacity(size));
    octets.extend_from_slice(MAGIC);
    octets.extend_from_slice(fingerprint_key.expose());
    octets.extend_from_slice(used.as_flattened());
    let tag = KeyedFingerprint::new(fingerprint_key).map_err(io::Error::other)?.of(&octets);
    octets.extend_from_slice(&tag);

    let aside = path.with_extension("new");
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
    file.write_all(&octets)?;
    file.sync_all()?;
    fs::rename(&aside, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}
