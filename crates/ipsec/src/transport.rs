//! Transport mode: the packet's own header becomes the outer one (RFC 4301 section 5.1.1, RFC 4303 and RFC 4302
//! section 3.1.1).
//!
//! IPv4 options, and hop-by-hop options, routing header and the destination options between them, stay in front.
//! Destination options behind them go inside, where RFC 4303 section 3.1.1 prefers them. Over UDP nothing can stay in
//! front, since a UDP socket gives its reader no options; such packets are refused.

use crate::inner::Inner;
use crate::opened::Opened;
use crate::tunnel::version;
use sadb::Endpoints;
use std::net::IpAddr;
use wire::ip::{self, Headers};
use wire::ipv4::{self, Ipv4};
use wire::ipv6::{self, Ipv6};
use wire::{Buf, DropReason, options, protocol};

/// Read the packet, which must fill its buffer exactly and be between the endpoints.
pub(crate) fn read(bytes: &[u8], ends: &Endpoints, udp: bool) -> Result<Inner, DropReason> {
    let (len, src, dst, inner) = match version(bytes) {
        Some(4) => {
            let view = Ipv4::new_checked(bytes)?;
            let header = view.header_len();
            let mut dst = view.dst();
            if header != ipv4::HEADER_LEN {
                if udp {
                    return Err(DropReason::TransportOptions);
                }
                dst = options::final_destination(bytes.get(..header).unwrap_or_default())?;
            }
            if view.more_fragments() || view.frag_offset() != 0 {
                return Err(DropReason::Fragment);
            }
            let inner = Inner {
                next_header: view.protocol(),
                tos: view.tos(),
                ttl: view.ttl(),
                df: view.dont_fragment(),
                body: header,
                kept: header,
                named_at: 9,
                label: 0,
            };
            (view.total_len(), IpAddr::V4(view.src()), IpAddr::V4(dst), inner)
        }
        Some(6) => {
            let view = Ipv6::new_checked(bytes)?;
            let (front, dst) = read_v6(bytes, &view)?;
            if udp && front.len != ipv6::HEADER_LEN {
                return Err(DropReason::TransportOptions);
            }
            let inner = Inner {
                next_header: front.next_header,
                tos: view.traffic_class(),
                ttl: view.hop_limit(),
                df: true,
                body: front.len,
                kept: front.len,
                named_at: front.named_at,
                label: 0,
            };
            (view.total_len(), IpAddr::V6(view.src()), dst, inner)
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

/// What stays in front, and the last destination.
fn read_v6(bytes: &[u8], view: &Ipv6<&[u8]>) -> Result<(ipv6::Front, IpAddr), DropReason> {
    let next_header = view.next_header();
    let (len, named_at) = (ipv6::HEADER_LEN, 6);
    match next_header {
        protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION | protocol::FRAGMENT => {}
        _ => {
            let front = ipv6::Front { len, named_at, next_header, is_fragment: false };
            return Ok((front, IpAddr::V6(view.dst())));
        }
    }
    let front = ipv6::front(bytes)?;
    if front.is_fragment {
        return Err(DropReason::Fragment);
    }
    let headers = Headers::parse(bytes)?;
    Ok((front, ip::final_destination(bytes, &headers)?))
}

/// What stands in front of a security header must not come out of it, and neither must a fragment.
#[inline]
pub(crate) fn comes_out(next_header: u8) -> bool {
    !matches!(next_header, protocol::HOP_BY_HOP | protocol::ROUTING | protocol::FRAGMENT)
}

/// Put the outer header in front of the payload as that of the inner packet.
pub(crate) fn restore(buf: &mut Buf, opened: &Opened<'_>) -> Result<(), DropReason> {
    if !comes_out(opened.next_header) {
        return Err(opened.wrong);
    }
    buf.truncate(opened.payload + opened.len);
    // The headers in front are the packet's own. Those that a UDP socket's reader puts there say what the socket told.
    let kept = opened.outer.headers();
    let Some(between) = opened.payload.checked_sub(kept) else { return Err(DropReason::BadHeader) };
    if opened.payload > buf.len() {
        return Err(DropReason::Truncated);
    }
    buf.as_mut_slice().copy_within(..kept, between);
    if !buf.trim_front(between) {
        return Err(DropReason::Truncated);
    }
    let total = buf.len();
    let bytes = buf.as_mut_slice();
    ip::set_protocol(bytes, opened.outer.named_at, opened.next_header);
    if opened.outer.src.is_ipv4() {
        // Shorter than the outer packet, so the length field holds it.
        options::put_header_len(bytes, kept - ipv4::HEADER_LEN, total as u16);
    } else {
        ipv6::put_payload_len(bytes)?;
    }
    Ok(())
}
