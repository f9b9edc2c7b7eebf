//! The key of a packet, made from its headers (RFC 4301 section 4.4.1.1: what is not there is OPAQUE).

use wire::ip::{self, Headers};
use wire::protocol;

use crate::selector::field;
use crate::selector::key::PacketKey;

/// The IPv6 extension headers. In a fragment that is not the first, one of them may stand in front of the upper layer,
/// whose protocol then cannot be known.
const EXTENSIONS: [u8; 4] =
    [protocol::HOP_BY_HOP, protocol::ROUTING, protocol::DESTINATION, protocol::FRAGMENT];

impl PacketKey {
    /// Everything that the headers of a packet say. `outbound` tells that this host, or the side it guards, sends it.
    /// Ports, ICMP type and code and the type of a Mobility Header are taken where the packet has them whole: not from
    /// a fragment that is not the first, not behind ESP, not from a protocol that has none. The caller adds what no
    /// header says (application, user, mark, interface). The destination of an outbound packet is its final one, by
    /// which its association is chosen too: a source route must not lead around a rule.
    pub fn of_packet(bytes: &[u8], headers: &Headers, outbound: bool) -> PacketKey {
        let mut flow = ip::flow(bytes, headers, outbound);
        if outbound && let Ok(last) = ip::final_destination(bytes, headers) {
            flow.remote = last;
        }
        let key = PacketKey::new(flow.local, flow.remote).dscp(headers.tos >> 2);
        let later = headers.fragment.is_some_and(|fragment| fragment.offset != 0);
        if later && headers.version == 6 && EXTENSIONS.contains(&headers.protocol) {
            return key;
        }
        let key = key.protocol(headers.protocol);
        if later {
            return key;
        }
        let upper = headers.upper(bytes);
        match headers.protocol {
            number if protocol::has_ports(number) && upper.len() >= 4 => {
                key.ports(flow.local_port, flow.remote_port)
            }
            protocol::ICMP if headers.version == 4 && upper.len() >= 2 => {
                key.with(&field::ICMP, u128::from(flow.local_port))
            }
            protocol::ICMPV6 if headers.version == 6 && upper.len() >= 2 => {
                key.with(&field::ICMP, u128::from(flow.local_port))
            }
            // Payload protocol, length, type (RFC 6275 section 6.1.1).
            protocol::MOBILITY => upper.get(2).map_or(key, |kind| key.mobility(*kind)),
            _ => key,
        }
    }
}
