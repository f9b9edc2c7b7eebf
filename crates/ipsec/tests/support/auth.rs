//! Integrity alone, for the tests of AH: an implementation of its own beside that of the product.
#![allow(dead_code, missing_docs, reason = "each test binary uses its part")]

use crate::support::*;
use crypto::{Authenticator, CryptoError, Integrity, Provider, Registry, Secret, SuiteId, Transform};
use hmac::{Hmac, KeyInit, Mac};
use ipsec::{Codec, Outer};
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use sadb::sa::{Encapsulation, SaProtocol};
use sadb::{InboundSa, Mode, OutboundSa, SaConfig, Spi};
use sha2::{Sha256, Sha384, Sha512};
use wire::ip::Headers;
use wire::{DropReason, Packet, Verdict, protocol, stage};

pub struct Auth;

struct HmacKey<M> {
    mac: M,
    len: usize,
}

impl<M: Mac + Clone + Send + Sync> HmacKey<M> {
    fn over(&self, parts: &[&[u8]]) -> M {
        let mut mac = self.mac.clone();
        for part in parts {
            Mac::update(&mut mac, part);
        }
        mac
    }
}

impl<M: Mac + Clone + Send + Sync> Authenticator for HmacKey<M> {
    fn len(&self) -> usize {
        self.len
    }

    fn sign(&self, _: u64, parts: &[&[u8]], out: &mut [u8]) {
        out.copy_from_slice(&self.over(parts).finalize().into_bytes()[..self.len]);
    }

    fn verify(&self, parts: &[&[u8]], icv: &[u8]) -> bool {
        icv.len() == self.len && self.over(parts).verify_truncated_left(icv).is_ok()
    }
}

struct Gmac {
    key: LessSafeKey,
    salt: [u8; 4],
}

impl Gmac {
    fn tag(&self, iv: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.salt);
        nonce[4..].copy_from_slice(iv);
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.key
            .seal_in_place_separate_tag(nonce, Aad::from(parts.concat()), &mut [])
            .unwrap()
            .as_ref()
            .to_vec()
    }
}

impl Authenticator for Gmac {
    fn len(&self) -> usize {
        24
    }

    fn sign(&self, sequence: u64, parts: &[&[u8]], out: &mut [u8]) {
        let iv = sequence.to_be_bytes();
        out[..8].copy_from_slice(&iv);
        out[8..].copy_from_slice(&self.tag(&iv, parts));
    }

    fn verify(&self, parts: &[&[u8]], icv: &[u8]) -> bool {
        icv.len() == 24 && self.tag(&icv[..8], parts) == icv[8..]
    }
}

impl Provider for Auth {
    fn name(&self) -> &'static str {
        "test"
    }

    fn offers(&self, _: SuiteId) -> bool {
        false
    }

    fn transform(&self, suite: SuiteId, _: &Secret, _: bool) -> Result<Box<dyn Transform>, CryptoError> {
        Err(CryptoError::NoProvider(suite))
    }

    fn authenticator(
        &self,
        which: Integrity,
        keymat: &Secret,
    ) -> Result<Box<dyn Authenticator>, CryptoError> {
        let (key, len) = (keymat.expose(), which.icv_len());
        let gmac = |algorithm| {
            let key_len = which.key_len();
            let unbound = UnboundKey::new(algorithm, &key[..key_len]).unwrap();
            Box::new(Gmac { key: LessSafeKey::new(unbound), salt: key[key_len..].try_into().unwrap() })
        };
        Ok(match which {
            Integrity::HmacSha256 => {
                Box::new(HmacKey { mac: Hmac::<Sha256>::new_from_slice(key).unwrap(), len })
            }
            Integrity::HmacSha384 => {
                Box::new(HmacKey { mac: Hmac::<Sha384>::new_from_slice(key).unwrap(), len })
            }
            Integrity::HmacSha512 => {
                Box::new(HmacKey { mac: Hmac::<Sha512>::new_from_slice(key).unwrap(), len })
            }
            Integrity::Aes128Gmac => gmac(&AES_128_GCM),
            Integrity::Aes256Gmac => gmac(&AES_256_GCM),
            other => return Err(CryptoError::NoAuthenticator(other)),
        })
    }
}

pub fn registry() -> Registry {
    crypto_std::registry().unwrap().with(Auth)
}

/// Every suite of ESP that somebody here implements.
pub fn esp_suites() -> Vec<SuiteId> {
    let registry = registry();
    SuiteId::all().filter(|suite| registry.provider(*suite).is_some()).collect()
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
    let registry = registry();
    (OutboundSa::new(config.clone(), &registry).unwrap(), InboundSa::new(mirror(config), &registry).unwrap())
}

pub fn try_seal(sa: &mut OutboundSa, packet: &[u8]) -> Result<Packet<stage::Outer>, DropReason> {
    let limit = usize::from(sa.config().path_mtu);
    match ipsec::encap_member(sa, scheduled_out(packet), limit, &mut Codec::default(), &mut pool()) {
        Verdict::Pass(outer) => Ok(outer),
        Verdict::Drop(reason) => Err(reason),
        other => panic!("{other:?}"),
    }
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
    let packet = packet.advance::<stage::Clean>().advance::<stage::Classed>().advance();
    match ipsec::decap_member(sa, packet, &found, &mut Codec::default(), &mut pool()) {
        Verdict::Pass(inner) => Ok(inner.bytes().to_vec()),
        Verdict::Drop(reason) => Err(reason),
        other => panic!("{other:?}"),
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
