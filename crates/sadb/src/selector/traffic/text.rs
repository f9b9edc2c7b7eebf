//! The text of a selector: `local 192.0.2.0/24 remote 198.51.100.1-198.51.100.9 proto tcp remote-port 80,443`.
//!
//! Words are separated by space. A field's word is followed by `any`, `opaque` or a list with commas, then by `pfp` if
//! the field is populated from the packet; `pfp` alone means any value. `sport` and `dport` are `local-port` and
//! `remote-port`; `port opaque` says that the packet has no ports, types or codes; `type` and `code` after `proto icmp`
//! (or `icmpv6`) and `type` after `proto mh` are those of that protocol. The empty selector is `any`.

mod parse;
mod print;

use crate::selector::field::{Field, Form, STANDARD};
use crate::selector::{SelectorError, TrafficSelector};
use wire::protocol;

/// The protocols that have a name in texts.
const PROTOCOLS: [(&str, u8); 12] = [
    ("icmp", protocol::ICMP),
    ("ipip", protocol::IPV4),
    ("tcp", protocol::TCP),
    ("udp", protocol::UDP),
    ("dccp", protocol::DCCP),
    ("ipv6", protocol::IPV6),
    ("gre", 47),
    ("esp", protocol::ESP),
    ("ah", protocol::AH),
    ("icmpv6", protocol::ICMPV6),
    ("sctp", protocol::SCTP),
    ("mh", protocol::MOBILITY),
];

impl std::str::FromStr for TrafficSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<TrafficSelector, SelectorError> {
        TrafficSelector::parse(text, &STANDARD)
    }
}

/// The text that says what may stand after a field.
fn allowed(form: Form) -> &'static str {
    match form {
        Form::Address => {
            "give addresses, prefixes or ranges (192.0.2.0/24, 2001:db8::1-2001:db8::9), or \"any\""
        }
        Form::Number => {
            "give numbers or ranges (0, 3-5), a value under a mask (0x2/0x6), \"any\" or \"opaque\""
        }
        Form::Protocol => "give names or numbers (tcp, icmpv6, 89), \"any\" or \"opaque\"",
        Form::Port => "give ports or ranges (80, 1000-2000), \"any\" or \"opaque\"",
        Form::IcmpTypeCode => "give types or ranges (8, 3-5), \"any\" or \"opaque\"",
        Form::MobilityType => "give types or ranges (5, 1-3), \"any\" or \"opaque\"",
        Form::Mark => "give a mark (0x1), a mark under a mask (0x1/0xff), a range, or \"any\"",
    }
}

/// Whether `type` means this field after this protocol.
fn is_protocol_of(field: &Field, protocol: u128) -> bool {
    match field.form() {
        Form::IcmpTypeCode => [protocol::ICMP, protocol::ICMPV6].map(u128::from).contains(&protocol),
        Form::MobilityType => protocol == u128::from(protocol::MOBILITY),
        _ => false,
    }
}
