//! The Internet checksum (RFC 1071), and the transport checksums made of it.
//!
//! A partial sum is an ordinary `u32`. Partial sums of neighbouring pieces are added with `+` (up to 65,536 of them),
//! and [`fold`] and `!` turn them into the field. Every piece except the last must have an even length.

mod transport;

pub use transport::{
    adjust_transport, complete_transport, is_partial, put_pseudo, transport_error, verify_summed,
    verify_transport,
};

use crate::WireError;
use crate::field::{put16, tail};
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
