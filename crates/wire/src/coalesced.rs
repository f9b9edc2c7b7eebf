//! A coalesced packet: whole inner packets of one flow that the host may be given under one header (what a network card's receive
//! offload does). It is the inverse of [`crate::segment`]: cutting a coalesced packet's super-packet gives its packets back.
//!
//! Packets enter where they lie, in one or several buffers; nothing is copied but one header. That header leaves, with
//! the lengths of the whole and the checksum half done (the kernel's NEEDS_CSUM), with the payloads in order and
//! [`Gso`]. Which packets go together is decided in [`crate::coalesce`].
//!
//! The code that joins packets verifies the inner checksums ([`crate::coalesce::Checks`]), not this module.

use crate::field::{be16, be32, octet, put16, range, tail};
use crate::tcp::Flags;
use crate::{Buf, Gso, GsoKind, WireError, checksum, ipv4, ipv6, protocol, tcp, udp};

/// The most packets of a coalesced packet.
pub const MAX_PACKETS: usize = 64;

/// The most octets of IP and transport header: IPv6 without extension headers, TCP with all options that it can have.
pub const MAX_HEADER: usize = ipv6::HEADER_LEN + 60;

/// The most octets of a super-packet, which is what an IPv4 length can say.
const MAX_LEN: usize = 65_535;

const DF_ONLY: u16 = 0x4000;

/// A packet that could be part of a coalesced packet, as far as one look at its headers tells. It is TCP or UDP, and its lengths
/// agree. IPv4 has DF, no options, no fragment and a right header checksum; IPv6 has no extension headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a> {
    packet: &'a [u8],
    ip_len: usize,
    head_len: usize,
    kind: GsoKind,
}

impl<'a> Piece<'a> {
    #[inline]
    pub(crate) fn look(packet: &'a [u8]) -> Option<Piece<'a>> {
        let (ip_len, protocol) = match octet(packet, 0) {
            0x45 => {
                let whole = usize::from(be16(packet, 2)) == packet.len() && be16(packet, 6) == DF_ONLY;
                let header = range(packet, 0, ipv4::HEADER_LEN);
                let right = whole && checksum::fold(checksum::sum(header)) == 0xffff;
                right.then_some((ipv4::HEADER_LEN, octet(packet, 9)))?
            }
            first if first >> 4 == 6 => {
                let whole = usize::from(be16(packet, 4)) + ipv6::HEADER_LEN == packet.len();
                whole.then_some((ipv6::HEADER_LEN, octet(packet, 6)))?
            }
            _ => return None,
        };
        let upper = tail(packet, ip_len);
        let (kind, upper_len) = match protocol {
            protocol::TCP if upper.len() >= tcp::HEADER_LEN => {
                (GsoKind::Tcp, usize::from(octet(upper, 12) >> 4) * 4)
            }
            protocol::UDP if usize::from(be16(upper, 4)) == upper.len() => (GsoKind::Udp, udp::HEADER_LEN),
            _ => return None,
        };
        let least = if kind == GsoKind::Tcp { tcp::HEADER_LEN } else { udp::HEADER_LEN };
        let fits = (least..=upper.len()).contains(&upper_len);
        fits.then_some(Piece { packet, ip_len, head_len: ip_len + upper_len, kind })
    }

    fn upper(&self) -> &'a [u8] {
        tail(self.packet, self.ip_len)
    }

    fn payload(&self) -> &'a [u8] {
        tail(self.packet, self.head_len)
    }

    fn tcp_flags(&self) -> Flags {
        Flags(be16(self.upper(), 12) & 0xfff)
    }

    /// Whether the packet may share a header with others at all: it has payload, and no flag that belongs to one
    /// segment.
    #[inline]
    pub(crate) fn joins(&self) -> bool {
        !self.payload().is_empty()
            && match self.kind {
                GsoKind::Tcp => {
                    let flags = self.tcp_flags();
                    let alone = Flags::SYN | Flags::RST | Flags::URG | Flags::CWR;
                    flags.contains(Flags::ACK) && !flags.intersects(alone)
                }
                // Without a checksum it would get one: RFC 768 lets the sender choose.
                _ => be16(self.upper(), 6) != 0,
            }
    }

    /// Whether nothing may follow the packet in its coalesced packet.
    #[inline]
    fn ends(&self) -> bool {
        self.kind == GsoKind::Tcp && self.tcp_flags().intersects(Flags::PSH | Flags::FIN)
    }

    /// Whether a coalesced packet may begin with the packet and go on.
    #[inline]
    pub(crate) fn begins(&self) -> bool {
        self.joins() && !self.ends()
    }

    /// Whether the packet's checksum is right; it has one if it [`joins`](Piece::joins).
    #[inline]
    pub(crate) fn is_right(&self) -> bool {
        let protocol = if self.kind == GsoKind::Tcp { protocol::TCP } else { protocol::UDP };
        let upper = self.upper();
        let pseudo = checksum::sum(self.addresses()) + u32::from(protocol) + upper.len() as u32;
        checksum::fold(pseudo + checksum::sum(upper)) == 0xffff
    }

    fn addresses(&self) -> &'a [u8] {
        let at = if self.ip_len == ipv4::HEADER_LEN { 12 } else { 8 };
        range(self.packet, at, self.ip_len)
    }

    /// Whether addresses, ports and protocol are the same.
    #[inline]
    pub(crate) fn same_flow(&self, other: &Piece<'_>) -> bool {
        self.kind == other.kind
            && self.ip_len == other.ip_len
            && self.addresses() == other.addresses()
            && range(self.upper(), 0, 4) == range(other.upper(), 0, 4)
    }

    /// Whether all header fields are alike that must be in a coalesced packet: all except length, identification, checksums,
    /// sequence number, PSH and FIN.
    #[inline]
    fn alike(&self, other: &Piece<'_>) -> bool {
        let ip = |from, to| range(self.packet, from, to) == range(other.packet, from, to);
        let upper = |from, to| range(self.upper(), from, to) == range(other.upper(), from, to);
        let ip_alike = match self.ip_len {
            ipv4::HEADER_LEN => ip(0, 2) && ip(6, 10) && ip(12, 20),
            _ => ip(0, 4) && ip(6, 40),
        };
        let ends = Flags::PSH | Flags::FIN;
        self.kind == other.kind
            && self.head_len == other.head_len
            && self.ip_len == other.ip_len
            && ip_alike
            && upper(0, 4)
            && (self.kind != GsoKind::Tcp
                || upper(8, 12)
                    && self.tcp_flags().without(ends) == other.tcp_flags().without(ends)
                    && upper(14, 16)
                    && upper(18, self.head_len - self.ip_len))
    }
}

/// A coalesced packet under one header, which are borrowed where they lie.
#[derive(Clone, Debug)]
pub struct Coalesced<'a> {
    /// The first packet as a piece; `None` for a packet that can only go alone.
    first: Option<Piece<'a>>,
    /// The whole packets, headers included, because the device may refuse the coalesced packet.
    packets: [&'a [u8]; MAX_PACKETS],
    count: usize,
    /// Octets of payload of all packets together.
    payload_len: usize,
    /// Payload octets of each packet except the last.
    size: usize,
    /// The PSH and FIN flags of the last packet.
    last_flags: Flags,
    closed: bool,
    /// The mark of the record: proof, services and application, the same for all packets.
    pub mark: u32,
}

impl<'a> Coalesced<'a> {
    /// Makes a coalesced packet of one packet, whatever it is. The packet begins with its IP header and ends where its IP length
    /// says.
    pub fn begin(packet: &'a [u8], mark: u32) -> Coalesced<'a> {
        Coalesced::begin_with(Piece::look(packet), packet, mark)
    }

    #[inline]
    pub(crate) fn begin_with(first: Option<Piece<'a>>, packet: &'a [u8], mark: u32) -> Coalesced<'a> {
        let payload_len = first.map_or(0, |piece| piece.payload().len());
        let mut packets: [&[u8]; MAX_PACKETS] = [&[]; MAX_PACKETS];
        if let Some(slot) = packets.first_mut() {
            *slot = packet;
        }
        Coalesced {
            first,
            packets,
            count: 1,
            payload_len,
            size: payload_len,
            last_flags: Flags::default(),
            closed: !first.is_some_and(|piece| piece.begins()),
            mark,
        }
    }

    /// Appends `piece` to the others if it belongs there; whether it did.
    #[inline]
    pub(crate) fn append(&mut self, piece: &Piece<'a>, mark: u32) -> bool {
        let Some(first) = self.first.filter(|_| !self.closed && self.mark == mark) else { return false };
        let len = piece.payload().len();
        let seq = be32(first.upper(), 4).wrapping_add(self.payload_len as u32);
        let belongs = len <= self.size
            && first.head_len + self.payload_len + len <= MAX_LEN
            && piece.joins()
            && (first.kind != GsoKind::Tcp || be32(piece.upper(), 4) == seq)
            && first.alike(piece);
        if !belongs {
            return false;
        }
        let Some(slot) = self.packets.get_mut(self.count) else { return false };
        *slot = piece.packet;
        self.count += 1;
        self.payload_len += len;
        if piece.ends() {
            self.last_flags = Flags(piece.tcp_flags().0 & (Flags::PSH | Flags::FIN).0);
        }
        self.closed = len < self.size
            || piece.ends()
            || self.count == MAX_PACKETS
            || first.head_len + self.payload_len + self.size > MAX_LEN;
        true
    }

    /// Whether a packet of this piece's flow has to come behind this coalesced packet.
    #[inline]
    pub(crate) fn same_flow(&self, piece: &Piece<'_>) -> bool {
        self.first.is_some_and(|first| first.same_flow(piece))
    }

    /// Whether no packet can follow.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The packets of the coalesced packet, each as it was.
    pub fn packets(&self) -> &[&'a [u8]] {
        self.packets.get(..self.count).unwrap_or_default()
    }

    /// The payloads behind the common header, in order; a coalesced packet of one packet has no common header.
    pub fn payloads(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + '_ {
        let head_len = self.first.map_or(0, |first| first.head_len);
        self.packets().iter().map(move |packet| tail(packet, head_len))
    }

    /// Octets of the super-packet, or of the one packet.
    #[expect(clippy::len_without_is_empty, reason = "a coalesced packet has a packet")]
    pub fn len(&self) -> usize {
        match self.first {
            Some(first) => first.head_len + self.payload_len,
            None => self.packets().iter().map(|packet| packet.len()).sum(),
        }
    }

    /// Writes the common header of two or more packets into `out`, and returns its length and how the kernel is to cut
    /// behind it. `None` for one packet, which goes as it is.
    pub fn header(&self, out: &mut [u8; MAX_HEADER]) -> Option<(usize, Gso)> {
        let first = self.first.filter(|_| self.count > 1)?;
        let header = out.get_mut(..first.head_len)?;
        header.copy_from_slice(first.packet.get(..first.head_len)?);
        let len = first.head_len + self.payload_len;
        let upper_len = len - first.ip_len;
        let (ip, upper) = header.split_at_mut_checked(first.ip_len)?;
        let (addresses, number) = match first.ip_len {
            ipv4::HEADER_LEN => {
                put16(ip, 2, u16::try_from(len).ok()?);
                put16(ip, 10, 0);
                put16(ip, 10, checksum::ip_checksum(ip));
                (range(ip, 12, 20), octet(ip, 9))
            }
            _ => {
                put16(ip, 4, u16::try_from(upper_len).ok()?);
                (range(ip, 8, 40), octet(ip, 6))
            }
        };
        let checksum_offset = match first.kind {
            GsoKind::Tcp => {
                let flags = be16(upper, 12);
                put16(upper, 12, flags | self.last_flags.0);
                16
            }
            _ => {
                put16(upper, 4, u16::try_from(upper_len).ok()?);
                6
            }
        };
        let partial = checksum::sum(addresses) + u32::from(number) + upper_len as u32;
        put16(upper, checksum_offset, checksum::fold(partial));
        let gso = Gso {
            kind: first.kind,
            needs_checksum: true,
            size: u16::try_from(self.size).ok()?,
            checksum_start: first.ip_len as u16,
            checksum_offset: checksum_offset as u16,
        };
        Some((first.head_len, gso))
    }

    /// Copies the super-packet, or the one packet, behind what `out` holds, for callers that cannot gather.
    pub fn copy_into(&self, out: &mut Buf) -> Result<Gso, WireError> {
        let mut put = |bytes: &[u8]| -> Result<(), WireError> {
            out.push_back(bytes.len()).ok_or(WireError::NoRoom)?.copy_from_slice(bytes);
            Ok(())
        };
        let mut header = [0; MAX_HEADER];
        match self.header(&mut header) {
            Some((len, gso)) => {
                put(range(&header, 0, len))?;
                self.payloads().try_for_each(put)?;
                Ok(gso)
            }
            None => {
                self.packets().iter().try_for_each(|packet| put(packet))?;
                Ok(Gso::default())
            }
        }
    }
}
