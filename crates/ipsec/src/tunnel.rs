//! Tunnel mode: a whole inner packet behind a new outer header (RFC 4301 section 5.1.2).

use crate::headers;
use crate::inner::Inner;
use crate::opened::Opened;
use sadb::sa::{Counters, HeaderPolicy};
use wire::ipv4::Ipv4;
use wire::ipv6::Ipv6;
use wire::{Buf, DropReason, protocol};

/// Read the inner packet, which must fill its buffer exactly.
#[inline]
pub(crate) fn read(bytes: &[u8]) -> Result<Inner, DropReason> {
    let whole = |next_header, tos, ttl, df| Inner {
        next_header,
        tos,
        ttl,
        df,
        body: 0,
        kept: 0,
        named_at: 0,
        label: 0,
    };
    let (len, inner) = match version(bytes) {
        Some(4) => {
            let ip = Ipv4::new_checked(bytes)?;
            (ip.total_len(), whole(protocol::IPV4, ip.tos(), ip.ttl(), ip.dont_fragment()))
        }
        Some(6) => {
            let ip = Ipv6::new_checked(bytes)?;
            (ip.total_len(), whole(protocol::IPV6, ip.traffic_class(), ip.hop_limit(), true))
        }
        _ => return Err(DropReason::BadVersion),
    };
    if len == bytes.len() { Ok(inner) } else { Err(DropReason::BadHeader) }
}

/// Leave the inner packet alone in the buffer, with the type of service that the outer header asks for. Octets behind
/// the inner packet are traffic flow confidentiality padding (RFC 4303 section 2.7) and go.
pub(crate) fn restore(
    buf: &mut Buf,
    opened: &Opened<'_>,
    policy: &HeaderPolicy,
    counters: &mut Counters,
) -> Result<(), DropReason> {
    if !buf.trim_front(opened.payload) {
        return Err(DropReason::Truncated);
    }
    buf.truncate(opened.len);
    let outer_tos = opened.outer.tos;
    let total = match (opened.next_header, version(buf.as_slice())) {
        (protocol::IPV4, Some(4)) => {
            let mut ip = Ipv4::new_checked(buf.as_mut_slice())?;
            let tos = headers::inner_tos(policy, counters, ip.tos(), outer_tos)?;
            if tos != ip.tos() {
                // A header that was wrong before must not come out right.
                if !ip.checksum_ok() {
                    return Err(DropReason::BadChecksum);
                }
                ip.set_tos(tos);
                ip.fill_checksum();
            }
            ip.total_len()
        }
        (protocol::IPV6, Some(6)) => {
            let mut ip = Ipv6::new_checked(buf.as_mut_slice())?;
            let tos = headers::inner_tos(policy, counters, ip.traffic_class(), outer_tos)?;
            if tos != ip.traffic_class() {
                ip.set_traffic_class(tos);
            }
            ip.total_len()
        }
        _ => return Err(opened.wrong),
    };
    buf.truncate(total);
    Ok(())
}

/// The IP version that the first octet names.
pub(crate) fn version(bytes: &[u8]) -> Option<u8> {
    bytes.first().map(|first| first >> 4)
}
