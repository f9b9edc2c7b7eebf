//! SHA-256 of files of this host, for policies that name an executable by what is in it.

use policy::Digest;
use ring::digest::{Context, SHA256};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Files with more octets than this are not hashed.
pub const LARGEST: u64 = 1 << 30;
/// Files that take longer to read than this have no digest.
const LONGEST: Duration = Duration::from_secs(120);

/// The SHA-256 of what is in a regular file now.
///
/// # Errors
/// If it cannot be read, has more than 1 GiB, or takes longer than two minutes.
pub fn sha256(path: &Path) -> io::Result<Digest> {
    // If a pipe was put at this path, opening it must not wait for the other end.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let began = Instant::now();
    let mut context = Context::new(&SHA256);
    let mut chunk = vec![0; 256 * 1024];
    let mut size = 0u64;
    loop {
        let n = read(&mut file, &mut chunk)?;
        let Some(octets) = chunk.get(..n).filter(|octets| !octets.is_empty()) else { break };
        size += octets.len() as u64;
        if size > LARGEST {
            return Err(io::Error::other("it has more than 1 GiB"));
        }
        if began.elapsed() > LONGEST {
            return Err(io::Error::other("reading it takes more than two minutes"));
        }
        context.update(octets);
    }
    let mut out = [0; 32];
    out.copy_from_slice(context.finish().as_ref());
    Ok(Digest(out))
}

fn read(file: &mut File, chunk: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
