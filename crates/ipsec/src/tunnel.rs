//! Tunnel mode: a whole inner packet behind a new outer header (RFC 4301 section 5.1.2).

use crate::ecn;
use crate::esp::encap::Inner;
use crate::esp::pad::Trailer;
use wire::ipv4::Ipv4;
use wire::ipv6::Ipv6;
use wire::{Buf, DropReason, protocol};

/// TTL and hop limit of outer headers (RFC 4301 section 5.1.2.1 leaves the value to us).
pub(crate) const TTL: u8 = 64;

/// Read the inner packet, which must fill its buffer exactly.
pub(crate) fn read(bytes: &[u8]) -> Result<Inner, DropReason> {
    let (len, inner) = match version(bytes) {
        Some(4) => {
            let ip = Ipv4::new_checked(bytes)?;
            (ip.total_len(), Inner { next_header: protocol::IPV4, tos: ip.tos(), header: 0 })
        }
        Some(6) => {
            let ip = Ipv6::new_checked(bytes)?;
            (ip.total_len(), Inner { next_header: protocol::IPV6, tos: ip.traffic_class(), header: 0 })
        }
        _ => return Err(DropReason::BadVersion),
    };
    if len == bytes.len() { Ok(inner) } else { Err(DropReason::BadHeader) }
}

/// Leave the inner packet alone in the buffer, where the payload starts at `payload`, with the ECN field that the
/// outer header asks for. Octets behind the inner packet are traffic flow confidentiality padding
/// (RFC 4303 section 2.7) and go.
pub(crate) fn restore(buf: &mut Buf, payload: usize, trailer: Trailer, tos: u8) -> Result<(), DropReason> {
    if !buf.trim_front(payload) {
        return Err(DropReason::EspTooShort);
    }
    buf.truncate(trailer.payload);
    let total = match (trailer.next_header, version(buf.as_slice())) {
        (protocol::IPV4, Some(4)) => {
            let mut ip = Ipv4::new_checked(buf.as_mut_slice())?;
            let tos = ecn::decap(ip.tos(), tos)?;
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
            let tos = ecn::decap(ip.traffic_class(), tos)?;
            if tos != ip.traffic_class() {
                ip.set_traffic_class(tos);
            }
            ip.total_len()
        }
        _ => return Err(DropReason::EspNextHeader),
    };
    buf.truncate(total);
    Ok(())
}

/// The IP version that the first octet names.
pub(crate) fn version(bytes: &[u8]) -> Option<u8> {
    bytes.first().map(|first| first >> 4)
}
