//! Alice's outbound half and Bob's inbound half, with nothing but memory between them.
#![allow(dead_code, unused_imports, missing_docs, reason = "each test binary uses its part")]

#[path = "../../../../ipsec/tests/suite/support/mod.rs"]
mod peers;
pub use peers::*;

use engine::{Dropped, Inbound, InboundOutcome, Outbound, Outcome};
use sadb::spd::{AppPolicy, Class, Item, Level, Network, PortRange, RuleId, Spd};
use sadb::{InboundSa, OutboundSa, SaConfig};
use std::net::IpAddr;
use std::sync::Arc;
use wire::ip::Headers;
use wire::tcp::Flags;
use wire::{
    AppId, Buf, DropReason, Gso, GsoKind, Meta, Packet, Pool, Prefix, Services, Time, checksum, protocol,
    record, stage,
};

/// The application of most packets here.
pub const APP: AppId = AppId(7);
pub const PORT: u16 = 4500;
pub const NOW: Time = Time::from_secs(100);

/// A policy of one application, one network that holds everything, and one item.
pub fn policy(app: AppId, services: Services, level: Level) -> Spd {
    let item = Item::new(PortRange::ANY, PortRange::ANY, services, level, RuleId(2));
    let network = Network { prefix: Prefix::ANY, class: Class::Protected(0), rule: RuleId(1) };
    let mut spd = Spd::new(1);
    spd.insert(app, AppPolicy::new(vec![network], vec![vec![item]]));
    spd
}

pub fn mandatory() -> Spd {
    policy(APP, Services::ENCRYPTED, Level::Mandatory)
}

/// A packet from a stamped socket of `app`.
pub fn stamped(app: AppId, bytes: &[u8]) -> Packet<stage::Inner> {
    let mut packet = from_host(bytes);
    packet.meta.app = app;
    packet.meta.mark = record::STAMPED | u32::from(app.0);
    packet
}

/// An answer of the kernel's to a packet that came with this mark.
pub fn reflected(mark: u32, bytes: &[u8]) -> Packet<stage::Inner> {
    let mut packet = from_host(bytes);
    packet.meta.mark = mark;
    packet
}

/// A TCP packet; its checksum is complete, or the pseudo-header's sum only.
pub fn tcp_packet(
    src: (IpAddr, u16),
    dst: (IpAddr, u16),
    seq: u32,
    flags: Flags,
    df: bool,
    payload: &[u8],
) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend(src.1.to_be_bytes());
    segment.extend(dst.1.to_be_bytes());
    segment.extend(seq.to_be_bytes());
    segment.extend(77u32.to_be_bytes());
    segment.extend((5 << 12 | flags.0).to_be_bytes());
    segment.extend(4096u16.to_be_bytes());
    segment.extend([0; 4]);
    segment.extend(payload);
    let mut bytes = ip_packet(src.0, dst.0, protocol::TCP, 0, df, &segment);
    let headers = Headers::parse(&bytes).unwrap();
    checksum::complete_transport(&mut bytes, &headers).unwrap();
    bytes
}

/// Leave the transport checksum as the kernel does with offload: the pseudo-header's sum.
pub fn half_checksum(packet: &mut [u8], offset: usize) -> Gso {
    let headers = Headers::parse(packet).unwrap();
    let len = headers.total_len - headers.header_len;
    let pseudo = checksum::fold(checksum::pseudo(headers.src, headers.dst, headers.protocol, len));
    packet[headers.header_len + offset..][..2].copy_from_slice(&pseudo.to_be_bytes());
    Gso {
        kind: GsoKind::None,
        needs_checksum: true,
        size: 0,
        checksum_start: headers.header_len as u16,
        checksum_offset: offset as u16,
    }
}

/// A piece of Alice's stream as TSO hands it over.
pub fn tcp_super(v6: bool, seq: u32, size: u16, len: usize) -> (Packet<stage::Inner>, Vec<u8>) {
    let (alice, bob) = hosts(v6);
    let payload: Vec<u8> = (0..len).map(|i| (i * 31 + seq as usize) as u8).collect();
    let flags = Flags(Flags::ACK.0 | Flags::PSH.0 | Flags::FIN.0 | Flags::CWR.0);
    let mut bytes = tcp_packet((alice, 40000), (bob, 443), seq, flags, true, &payload);
    let gso = half_checksum(&mut bytes, 16);
    let mut packet = stamped(APP, &bytes);
    packet.meta.gso = Gso { kind: GsoKind::Tcp, size, ..gso };
    (packet, payload)
}

/// The outbound half of one end, with its pool, as a thread of the daemon would hold it.
pub struct Sender {
    pub engine: Outbound,
    pub pool: Pool,
}

pub struct Receiver {
    pub engine: Inbound,
    pub pool: Pool,
}

impl Sender {
    /// Send a datagram of Alice's that forbids fragmentation, and return it as it leaves.
    pub fn out(&mut self, v6: bool, len: usize) -> Vec<u8> {
        let bytes = alice_to_bob(v6, 0, len);
        self.send(stamped(APP, &bytes))[0].bytes().to_vec()
    }

    pub fn new(spd: Spd, configs: &[SaConfig]) -> Sender {
        let registry = registry();
        let mut engine = Outbound::new(Arc::new(spd), 0x5eed);
        for config in configs {
            engine.add_sa(OutboundSa::new(config.clone(), registry).unwrap()).unwrap();
        }
        Sender { engine, pool: pool() }
    }

    pub fn handle(&mut self, packet: Packet<stage::Inner>) -> Vec<Outcome> {
        self.handle_at(NOW, packet)
    }

    pub fn handle_at(&mut self, now: Time, packet: Packet<stage::Inner>) -> Vec<Outcome> {
        let mut out = Vec::new();
        self.engine.handle(now, packet, &mut self.pool, &mut out);
        assert!(!out.is_empty(), "every packet has an outcome");
        out
    }

    /// Send a packet, and return what goes on the wire under protection. Any other outcome is a failure.
    pub fn send(&mut self, packet: Packet<stage::Inner>) -> Vec<Packet<stage::Outer>> {
        self.handle(packet)
            .into_iter()
            .map(|outcome| match outcome {
                Outcome::Send(packet) => packet,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    /// Send a packet that must be dropped, and return the drop.
    pub fn refuse(&mut self, packet: Packet<stage::Inner>) -> Dropped {
        match self.handle(packet).as_slice() {
            [Outcome::Drop(dropped)] => *dropped,
            other => panic!("{other:?}"),
        }
    }
}

#[expect(clippy::result_large_err, reason = "few packets, and each test looks into what is told of them")]
impl Receiver {
    /// A receiver with the mirror images of a sender's associations.
    pub fn new(configs: &[SaConfig]) -> Receiver {
        let registry = registry();
        let mut engine = Inbound::new(PORT);
        for config in configs {
            engine.add_sa(InboundSa::new(mirror(config), registry).unwrap()).unwrap();
        }
        Receiver { engine, pool: pool() }
    }

    pub fn handle(&mut self, bytes: &[u8]) -> Result<(Packet<stage::Admitted>, u32), Dropped> {
        self.handle_at(NOW, bytes)
    }

    pub fn handle_at(&mut self, now: Time, bytes: &[u8]) -> Result<(Packet<stage::Admitted>, u32), Dropped> {
        let mut out = Vec::new();
        self.engine.handle(now, raw(bytes), &mut self.pool, &mut out);
        assert_eq!(out.len(), 1, "{out:?}");
        match out.remove(0) {
            InboundOutcome::Deliver(packet, mark) => Ok((packet, mark)),
            InboundOutcome::Drop(dropped) => Err(dropped),
        }
    }

    pub fn refuse(&mut self, bytes: &[u8]) -> DropReason {
        self.handle(bytes).unwrap_err().reason
    }
}

/// Cut an IP packet into fragments of at most `room` octets of payload (a multiple of 8).
pub fn fragment(packet: &[u8], id: u32, room: usize) -> Vec<Vec<u8>> {
    let headers = Headers::parse(packet).unwrap();
    let v6 = headers.version == 6;
    let header = if v6 { 40 } else { headers.header_len };
    let payload = &packet[header..headers.total_len];
    let count = payload.len().div_ceil(room);
    payload
        .chunks(room)
        .enumerate()
        .map(|(index, chunk)| {
            let more = index + 1 < count;
            let mut piece = packet[..header].to_vec();
            if v6 {
                let next = std::mem::replace(&mut piece[6], 44);
                let field = (index * room) as u16 | u16::from(more);
                piece.extend([next, 0]);
                piece.extend(field.to_be_bytes());
                piece.extend(id.to_be_bytes());
                piece[4..6].copy_from_slice(&(8 + chunk.len() as u16).to_be_bytes());
            } else {
                let field = (index * room / 8) as u16 | u16::from(more) << 13;
                piece[2..4].copy_from_slice(&((header + chunk.len()) as u16).to_be_bytes());
                piece[4..6].copy_from_slice(&(id as u16).to_be_bytes());
                piece[6..8].copy_from_slice(&field.to_be_bytes());
            }
            piece.extend(chunk);
            if !v6 {
                wire::ipv4::Ipv4::new_checked(&mut piece[..]).unwrap().fill_checksum();
            }
            piece
        })
        .collect()
}
