//! What is known of a packet of a capture, as a graph sees it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netio::pcap::Frame;
use qos::graph::Addresses;
use qos::{Amount, Direction, HeaderKind, Meta, UnitMask};
use wire::ip::{self, Headers};
use wire::udp::Udp;
use wire::{Flow, Time, ah, esp, icmp, protocol};

use crate::replay::HalfChoice;

/// The port of IKE (RFC 7296 section 2.1).
const IKE_PORT: u16 = 500;

/// Reads packets, and remembers which associations and times there were.
pub(super) struct Packets<'o> {
    way: HalfChoice,
    local: &'o [IpAddr],
    suite: u16,
    /// The numbers of associations, by the hosts and the SPI of their packets.
    associations: BTreeMap<(IpAddr, IpAddr, u32), u32>,
    /// What the graph asks of addresses.
    addresses: Addresses,
    /// The time of the first frame.
    first: Option<Time>,
    /// The newest time since the first frame: no packet comes before the one in front of it.
    newest: Time,
}

impl<'o> Packets<'o> {
    pub(super) fn new(way: HalfChoice, local: &'o [IpAddr], suite: u16, addresses: Addresses) -> Packets<'o> {
        Packets { way, local, suite, addresses, associations: BTreeMap::new(), first: None, newest: Time(0) }
    }

    /// The direction, time and facts of the packet in a frame.
    ///
    /// # Errors
    /// If there is no whole IP packet in it.
    pub(super) fn read(&mut self, frame: &Frame) -> Result<(Direction, Time, Meta), ()> {
        let at = frame.clock();
        let first = *self.first.get_or_insert(at);
        self.newest = self.newest.max(Time(at.0.saturating_sub(first.0)));
        let bytes = frame.ip().ok_or(())?;
        let headers = Headers::parse(bytes).map_err(|_| ())?;
        let (header, spi) = front(bytes, &headers);
        let direction = self.direction(&headers, header);
        let count = u32::try_from(self.associations.len() + 1).unwrap_or(u32::MAX);
        let association = *self.associations.entry((headers.src, headers.dst, spi)).or_insert(count);
        let peer = match direction {
            Direction::Outbound => headers.dst,
            Direction::Inbound => headers.src,
        };
        // Inbound it is the outer source, as the inner one is hidden in a packet that is protected.
        let flow = ip::flow(bytes, &headers, true);
        let (mut source, mut destination, mut ports, mut inner) = (0, 0, [0; 2], 0);
        if direction == Direction::Outbound {
            source = self.addresses.sources.number(headers.src);
            destination = self.addresses.destinations.number(headers.dst);
            inner = flow.protocol;
            if protocol::has_ports(flow.protocol) && !flow.opaque {
                ports = [flow.local_port, flow.remote_port];
            }
        }
        let octets = u64::try_from(headers.total_len).unwrap_or(u64::MAX);
        let meta = Meta {
            amount: Amount { packets: 1, octets, ns: 0 },
            association,
            spi,
            flow: hash(&flow),
            suite: self.suite,
            user: hash_of(headers.src),
            peer_hash: hash_of(peer).max(1),
            peer: self.addresses.peers.number(peer),
            source,
            destination,
            ports,
            protocol: inner,
            units: UnitMask(u16::MAX),
            dscp: [headers.tos >> 2; 2],
            ecn: headers.tos & 3,
            header,
            direction,
            ..Meta::default()
        };
        Ok((direction, self.newest, meta))
    }

    fn direction(&self, headers: &Headers, header: HeaderKind) -> Direction {
        let protected = [HeaderKind::Esp, HeaderKind::EspInUdp, HeaderKind::Ah, HeaderKind::IpComp];
        match self.way {
            HalfChoice::In => Direction::Inbound,
            HalfChoice::Out => Direction::Outbound,
            HalfChoice::Auto if self.local.contains(&headers.dst) => Direction::Inbound,
            HalfChoice::Auto if self.local.contains(&headers.src) => Direction::Outbound,
            HalfChoice::Auto if protected.contains(&header) => Direction::Inbound,
            HalfChoice::Auto => Direction::Outbound,
        }
    }
}

/// What stands at the front of a packet, and its SPI or 0.
fn front(bytes: &[u8], headers: &Headers) -> (HeaderKind, u32) {
    let upper = headers.upper(bytes);
    if headers.fragment.is_some_and(|fragment| fragment.offset > 0) {
        return (HeaderKind::Clear, 0);
    }
    match headers.protocol {
        protocol::ESP => (HeaderKind::Esp, esp::Esp::new_checked(upper).map_or(0, |esp| esp.spi())),
        protocol::AH => (HeaderKind::Ah, ah::Ah::new_checked(upper).map_or(0, |ah| ah.spi())),
        protocol::IPCOMP => (HeaderKind::IpComp, 0),
        protocol::UDP => Udp::new_checked(upper).map_or((HeaderKind::Clear, 0), |udp| datagram(&udp)),
        protocol::ICMP if icmp::Icmpv4::new_checked(upper).is_ok_and(|icmp| icmp.is_error()) => {
            (HeaderKind::IcmpError, 0)
        }
        protocol::ICMPV6 if icmp::Icmpv6::new_checked(upper).is_ok_and(|icmp| icmp.is_error()) => {
            (HeaderKind::IcmpError, 0)
        }
        _ => (HeaderKind::Clear, 0),
    }
}

/// What a datagram holds, by its ports (RFC 3948 section 2, RFC 7296 section 2.1).
fn datagram(udp: &Udp<&[u8]>) -> (HeaderKind, u32) {
    let ports = [udp.src_port(), udp.dst_port()];
    if ports.contains(&IKE_PORT) {
        return (HeaderKind::Ike, 0);
    }
    if !ports.contains(&config::ESP_PORT) {
        return (HeaderKind::Clear, 0);
    }
    match esp::classify(udp.payload()) {
        esp::UdpPayload::Esp => {
            (HeaderKind::EspInUdp, esp::Esp::new_checked(udp.payload()).map_or(0, |esp| esp.spi()))
        }
        esp::UdpPayload::Ike => (HeaderKind::Ike, 0),
        esp::UdpPayload::Keepalive => (HeaderKind::Keepalive, 0),
        esp::UdpPayload::Other => (HeaderKind::Clear, 0),
    }
}

/// The hash of an address alone.
fn hash_of(address: IpAddr) -> u32 {
    let flow =
        Flow { local: address, remote: address, local_port: 0, remote_port: 0, protocol: 0, opaque: false };
    hash(&flow)
}

/// The hash of a flow by FNV-1a: without a key, so that each run has the same.
fn hash(flow: &Flow) -> u32 {
    let mut hash = 0x811c_9dc5_u32;
    let mut add = |octet: u8| hash = (hash ^ u32::from(octet)).wrapping_mul(0x0100_0193);
    for addr in [flow.local, flow.remote] {
        match addr {
            IpAddr::V4(addr) => addr.octets().into_iter().for_each(&mut add),
            IpAddr::V6(addr) => addr.octets().into_iter().for_each(&mut add),
        }
    }
    for port in [flow.local_port, flow.remote_port] {
        port.to_be_bytes().into_iter().for_each(&mut add);
    }
    add(flow.protocol);
    hash
}
