//! Randomness of the kernel (getrandom(2)); the pure rooms take it as an argument.

use crate::error::check_len;
use std::io;

/// Fill `out` with random octets from the kernel's generator.
pub fn fill(out: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < out.len() {
        let rest = &mut out[done..];
        // SAFETY: `rest` is a live, writable slice and its own length is given.
        match check_len(unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) }) {
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// A random number, for tags of SPIs and the like.
pub fn number() -> io::Result<u32> {
    let mut octets = [0; 4];
    fill(&mut octets)?;
    Ok(u32::from_ne_bytes(octets))
}

#[cfg(test)]
mod tests {
    #[test]
    fn fills_every_octet() {
        // One octet stays zero in 64 tries with probability 2^-512.
        let mut seen = [0u8; 300];
        for _ in 0..64 {
            let mut round = [0u8; 300];
            super::fill(&mut round).unwrap();
            seen.iter_mut().zip(round).for_each(|(s, r)| *s |= r);
        }
        assert!(seen.iter().all(|&octet| octet != 0));
    }
}
