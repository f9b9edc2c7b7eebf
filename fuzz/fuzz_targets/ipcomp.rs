//! IPComp with fixed associations, and the other members of bundles that have no key.
//!
//! The first octet picks protocol, mode and family, the second what is done with the rest: taken as a nested packet as it is, or
//! as an inner packet that goes out and comes back. What comes back is what went in, and nothing is longer than a packet.
#![no_main]

use crypto::{Integrity, Registry, Secret, SuiteId};
use ipsec::{Codec, Outer};
use libfuzzer_sys::fuzz_target;
use sadb::sa::{Encapsulation, SaOptions, SaProtocol};
use sadb::{Direction, Endpoints, InboundSa, Mode, OutboundSa, SaConfig, Selectors, Spi};
use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::LazyLock;
use wire::ip::Headers;
use wire::stage::{self, Scheduled};
use wire::{Buf, DropReason, Meta, Packet, Pool, protocol};

/// Evidence of every step, for packets that a test puts at some stage.
struct Placed;
impl<From, To> wire::Evidence<From, To> for Placed {}

static REGISTRY: LazyLock<Registry> = LazyLock::new(Registry::new);

thread_local! {
    /// Used again from input to input, as a daemon does.
    static CODEC: RefCell<Codec> = RefCell::new(Codec::default());
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&[which, what], rest)) = bytes.split_first_chunk() else { return };
    let mut inbound =
        InboundSa::new(config(Direction::Inbound, which), &REGISTRY).expect("a sound association");
    let mut pool = Pool::new(70_000, 128, 4);
    if what & 1 == 0 {
        if let Ok(opened) = open(&mut inbound, rest, &mut pool) {
            assert!(opened.len() <= 65_575);
        }
        return;
    }
    let mut outbound =
        OutboundSa::new(config(Direction::Outbound, which), &REGISTRY).expect("a sound association");
    let inner = &rest[..rest.len().min(9000)];
    let Some(sent) = send(&mut outbound, inner, &mut pool) else { return };
    assert!(sent.len() <= inner.len() + ipsec::overhead(outbound.config()));
    let headers = Headers::parse(&sent).expect("what is sent is a packet");
    let wrapped = matches!(headers.protocol, protocol::IPCOMP | protocol::IPV4 | protocol::IPV6);
    if sent == inner || !wrapped {
        return;
    }
    // Sending looks at less than opening; what opening refuses must be the inner packet's own fault.
    match open(&mut inbound, &sent, &mut pool) {
        Ok(opened) if inbound.config().mode == Mode::Tunnel => assert_eq!(opened, inner),
        Ok(opened) => assert_eq!(opened.len(), inner.len()),
        Err(reason) => assert!(!matches!(reason, DropReason::IpCompCorrupt | DropReason::IpCompTooShort)),
    }
});

fn config(direction: Direction, which: u8) -> SaConfig {
    let (a, b): (IpAddr, IpAddr) = if which & 2 != 0 {
        ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(), [0x2001, 0xdb8, 0, 0, 0, 0, 0, 2].into())
    } else {
        ([192, 0, 2, 1].into(), [192, 0, 2, 2].into())
    };
    let (local, remote) = if direction == Direction::Outbound { (a, b) } else { (b, a) };
    let ipip = which & 4 != 0;
    SaConfig {
        spi: Spi(0x3000),
        direction,
        mode: if which & 1 == 0 || ipip { Mode::Tunnel } else { Mode::Transport },
        suite: SuiteId::authenticating(Integrity::HmacSha256).expect("a suite"),
        keymat: Secret::new(Vec::new()),
        endpoints: Endpoints { local, remote, local_port: 0, remote_port: 0 },
        selectors: Selectors::ANY,
        replay_window: 64,
        path_mtu: 1500,
        options: SaOptions {
            protocol: if ipip { SaProtocol::IpIp } else { SaProtocol::IpComp },
            encapsulation: Encapsulation::None,
            ..SaOptions::default()
        },
    }
}

fn send(sa: &mut OutboundSa, inner: &[u8], pool: &mut Pool) -> Option<Vec<u8>> {
    let buf = Buf::from_slice(inner, 128, 128);
    let packet = Packet::from_host(buf, Meta::default())
        .advance::<stage::Selected>(&Placed)
        .advance::<Scheduled>(&Placed);
    let sent = CODEC.with_borrow_mut(|codec| ipsec::encap_member(sa, packet, 1500, codec, pool));
    sent.ok().map(|packet| packet.bytes().to_vec())
}

fn open(sa: &mut InboundSa, bytes: &[u8], pool: &mut Pool) -> Result<Vec<u8>, DropReason> {
    let headers = Headers::parse(bytes).map_err(DropReason::from)?;
    let bytes = &bytes[..headers.total_len];
    let outer = Outer::nested(bytes, &headers)?;
    let packet = Packet::raw(Buf::from_slice(bytes, 128, 65_536), Meta::default());
    let packet = packet
        .advance::<stage::Clean>(&Placed)
        .advance::<stage::Classed>(&Placed)
        .advance::<Scheduled>(&Placed);
    match CODEC.with_borrow_mut(|codec| ipsec::decap_member(sa, packet, &outer, codec, pool)) {
        Ok(packet) => Ok(packet.bytes().to_vec()),
        Err(reason) => Err(reason),
    }
}
