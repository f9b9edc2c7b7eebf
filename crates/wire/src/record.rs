//! The record in front of each packet on the TUN (docs/design/0002). The BPF programs put it in front of packets to the
//! daemon, and the daemon in front of packets that it writes to the TUN. Its layout is `{ 0x40 or 0x60; 'R'; 'V'; 'L';
//! u32 mark; u64 cookie }`, native endian.

use crate::WireError;
use crate::field::array;

/// Octets of a record.
pub const LEN: usize = 16;

/// The bits of the mark that hold the application's number.
pub const APP_MASK: u32 = 0xffff;
/// Outbound: the monitor stamped the socket. Inbound: the packet is the engine's answer to a packet of this host, and
/// is for this host alone.
pub const STAMPED: u32 = 1 << 16;
/// The packet has no socket: it is on its way through this host, a gateway. The cookie is the index of the interface it
/// came by.
pub const FORWARDED: u32 = 1 << 17;
/// Beside [`FORWARDED`]: the packet came in clear from outside, for a network behind this host.
pub const ARRIVED: u32 = 1 << 18;
/// Beside [`STAMPED`], where there is no application: the lower half of the cookie is the user that owns the socket,
/// the upper half is what is left of the cookie.
pub const USER: u32 = 1 << 19;
/// Inbound: the packet was authenticated. This bit and the next are one number, [`crate::Services`].
pub const AUTHENTICATED: u32 = 1 << 24;
/// Inbound: the packet was encrypted; alone, under a cipher of one's own ([`crate::Services::CUSTOM`]).
pub const ENCRYPTED: u32 = 1 << 25;
/// Inbound: the packet came out of a security association. Outbound: the packet is the answer to such a packet.
pub const PROOF: u32 = 1 << 31;

const MAGIC: [u8; 3] = *b"RVL";

/// A record, which precedes a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The version, 4 or 6, which the TUN reads as the IP version.
    pub version: u8,
    /// The mark of the packet.
    pub mark: u32,
    /// The cookie of the sending socket. With [`USER`], it is half of that cookie and the user. For a forwarded packet,
    /// it is the index of the interface that the packet came by. Inbound, it is zero.
    pub cookie: u64,
}

impl Record {
    /// Reads the record at the start of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Record, WireError> {
        let bytes: &[u8; LEN] = bytes.first_chunk().ok_or(WireError::Record)?;
        let [first, magic @ ..] = array::<4>(bytes, 0);
        let version = match first {
            0x40 => 4,
            0x60 => 6,
            _ => return Err(WireError::Record),
        };
        if magic != MAGIC {
            return Err(WireError::Record);
        }
        let mark = u32::from_ne_bytes(array(bytes, 4));
        let cookie = u64::from_ne_bytes(array(bytes, 8));
        Ok(Record { version, mark, cookie })
    }

    /// The octets of this record.
    pub fn emit(&self) -> [u8; LEN] {
        let [m0, m1, m2, m3] = self.mark.to_ne_bytes();
        let [c0, c1, c2, c3, c4, c5, c6, c7] = self.cookie.to_ne_bytes();
        let [r, v, l] = MAGIC;
        [self.version << 4, r, v, l, m0, m1, m2, m3, c0, c1, c2, c3, c4, c5, c6, c7]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_emitted_is_parsed_and_nothing_else() {
        for version in [4, 6] {
            let record = Record { version, mark: PROOF | ENCRYPTED | 7, cookie: 0x0102_0304_0506_0708 };
            let bytes = record.emit();
            assert_eq!(Record::parse(&bytes), Ok(record));
            assert_eq!(Record::parse(&bytes[..LEN - 1]), Err(WireError::Record));
            for at in 0..4 {
                let mut wrong = bytes;
                wrong[at] ^= 1;
                assert_eq!(Record::parse(&wrong), Err(WireError::Record), "octet {at}");
            }
        }
    }

    #[test]
    fn layout_is_that_of_the_kernel_half() {
        let record = Record { version: 6, mark: 0x8100_0005, cookie: 9 };
        let bytes = record.emit();
        assert_eq!(bytes[..4], [0x60, b'R', b'V', b'L']);
        assert_eq!(bytes[4..8], 0x8100_0005_u32.to_ne_bytes());
        assert_eq!(bytes[8..], 9_u64.to_ne_bytes());
    }
}
