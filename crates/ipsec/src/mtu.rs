//! How large an inner packet may be for its outer packet to fit the path.

use crate::esp::{HEADER, ICV, IV, pad};
use sadb::{Mode, SaConfig};
use wire::{ipv4, ipv6, udp};

/// The outer IP header of the association.
pub(crate) fn outer_header(config: &SaConfig) -> usize {
    if config.endpoints.remote.is_ipv4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN }
}

/// Octets between the outer IP header and the payload, and of the ICV behind it.
const AROUND: usize = udp::HEADER_LEN + HEADER + IV + ICV;

/// Octets by which an outer packet is at most longer than its inner one.
pub fn overhead(config: &SaConfig) -> usize {
    let ip = match config.mode {
        Mode::Tunnel => outer_header(config),
        // The packet's own header becomes the outer one.
        Mode::Transport => 0,
    };
    ip + AROUND + pad::MAX_PAD + pad::TRAILER
}

/// The largest inner IP packet whose outer packet fits the association's path MTU.
pub fn inner_mtu(config: &SaConfig) -> usize {
    let ip = outer_header(config);
    let room = usize::from(config.path_mtu).saturating_sub(ip + AROUND);
    let payload = (room / pad::ALIGN * pad::ALIGN).saturating_sub(pad::TRAILER);
    match config.mode {
        Mode::Tunnel => payload,
        Mode::Transport => payload + ip,
    }
}
