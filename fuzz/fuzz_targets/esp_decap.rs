//! ESP decapsulation with fixed associations.
//!
//! The first octet picks the association and the crypto units of both ends, the second what is done with the rest: taken as an outer
//! packet as it is, or as an inner packet that is sealed, changed, and opened. Nothing but an unchanged packet may come through,
//! once, and it must come through as it went in.
#![no_main]

#[path = "../units.rs"]
mod units;

use crypto::{Secret, SuiteId};
use ipsec::Outer;
use libfuzzer_sys::fuzz_target;
use sadb::{Direction, Endpoints, InboundSa, Mode, OutboundSa, SaConfig, Selectors, Spi};
use std::net::IpAddr;
use units::units;
use wire::ip::Headers;
use wire::stage::{self, Scheduled};
use wire::{Buf, DropReason, Meta, Packet, Pool, checksum};

/// Evidence of every step, for packets that a test puts at some stage.
struct Placed;
impl<From, To> wire::Evidence<From, To> for Placed {}

const SUITES: [SuiteId; 3] = [SuiteId::AES_128_GCM, SuiteId::AES_256_GCM, SuiteId::CHACHA20_POLY1305];
const PORT: u16 = 4500;

fuzz_target!(|bytes: &[u8]| {
    let Some((&[which, what], rest)) = bytes.split_first_chunk() else { return };
    let mode = if which & 1 == 0 { Mode::Tunnel } else { Mode::Transport };
    let suite = SUITES[usize::from(which >> 1) % SUITES.len()];
    let v6 = which & 64 != 0;
    let mut inbound = InboundSa::new(config(Direction::Inbound, mode, suite, v6), units(which & 128 != 0))
        .expect("a sound association");
    let mut pool = Pool::new(4096, ipsec::HEADROOM, 4);
    if what & 1 == 0 {
        foreign(&mut inbound, rest, &mut pool);
    } else {
        let mut outbound =
            OutboundSa::new(config(Direction::Outbound, mode, suite, v6), units(which & 32 != 0))
                .expect("a sound association");
        own(&mut outbound, &mut inbound, rest, &mut pool);
    }
});

/// Both ends are one host, whose two addresses trade places with the direction.
fn config(direction: Direction, mode: Mode, suite: SuiteId, v6: bool) -> SaConfig {
    let (a, b): (IpAddr, IpAddr) = if v6 {
        ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(), [0x2001, 0xdb8, 0, 0, 0, 0, 0, 2].into())
    } else {
        ([192, 0, 2, 1].into(), [192, 0, 2, 2].into())
    };
    let (local, remote) = if direction == Direction::Outbound { (a, b) } else { (b, a) };
    SaConfig {
        spi: Spi(0x0102_0304),
        direction,
        mode,
        suite,
        keymat: Secret::new((0..suite.keymat_len()).map(|i| i as u8).collect()),
        endpoints: Endpoints { local, remote, local_port: PORT, remote_port: PORT },
        selectors: Selectors::ANY,
        replay_window: 64,
        path_mtu: 1500,
        options: sadb::sa::SaOptions::default(),
    }
}

fn foreign(sa: &mut InboundSa, bytes: &[u8], pool: &mut Pool) {
    if open(sa, bytes, pool).is_ok() {
        // A fuzzer that forges a tag of 128 bits has found more than a bug here.
        panic!("a packet without the key was opened");
    }
}

fn own(outbound: &mut OutboundSa, inbound: &mut InboundSa, bytes: &[u8], pool: &mut Pool) {
    let Some((&[at, mask, cut], inner)) = bytes.split_first_chunk() else { return };
    let inner = &inner[..inner.len().min(9000)];
    let Some(sealed) = seal(outbound, inner, pool) else { return };

    let mut changed = sealed.clone();
    let headers = Headers::parse(&sealed).expect("what is sealed is a packet");
    let protected = headers.header_len + wire::udp::HEADER_LEN;
    let place = protected + usize::from(at) % (sealed.len() - protected);
    changed[place] ^= mask;
    let told = open(inbound, &changed, pool);
    if mask != 0 {
        // A changed SPI is the lookup's to refuse; here it only breaks the integrity check.
        assert!(matches!(
            told,
            Err(DropReason::AuthFailed
                | DropReason::SequenceZero
                | DropReason::IkeUnsupported
                | DropReason::NotEsp
                | DropReason::ReplayTooOld)
        ));
    }
    let shorter = &sealed[..sealed.len() - 1 - usize::from(cut) % (sealed.len() - 1)];
    assert!(open(inbound, shorter, pool).is_err(), "a truncated packet is no packet");

    let opened = if mask == 0 { told } else { open(inbound, &sealed, pool) };
    match opened {
        Ok(opened) if outbound.config().mode == Mode::Tunnel => assert_eq!(opened, inner),
        Ok(opened) => assert_is_same_or_repaired(&opened, inner),
        // Sealing looks at less than opening; what opening refuses must be the inner packet's own fault.
        Err(reason) => assert_ne!(reason, DropReason::AuthFailed),
    }
    let again = open(inbound, &sealed, pool);
    assert_eq!(again, Err(DropReason::Replayed), "a packet is opened once");
}

/// In transport mode nothing differs, but for a transport checksum that was wrong and is right now: it could be a NAT's work.
fn assert_is_same_or_repaired(opened: &[u8], inner: &[u8]) {
    if upper(opened) == upper(inner) {
        return;
    }
    let is_right =
        |packet: &[u8]| checksum::verify_transport(packet, &Headers::parse(packet).expect("a packet"));
    assert_eq!((is_right(inner), is_right(opened)), (Some(false), Some(true)));
    let differ = upper(opened).iter().zip(upper(inner)).filter(|(one, other)| one != other).count();
    assert!(differ <= 2 && upper(opened).len() == upper(inner).len());
}

fn upper(packet: &[u8]) -> &[u8] {
    let start = if packet.first().is_some_and(|first| first >> 4 == 4) { 20 } else { 40 };
    packet.get(start..).unwrap_or(&[])
}

/// Seal a packet of the host; `None` if the association does not take it.
fn seal(sa: &mut OutboundSa, inner: &[u8], pool: &mut Pool) -> Option<Vec<u8>> {
    let buf = Buf::from_slice(inner, ipsec::HEADROOM, ipsec::TAILROOM);
    let packet = Packet::from_host(buf, Meta::default())
        .advance::<stage::Selected>(&Placed)
        .advance::<Scheduled>(&Placed);
    ipsec::encap(sa, packet, pool).ok().map(|packet| packet.bytes().to_vec())
}

/// Open a packet from the wire.
fn open(sa: &mut InboundSa, bytes: &[u8], pool: &mut Pool) -> Result<Vec<u8>, DropReason> {
    let headers = Headers::parse(bytes).map_err(DropReason::from)?;
    let outer = Outer::find(bytes, &headers, PORT)?;
    let packet = Packet::raw(Buf::from_slice(bytes, 0, 0), Meta::default());
    let packet = packet
        .advance::<stage::Clean>(&Placed)
        .advance::<stage::Classed>(&Placed)
        .advance::<Scheduled>(&Placed);
    match ipsec::decap(sa, packet, &outer, pool) {
        Ok(packet) => Ok(packet.bytes().to_vec()),
        Err(reason) => Err(reason),
    }
}
