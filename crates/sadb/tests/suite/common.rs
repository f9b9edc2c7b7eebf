//! A registry that ciphers nothing, and configurations to change one field of.
#![allow(dead_code, reason = "every test file is a crate of its own and uses a part of this")]

use std::net::IpAddr;

use crypto::{
    Authenticator, CryptoError, Integrity, OpenOp, Provider, Registry, SealOp, Secret, SuiteId, Transform,
    UnitFailed,
};
use proptest::prelude::*;
use sadb::sa::SaOptions;
use sadb::spd::PortRange;
use sadb::{Direction, Endpoints, InboundSa, Mode, OutboundSa, SaConfig, Selectors, Spi};
use wire::{AppId, Flow, Prefix};

struct Nothing;

impl Transform for Nothing {
    fn seal_batch(&self, _: &mut [SealOp<'_>]) -> Result<(), UnitFailed> {
        Ok(())
    }
    fn open_batch(&self, ops: &mut [OpenOp<'_>]) -> Result<(), UnitFailed> {
        ops.iter_mut().for_each(|op| op.ok = false);
        Ok(())
    }
}

impl Provider for Nothing {
    fn name(&self) -> &'static str {
        "nothing"
    }
    fn offers(&self, _: SuiteId) -> bool {
        true
    }
    fn transform(&self, suite: SuiteId, keymat: &Secret, _: bool) -> Result<Box<dyn Transform>, CryptoError> {
        assert_eq!(keymat.len(), suite.keymat_len());
        Ok(Box::new(Nothing))
    }
    fn authenticator(
        &self,
        integrity: Integrity,
        keymat: &Secret,
    ) -> Result<Box<dyn Authenticator>, CryptoError> {
        assert_eq!(keymat.len(), integrity.keymat_len());
        Ok(Box::new(Nothing))
    }
}

impl Authenticator for Nothing {
    fn len(&self) -> usize {
        12
    }
    fn sign(&self, _: u64, _: &[&[u8]], _: &mut [u8]) {}
    fn verify(&self, _: &[&[u8]], _: &[u8]) -> bool {
        false
    }
}

pub fn registry() -> Registry {
    Registry::new().with(Nothing)
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The prefix that a text names, like `"192.0.2.0/24"` or `"any"`.
pub fn prefix(text: &str) -> Prefix {
    if text == "any" {
        return Prefix::ANY;
    }
    let (addr, len) = text.split_once('/').unwrap();
    Prefix::new(ip(addr), len.parse().unwrap()).unwrap()
}

/// A tunnel for everything, with a key made of the SPI.
pub fn config(direction: Direction, spi: u32) -> SaConfig {
    let suite = SuiteId::AES_128_GCM;
    let keymat = (0..suite.keymat_len()).map(|i| spi.to_be_bytes()[i % 4] ^ i as u8).collect();
    SaConfig {
        spi: Spi(spi),
        direction,
        mode: Mode::Tunnel,
        suite,
        keymat: Secret::new(keymat),
        endpoints: Endpoints {
            local: ip("198.51.100.1"),
            remote: ip("203.0.113.1"),
            local_port: 4500,
            remote_port: 4500,
        },
        selectors: Selectors::ANY,
        replay_window: 1024,
        path_mtu: 1500,
        options: SaOptions::default(),
    }
}

pub fn inbound(spi: u32) -> InboundSa {
    InboundSa::new(config(Direction::Inbound, spi), &registry()).unwrap()
}

pub fn outbound(config: SaConfig) -> OutboundSa {
    OutboundSa::new(config, &registry()).unwrap()
}

pub fn flow(local: &str, remote: &str, protocol: u8, local_port: u16, remote_port: u16) -> Flow {
    Flow { opaque: false, local: ip(local), remote: ip(remote), local_port, remote_port, protocol }
}

/// Addresses close enough together that prefixes and flows meet.
pub fn near_addr() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        4 => (0u8..16).prop_map(|n| IpAddr::from([10, 0, n / 4, n % 4])),
        1 => (0u16..4).prop_map(|n| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, n / 2, n % 2])),
    ]
}

pub fn near_prefix() -> impl Strategy<Value = Prefix> {
    let around = |addr: IpAddr, cut: u8| {
        let longest = if addr.is_ipv4() { 32 } else { 128 };
        Prefix::new(addr, longest - cut).unwrap()
    };
    prop_oneof![
        1 => Just(Prefix::ANY),
        8 => (near_addr(), prop::sample::select(vec![0u8, 1, 2, 3, 4, 8, 16, 32])).prop_map(move |(a, c)| around(a, c)),
    ]
}

pub fn near_ports() -> impl Strategy<Value = PortRange> {
    prop_oneof![
        2 => Just(PortRange::ANY),
        1 => (0u16..4, 0u16..4).prop_map(|(a, b)| PortRange { first: a.min(b), last: a.max(b) }),
    ]
}

pub fn near_flow() -> impl Strategy<Value = Flow> {
    (near_addr(), near_addr(), 0u16..4, 0u16..4, prop::sample::select(vec![6u8, 17])).prop_map(
        |(local, remote, local_port, remote_port, protocol)| Flow {
            opaque: false,
            local,
            remote,
            local_port,
            remote_port,
            protocol,
        },
    )
}

pub fn near_selectors() -> impl Strategy<Value = Selectors> {
    let protocol = prop::option::of(prop::sample::select(vec![6u8, 17]));
    let app = prop::option::of((1u16..3).prop_map(AppId));
    (near_prefix(), near_prefix(), protocol, app, near_ports(), near_ports()).prop_map(
        |(local, remote, protocol, app, local_ports, remote_ports)| {
            // An association is of one family.
            let is_v4 = |prefix: Prefix| wire::addr::from_bits(prefix.first()).is_ipv4();
            let mixed = !remote.is_empty() && is_v4(local) != is_v4(remote);
            let local = if mixed { Prefix::ANY } else { local };
            Selectors { local, remote, protocol, app, local_ports, remote_ports }
        },
    )
}
