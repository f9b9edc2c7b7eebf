//! The IP protocol numbers that Ravelin knows by name (IANA "Protocol Numbers").

/// The protocol number of IPv6 hop-by-hop options.
pub const HOP_BY_HOP: u8 = 0;
/// The protocol number of ICMP for IPv4.
pub const ICMP: u8 = 1;
/// The protocol number of IGMP (IPv4 group membership).
pub const IGMP: u8 = 2;
/// The protocol number of IPv4 in IP (tunnel mode).
pub const IPV4: u8 = 4;
/// The protocol number of TCP.
pub const TCP: u8 = 6;
/// The protocol number of UDP.
pub const UDP: u8 = 17;
/// The protocol number of DCCP.
pub const DCCP: u8 = 33;
/// The protocol number of IPv6 in IP (tunnel mode).
pub const IPV6: u8 = 41;
/// The protocol number of the IPv6 routing header.
pub const ROUTING: u8 = 43;
/// The protocol number of the IPv6 fragment header.
pub const FRAGMENT: u8 = 44;
/// The protocol number of ESP.
pub const ESP: u8 = 50;
/// The protocol number of AH.
pub const AH: u8 = 51;
/// The protocol number of ICMP for IPv6.
pub const ICMPV6: u8 = 58;
/// The number that says that nothing follows (IPv6), or that the packet is a dummy (ESP).
pub const NO_NEXT: u8 = 59;
/// The protocol number of IPv6 destination options.
pub const DESTINATION: u8 = 60;
/// The protocol number of SCTP.
pub const SCTP: u8 = 132;
/// The protocol number of UDP-Lite.
pub const UDP_LITE: u8 = 136;
/// The protocol number of the pseudo header for IPv4 options (BEET mode, draft-nikander-esp-beet-mode-09 section 5.4).
pub const BEET_PSEUDO: u8 = 94;
/// The protocol number of a compressed payload (IPComp).
pub const IPCOMP: u8 = 108;
/// The protocol number of the IPv6 mobility header.
pub const MOBILITY: u8 = 135;

/// Whether packets of the protocol have ports.
pub const fn has_ports(number: u8) -> bool {
    matches!(number, TCP | UDP | UDP_LITE | SCTP | DCCP)
}

/// Whether packets of the protocol have a type where others have ports. Selectors match types as they match ports (RFC
/// 4301 section 4.4.1.1). Both versions' ICMP count, since a caller may see only the number.
pub const fn has_type(number: u8) -> bool {
    matches!(number, ICMP | ICMPV6 | MOBILITY)
}
