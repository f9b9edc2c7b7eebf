//! What the components of a graph see of a packet: numbers, and never its octets (paper 002 section III.B).

use std::net::IpAddr;

use qos::{Amount, Colour, Direction, HeaderKind, UnitMask, Weight};
use sadb::{CacheKey, FlowKey};
use wire::ip::Headers;
use wire::{AppId, Flow, GsoKind, protocol, record, segment};

use crate::random::Random;

/// The keyed hash by which flows and users are told apart. Whoever does not know the key cannot choose flows that
/// collide.
pub(crate) struct FlowHash {
    keys: [u64; 4],
}

impl FlowHash {
    /// The hash of this secret seed.
    pub(crate) fn new(seed: u64) -> FlowHash {
        let mut random = Random::new(seed);
        FlowHash { keys: std::array::from_fn(|_| random.next() | 1) }
    }

    /// The source of a packet that is protected, as an address on the way.
    pub(crate) fn source(&self, source: IpAddr) -> u32 {
        self.ends((source, source), 0, 2)
    }

    /// A far end, as the same number in both directions; never 0.
    pub(crate) fn peer(&self, address: IpAddr) -> u32 {
        self.source(address).max(1)
    }

    /// The packets of an association from one address to another, which show no flow but this one.
    pub(crate) fn association(&self, ends: (IpAddr, IpAddr), spi: u32) -> u32 {
        self.ends(ends, spi, 3)
    }

    fn ends(&self, (source, destination): (IpAddr, IpAddr), spi: u32, tag: u8) -> u32 {
        let flow = Flow {
            local: destination,
            remote: source,
            local_port: (spi >> 16) as u16,
            remote_port: spi as u16,
            protocol: 0,
            opaque: false,
        };
        FlowKey::new(AppId::NONE, &flow, tag).hash(&self.keys) as u32
    }

    fn flow(&self, flow: &Flow) -> u32 {
        FlowKey::new(AppId::NONE, flow, 0).hash(&self.keys) as u32
    }

    /// The user of a packet: the address inside of the network that protection is for.
    fn user(&self, flow: &Flow) -> u32 {
        let alone = Flow { remote: flow.local, remote_port: 0, local_port: 0, protocol: 0, ..*flow };
        FlowKey::new(AppId::NONE, &alone, 1).hash(&self.keys) as u32
    }
}

/// The number of packets that a packet counts as: a super-packet as its segments, of at most `longest` octets each.
pub(crate) fn pieces_of(bytes: &[u8], headers: &Headers, meta: &wire::Meta, longest: usize) -> u64 {
    match meta.gso.kind {
        GsoKind::None => 1,
        GsoKind::Tcp | GsoKind::Udp => segment::segments(bytes, headers, &meta.gso, longest)
            .map_or(1, |pieces| pieces.remaining() as u64),
    }
}

/// The facts of a packet in clear text whose association is not known yet. Its cost is that of the caller.
#[inline]
pub(crate) fn describe(
    meta: &wire::Meta,
    headers: &Headers,
    flow: &Flow,
    direction: Direction,
    amount: Amount,
    hash: &FlowHash,
) -> qos::Meta {
    // The mark of a stamped packet is the stamp, not the host's own.
    let own = meta.mark & (record::STAMPED | record::PROOF | record::FORWARDED) != 0;
    qos::Meta {
        arrived: meta.received,
        amount,
        association: 0,
        spi: 0,
        mark: if own { 0 } else { meta.mark },
        user: hash.user(flow),
        flow: hash.flow(flow),
        peer_hash: 0,
        key: 0,
        app: meta.app,
        suite: 0,
        peer: 0,
        source: 0,
        destination: 0,
        ports: match protocol::has_ports(flow.protocol) && !flow.opaque {
            true => [flow.local_port, flow.remote_port],
            false => [0, 0],
        },
        weight: Weight::ONE,
        units: UnitMask(0),
        aggregate: meta.aggregate,
        colour: Colour::Green,
        dscp: [0, headers.tos >> 2],
        is_marked: false,
        ecn: headers.tos & 3,
        header: HeaderKind::Clear,
        direction,
        index: 0,
        protocol: flow.protocol,
    }
}
