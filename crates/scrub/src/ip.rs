//! The rules for IPv4 and IPv6 headers (rules 4.1 to 4.7, 4.13 to 4.17, 6.1 to 6.6, 6.10, 6.11, 6.13), and those that
//! depend on the next link.

mod address;
mod fit;
mod numbers;
mod rest;
mod v4;
mod v6;

pub(crate) use address::asks_its_link;
pub(crate) use fit::{Answers, answer, fit};
pub(crate) use numbers::Numbers;

use crate::rule::Rule;
use crate::verdict::{Job, Stop};
use std::net::IpAddr;
use wire::icmp::Icmpv4;
use wire::ip::Headers;
use wire::ipv4::{self, Ipv4};
use wire::{Buf, Gso, ip, protocol};

/// The ICMP type of an echo request (RFC 792).
const ECHO_REQUEST: u8 = 8;

/// Check and clean the headers of a packet, whole or fragment; octets behind the packet in `buf` are cut. Nothing of a
/// fragment is changed from which its offset counts.
pub(crate) fn clean(job: &mut Job<'_>, buf: &mut Buf, gso: &mut Gso) -> Result<Headers, Stop> {
    let headers = match wire::ip::version(buf.as_slice()) {
        Some(6) => v6::clean(job, buf, gso)?,
        _ => v4::clean(job, buf, gso)?,
    };
    address::check(job, &headers)?;
    if headers.protocol == if headers.version == 4 { protocol::ICMPV6 } else { protocol::ICMP } {
        job.refuse(Rule::V6Address)?;
    }
    if !job.config.protocols.contains(headers.protocol) {
        job.refuse(Rule::V4Protocol)?;
    }
    Ok(headers)
}

/// Rules 4.14 and 6.2: raise the time to live to `flow`, the highest of the packet's flow, and to the configured floor.
///
/// A time to live that says how far a packet may go is left alone: that of multicast, and inside a link (MLD with its
/// 1, neighbour discovery with its 255). Within one flow a traceroute by time to live ends here. Each of its probes on
/// a port of its own is a flow of its own, and echo requests are never raised to the value of their flow, so both usual
/// kinds go on. Nothing here lowers a time to live: the gateway in line does, once for each packet, like every router.
/// Datagrams that come back from the side they went to are refused (rule U.2), so that no loop through the scrubber
/// lives on what it raises. The floor knows no flows, so it is zero by default and belongs where routes have no loops.
pub(crate) fn raise_ttl(job: &mut Job<'_>, buf: &mut Buf, headers: &mut Headers, flow: u8) {
    let wanted = flow.max(job.config.least_ttl);
    if headers.ttl >= wanted || is_scoped(headers.dst) || is_scoped(headers.src) {
        return;
    }
    let rule = if headers.version == 4 { Rule::V4Ttl } else { Rule::V6HopLimit };
    if job.acts(rule) {
        ip::set_ttl(buf.as_mut_slice(), headers, wanted);
    }
}

fn is_scoped(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(v4) => v4.is_multicast() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_multicast() || v6.is_unicast_link_local(),
    }
}

/// Rule 4.4: set the identification. It is zero where there can be no fragments, otherwise the next number of sender
/// and receiver. The pieces of a super-packet take one each. Whether answers and errors of ICMP may be fragmented tells
/// stacks apart and is of no other use, so they all may.
pub(crate) fn finish(job: &mut Job<'_>, numbers: &mut Numbers, buf: &mut Buf, headers: &Headers, gso: &Gso) {
    // An authentication header covers it (RFC 4302 section 3.3.3.1.1.1).
    let asked = headers.version == 4
        && headers.fragment.is_none()
        && headers.protocol != protocol::AH
        && job.watches(Rule::V4Id);
    let Ok(view) = Ipv4::new_checked(buf.as_slice()) else { return };
    if !asked {
        return;
    }
    let id = view.id();
    let answer = headers.protocol == protocol::ICMP
        && !Icmpv4::new_checked(headers.upper(buf.as_slice())).is_ok_and(|icmp| icmp.kind() == ECHO_REQUEST);
    let fixed = headers.dont_fragment && !answer;
    if headers.dont_fragment && answer && job.acts(Rule::V4Id) {
        ipv4::edit_may_fragment(buf.as_mut_slice());
    }
    let wanted = if fixed {
        0
    } else {
        let pieces = headers.total_len.div_ceil(usize::from(gso.size).max(1));
        numbers.take(headers, if gso.size == 0 { 1 } else { pieces as u32 }) as u16
    };
    if id != wanted && job.acts(Rule::V4Id) {
        ipv4::edit_id(buf.as_mut_slice(), wanted);
    }
}
