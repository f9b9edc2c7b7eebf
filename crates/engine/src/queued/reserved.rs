//! What packets show of reserved flows, and what came of comparing them (docs/design/0044).
//!
//! Outbound a flow is found by what the inner packet shows, or by the association once it is known; inbound by the
//! association that the outer header names.

use std::net::IpAddr;

use qos::reservation::{InnerName, OuterName};
use sadb::sa::{SaConfig, SaProtocol};
use wire::{Flow, protocol};

/// What came of comparing a packet with the reserved flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reserved {
    /// No reservation is for it, as far as is known of it.
    #[default]
    None,
    /// It keeps within the rate of its flow, and has the class of the reservation.
    Within,
    /// It is beyond the rate of its flow, and has the class that it would have had without.
    Beyond,
}

/// The outer flow of an association to this destination, as RFC 2207 names it; `None` for protocols without an SPI.
pub(crate) fn outer_name(config: &SaConfig, destination: IpAddr, spi: u32) -> Option<OuterName> {
    let protocol = match config.options.protocol {
        SaProtocol::Esp => protocol::ESP,
        SaProtocol::Ah => protocol::AH,
        SaProtocol::IpComp | SaProtocol::IpIp => return None,
    };
    Some(OuterName { destination, protocol, spi })
}

/// What an inner packet shows of its flow.
pub(crate) fn inner_name(flow: &Flow, dscp: u8) -> InnerName {
    let ports = (flow.local_port, flow.remote_port);
    InnerName { destination: flow.remote, protocol: flow.protocol, ports, dscp }
}
