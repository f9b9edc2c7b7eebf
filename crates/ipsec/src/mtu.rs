//! How large an inner packet may be for its outer packet to fit the path.

use crate::ah;
use crate::esp::{HEADER, pad};
use crate::lengths::{ip_header, outer_header, udp_header};
use sadb::sa::{SaProtocol, Shape};
use sadb::{Mode, SaConfig};
use wire::ipv4::{self, Ipv4};
use wire::{addr, ipv6};

/// Octets of the pseudo header of BEET mode at most, without the options.
const BEET_PSEUDO: usize = 8;

/// The IP header that does not travel in BEET mode.
fn beet_header(config: &SaConfig) -> usize {
    ip_header(addr::from_bits(config.selectors.remote.first()).is_ipv4())
}

/// Octets that the protocol puts between the outer IP header and the payload, and behind it, alignment apart.
fn around(config: &SaConfig) -> usize {
    match config.options.protocol {
        SaProtocol::Esp => {
            let shape = Shape::of(config.suite);
            udp_header(config) + HEADER + usize::from(shape.iv) + usize::from(shape.icv)
        }
        SaProtocol::Ah => ah::header_len(config),
        // What is compressed is never longer than before, header included.
        SaProtocol::IpComp | SaProtocol::IpIp => 0,
    }
}

/// The longest payload in this room.
fn payload(config: &SaConfig, room: usize) -> usize {
    if config.options.protocol != SaProtocol::Esp {
        return room;
    }
    (room & !(usize::from(Shape::of(config.suite).align) - 1)).saturating_sub(pad::TRAILER)
}

/// Octets by which an outer packet is at most longer than its inner one, padding that hides lengths apart.
pub fn overhead(config: &SaConfig) -> usize {
    let trailer = match config.options.protocol {
        SaProtocol::Esp => usize::from(Shape::of(config.suite).whole) - 1 + pad::TRAILER,
        SaProtocol::Ah | SaProtocol::IpComp | SaProtocol::IpIp => 0,
    };
    let ip = match config.mode {
        Mode::Tunnel => outer_header(config),
        // The packet's own header becomes the outer one.
        Mode::Transport => 0,
        Mode::Beet => {
            let pseudo = if beet_header(config) == ipv4::HEADER_LEN { BEET_PSEUDO } else { 0 };
            (outer_header(config) + pseudo + around(config) + trailer)
                .saturating_sub(beet_header(config) + around(config) + trailer)
        }
    };
    ip + around(config) + trailer
}

/// The largest inner IP packet without options whose outer packet fits the association's path MTU.
#[inline]
pub fn inner_mtu(config: &SaConfig) -> usize {
    let own = if config.mode == Mode::Beet { beet_header(config) } else { outer_header(config) };
    within(config, config.path_mtu.into(), own)
}

/// Octets that a dummy packet may hold for its outer packet not to be longer than `size`.
pub(crate) fn dummy_room(config: &SaConfig, size: usize) -> usize {
    payload(config, size.saturating_sub(outer_header(config) + around(config)))
}

/// The lengths that probes of an association of ESP can have: octets of headers and ICV, and of what the rest is a
/// multiple.
pub fn probe_lengths(config: &SaConfig) -> (usize, usize) {
    (outer_header(config) + around(config), Shape::of(config.suite).align.into())
}

/// The largest inner IP packet whose outer packet fits the path MTUs of a whole bundle, first member first. The packet
/// has `own` octets of headers, as [`own_header`] counts them.
pub fn bundle_mtu(members: &[&SaConfig], own: usize) -> usize {
    let Some((first, rest)) = members.split_first() else { return usize::MAX };
    let outer = if first.mode == Mode::Transport { own } else { outer_header(first) };
    let path = usize::from(first.path_mtu).min(bundle_mtu(rest, outer));
    within(first, path, own)
}

/// Octets of headers that transport mode keeps in front: the IPv4 header with options, the IPv6 header with what
/// [`ipv6::front`] counts.
pub fn own_header(bytes: &[u8]) -> usize {
    match Ipv4::new_checked(bytes) {
        Ok(ip) => ip.header_len(),
        Err(_) => ipv6::front(bytes).map_or(ipv6::HEADER_LEN, |front| front.len),
    }
}

fn within(config: &SaConfig, path: usize, own: usize) -> usize {
    let outer = if config.mode == Mode::Transport { own } else { outer_header(config) };
    let payload = payload(config, path.saturating_sub(outer + around(config)));
    match config.mode {
        Mode::Tunnel => payload,
        Mode::Transport => payload + own,
        Mode::Beet => {
            let gone = beet_header(config);
            let options = if gone == ipv4::HEADER_LEN { own.saturating_sub(gone) } else { 0 };
            // The fixed part of the pseudo header, and padding that aligns the options behind it.
            let pseudo = if options > 0 { BEET_PSEUDO - (options & 4) } else { 0 };
            (payload + gone).saturating_sub(pseudo)
        }
    }
}
