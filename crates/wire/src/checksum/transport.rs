//! The checksums of TCP, UDP, ICMP and ICMPv6 in whole packets.

use super::{fold, pseudo, sum};
use crate::field::{be16, put16, range};
use crate::ip::Headers;
use crate::{WireError, ip, protocol};

/// The offset of the checksum in the header of `protocol`, and whether it covers a pseudo-header.
fn place(protocol: u8) -> Option<(usize, bool)> {
    match protocol {
        protocol::TCP => Some((16, true)),
        protocol::UDP => Some((6, true)),
        protocol::ICMPV6 => Some((2, true)),
        protocol::ICMP => Some((2, false)),
        _ => None,
    }
}

/// The end of the octets that the transport checksum covers, the offset of its field in the packet, and the
/// pseudo-header's sum.
#[inline]
fn covered(packet: &[u8], headers: &Headers) -> Result<(usize, usize, u32), WireError> {
    if headers.fragment.is_some_and(|f| f.more || f.offset != 0) {
        return Err(WireError::Gso);
    }
    let (at, with_pseudo) = place(headers.protocol).ok_or(WireError::Gso)?;
    let transport = range(packet, headers.header_len, headers.total_len);
    if transport.len() < at + 2 {
        return Err(WireError::Truncated);
    }
    let mut len = transport.len();
    if headers.protocol == protocol::UDP {
        // UDP has a length of its own; what follows it in the IP payload is not covered.
        len = usize::from(be16(transport, 4));
        if len < 8 || len > transport.len() {
            return Err(WireError::TotalLength);
        }
    }
    let partial = match (with_pseudo, headers.has_options) {
        (true, true) => pseudo(headers.src, ip::final_destination(packet, headers)?, headers.protocol, len),
        // Nothing but the addresses as they stand in the header.
        (true, false) => {
            sum(ip::addresses(packet, headers.version))
                + u32::from(headers.protocol)
                + (len as u32 >> 16)
                + (len as u32 & 0xffff)
        }
        (false, _) => 0,
    };
    Ok((headers.header_len + len, headers.header_len + at, partial))
}

/// Computes the TCP, UDP, ICMP or ICMPv6 checksum of a whole packet from scratch and writes it.
pub fn complete_transport(packet: &mut [u8], headers: &Headers) -> Result<(), WireError> {
    let (end, at, partial) = covered(packet, headers)?;
    put16(packet, at, 0);
    let check = !fold(partial + sum(range(packet, headers.header_len, end)));
    // For UDP zero means "none" (RFC 768); in one's complement the other zero says the same.
    put16(packet, at, if check == 0 && headers.protocol == protocol::UDP { 0xffff } else { check });
    Ok(())
}

/// Writes what the kernel expects of a packet whose checksum it completes: the sum of the pseudo-header (virtio's
/// NEEDS_CSUM; the counterpart of [`complete_partial`](super::complete_partial)).
///
/// # Errors
/// The errors of [`complete_transport`].
pub fn put_pseudo(packet: &mut [u8], headers: &Headers) -> Result<(), WireError> {
    let (_, at, partial) = covered(packet, headers)?;
    put16(packet, at, fold(partial));
    Ok(())
}

/// Whether the TCP, UDP, ICMP or ICMPv6 checksum is right. `None` if there is nothing to check: another protocol,
/// a fragment, no room for the field, or UDP over IPv4 without a checksum.
pub fn verify_transport(packet: &[u8], headers: &Headers) -> Option<bool> {
    let (end, at, partial) = covered(packet, headers).ok()?;
    if headers.protocol == protocol::UDP && headers.version == 4 && be16(packet, at) == 0 {
        return None;
    }
    let (end, start) = (end, headers.header_len);
    Some(fold(partial + sum(range(packet, start, end))) == 0xffff)
}

/// Whether the transport checksum is one that its sender's device was to finish. A capture on the sending host, or a
/// packet socket behind a virtual link, shows the sum of the pseudo-header in its place ([`put_pseudo`]).
pub fn is_partial(packet: &[u8], headers: &Headers) -> bool {
    covered(packet, headers).is_ok_and(|(_, at, partial)| be16(packet, at) == fold(partial))
}

/// Whether the transport checksum of a packet is right, given the partial sum `data` of its octets from `data_at` on.
/// `data_at` is at an even distance from the transport header. `None` for the reasons of [`verify_transport`].
#[inline]
pub fn verify_summed(packet: &[u8], headers: &Headers, data_at: usize, data: u32) -> Option<bool> {
    let (_, _, partial) = covered(packet, headers).ok()?;
    Some(fold(partial + sum(range(packet, headers.header_len, data_at)) + data) == 0xffff)
}

/// The number to add, in one's complement, to a transport checksum that covers addresses, so that it is right; zero if
/// it is. `None` for the reasons of [`verify_transport`], and for ICMP, whose checksum covers no addresses. Where only
/// addresses were changed, all packets between them have the same number.
pub fn transport_error(packet: &[u8], headers: &Headers) -> Option<u16> {
    let (end, at, partial) = covered(packet, headers).ok()?;
    let unused = headers.protocol == protocol::UDP && headers.version == 4 && be16(packet, at) == 0;
    if unused || headers.protocol == protocol::ICMP {
        return None;
    }
    Some(!fold(partial + sum(range(packet, headers.header_len, end))))
}

/// Adds a [`transport_error`] to the checksum.
pub fn adjust_transport(packet: &mut [u8], headers: &Headers, error: u16) {
    let Ok((_, at, _)) = covered(packet, headers) else { return };
    let check = be16(packet, at);
    if headers.protocol == protocol::ICMP || headers.protocol == protocol::UDP && check == 0 {
        return;
    }
    let right = fold(u32::from(check) + u32::from(error));
    put16(packet, at, if right == 0 && headers.protocol == protocol::UDP { 0xffff } else { right });
}
