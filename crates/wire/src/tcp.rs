//! TCP headers and their options (RFC 9293 section 3.1; RFC 7323, RFC 2018, RFC 2385, RFC 5925).

mod make;

pub use make::{TcpRepr, cut, packet, put_options};

use crate::field::{array, be16, be32, octet, put16, put32, range, tail, tail_mut};
use crate::{WireError, checksum};

/// Octets of a header without options.
pub const HEADER_LEN: usize = 20;

/// The flags of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u16);

impl Flags {
    /// FIN: the sender has no more data.
    pub const FIN: Flags = Flags(0x001);
    /// SYN: the sequence numbers are synchronised.
    pub const SYN: Flags = Flags(0x002);
    /// RST: the connection is reset.
    pub const RST: Flags = Flags(0x004);
    /// PSH: the data are to be pushed to the receiver.
    pub const PSH: Flags = Flags(0x008);
    /// ACK: the acknowledgment field counts.
    pub const ACK: Flags = Flags(0x010);
    /// URG: the urgent pointer counts.
    pub const URG: Flags = Flags(0x020);
    /// ECE: ECN echo (RFC 3168).
    pub const ECE: Flags = Flags(0x040);
    /// CWR: congestion window reduced (RFC 3168).
    pub const CWR: Flags = Flags(0x080);

    /// Whether all of `flags` are set.
    pub const fn contains(self, flags: Flags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether one of `flags` is set.
    pub const fn intersects(self, flags: Flags) -> bool {
        self.0 & flags.0 != 0
    }

    /// These flags without those in `flags`.
    #[must_use]
    pub const fn without(self, flags: Flags) -> Flags {
        Flags(self.0 & !flags.0)
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// A view of a TCP segment; `bytes` end where its IP packet ends.
#[derive(Clone, Copy, Debug)]
pub struct Tcp<B> {
    bytes: B,
}

impl<B: AsRef<[u8]>> Tcp<B> {
    /// Makes a view whose header length has been checked.
    pub fn new_checked(bytes: B) -> Result<Self, WireError> {
        let have = bytes.as_ref().len();
        if have < HEADER_LEN {
            return Err(WireError::Truncated);
        }
        let view = Tcp { bytes };
        if view.header_len() < HEADER_LEN {
            return Err(WireError::HeaderLength);
        }
        if view.header_len() > have {
            return Err(WireError::Truncated);
        }
        Ok(view)
    }

    pub(crate) fn octets(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// The source port of the segment.
    pub fn src_port(&self) -> u16 {
        be16(self.octets(), 0)
    }

    /// The destination port of the segment.
    pub fn dst_port(&self) -> u16 {
        be16(self.octets(), 2)
    }

    /// The sequence number of the segment.
    pub fn seq(&self) -> u32 {
        be32(self.octets(), 4)
    }

    /// The acknowledgment number of the segment.
    pub fn ack(&self) -> u32 {
        be32(self.octets(), 8)
    }

    /// Octets of the header with its options.
    pub fn header_len(&self) -> usize {
        usize::from(octet(self.octets(), 12) >> 4) * 4
    }

    /// The flags, with the reserved bits above them.
    pub fn flags(&self) -> Flags {
        Flags(be16(self.octets(), 12) & 0xfff)
    }

    /// The window, not scaled.
    pub fn window(&self) -> u16 {
        be16(self.octets(), 14)
    }

    /// The checksum field of the segment.
    pub fn checksum(&self) -> u16 {
        be16(self.octets(), 16)
    }

    /// The urgent pointer of the segment.
    pub fn urgent(&self) -> u16 {
        be16(self.octets(), 18)
    }

    /// The options of the header, in order.
    pub fn options(&self) -> Options<'_> {
        Options { rest: range(self.octets(), HEADER_LEN, self.header_len()) }
    }

    /// The options from octet `at` of the option area on, where an option starts.
    pub fn options_from(&self, at: usize) -> Options<'_> {
        Options { rest: range(self.octets(), HEADER_LEN + at, self.header_len()) }
    }

    /// The octets of the option area from octet `at` on.
    pub fn options_rest(&self, at: usize) -> &[u8] {
        range(self.octets(), HEADER_LEN + at, self.header_len())
    }

    /// The data of the segment.
    pub fn payload(&self) -> &[u8] {
        tail(self.octets(), self.header_len())
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Tcp<B> {
    /// Sets the sequence number. The caller fills in the checksum after this and every other setter.
    pub fn set_seq(&mut self, seq: u32) {
        put32(self.bytes.as_mut(), 4, seq);
    }

    /// Sets the flags of the segment.
    pub fn set_flags(&mut self, flags: Flags) {
        let offset = be16(self.octets(), 12) & 0xf000;
        put16(self.bytes.as_mut(), 12, offset | flags.0 & 0xfff);
    }

    /// Sets the acknowledgment number.
    pub fn set_ack(&mut self, ack: u32) {
        put32(self.bytes.as_mut(), 8, ack);
    }

    /// Sets the window, not scaled.
    pub fn set_window(&mut self, window: u16) {
        put16(self.bytes.as_mut(), 14, window);
    }

    /// The data of the segment, to edit in place.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let at = self.header_len();
        tail_mut(self.bytes.as_mut(), at)
    }

    /// The options, padding included, to edit in place.
    pub fn options_mut(&mut self) -> &mut [u8] {
        let end = self.header_len();
        self.bytes.as_mut().get_mut(HEADER_LEN..end).unwrap_or(&mut [])
    }

    /// Sets the urgent pointer.
    pub fn set_urgent(&mut self, urgent: u16) {
        put16(self.bytes.as_mut(), 18, urgent);
    }

    /// Lowers the maximum segment size that the options offer (RFC 9293 section 3.7.1) to `most`; whether it was
    /// larger. The checksum is adjusted (RFC 1624) if it is `complete`; the sum of a pseudo-header alone does not
    /// depend on the options.
    pub fn lower_max_segment(&mut self, most: u16, complete: bool) -> bool {
        let mut at = HEADER_LEN;
        for option in self.options() {
            match option {
                Ok(TcpOption::MaxSegment(size)) if size > most => {
                    // The words of 16 bits that the value lies in, wherever it starts.
                    let (from, to) = ((at + 2) & !1, (at + 5) & !1);
                    let bytes = self.bytes.as_mut();
                    let before = checksum::fold(checksum::sum(range(bytes, from, to)));
                    put16(bytes, at + 2, most);
                    let after = checksum::fold(checksum::sum(range(bytes, from, to)));
                    let check = be16(bytes, 16);
                    if complete {
                        let sum = u32::from(!check) + u32::from(!before) + u32::from(after);
                        put16(bytes, 16, !checksum::fold(sum));
                    }
                    return true;
                }
                Ok(option) => at += option.len(),
                Err(_) => return false,
            }
        }
        false
    }

    /// Adds to all numbers of the selective acknowledgment (RFC 2018 section 3). The checksum is left alone.
    pub fn shift_sack(&mut self, by: u32) {
        let mut at = HEADER_LEN;
        let mut blocks = 0..0;
        for option in self.options() {
            match option {
                Ok(TcpOption::Sack(octets)) => {
                    blocks = at + 2..at + 2 + octets.len() / 4 * 4;
                    break;
                }
                Ok(option) => at += option.len(),
                Err(_) => return,
            }
        }
        let bytes = self.bytes.as_mut();
        for at in blocks.step_by(4) {
            let number = be32(bytes, at).wrapping_add(by);
            put32(bytes, at, number);
        }
    }

    /// Sets the checksum field.
    pub fn set_checksum(&mut self, check: u16) {
        put16(self.bytes.as_mut(), 16, check);
    }
}

/// A TCP option of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Padding between two options.
    Nop,
    /// The maximum segment size.
    MaxSegment(u16),
    /// The window scale (shift count).
    WindowScale(u8),
    /// Selective acknowledgment is permitted.
    SackPermitted,
    /// Selective acknowledgment: blocks of two sequence numbers, eight octets each.
    Sack(&'a [u8]),
    /// The timestamp option (RFC 7323).
    Timestamps {
        /// The clock value of the sender.
        value: u32,
        /// The echoed clock value of the receiver.
        echo: u32,
    },
    /// Any other option, or a known kind with a length that is not its own.
    Other {
        /// The kind octet of the option.
        kind: u8,
        /// The octets behind kind and length.
        data: &'a [u8],
    },
}

impl TcpOption<'_> {
    /// Octets of the option in the header, kind and length included.
    #[expect(clippy::len_without_is_empty, reason = "an option has a kind")]
    pub fn len(&self) -> usize {
        match self {
            TcpOption::Nop => 1,
            TcpOption::SackPermitted => 2,
            TcpOption::WindowScale(_) => 3,
            TcpOption::MaxSegment(_) => 4,
            TcpOption::Timestamps { .. } => 10,
            TcpOption::Sack(data) | TcpOption::Other { data, .. } => 2 + data.len(),
        }
    }
}

/// The options of a segment. They end at the end-of-list option, at the end of the header, or behind the first error
/// (an option that runs over the end, or a length below two).
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<TcpOption<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (kind, rest) = self.rest.split_first()?;
        match kind {
            0 => {
                self.rest = &[];
                return None;
            }
            1 => {
                self.rest = rest;
                return Some(Ok(TcpOption::Nop));
            }
            _ => {}
        }
        let len = rest.first().copied().map_or(0, usize::from);
        if len < 2 || len > self.rest.len() {
            self.rest = &[];
            return Some(Err(WireError::OptionLength));
        }
        let data = range(self.rest, 2, len);
        self.rest = tail(self.rest, len);
        Some(Ok(match (kind, data.len()) {
            (2, 2) => TcpOption::MaxSegment(be16(data, 0)),
            (3, 1) => TcpOption::WindowScale(octet(data, 0)),
            (4, 0) => TcpOption::SackPermitted,
            (5, n) if n != 0 && n % 8 == 0 => TcpOption::Sack(data),
            (8, 8) => TcpOption::Timestamps {
                value: u32::from_be_bytes(array(data, 0)),
                echo: u32::from_be_bytes(array(data, 4)),
            },
            _ => TcpOption::Other { kind: *kind, data },
        }))
    }
}
