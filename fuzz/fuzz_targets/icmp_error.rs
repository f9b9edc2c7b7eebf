//! ICMP errors from anybody, to an engine that has just sent a packet under each of three associations.
//!
//! The first octet picks: the rest is a whole packet as it is, or what an error quotes, of a type, code and MTU from the next
//! octets. Nothing may panic, no path MTU may leave its bounds, and none may change unless the octets hold the SPI.
#![no_main]

#[path = "../units.rs"]
mod units;

use crypto::{Secret, SuiteId};
use engine::Outbound;
use libfuzzer_sys::fuzz_target;
use sadb::sa::{Encapsulation, SaOptions};
use sadb::spd::Spd;
use sadb::{Direction, Endpoints, Mode, OutboundSa, SaConfig, Selectors, Spi};
use std::net::IpAddr;
use std::sync::Arc;
use wire::ip::Headers;
use wire::{Buf, DropReason, Meta, Packet, Pool, Time, checksum, protocol};

const SPI: [u8; 4] = [1, 2, 3, 4];

fn ends(v6: bool) -> (IpAddr, IpAddr) {
    if v6 {
        ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(), [0x2001, 0xdb8, 0, 0, 0, 0, 0, 2].into())
    } else {
        ([192, 0, 2, 1].into(), [192, 0, 2, 2].into())
    }
}

fn association(v6: bool, encapsulation: Encapsulation, last: u32) -> OutboundSa {
    let (local, remote) = ends(v6);
    let suite = SuiteId::CHACHA20_POLY1305;
    let config = SaConfig {
        spi: Spi(u32::from_be_bytes(SPI) + last),
        direction: Direction::Outbound,
        mode: Mode::Tunnel,
        suite,
        keymat: Secret::new(vec![last as u8; suite.keymat_len()]),
        endpoints: Endpoints { local, remote, local_port: 4500, remote_port: 4500 },
        selectors: Selectors::ANY,
        replay_window: 64,
        path_mtu: 1500,
        options: SaOptions { encapsulation, ..SaOptions::default() },
    };
    let mut sa = OutboundSa::new(config, &units::PRODUCT).expect("a sound association");
    for _ in 0..9 {
        sa.next_packet(Time(1), 0).expect("a number");
    }
    sa
}

/// The error around what it quotes, with its checksum right.
fn around(v6: bool, kind: u8, code: u8, mtu: u16, quoted: &[u8]) -> Vec<u8> {
    let message = [&[kind, code, 0, 0, 0, 0][..], &mtu.to_be_bytes(), quoted].concat();
    let (victim, router) = ends(v6);
    let mut bytes = vec![0; if v6 { 40 } else { 20 }];
    let payload_len = message.len();
    match (router, victim) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let repr = wire::ipv4::Ipv4Repr {
                src,
                dst,
                protocol: protocol::ICMP,
                ttl: 9,
                tos: 0,
                id: 0,
                df: false,
                payload_len,
            };
            wire::ipv4::emit(&mut bytes, &repr).expect("a header");
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let repr = wire::ipv6::Ipv6Repr {
                src,
                dst,
                next_header: protocol::ICMPV6,
                hop_limit: 9,
                traffic_class: 0,
                flow_label: 0,
                payload_len,
            };
            wire::ipv6::emit(&mut bytes, &repr).expect("a header");
        }
        _ => unreachable!("one family"),
    }
    bytes.extend(message);
    let headers = Headers::parse(&bytes).expect("a whole packet");
    checksum::complete_transport(&mut bytes, &headers).expect("a checksum");
    bytes
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&[what, kind, code, high, low], rest)) = bytes.split_first_chunk() else { return };
    let mut engine = Outbound::new(Arc::new(Spd::new(1)), 7);
    for (at, (v6, encapsulation)) in
        [(false, Encapsulation::Udp), (false, Encapsulation::None), (true, Encapsulation::Udp)]
            .into_iter()
            .enumerate()
    {
        engine.add_sa(association(v6, encapsulation, at as u32)).expect("three associations");
    }
    let rest = &rest[..rest.len().min(2000)];
    let packet = match what & 3 {
        0 => rest.to_vec(),
        1 | 2 => around(what & 3 == 2, kind, code, u16::from_be_bytes([high, low]), rest),
        _ => return,
    };
    let mut pool = Pool::new(4096, 128, 4);
    let raw = Packet::raw(Buf::from_slice(&packet, 0, 0), Meta::default());
    let heard = engine.hear_icmp(Time::from_secs(9), raw, &mut pool);
    let named = packet.windows(3).any(|octets| octets == &SPI[..3]);
    assert!(heard != Some(DropReason::IcmpTaken) || named, "taken without the SPI");
    for (_, sa) in engine.sad().list() {
        let (mtu, v6) = (sa.config().path_mtu, sa.config().endpoints.remote.is_ipv6());
        assert!((if v6 { 1280 } else { 576 }..=1500).contains(&mtu), "{mtu}");
        assert!(mtu == 1500 || heard == Some(DropReason::IcmpTaken));
        assert!(ipsec::inner_mtu(sa.config()) > 400);
    }
});
