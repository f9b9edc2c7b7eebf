//! Authentication headers (RFC 4302 section 2).

use crate::WireError;
use crate::field::{be32, octet, put, put32, range};
use crate::ip::Headers;
use crate::protocol;

pub use crate::immutable::immutable;

/// Octets in front of the ICV: next header, length, reserved, SPI, sequence number.
pub const FIXED_LEN: usize = 12;

/// A view of an AH and of what follows it.
#[derive(Clone, Copy, Debug)]
pub struct Ah<B> {
    bytes: B,
}

impl<B: AsRef<[u8]>> Ah<B> {
    /// Makes a view of a header that lies within `bytes` by its own length field. Whether that length is right for the
    /// association is not checked here.
    pub fn new_checked(bytes: B) -> Result<Self, WireError> {
        let view = Ah { bytes };
        let have = view.bytes.as_ref().len();
        if have < FIXED_LEN || view.header_len() > have {
            return Err(WireError::Truncated);
        }
        if view.header_len() < FIXED_LEN {
            return Err(WireError::HeaderLength);
        }
        Ok(view)
    }

    /// The protocol number of what follows the header.
    pub fn next_header(&self) -> u8 {
        octet(self.bytes.as_ref(), 0)
    }

    /// Octets of the header, with ICV and padding.
    pub fn header_len(&self) -> usize {
        (usize::from(octet(self.bytes.as_ref(), 1)) + 2) * 4
    }

    /// The security parameters index.
    pub fn spi(&self) -> u32 {
        be32(self.bytes.as_ref(), 4)
    }

    /// The low 32 bits of the sequence number.
    pub fn sequence(&self) -> u32 {
        be32(self.bytes.as_ref(), 8)
    }

    /// The ICV (with its explicit IV, if the algorithm has one) and the padding.
    pub fn icv(&self) -> &[u8] {
        range(self.bytes.as_ref(), FIXED_LEN, self.header_len())
    }
}

/// The most authentication headers and IPv6 destination options headers in a row that are followed.
const MAX_CHAIN: usize = 4;

/// Reads on behind a packet's authentication header: the answer's upper layer is what AH covers. `headers` are those of
/// a whole packet whose upper layer is AH.
///
/// # Errors
/// A header does not fit, there are more of them than anybody sends, or one of IPv6 does not stand behind AH (RFC 8200
/// section 4.1).
pub fn behind(bytes: &[u8], headers: &Headers) -> Result<Headers, WireError> {
    let mut inner = *headers;
    for _ in 0..MAX_CHAIN {
        let upper = inner.upper(bytes);
        let (next, len) = match inner.protocol {
            protocol::AH => {
                let view = Ah::new_checked(upper)?;
                (view.next_header(), view.header_len())
            }
            protocol::DESTINATION if inner.version == 6 => {
                let len = (usize::from(octet(upper, 1)) + 1) * 8;
                if upper.len() < len {
                    return Err(WireError::Truncated);
                }
                (octet(upper, 0), len)
            }
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::FRAGMENT if inner.version == 6 => {
                return Err(WireError::ExtensionOrder);
            }
            _ => return Ok(inner),
        };
        inner.protocol_at = inner.header_len;
        inner.header_len += len;
        inner.protocol = next;
    }
    Err(WireError::TooManyExtensions)
}

/// Octets of a header whose explicit IV and ICV have `icv` octets. It is padded to 4 octets in IPv4 and 8 in IPv6 (RFC
/// 4302 sections 2.6 and 3.3.3.2.1).
pub const fn header_len(icv: usize, version: u8) -> usize {
    (FIXED_LEN + icv).next_multiple_of(if version == 4 { 4 } else { 8 })
}

/// Writes a header of `len` octets, a multiple of four and at most 1032, with zeros for ICV and padding.
pub fn emit(buf: &mut [u8], next_header: u8, spi: u32, sequence: u32, len: usize) -> Result<(), WireError> {
    let header = buf.get_mut(..len).ok_or(WireError::NoRoom)?;
    let words =
        (len / 4).checked_sub(2).and_then(|words| u8::try_from(words).ok()).ok_or(WireError::HeaderLength)?;
    header.fill(0);
    put(header, 0, [next_header, words]);
    put32(header, 4, spi);
    put32(header, 8, sequence);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_fields() {
        // Figure 1 and section 2.2: an ICV of 96 bits gives a length field of 4.
        let mut buf = [0xff; 40];
        assert_eq!((header_len(12, 4), header_len(12, 6)), (24, 24));
        emit(&mut buf, 6, 0x0102_0304, 7, 24).unwrap();
        assert_eq!(buf[..12], [6, 4, 0, 0, 1, 2, 3, 4, 0, 0, 0, 7]);
        let view = Ah::new_checked(&buf[..]).unwrap();
        assert_eq!(
            (view.next_header(), view.header_len(), view.spi(), view.sequence()),
            (6, 24, 0x0102_0304, 7)
        );
        assert_eq!((view.icv(), buf[24]), (&[0; 12][..], 0xff));
        // 128 bits need no padding in IPv4 and four octets in IPv6; 192 bits likewise; IV and ICV of GMAC likewise.
        assert_eq!([16, 24, 32].map(|icv| header_len(icv, 4)), [28, 36, 44]);
        assert_eq!([16, 24, 32].map(|icv| header_len(icv, 6)), [32, 40, 48]);
    }

    #[test]
    fn contradictions_are_refused() {
        let mut buf = [0; 24];
        emit(&mut buf, 6, 1, 1, 24).unwrap();
        assert!(Ah::new_checked(&buf[..23]).is_err());
        assert!(Ah::new_checked(&buf[..11]).is_err());
        buf[1] = 0;
        assert_eq!(Ah::new_checked(&buf[..]).map(|a| a.spi()), Err(WireError::HeaderLength));
        assert_eq!(emit(&mut buf, 6, 1, 1, 28), Err(WireError::NoRoom));
    }
}
