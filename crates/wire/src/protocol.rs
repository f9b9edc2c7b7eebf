//! IP protocol numbers the house knows by name (IANA "Protocol Numbers").

/// IPv6 hop-by-hop options.
pub const HOP_BY_HOP: u8 = 0;
/// ICMP for IPv4.
pub const ICMP: u8 = 1;
/// Reports of groups and questions about them (IPv4).
pub const IGMP: u8 = 2;
/// IPv4 in IP (tunnel mode).
pub const IPV4: u8 = 4;
/// TCP.
pub const TCP: u8 = 6;
/// UDP.
pub const UDP: u8 = 17;
/// DCCP.
pub const DCCP: u8 = 33;
/// IPv6 in IP (tunnel mode).
pub const IPV6: u8 = 41;
/// IPv6 routing header.
pub const ROUTING: u8 = 43;
/// IPv6 fragment header.
pub const FRAGMENT: u8 = 44;
/// ESP.
pub const ESP: u8 = 50;
/// AH.
pub const AH: u8 = 51;
/// ICMP for IPv6.
pub const ICMPV6: u8 = 58;
/// Nothing follows (IPv6), or a dummy packet (ESP).
pub const NO_NEXT: u8 = 59;
/// IPv6 destination options.
pub const DESTINATION: u8 = 60;
/// SCTP.
pub const SCTP: u8 = 132;
/// UDP-Lite.
pub const UDP_LITE: u8 = 136;
/// Pseudo header for IPv4 options (BEET mode, draft-nikander-esp-beet-mode-09 section 5.4).
pub const BEET_PSEUDO: u8 = 94;
/// Compressed payload (IPComp).
pub const IPCOMP: u8 = 108;
/// IPv6 mobility header.
pub const MOBILITY: u8 = 135;

/// Whether packets of the protocol have ports.
pub const fn has_ports(number: u8) -> bool {
    matches!(number, TCP | UDP | UDP_LITE | SCTP | DCCP)
}

/// Whether packets of the protocol have a type where others have ports, which selectors look at as they do at those (RFC 4301
/// section 4.4.1.1). The other family's ICMP has one, too, for who only sees the number.
pub const fn has_type(number: u8) -> bool {
    matches!(number, ICMP | ICMPV6 | MOBILITY)
}
