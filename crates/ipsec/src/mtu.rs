//! How large an inner packet may be for its outer packet to fit the path.

use crate::esp::{HEADER, pad};
use sadb::sa::{Encapsulation, Shape};
use sadb::{Mode, SaConfig};
use wire::{ipv4, ipv6, udp};

/// The outer IP header of the association.
pub(crate) fn outer_header(config: &SaConfig) -> usize {
    if config.endpoints.remote.is_ipv4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN }
}

/// The UDP header, if there is one.
pub(crate) fn udp_header(config: &SaConfig) -> usize {
    match config.options.encapsulation {
        Encapsulation::Udp => udp::HEADER_LEN,
        Encapsulation::None => 0,
    }
}

/// Octets between the outer IP header and the payload, and of the ICV behind it.
fn around(config: &SaConfig, shape: Shape) -> usize {
    udp_header(config) + HEADER + usize::from(shape.iv) + usize::from(shape.icv)
}

/// Octets by which an outer packet is at most longer than its inner one.
pub fn overhead(config: &SaConfig) -> usize {
    let shape = Shape::of(config.suite);
    let ip = match config.mode {
        Mode::Tunnel => outer_header(config),
        // The packet's own header becomes the outer one.
        Mode::Transport | Mode::Beet => 0,
    };
    ip + around(config, shape) + usize::from(shape.align) - 1 + pad::TRAILER
}

/// The largest inner IP packet whose outer packet fits the association's path MTU.
pub fn inner_mtu(config: &SaConfig) -> usize {
    let shape = Shape::of(config.suite);
    let (ip, align) = (outer_header(config), usize::from(shape.align));
    let room = usize::from(config.path_mtu).saturating_sub(ip + around(config, shape));
    let payload = (room & !(align - 1)).saturating_sub(pad::TRAILER);
    match config.mode {
        Mode::Tunnel => payload,
        Mode::Transport | Mode::Beet => payload + ip,
    }
}
