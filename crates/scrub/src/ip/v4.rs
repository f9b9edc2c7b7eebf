//! The IPv4 header (rules 4.1, 4.2, 4.3, 4.5, 4.7, 4.15, 4.16).

use super::rest::cut_rest;
use crate::rule::Rule;
use crate::verdict::{Job, Stop};
use wire::ip::Headers;
use wire::ipv4::{self, Ipv4};
use wire::options::{self, LOOSE_SOURCE_ROUTE, STRICT_SOURCE_ROUTE};
use wire::{Buf, Gso, WireError, ip};

/// Check and clean an IPv4 header. Octets that are no IP at all come here too.
pub(super) fn clean(job: &mut Job<'_>, buf: &mut Buf, gso: &mut Gso) -> Result<Headers, Stop> {
    let mut headers = match Headers::parse(buf.as_slice()) {
        Ok(headers) => headers,
        Err(WireError::Truncated) if buf.len() >= ipv4::HEADER_LEN => {
            return Err(job.unreadable(Rule::V4Length));
        }
        Err(_) => return Err(job.unreadable(Rule::V4Header)),
    };
    cut_rest(job, buf, &headers, Rule::V4Length);
    if !ip::checksum_ok(buf.as_slice(), &headers) {
        job.refuse(Rule::V4Checksum)?;
    }
    if headers.dont_fragment && headers.fragment.is_some() {
        job.refuse(Rule::V4Contradiction)?;
    }
    if Ipv4::new_checked(buf.as_slice()).is_ok_and(|view| view.reserved()) && job.acts(Rule::V4Reserved) {
        ipv4::edit_reserved(buf.as_mut_slice());
    }
    if headers.has_options {
        remove_options(job, buf, &mut headers, gso)?;
    }
    if headers.tos & DSCP != 0 && job.acts(Rule::V4Tos) {
        headers.tos &= !DSCP;
        ipv4::edit_tos(buf.as_mut_slice(), headers.tos);
    }
    Ok(headers)
}

/// The bits of the differentiated services code point in the type of service octet. The other two are ECN, which
/// belongs to TCP (rule T.4).
const DSCP: u8 = 0xfc;

/// Rule 4.16: options are taken out, not overwritten, for a header of 20 octets has one reading and tells nothing. A
/// packet with a source route is dropped: it is not for the address in its header, or came another way than its
/// addresses say.
fn remove_options(
    job: &mut Job<'_>,
    buf: &mut Buf,
    headers: &mut Headers,
    gso: &mut Gso,
) -> Result<(), Stop> {
    let routed = options::ipv4(buf.as_slice(), headers.header_len)
        .map_while(Result::ok)
        .any(|option| matches!(option.kind, LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE));
    if routed {
        return job.refuse(Rule::V4Options);
    }
    if !job.acts(Rule::V4Options) {
        return Ok(());
    }
    let gone = ipv4::remove_options(buf);
    gso.checksum_start = gso.checksum_start.saturating_sub(gone as u16);
    // The new header was read from the old one.
    *headers = Headers::parse(buf.as_slice()).map_err(|_| job.unreadable(Rule::V4Header))?;
    Ok(())
}
