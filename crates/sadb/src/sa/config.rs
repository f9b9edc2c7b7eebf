//! The configuration of one association, and the check that it does not contradict itself.

use std::net::IpAddr;

use crypto::{Cipher, Secret, SuiteId};
use wire::{AppId, Flow, Prefix, Services, protocol};

use super::name::{Direction, Spi};
use super::options::{
    DontFragment, Dscp, Encapsulation, KeyClass, MAX_DUMMY, Mode, SaOptions, SaProtocol, Tfc,
};
use super::path_mtu::{MIN_PATH_MTU_V4, MIN_PATH_MTU_V6};
use crate::custom_suite::rests_on_custom;
use crate::spd::PortRange;
use crate::{ReplayWindow, SadError};

/// The default size in octets of the outer IP packets that the path carries.
pub const DEFAULT_PATH_MTU: u16 = 1500;
/// The default number of sequence numbers that the replay window covers.
pub const DEFAULT_REPLAY_WINDOW: u32 = 1024;

/// The addresses and UDP ports of the outer packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoints {
    /// The outer address of this host.
    pub local: IpAddr,
    /// The outer address of the peer.
    pub remote: IpAddr,
    /// The UDP port of this host (4500).
    pub local_port: u16,
    /// The UDP port of the peer (4500). Zero on an inbound association means any port, for a peer behind a NAT.
    pub remote_port: u16,
}

/// The inner packets that an association may carry (RFC 4301 section 4.4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Selectors {
    /// The addresses on this host's side.
    pub local: Prefix,
    /// The addresses on the peer's side.
    pub remote: Prefix,
    /// The IP protocol number; `None` means any.
    pub protocol: Option<u8>,
    /// The application that the association belongs to; `None`: all share it.
    pub app: Option<AppId>,
    /// The ports on this host's side. A range other than [`PortRange::ANY`] excludes packets without ports, and those
    /// whose ports cannot be read. Where the protocol is named, an ICMP or Mobility Header type counts as a port
    /// ([`Flow`]).
    pub local_ports: PortRange,
    /// The ports on the peer's side.
    pub remote_ports: PortRange,
}

impl Selectors {
    /// Selectors that admit every packet of every application.
    pub const ANY: Selectors = Selectors {
        local: Prefix::ANY,
        remote: Prefix::ANY,
        protocol: None,
        app: None,
        local_ports: PortRange::ANY,
        remote_ports: PortRange::ANY,
    };

    /// Whether the flow's addresses, protocol and ports are inside. The application is not compared.
    #[inline]
    pub fn covers(&self, flow: &Flow) -> bool {
        self.remote.contains(flow.remote)
            && self.local.contains(flow.local)
            && self.protocol.is_none_or(|protocol| protocol == flow.protocol)
            && has_ports_in(self.protocol, self.local_ports, self.remote_ports, flow)
    }

    /// Whether some flow of one application is inside both selectors.
    pub fn meets(&self, other: &Selectors) -> bool {
        let overlap = |a: Prefix, b: Prefix| a.covers(b) || b.covers(a);
        let protocols = [self.protocol, other.protocol];
        self.app == other.app
            && overlap(self.remote, other.remote)
            && overlap(self.local, other.local)
            && (protocols.contains(&None) || self.protocol == other.protocol)
            && self.local_ports.meets(other.local_ports)
            && self.remote_ports.meets(other.remote_ports)
            && self.takes_protocol_of(other)
            && other.takes_protocol_of(self)
    }

    /// Whether packets of the protocol that `other` names have the ports or types that these selectors ask for.
    fn takes_protocol_of(&self, other: &Selectors) -> bool {
        let every = (self.local_ports, self.remote_ports) == (PortRange::ANY, PortRange::ANY);
        every || self.protocol.is_some() || other.protocol.is_none_or(protocol::has_ports)
    }

    /// Whether this application may use the association.
    pub fn serves(&self, app: AppId) -> bool {
        self.app.is_none_or(|bound| bound == app)
    }
}

/// The configuration of one association as the operator (later: the key exchange) asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaConfig {
    /// The SPI on the wire, which the receiver chooses.
    pub spi: Spi,
    /// The direction in which it carries packets.
    pub direction: Direction,
    /// The part of a packet that it encloses.
    pub mode: Mode,
    /// The algorithms by which it protects packets.
    pub suite: SuiteId,
    /// The keying material: cipher key, then salt (RFC 4106 section 8.1, RFC 7634 section 2).
    pub keymat: Secret,
    /// The outer addresses and ports.
    pub endpoints: Endpoints,
    /// The inner packets that it may carry. In transport mode the addresses narrow to the endpoints.
    pub selectors: Selectors,
    /// The number of sequence numbers that the replay window covers: a power of two, 64 to 65536, or 0 for no window.
    /// It is used inbound.
    pub replay_window: u32,
    /// The size in octets of the outer IP packets that the path carries. It is used outbound.
    pub path_mtu: u16,
    /// The options that have a default.
    pub options: SaOptions,
}

impl SaConfig {
    /// The services that the association gives. Encryption that rests on a cipher of one's own is
    /// [`Services::CUSTOM`]; a cascade has AES-256-GCM around that cipher and counts as it.
    pub fn services(&self) -> Services {
        match self.options.protocol {
            SaProtocol::Esp if rests_on_custom(self.suite) => Services::CUSTOM,
            SaProtocol::Esp if self.suite.encrypts() => Services::ENCRYPTED,
            SaProtocol::Esp | SaProtocol::Ah => Services::AUTHENTICATED,
            SaProtocol::IpComp | SaProtocol::IpIp => Services::NONE,
        }
    }

    /// The number of octets of keying material that protocol and suite ask for.
    pub fn keymat_len(&self) -> usize {
        match self.options.protocol {
            SaProtocol::Esp => self.suite.keymat_len(),
            SaProtocol::Ah => self.suite.integrity().keymat_len(),
            SaProtocol::IpComp | SaProtocol::IpIp => 0,
        }
    }

    /// The selectors in force. In transport mode an association carries only packets between its endpoints.
    pub fn effective_selectors(&self) -> Selectors {
        match self.mode {
            Mode::Tunnel | Mode::Beet => self.selectors,
            Mode::Transport => Selectors {
                local: Prefix::host(self.endpoints.local),
                remote: match (self.direction, self.options.class) {
                    // Its peers are whoever has the key: a group has several senders.
                    (Direction::Inbound, KeyClass::SpiDestination) => self.selectors.remote,
                    _ => Prefix::host(self.endpoints.remote),
                },
                ..self.selectors
            },
        }
    }

    /// Check that the configuration contradicts neither itself nor a standard.
    ///
    /// # Errors
    /// The first contradiction found; see [`SadError`].
    pub fn check(&self) -> Result<(), SadError> {
        self.check_protocol()?;
        if self.keymat.len() != self.keymat_len() {
            return Err(SadError::KeymatLength {
                suite: self.suite,
                want: self.keymat_len(),
                got: self.keymat.len(),
            });
        }
        self.check_key()?;
        let unchecked = self.replay_window == 0 && !self.options.extended_sequence;
        if !unchecked && !ReplayWindow::is_size(self.replay_window) {
            return Err(SadError::ReplayWindowSize(self.replay_window));
        }
        self.check_endpoints()?;
        self.check_selectors()
    }

    /// Refuse keys that reduce 3DES to DES (RFC 2451 section 2.3). The lowest bit of an octet is parity and no part of
    /// the key.
    fn check_key(&self) -> Result<(), SadError> {
        if self.suite.cipher() != Cipher::TripleDesCbc {
            return Ok(());
        }
        let (keys, _) = self.keymat.expose().as_chunks::<8>();
        let alike =
            |pair: &[[u8; 8]]| matches!(pair, [a, b] if a.iter().zip(b).all(|(a, b)| (a ^ b) & 0xfe == 0));
        if keys.windows(2).take(2).any(alike) { Err(SadError::WeakKey(self.suite)) } else { Ok(()) }
    }

    fn check_protocol(&self) -> Result<(), SadError> {
        let options = &self.options;
        let protocol = options.protocol;
        if protocol == SaProtocol::IpComp {
            // RFC 3173 section 3.3: CPI 0 to 63 are well known, 64 to 255 reserved, 61440 and more private.
            if self.spi != Spi::DEFLATE && !(256..=0xffff).contains(&self.spi.0) {
                return Err(SadError::Cpi(self.spi));
            }
        } else if self.spi.is_reserved() {
            return Err(SadError::ReservedSpi(self.spi));
        }
        if protocol == SaProtocol::Ah && self.suite.encrypts() {
            return Err(SadError::AhEncrypts(self.suite));
        }
        if protocol != SaProtocol::Esp && options.encapsulation == Encapsulation::Udp {
            return Err(SadError::UdpWithout(protocol));
        }
        if protocol == SaProtocol::IpIp && self.mode != Mode::Tunnel {
            return Err(SadError::IpIpMode(self.mode));
        }
        if options.tfc != Tfc::None && (protocol != SaProtocol::Esp || self.mode != Mode::Tunnel) {
            return Err(SadError::TfcMode);
        }
        let codepoints = match &options.headers.dscp {
            Dscp::Copy => &[][..],
            Dscp::Set(dscp) => std::slice::from_ref(dscp),
            Dscp::Map(map) => &map[..],
        };
        if let Some(&dscp) = codepoints.iter().find(|dscp| **dscp > 63) {
            return Err(SadError::Dscp(dscp));
        }
        // IP in IP has no number at all.
        if options.class != KeyClass::Spi && protocol == SaProtocol::IpIp {
            return Err(SadError::ClassWithoutKey(protocol));
        }
        self.check_peer_options()?;
        if options.next == Some(self.spi) {
            return Err(SadError::OwnNext(self.spi));
        }
        Ok(())
    }

    /// Check the options that keep a peer reachable, follow it, and hide silence.
    fn check_peer_options(&self) -> Result<(), SadError> {
        let options = &self.options;
        let outbound = self.direction == Direction::Outbound;
        let udp = options.encapsulation == Encapsulation::Udp;
        if options.keepalive > 0 && !(udp && outbound) {
            return Err(SadError::Keepalive);
        }
        if options.dummy > 0 {
            let esp = options.protocol == SaProtocol::Esp && self.mode == Mode::Tunnel;
            if !esp || !outbound || options.next.is_some() {
                return Err(SadError::DummyMode);
            }
            if options.dummy > MAX_DUMMY {
                return Err(SadError::DummyRate(options.dummy));
            }
        }
        // Without a window nothing tells a new packet from an old one.
        let newness = outbound || self.replay_window > 0;
        if options.follow_peer && !(udp && newness && options.class == KeyClass::Spi) {
            return Err(SadError::FollowPeer);
        }
        Ok(())
    }

    fn check_endpoints(&self) -> Result<(), SadError> {
        let ends = &self.endpoints;
        if ends.local.is_ipv4() != ends.remote.is_ipv4() {
            return Err(SadError::MixedFamilies { local: ends.local, remote: ends.remote });
        }
        // What arrives for a group is addressed to the group (RFC 4301 section 4.1).
        let group = self.options.class != KeyClass::Spi && ends.local.is_multicast();
        for addr in [ends.local, ends.remote] {
            if !(is_host(addr) || group && addr == ends.local) {
                return Err(SadError::NotUnicast(addr));
            }
        }
        if ends.local == ends.remote && ends.local_port == ends.remote_port {
            return Err(SadError::SameEndpoint(ends.local));
        }
        let udp = self.options.encapsulation == Encapsulation::Udp;
        let outbound = self.direction == Direction::Outbound;
        if udp && (ends.local_port == 0 || outbound && ends.remote_port == 0) {
            return Err(SadError::PortZero);
        }
        let least = if ends.remote.is_ipv4() { MIN_PATH_MTU_V4 } else { MIN_PATH_MTU_V6 };
        if self.path_mtu < least {
            return Err(SadError::PathMtu { got: self.path_mtu, least });
        }
        Ok(())
    }

    fn check_selectors(&self) -> Result<(), SadError> {
        let selectors = &self.selectors;
        if selectors.app == Some(AppId::NONE) {
            return Err(SadError::BoundToNoApplication);
        }
        for ports in [selectors.local_ports, selectors.remote_ports] {
            if ports.first > ports.last {
                return Err(SadError::EmptyPortRange { first: ports.first, last: ports.last });
            }
        }
        self.check_ports()?;
        let sides = [(selectors.local, self.endpoints.local), (selectors.remote, self.endpoints.remote)];
        let is_v4 = |prefix: Prefix| wire::addr::from_bits(prefix.first()).is_ipv4();
        let both = !selectors.local.is_empty() && !selectors.remote.is_empty();
        if self.mode != Mode::Beet && both && is_v4(selectors.local) != is_v4(selectors.remote) {
            return Err(SadError::MixedSelectors { local: selectors.local, remote: selectors.remote });
        }
        if self.mode == Mode::Beet {
            let (local, remote) = (selectors.local, selectors.remote);
            let same_family = wire::addr::from_bits(local.first()).is_ipv4()
                == wire::addr::from_bits(remote.first()).is_ipv4();
            if local.len() != 128 || remote.len() != 128 || !same_family {
                return Err(SadError::BeetSelector { local, remote });
            }
        }
        if self.mode == Mode::Transport {
            for (selector, endpoint) in sides {
                if !selector.contains(endpoint) {
                    return Err(SadError::TransportSelector { selector, endpoint });
                }
            }
        }
        Ok(())
    }
}

impl SaConfig {
    /// Whether its own policy keeps routers from fragmenting its outer packets (RFC 4301 section 8.1). IPv6 has no such
    /// flag.
    pub fn forbids_fragments(&self) -> bool {
        self.options.headers.df == DontFragment::Set
            && self.mode != Mode::Transport
            && self.endpoints.remote.is_ipv4()
    }

    /// Check that packets of the protocol have what the ports select (RFC 4301 section 4.4.1.1).
    fn check_ports(&self) -> Result<(), SadError> {
        let Selectors { protocol, local_ports, remote_ports, .. } = self.selectors;
        let Some(protocol) = protocol else { return Ok(()) };
        match protocol {
            _ if protocol::has_ports(protocol) => Ok(()),
            _ if protocol::has_type(protocol) && remote_ports != PortRange::ANY => {
                Err(SadError::TypeInRemotePorts)
            }
            protocol::ICMP | protocol::ICMPV6 => Ok(()),
            // 256 times a type lies inside.
            protocol::MOBILITY
                if u32::from(local_ports.first).div_ceil(256) <= u32::from(local_ports.last / 256) =>
            {
                Ok(())
            }
            protocol::MOBILITY => Err(SadError::NoMobilityType(local_ports.first)),
            _ if (local_ports, remote_ports) == (PortRange::ANY, PortRange::ANY) => Ok(()),
            _ => Err(SadError::PortsWithout(protocol)),
        }
    }
}

/// Whether the flow has ports inside these ranges. `protocol` is the one that the selectors name; `None` means any.
#[inline]
pub(crate) fn has_ports_in(protocol: Option<u8>, local: PortRange, remote: PortRange, flow: &Flow) -> bool {
    if (local, remote) == (PortRange::ANY, PortRange::ANY) {
        return true;
    }
    let has = protocol::has_ports(flow.protocol) || protocol.is_some() && protocol::has_type(flow.protocol);
    // What cannot be read is in no range, also not in one that begins at zero (RFC 4301 section 4.4.1.1).
    has && !flow.opaque && local.contains(flow.local_port) && remote.contains(flow.remote_port)
}

/// Whether this can be the outer address of one host. An IPv4-mapped address belongs to no wire (RFC 4942 section 2.2).
pub(super) fn is_host(addr: IpAddr) -> bool {
    let broadcast = matches!(addr, IpAddr::V4(v4) if v4.is_broadcast());
    !addr.is_unspecified() && !addr.is_multicast() && !broadcast && addr.to_canonical() == addr
}
