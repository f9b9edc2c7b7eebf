//! SCTP packets (RFC 9260 section 3): the common header and the run of chunks behind it. The CRC32c is not verified.

use crate::WireError;
use crate::field::{be16, be32, octet};

/// Octets of the common header.
pub const HEADER_LEN: usize = 12;
/// Octets of a chunk's header.
const CHUNK_HEADER_LEN: usize = 4;
/// Octets of INIT and INIT ACK up to their parameters.
const INIT_LEN: usize = 20;

/// The type of the chunk that opens an association.
pub const INIT: u8 = 1;
/// The type of the chunk that answers INIT.
pub const INIT_ACK: u8 = 2;
/// The type of the last chunk of an association.
pub const SHUTDOWN_COMPLETE: u8 = 14;

/// A view of an SCTP packet, which fills its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sctp<'a> {
    bytes: &'a [u8],
}

/// The place of a chunk in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The type of the chunk.
    pub kind: u8,
    /// The offset where the chunk starts.
    pub at: usize,
    /// Octets of the chunk, without the padding behind it.
    pub len: usize,
}

/// The fields of INIT and INIT ACK (RFC 9260 section 3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init {
    /// The verification tag that the other end is to use.
    pub tag: u32,
    /// Octets that the other end may have in flight (the advertised receiver window).
    pub window: u32,
    /// Number of outbound streams that the sender wants.
    pub outbound: u16,
    /// Number of inbound streams that the sender allows.
    pub inbound: u16,
}

impl<'a> Sctp<'a> {
    /// Makes a view of at least the common header.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if there are fewer octets.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Sctp<'a>, WireError> {
        if bytes.len() < HEADER_LEN { Err(WireError::Truncated) } else { Ok(Sctp { bytes }) }
    }

    /// The source port of the packet.
    pub fn src_port(&self) -> u16 {
        be16(self.bytes, 0)
    }

    /// The destination port of the packet.
    pub fn dst_port(&self) -> u16 {
        be16(self.bytes, 2)
    }

    /// The verification tag of the packet.
    pub fn tag(&self) -> u32 {
        be32(self.bytes, 4)
    }

    /// The chunks of the packet in order. They end behind the first that does not lie in the packet with its padding
    /// ([`WireError::Truncated`]) or is shorter than its header ([`WireError::HeaderLength`]).
    pub fn chunks(&self) -> impl Iterator<Item = Result<Chunk, WireError>> + use<'a> {
        let (bytes, mut at) = (self.bytes, HEADER_LEN);
        std::iter::from_fn(move || {
            if at >= bytes.len() {
                return None;
            }
            let (from, len) = (at, usize::from(be16(bytes, at + 2)));
            at = bytes.len();
            if bytes.len() < from + CHUNK_HEADER_LEN || bytes.len() < from + len.next_multiple_of(4) {
                return Some(Err(WireError::Truncated));
            }
            if len < CHUNK_HEADER_LEN {
                return Some(Err(WireError::HeaderLength));
            }
            at = from + len.next_multiple_of(4);
            Some(Ok(Chunk { kind: octet(bytes, from), at: from, len }))
        })
    }

    /// The fields of an INIT or INIT ACK; `None` for another chunk, or one that is too short.
    pub fn init(&self, chunk: Chunk) -> Option<Init> {
        let whole = matches!(chunk.kind, INIT | INIT_ACK) && chunk.len >= INIT_LEN;
        whole.then(|| Init {
            tag: be32(self.bytes, chunk.at + 4),
            window: be32(self.bytes, chunk.at + 8),
            outbound: be16(self.bytes, chunk.at + 12),
            inbound: be16(self.bytes, chunk.at + 14),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(chunks: &[u8]) -> Vec<u8> {
        [[0x30, 0x39, 0, 80, 0, 0, 0, 7, 0, 0, 0, 0].as_slice(), chunks].concat()
    }

    fn kinds(chunks: &[u8]) -> Vec<Result<(u8, usize), WireError>> {
        let bytes = packet(chunks);
        let view = Sctp::new_checked(&bytes).unwrap();
        view.chunks().map(|chunk| chunk.map(|chunk| (chunk.kind, chunk.len))).collect()
    }

    #[test]
    fn chunk_by_chunk() {
        assert_eq!(kinds(&[10, 0, 0, 4, 4, 0, 0, 5, 1, 0, 0, 0]), [Ok((10, 4)), Ok((4, 5))]);
        assert_eq!(kinds(&[4, 0, 0, 5, 1]), [Err(WireError::Truncated)]);
        assert_eq!(kinds(&[10, 0, 0, 4, 4, 0]), [Ok((10, 4)), Err(WireError::Truncated)]);
        for len in [0, 3] {
            assert_eq!(kinds(&[10, 0, 0, len]), [Err(WireError::HeaderLength)]);
        }
        assert_eq!(kinds(&[]), []);
        assert!(Sctp::new_checked(&[0; 11]).is_err());
    }

    #[test]
    fn what_an_init_says() {
        let bytes = packet(&[1, 0, 0, 20, 0, 0, 0, 9, 0, 1, 0, 0, 0, 10, 0, 11, 0, 0, 0, 1]);
        let view = Sctp::new_checked(&bytes).unwrap();
        assert_eq!((view.src_port(), view.dst_port(), view.tag()), (12345, 80, 7));
        let chunk = view.chunks().next().unwrap().unwrap();
        assert_eq!(view.init(chunk), Some(Init { tag: 9, window: 65536, outbound: 10, inbound: 11 }));
        assert_eq!(view.init(Chunk { kind: 0, ..chunk }), None);
        assert_eq!(view.init(Chunk { len: 16, ..chunk }), None);
    }
}
