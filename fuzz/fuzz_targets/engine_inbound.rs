//! The inbound half of the engine: a burst does what its datagrams do one by one.
//!
//! A few packets are sealed for two associations, then changed, repeated, cut, given other headers, or replaced by octets of
//! the fuzzer's. One engine takes each datagram alone, the other all of them as the kernel joins them, with other crypto
//! units. Both deliver the same packets under the same marks, count the same, and end with the same windows.
#![no_main]

#[path = "../units.rs"]
mod units;

use crypto::{Registry, Secret, SuiteId};
use engine::{Delivery, Inbound, InboundOutcome};
use libfuzzer_sys::fuzz_target;
use sadb::sa::{Limits, SaOptions};
use sadb::{Direction, Endpoints, InboundSa, Mode, OutboundSa, SaConfig, Selectors, Spi};
use std::net::IpAddr;
use units::units;
use wire::burst::MAX_DATAGRAMS;
use wire::ip::Headers;
use wire::ipv4::{self, Ipv4Repr};
use wire::stage::{Scheduled, Selected};
use wire::{Buf, Burst, Meta, OuterHeader, Packet, Pool, Time, protocol};

/// Evidence of every step, for packets that a test puts at some stage.
struct Placed;
impl<From, To> wire::Evidence<From, To> for Placed {}

const PORT: u16 = 4500;
const NOW: Time = Time::from_secs(100);

fuzz_target!(|bytes: &[u8]| {
    let Some((&[which, ports], mut rest)) = bytes.split_first_chunk() else { return };
    let setup = Setup { which, ports };
    let sender = |config| OutboundSa::new(config, units(which & 32 != 0)).expect("a sound association");
    let mut senders = setup.both().map(sender);
    let mut pool = Pool::new(4096, ipsec::HEADROOM, 4);
    let mut sent: Vec<(OuterHeader, Vec<u8>)> = Vec::new();
    while let Some((&[what, a, b], more)) = rest.split_first_chunk() {
        rest = more;
        if sent.len() >= 3 * MAX_DATAGRAMS {
            break;
        }
        let (mut header, mut datagram) = (setup.header(), Vec::new());
        match what % 8 {
            // Octets of the fuzzer's: as inner packet, or as they are.
            0 | 1 => {
                let (part, more) = rest.split_at(usize::from(a).min(rest.len()));
                rest = more;
                if what % 8 == 0 {
                    datagram.extend(part);
                } else {
                    datagram = seal(&mut senders[usize::from(b & 1)], part, &mut pool).unwrap_or_default();
                }
            }
            2 => {
                // An old one again.
                if let Some(old) = sent.len().checked_sub(1 + usize::from(a)) {
                    sent.push(sent[old].clone());
                }
                continue;
            }
            _ => {
                let inner = setup.datagram(usize::from(a) * if what & 128 == 0 { 1 } else { 5 });
                datagram = seal(&mut senders[usize::from(b & 1)], &inner, &mut pool).unwrap_or_default();
            }
        }
        match what >> 4 & 7 {
            5 if !datagram.is_empty() => {
                let at = usize::from(b) % datagram.len();
                datagram[at] ^= 1 << (b & 7);
            }
            6 => datagram.truncate(usize::from(b)),
            7 => match b & 3 {
                0 => header.tos = b,
                1 => header.src = header.dst,
                2 => header.src_port ^= 1,
                _ => header.dst_port = u16::from(b),
            },
            _ => {}
        }
        sent.push((header, datagram));
    }
    let standard = which & 64 != 0;
    let (mut one, mut many) = (setup.receiver(units(!standard)), setup.receiver(units(standard)));
    let singly = receive_singly(&mut one, &sent, &mut pool);
    let in_bursts = receive_bursts(&mut many, &sent, &mut pool);
    assert_eq!(singly, in_bursts);
    assert_eq!(state(&one), state(&many));
});

struct Setup {
    which: u8,
    ports: u8,
}

impl Setup {
    fn peers(&self) -> (IpAddr, IpAddr) {
        if self.which & 1 != 0 {
            ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(), [0x2001, 0xdb8, 0, 0, 0, 0, 0, 2].into())
        } else {
            ([192, 0, 2, 1].into(), [192, 0, 2, 2].into())
        }
    }

    fn both(&self) -> [SaConfig; 2] {
        let (local, remote) = self.peers();
        [0, 1].map(|index| {
            let suite = if self.which & 2 != 0 { SuiteId::CHACHA20_POLY1305 } else { SuiteId::AES_128_GCM };
            let packets = if index == 1 { u64::from(self.ports & 31) } else { 0 };
            let mut options = SaOptions { extended_sequence: self.which & 4 != 0, ..SaOptions::default() };
            options.lifetime.hard = Limits { packets, ..Limits::default() };
            SaConfig {
                spi: Spi(0x0102_0304 + index),
                direction: Direction::Outbound,
                mode: if self.which & 8 == 0 { Mode::Tunnel } else { Mode::Transport },
                suite,
                keymat: Secret::new((0..suite.keymat_len()).map(|i| i as u8 + index as u8).collect()),
                endpoints: Endpoints { local, remote, local_port: PORT, remote_port: PORT },
                selectors: Selectors::ANY,
                replay_window: if self.which & 16 == 0 { 64 } else { 1024 },
                path_mtu: 9000,
                options,
            }
        })
    }

    fn receiver(&self, units: &Registry) -> Inbound {
        let mut engine = Inbound::new(PORT);
        for mut config in self.both() {
            config.direction = Direction::Inbound;
            std::mem::swap(&mut config.endpoints.local, &mut config.endpoints.remote);
            engine.add_sa(InboundSa::new(config, units).expect("a sound association")).expect("two SPIs");
        }
        engine
    }

    fn header(&self) -> OuterHeader {
        let (src, dst) = self.peers();
        OuterHeader { src, dst, src_port: PORT, dst_port: PORT, tos: 0, ttl: 64, may_fragment: false }
    }

    /// A datagram between the peers with so many octets.
    fn datagram(&self, len: usize) -> Vec<u8> {
        let (src, dst) = self.peers();
        let udp_len = (len + 8) as u16;
        let mut bytes = Vec::new();
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                bytes.resize(20, 0);
                let (protocol, payload_len) = (protocol::UDP, len + 8);
                let repr = Ipv4Repr { src, dst, protocol, ttl: 64, tos: 0, id: 7, df: true, payload_len };
                ipv4::emit(&mut bytes, &repr).expect("room for a header");
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                bytes.extend([0x60, 0, 0, 0]);
                bytes.extend(udp_len.to_be_bytes());
                bytes.extend([protocol::UDP, 64]);
                bytes.extend(src.octets());
                bytes.extend(dst.octets());
            }
            _ => unreachable!("one family"),
        }
        bytes.extend([0x9c, 0x40, 0, 53]);
        bytes.extend(udp_len.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend((0..len).map(|at| at as u8));
        bytes
    }
}

/// What would follow the UDP header; nothing if it cannot be sealed.
fn seal(sa: &mut OutboundSa, inner: &[u8], pool: &mut Pool) -> Option<Vec<u8>> {
    let buf = Buf::from_slice(inner, ipsec::HEADROOM, ipsec::TAILROOM);
    let packet =
        Packet::from_host(buf, Meta::default()).advance::<Selected>(&Placed).advance::<Scheduled>(&Placed);
    let packet = ipsec::encap(sa, packet, pool).ok()?;
    let headers = Headers::parse(packet.bytes()).expect("what is sealed is a packet");
    headers.upper(packet.bytes()).get(8..).map(<[u8]>::to_vec)
}

type ReceivedPackets = Vec<(Vec<u8>, u32)>;

fn receive_singly(engine: &mut Inbound, sent: &[(OuterHeader, Vec<u8>)], pool: &mut Pool) -> ReceivedPackets {
    let mut got = Vec::new();
    for (header, datagram) in sent {
        let mut buf = Buf::from_slice(datagram, 64, 0);
        header.push(&mut buf).expect("room for headers");
        let mut out = Vec::new();
        let meta = Meta { tos: header.tos, ..Meta::default() };
        engine.handle(NOW, Packet::raw(buf, meta), pool, &mut out);
        for outcome in out {
            if let InboundOutcome::Deliver(packet, mark) = outcome {
                got.push((packet.bytes().to_vec(), mark));
            }
        }
    }
    got
}

fn receive_bursts(engine: &mut Inbound, sent: &[(OuterHeader, Vec<u8>)], pool: &mut Pool) -> ReceivedPackets {
    let mut joined: Vec<(OuterHeader, usize, Vec<u8>, usize)> = Vec::new();
    for (header, datagram) in sent {
        match joined.last_mut() {
            Some((first, stride, bytes, count))
                if first == header
                    && !datagram.is_empty()
                    && datagram.len() <= *stride
                    && *count < MAX_DATAGRAMS
                    && bytes.len() == *stride * *count =>
            {
                bytes.extend(datagram);
                *count += 1;
            }
            _ => joined.push((*header, datagram.len().max(1), datagram.clone(), 1)),
        }
    }
    let mut delivery = Delivery::new();
    for (header, stride, bytes, _) in joined {
        let burst = Burst::raw(Buf::from_slice(&bytes, 64, 0), header, stride, NOW).expect("one family");
        engine.handle_burst(NOW, burst, pool, &mut delivery);
    }
    let got: ReceivedPackets = delivery.packets().map(|(bytes, mark)| (bytes.to_vec(), mark)).collect();
    let mut in_coalesced = 0;
    delivery.coalesced(|coalesced| in_coalesced += coalesced.packets().len());
    assert_eq!(in_coalesced, got.len(), "every packet is in one coalesced packet");
    delivery.clear(pool);
    got
}

/// All that an engine knows, as text.
fn state(engine: &Inbound) -> String {
    let tally = engine.stats();
    let mut sas: Vec<_> = engine
        .sad()
        .list()
        .map(|sa| (sa.spi(), sa.counters.clone(), sa.replay.export(), sa.life.state()))
        .collect();
    sas.sort_by_key(|(spi, ..)| *spi);
    format!("{:?} {:?} {sas:?}", tally.protected, tally.drops().collect::<Vec<_>>())
}
