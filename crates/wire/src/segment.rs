//! Cutting super-packets: a TCP stream piece or a run of UDP datagrams that the kernel handed over under one
//! header (TSO, USO) becomes packets that fit.
//!
//! What enters: the super-packet, its [`Headers`] and [`Gso`]. What leaves: whole IP packets with right lengths,
//! identifications (RFC 6864: one each), sequence numbers, flags and full checksums, one at a time in a buffer of
//! the caller.

use crate::field::{put16, range};
use crate::ip::{self, Headers};
use crate::ipv4::Ipv4;
use crate::ipv6::{self, Ipv6};
use crate::tcp::{Flags, Tcp};
use crate::udp::{self, Udp};
use crate::{Buf, Gso, GsoKind, WireError, checksum, protocol};

/// The packets of one super-packet, in order.
#[derive(Clone, Debug)]
pub struct SegmentIter<'a> {
    /// IP and transport header.
    headers: &'a [u8],
    payload: &'a [u8],
    /// Octets of IP header and options.
    ip_len: usize,
    version: u8,
    work: Work,
    /// Payload octets of each segment but the last.
    size: usize,
    /// Where the next segment's payload starts; `None` at the end.
    next: Option<usize>,
    /// Segments written so far.
    written: u16,
}

/// What is left to do with a segment behind its IP header.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// A packet that goes as it is.
    Nothing,
    /// A packet whose checksum is half done.
    Checksum { start: usize, offset: usize },
    /// Sequence numbers, flags, checksum; with the pseudo-header's sum without length.
    Tcp { pseudo: u32 },
    /// Length, and checksum if there is one.
    Udp { pseudo: u32, checksum: bool },
}

/// Cut `packet` so that no piece is longer than `max_len` octets. A TCP super-packet is cut at `gso.size` or
/// smaller, a UDP one exactly at `gso.size` ([`WireError::TooBig`] if that does not fit). An ordinary packet is one
/// piece, with its checksum finished; it is too big if it does not fit.
pub fn segments<'a>(
    packet: &'a [u8],
    headers: &Headers,
    gso: &Gso,
    max_len: usize,
) -> Result<SegmentIter<'a>, WireError> {
    let packet = packet.get(..headers.total_len).ok_or(WireError::Truncated)?;
    match gso.kind {
        GsoKind::None => whole(packet, headers, gso, max_len),
        GsoKind::Tcp => tcp(packet, headers, gso, max_len),
        GsoKind::Udp => udp(packet, headers, gso, max_len),
    }
}

fn whole<'a>(
    packet: &'a [u8],
    headers: &Headers,
    gso: &Gso,
    max_len: usize,
) -> Result<SegmentIter<'a>, WireError> {
    if packet.len() > max_len {
        return Err(WireError::TooBig);
    }
    let work = if gso.needs_checksum {
        // It may lie deeper than the first upper layer: the kernel leaves the innermost sum open.
        let (start, offset) = (usize::from(gso.checksum_start), usize::from(gso.checksum_offset));
        if start < headers.header_len || start + offset + 2 > packet.len() {
            return Err(WireError::Gso);
        }
        Work::Checksum { start, offset }
    } else {
        Work::Nothing
    };
    new(packet, headers, packet.len(), packet.len(), work)
}

fn tcp<'a>(
    packet: &'a [u8],
    headers: &Headers,
    gso: &Gso,
    max_len: usize,
) -> Result<SegmentIter<'a>, WireError> {
    check(headers, gso, protocol::TCP, 16)?;
    let view = Tcp::new_checked(headers.upper(packet)).map_err(|_| WireError::Gso)?;
    let header_len = headers.header_len + view.header_len();
    let room = max_len.checked_sub(header_len).filter(|room| *room > 0).ok_or(WireError::TooBig)?;
    let size = room.min(usize::from(gso.size));
    if view.payload().len() > size && view.flags().intersects(Flags::SYN | Flags::RST) {
        return Err(WireError::Gso);
    }
    new(packet, headers, header_len, size, Work::Tcp { pseudo: pseudo(packet, headers) })
}

fn udp<'a>(
    packet: &'a [u8],
    headers: &Headers,
    gso: &Gso,
    max_len: usize,
) -> Result<SegmentIter<'a>, WireError> {
    check(headers, gso, protocol::UDP, 6)?;
    let upper = headers.upper(packet);
    let view = Udp::new_checked(upper).map_err(|_| WireError::Gso)?;
    if view.len() != upper.len() {
        return Err(WireError::Gso);
    }
    let header_len = headers.header_len + udp::HEADER_LEN;
    let size = usize::from(gso.size);
    if header_len + size.min(view.payload().len()) > max_len {
        return Err(WireError::TooBig);
    }
    let checksum = gso.needs_checksum || view.checksum() != 0;
    new(packet, headers, header_len, size, Work::Udp { pseudo: pseudo(packet, headers), checksum })
}

/// Whether the segmentation fields agree with the headers.
fn check(headers: &Headers, gso: &Gso, protocol: u8, checksum_offset: u16) -> Result<(), WireError> {
    let checksum_there =
        usize::from(gso.checksum_start) == headers.header_len && gso.checksum_offset == checksum_offset;
    let agree = headers.protocol == protocol
        && headers.fragment.is_none()
        && gso.size > 0
        && (checksum_there || !gso.needs_checksum);
    if agree { Ok(()) } else { Err(WireError::Gso) }
}

/// The pseudo-header's sum, without the length.
fn pseudo(packet: &[u8], headers: &Headers) -> u32 {
    checksum::pseudo(headers.src, ip::final_destination(packet, headers), headers.protocol, 0)
}

fn new<'a>(
    packet: &'a [u8],
    headers: &Headers,
    header_len: usize,
    size: usize,
    work: Work,
) -> Result<SegmentIter<'a>, WireError> {
    let (head, payload) = packet.split_at_checked(header_len).ok_or(WireError::Gso)?;
    let (ip_len, version) = (headers.header_len, headers.version);
    Ok(SegmentIter { headers: head, payload, ip_len, version, work, size, next: Some(0), written: 0 })
}

impl SegmentIter<'_> {
    /// Segments not yet written.
    pub fn remaining(&self) -> usize {
        match self.next {
            Some(from) => (self.payload.len() - from).div_ceil(self.size.max(1)).max(1),
            None => 0,
        }
    }

    /// Octets of each segment but the last, which may be shorter.
    pub fn segment_len(&self) -> usize {
        self.headers.len() + self.size.min(self.payload.len())
    }

    /// Write the next segment behind what `out` holds. `None`: there was none left. An error
    /// ([`WireError::NoRoom`]: `out` has too little room) ends the iteration.
    pub fn next_into(&mut self, out: &mut Buf) -> Option<Result<(), WireError>> {
        let from = self.next?;
        let to = (from + self.size).min(self.payload.len());
        self.next = (to < self.payload.len()).then_some(to);
        let result = self.write(from, to, out);
        if result.is_err() {
            self.next = None;
        }
        self.written = self.written.wrapping_add(1);
        Some(result)
    }

    fn write(&self, from: usize, to: usize, out: &mut Buf) -> Result<(), WireError> {
        let data = range(self.payload, from, to);
        let bytes = out.push_back(self.headers.len() + data.len()).ok_or(WireError::NoRoom)?;
        let (head, body) = bytes.split_at_mut_checked(self.headers.len()).ok_or(WireError::NoRoom)?;
        head.copy_from_slice(self.headers);
        body.copy_from_slice(data);
        match self.work {
            Work::Nothing => return Ok(()),
            Work::Checksum { start, offset } => return checksum::complete_partial(bytes, start, offset),
            Work::Tcp { .. } | Work::Udp { .. } => {}
        }
        self.finish_ip(bytes)?;
        let transport = bytes.get_mut(self.ip_len..).ok_or(WireError::Gso)?;
        match self.work {
            Work::Tcp { pseudo } => self.finish_tcp(transport, from, to, pseudo),
            Work::Udp { pseudo, checksum } => finish_udp(transport, pseudo, checksum),
            Work::Nothing | Work::Checksum { .. } => Ok(()),
        }
    }

    /// Lengths, identification and header checksum.
    fn finish_ip(&self, packet: &mut [u8]) -> Result<(), WireError> {
        let len = u16::try_from(packet.len()).map_err(|_| WireError::TooLong)?;
        if self.version == 4 {
            put16(packet, 2, len);
            let mut view = Ipv4::new_checked(packet)?;
            view.set_id(view.id().wrapping_add(self.written));
            view.fill_checksum();
        } else {
            let payload_len = len.saturating_sub(ipv6::HEADER_LEN as u16);
            put16(packet, 4, payload_len);
            Ipv6::new_checked(packet)?;
        }
        Ok(())
    }

    /// Sequence number, flags, urgent pointer and checksum.
    fn finish_tcp(&self, segment: &mut [u8], from: usize, to: usize, pseudo: u32) -> Result<(), WireError> {
        let len = segment.len() as u32;
        let mut view = Tcp::new_checked(segment)?;
        view.set_seq(view.seq().wrapping_add(from as u32));
        let mut flags = view.flags();
        if from > 0 {
            flags = flags.without(Flags::CWR);
        }
        if to < self.payload.len() {
            flags = flags.without(Flags::FIN | Flags::PSH);
        }
        if from > 0 && flags.contains(Flags::URG) {
            // The pointer counts from the segment's own sequence number (RFC 9293 section 3.1).
            let urgent = usize::from(view.urgent()).saturating_sub(from);
            if urgent == 0 {
                flags = flags.without(Flags::URG);
            }
            view.set_urgent(urgent as u16);
        }
        view.set_flags(flags);
        view.set_checksum(0);
        let check = !checksum::fold(pseudo + len + checksum::sum(view.octets()));
        view.set_checksum(check);
        Ok(())
    }
}

fn finish_udp(datagram: &mut [u8], pseudo: u32, checksum: bool) -> Result<(), WireError> {
    let len = u16::try_from(datagram.len()).map_err(|_| WireError::TooLong)?;
    put16(datagram, 4, len);
    put16(datagram, 6, 0);
    if checksum {
        let check = !checksum::fold(pseudo + u32::from(len) + checksum::sum(datagram));
        put16(datagram, 6, if check == 0 { 0xffff } else { check });
    }
    Ok(())
}
