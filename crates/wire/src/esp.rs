//! ESP headers (RFC 4303 section 2), and what else may arrive on the UDP port for ESP (RFC 3948 section 2).

use crate::WireError;
use crate::field::{be32, put32, tail};

/// Octets of SPI and sequence number.
pub const HEADER_LEN: usize = 8;

/// A view of an ESP packet.
#[derive(Clone, Copy, Debug)]
pub struct Esp<B> {
    bytes: B,
}

impl<B: AsRef<[u8]>> Esp<B> {
    /// Makes a view of at least a header. Whether IV, trailer and ICV fit depends on the association and is not checked
    /// here.
    pub fn new_checked(bytes: B) -> Result<Self, WireError> {
        if bytes.as_ref().len() < HEADER_LEN {
            return Err(WireError::Truncated);
        }
        Ok(Esp { bytes })
    }

    /// The security parameters index.
    pub fn spi(&self) -> u32 {
        be32(self.bytes.as_ref(), 0)
    }

    /// The low 32 bits of the sequence number.
    pub fn sequence(&self) -> u32 {
        be32(self.bytes.as_ref(), 4)
    }

    /// The IV, the ciphertext and the ICV.
    pub fn payload(&self) -> &[u8] {
        tail(self.bytes.as_ref(), HEADER_LEN)
    }
}

/// Writes SPI and sequence number to the start of `buf`.
pub fn emit(buf: &mut [u8], spi: u32, sequence: u32) -> Result<(), WireError> {
    let header: &mut [u8; HEADER_LEN] = buf.first_chunk_mut().ok_or(WireError::NoRoom)?;
    put32(header, 0, spi);
    put32(header, 4, sequence);
    Ok(())
}

/// The kind of a datagram on the UDP port for ESP (RFC 3948 section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpPayload {
    /// ESP, whose first four octets are an SPI other than zero.
    Esp,
    /// IKE behind the non-ESP marker of four zero octets.
    Ike,
    /// A NAT keepalive, which is one octet 0xff.
    Keepalive,
    /// A payload that is none of these.
    Other,
}

/// Classifies the `payload` of a datagram on the UDP port for ESP.
pub fn classify(payload: &[u8]) -> UdpPayload {
    match payload {
        [0xff] => UdpPayload::Keepalive,
        [0, 0, 0, 0, ..] => UdpPayload::Ike,
        _ if payload.len() >= HEADER_LEN => UdpPayload::Esp,
        _ => UdpPayload::Other,
    }
}
