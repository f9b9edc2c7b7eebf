//! Segments that are made, and segments whose data or options are replaced.

use super::{Flags, HEADER_LEN, Tcp};
use crate::field::{be16, put16, put32, tail_mut};
use crate::ip::{self, Headers};
use crate::{Buf, WireError, checksum, ipv4, ipv6, protocol};
use std::net::{IpAddr, SocketAddr};

/// The fields of a segment without data that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpRepr {
    /// The address and port of the sender.
    pub src: SocketAddr,
    /// The address and port of the receiver, of the same family.
    pub dst: SocketAddr,
    /// The sequence number of the segment.
    pub seq: u32,
    /// The acknowledgment number of the segment.
    pub ack: u32,
    /// The flags of the segment.
    pub flags: Flags,
    /// The window, not scaled.
    pub window: u16,
    /// The timestamp option's value and echo; no option if `None`.
    pub timestamps: Option<(u32, u32)>,
    /// The time to live or hop limit.
    pub ttl: u8,
}

/// Octets that a segment made here has free in front of it, for the headers of a device.
const HEADROOM: usize = 64;

/// Makes the packet, with all lengths and checksums. `None` if the addresses are of two families.
pub fn packet(repr: &TcpRepr) -> Option<Buf> {
    let options = if repr.timestamps.is_some() { 12 } else { 0 };
    let payload_len = HEADER_LEN + options;
    let ip_len = match repr.src.ip() {
        IpAddr::V4(_) => ipv4::HEADER_LEN,
        IpAddr::V6(_) => ipv6::HEADER_LEN,
    };
    let mut buf = Buf::with_capacity(HEADROOM + ip_len + payload_len, HEADROOM);
    let bytes = buf.push_back(ip_len + payload_len)?;
    match (repr.src.ip(), repr.dst.ip()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let (protocol, ttl) = (protocol::TCP, repr.ttl);
            let header = ipv4::Ipv4Repr { src, dst, protocol, ttl, tos: 0, id: 0, df: true, payload_len };
            ipv4::emit(bytes, &header).ok()?;
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let (next_header, hop_limit) = (protocol::TCP, repr.ttl);
            let (traffic_class, flow_label) = (0, 0);
            let header =
                ipv6::Ipv6Repr { src, dst, next_header, hop_limit, traffic_class, flow_label, payload_len };
            ipv6::emit(bytes, &header).ok()?;
        }
        _ => return None,
    }
    let segment = tail_mut(bytes, ip_len);
    put16(segment, 0, repr.src.port());
    put16(segment, 2, repr.dst.port());
    put32(segment, 4, repr.seq);
    put32(segment, 8, repr.ack);
    put16(segment, 12, (payload_len as u16 / 4) << 12 | repr.flags.0 & 0xfff);
    put16(segment, 14, repr.window);
    if let Some((value, echo)) = repr.timestamps {
        put32(segment, HEADER_LEN, 0x0101_080a);
        put32(segment, HEADER_LEN + 4, value);
        put32(segment, HEADER_LEN + 8, echo);
    }
    let headers = Headers::parse(bytes).ok()?;
    checksum::complete_transport(bytes, &headers).ok()?;
    Some(buf)
}

/// Cuts the data of the segment in `buf` to the `keep` octets behind the first `front`. Lengths and the checksum of the
/// IP header are right afterwards; the caller adjusts the sequence number and the checksum of the segment.
///
/// # Errors
/// [`WireError::Truncated`] if there are no such octets or `headers` are not those of the packet; nothing is changed
/// then.
pub fn cut(buf: &mut Buf, headers: &mut Headers, front: usize, keep: usize) -> Result<(), WireError> {
    let header = Tcp::new_checked(headers.upper(buf.as_slice()))?.header_len();
    let data_at = headers.header_len + header;
    let keep =
        keep.min(headers.total_len.saturating_sub(data_at).checked_sub(front).ok_or(WireError::Truncated)?);
    buf.truncate(data_at + front + keep);
    if front > 0 {
        // The headers are shorter than the data.
        buf.as_mut_slice().copy_within(..data_at, front);
        if !buf.trim_front(front) {
            return Err(WireError::Truncated);
        }
    }
    ip::put_total_len(buf.as_mut_slice(), headers, data_at + keep)
}

/// Replaces the options of the segment in `buf`. Lengths and the checksum of the IP header are right afterwards; the
/// caller adjusts the checksum of the segment.
///
/// # Errors
/// [`WireError::NoRoom`] if the options are no multiple of four octets, more than a header holds, or there is no room
/// behind the packet; otherwise what is wrong with the packet, or with `headers` as those of it.
pub fn put_options(buf: &mut Buf, headers: &mut Headers, options: &[u8]) -> Result<(), WireError> {
    const MOST: usize = 40;
    let old = Tcp::new_checked(headers.upper(buf.as_slice()))?.header_len();
    let new = HEADER_LEN + options.len();
    if !options.len().is_multiple_of(4) || options.len() > MOST {
        return Err(WireError::NoRoom);
    }
    buf.truncate(headers.total_len);
    let (from, to) = (headers.header_len + old, headers.header_len + new);
    if new > old {
        buf.push_back(new - old).ok_or(WireError::NoRoom)?;
    }
    let total = headers.total_len - old + new;
    let bytes = buf.as_mut_slice();
    bytes.copy_within(from..headers.total_len, to);
    let segment = tail_mut(bytes, headers.header_len);
    let flags = be16(segment, 12) & 0x0fff;
    put16(segment, 12, (new as u16 / 4) << 12 | flags);
    if let Some(place) = segment.get_mut(HEADER_LEN..new) {
        place.copy_from_slice(options);
    }
    buf.truncate(total);
    ip::put_total_len(buf.as_mut_slice(), headers, total)
}
