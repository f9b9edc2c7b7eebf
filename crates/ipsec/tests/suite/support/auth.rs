//! Associations of every protocol and suite.
#![allow(dead_code, missing_docs, reason = "each test binary uses its part")]

use crate::support::*;
use crypto::{Integrity, Secret, SuiteId};
use ipsec::{Codec, Outer};
use sadb::sa::{Encapsulation, SaProtocol};
use sadb::{InboundSa, Mode, OutboundSa, SaConfig, Spi};
use wire::ip::Headers;
use wire::{DropReason, Packet, protocol, stage};

/// Every suite of ESP that somebody here implements.
pub fn esp_suites() -> Vec<SuiteId> {
    let registry = registry();
    SuiteId::all().filter(|suite| !suite.is_legacy() && registry.provider(*suite).is_some()).collect()
}

/// Every suite of AH that somebody here implements.
pub fn ah_suites() -> Vec<SuiteId> {
    let registry = registry();
    let all = Integrity::ALL.iter().filter_map(|integrity| SuiteId::authenticating(*integrity));
    all.filter(|suite| {
        let keymat = Secret::new(vec![7; suite.integrity().keymat_len()]);
        registry.authenticator(suite.integrity(), &keymat).is_ok()
    })
    .collect()
}

/// Alice's outbound association of any protocol, bare.
pub fn bare_config(protocol: SaProtocol, mode: Mode, suite: SuiteId, v6: bool) -> SaConfig {
    let mut config = outbound_config(mode, suite, v6);
    config.options.protocol = protocol;
    config.options.encapsulation = Encapsulation::None;
    if protocol == SaProtocol::IpComp {
        config.spi = Spi(0x3000);
    }
    let len = config.keymat_len();
    config.keymat = Secret::new((0..len).map(|i| (i * 5 + 11) as u8).collect());
    config
}

pub fn ah_config(mode: Mode, suite: SuiteId, v6: bool) -> SaConfig {
    bare_config(SaProtocol::Ah, mode, suite, v6)
}

pub fn sha256() -> SuiteId {
    SuiteId::authenticating(Integrity::HmacSha256).unwrap()
}

pub fn pair_of(config: &SaConfig) -> (OutboundSa, InboundSa) {
    pair(config)
}

pub fn try_seal(sa: &mut OutboundSa, packet: &[u8]) -> Result<Packet<stage::Outer>, DropReason> {
    let limit = usize::from(sa.config().path_mtu);
    ipsec::encap_member(sa, scheduled_out(packet), limit, &mut Codec::default(), &mut pool())
}

pub fn seal(sa: &mut OutboundSa, packet: &[u8]) -> Vec<u8> {
    try_seal(sa, packet).unwrap().bytes().to_vec()
}

/// Open what came from the wire, or out of another association.
pub fn open(sa: &mut InboundSa, outer: &[u8]) -> Result<Vec<u8>, DropReason> {
    let headers = Headers::parse(outer)?;
    let found = match headers.protocol {
        protocol::UDP => Outer::find(outer, &headers, 4500)?,
        _ => Outer::nested(outer, &headers)?,
    };
    // Room for what gets longer, as a buffer of a pool has.
    let packet = Packet::raw(wire::Buf::from_slice(outer, HEADROOM, 65536), wire::Meta::default());
    let packet = packet.advance::<stage::Clean>(&Placed).advance::<stage::Classed>(&Placed).advance(&Placed);
    match ipsec::decap_member(sa, packet, &found, &mut Codec::default(), &mut pool()) {
        Ok(inner) => Ok(inner.bytes().to_vec()),
        Err(reason) => Err(reason),
    }
}

/// An IPv4 packet from Alice to Bob with these options (a multiple of four octets).
pub fn v4_with_options(options: &[u8], upper: &[u8]) -> Vec<u8> {
    let (alice, bob) = hosts(false);
    let plain = ip_packet(alice, bob, protocol::UDP, 0, true, &[options, upper].concat());
    let mut bytes = plain;
    let total = bytes.len() as u16;
    wire::options::put_header_len(&mut bytes, options.len(), total);
    bytes
}

/// An IPv6 packet from Alice to Bob with these extension headers: number, and octets whose first is filled in.
pub fn v6_with_headers(headers: &[(u8, Vec<u8>)], upper: &[u8]) -> Vec<u8> {
    let (alice, bob) = hosts(true);
    let mut chain = Vec::new();
    for (at, (_, octets)) in headers.iter().enumerate() {
        assert_eq!(octets.len() % 8, 0);
        let next = headers.get(at + 1).map_or(protocol::UDP, |(number, _)| *number);
        chain.push(next);
        chain.extend(&octets[1..]);
    }
    chain.extend(upper);
    ip_packet(alice, bob, headers.first().map_or(protocol::UDP, |(n, _)| *n), 0, true, &chain)
}
