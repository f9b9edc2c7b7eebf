//! Rules 4.13 and 6.13: addresses that must not be on a wire between networks.

use crate::rule::Rule;
use crate::verdict::{Job, Stop};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::ip::Headers;
use wire::protocol;

/// Refuse addresses that must not be on a wire. Multicast destinations pass, since the protocols above decide what they
/// are for. A host without an address (0.0.0.0, ::) talks to its link only, never through a router.
pub(super) fn check(job: &mut Job<'_>, headers: &Headers) -> Result<(), Stop> {
    if job.config.one_link && asks_its_link(headers) {
        return Ok(());
    }
    if job.config.loopback && headers.src.is_loopback() && headers.dst.is_loopback() {
        return Ok(());
    }
    let (right, rule) = match (headers.src, headers.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            (may_be_on_a_wire_v4(src) && !src.is_multicast() && may_be_on_a_wire_v4(dst), Rule::V4Address)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            (may_be_on_a_wire_v6(src) && !src.is_multicast() && may_be_on_a_wire_v6(dst), Rule::V6Address)
        }
        _ => (false, Rule::V6Address),
    };
    let honest = job.config.any_host && may_be_in_a_capture(headers);
    if right { Ok(()) } else { job.refuse_unless(honest, rule) }
}

/// Whether the addresses are of a kind that occurs on links all the same: hosts in 240/4, limited broadcasts, and
/// senders without an address. Connections are between two addresses of hosts, and fragments are put together only for
/// such.
fn may_be_in_a_capture(headers: &Headers) -> bool {
    let (IpAddr::V4(src), IpAddr::V4(dst)) = (headers.src, headers.dst) else { return false };
    let host = |addr: Ipv4Addr| {
        let reserved = addr.octets()[0] >= 240 && !addr.is_broadcast();
        reserved || may_be_on_a_wire_v4(addr) && !addr.is_multicast()
    };
    let to_group = dst.is_broadcast() || dst.is_multicast();
    if host(src) && (host(dst) || dst.is_multicast()) {
        return true;
    }
    let single = headers.fragment.is_none() && headers.protocol != protocol::TCP;
    single && (host(src) || src.is_unspecified()) && (host(dst) || to_group)
}

/// Whether this may be a packet of a host without an address, or an answer to it: DHCP over IPv4 (RFC 2131 section 4.1;
/// the ports are checked with UDP), duplicate address detection and reports of groups over IPv6 (RFC 4862 section 5.4,
/// RFC 3810 section 5.2.13). They never come in fragments.
pub(crate) fn asks_its_link(headers: &Headers) -> bool {
    if headers.fragment.is_some() {
        return false;
    }
    match (headers.src, headers.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let here = src.is_unspecified() || may_be_on_a_wire_v4(src) && !src.is_multicast();
            let group =
                dst.is_broadcast() || src.is_unspecified() && may_be_on_a_wire_v4(dst) && !dst.is_multicast();
            headers.protocol == protocol::UDP && here && group
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            headers.protocol == protocol::ICMPV6 && src.is_unspecified() && dst.is_multicast()
        }
        _ => false,
    }
}

/// Whether the address is not "this network" (0/8), loopback (127/8) or reserved (240/4, the broadcast address in it):
/// RFC 1122 section 3.2.1.3.
fn may_be_on_a_wire_v4(addr: Ipv4Addr) -> bool {
    let [first, ..] = addr.octets();
    first != 0 && first != 127 && first < 240
}

/// Whether the address is not unspecified, loopback, IPv4-compatible (all ::/96) or IPv4-mapped: RFC 4291 section 2.5,
/// RFC 4942 section 2.2.
fn may_be_on_a_wire_v6(addr: Ipv6Addr) -> bool {
    !matches!(addr.segments(), [0, 0, 0, 0, 0, 0 | 0xffff, _, _])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_of_the_ranges() {
        for (text, right) in [
            ("0.255.255.255", false),
            ("1.0.0.0", true),
            ("126.255.255.255", true),
            ("127.0.0.1", false),
            ("128.0.0.1", true),
            ("239.1.1.1", true),
            ("240.0.0.0", false),
            ("255.255.255.255", false),
        ] {
            assert_eq!(may_be_on_a_wire_v4(text.parse().expect("an address")), right, "{text}");
        }
        for (text, right) in [
            ("::", false),
            ("::1", false),
            ("::192.0.2.1", false),
            ("::ffff:192.0.2.1", false),
            ("64:ff9b::192.0.2.1", true),
            ("fe80::1", true),
            ("ff02::1", true),
        ] {
            assert_eq!(may_be_on_a_wire_v6(text.parse().expect("an address")), right, "{text}");
        }
    }
}
