//! UDP headers (RFC 768).

use crate::field::{be16, put16, range};
use crate::{WireError, checksum, protocol};
use std::net::IpAddr;

/// Octets of the UDP header.
pub const HEADER_LEN: usize = 8;

/// A view of a UDP datagram; its bytes may go on behind its end.
#[derive(Clone, Copy, Debug)]
pub struct Udp<B> {
    bytes: B,
}

impl<B: AsRef<[u8]>> Udp<B> {
    /// Makes a view whose lengths have been checked.
    pub fn new_checked(bytes: B) -> Result<Self, WireError> {
        let have = bytes.as_ref().len();
        if have < HEADER_LEN {
            return Err(WireError::Truncated);
        }
        let view = Udp { bytes };
        if view.len() < HEADER_LEN {
            return Err(WireError::TotalLength);
        }
        if view.len() > have {
            return Err(WireError::Truncated);
        }
        Ok(view)
    }

    fn octets(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// The source port of the datagram.
    pub fn src_port(&self) -> u16 {
        be16(self.octets(), 0)
    }

    /// The destination port of the datagram.
    pub fn dst_port(&self) -> u16 {
        be16(self.octets(), 2)
    }

    /// Octets of the header and the payload.
    #[expect(clippy::len_without_is_empty, reason = "a datagram always has its header")]
    pub fn len(&self) -> usize {
        usize::from(be16(self.octets(), 4))
    }

    /// The checksum field; zero means that there is no checksum.
    pub fn checksum(&self) -> u16 {
        be16(self.octets(), 6)
    }

    /// The payload of the datagram.
    pub fn payload(&self) -> &[u8] {
        range(self.octets(), HEADER_LEN, self.len())
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Udp<B> {
    /// Computes the checksum and writes it (RFC 768: a sum of zero is sent as 0xffff).
    pub fn fill_checksum(&mut self, src: IpAddr, dst: IpAddr) {
        let len = self.len();
        put16(self.bytes.as_mut(), 6, 0);
        let pseudo = checksum::pseudo(src, dst, protocol::UDP, len);
        let check = !checksum::fold(pseudo + checksum::sum(range(self.octets(), 0, len)));
        put16(self.bytes.as_mut(), 6, if check == 0 { 0xffff } else { check });
    }

    /// Sets the checksum field to zero, which means that there is no checksum.
    pub fn clear_checksum(&mut self) {
        put16(self.bytes.as_mut(), 6, 0);
    }
}

/// The fields of a header to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpRepr {
    /// The source port of the datagram.
    pub src_port: u16,
    /// The destination port of the datagram.
    pub dst_port: u16,
    /// Octets behind the header.
    pub payload_len: usize,
}

/// Writes a header of [`HEADER_LEN`] octets without checksum to the start of `buf`.
pub fn emit(buf: &mut [u8], repr: &UdpRepr) -> Result<(), WireError> {
    let len = u16::try_from(repr.payload_len.saturating_add(HEADER_LEN)).map_err(|_| WireError::TooLong)?;
    let header: &mut [u8; HEADER_LEN] = buf.first_chunk_mut().ok_or(WireError::NoRoom)?;
    put16(header, 0, repr.src_port);
    put16(header, 2, repr.dst_port);
    put16(header, 4, len);
    put16(header, 6, 0);
    Ok(())
}
