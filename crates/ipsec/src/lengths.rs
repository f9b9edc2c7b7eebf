//! The lengths of outer headers.

use sadb::SaConfig;
use sadb::sa::{Encapsulation, SaProtocol};
use wire::{ipv4, ipv6, udp};

/// The length of an IP header without options, in octets.
pub(crate) fn ip_header(v4: bool) -> usize {
    if v4 { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN }
}

/// The outer IP header of the association, without options.
#[inline]
pub(crate) fn outer_header(config: &SaConfig) -> usize {
    ip_header(config.endpoints.remote.is_ipv4())
}

/// The UDP header, if there is one.
#[inline]
pub(crate) fn udp_header(config: &SaConfig) -> usize {
    match (config.options.encapsulation, config.options.protocol) {
        (Encapsulation::Udp, SaProtocol::Esp) => udp::HEADER_LEN,
        (Encapsulation::Udp | Encapsulation::None, _) => 0,
    }
}
