//! Transport mode: the packet's own header becomes the outer one (RFC 4301 section 5.1.1, RFC 4303 section 3.1.1).
//!
//! An outer header over UDP cannot carry options or extension headers to the other side, since a UDP socket gives
//! its reader none; so packets with IPv4 options, hop-by-hop options or a routing header are refused. Destination options
//! go inside ESP, where RFC 4303 section 3.1.1 prefers them.

use crate::esp::encap::Inner;
use crate::esp::pad::Trailer;
use crate::tunnel::version;
use crate::udp_encap::Outer;
use sadb::Endpoints;
use std::net::IpAddr;
use wire::ipv4::{self, Ipv4, Ipv4Repr};
use wire::ipv6::{self, Ipv6, Ipv6Repr};
use wire::{Buf, DropReason, protocol};

/// Read the packet, which must fill its buffer exactly and be between the endpoints.
pub(crate) fn read(bytes: &[u8], ends: &Endpoints) -> Result<Inner, DropReason> {
    let (len, src, dst, inner) = match version(bytes) {
        Some(4) => {
            let ip = Ipv4::new_checked(bytes)?;
            if !ip.options().is_empty() {
                return Err(DropReason::TransportOptions);
            }
            if ip.more_fragments() || ip.frag_offset() != 0 {
                return Err(DropReason::Fragment);
            }
            let inner = Inner { next_header: ip.protocol(), tos: ip.tos(), header: ipv4::HEADER_LEN };
            (ip.total_len(), IpAddr::V4(ip.src()), IpAddr::V4(ip.dst()), inner)
        }
        Some(6) => {
            let ip = Ipv6::new_checked(bytes)?;
            goes_inside(ip.next_header())?;
            if ip.next_header() == protocol::DESTINATION {
                // The octet that names what follows the options.
                goes_inside(ip.payload().first().copied().unwrap_or(protocol::NO_NEXT))?;
            }
            let inner =
                Inner { next_header: ip.next_header(), tos: ip.traffic_class(), header: ipv6::HEADER_LEN };
            (ip.total_len(), IpAddr::V6(ip.src()), IpAddr::V6(ip.dst()), inner)
        }
        _ => return Err(DropReason::BadVersion),
    };
    if len != bytes.len() {
        return Err(DropReason::BadHeader);
    }
    if (src, dst) != (ends.local, ends.remote) {
        return Err(DropReason::TransportAddress);
    }
    Ok(inner)
}

/// Whether an IPv6 header may stand behind ESP rather than in front of it.
fn goes_inside(next_header: u8) -> Result<(), DropReason> {
    match next_header {
        protocol::HOP_BY_HOP | protocol::ROUTING => Err(DropReason::TransportOptions),
        protocol::FRAGMENT => Err(DropReason::Fragment),
        _ => Ok(()),
    }
}

/// Whether a decrypted payload of this kind is one that transport mode carries.
pub(crate) fn check_inside(next_header: u8) -> Result<(), DropReason> {
    // A whole packet belongs into a tunnel; the others would stand behind ESP where they belong in front of it.
    let misplaced = goes_inside(next_header).is_err();
    if misplaced || matches!(next_header, protocol::IPV4 | protocol::IPV6) {
        return Err(DropReason::EspNextHeader);
    }
    Ok(())
}

/// Put a header made from the outer one in front of the payload, which starts at `payload`.
pub(crate) fn restore(
    buf: &mut Buf,
    payload: usize,
    trailer: Trailer,
    outer: &Outer,
) -> Result<(), DropReason> {
    check_inside(trailer.next_header)?;
    let header = match outer.src {
        IpAddr::V4(_) => ipv4::HEADER_LEN,
        IpAddr::V6(_) => ipv6::HEADER_LEN,
    };
    // The outer header and ESP's own were in front, so there is room.
    if !payload.checked_sub(header).is_some_and(|excess| buf.trim_front(excess)) {
        return Err(DropReason::EspTooShort);
    }
    buf.truncate(header + trailer.payload);
    let payload_len = trailer.payload;
    match (outer.src, outer.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => ipv4::emit(
            buf.as_mut_slice(),
            &Ipv4Repr {
                src,
                dst,
                protocol: trailer.next_header,
                ttl: outer.ttl,
                tos: outer.tos,
                id: 0,
                df: true,
                payload_len,
            },
        )?,
        (IpAddr::V6(src), IpAddr::V6(dst)) => ipv6::emit(
            buf.as_mut_slice(),
            &Ipv6Repr {
                src,
                dst,
                next_header: trailer.next_header,
                hop_limit: outer.ttl,
                traffic_class: outer.tos,
                flow_label: 0,
                payload_len,
            },
        )?,
        _ => return Err(DropReason::BadHeader),
    }
    Ok(())
}
