//! The headers in front of an AH as the ICV covers them (RFC 4302 section 3.3.3.1 and appendix A). Fields that may
//! change on the way are zero; fields that change predictably are as they will arrive.

use crate::field::{array, octet, put, put_octet, put16};
use crate::options::{self, route_end};
use crate::{WireError, ipv4, ipv6, protocol};

/// The bit of an IPv6 option's type that says that the option may change on the way (RFC 8200 section 4.2).
const OPTION_CHANGES: u8 = 0x20;

/// Turns a copy of all headers in front of an AH, and nothing else, into what the ICV covers.
///
/// # Errors
/// [`WireError::Truncated`] and [`WireError::Version`] for what is no IP header, [`WireError::OptionLength`],
/// [`WireError::RoutingType`], [`WireError::HeaderLength`] if the headers do not end where `headers` ends, and
/// [`WireError::ExtensionOrder`] for a fragment header, which AH never sees.
pub fn immutable(headers: &mut [u8]) -> Result<(), WireError> {
    match headers.first().map(|first| first >> 4) {
        Some(4) if headers.len() >= ipv4::HEADER_LEN => immutable_v4(headers),
        Some(6) if headers.len() >= ipv6::HEADER_LEN => immutable_v6(headers),
        Some(4 | 6) | None => Err(WireError::Truncated),
        Some(_) => Err(WireError::Version),
    }
}

fn immutable_v4(header: &mut [u8]) -> Result<(), WireError> {
    if usize::from(octet(header, 0) & 0xf) * 4 != header.len() {
        return Err(WireError::HeaderLength);
    }
    // Type of service; flags and fragment offset; time to live; checksum.
    put_octet(header, 1, 0);
    put16(header, 6, 0);
    put_octet(header, 8, 0);
    put16(header, 10, 0);
    let mut at = ipv4::HEADER_LEN;
    while let Some(option) = {
        let mut rest = options::ipv4(header, header.len());
        rest.skip_to(at);
        rest.next()
    } {
        let option = option?;
        if let Some(last) = route_end(header, option)? {
            put(header, 16, last.octets());
        }
        if option.kind == 0 {
            break;
        }
        at = option.at + option.len;
        if !is_immutable_v4(option.kind)
            && let Some(octets) = header.get_mut(option.at..at)
        {
            octets.fill(0);
        }
    }
    Ok(())
}

/// Whether an IPv4 option is immutable (RFC 4302 appendix A1). An option that is not in the appendix's first list is in
/// another one or unknown, and zeroed either way.
fn is_immutable_v4(kind: u8) -> bool {
    // No operation, security, extended security, commercial security, router alert, sender directed delivery.
    matches!(kind, 0 | 1 | 130 | 133 | 134 | 148 | 149)
}

fn immutable_v6(headers: &mut [u8]) -> Result<(), WireError> {
    // Traffic class and flow label; hop limit.
    put(headers, 0, [0x60, 0, 0, 0]);
    put_octet(headers, 7, 0);
    let (mut at, mut next) = (ipv6::HEADER_LEN, octet(headers, 6));
    while at < headers.len() {
        let end = at + (usize::from(octet(headers, at + 1)) + 1) * 8;
        if end > headers.len() {
            return Err(WireError::HeaderLength);
        }
        match next {
            protocol::HOP_BY_HOP | protocol::DESTINATION => zero_changing(headers, at, end)?,
            protocol::ROUTING => arrive(headers, at, end)?,
            protocol::FRAGMENT => return Err(WireError::ExtensionOrder),
            _ => return Err(WireError::HeaderLength),
        }
        next = octet(headers, at);
        at = end;
    }
    Ok(())
}

fn zero_changing(headers: &mut [u8], at: usize, end: usize) -> Result<(), WireError> {
    let mut from = at + 2;
    while let Some(option) = {
        let mut rest = options::ipv6(headers, at, end);
        rest.skip_to(from);
        rest.next()
    } {
        let option = option?;
        from = option.at + option.len;
        if option.kind & OPTION_CHANGES != 0
            && let Some(data) = headers.get_mut(option.at + 2..from)
        {
            data.fill(0);
        }
    }
    Ok(())
}

/// Rearranges a routing header and the destination address as the last hop will have left them (RFC 8200 section 4.4).
fn arrive(headers: &mut [u8], at: usize, end: usize) -> Result<(), WireError> {
    let (kind, left) = (octet(headers, at + 2), usize::from(octet(headers, at + 3)));
    let addresses = (end - at - 8) / 16;
    // RFC 2460 section 4.4 and RFC 6275 section 6.4: both are lists of addresses in travelling order.
    if !matches!(kind, 0 | 2) || !(end - at - 8).is_multiple_of(16) {
        return Err(WireError::RoutingType);
    }
    if left > addresses {
        return Err(WireError::HeaderLength);
    }
    // Each hop swaps the destination with the next address of the list.
    for hop in addresses - left..addresses {
        let place = at + 8 + hop * 16;
        let (next, destination) = (array::<16>(headers, place), array::<16>(headers, 24));
        put(headers, 24, next);
        put(headers, place, destination);
    }
    put_octet(headers, at + 3, 0);
    Ok(())
}
