//! BEET mode: transport on the wire between outer addresses that may change, fixed inner addresses that never travel
//! (draft-nikander-esp-beet-mode-09 sections 5 and 6).
//!
//! IPv4 options travel behind a pseudo header (section 5.4: next header 94): next header, length in 8 octets less one,
//! octets of padding (0 or 4), reserved, padding, options. Extension headers of IPv6 travel as they are.

use crate::inner::Inner;
use crate::opened::Opened;
use sadb::Selectors;
use std::net::IpAddr;
use wire::ipv4::{self, Ipv4, Ipv4Repr};
use wire::ipv6::{self, Ipv6, Ipv6Repr};
use wire::{Buf, DropReason, addr, options, protocol};

/// The fixed part of the pseudo header.
const PSEUDO: usize = 4;
/// The most octets of options that an IPv4 header has.
const MAX_OPTIONS: usize = 40;
const NOP: u8 = 1;

/// The two inner addresses: the selectors are those of one host each.
fn hosts(selectors: &Selectors) -> (IpAddr, IpAddr) {
    (addr::from_bits(selectors.local.first()), addr::from_bits(selectors.remote.first()))
}

/// Read the packet and put the pseudo header in front of its options. The packet must fill its buffer exactly and go
/// from one inner address to the other. `outer_v4` says whether the outer header is IPv4; a header of the same family
/// takes over the identification or the flow label.
pub(crate) fn read(bytes: &mut [u8], selectors: &Selectors, outer_v4: bool) -> Result<Inner, DropReason> {
    let (len, addresses, inner) = match bytes.first().map(|first| first >> 4) {
        Some(4) => {
            let ip = Ipv4::new_checked(&*bytes)?;
            if ip.more_fragments() || ip.frag_offset() != 0 {
                return Err(DropReason::Fragment);
            }
            let options = ip.options().len();
            let inner = Inner {
                next_header: ip.protocol(),
                tos: ip.tos(),
                ttl: ip.ttl(),
                df: ip.dont_fragment(),
                body: ip.header_len(),
                kept: 0,
                named_at: 0,
                label: if outer_v4 { ip.id().into() } else { 0 },
            };
            let found = (ip.total_len(), (IpAddr::V4(ip.src()), IpAddr::V4(ip.dst())), inner);
            if options == 0 { found } else { (found.0, found.1, with_options(bytes, found.2, options)?) }
        }
        Some(6) => {
            let ip = Ipv6::new_checked(&*bytes)?;
            if ipv6::walk(bytes)?.fragment.is_some() {
                return Err(DropReason::Fragment);
            }
            let inner = Inner {
                next_header: ip.next_header(),
                tos: ip.traffic_class(),
                ttl: ip.hop_limit(),
                df: true,
                body: ipv6::HEADER_LEN,
                kept: 0,
                named_at: 0,
                label: if outer_v4 { 0 } else { ip.flow_label() },
            };
            (ip.total_len(), (IpAddr::V6(ip.src()), IpAddr::V6(ip.dst())), inner)
        }
        _ => return Err(DropReason::BadVersion),
    };
    if len != bytes.len() {
        return Err(DropReason::BadHeader);
    }
    if addresses != hosts(selectors) {
        return Err(DropReason::BeetAddress);
    }
    Ok(inner)
}

/// Write the pseudo header over the end of the fixed header, which does not travel.
fn with_options(bytes: &mut [u8], inner: Inner, len: usize) -> Result<Inner, DropReason> {
    for option in options::ipv4(bytes, inner.body) {
        option?;
    }
    let padding = 4 - (len & 4);
    let body = ipv4::HEADER_LEN - padding - PSEUDO;
    let pseudo = bytes.get_mut(body..ipv4::HEADER_LEN).ok_or(DropReason::BeetHeader)?;
    if let Some((fixed, rest)) = pseudo.split_first_chunk_mut::<PSEUDO>() {
        *fixed = [inner.next_header, ((PSEUDO + padding + len) / 8 - 1) as u8, padding as u8, 0];
        rest.fill(NOP);
    }
    Ok(Inner { next_header: protocol::BEET_PSEUDO, body, ..inner })
}

/// Put the header with the inner addresses in front of the payload.
pub(crate) fn restore(buf: &mut Buf, opened: &Opened<'_>, selectors: &Selectors) -> Result<(), DropReason> {
    // Inbound selectors are this host's view: it is the destination.
    let (dst, src) = hosts(selectors);
    let whole = matches!(opened.next_header, protocol::IPV4 | protocol::IPV6 | protocol::FRAGMENT);
    if whole || opened.next_header == protocol::BEET_PSEUDO && src.is_ipv6() {
        return Err(DropReason::BeetNextHeader);
    }
    let (label, df) = of_outer(buf.as_slice(), src.is_ipv4());
    buf.truncate(opened.payload + opened.len);
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let pseudo = match opened.next_header {
                protocol::BEET_PSEUDO => read_pseudo(buf.as_slice(), opened)?,
                protocol => Pseudo { protocol, skip: 0, options: [0; MAX_OPTIONS], len: 0 },
            };
            let header = ipv4::HEADER_LEN + pseudo.len;
            put_front(buf, opened.payload + pseudo.skip, header)?;
            let total = u16::try_from(buf.len()).map_err(|_| DropReason::TooLong)?;
            let repr = Ipv4Repr {
                src,
                dst,
                protocol: pseudo.protocol,
                ttl: opened.outer.ttl,
                tos: opened.outer.tos,
                id: label as u16,
                df,
                payload_len: buf.len() - ipv4::HEADER_LEN,
            };
            ipv4::emit(buf.as_mut_slice(), &repr)?;
            if let (Some(place), Some(options)) =
                (buf.as_mut_slice().get_mut(ipv4::HEADER_LEN..header), pseudo.options.get(..pseudo.len))
            {
                place.copy_from_slice(options);
            }
            options::put_header_len(buf.as_mut_slice(), pseudo.len, total);
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            put_front(buf, opened.payload, ipv6::HEADER_LEN)?;
            let repr = Ipv6Repr {
                src,
                dst,
                next_header: opened.next_header,
                hop_limit: opened.outer.ttl,
                traffic_class: opened.outer.tos,
                flow_label: label,
                payload_len: buf.len() - ipv6::HEADER_LEN,
            };
            ipv6::emit(buf.as_mut_slice(), &repr)?;
        }
        _ => return Err(DropReason::BeetHeader),
    }
    Ok(())
}

/// The identification or flow label of the header in front, and its don't-fragment flag. BEET replaces addresses and
/// keeps the rest. If the families differ, the number is zero and the flag is set.
fn of_outer(bytes: &[u8], inner_v4: bool) -> (u32, bool) {
    if inner_v4 {
        Ipv4::new_checked(bytes).map_or((0, true), |ip| (ip.id().into(), ip.dont_fragment()))
    } else {
        (Ipv6::new_checked(bytes).map_or(0, |ip| ip.flow_label()), true)
    }
}

/// Leave exactly `header` octets in front of what starts at `at`. The inner header may be longer than what was in front.
fn put_front(buf: &mut Buf, at: usize, header: usize) -> Result<(), DropReason> {
    match at.checked_sub(header) {
        Some(excess) if buf.trim_front(excess) => Ok(()),
        Some(_) => Err(DropReason::BeetHeader),
        None => {
            if !buf.make_room(header - at, 0) {
                return Err(DropReason::NoRoom);
            }
            buf.push_front(header - at).map(|_| ()).ok_or(DropReason::NoRoom)
        }
    }
}

/// The content of a pseudo header.
struct Pseudo {
    protocol: u8,
    /// The length of the pseudo header in octets, options included.
    skip: usize,
    options: [u8; MAX_OPTIONS],
    len: usize,
}

fn read_pseudo(bytes: &[u8], opened: &Opened<'_>) -> Result<Pseudo, DropReason> {
    let plain = bytes.get(opened.payload..).ok_or(DropReason::BeetHeader)?;
    let (&[protocol, words, padding, _], rest) =
        plain.split_first_chunk::<PSEUDO>().ok_or(DropReason::BeetHeader)?;
    let (skip, padding) = ((usize::from(words) + 1) * 8, usize::from(padding));
    if !matches!(padding, 0 | 4) || protocol == protocol::BEET_PSEUDO {
        return Err(DropReason::BeetHeader);
    }
    let from = rest.get(padding..skip - PSEUDO).ok_or(DropReason::BeetHeader)?;
    let mut options = [0; MAX_OPTIONS];
    // A pseudo header without options has no reason to be there.
    if from.is_empty() {
        return Err(DropReason::BeetHeader);
    }
    options.get_mut(..from.len()).ok_or(DropReason::BeetHeader)?.copy_from_slice(from);
    let mut header = [0; ipv4::HEADER_LEN + MAX_OPTIONS];
    if let Some(place) = header.get_mut(ipv4::HEADER_LEN..) {
        place.copy_from_slice(&options);
    }
    for option in options::ipv4(&header, ipv4::HEADER_LEN + from.len()) {
        option.map_err(|_| DropReason::BeetHeader)?;
    }
    Ok(Pseudo { protocol, skip, options, len: from.len() })
}
