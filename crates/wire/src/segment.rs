//! Cutting super-packets: a piece of a TCP stream, or a run of UDP datagrams, that the kernel handed over under one
//! header (TSO, USO) becomes packets that fit.
//!
//! A super-packet enters with its [`Headers`] and [`Gso`]. Whole IP packets leave with right lengths, identifications
//! (RFC 6864: one each), sequence numbers, flags and full checksums, one at a time in a buffer of the caller.

use crate::field::{be16, put16, put32, range, tail};
use crate::ip::{self, Headers};
use crate::ipv6;
use crate::tcp::{Flags, Tcp};
use crate::udp::{self, Udp};
use crate::{Buf, Gso, GsoKind, WireError, checksum, protocol};

/// The packets of one super-packet, in order.
#[derive(Clone, Debug)]
pub struct SegmentIter<'a> {
    /// The octets of the IP and transport headers.
    headers: &'a [u8],
    payload: &'a [u8],
    /// Octets of the IP header, options included.
    ip_len: usize,
    work: Work,
    ip: IpTemplate,
    /// Payload octets of each segment except the last.
    size: usize,
    /// The offset where the next segment's payload starts; `None` at the end.
    next: Option<usize>,
    /// Number of segments written so far.
    written: u16,
}

/// The work that is left to do with a segment behind its IP header.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// The packet goes as it is.
    Nothing,
    /// The packet has a checksum that must be completed.
    Checksum { start: usize, offset: usize },
    /// The segment needs a sequence number, flags and a checksum.
    Tcp(TcpTemplate),
    /// The datagram needs a length, and a checksum if there is one. `constant` is the sum of the pseudo-header and the
    /// ports.
    Udp { constant: u32, checksum: bool },
}

/// The parts of the IP headers that segments of one super-packet share.
#[derive(Clone, Copy, Debug)]
enum IpTemplate {
    /// The sum of the header without length, identification and checksum, and the first identification.
    V4 {
        constant: u32,
        id: u16,
    },
    V6,
}

/// The parts of the TCP headers that segments of one super-packet share.
#[derive(Clone, Copy, Debug)]
struct TcpTemplate {
    /// The sum of pseudo-header (without length) and header, without sequence number, flags, urgent pointer and
    /// checksum.
    constant: u32,
    /// The sequence number of the first segment.
    seq: u32,
    /// The data offset and the flags.
    flags: u16,
    /// The urgent pointer of the first segment.
    urgent: u16,
}

/// Cuts `packet` so that no piece is longer than `max_len` octets. A TCP super-packet is cut at `gso.size` or smaller,
/// a UDP one exactly at `gso.size` ([`WireError::TooBig`] if that does not fit). An ordinary packet is one piece, with
/// its checksum finished; it is too big if it does not fit.
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
    let (flags, urgent) = (be16(view.octets(), 12), view.urgent());
    let head = range(view.octets(), 0, view.header_len());
    let varying = [be16(head, 4), be16(head, 6), flags, view.checksum(), urgent];
    let constant = pseudo(packet, headers)? + checksum::sum_without(head, &varying);
    new(
        packet,
        headers,
        header_len,
        size,
        Work::Tcp(TcpTemplate { constant, seq: view.seq(), flags, urgent }),
    )
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
    let constant = pseudo(packet, headers)? + u32::from(view.src_port()) + u32::from(view.dst_port());
    new(packet, headers, header_len, size, Work::Udp { constant, checksum })
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

/// The sum of the pseudo-header without the length. It is an error if IPv4 options contradict themselves, since they
/// leave the last destination open.
fn pseudo(packet: &[u8], headers: &Headers) -> Result<u32, WireError> {
    let destination = ip::final_destination(packet, headers)?;
    Ok(checksum::pseudo(headers.src, destination, headers.protocol, 0))
}

fn new<'a>(
    packet: &'a [u8],
    headers: &Headers,
    header_len: usize,
    size: usize,
    work: Work,
) -> Result<SegmentIter<'a>, WireError> {
    let (head, payload) = packet.split_at_checked(header_len).ok_or(WireError::Gso)?;
    let ip_len = headers.header_len;
    let ip = match headers.version {
        4 => {
            let ip_header = range(head, 0, ip_len);
            let varying = [2, 4, 10].map(|at| be16(ip_header, at));
            IpTemplate::V4 { constant: checksum::sum_without(ip_header, &varying), id: be16(ip_header, 4) }
        }
        _ => IpTemplate::V6,
    };
    Ok(SegmentIter { headers: head, payload, ip_len, work, ip, size, next: Some(0), written: 0 })
}

/// How far a packet is cut, to go on later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentPosition {
    /// Octets of payload in the segments before it.
    octets: usize,
    /// The number of segments before it.
    written: u16,
}

impl SegmentPosition {
    /// Whether no segment stands before it.
    pub fn is_start(self) -> bool {
        self == SegmentPosition::default()
    }
}

impl SegmentIter<'_> {
    /// The place behind the last segment; `None` if there is none left.
    pub fn position(&self) -> Option<SegmentPosition> {
        self.next.map(|octets| SegmentPosition { octets, written: self.written })
    }

    /// Goes on at a place that an iteration over the same packet came to. The segments from there on may have another
    /// length. Behind the end there is no segment.
    pub fn resume(&mut self, position: SegmentPosition) {
        if !position.is_start() {
            self.next = (position.octets < self.payload.len()).then_some(position.octets);
            self.written = position.written;
        }
    }

    /// Number of segments that are not yet written.
    pub fn remaining(&self) -> usize {
        match self.next {
            Some(from) => (self.payload.len() - from).div_ceil(self.size.max(1)).max(1),
            None => 0,
        }
    }

    /// Octets of each segment except the last, which may be shorter.
    pub fn segment_len(&self) -> usize {
        self.headers.len() + self.size.min(self.payload.len())
    }

    /// Octets of the next segment; `None` if there is none left.
    #[inline]
    pub fn next_len(&self) -> Option<usize> {
        let from = self.next?;
        Some(self.headers.len() + self.size.min(self.payload.len() - from))
    }

    /// Appends the next segment to what `out` holds. `None` if there was none left. An error ([`WireError::NoRoom`] if
    /// `out` has too little room) ends the iteration.
    pub fn next_into(&mut self, out: &mut Buf) -> Option<Result<(), WireError>> {
        let len = self.next_len()?;
        match out.push_back(len) {
            Some(slot) => self.next_slice(slot).map(|written| written.map(drop)),
            None => {
                self.next = None;
                Some(Err(WireError::NoRoom))
            }
        }
    }

    /// Writes the next segment to the start of `slot` and returns its length ([`SegmentIter::next_len`]). `None` if
    /// there was none left. An error ([`WireError::NoRoom`] if `slot` is shorter) ends the iteration.
    #[inline]
    pub fn next_slice(&mut self, slot: &mut [u8]) -> Option<Result<usize, WireError>> {
        let (from, to) = self.step()?;
        Some(self.ended(self.write(from, to, slot)))
    }

    /// Writes the next segment without its IP header, as [`SegmentIter::next_slice`] does with it, for callers that
    /// write another IP header. The checksum is that of the segment's own addresses.
    #[inline]
    pub fn next_upper(&mut self, slot: &mut [u8]) -> Option<Result<usize, WireError>> {
        let (from, to) = self.step()?;
        let len = self.headers.len() - self.ip_len + to - from;
        let upper = slot.get_mut(..len).ok_or(WireError::NoRoom);
        Some(self.ended(upper.and_then(|upper| self.write_upper(from, to, upper)).map(|()| len)))
    }

    /// Skips the next segment; those behind it are as if it had been written.
    pub fn pass(&mut self) {
        if self.step().is_some() {
            self.written = self.written.wrapping_add(1);
        }
    }

    /// Octets of each segment's IP header, which [`SegmentIter::next_upper`] leaves out.
    pub fn ip_len(&self) -> usize {
        self.ip_len
    }

    /// The payload range of the next segment. The iteration moves past it.
    #[inline]
    fn step(&mut self) -> Option<(usize, usize)> {
        let from = self.next?;
        let to = (from + self.size).min(self.payload.len());
        self.next = (to < self.payload.len()).then_some(to);
        Some((from, to))
    }

    /// Counts what was written; an error ends the iteration.
    #[inline]
    fn ended(&mut self, result: Result<usize, WireError>) -> Result<usize, WireError> {
        if result.is_err() {
            self.next = None;
        }
        self.written = self.written.wrapping_add(1);
        result
    }

    #[inline]
    fn write(&self, from: usize, to: usize, slot: &mut [u8]) -> Result<usize, WireError> {
        let len = self.headers.len() + to - from;
        let bytes = slot.get_mut(..len).ok_or(WireError::NoRoom)?;
        let (ip, upper) = bytes.split_at_mut_checked(self.ip_len).ok_or(WireError::Gso)?;
        ip.copy_from_slice(range(self.headers, 0, self.ip_len));
        self.write_upper(from, to, upper)?;
        if matches!(self.work, Work::Tcp(_) | Work::Udp { .. }) {
            self.finish_ip(ip, len)?;
        }
        Ok(len)
    }

    #[inline]
    fn write_upper(&self, from: usize, to: usize, upper: &mut [u8]) -> Result<(), WireError> {
        let data = range(self.payload, from, to);
        let template = tail(self.headers, self.ip_len);
        let (head, body) = upper.split_at_mut_checked(template.len()).ok_or(WireError::NoRoom)?;
        match self.work {
            Work::Nothing | Work::Checksum { .. } => {
                head.copy_from_slice(template);
                body.copy_from_slice(data);
                if let Work::Checksum { start, offset } = self.work {
                    checksum::complete_partial(upper, start - self.ip_len, offset)?;
                }
            }
            Work::Tcp(tcp) => {
                head.copy_from_slice(template);
                let sum = checksum::copy_sum(body, data).ok_or(WireError::NoRoom)?;
                self.finish_tcp(head, from, to, &tcp, sum);
            }
            Work::Udp { constant, checksum } => {
                head.copy_from_slice(template);
                if checksum {
                    let sum = checksum::copy_sum(body, data).ok_or(WireError::NoRoom)?;
                    finish_udp(head, data.len(), Some(constant + sum));
                } else {
                    body.copy_from_slice(data);
                    finish_udp(head, data.len(), None);
                }
            }
        }
        Ok(())
    }

    /// Writes lengths, identification and header checksum of a packet of `len` octets.
    #[inline]
    fn finish_ip(&self, header: &mut [u8], len: usize) -> Result<(), WireError> {
        let len = u16::try_from(len).map_err(|_| WireError::TooLong)?;
        match self.ip {
            IpTemplate::V4 { constant, id } => {
                let id = id.wrapping_add(self.written);
                put16(header, 2, len);
                put16(header, 4, id);
                put16(header, 10, !checksum::fold(constant + u32::from(len) + u32::from(id)));
            }
            IpTemplate::V6 => put16(header, 4, len.saturating_sub(ipv6::HEADER_LEN as u16)),
        }
        Ok(())
    }

    /// Writes sequence number, flags, urgent pointer and checksum; `data` is the sum of the payload `from..to`.
    #[inline]
    fn finish_tcp(&self, header: &mut [u8], from: usize, to: usize, template: &TcpTemplate, data: u32) {
        let seq = template.seq.wrapping_add(from as u32);
        let mut flags = Flags(template.flags);
        if from > 0 {
            flags = flags.without(Flags::CWR);
        }
        if to < self.payload.len() {
            flags = flags.without(Flags::FIN | Flags::PSH);
        }
        let mut urgent = template.urgent;
        if from > 0 && flags.contains(Flags::URG) {
            // The pointer counts from the segment's own sequence number (RFC 9293 section 3.1).
            urgent = usize::from(urgent).saturating_sub(from) as u16;
            if urgent == 0 {
                flags = flags.without(Flags::URG);
            }
            put16(header, 18, urgent);
        }
        let len = (header.len() + to - from) as u32;
        let varying = (seq >> 16) + (seq & 0xffff) + u32::from(flags.0) + u32::from(urgent);
        put32(header, 4, seq);
        put16(header, 12, flags.0);
        put16(header, 16, !checksum::fold(template.constant + varying + len + data));
    }
}

/// Writes length and checksum; `sum` is that of pseudo-header (without length), ports and payload.
#[inline]
fn finish_udp(header: &mut [u8], payload_len: usize, sum: Option<u32>) {
    let len = (payload_len + udp::HEADER_LEN) as u16;
    put16(header, 4, len);
    let check = sum.map_or(0, |sum| match !checksum::fold(sum + 2 * u32::from(len)) {
        0 => 0xffff,
        check => check,
    });
    put16(header, 6, check);
}
