//! Two peers in memory: policy, associations and packets like those of a busy host.

use crypto::{Registry, Secret, SuiteId};
use engine::{Inbound, Outbound};
use sadb::spd::{AppPolicy, Class, Item, Level, Network, PortRange, RuleId, Spd};
use sadb::{Direction, Endpoints, InboundSa, Mode, OutboundSa, SaConfig, Selectors, Spi};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use wire::ipv4::{self, Ipv4Repr};
use wire::udp::{self, Udp, UdpRepr};
use wire::{AppId, Gso, GsoKind, Meta, OuterHeader, Pool, Prefix, Services, protocol, record, tcp};

/// The application that sends the packets.
pub const APP: AppId = AppId(7);
/// Associations to other peers, so that finding the right one is work.
const OTHERS: u8 = 63;
/// Flows that packets belong to in turn.
pub const FLOWS: u16 = 16;

/// The address of the sending host.
pub const ALICE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// The address of the receiving host.
pub const BOB: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);

/// Keying material of the association with Bob.
pub fn keymat(suite: SuiteId, number: u8) -> Secret {
    Secret::new((0..suite.keymat_len()).map(|i| number.wrapping_mul(41).wrapping_add(i as u8)).collect())
}

fn config(suite: SuiteId, number: u8, direction: Direction) -> SaConfig {
    let far = Ipv4Addr::new(198, 51, 100, number);
    config_with(suite, far, Spi(0x0100_0000 + u32::from(number)), number, direction)
}

/// An association between Alice and a peer.
fn config_with(suite: SuiteId, far: Ipv4Addr, spi: Spi, number: u8, direction: Direction) -> SaConfig {
    let far = IpAddr::V4(far);
    let near = IpAddr::V4(ALICE);
    let (local, remote) = match direction {
        Direction::Outbound => (near, far),
        Direction::Inbound => (far, near),
    };
    let any = Selectors::ANY;
    let selectors = match direction {
        Direction::Outbound => Selectors { remote: Prefix::host(far), ..any },
        Direction::Inbound => Selectors { local: Prefix::host(far), ..any },
    };
    SaConfig {
        spi,
        direction,
        mode: Mode::Tunnel,
        suite,
        keymat: keymat(suite, number),
        endpoints: Endpoints { local, remote, local_port: 4500, remote_port: 4500 },
        selectors,
        replay_window: 1024,
        path_mtu: 9600,
        // As the daemon adds associations.
        options: sadb::sa::SaOptions { padding: sadb::sa::Padding::Blocks, ..Default::default() },
    }
}

/// Protected and mandatory, among other networks.
pub fn policy() -> Spd {
    let network = |addr: [u8; 4], len, class| Network {
        prefix: Prefix::new(IpAddr::from(addr), len).expect("a prefix"),
        class,
        rule: RuleId(2),
    };
    let networks = vec![
        network([198, 51, 100, 0], 24, Class::Protected(0)),
        network([203, 0, 113, 0], 24, Class::Untrusted),
        network([10, 0, 0, 0], 8, Class::Trusted),
    ];
    spd(networks)
}

/// What the application does with one network is protected.
pub fn protects(prefix: Prefix) -> Spd {
    spd(vec![Network { prefix, class: Class::Protected(0), rule: RuleId(2) }])
}

/// A policy of these networks, in which everything with the protected ones must be encrypted.
fn spd(networks: Vec<Network>) -> Spd {
    let item = Item::new(PortRange::ANY, PortRange::ANY, Services::ENCRYPTED, Level::Mandatory, RuleId(1));
    let mut spd = Spd::new(1);
    spd.insert(APP, AppPolicy::new(networks, vec![vec![item]]));
    spd
}

/// The units as the daemon chooses among them.
///
/// # Errors
/// If one computes a wrong answer.
pub fn registry() -> anyhow::Result<Registry> {
    let mut registry = documents::crypto_units::all()?;
    registry.choose(&mut || netio::clock::monotonic().0);
    Ok(registry)
}

/// The outbound engine of Alice, with an association to each peer.
///
/// # Panics
/// If the provider lacks the suite.
pub fn outbound(suite: SuiteId, registry: &Registry) -> Outbound {
    let mut engine = Outbound::new(Arc::new(policy()), 0x5eed_5eed);
    for number in 1..=1 + OTHERS {
        let sa =
            OutboundSa::new(config(suite, number, Direction::Outbound), registry).expect("an association");
        engine.add_sa(sa).expect("room for it");
    }
    engine
}

/// The inbound engine of Bob, with as many associations.
///
/// # Panics
/// If the provider lacks the suite.
pub fn inbound(suite: SuiteId, registry: &Registry) -> Inbound {
    let mut engine = Inbound::new(4500);
    for number in 1..=1 + OTHERS {
        let sa = InboundSa::new(config(suite, number, Direction::Inbound), registry).expect("an association");
        engine.add_sa(sa).expect("room for it");
    }
    engine
}

/// A peer of Alice who is one of many.
pub fn one_of_many(index: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 + index)
}

/// Alice with an association to each of `count` peers.
///
/// # Panics
/// If the provider lacks the suite, or there are too many.
pub fn outbound_to_many(suite: SuiteId, count: u32, registry: &Registry) -> Outbound {
    let prefix = Prefix::new(one_of_many(0).into(), 8).expect("a prefix");
    let mut engine = Outbound::new(Arc::new(protects(prefix)), 0x5eed_5eed);
    for index in 0..count {
        let config = many(suite, index, Direction::Outbound);
        engine.add_sa(OutboundSa::new(config, registry).expect("an association")).expect("room for it");
    }
    engine
}

/// All of those peers in one.
///
/// # Panics
/// As [`outbound_to_many`].
pub fn inbound_of_many(suite: SuiteId, count: u32, registry: &Registry) -> Inbound {
    let mut engine = Inbound::new(4500);
    for index in 0..count {
        let config = many(suite, index, Direction::Inbound);
        engine.add_sa(InboundSa::new(config, registry).expect("an association")).expect("room for it");
    }
    engine
}

fn many(suite: SuiteId, index: u32, direction: Direction) -> SaConfig {
    // An odd multiplier: each its own, and spread over all slots as chosen ones are.
    let spi = Spi(0x0100_0000 | (index.wrapping_mul(0x9e37_79b1) >> 8));
    config_with(suite, one_of_many(index), spi, index as u8, direction)
}

/// A UDP packet of `len` octets from Alice to Bob in one of the flows.
///
/// # Panics
/// If `len` is too short for the headers.
pub fn packet(len: usize, flow: u16) -> Vec<u8> {
    packet_to(BOB, len, flow)
}

/// A UDP packet like that of [`packet`], to somebody else.
///
/// # Panics
/// As [`packet`].
pub fn packet_to(dst: Ipv4Addr, len: usize, flow: u16) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
    let payload_len = len - ipv4::HEADER_LEN;
    let repr =
        Ipv4Repr { src: ALICE, dst, protocol: protocol::UDP, ttl: 64, tos: 0, id: 0, df: true, payload_len };
    ipv4::emit(&mut bytes, &repr).expect("room for a header");
    let datagram = &mut bytes[ipv4::HEADER_LEN..];
    let repr = UdpRepr {
        src_port: 40000 + flow % FLOWS,
        dst_port: 443,
        payload_len: datagram.len() - udp::HEADER_LEN,
    };
    udp::emit(datagram, &repr).expect("room for a header");
    Udp::new_checked(datagram).expect("a datagram").fill_checksum(ALICE.into(), dst.into());
    bytes
}

/// A TCP super-packet from Alice to Bob that is to be cut into `pieces` packets of `size` octets, and how.
///
/// # Panics
/// If the size is too short for the headers, or all too long for an IP packet.
pub fn super_packet(size: usize, pieces: usize) -> (Vec<u8>, Gso) {
    let segment = size - ipv4::HEADER_LEN - tcp::HEADER_LEN;
    let payload_len = tcp::HEADER_LEN + segment * pieces;
    let mut bytes: Vec<u8> = (0..ipv4::HEADER_LEN + payload_len).map(|i| (i * 11) as u8).collect();
    let repr = Ipv4Repr {
        src: ALICE,
        dst: BOB,
        protocol: protocol::TCP,
        ttl: 64,
        tos: 0,
        id: 9,
        df: true,
        payload_len,
    };
    ipv4::emit(&mut bytes, &repr).expect("room for a header");
    let header = &mut bytes[ipv4::HEADER_LEN..][..tcp::HEADER_LEN];
    header.copy_from_slice(&[0x9c, 0x40, 1, 0xbb, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0x10, 0, 0, 0, 0, 0]);
    let gso = Gso {
        kind: GsoKind::Tcp,
        needs_checksum: true,
        size: segment as u16,
        checksum_start: ipv4::HEADER_LEN as u16,
        checksum_offset: 16,
    };
    (bytes, gso)
}

/// The headers in which Alice's datagrams reach Bob.
pub fn wire_header() -> OuterHeader {
    OuterHeader {
        src: ALICE.into(),
        dst: BOB.into(),
        src_port: 4500,
        dst_port: 4500,
        tos: 0,
        ttl: 64,
        may_fragment: false,
    }
}

/// What the TUN says of a packet of the application's socket.
pub fn meta() -> Meta {
    Meta { app: APP, mark: record::STAMPED | u32::from(APP.0), ..Meta::default() }
}

/// A pool like the daemon's.
pub fn pool(keep: usize) -> Pool {
    Pool::new(engine::BUF_CAPACITY, engine::HEADROOM, keep)
}
