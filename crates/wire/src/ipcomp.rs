//! IPComp headers (RFC 3173 section 3.3).

use crate::WireError;
use crate::field::{be16, octet, put, put16, tail};

/// Octets of the IPComp header.
pub const HEADER_LEN: usize = 4;

/// A view of an IPComp header and of what follows it.
#[derive(Clone, Copy, Debug)]
pub struct IpComp<B> {
    bytes: B,
}

impl<B: AsRef<[u8]>> IpComp<B> {
    /// Makes a view of at least a header.
    pub fn new_checked(bytes: B) -> Result<Self, WireError> {
        if bytes.as_ref().len() < HEADER_LEN {
            return Err(WireError::Truncated);
        }
        Ok(IpComp { bytes })
    }

    /// The protocol of the compressed octets.
    pub fn next_header(&self) -> u8 {
        octet(self.bytes.as_ref(), 0)
    }

    /// The compression parameter index. The flags beside it are reserved and ignored by receivers.
    pub fn cpi(&self) -> u16 {
        be16(self.bytes.as_ref(), 2)
    }

    /// The compressed octets behind the header.
    pub fn payload(&self) -> &[u8] {
        tail(self.bytes.as_ref(), HEADER_LEN)
    }
}

/// Writes a header to the start of `buf`.
pub fn emit(buf: &mut [u8], next_header: u8, cpi: u16) -> Result<(), WireError> {
    let header: &mut [u8; HEADER_LEN] = buf.first_chunk_mut().ok_or(WireError::NoRoom)?;
    put(header, 0, [next_header, 0]);
    put16(header, 2, cpi);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header() {
        let mut buf = [0xff; 5];
        emit(&mut buf, 6, 0x1234).unwrap();
        assert_eq!(buf, [6, 0, 0x12, 0x34, 0xff]);
        let view = IpComp::new_checked(&buf[..]).unwrap();
        assert_eq!((view.next_header(), view.cpi(), view.payload()), (6, 0x1234, &[0xff][..]));
        assert!(IpComp::new_checked(&buf[..3]).is_err());
        assert!(emit(&mut buf[..3], 6, 1).is_err());
    }
}
