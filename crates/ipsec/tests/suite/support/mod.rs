//! Two peers, their associations and their packets. Used by the tests of this room and of `engine`.
#![allow(dead_code, missing_docs, reason = "each test binary uses its part")]

use crypto::{Registry, Secret, SuiteId};
use sadb::sa::SaOptions;
use sadb::{Direction, Endpoints, InboundSa, Mode, OutboundSa, SaConfig, Selectors, Spi};
use std::net::IpAddr;
use std::sync::LazyLock;
use wire::ipv4::{self, Ipv4Repr};
use wire::ipv6::{self, Ipv6Repr};
use wire::udp::{self, Udp, UdpRepr};
use wire::{Buf, Meta, Packet, Pool, protocol, stage};

pub const SPI: u32 = 0x1234_5001;
pub const HEADROOM: usize = 128;
pub const TAILROOM: usize = 64;
/// Octets behind a packet in the buffers of a pool, about: bundles and compression use them.
pub const ROOM: usize = 4096;

/// Evidence of every step, for packets that a test puts at some stage.
pub struct Placed;
impl<From, To> wire::Evidence<From, To> for Placed {}

pub fn pool() -> Pool {
    Pool::new(HEADROOM + 65536 + TAILROOM, HEADROOM, 64)
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The addresses of both hosts: (alice, bob).
pub fn hosts(v6: bool) -> (IpAddr, IpAddr) {
    if v6 { (ip("2001:db8::a"), ip("2001:db8::b")) } else { (ip("192.0.2.10"), ip("192.0.2.11")) }
}

/// Keying material that no other `number` has.
pub fn keymat(suite: SuiteId, number: u8) -> Secret {
    Secret::new((0..suite.keymat_len()).map(|i| number.wrapping_mul(37).wrapping_add(i as u8)).collect())
}

/// Alice's outbound association to Bob.
pub fn outbound_config(mode: Mode, suite: SuiteId, v6: bool) -> SaConfig {
    let (local, remote) = hosts(v6);
    SaConfig {
        spi: Spi(SPI),
        direction: Direction::Outbound,
        mode,
        suite,
        keymat: keymat(suite, 1),
        endpoints: Endpoints { local, remote, local_port: 4500, remote_port: 4500 },
        selectors: Selectors::ANY,
        replay_window: 1024,
        path_mtu: 1500,
        options: SaOptions::default(),
    }
}

/// What Bob must have for an association that Alice sends on.
pub fn mirror(config: &SaConfig) -> SaConfig {
    let (ends, selectors) = (config.endpoints, config.selectors);
    SaConfig {
        direction: match config.direction {
            Direction::Inbound => Direction::Outbound,
            Direction::Outbound => Direction::Inbound,
        },
        endpoints: Endpoints {
            local: ends.remote,
            remote: ends.local,
            local_port: ends.remote_port,
            remote_port: ends.local_port,
        },
        selectors: Selectors {
            local: selectors.remote,
            remote: selectors.local,
            local_ports: selectors.remote_ports,
            remote_ports: selectors.local_ports,
            ..selectors
        },
        ..config.clone()
    }
}

/// The units of the product. Their known answers are checked once.
pub fn registry() -> &'static Registry {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(|| crypto_std::registry().unwrap());
    &REGISTRY
}

/// Alice's sending half and Bob's receiving half.
pub fn pair(config: &SaConfig) -> (OutboundSa, InboundSa) {
    let registry = registry();
    (OutboundSa::new(config.clone(), registry).unwrap(), InboundSa::new(mirror(config), registry).unwrap())
}

/// An IP packet around an upper layer.
pub fn ip_packet(src: IpAddr, dst: IpAddr, protocol: u8, tos: u8, df: bool, upper: &[u8]) -> Vec<u8> {
    let (header, payload_len) = (if src.is_ipv4() { 20 } else { 40 }, upper.len());
    let mut bytes = vec![0; header];
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let repr = Ipv4Repr { src, dst, protocol, ttl: 63, tos, id: 7, df, payload_len };
            ipv4::emit(&mut bytes, &repr).unwrap();
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let repr = Ipv6Repr {
                src,
                dst,
                next_header: protocol,
                hop_limit: 63,
                traffic_class: tos,
                flow_label: 0x12345,
                payload_len,
            };
            ipv6::emit(&mut bytes, &repr).unwrap();
        }
        _ => panic!("mixed families"),
    }
    bytes.extend(upper);
    bytes
}

/// A UDP datagram in an IP packet.
pub fn udp_packet(src: (IpAddr, u16), dst: (IpAddr, u16), tos: u8, df: bool, payload: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; udp::HEADER_LEN];
    let repr = UdpRepr { src_port: src.1, dst_port: dst.1, payload_len: payload.len() };
    udp::emit(&mut datagram, &repr).unwrap();
    datagram.extend(payload);
    Udp::new_checked(&mut datagram[..]).unwrap().fill_checksum(src.0, dst.0);
    ip_packet(src.0, dst.0, protocol::UDP, tos, df, &datagram)
}

/// A UDP packet from Alice to Bob whose payload is `len` octets of a pattern.
pub fn alice_to_bob(v6: bool, tos: u8, len: usize) -> Vec<u8> {
    let (alice, bob) = hosts(v6);
    let payload: Vec<u8> = (0..len).map(|i| (i * 7 + 3) as u8).collect();
    udp_packet((alice, 40000), (bob, 53), tos, true, &payload)
}

/// Bytes as a packet from the host, with room around them.
pub fn from_host(bytes: &[u8]) -> Packet<stage::Inner> {
    Packet::from_host(Buf::from_slice(bytes, HEADROOM, ROOM), Meta::default())
}

/// An empty packet for a dummy.
pub fn scheduled_empty(pool: &mut Pool, now: wire::Time) -> Packet<stage::Scheduled> {
    let meta = Meta { received: now, ..Meta::default() };
    Packet::from_host(pool.take(), meta).advance::<stage::Selected>(&Placed).advance(&Placed)
}

pub fn scheduled_out(bytes: &[u8]) -> Packet<stage::Scheduled> {
    from_host(bytes).advance::<stage::Selected>(&Placed).advance(&Placed)
}

pub fn raw(bytes: &[u8]) -> Packet<stage::Raw> {
    Packet::raw(Buf::from_slice(bytes, HEADROOM, ROOM), Meta::default())
}

pub fn scheduled_in(bytes: &[u8]) -> Packet<stage::Scheduled> {
    raw(bytes).advance::<stage::Clean>(&Placed).advance::<stage::Classed>(&Placed).advance(&Placed)
}

/// The suites of the fast path; every suite has its own tests.
pub const SUITES: [SuiteId; 3] = [SuiteId::AES_128_GCM, SuiteId::AES_256_GCM, SuiteId::CHACHA20_POLY1305];

pub const MODES: [Mode; 2] = [Mode::Transport, Mode::Tunnel];
