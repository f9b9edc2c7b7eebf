//! The IPv6 header and the headers behind it (rules 6.1, 6.3 to 6.6, 6.10, 6.11).

use super::rest::cut_rest;
use crate::rule::Rule;
use crate::verdict::{Job, Stop};
use wire::ah::Ah;
use wire::ip::Headers;
use wire::ipv6::{self, Extension, Ipv6};
use wire::options;
use wire::{Buf, Gso, WireError, ip, protocol};

/// The greatest length of all extension headers in octets; RFC 8883 section 3.4 lets nodes along the way refuse more.
const MAX_CHAIN: usize = 256;
/// The greatest number of octets of padding in a row: no alignment needs more, and hosts refuse it.
const MAX_PADDING: usize = 7;

pub(super) fn clean(job: &mut Job<'_>, buf: &mut Buf, gso: &mut Gso) -> Result<Headers, Stop> {
    let mut headers = parse(job, buf)?;
    cut_rest(job, buf, &headers, Rule::V6Length);
    if headers.header_len > ipv6::HEADER_LEN {
        check_chain(job, buf, &headers)?;
        headers = clean_chain(job, buf, headers, gso)?;
    }
    if headers.protocol == protocol::AH
        && headers.fragment.is_none_or(|fragment| fragment.offset == 0)
        && let Ok(view) = Ah::new_checked(headers.upper(buf.as_slice()))
        && matches!(view.next_header(), protocol::AH | protocol::HOP_BY_HOP | protocol::FRAGMENT)
    {
        job.refuse(Rule::V6Chain)?;
    }
    if is_half_known(job, headers.protocol)
        && headers.fragment.is_none_or(|fragment| fragment.offset == 0)
        && headers.upper(buf.as_slice()).first().is_some_and(|next| *next != protocol::NO_NEXT)
    {
        job.refuse(Rule::V6Chain)?;
    }
    let nothing_follows = headers.protocol == protocol::NO_NEXT && headers.fragment.is_none();
    if nothing_follows && headers.total_len > headers.header_len && job.acts(Rule::V6Rest) {
        let len = headers.header_len;
        buf.truncate(len);
        ip::put_total_len(buf.as_mut_slice(), &mut headers, len)
            .map_err(|_| job.unreadable(Rule::V6Length))?;
    }
    if !job.config.flow_labels
        && let Ok(mut view) = Ipv6::new_checked(buf.as_mut_slice())
        && view.flow_label() != 0
        && job.acts(Rule::V6Rest)
    {
        view.set_flow_label(0);
    }
    Ok(headers)
}

/// Whether this is an extension header by RFC 7045 that RFC 8200 does not have: mobility, host identity, shim6 and two
/// for experiments. Some readers go on behind them, others do not. A header that the list of protocols (rule 4.17)
/// refuses anyway does not count; that rule says so.
fn is_half_known(job: &Job<'_>, number: u8) -> bool {
    const HALF_KNOWN: [u8; 5] = [protocol::MOBILITY, 139, 140, 253, 254];
    let ends_anyway = job.is_on(Rule::V4Protocol) && !job.config.protocols.contains(number);
    HALF_KNOWN.contains(&number) && !ends_anyway
}

fn parse(job: &mut Job<'_>, buf: &Buf) -> Result<Headers, Stop> {
    let bytes = buf.as_slice();
    Headers::parse(bytes).map_err(|error| {
        let in_fragment = || ipv6::extensions(bytes).any(|header| header.protocol == protocol::FRAGMENT);
        job.unreadable(match error {
            WireError::ExtensionOrder | WireError::TooManyExtensions | WireError::OptionLength => {
                Rule::V6Chain
            }
            WireError::FragmentTwice => Rule::V6TwoFragmentHeaders,
            WireError::MappedAddress => Rule::V6Address,
            WireError::Truncated if Ipv6::new_checked(bytes).is_err() => Rule::V6Length,
            WireError::Truncated if in_fragment() => Rule::V6FirstFragment,
            WireError::Truncated => Rule::V6Chain,
            _ => Rule::V6Length,
        })
    })
}

/// Rules 6.3 and 6.4: check the chain of extension headers. The parser checks that hop-by-hop options come first, that
/// there is one fragment header and that the chain ends.
fn check_chain(job: &mut Job<'_>, buf: &Buf, headers: &Headers) -> Result<(), Stop> {
    let bytes = buf.as_slice();
    let (mut routed, mut fragmented, mut options) = (false, false, 0);
    let mut right = headers.header_len - ipv6::HEADER_LEN <= MAX_CHAIN;
    for header in ipv6::extensions(bytes) {
        match header.protocol {
            // RFC 8200 section 4.1: in front of the fragment header, for every router that it names reads it.
            protocol::ROUTING => {
                right &= !routed && !fragmented;
                routed = true;
                let kind = header.routing_type(bytes).unwrap_or(0);
                if kind == 0 || !job.config.routing.contains(kind) {
                    job.refuse(Rule::V6Routing)?;
                }
            }
            protocol::FRAGMENT => fragmented = true,
            // One in front of a routing header, one for the last destination.
            protocol::DESTINATION => {
                options += 1;
                right &= options == 1 || options == 2 && (routed || fragmented);
            }
            _ => {}
        }
    }
    if right { Ok(()) } else { job.refuse(Rule::V6Chain) }
}

/// Rules 6.6, 6.10, 6.11: change or remove parts of the chain.
fn clean_chain(
    job: &mut Job<'_>,
    buf: &mut Buf,
    mut headers: Headers,
    gso: &mut Gso,
) -> Result<Headers, Stop> {
    let atomic = headers.fragment.is_some_and(|fragment| fragment.offset == 0 && !fragment.more);
    let mut at = 0;
    loop {
        let header = ipv6::extensions(buf.as_slice()).nth(at);
        let Some(header) = header else { break };
        let goes = match header.protocol {
            protocol::FRAGMENT => {
                if header.has_reserved(buf.as_slice()) && job.acts(Rule::V6Rest) {
                    header.clear_reserved(buf.as_mut_slice());
                }
                atomic && job.acts(Rule::V6Atomic)
            }
            // Options behind a fragment header are looked at when the packet is whole: offsets count from them.
            protocol::HOP_BY_HOP | protocol::DESTINATION if headers.fragment.is_none() || atomic => {
                only_padding(job, buf, header)?
            }
            _ => false,
        };
        if goes && header.remove(buf) {
            gso.checksum_start = gso.checksum_start.saturating_sub(header.len as u16);
        } else {
            at += 1;
        }
    }
    if buf.len() != headers.total_len || atomic {
        headers = parse(job, buf)?;
    }
    Ok(headers)
}

/// Rule 6.10: make padding of every option that is not on the list. Returns whether nothing else is left, so that the
/// header is to go. (Long padding cannot stay: hosts refuse it.)
fn only_padding(job: &mut Job<'_>, buf: &mut Buf, header: Extension) -> Result<bool, Stop> {
    if !job.watches(Rule::V6Options) {
        return Ok(false);
    }
    let (mut at, end) = (header.at, header.at + header.len);
    let (mut kept, mut padding, mut longest) = (false, 0, 0);
    while let Some(option) = options::ipv6(buf.as_slice(), at, end).next() {
        let Ok(option) = option else {
            job.refuse(Rule::V6Options)?;
            return Ok(false);
        };
        // `options::ipv6` begins two octets behind the place that it is given.
        at = option.at + option.len - 2;
        let clean = options::is_padding(buf.as_slice(), option);
        if !clean && !options::is_padding_kind(option) && job.config.ipv6_options.contains(option.kind) {
            (kept, padding) = (true, 0);
            continue;
        }
        padding += option.len;
        longest = longest.max(padding);
        if !clean && job.acts(Rule::V6Options) {
            options::put_padding(buf.as_mut_slice(), option);
        }
    }
    if !kept {
        return Ok(job.acts(Rule::V6Options));
    }
    if longest > MAX_PADDING {
        job.refuse(Rule::V6Options)?;
    }
    Ok(false)
}
