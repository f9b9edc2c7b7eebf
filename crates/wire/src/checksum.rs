//! The Internet checksum (RFC 1071), and the transport checksums made of it.
//!
//! A partial sum is an ordinary `u32`. Partial sums of neighbouring pieces are added with `+` (up to 65,536 of them),
//! and [`fold`] and `!` turn them into the field. Every piece except the last must have an even length.

use crate::field::{be16, put16, range, tail};
use crate::ip::Headers;
use crate::{WireError, ip, protocol};
use std::net::IpAddr;

/// The partial sum of `bytes`, at most 0xffff. An odd last octet counts as if a zero followed it.
pub fn sum(bytes: &[u8]) -> u32 {
    // Words may be summed in any byte order and swapped once at the end, and 32 bits at a time if the carries are
    // added in later (RFC 1071 section 2 B and C). The loop adds whole 64-bit words, carries lost, and their high
    // halves, which together tell the sum of the low halves: three vector instructions for two words.
    let (words, rest) = bytes.as_chunks::<8>();
    let (whole, high) = widest(bytes.len(), || {
        let (mut whole, mut high) = (0_u64, 0_u64);
        for word in words {
            let word = u64::from_ne_bytes(*word);
            whole = whole.wrapping_add(word);
            high += word >> 32;
        }
        (whole, high)
    });
    finish_sum(whole, high, rest)
}

/// The number of octets below which summing is faster than asking the processor for its vectors.
const WIDE: usize = 256;

/// Runs `work` compiled for AVX2, where this processor has it. Programs are compiled for the vectors that every
/// processor has, which are half as wide.
#[inline]
fn widest<R>(octets: usize, work: impl FnOnce() -> R) -> R {
    if octets < WIDE { work() } else { pulp::Arch::new().dispatch(work) }
}

/// Copies `from` to the start of `to`, and returns the partial sum of what was copied, in one pass over the bytes.
/// `None` if `to` is shorter; nothing is copied then.
pub fn copy_sum(to: &mut [u8], from: &[u8]) -> Option<u32> {
    let to = to.get_mut(..from.len())?;
    let (words, rest) = from.as_chunks::<8>();
    let (out, out_rest) = to.as_chunks_mut::<8>();
    let (whole, high) = widest(from.len(), || {
        let (mut whole, mut high) = (0_u64, 0_u64);
        for (out, word) in out.iter_mut().zip(words) {
            let word = u64::from_ne_bytes(*word);
            *out = word.to_ne_bytes();
            whole = whole.wrapping_add(word);
            high += word >> 32;
        }
        (whole, high)
    });
    out_rest.copy_from_slice(rest);
    Some(finish_sum(whole, high, rest))
}

/// The partial sum of `bytes` without `words`, which it holds at even offsets. It is the constant part of a header.
pub(crate) fn sum_without(bytes: &[u8], words: &[u16]) -> u32 {
    // In one's complement, to take a word away is to add its complement (RFC 1624).
    u32::from(fold(sum(bytes) + words.iter().map(|word| u32::from(!word)).sum::<u32>()))
}

/// The sum of 64-bit words, given as their sum and the sum of their high halves, and of fewer than eight octets behind
/// them.
#[inline]
fn finish_sum(whole: u64, high: u64, rest: &[u8]) -> u32 {
    let low = whole.wrapping_sub(high << 32);
    let (words, rest) = rest.as_chunks::<4>();
    let mut total = low + high + words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum::<u64>();
    let mut last = [0; 4];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    total += u64::from(u32::from_ne_bytes(last));
    total = (total >> 32) + (total & 0xffff_ffff);
    total = (total >> 32) + (total & 0xffff_ffff);
    u32::from(u16::from_be(fold(((total >> 16) + (total & 0xffff)) as u32)))
}

/// Folds a partial sum into 16 bits; `!fold(sum)` is the checksum field.
pub fn fold(sum: u32) -> u16 {
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

/// The partial sum of the pseudo-header (RFC 9293 section 3.1, RFC 768, RFC 8200 section 8.1).
pub fn pseudo(src: IpAddr, dst: IpAddr, protocol: u8, len: usize) -> u32 {
    let address = |addr| match addr {
        IpAddr::V4(v4) => sum(&v4.octets()),
        IpAddr::V6(v6) => sum(&v6.octets()),
    };
    let len = len as u32;
    address(src) + address(dst) + u32::from(protocol) + (len >> 16) + (len & 0xffff)
}

/// The checksum of an IPv4 header (or an ICMPv4 message) whose checksum field is zero.
pub fn ip_checksum(bytes: &[u8]) -> u16 {
    !fold(sum(bytes))
}

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
/// NEEDS_CSUM; the counterpart of [`complete_partial`]).
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

/// Completes a checksum that the kernel left half done (virtio's NEEDS_CSUM). The field `offset` octets behind `start`
/// holds the pseudo-header's sum, whatever the protocol is; everything from `start` on is added.
pub fn complete_partial(packet: &mut [u8], start: usize, offset: usize) -> Result<(), WireError> {
    let area = tail(packet, start);
    if area.len() < offset.saturating_add(2) {
        return Err(WireError::Gso);
    }
    let check = !fold(sum(area));
    put16(packet, start + offset, if check == 0 { 0xffff } else { check });
    Ok(())
}
