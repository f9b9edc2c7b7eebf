//! IPv4 headers (RFC 791 section 3.1, RFC 2474 and RFC 3168 for the type of service octet).

use crate::field::{array, be16, octet, put_octet, put16, put32, range};
use crate::{Buf, WireError, checksum};
use std::net::Ipv4Addr;

/// Octets of a header without options.
pub const HEADER_LEN: usize = 20;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const RESERVED: u16 = 0x8000;

/// A view of an IPv4 packet; its bytes may go on behind the packet's end.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<B> {
    bytes: B,
}

impl<B: AsRef<[u8]>> Ipv4<B> {
    /// Makes a view whose lengths have been checked. The checksum has not been: see [`Ipv4::checksum_ok`].
    pub fn new_checked(bytes: B) -> Result<Self, WireError> {
        let octets = bytes.as_ref();
        if octets.is_empty() {
            return Err(WireError::Truncated);
        }
        if octet(octets, 0) >> 4 != 4 {
            return Err(WireError::Version);
        }
        if octets.len() < HEADER_LEN {
            return Err(WireError::Truncated);
        }
        let view = Ipv4 { bytes };
        let (header, total, have) = (view.header_len(), view.total_len(), view.octets().len());
        if header < HEADER_LEN {
            return Err(WireError::HeaderLength);
        }
        if total < header {
            return Err(WireError::TotalLength);
        }
        if total > have {
            return Err(WireError::Truncated);
        }
        Ok(view)
    }

    fn octets(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// Octets of the header with its options.
    pub fn header_len(&self) -> usize {
        usize::from(octet(self.octets(), 0) & 0xf) * 4
    }

    /// Octets of the header and the payload.
    pub fn total_len(&self) -> usize {
        usize::from(be16(self.octets(), 2))
    }

    /// The type of service octet: DSCP and ECN.
    pub fn tos(&self) -> u8 {
        octet(self.octets(), 1)
    }

    /// The differentiated services code point.
    pub fn dscp(&self) -> u8 {
        self.tos() >> 2
    }

    /// The ECN field of the type of service.
    pub fn ecn(&self) -> u8 {
        self.tos() & 3
    }

    /// The identification that the fragments of one packet share.
    pub fn id(&self) -> u16 {
        be16(self.octets(), 4)
    }

    /// The reserved flag, which must be zero (RFC 791).
    pub fn reserved(&self) -> bool {
        be16(self.octets(), 6) & RESERVED != 0
    }

    /// Whether the packet must not be fragmented (DF).
    pub fn dont_fragment(&self) -> bool {
        be16(self.octets(), 6) & DONT_FRAGMENT != 0
    }

    /// Whether more fragments follow this one (MF).
    pub fn more_fragments(&self) -> bool {
        be16(self.octets(), 6) & MORE_FRAGMENTS != 0
    }

    /// The offset of this fragment's payload in the datagram, in octets.
    pub fn frag_offset(&self) -> usize {
        usize::from(be16(self.octets(), 6) & 0x1fff) * 8
    }

    /// The time to live.
    pub fn ttl(&self) -> u8 {
        octet(self.octets(), 8)
    }

    /// The protocol of the payload.
    pub fn protocol(&self) -> u8 {
        octet(self.octets(), 9)
    }

    /// The header checksum as it stands.
    pub fn checksum(&self) -> u16 {
        be16(self.octets(), 10)
    }

    /// Whether the header checksum is right.
    pub fn checksum_ok(&self) -> bool {
        checksum::fold(checksum::sum(range(self.octets(), 0, self.header_len()))) == 0xffff
    }

    /// The source address of the packet.
    pub fn src(&self) -> Ipv4Addr {
        Ipv4Addr::from(array::<4>(self.octets(), 12))
    }

    /// The destination address of the packet.
    pub fn dst(&self) -> Ipv4Addr {
        Ipv4Addr::from(array::<4>(self.octets(), 16))
    }

    /// The options, padding included.
    pub fn options(&self) -> &[u8] {
        range(self.octets(), HEADER_LEN, self.header_len())
    }

    /// The payload of the packet, without octets that lie behind its end.
    pub fn payload(&self) -> &[u8] {
        range(self.octets(), self.header_len(), self.total_len())
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Ipv4<B> {
    /// Sets the total length. [`Ipv4::fill_checksum`] must follow this and every other setter.
    pub fn set_total_len(&mut self, len: u16) {
        put16(self.bytes.as_mut(), 2, len);
    }

    /// Sets the type of service octet.
    pub fn set_tos(&mut self, tos: u8) {
        put_octet(self.bytes.as_mut(), 1, tos);
    }

    /// Sets the identification of the packet.
    pub fn set_id(&mut self, id: u16) {
        put16(self.bytes.as_mut(), 4, id);
    }

    /// Makes this a whole packet: it is no fragment, and `dont_fragment` says whether it may be fragmented.
    pub fn set_unfragmented(&mut self, dont_fragment: bool) {
        put16(self.bytes.as_mut(), 6, if dont_fragment { DONT_FRAGMENT } else { 0 });
    }

    /// Sets the time to live.
    pub fn set_ttl(&mut self, ttl: u8) {
        put_octet(self.bytes.as_mut(), 8, ttl);
    }

    /// Sets the protocol of the payload.
    pub fn set_protocol(&mut self, protocol: u8) {
        put_octet(self.bytes.as_mut(), 9, protocol);
    }

    /// Computes the header checksum and writes it.
    pub fn fill_checksum(&mut self) {
        let len = self.header_len();
        put16(self.bytes.as_mut(), 10, 0);
        let check = checksum::ip_checksum(range(self.octets(), 0, len));
        put16(self.bytes.as_mut(), 10, check);
    }
}

/// The fields of a header to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Repr {
    /// The source address of the packet.
    pub src: Ipv4Addr,
    /// The destination address of the packet.
    pub dst: Ipv4Addr,
    /// The protocol of the payload.
    pub protocol: u8,
    /// The time to live.
    pub ttl: u8,
    /// The type of service octet: DSCP and ECN.
    pub tos: u8,
    /// The identification of the packet.
    pub id: u16,
    /// Whether the packet must not be fragmented.
    pub df: bool,
    /// Octets behind the header.
    pub payload_len: usize,
}

/// Writes a header of [`HEADER_LEN`] octets with its checksum to the start of `buf`.
#[inline]
pub fn emit(buf: &mut [u8], repr: &Ipv4Repr) -> Result<(), WireError> {
    let total = u16::try_from(repr.payload_len.saturating_add(HEADER_LEN)).map_err(|_| WireError::TooLong)?;
    let header: &mut [u8; HEADER_LEN] = buf.first_chunk_mut().ok_or(WireError::NoRoom)?;
    let first = u16::from_be_bytes([0x45, repr.tos]);
    let flags = if repr.df { DONT_FRAGMENT } else { 0 };
    let fifth = u16::from_be_bytes([repr.ttl, repr.protocol]);
    let (src, dst) = (u32::from(repr.src), u32::from(repr.dst));
    // Summed from the values: to read the header just written would have to wait for its pieces to reach the cache.
    let words = [first, total, repr.id, flags, fifth].map(u32::from);
    let halves = [src >> 16, src & 0xffff, dst >> 16, dst & 0xffff];
    let check = !checksum::fold(words.iter().chain(&halves).sum());
    put16(header, 0, first);
    put16(header, 2, total);
    put16(header, 4, repr.id);
    put16(header, 6, flags);
    put16(header, 8, fifth);
    put16(header, 10, check);
    put32(header, 12, src);
    put32(header, 16, dst);
    Ok(())
}

/// Writes a 16-bit word of the header at the even offset `at` and adjusts the checksum (RFC 1624 equation 3). A
/// checksum that was wrong stays as wrong as it was.
fn edit(bytes: &mut [u8], at: usize, word: u16) {
    let (old, check) = (be16(bytes, at), be16(bytes, 10));
    put16(bytes, at, word);
    put16(bytes, 10, !checksum::fold(u32::from(!check) + u32::from(!old) + u32::from(word)));
}

/// Changes the time to live of the packet at the start of `bytes` and adjusts the checksum, as every function here
/// whose name begins with `edit` does.
pub fn edit_ttl(bytes: &mut [u8], ttl: u8) {
    edit(bytes, 8, u16::from_be_bytes([ttl, octet(bytes, 9)]));
}

/// Changes the type of service octet and adjusts the checksum.
pub fn edit_tos(bytes: &mut [u8], tos: u8) {
    edit(bytes, 0, u16::from_be_bytes([octet(bytes, 0), tos]));
}

/// Changes the identification and adjusts the checksum.
pub fn edit_id(bytes: &mut [u8], id: u16) {
    edit(bytes, 4, id);
}

/// Clears the DF flag, so that the packet may be fragmented, and adjusts the checksum.
pub fn edit_may_fragment(bytes: &mut [u8]) {
    edit(bytes, 6, be16(bytes, 6) & !DONT_FRAGMENT);
}

/// Clears the reserved flag and adjusts the checksum.
pub fn edit_reserved(bytes: &mut [u8]) {
    edit(bytes, 6, be16(bytes, 6) & !RESERVED);
}

/// Removes the options from the packet that `buf` holds, which moves the header, and returns the number of octets
/// removed.
pub fn remove_options(buf: &mut Buf) -> usize {
    let bytes = buf.as_mut_slice();
    let len = (usize::from(octet(bytes, 0) & 0xf) * 4).saturating_sub(HEADER_LEN);
    if bytes.len() < HEADER_LEN + len {
        return 0;
    }
    bytes.copy_within(..HEADER_LEN, len);
    if !buf.trim_front(len) {
        return 0;
    }
    let bytes = buf.as_mut_slice();
    let total = be16(bytes, 2).saturating_sub(len as u16);
    put_header_len(bytes, 0, total);
    len
}

/// Sets the total length, whatever it was. The caller fills in the checksum.
pub fn put_total_len(bytes: &mut [u8], len: u16) {
    put16(bytes, 2, len);
}

/// Turns the header of a first fragment at the start of `bytes` into that of the whole packet of `total_len` octets. It
/// has no flags and no offset, and the bits of `tos_mark` are added to the type of service.
pub(crate) fn put_whole(bytes: &mut [u8], total_len: u16, tos_mark: u8) {
    let mut view = Ipv4 { bytes };
    view.set_total_len(total_len);
    view.set_unfragmented(false);
    view.set_tos(view.tos() | tos_mark);
    view.fill_checksum();
}

/// Completes an IPv4 header of 20 octets plus `options` octets: writes header length, total length and checksum. Its
/// fixed part was written by [`emit`], and its options are in place.
pub fn put_header_len(header: &mut [u8], options: usize, total_len: u16) {
    let len = HEADER_LEN + options;
    put_octet(header, 0, 0x40 | (len / 4) as u8);
    put16(header, 2, total_len);
    put16(header, 10, 0);
    let check = checksum::ip_checksum(range(header, 0, len));
    put16(header, 10, check);
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPR: Ipv4Repr = Ipv4Repr {
        src: Ipv4Addr::new(192, 168, 0, 1),
        dst: Ipv4Addr::new(192, 168, 0, 199),
        protocol: 17,
        ttl: 64,
        tos: 0,
        id: 0,
        df: true,
        payload_len: 95,
    };

    #[test]
    fn a_known_header() {
        let mut buf = [0xff; 115];
        emit(&mut buf, &REPR).unwrap();
        assert_eq!(
            buf[..20],
            [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 192, 168, 0, 1, 192, 168, 0, 199]
        );
        let view = Ipv4::new_checked(&buf[..]).unwrap();
        assert!(view.checksum_ok());
        assert_eq!((view.header_len(), view.total_len(), view.payload().len()), (20, 115, 95));
        assert_eq!((view.src(), view.dst()), (REPR.src, REPR.dst));
        assert!(view.dont_fragment() && !view.more_fragments());
        assert_eq!(buf[20], 0xff);
    }

    #[test]
    fn setters_edit_in_place() {
        let mut buf = [0; 60];
        emit(&mut buf, &Ipv4Repr { payload_len: 40, ..REPR }).unwrap();
        let mut view = Ipv4::new_checked(&mut buf[..]).unwrap();
        view.set_tos(0xb9);
        view.set_id(0x1234);
        view.set_ttl(3);
        view.set_protocol(50);
        view.set_total_len(44);
        view.set_unfragmented(false);
        assert!(!view.checksum_ok());
        view.fill_checksum();
        assert!(view.checksum_ok());
        assert_eq!((view.dscp(), view.ecn(), view.id(), view.ttl(), view.protocol()), (46, 1, 0x1234, 3, 50));
        assert_eq!((view.payload().len(), view.dont_fragment()), (24, false));
    }

    /// Tries every word, from many others, with sums of the rest at both ends (RFC 1624 section 4: where the older
    /// equation was wrong).
    #[test]
    fn every_word_can_take_anothers_place() {
        for rest in [1_u16, 0x4500, 0x7fff, 0xfffe, 0xffff] {
            for old in (0..=u16::MAX).step_by(4369) {
                let mut bytes = [0; HEADER_LEN];
                put16(&mut bytes, 4, old);
                put16(&mut bytes, 8, rest);
                let check = !checksum::fold(u32::from(old) + u32::from(rest));
                for new in 0..=u16::MAX {
                    put16(&mut bytes, 4, old);
                    put16(&mut bytes, 10, check);
                    edit(&mut bytes, 4, new);
                    let whole = u32::from(new) + u32::from(rest) + u32::from(be16(&bytes, 10));
                    // The rest is never zero: a header says its version.
                    assert!(checksum::fold(whole) == 0xffff, "{old:#x} to {new:#x} beside {rest:#x}");
                }
            }
        }
    }

    #[test]
    fn edits_change_the_checksum_along_and_do_not_repair_it() {
        let mut buf = [0; 60];
        emit(&mut buf, &Ipv4Repr { payload_len: 40, ..REPR }).unwrap();
        buf[6] |= 0x80;
        Ipv4::new_checked(&mut buf[..]).unwrap().fill_checksum();
        for wrong in [0, 0x0100] {
            let mut bytes = buf;
            let check = be16(&bytes, 10) ^ wrong;
            put16(&mut bytes, 10, check);
            edit_ttl(&mut bytes, 7);
            edit_tos(&mut bytes, 0xb9);
            edit_id(&mut bytes, 0xfedc);
            edit_reserved(&mut bytes);
            let view = Ipv4::new_checked(&bytes[..]).unwrap();
            assert_eq!(view.checksum_ok(), wrong == 0);
            assert_eq!((view.ttl(), view.tos(), view.id(), view.reserved()), (7, 0xb9, 0xfedc, false));
            assert!(view.dont_fragment());
        }
    }

    #[test]
    fn options_are_taken_out() {
        let mut packet = vec![0; 32];
        emit(&mut packet, &Ipv4Repr { payload_len: 12, ..REPR }).unwrap();
        packet[20..32].copy_from_slice(&[148, 4, 0, 0, 1, 1, 1, 0, 1, 2, 3, 4]);
        packet[0] = 0x47;
        let mut buf = Buf::from_slice(&packet, 8, 0);
        assert_eq!(remove_options(&mut buf), 8);
        let view = Ipv4::new_checked(buf.as_slice()).unwrap();
        assert!(view.checksum_ok() && view.options().is_empty());
        assert_eq!((view.payload(), view.src()), ([1, 2, 3, 4].as_slice(), REPR.src));
        assert_eq!((buf.len(), remove_options(&mut buf)), (24, 0));
    }

    #[test]
    fn contradictions_are_refused() {
        let mut good = [0; 60];
        emit(&mut good, &Ipv4Repr { payload_len: 40, ..REPR }).unwrap();
        let with = |at: usize, value: u8| {
            let mut bytes = good;
            bytes[at] = value;
            Ipv4::new_checked(bytes).map(|v| v.total_len())
        };
        assert_eq!(with(0, 0x65), Err(WireError::Version));
        assert_eq!(with(0, 0x44), Err(WireError::HeaderLength));
        assert_eq!(with(3, 19), Err(WireError::TotalLength));
        assert_eq!(with(3, 61), Err(WireError::Truncated));
        assert_eq!(with(0, 0x4f), Ok(60));
        assert_eq!(with(3, 20), Ok(20));
        assert_eq!(Ipv4::new_checked(&good[..19]).map(|v| v.ttl()), Err(WireError::Truncated));
        assert_eq!(Ipv4::new_checked([]).map(|v: Ipv4<[u8; 0]>| v.ttl()), Err(WireError::Truncated));
        assert_eq!(emit(&mut good[..19], &REPR), Err(WireError::NoRoom));
        assert_eq!(emit(&mut good, &Ipv4Repr { payload_len: 65516, ..REPR }), Err(WireError::TooLong));
        assert_eq!(emit(&mut good, &Ipv4Repr { payload_len: usize::MAX, ..REPR }), Err(WireError::TooLong));
        assert_eq!(emit(&mut good, &Ipv4Repr { payload_len: 65515, ..REPR }), Ok(()));
    }
}
