//! The errors that Ravelin sends: "too big" (RFC 1191, RFC 8201) and "unreachable".

use super::{HEADER_LEN, is_error_v4, is_error_v6, put_rest};
use crate::field::{put, put16, range, tail_mut};
use crate::ip::{self, Headers};
use crate::{Buf, checksum, ipv4, ipv6, protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Octets left free in front of an error, for the headers of a device.
const HEADROOM: usize = 64;
/// The most octets of an ICMPv4 error (RFC 1812 section 4.3.2.3).
const MAX_V4: usize = 576;
/// The smallest MTU of an IPv4 link (RFC 791 section 3.2).
const MIN_MTU_V4: usize = 68;
/// The type of service of control traffic (RFC 1812 section 4.3.2.5).
const TOS_CONTROL: u8 = 0xc0;
const TTL: u8 = 64;

/// Makes the error that tells the sender of `original` that only packets of `mtu` octets go through: "fragmentation
/// needed" or "packet too big". It comes from `from`, an address of this host (RFC 4443 section 2.2); with `None`, it
/// comes from the original's destination. There is none if the original must not cause an error (an ICMP error, a later
/// fragment, not one sender, not one receiver; IPv6 excepts groups, RFC 4443 section 3.2, and needs `from` then). There
/// is none either if it would say nothing new: no host goes below 68 (IPv4) or 1280 octets (IPv6), so a packet of that
/// size is never answered.
pub fn too_big(original: &[u8], headers: &Headers, mtu: usize, from: Option<IpAddr>) -> Option<Buf> {
    let (least, kind) = if headers.version == 4 { (MIN_MTU_V4, [3, 4]) } else { (ipv6::MIN_MTU, [2, 0]) };
    let mtu = mtu.max(least);
    // IPv4 has 16 bits for it, behind 16 unused ones.
    let field = if headers.version == 4 { mtu.min(0xffff) } else { mtu };
    (headers.total_len > mtu)
        .then(|| error(original, headers, kind, u32::try_from(field).unwrap_or(u32::MAX), from))?
}

/// The reason why a destination is not reached, as far as it is told (RFC 4301 section 5.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// The policy refuses it: "communication administratively prohibited".
    Prohibited,
    /// Nobody answers there: "host unreachable", "address unreachable".
    Host,
}

/// Makes the error that tells the sender of `original` that it does not get through. `from` and the answer `None` mean
/// what they mean in [`too_big`], but there is never an error about a group.
pub fn unreachable(
    original: &[u8],
    headers: &Headers,
    why: Unreachable,
    from: Option<IpAddr>,
) -> Option<Buf> {
    let kind = match (headers.version, why) {
        (4, Unreachable::Prohibited) => [3, 13],
        (4, Unreachable::Host) => [3, 1],
        (_, Unreachable::Prohibited) => [1, 1],
        (_, Unreachable::Host) => [1, 3],
    };
    error(original, headers, kind, 0, from)
}

/// Makes an error of this type and code about `original`, if that may cause one.
fn error(original: &[u8], headers: &Headers, kind: [u8; 2], rest: u32, from: Option<IpAddr>) -> Option<Buf> {
    let original = range(original, 0, headers.total_len);
    let first = headers.upper(original).first().copied();
    if headers.fragment.is_some_and(|f| f.offset != 0) {
        return None;
    }
    match (headers.src, headers.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let is_error = ip::is_icmp(headers) && first.is_none_or(is_error_v4);
            let due = single_v4(src) && single_v4(dst) && !is_error;
            let from = if let Some(IpAddr::V4(from)) = from { from } else { dst };
            if due { error_v4(original, src, from, kind, rest) } else { None }
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let is_error = ip::is_icmp(headers) && first.is_none_or(is_error_v6);
            let from = if let Some(IpAddr::V6(from)) = from { from } else { dst };
            let about_group = dst.is_multicast() && kind == [2, 0];
            let due = single_v6(src) && (single_v6(dst) || about_group) && single_v6(from) && !is_error;
            if due { error_v6(original, src, from, kind, rest) } else { None }
        }
        _ => None,
    }
}

/// Whether the address is one host's: not zero, loopback, multicast, reserved or broadcast.
fn single_v4(addr: Ipv4Addr) -> bool {
    let [first, ..] = addr.octets();
    first != 0 && first != 127 && first < 224
}

fn single_v6(addr: Ipv6Addr) -> bool {
    !(addr.is_unspecified() || addr.is_loopback() || addr.is_multicast())
}

fn error_v4(original: &[u8], src: Ipv4Addr, dst: Ipv4Addr, kind: [u8; 2], rest: u32) -> Option<Buf> {
    let quote = range(original, 0, original.len().min(MAX_V4 - ipv4::HEADER_LEN - HEADER_LEN));
    let payload_len = HEADER_LEN + quote.len();
    let mut buf = Buf::with_capacity(HEADROOM + ipv4::HEADER_LEN + payload_len, HEADROOM);
    let bytes = buf.push_back(ipv4::HEADER_LEN + payload_len)?;
    let repr = ipv4::Ipv4Repr {
        src: dst,
        dst: src,
        protocol: protocol::ICMP,
        ttl: TTL,
        tos: TOS_CONTROL,
        id: 0,
        df: true,
        payload_len,
    };
    ipv4::emit(bytes, &repr).ok()?;
    let message = tail_mut(bytes, ipv4::HEADER_LEN);
    put(message, 0, kind);
    put_rest(message, rest);
    tail_mut(message, HEADER_LEN).copy_from_slice(quote);
    let check = checksum::ip_checksum(message);
    put16(message, 2, check);
    Some(buf)
}

fn error_v6(original: &[u8], src: Ipv6Addr, dst: Ipv6Addr, kind: [u8; 2], rest: u32) -> Option<Buf> {
    let quote = range(original, 0, original.len().min(ipv6::MIN_MTU - ipv6::HEADER_LEN - HEADER_LEN));
    let payload_len = HEADER_LEN + quote.len();
    let mut buf = Buf::with_capacity(HEADROOM + ipv6::HEADER_LEN + payload_len, HEADROOM);
    let bytes = buf.push_back(ipv6::HEADER_LEN + payload_len)?;
    let repr = ipv6::Ipv6Repr {
        src: dst,
        dst: src,
        next_header: protocol::ICMPV6,
        hop_limit: TTL,
        traffic_class: TOS_CONTROL,
        flow_label: 0,
        payload_len,
    };
    ipv6::emit(bytes, &repr).ok()?;
    let message = tail_mut(bytes, ipv6::HEADER_LEN);
    put(message, 0, kind);
    put_rest(message, rest);
    tail_mut(message, HEADER_LEN).copy_from_slice(quote);
    let pseudo = checksum::pseudo(IpAddr::V6(dst), IpAddr::V6(src), protocol::ICMPV6, payload_len);
    let check = !checksum::fold(pseudo + checksum::sum(message));
    put16(message, 2, check);
    Some(buf)
}
